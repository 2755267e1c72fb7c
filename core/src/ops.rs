//! What each op means: one short loop each, generic over the number in which it is computed.
//!
//! With `f32` these are the `scalar` kernel, with `f64` the `reference` that every kernel is judged by. Inputs and
//! outputs are f32 either way; weights are widened exactly before they are multiplied. They are free functions, so
//! that a kernel which overrides an op can still call the definition for what it does not speed up.

use crate::dtype::DType;
use crate::matrix::{Matrix, Rows, RowsMut};
use crate::quant;
use std::ops::{Add, AddAssign, Div, Mul, Neg, Sub};

/// The number in which an op is computed: f32 or f64.
pub trait Real:
    Copy
    + PartialOrd
    + Add<Output = Self>
    + Sub<Output = Self>
    + Mul<Output = Self>
    + Div<Output = Self>
    + Neg<Output = Self>
    + AddAssign
{
    /// Nothing.
    const ZERO: Self;
    /// From a stored or passed number; exact.
    fn of(x: f32) -> Self;
    /// To the number that is passed on; rounded.
    fn f32(self) -> f32;
    /// From a constant.
    fn constant(x: f64) -> Self;
    /// √x.
    fn sqrt(self) -> Self;
    /// eˣ.
    fn exp(self) -> Self;
    /// tanh x.
    fn tanh(self) -> Self;
}

macro_rules! real {
    ($type:ty) => {
        impl Real for $type {
            const ZERO: Self = 0.0;
            fn of(x: f32) -> Self {
                x.into()
            }
            fn f32(self) -> f32 {
                self as f32
            }
            fn constant(x: f64) -> Self {
                x as $type
            }
            fn sqrt(self) -> Self {
                self.sqrt()
            }
            fn exp(self) -> Self {
                self.exp()
            }
            fn tanh(self) -> Self {
                self.tanh()
            }
        }
    };
}
real!(f32);
real!(f64);

/// A matrix product with what belongs to it: `y = scale · x·Wᵀ + bias`.
#[derive(Clone, Copy, Debug)]
pub struct Linear<'a> {
    /// W, stored [out, in].
    pub weight: Matrix<'a>,
    /// One number for each output, or none.
    pub bias: Option<&'a [f32]>,
    /// Factor on the product (not on the bias); 1 for none.
    pub scale: f32,
}

impl<'a> Linear<'a> {
    /// Just the product.
    pub fn plain(weight: Matrix<'a>) -> Linear<'a> {
        Linear { weight, bias: None, scale: 1.0 }
    }

    /// Makes results of bare products, the outputs from `from` on: `y = scale · y + bias`.
    #[inline]
    pub fn finish(&self, from: usize, y: &mut [f32]) {
        if self.scale != 1.0 {
            y.iter_mut().for_each(|y| *y *= self.scale);
        }
        if let Some(bias) = self.bias {
            y.iter_mut().zip(&bias[from..]).for_each(|(y, b)| *y += b);
        }
    }

    /// The part that makes the outputs `from..to`.
    pub fn outputs(&self, from: usize, to: usize) -> Linear<'a> {
        Linear { weight: self.weight.rows_at(from..to), bias: self.bias.map(|b| &b[from..to]), ..*self }
    }
}

/// Σ w·x over one stored row; `w` holds whole blocks and `x` one number for each value in them.
pub fn dot<R: Real>(dtype: DType, w: &[u8], x: &[f32]) -> R {
    let mut sum = R::ZERO;
    let block = dtype.block_values().max(1);
    let mut values = [0.0; 256];
    // As many blocks at a time as fit: a type of one element a block is not widened one by one.
    let blocks = (values.len() / block).max(1);
    let raw = w.chunks(blocks * dtype.block_bytes());
    for (raw, x) in raw.zip(x.chunks(blocks * block)) {
        let values = &mut values[..x.len()];
        quant::decode(dtype, raw, values).expect("a row of a matrix is whole blocks of a decodable type");
        for (w, x) in values.iter().zip(x) {
            sum += R::of(*w) * R::of(*x);
        }
    }
    sum
}

/// `out[t][o] = scale · Σᵢ W[o][i]·x[t][i] + bias[o]`.
pub fn matmul<R: Real>(linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
    matmul_by(linear, x, out, |dtype, w, x| dot::<R>(dtype, w, x));
}

