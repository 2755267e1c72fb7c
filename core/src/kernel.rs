//! Numeric backends: what an op means stands in [`ops`], a kernel may only be faster.

use crate::distance::{Accumulate, Distance, Plainly, Run};
use crate::dtype::DType;
use crate::matrix::{Matrix, Rows, RowsBuf, RowsMut};
use crate::ops::{self, Activation, Attending, Linear, Rotation, Routing};
use crate::quant::{self, DecodeError};
use crate::stats::piece::tally_by;
use crate::stats::tally::Tally;

/// Forwards an op to the kernel inherited from, or to its definition.
macro_rules! inherited {
    ($self:ident.$op:ident($($arg:expr),*) or $definition:expr) => {
        match $self.base() {
            Some(base) => base.$op($($arg),*),
            None => $definition,
        }
    };
}

/// A numeric backend. Ops that are not overridden are inherited from [`base`](Self::base), or mean what the
/// definition in [`ops`] says. A default body is compiled for each backend, so one that overrides
/// [`dot`](Self::dot) alone speeds up every product.
pub trait Kernel: Send + Sync {
    /// Its name, with that of any kernel it wraps: `rayon+avx2`.
    fn name(&self) -> String;

    /// The kernel from which ops are inherited.
    fn base(&self) -> Option<&dyn Kernel> {
        None
    }

    /// What it does to the activations of a product: how far its products may be from the definition.
    /// A kernel that overrides products with rounded ones overrides this too.
    fn precision(&self) -> Precision {
        inherited!(self.precision() or Precision::Exact)
    }

    /// On how many threads it works: one, but for kernels that spread others and got more.
    fn threads(&self) -> usize {
        inherited!(self.threads() or 1)
    }

    /// Bytes that it takes for itself, on all its threads together, while it does a piece of work: at most, and never
    /// less for more rows or positions. What an op's definition takes for itself is next to nothing.
    fn scratch(&self, job: &Job) -> usize {
        inherited!(self.scratch(job) or 0)
    }

    /// What it has to say about the work done so far, a line each, for whoever shows it: nothing, but for kernels
    /// that watch another (`verify`, `profile`).
    fn report(&self) -> Vec<String> {
        inherited!(self.report() or Vec::new())
    }

    /// Tells what stored bytes are called, for reports: a matrix within them goes by that name. Nothing comes of it
    /// but in kernels that have something to report.
    fn label(&self, data: &[u8], name: &str) {
        inherited!(self.label(data, name) or ())
    }

    /// Widens stored blocks to f32; see [`quant::decode`].
    fn decode(&self, dtype: DType, raw: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
        inherited!(self.decode(dtype, raw, out) or quant::decode(dtype, raw, out))
    }

    /// How far two runs of numbers are apart; see [`Distance::of`], whose bits every kernel gives.
    fn distance(
        &self,
        accumulate: Accumulate,
        first: u64,
        pair: [&[f32]; 2],
        run: usize,
        runs: &mut Vec<Run>,
    ) -> Distance {
        inherited!(self.distance(accumulate, first, pair, run, runs) or
            Distance::of(Plainly, accumulate, first, pair, run, runs))
    }

    /// Count, limits, mean, spread and oddities of stored blocks; see [`tally_by`].
    fn tally(&self, dtype: DType, raw: &[u8]) -> Result<Tally, DecodeError> {
        inherited!(self.tally(dtype, raw) or
            tally_by(dtype, raw, |raw, out| self.decode(dtype, raw, out)))
    }

