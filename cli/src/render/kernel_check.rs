//! What a check of kernels found, summed up for showing.

use scantling_core::conformance::Row;
use scantling_core::dtype::{Class, DType};

/// A check of several kernels.
pub struct Checked {
    /// The kernels, as they were named.
    pub kernels: Vec<KernelChecked>,
    /// What of a model was tried.
    pub tensors: Option<Tried>,
}

/// The tensors of a model that took part.
pub struct Tried {
    /// How many were tried.
    pub tried: usize,
    /// How many were to be: the first and last of each role, element type and shape.
    pub sampled: usize,
    /// How many were tried by the first of their columns alone.
    pub narrowed: usize,
    /// How many could have been: matrices of weights that can be read.
    pub usable: usize,
    /// How many the model has.
    pub all: usize,
    /// Names of those that cannot be read: the model is damaged.
    pub unreadable: Vec<String>,
}

/// All cases of one kernel.
pub struct KernelChecked {
    /// Its name, wrappers and all.
    pub name: String,
    /// Threads it ran on.
    pub threads: usize,
    /// One row for each case.
    pub rows: Vec<Row>,
    /// What the kernel had to say.
    pub report: Vec<String>,
}

impl Checked {
    /// Cases that missed, of all kernels.
    pub fn failed(&self) -> usize {
        self.kernels.iter().map(|k| k.misses().count()).sum()
    }

    /// Outputs of a kernel, made of the model's own weights, that are not finite, and the first tensor of them.
    pub fn not_finite(&self) -> Option<(usize, &str)> {
        let of = |kernel: &'_ KernelChecked| -> usize { kernel.given().map(|row| row.not_finite).sum() };
        let kernel = self.kernels.iter().max_by_key(|kernel| of(kernel)).filter(|kernel| of(kernel) > 0)?;
        let first = kernel.given().find(|row| row.not_finite > 0)?;
        Some((of(kernel), first.tensor.as_deref()?))
    }

    /// Whether nothing missed and all that was asked for could be tried.
    pub fn ok(&self) -> bool {
        self.failed() == 0 && self.tensors.as_ref().is_none_or(|t| t.unreadable.is_empty())
    }
}

impl KernelChecked {
    /// Cases that missed.
    pub fn misses(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| !row.pass)
    }

    /// Cases with tensors of the model.
    fn given(&self) -> impl Iterator<Item = &Row> {
        self.rows.iter().filter(|row| row.tensor.is_some())
    }

    /// The cases of each op with each class of element types, or with each type if they are told apart; in the order
    /// the ops came, what missed first. Classes are not mixed: the sums of integers are as large as the integers are.
    pub fn sums(&self, by_type: bool) -> Vec<Sum<'_>> {
        let mut sums: Vec<Sum<'_>> = Vec::new();
        // A type that misses is not hidden among those that pass.
        let missed: Vec<_> = self.misses().map(|row| (row.op, row.dtype)).collect();
        for row in &self.rows {
            let dtype = row.dtype.filter(|_| by_type || missed.contains(&(row.op, row.dtype)));
            let class = row.dtype.map(DType::class);
            match sums.iter_mut().find(|s| s.op == row.op && s.class == class && s.dtype == dtype) {
                Some(sum) => sum.add(row),
                None => {
                    let (op, dtypes) = (row.op, Vec::new());
                    let mut sum = Sum {
                        op,
                        class,
                        dtype,
                        dtypes,
                        cases: 0,
                        failed: 0,
                        not_finite: 0,
                        max_abs: 0.0,
                        max_rel: 0.0,
                        worst: row,
                    };
                    sum.add(row);
                    sums.push(sum);
                }
            }
        }
        let order: Vec<&str> = sums.iter().map(|s| s.op).collect();
        sums.sort_by_key(|s| (order.iter().position(|op| *op == s.op), s.failed == 0, s.dtype, s.class));
        sums
    }
}

/// Some cases of one kernel.
pub struct Sum<'r> {
    /// The op.
    pub op: &'static str,
    /// What the numbers are, if there is an element type.
    pub class: Option<Class>,
    /// The element type, if they are told apart.
    pub dtype: Option<DType>,
    /// The element types that occur.
    pub dtypes: Vec<DType>,
    /// How many.
    pub cases: usize,
    /// How many missed.
    pub failed: usize,
    /// Elements of outputs that are not finite.
    pub not_finite: usize,
    /// Largest difference of all.
    pub max_abs: f64,
    /// The same as a share of the largest number expected.
    pub max_rel: f64,
    /// The case nearest to its bound, or furthest beyond it.
    pub worst: &'r Row,
}

impl<'r> Sum<'r> {
    /// Whether a case that missed is among them.
    pub fn holds(&self, row: &Row) -> bool {
        row.op == self.op && row.dtype == self.dtype
    }

    fn add(&mut self, row: &'r Row) {
        self.cases = self.cases.saturating_add(1);
        self.failed = self.failed.saturating_add(usize::from(!row.pass));
        self.not_finite = self.not_finite.saturating_add(row.not_finite);
        self.max_abs = larger(self.max_abs, row.max_abs);
        self.max_rel = larger(self.max_rel, row.max_rel);
        self.dtypes.extend(row.dtype.filter(|d| !self.dtypes.contains(d)));
        let rank = |row: &Row| (!row.pass, used(row));
        if rank(row).partial_cmp(&rank(self.worst)) == Some(std::cmp::Ordering::Greater) {
            self.worst = row;
        }
    }
}

/// What is no number is larger than any.
fn larger(a: f64, b: f64) -> f64 {
    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
}

/// By how much the worst element of a case is off: the one that is nearest to its bound or furthest beyond it.
pub fn off(row: &Row) -> f64 {
    row.worst.map_or(0.0, |worst| match (f64::from(worst.found) - f64::from(worst.expected)).abs() {
        _ if worst.found.is_nan() && worst.expected.is_nan() => 0.0,
        error if error.is_nan() && worst.found == worst.expected => 0.0, // the same infinity
        error => error,
    })
}

/// The share of its bound that the worst element of a case takes; infinite where nothing but equality will do, and
/// where the case went wrong otherwise.
pub fn used(row: &Row) -> f64 {
    let Some(worst) = row.worst.filter(|_| row.fault.is_none()) else {
        return if row.pass { 0.0 } else { f64::INFINITY };
    };
    let error = (f64::from(worst.found) - f64::from(worst.expected)).abs();
    match error / row.bound {
        _ if row.pass && (error == 0.0 || !error.is_finite()) => 0.0,
        share if share.is_nan() => f64::INFINITY,
        share => share,
    }
}