/// The same with another way to sum a row: what a kernel that only overrides `dot` runs.
pub fn matmul_by<R: Real>(
    linear: Linear<'_>,
    x: Rows<'_>,
    mut out: RowsMut<'_>,
    dot: impl Fn(DType, &[u8], &[f32]) -> R,
) {
    let w = linear.weight;
    assert_eq!((x.cols(), x.rows(), w.rows()), (w.cols(), out.rows(), out.cols()), "{w:?} does not fit");
    for t in 0..x.rows() {
        for (o, y) in out.row(t).iter_mut().enumerate() {
            let mut sum = dot(w.dtype(), w.row(o), x.row(t)) * R::of(linear.scale);
            if let Some(bias) = linear.bias {
                sum += R::of(bias[o]);
            }
            *y = sum.f32();
        }
    }
}

/// `out[t] = W[ids[t]]`, widened. Panics if an id has no row.
pub fn embed(w: Matrix<'_>, ids: &[u32], mut out: RowsMut<'_>) {
    for (t, id) in ids.iter().enumerate() {
        quant::decode(w.dtype(), w.row(*id as usize), out.row(t))
            .expect("a row is whole blocks of a decodable type");
    }
}

/// RMS norm of each run of `weight.len()` numbers of each row: `x / √(mean x² + ε) · w`.
///
/// A row holds one such run, or one for each head.
pub fn rms_norm<R: Real>(mut x: RowsMut<'_>, weight: &[f32], eps: f32) {
    for t in 0..x.rows() {
        for run in x.row(t).chunks_mut(weight.len().max(1)) {
            let mut squares = R::ZERO;
            for v in run.iter() {
                squares += R::of(*v) * R::of(*v);
            }
            let root = (squares / R::constant(run.len() as f64) + R::of(eps)).sqrt();
            for (v, w) in run.iter_mut().zip(weight) {
                *v = (R::of(*v) / root * R::of(*w)).f32();
            }
        }
    }
}

/// Layer norm of each row: `(x - mean x) / √(var x + ε) · w + b`, the variance divided by the width.
pub fn layer_norm<R: Real>(mut x: RowsMut<'_>, weight: &[f32], bias: &[f32], eps: f32) {
    let width = R::constant(x.cols() as f64);
    for t in 0..x.rows() {
        let row = x.row(t);
        let mut sum = R::ZERO;
        row.iter().for_each(|v| sum += R::of(*v));
        let mean = sum / width;
        let mut squares = R::ZERO;
        row.iter().for_each(|v| squares += (R::of(*v) - mean) * (R::of(*v) - mean));
        let root = (squares / width + R::of(eps)).sqrt();
        for ((v, w), b) in row.iter_mut().zip(weight).zip(bias) {
            *v = ((R::of(*v) - mean) / root * R::of(*w) + R::of(*b)).f32();
        }
    }
}

/// Which elements a rotation pairs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pairing {
    /// `a` with `a + r/2` (GPT-NeoX style).
    Halves,
    /// `2a` with `2a + 1` (GPT-J style).
    Neighbours,
}

impl Pairing {
    /// The two elements, of `2 · half` that turn, which angle `a` turns.
    pub fn pair(self, a: usize, half: usize) -> (usize, usize) {
        match self {
            Pairing::Halves => (a, a + half),
            Pairing::Neighbours => (2 * a, 2 * a + 1),
        }
    }
}

/// Rotary angles of some positions, and which part of a head they turn.
#[derive(Clone, Debug)]
pub struct Rotation {
    /// cos, `[positions, r/2]`, any attention factor multiplied in.
    pub cos: Vec<f32>,
    /// sin likewise.
    pub sin: Vec<f32>,
    /// r/2.
    pub half: usize,
    /// Which elements turn together.
    pub pairing: Pairing,
    /// Width of a head.
    pub head: usize,
    /// First turned element of a head; those before it and from `first + r` on are left alone.
    pub first: usize,
}

