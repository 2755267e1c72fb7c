//! Judges any kernel against the definitions in f64, case by case.
//!
//! A case is one op on one input: generated here ([`generated`]: every element type, odd shapes, unaligned starts,
//! windows of something wider, several seeds), or with a matrix of someone's own ([`given()`]). The bounds are those of
//! [`tolerance`](crate::tolerance). Outputs lie between numbers that may not be touched, inputs between ones that poison what
//! reads them.

mod attention;
mod data;
mod pointwise;
mod products;
mod rotary;
mod routing;
mod streams;

use crate::dtype::DType;
use crate::kernel::Kernel;
use crate::matrix::Matrix;
use crate::tolerance::Judgement;
use data::{Pool, Random};
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// How much to try.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// Some shapes of each kind: for emulated processors, and for a look.
    Quick,
    /// All of them.
    Full,
}

impl Scale {
    /// One of two numbers.
    fn of<T>(self, quick: T, full: T) -> T {
        match self {
            Scale::Quick => quick,
            Scale::Full => full,
        }
    }

    /// The first numbers of a list, or all of it.
    fn some<T>(self, all: &[T], quick: usize) -> &[T] {
        &all[..self.of(quick.min(all.len()), all.len())]
    }
}

/// What came of one case: a comparison, or what went wrong beside it.
type Outcome = Result<Judged, String>;

/// A comparison, and how long a row of the output is.
struct Judged {
    judgement: Judgement,
    cols: usize,
}

/// Runs a kernel on one input and compares what it gives.
type Trial<'a> = Box<dyn Fn(&dyn Kernel) -> Outcome + Send + Sync + 'a>;

/// One op on one input.
pub struct Case<'a> {
    /// Name of the op.
    pub op: &'static str,
    /// Element type of what is stored, for ops that read stored numbers.
    pub dtype: Option<DType>,
    /// Name of the matrix, if it was given.
    pub tensor: Option<&'a str>,
    /// Shapes and settings, for people.
    pub shape: String,
    trial: Trial<'a>,
}

/// How a kernel did in one case.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the op.
    pub op: &'static str,
    /// Element type of what is stored, for ops that read stored numbers.
    pub dtype: Option<DType>,
    /// Name of the matrix, if it was given.
    pub tensor: Option<String>,
    /// Shapes and settings, for people.
    pub shape: String,
    /// Largest difference from the definition.
    pub max_abs: f64,
    /// The same as a share of the largest number expected.
    pub max_rel: f64,
    /// By how much the worst element may differ.
    pub bound: f64,
    /// The element nearest to its bound, or furthest beyond it.
    pub worst: Option<Element>,
    /// Elements of the output that are not finite, or need not be: held to their kind, but to no bound.
    pub not_finite: usize,
    /// What is wrong beside differences: an output's neighbour written to, a panic, pieces that disagree.
    pub fault: Option<String>,
    /// Whether all is well.
    pub pass: bool,
}

/// One number of an output.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Element {
    /// Its row.
    pub row: usize,
    /// Its column.
    pub col: usize,
    /// What the kernel gave.
    pub found: f32,
    /// What the definition gives.
    pub expected: f32,
}

impl<'a> Case<'a> {
    fn new(
        op: &'static str,
        dtype: Option<DType>,
        shape: String,
        trial: impl Fn(&dyn Kernel) -> Outcome + Send + Sync + 'a,
    ) -> Case<'a> {
        Case { op, dtype, tensor: None, shape, trial: Box::new(trial) }
    }
}

/// Cases with generated numbers, of every op and every element type that can be decoded.
pub fn generated(scale: Scale) -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    for seed in 0..scale.of(1, 3) {
        for dtype in DType::all().filter(|dtype| dtype.codec().is_some()) {
            let pool = Arc::new(Pool::new(dtype, seed));
            cases.extend(products::of_type(&pool, scale, seed));
        }
        cases.extend(attention::cases(scale, seed));
        cases.extend(rotary::cases(scale, seed));
        cases.extend(pointwise::cases(scale, seed));
        cases.extend(routing::cases(scale, seed));
    }
    cases.extend(streams::cases());
    cases
}

/// Cases with a given matrix, activations generated: some of its rows, from the start, the middle and the end.
/// None if its type cannot be multiplied.
pub fn given<'a>(name: &'a str, matrix: Matrix<'a>, scale: Scale) -> Vec<Case<'a>> {
    let mut cases = products::of_matrix(matrix, scale);
    cases.iter_mut().for_each(|case| case.tensor = Some(name));
    cases
}

/// So many blocks of an element type that can be decoded, of random codes and sane values: sums of their products
/// stay finite. The same for the same seed.
pub fn blocks(dtype: DType, count: usize, seed: u64) -> Vec<u8> {
    Pool::new(dtype, seed).draw(count, &mut random(seed, &[count]))
}

/// So many bell-shaped numbers around 0, of a standard deviation of 1: activations. The same for the same seed.
pub fn normals(count: usize, seed: u64) -> Vec<f32> {
    random(seed, &[count, 1]).normals(count)
}

/// Runs one case. A kernel that panics fails it.
pub fn run(case: &Case<'_>, kernel: &dyn Kernel) -> Row {
    let outcome = catch_unwind(AssertUnwindSafe(|| (case.trial)(kernel)))
        .unwrap_or_else(|panic| Err(format!("panicked: {}", message(&*panic))));
    let (judged, fault) = match outcome {
        Ok(judged) => (Some(judged), None),
        Err(fault) => (None, Some(fault)),
    };
    let judgement = judged.as_ref().map(|j| &j.judgement);
    let worst = judgement.and_then(|j| j.worst);
    let cols = judged.as_ref().map_or(1, |j| j.cols.max(1));
    let element = |w: crate::tolerance::Worst| Element {
        row: w.at / cols,
        col: w.at % cols,
        found: w.found,
        expected: w.expected,
    };
    Row {
        op: case.op,
        dtype: case.dtype,
        tensor: case.tensor.map(str::to_owned),
        shape: case.shape.clone(),
        max_abs: judgement.map_or(f64::NAN, |j| j.max_abs),
        max_rel: judgement.map_or(f64::NAN, |j| j.max_rel),
        bound: worst.map_or(0.0, |w| w.bound),
        worst: worst.map(element),
        not_finite: judgement.map_or(0, |j| j.not_finite),
        pass: fault.is_none() && judgement.is_some_and(|j| j.pass),
        fault,
    }
}

fn message(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message").to_owned()
}

/// Numbers of its own for each case.
fn random(seed: u64, parts: &[usize]) -> Random {
    Random::new(parts.iter().fold(seed, |state, part| Random::new(state ^ *part as u64).bits()))
}

impl std::fmt::Display for Row {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.op)?;
        if let Some(dtype) = self.dtype {
            write!(f, " {dtype}")?;
        }
        if let Some(tensor) = &self.tensor {
            write!(f, " {tensor}")?;
        }
        write!(f, " {}: ", self.shape)?;
        match (&self.fault, self.worst) {
            (Some(fault), _) => write!(f, "{fault}"),
            (None, Some(w)) => write!(
                f,
                "row {}, column {} is {:e}, expected {:e}, may differ by {:.1e}; largest difference {:.1e}",
                w.row, w.col, w.found, w.expected, self.bound, self.max_abs
            ),
            (None, None) => write!(f, "nothing to compare"),
        }
    }
}