    /// Σ w·x over one stored row; see [`ops::dot`].
    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        inherited!(self.dot(dtype, w, x) or ops::dot(dtype, w, x))
    }

    /// A product with a stored matrix; see [`ops::matmul`].
    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        inherited!(self.matmul(linear, x, out) or
            ops::matmul_by(linear, x, out, |dtype, w, x| self.dot(dtype, w, x)))
    }

    /// Several products with one input, which a kernel may prepare once. The same as one [`matmul`](Self::matmul)
    /// after the other.
    fn matmuls(&self, linears: &[Linear<'_>], x: Rows<'_>, outs: Vec<RowsMut<'_>>) {
        inherited!(self.matmuls(linears, x, outs) or
            linears.iter().zip(outs).for_each(|(linear, out)| self.matmul(*linear, x, out)))
    }

    /// Rows of a stored matrix, widened; see [`ops::embed`].
    fn embed(&self, w: Matrix<'_>, ids: &[u32], out: RowsMut<'_>) {
        inherited!(self.embed(w, ids, out) or ops::embed(w, ids, out))
    }

    /// See [`ops::rms_norm`].
    fn rms_norm(&self, x: RowsMut<'_>, weight: &[f32], eps: f32) {
        inherited!(self.rms_norm(x, weight, eps) or ops::rms_norm::<f32>(x, weight, eps))
    }

    /// See [`ops::layer_norm`].
    fn layer_norm(&self, x: RowsMut<'_>, weight: &[f32], bias: &[f32], eps: f32) {
        inherited!(self.layer_norm(x, weight, bias, eps) or ops::layer_norm::<f32>(x, weight, bias, eps))
    }

    /// See [`ops::rope`].
    fn rope(&self, x: RowsMut<'_>, rotation: &Rotation) {
        inherited!(self.rope(x, rotation) or ops::rope::<f32>(x, rotation))
    }

    /// See [`ops::attention`].
    fn attention(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, out: RowsMut<'_>) {
        inherited!(self.attention(q, k, v, how, out) or ops::attention::<f32>(q, k, v, how, out))
    }

    /// See [`ops::activate`].
    fn activate(&self, activation: Activation, x: RowsMut<'_>) {
        inherited!(self.activate(activation, x) or ops::activate::<f32>(activation, x))
    }

    /// See [`ops::gate`].
    fn gate(&self, activation: Activation, gate: RowsMut<'_>, up: Rows<'_>) {
        inherited!(self.gate(activation, gate, up) or ops::gate::<f32>(activation, gate, up))
    }

    /// See [`ops::add`].
    fn add(&self, x: RowsMut<'_>, y: Rows<'_>, factor: f32) {
        inherited!(self.add(x, y, factor) or ops::add::<f32>(x, y, factor))
    }

    /// See [`ops::scale`].
    fn scale(&self, x: RowsMut<'_>, factor: f32) {
        inherited!(self.scale(x, factor) or ops::scale::<f32>(x, factor))
    }

    /// See [`ops::softcap`].
    fn softcap(&self, x: RowsMut<'_>, cap: f32) {
        inherited!(self.softcap(x, cap) or ops::softcap::<f32>(x, cap))
    }

    /// Does nothing but this kernel's densest multiply-add loop, on registers, for `rounds` rounds. Returns how many
    /// operations that were, a multiply and an add counted as two; with a clock beside it, the most that any
    /// product of this kernel could reach.
    fn saturate(&self, rounds: u64) -> u64 {
        inherited!(self.saturate(rounds) or ops::saturate(rounds))
    }

    /// Reads every byte once, and returns something that depends on them all; with a clock beside it, the most
    /// that any op could reach whose input comes from memory.
    fn sweep(&self, data: &[u8]) -> u64 {
        inherited!(self.sweep(data) or ops::sweep(data))
    }

    /// See [`ops::route`].
    fn route(&self, logits: Rows<'_>, how: Routing<'_>) -> Vec<(usize, f32)> {
        inherited!(self.route(logits, how) or ops::route::<f32>(logits, how))
    }
}

/// The definitions in f64: what every kernel is judged by. Not a plugin, since nobody would compute with it.
pub struct Reference;

impl Kernel for Reference {
    fn name(&self) -> String {
        "reference".to_owned()
    }

    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        ops::dot::<f64>(dtype, w, x) as f32
    }

    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        ops::matmul::<f64>(linear, x, out);
    }

    fn rms_norm(&self, x: RowsMut<'_>, weight: &[f32], eps: f32) {
        ops::rms_norm::<f64>(x, weight, eps);
    }

    fn layer_norm(&self, x: RowsMut<'_>, weight: &[f32], bias: &[f32], eps: f32) {
        ops::layer_norm::<f64>(x, weight, bias, eps);
    }

    fn rope(&self, x: RowsMut<'_>, rotation: &Rotation) {
        ops::rope::<f64>(x, rotation);
    }

    fn attention(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, out: RowsMut<'_>) {
        ops::attention::<f64>(q, k, v, how, out);
    }

    fn activate(&self, activation: Activation, x: RowsMut<'_>) {
        ops::activate::<f64>(activation, x);
    }

    fn gate(&self, activation: Activation, gate: RowsMut<'_>, up: Rows<'_>) {
        ops::gate::<f64>(activation, gate, up);
    }

    fn add(&self, x: RowsMut<'_>, y: Rows<'_>, factor: f32) {
        ops::add::<f64>(x, y, factor);
    }

    fn scale(&self, x: RowsMut<'_>, factor: f32) {
        ops::scale::<f64>(x, factor);
    }

    fn softcap(&self, x: RowsMut<'_>, cap: f32) {
        ops::softcap::<f64>(x, cap);
    }

    fn route(&self, logits: Rows<'_>, how: Routing<'_>) -> Vec<(usize, f32)> {
        ops::route::<f64>(logits, how)
    }
}