impl Rotation {
    /// The angles of positions `start..start + n`: `position · frequency`, computed in f64 and rounded once.
    /// `factor` multiplies both cos and sin.
    pub fn new(
        frequencies: &[f64],
        factor: f64,
        start: usize,
        n: usize,
        pairing: Pairing,
        head: usize,
    ) -> Rotation {
        let angles = || (start..start + n).flat_map(|p| frequencies.iter().map(move |f| p as f64 * f));
        Rotation {
            cos: angles().map(|a| (a.cos() * factor) as f32).collect(),
            sin: angles().map(|a| (a.sin() * factor) as f32).collect(),
            half: frequencies.len(),
            pairing,
            head,
            first: 0,
        }
    }
}

/// Turns every head of every row; row `t` stands at the rotation's position `t`.
pub fn rope<R: Real>(mut x: RowsMut<'_>, rotation: &Rotation) {
    let half = rotation.half;
    for t in 0..x.rows() {
        let (cos, sin) = (&rotation.cos[t * half..][..half], &rotation.sin[t * half..][..half]);
        for head in x.row(t).chunks_mut(rotation.head) {
            let part = &mut head[rotation.first..][..2 * half];
            for a in 0..half {
                let (i, j) = rotation.pairing.pair(a, half);
                let (u, w) = (R::of(part[i]), R::of(part[j]));
                let (c, s) = (R::of(cos[a]), R::of(sin[a]));
                part[i] = (u * c - w * s).f32();
                part[j] = (w * c + u * s).f32();
            }
        }
    }
}

/// How queries look at keys.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attending<'a> {
    /// Query heads.
    pub heads: usize,
    /// Key-value heads; query head `i` looks at `i / (heads / kv_heads)`.
    pub kv_heads: usize,
    /// Width of a query and key head.
    pub key: usize,
    /// Width of a value head.
    pub value: usize,
    /// Factor on the scores.
    pub scale: f32,
    /// Position of the first query row; keys are at positions 0 and up.
    pub start: usize,
    /// Whether later positions are hidden.
    pub causal: bool,
    /// How many positions a query sees, itself included.
    pub window: Option<usize>,
    /// `cap · tanh(score / cap)` before masking.
    pub softcap: Option<f32>,
    /// One score for each head that takes part in the softmax and has no value.
    pub sinks: Option<&'a [f32]>,
}

impl Attending<'_> {
    /// Positions of keys that the query at row `t` sees, of `n` there are.
    pub fn seen(&self, t: usize, n: usize) -> std::ops::Range<usize> {
        let at = self.start + t;
        let end = if self.causal { n.min(at + 1) } else { n };
        let first = self.window.map_or(0, |w| (at + 1).saturating_sub(w));
        first.min(end)..end
    }
}

/// Attention over stored keys and values: `k` is `[positions, kv_heads · key]`, `v` `[positions, kv_heads · value]`,
/// `out` one row for each of `q`, `heads · value` wide. The softmax subtracts the largest score.
pub fn attention<R: Real>(
    q: Rows<'_>,
    k: Matrix<'_>,
    v: Matrix<'_>,
    how: Attending<'_>,
    mut out: RowsMut<'_>,
) {
    let group = how.heads / how.kv_heads;
    let (mut scores, mut row) = (Vec::new(), vec![0.0; how.value]);
    for t in 0..q.rows() {
        let seen = how.seen(t, k.rows());
        for h in 0..how.heads {
            let query = &q.row(t)[h * how.key..][..how.key];
            let sink = how.sinks.map(|s| R::of(s[h]));
            scores.clear();
            for p in seen.clone() {
                let mut score = dot::<R>(k.dtype(), head(k, p, h / group, how.key), query) * R::of(how.scale);
                if let Some(cap) = how.softcap.map(R::of) {
                    score = cap * (score / cap).tanh();
                }
                scores.push(score);
            }
            softmax(&mut scores, sink);
            let mut sums = vec![R::ZERO; how.value];
            for (p, weight) in seen.clone().zip(&scores) {
                quant::decode(v.dtype(), head(v, p, h / group, how.value), &mut row)
                    .expect("a head is whole blocks");
                sums.iter_mut().zip(&row).for_each(|(sum, x)| *sum += *weight * R::of(*x));
            }
            let out = &mut out.row(t)[h * how.value..][..how.value];
            out.iter_mut().zip(&sums).for_each(|(y, sum)| *y = sum.f32());
        }
    }
}

