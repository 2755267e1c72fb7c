//! How far a kernel's outputs may be from the definitions in f64, derived for each op.
//!
//! All bounds are in units of `u` = 2⁻²⁴, the most by which one f32 operation is off, relative to its result. A sum
//! of n terms is off by at most `n·u·Σ|term|`, whatever its order; but the roundings of a sum go either way. With
//! terms of one sign, whose partial sums are largest, their standard deviation is below `√n/3 · u·Σ|term|`, so that
//! `3√n` is nine of them. [`steps`] is the smaller of both, and a constant for the roundings around a sum.
//!
//! Every bound is on the terms' sizes, never on their sum, which may cancel. A wrong formula is off by far more: a
//! dropped term by `1/n`, a sum of bf16 by `2⁻⁹`.

use crate::kernel::Precision;
use crate::matrix::{Matrix, Rows};
use crate::ops::{self, Activation, Attending, Linear, Rotation, Routing, Scoring};
use crate::quant;

/// Unit roundoff of f32.
pub const ROUNDOFF: f64 = 1.0 / 16_777_216.0;

/// Results below this size are not told from zero: near the end of what f32 holds, eˣ overflows and quotients are
/// flushed at slightly different places.
pub const TINY: f64 = 1e-35;

/// By how many roundings of its terms' total size a sum of `n` products may be off.
pub fn steps(n: usize) -> f64 {
    let n = n as f64;
    4.0 + n.min(3.0 * n.sqrt())
}

/// What a comparison found.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// Largest difference.
    pub max_abs: f64,
    /// The same as a share of the largest expected number.
    pub max_rel: f64,
    /// The element that comes closest to its bound or furthest beyond it; none of no elements.
    pub worst: Option<Worst>,
    /// Elements that no bound says anything of: what was found or expected is not finite, or the bound is not. NaN has
    /// to be NaN there and an infinity that infinity, but nothing was measured.
    pub not_finite: usize,
    /// Whether every element is within its bound.
    pub pass: bool,
}

/// An element of an output, row after row.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Worst {
    /// Its number.
    pub at: usize,
    /// What the kernel gave.
    pub found: f32,
    /// What the definition gives.
    pub expected: f32,
    /// By how much they may differ.
    pub bound: f64,
}

impl Judgement {
    /// Compares outputs with what they should be, each with its own bound. NaN has to be NaN, an infinity the same
    /// infinity, or a number that its bound takes beyond the end of f32; where the bound itself is not finite (an
    /// infinity among what is summed, or terms that together are beyond f32, whose partial sums may overflow in one
    /// order and not in another), anything that is not finite will do.
    pub fn of(found: &[f32], expected: &[f32], bounds: &[f64]) -> Judgement {
        assert_eq!((found.len(), bounds.len()), (expected.len(), expected.len()), "a bound for each element");
        let (mut max_abs, mut size, mut most, mut worst) = (0.0f64, 0.0f64, -1.0, None);
        let mut not_finite = 0;
        for (at, ((found, expected), bound)) in found.iter().zip(expected).zip(bounds).enumerate() {
            let error = difference(*found, *expected, *bound);
            let share = match error / bound {
                _ if error == 0.0 => 0.0,
                share if share.is_nan() => f64::INFINITY,
                share => share,
            };
            if share > most {
                most = share;
                worst = Some(Worst { at, found: *found, expected: *expected, bound: *bound });
            }
            max_abs = max_abs.max(error);
            not_finite += usize::from(!(found.is_finite() && expected.is_finite() && bound.is_finite()));
            if expected.is_finite() {
                size = size.max(f64::from(expected.abs()));
            }
        }
        let max_rel = if max_abs == 0.0 { 0.0 } else { max_abs / size.max(TINY) };
        Judgement { max_abs, max_rel, worst, not_finite, pass: most <= 1.0 }
    }

    /// The same where only equal numbers will do (any NaN equals any other, and -0 equals 0).
    pub fn equal(found: &[f32], expected: &[f32]) -> Judgement {
        Judgement::of(found, expected, &vec![0.0; expected.len()])
    }
}

fn difference(found: f32, expected: f32, bound: f64) -> f64 {
    let alike = found == expected
        || found.is_nan() && expected.is_nan()
        || !bound.is_finite() && !found.is_finite()
        || overflows(found, expected, bound)
        || overflows(expected, found, bound);
    match alike {
        true => 0.0,
        false if found.is_finite() && expected.is_finite() => (f64::from(found) - f64::from(expected)).abs(),
        false => f64::INFINITY,
    }
}