/// The same ops, returning what they make: a forward pass then reads as formulas.
impl dyn Kernel + '_ {
    /// `scale · x·Wᵀ + bias`.
    pub fn project(&self, linear: Linear<'_>, x: Rows<'_>) -> RowsBuf {
        let mut out = RowsBuf::zeros(x.rows(), linear.weight.rows());
        self.matmul(linear, x, out.view_mut());
        out
    }

    /// The widened rows of ids.
    pub fn embedded(&self, w: Matrix<'_>, ids: &[u32]) -> RowsBuf {
        let mut out = RowsBuf::zeros(ids.len(), w.cols());
        self.embed(w, ids, out.view_mut());
        out
    }

    /// The RMS norm of a copy of x.
    pub fn normed(&self, x: Rows<'_>, weight: &[f32], eps: f32) -> RowsBuf {
        let mut out = RowsBuf::copy_of(x);
        self.rms_norm(out.view_mut(), weight, eps);
        out
    }

    /// What the queries gather from the values.
    pub fn attended(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>) -> RowsBuf {
        let mut out = RowsBuf::zeros(q.rows(), how.heads * how.value);
        self.attention(q, k, v, how, out.view_mut());
        out
    }
}

/// What a kernel does to the activations of a product.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Precision {
    /// Products of f32 activations, f32 sums: fit for exact work.
    Exact,
    /// The activations of a product are rounded to 8 bits first, in blocks of at most so many: fast, but each
    /// activation is off by up to `max|x| / 254` of its block, so a product by up to `Σ|w|·max|x| / 254`.
    Quantised {
        /// Elements that share a scale.
        block: usize,
    },
}

/// A piece of work, by its sizes.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Job {
    /// A product of activations with a stored matrix.
    Product {
        /// Element type of the matrix.
        dtype: DType,
        /// Inputs.
        cols: usize,
        /// Rows of activations.
        rows: usize,
    },
    /// Attention.
    Attention {
        /// The heads.
        how: Attending<'static>,
        /// Rows of queries.
        queries: usize,
        /// Positions of keys and values.
        positions: usize,
    },
}

/// How a kernel is to run.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// Threads for kernels that use several; 0 for one to a core.
    pub threads: usize,
}

/// How a kernel comes about.
#[derive(Clone, Copy, Debug)]
pub enum Make {
    /// On its own; says why this machine cannot run it, if so.
    Leaf(fn(&Options) -> Result<Box<dyn Kernel>, String>),
    /// Around any other kernel.
    Wrapper(fn(Box<dyn Kernel>, &Options) -> Box<dyn Kernel>),
}

/// A kernel that can be built into a program.
#[derive(Clone, Copy, Debug)]
pub struct KernelPlugin {
    /// Short name: `scalar`. A `+` joins names of wrappers to that of a leaf.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The higher, the sooner a leaf is chosen among those of its precision.
    pub rank: u8,
    /// What it does to activations; of no meaning for a wrapper.
    pub precision: Precision,
    /// How it is made.
    pub make: Make,
}

inventory::collect!(KernelPlugin);

/// Makes a leaf, or tells why this machine cannot run it.
pub(crate) type MakeLeaf = fn(&Options) -> Result<Box<dyn Kernel>, String>;

impl KernelPlugin {
    /// Why this machine cannot run it, if it cannot. A wrapper runs wherever the kernel it wraps does.
    pub fn why_not(&self) -> Option<String> {
        match self.make {
            Make::Leaf(make) => self.leaf(make, &Options::default()).err(),
            Make::Wrapper(_) => None,
        }
    }

    /// Makes the leaf. One that does something else to activations than its plugin says would be chosen for work that it
    /// is not fit for, and held to bounds that are not its own: it is refused.
    pub(crate) fn leaf(&self, make: MakeLeaf, options: &Options) -> Result<Box<dyn Kernel>, String> {
        let kernel = make(options)?;
        if kernel.precision() == self.precision {
            return Ok(kernel);
        }
        let (says, does) = (self.precision, kernel.precision());
        Err(format!(
            "its plugin says precision {says:?}, but the kernel itself {does:?}: one of the two is wrong"
        ))
    }
}