/// The bytes of one head of one position.
pub fn head<'a>(kv: Matrix<'a>, position: usize, head: usize, width: usize) -> &'a [u8] {
    let bytes = width / kv.dtype().block_elements() * kv.dtype().block_bytes();
    &kv.row(position)[head * bytes..][..bytes]
}

/// eˢ / Σ eˢ in place, with one more score in the sum.
fn softmax<R: Real>(scores: &mut [R], extra: Option<R>) {
    let larger = |a: R, b: R| if b > a { b } else { a };
    let Some(top) = scores.iter().copied().chain(extra).reduce(larger) else { return };
    let mut sum = extra.map_or(R::ZERO, |s| (s - top).exp());
    for s in scores.iter_mut() {
        *s = (*s - top).exp();
        sum += *s;
    }
    scores.iter_mut().for_each(|s| *s = *s / sum);
}

/// An activation function.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Activation {
    /// x / (1 + e⁻ˣ).
    Silu,
    /// ½x (1 + tanh(√(2/π) (x + 0.044715 x³))).
    GeluTanh,
    /// GPT-OSS: `min(x, limit) · σ(alpha · min(x, limit))`; its partner is clamped to ±limit and has 1 added.
    Clamped {
        /// Factor inside the sigmoid.
        alpha: f32,
        /// Bound.
        limit: f32,
    },
}

impl Activation {
    fn of<R: Real>(self, x: R) -> R {
        let one = R::constant(1.0);
        match self {
            Activation::Silu => x / (one + (-x).exp()),
            Activation::GeluTanh => {
                let inner = R::constant((2.0 / std::f64::consts::PI).sqrt())
                    * (x + R::constant(0.044_715) * x * x * x);
                R::constant(0.5) * x * (one + inner.tanh())
            }
            Activation::Clamped { alpha, limit } => {
                let x = if x > R::of(limit) { R::of(limit) } else { x };
                x / (one + (-(R::of(alpha) * x)).exp())
            }
        }
    }

    /// What the activated number is multiplied by.
    fn partner<R: Real>(self, u: R) -> R {
        match self {
            Activation::Clamped { limit, .. } => {
                let (low, high) = (-R::of(limit), R::of(limit));
                let clamped = if u < low {
                    low
                } else if u > high {
                    high
                } else {
                    u
                };
                clamped + R::constant(1.0)
            }
            _ => u,
        }
    }
}

/// `x = act(x)`.
pub fn activate<R: Real>(activation: Activation, mut x: RowsMut<'_>) {
    for t in 0..x.rows() {
        x.row(t).iter_mut().for_each(|v| *v = activation.of(R::of(*v)).f32());
    }
}

/// `gate = act(gate) · up`.
pub fn gate<R: Real>(activation: Activation, mut gate: RowsMut<'_>, up: Rows<'_>) {
    for t in 0..gate.rows() {
        for (g, u) in gate.row(t).iter_mut().zip(up.row(t)) {
            *g = (activation.of(R::of(*g)) * activation.partner(R::of(*u))).f32();
        }
    }
}

/// `x = x + factor · y`.
pub fn add<R: Real>(mut x: RowsMut<'_>, y: Rows<'_>, factor: f32) {
    for t in 0..x.rows() {
        x.row(t)
            .iter_mut()
            .zip(y.row(t))
            .for_each(|(x, y)| *x = (R::of(*x) + R::of(factor) * R::of(*y)).f32());
    }
}

/// `x = factor · x`.
pub fn scale<R: Real>(mut x: RowsMut<'_>, factor: f32) {
    for t in 0..x.rows() {
        x.row(t).iter_mut().for_each(|x| *x = (R::of(*x) * R::of(factor)).f32());
    }
}

/// `x = cap · tanh(x / cap)`.
pub fn softcap<R: Real>(mut x: RowsMut<'_>, cap: f32) {
    for t in 0..x.rows() {
        x.row(t).iter_mut().for_each(|x| *x = (R::of(cap) * (R::of(*x) / R::of(cap)).tanh()).f32());
    }
}

/// How a router's logits become weights.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scoring {
    /// Softmax over all experts.
    Softmax,
    /// A sigmoid of each.
    Sigmoid,
    /// Softmax over the chosen ones only.
    SoftmaxOfChosen,
}