/// Whether one is an infinity, and the other a number so near the end of f32 that the bound reaches beyond it.
fn overflows(infinite: f32, finite: f32, bound: f64) -> bool {
    let reaches = f64::from(finite.abs()) + bound >= f64::from(f32::MAX);
    infinite.is_infinite() && finite.is_finite() && infinite.signum() == finite.signum() && reaches
}

/// What the roundings of a product with `w` are measured by: `|w|`, but the largest of its block where a block
/// shares scales. There a kernel may sum codes and offsets apart, whose sizes only a block's largest shows.
fn sizes(w: &[f32], block: usize) -> Vec<f64> {
    let largest = |run: &[f32]| run.iter().fold(0.0f64, |m, w| m.max(f64::from(w.abs())));
    w.chunks(block.max(1)).flat_map(|run| std::iter::repeat_n(largest(run), run.len())).collect()
}

fn widened(w: Matrix<'_>, row: usize) -> Vec<f32> {
    let mut values = vec![0.0; w.cols()];
    quant::decode(w.dtype(), w.row(row), &mut values).expect("a row is whole blocks of a decodable type");
    values
}

fn product(a: &[f64], x: &[f32]) -> f64 {
    a.iter().zip(x).map(|(a, x)| a * f64::from(x.abs())).sum()
}

/// Of `scale · x·Wᵀ + bias`: `u·steps(n)·Σ|w·x|` of the scaled sum, two roundings of each part after it, and what
/// quantised activations add.
///
/// An activation rounded to 8 bits is off by up to `m/254`, m the largest of its block, so a product by up to
/// `Σ|w|·m / 254`; and as these roundings are uniform and go either way, six standard deviations of
/// `√(Σ w²·(m/127)²/12)` hold for any input that was not made for it. The smaller of both.
///
/// Where the terms together are beyond f32, no bound is finite: what a sum in f32 comes to then is a matter of its order.
pub fn matmul(linear: Linear<'_>, x: Rows<'_>, precision: Precision) -> Vec<f64> {
    let w = linear.weight;
    let block = if w.dtype().is_quantised() { w.dtype().block_elements() } else { 1 };
    let scale = f64::from(linear.scale.abs());
    let peaks: Vec<Vec<f64>> = x.iter().map(|row| peaks(row, precision)).collect();
    let mut bounds = vec![0.0; x.rows() * w.rows()];
    for o in 0..w.rows() {
        let values = widened(w, o);
        let sizes = sizes(&values, block);
        let bias = linear.bias.map_or(0.0, |b| f64::from(b[o].abs()));
        for (t, row) in x.iter().enumerate() {
            let size = product(&sizes, row);
            let exact = (steps(w.cols()) + 2.0) * scale * size + 2.0 * bias;
            let bound = ROUNDOFF * exact + scale * rounded(&values, &peaks[t]) + TINY;
            let within = size.max(scale * size + bias) <= f64::from(f32::MAX);
            bounds[t * w.rows() + o] = if within { bound } else { f64::INFINITY };
        }
    }
    bounds
}

/// For each activation the largest of its block; nothing if they are not rounded.
fn peaks(x: &[f32], precision: Precision) -> Vec<f64> {
    match precision {
        Precision::Exact => Vec::new(),
        Precision::Quantised { block } => sizes(x, block),
    }
}

fn rounded(w: &[f32], peaks: &[f64]) -> f64 {
    let (mut hard, mut variance) = (0.0, 0.0);
    for (w, peak) in w.iter().zip(peaks) {
        hard += f64::from(w.abs()) * peak / 254.0;
        variance += (f64::from(*w) * peak / 127.0).powi(2) / 12.0;
    }
    // A thousandth for the rounding of the scale itself.
    1.001 * f64::min(hard, 6.0 * variance.sqrt())
}

/// Of one row's `Σ w·x` in f32.
pub fn dot(w: Matrix<'_>, x: &[f32]) -> f64 {
    let bounds = matmul(Linear::plain(w), Rows::new(x, 1, x.len()), Precision::Exact);
    bounds.into_iter().sum()
}

fn relative(expected: &[f32], roundings: f64) -> Vec<f64> {
    expected.iter().map(|y| roundings * ROUNDOFF * f64::from(y.abs()) + TINY).collect()
}