/// How a router chooses experts.
#[derive(Clone, Copy, Debug)]
pub struct Routing<'a> {
    /// How many each token uses.
    pub used: usize,
    /// How logits become weights.
    pub scoring: Scoring,
    /// Added to the scores for choosing, not for weighing.
    pub bias: Option<&'a [f32]>,
    /// Experts come in `.0` groups, of which the `.1` with the largest sum of their two best scores may be chosen from.
    pub groups: Option<(usize, usize)>,
    /// Whether the chosen weights are divided by their sum.
    pub normalise: bool,
    /// Factor on the weights.
    pub scale: f32,
}

/// The experts of each row with their weights, best first; of equal scores the lower number. `used` to a row.
pub fn route<R: Real>(logits: Rows<'_>, how: Routing<'_>) -> Vec<(usize, f32)> {
    let mut all = Vec::with_capacity(logits.rows() * how.used);
    for row in logits.iter() {
        let mut scores: Vec<R> = row.iter().map(|x| R::of(*x)).collect();
        match how.scoring {
            Scoring::Softmax => softmax(&mut scores, None),
            Scoring::Sigmoid => {
                scores.iter_mut().for_each(|s| *s = R::constant(1.0) / (R::constant(1.0) + (-*s).exp()));
            }
            Scoring::SoftmaxOfChosen => {}
        }
        let bias = |e: usize| how.bias.map_or(R::ZERO, |b| R::of(b[e]));
        let choice: Vec<R> = scores.iter().enumerate().map(|(e, s)| *s + bias(e)).collect();
        let chosen = best(allowed(&choice, how.groups), &choice, how.used);
        let mut weights: Vec<R> = chosen.iter().map(|e| scores[*e]).collect();
        if how.scoring == Scoring::SoftmaxOfChosen {
            softmax(&mut weights, None);
        }
        if how.normalise {
            let mut sum = R::constant(1e-20);
            weights.iter().for_each(|w| sum += *w);
            weights.iter_mut().for_each(|w| *w = *w / sum);
        }
        all.extend(chosen.into_iter().zip(weights.iter().map(|w| (*w * R::of(how.scale)).f32())));
    }
    all
}

/// Experts of the groups that may be chosen from.
fn allowed<R: Real>(choice: &[R], groups: Option<(usize, usize)>) -> Vec<usize> {
    let Some((groups, kept)) = groups else { return (0..choice.len()).collect() };
    let size = choice.len() / groups.max(1);
    let members = |g: usize| (g * size..(g + 1) * size).collect::<Vec<_>>();
    let sums: Vec<R> = (0..groups)
        .map(|g| best(members(g), choice, 2).into_iter().fold(R::ZERO, |sum, e| sum + choice[e]))
        .collect();
    let mut kept = best((0..groups).collect(), &sums, kept);
    kept.sort_unstable();
    kept.into_iter().flat_map(members).collect()
}

/// The `n` candidates with the largest scores, best first; of equal ones the earlier.
fn best<R: Real>(mut candidates: Vec<usize>, scores: &[R], n: usize) -> Vec<usize> {
    candidates.sort_by(|a, b| scores[*b].partial_cmp(&scores[*a]).unwrap_or(std::cmp::Ordering::Equal));
    candidates.truncate(n);
    candidates
}

/// Multiplies and adds on registers, 128 operations a round: see [`Kernel::saturate`](crate::kernel::Kernel::saturate).
pub fn saturate(rounds: u64) -> u64 {
    let mut sums = [0.5f32; 64];
    let factor = std::hint::black_box(0.999_f32);
    for _ in 0..rounds {
        sums.iter_mut().for_each(|s| *s = *s * factor + factor);
    }
    std::hint::black_box(sums);
    rounds * 128
}

/// Reads every byte: see [`Kernel::sweep`](crate::kernel::Kernel::sweep).
#[inline(always)]
pub fn sweep(data: &[u8]) -> u64 {
    let (words, rest) = data.as_chunks::<8>();
    let sum = words.iter().fold(0u64, |sum, w| sum.wrapping_add(u64::from_ne_bytes(*w)));
    rest.iter().fold(sum, |sum, b| sum.wrapping_add(u64::from(*b)))
}