/// Of an RMS norm over runs of `n`, by its result: a sum without cancelling, half of whose error is left by the
/// root, and a few roundings after it.
pub fn rms_norm(n: usize, expected: &[f32]) -> Vec<f64> {
    relative(expected, 8.0 + steps(n) / 2.0)
}

/// Of a layer norm: of the quotient as in an RMS norm; of the mean, a sum that may cancel; of the bias.
pub fn layer_norm(x: Rows<'_>, weight: &[f32], bias: &[f32], eps: f32) -> Vec<f64> {
    let n = x.cols().max(1) as f64;
    let many = steps(x.cols());
    let mut bounds = Vec::with_capacity(x.rows() * x.cols());
    for row in x.iter() {
        let mean = row.iter().map(|v| f64::from(*v)).sum::<f64>() / n;
        let size = row.iter().map(|v| f64::from(v.abs())).sum::<f64>() / n;
        let variance = row.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / n;
        let root = (variance + f64::from(eps)).sqrt();
        for ((v, w), b) in row.iter().zip(weight).zip(bias) {
            let (v, w, b) = (f64::from(*v), f64::from(*w), f64::from(*b));
            let quotient = (8.0 + many / 2.0) * (v - mean).abs() + many * size + 2.0 * v.abs();
            bounds.push(ROUNDOFF * (quotient / root * w.abs() + 2.0 * b.abs()) + TINY);
        }
    }
    bounds
}

/// Of a rotation: two products and a sum, of the pair's size. What does not turn may not change.
pub fn rope(x: Rows<'_>, rotation: &Rotation) -> Vec<f64> {
    let half = rotation.half;
    let mut bounds = vec![0.0; x.rows() * x.cols()];
    for (t, row) in x.iter().enumerate() {
        for (h, head) in row.chunks(rotation.head).enumerate() {
            let at = |i: usize| t * x.cols() + h * rotation.head + rotation.first + i;
            for a in 0..half {
                let (i, j) = rotation.pairing.pair(a, half);
                let size = |i: usize| f64::from(head[rotation.first + i].abs());
                let (u, w) = (size(i), size(j));
                let (c, s) = (rotation.cos[t * half + a].abs(), rotation.sin[t * half + a].abs());
                let (c, s) = (f64::from(c), f64::from(s));
                bounds[at(i)] = 3.0 * ROUNDOFF * (u * c + w * s) + TINY;
                bounds[at(j)] = 3.0 * ROUNDOFF * (w * c + u * s) + TINY;
            }
        }
    }
    bounds
}

/// Of attention. A score is a dot product, off by `e`; its exponential by the factor `1 ± e`, in the sum of values
/// and in the sum they are divided by, so a result by `Σ p·|v| · 2e`; and both sums round. (The subtraction of the
/// largest score rounds too; but a score t below it counts e⁻ᵗ, and `t·e⁻ᵗ` is below 0.4.)
pub fn attention(q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>) -> Vec<f64> {
    let group = how.heads / how.kv_heads;
    let mut bounds = Vec::with_capacity(q.rows() * how.heads * how.value);
    for (t, row) in q.iter().enumerate() {
        let seen = how.seen(t, k.rows());
        for h in 0..how.heads {
            let query = &row[h * how.key..][..how.key];
            let (mut scores, mut error) = (Vec::new(), 0.0f64);
            for p in seen.clone() {
                let (score, off) = score(head_at(k, p, h / group, how.key), query, how);
                scores.push(score);
                error = error.max(off);
            }
            let sink = how.sinks.map(|s| f64::from(s[h]));
            let top = scores.iter().copied().chain(sink).fold(f64::NEG_INFINITY, f64::max);
            let total: f64 = scores.iter().copied().chain(sink).map(|s| (s - top).exp()).sum();
            let mut size = vec![0.0; how.value];
            for (p, score) in seen.clone().zip(&scores) {
                let weight = (score - top).exp() / total;
                let values = widened(head_at(v, p, h / group, how.value), 0);
                size.iter_mut().zip(&values).for_each(|(s, v)| *s += weight * f64::from(v.abs()));
            }
            let roundings = 2.0 * error + ROUNDOFF * (steps(seen.len()) + 16.0);
            bounds.extend(size.iter().map(|s| s * roundings + TINY));
        }
    }
    bounds
}

fn head_at<'a>(kv: Matrix<'a>, position: usize, head: usize, width: usize) -> Matrix<'a> {
    kv.rows_at(position..position + 1).cols_at(head * width..(head + 1) * width)
}

/// A score and by how much it may be off.
fn score(key: Matrix<'_>, query: &[f32], how: Attending<'_>) -> (f64, f64) {
    let scale = f64::from(how.scale);
    let score = ops::dot::<f64>(key.dtype(), key.row(0), query) * scale;
    let off = dot(key, query) * scale.abs() + 2.0 * ROUNDOFF * score.abs();
    match how.softcap.map(f64::from) {
        // The curve is nowhere steeper than 1.
        Some(cap) => (cap * (score / cap).tanh(), off + capped(score, cap)),
        None => (score, off),
    }
}

/// Of `cap · tanh(x / cap)`: near 0 a tanh made of exponentials cancels, so that it is off by some part of 1.
fn capped(x: f64, cap: f64) -> f64 {
    ROUNDOFF * (8.0 * (cap * (x / cap).tanh()).abs() + 2.0 * cap.abs())
}

/// Of `cap · tanh(x / cap)`.
pub fn softcap(x: Rows<'_>, cap: f32) -> Vec<f64> {
    x.iter().flatten().map(|x| capped(f64::from(*x), f64::from(cap)) + TINY).collect()
}

/// Of an activation: of the quotient a few roundings of it, and of the exponent's in [`Activation::Clamped`]; of the
/// tanh form a few of its argument, since `1 + tanh` cancels.
pub fn activate(activation: Activation, x: Rows<'_>) -> Vec<f64> {
    let mut expected = x.iter().flatten().copied().collect::<Vec<f32>>();
    let cols = expected.len();
    ops::activate::<f64>(activation, crate::matrix::RowsMut::new(&mut expected, 1, cols));
    let each = x.iter().flatten().zip(&expected);
    each.map(|(x, y)| {
        let (x, y) = (f64::from(x.abs()), f64::from(y.abs()));
        let size = match activation {
            Activation::Silu => 8.0 * y,
            Activation::GeluTanh => 8.0 * x,
            Activation::Clamped { alpha, .. } => (8.0 + (f64::from(alpha.abs()) * x).min(128.0)) * y,
        };
        // What becomes of an infinity is no matter of rounding.
        TINY + if x.is_finite() { ROUNDOFF * size } else { 0.0 }
    })
    .collect()
}

/// Of a gate: what its activation is off by times its partner, and a few roundings of the product.
pub fn gate(activation: Activation, gate: Rows<'_>, up: Rows<'_>, expected: &[f32]) -> Vec<f64> {
    let partner = |u: f32| match activation {
        Activation::Clamped { limit, .. } => f64::from(u.clamp(-limit, limit)).abs() + 1.0,
        _ => f64::from(u.abs()),
    };
    let off = activate(activation, gate);
    let each = off.into_iter().zip(up.iter().flatten()).zip(expected);
    each.map(|((off, u), y)| {
        let bound = off * partner(*u) + 4.0 * ROUNDOFF * f64::from(y.abs()) + TINY;
        if bound.is_finite() { bound } else { TINY }
    })
    .collect()
}

/// Of `x + factor · y`: a rounding of each part, and of the sum.
pub fn add(x: Rows<'_>, y: Rows<'_>, factor: f32) -> Vec<f64> {
    let size = |x: f32, y: f32| f64::from(x.abs()) + (f64::from(factor) * f64::from(y)).abs();
    x.iter().flatten().zip(y.iter().flatten()).map(|(x, y)| 2.0 * ROUNDOFF * size(*x, *y) + TINY).collect()
}

/// Of `factor · x`, by its result: one rounding, either way.
pub fn scale(expected: &[f32]) -> Vec<f64> {
    relative(expected, 2.0)
}

/// Holds a router's choice against the definition in f64: the weights, and the experts in the place of weights if
/// those differ.
///
/// Experts have to be the same at every rank, unless the scores that were compared differ by less than they may be
/// off: then the two may change places, but equal scores have an order.
pub fn route(logits: Rows<'_>, how: Routing<'_>, found: &[(usize, f32)]) -> Judgement {
    let expected = ops::route::<f64>(logits, how);
    if found.len() != expected.len() {
        let worst = Worst { at: 0, found: found.len() as f32, expected: expected.len() as f32, bound: 0.0 };
        let (max_abs, max_rel) = (f64::INFINITY, f64::INFINITY);
        return Judgement { max_abs, max_rel, worst: Some(worst), not_finite: 0, pass: false };
    }
    let (mut given, mut wanted, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
    let used = expected.len() / logits.rows().max(1);
    for (i, (found, expected)) in found.iter().zip(&expected).enumerate() {
        let row = logits.row(i / used.max(1));
        let spread = spread(row);
        if found.0 == expected.0 {
            let weight = f64::from(expected.1.abs());
            given.push(found.1);
            wanted.push(expected.1);
            bounds.push(weight * ROUNDOFF * (16.0 + steps(row.len()) + spread) + TINY);
        } else if !close(&choices(row, how), found.0, expected.0, spread) {
            given.push(found.0 as f32);
            wanted.push(expected.0 as f32);
            bounds.push(0.0);
        }
    }
    Judgement::of(&given, &wanted, &bounds)
}

/// From the smallest to the largest score, as far as an exponential tells them apart.
fn spread(row: &[f32]) -> f64 {
    let (low, high) = row.iter().fold((f32::MAX, f32::MIN), |(l, h), x| (l.min(*x), h.max(*x)));
    f64::from(high - low).clamp(0.0, 100.0)
}

fn close(choices: &[f64], a: usize, b: usize, spread: f64) -> bool {
    let (Some(a), Some(b)) = (choices.get(a), choices.get(b)) else { return false };
    a != b && (a - b).abs() <= ROUNDOFF * (16.0 + spread) * a.abs().max(b.abs())
}

/// The scores that experts are chosen by.
fn choices(row: &[f32], how: Routing<'_>) -> Vec<f64> {
    let logits = row.iter().map(|x| f64::from(*x));
    let top = logits.clone().fold(f64::NEG_INFINITY, f64::max);
    let total: f64 = logits.clone().map(|x| (x - top).exp()).sum();
    let scores = logits.map(|x| match how.scoring {
        Scoring::Softmax => (x - top).exp() / total,
        Scoring::Sigmoid => 1.0 / (1.0 + (-x).exp()),
        Scoring::SoftmaxOfChosen => x,
    });
    scores.enumerate().map(|(e, s)| s + how.bias.map_or(0.0, |b| f64::from(b[e]))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dtype::DType;

    fn passes(found: f32, expected: f32, bound: f64) -> bool {
        Judgement::of(&[found], &[expected], &[bound]).pass
    }

    #[test]
    fn what_is_not_finite_is_held_to_its_kind_and_counted() {
        let (nan, inf) = (f32::NAN, f32::INFINITY);
        let found = [1.0, nan, inf, -inf];
        let judged = Judgement::of(&found, &found, &[1e-6; 4]);
        assert!(judged.pass && judged.not_finite == 3 && judged.max_abs == 0.0, "{judged:?}");
        // In place: the same numbers in another order miss.
        assert!(!Judgement::of(&[nan, 1.0], &[1.0, nan], &[1e-6; 2]).pass);
        for (found, expected) in [(inf, -inf), (nan, inf), (inf, nan), (1.0, nan), (nan, 1.0), (inf, 1.0)] {
            assert!(!passes(found, expected, 1e-6), "{found} for {expected}");
        }
    }

    #[test]
    fn the_end_of_f32_is_an_end_within_the_bound() {
        let (inf, most) = (f32::INFINITY, f32::MAX);
        assert!(passes(inf, most, 1e32) && passes(most, inf, 1e32));
        assert!(!passes(-inf, most, 1e32) && !passes(inf, most / 2.0, 1e32) && !passes(inf, 0.0, 1e32));
    }

    #[test]
    fn sums_that_overflow_on_their_way_are_no_miss() {
        let stored: Vec<u8> = [3e38f32, 3e38, -3e38, -3e38].iter().flat_map(|w| w.to_le_bytes()).collect();
        let weight = Matrix::new(DType::F32, 1, 4, &stored).unwrap();
        let bound = |x: f32| matmul(Linear::plain(weight), Rows::new(&[x; 4], 1, 4), Precision::Exact)[0];
        let bounds = [bound(1.0)];
        for found in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, 0.0] {
            let judged = Judgement::of(&[found], &[0.0], &bounds);
            assert!(judged.pass && judged.not_finite == 1, "{found}: {judged:?}");
        }
        // A sum that has room is held to its bound.
        assert!(!passes(f32::INFINITY, 0.0, bound(0.25)) && !passes(1e38, 0.0, bound(0.25)));
        // A factor that comes after the sum does not bring it back.
        let scaled = Linear { scale: 1e-30, ..Linear::plain(weight) };
        assert!(matmul(scaled, Rows::new(&[1.0; 4], 1, 4), Precision::Exact)[0].is_infinite());
    }
}
