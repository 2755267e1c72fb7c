//! A kernel with a clock beside it: time, calls, stored bytes and operations, by op and matrix.

use crate::labels::Labels;
use scantling_core::dtype::DType;
use scantling_core::index::role;
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Precision};
use scantling_core::matrix::{Matrix, Rows, RowsMut};
use scantling_core::ops::{Activation, Attending, Linear, Rotation, Routing};
use scantling_core::quant::DecodeError;
use scantling_core::stats::tally::Tally;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Wraps any kernel. Outside of `rayon` it times whole ops, inside of it the pieces, all threads together.
pub const PROFILE: KernelPlugin = KernelPlugin {
    name: "profile",
    summary: "times a kernel: calls, seconds, bytes and operations by op and matrix",
    rank: 0,
    precision: Precision::Exact,
    make: Make::Wrapper(|inner, _| {
        Box::new(Profile { inner, labels: Mutex::default(), spent: Mutex::default() })
    }),
};

inventory::submit! { PROFILE }

struct Profile {
    inner: Box<dyn Kernel>,
    labels: Mutex<Labels>,
    spent: Mutex<BTreeMap<Work, Spent>>,
}

/// What is summed up together: an op, and what is stored.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Work {
    op: &'static str,
    stored: Vec<Stored>,
}

/// A stored matrix: its name, those of all layers as one; type, rows and columns.
type Stored = (Option<String>, DType, usize, usize);

#[derive(Clone, Copy, Default)]
struct Spent {
    calls: u64,
    time: Duration,
    bytes: u64,
    operations: u64,
}

impl Profile {
    /// Runs and times an op that reads so many stored bytes and does so many operations, a multiply and an add
    /// counted as two.
    fn timed<R>(
        &self,
        op: &'static str,
        stored: impl IntoIterator<Item = Stored>,
        bytes: usize,
        operations: usize,
        run: impl FnOnce(&dyn Kernel) -> R,
    ) -> R {
        let start = Instant::now();
        let result = run(&*self.inner);
        let time = start.elapsed();
        let mut all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let spent = all.entry(Work { op, stored: stored.into_iter().collect() }).or_default();
        spent.calls += 1;
        spent.time += time;
        spent.bytes += bytes as u64;
        spent.operations += operations as u64;
        result
    }

    fn labels(&self) -> MutexGuard<'_, Labels> {
        self.labels.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stored(&self, w: Matrix<'_>) -> Stored {
        (self.labels().of(w).map(role), w.dtype(), w.rows(), w.cols())
    }
}

fn bytes(w: Matrix<'_>) -> usize {
    w.rows() * w.row_bytes()
}

fn elements(x: &RowsMut<'_>) -> usize {
    x.rows() * x.cols()
}

/// Query-key pairs of one head.
fn pairs(rows: usize, keys: usize, how: &Attending<'_>) -> usize {
    (0..rows).map(|t| how.seen(t, keys).len()).sum()
}

impl Kernel for Profile {
    fn name(&self) -> String {
        format!("profile+{}", self.inner.name())
    }

    fn base(&self) -> Option<&dyn Kernel> {
        Some(&*self.inner)
    }

    fn report(&self) -> Vec<String> {
        let all = self.spent.lock().unwrap_or_else(PoisonError::into_inner);
        let mut rows: Vec<(String, Spent)> =
            all.iter().map(|(work, spent)| (work.to_string(), *spent)).collect();
        drop(all);
        rows.sort_by_key(|(_, spent)| std::cmp::Reverse(spent.time));
        let total = rows.iter().fold(Spent::default(), |sum, (_, spent)| sum.with(spent));
        let width = rows.iter().map(|(work, _)| work.len()).max().unwrap_or(0).max(5);
        let mut lines = vec![format!(
            "profile: {:<width$} {:>8} {:>11} {:>6} {:>8} {:>8}",
            "op", "calls", "ms", "share", "GB/s", "GFLOP/s"
        )];
        rows.push(("total".into(), total));
        lines.extend(
            rows.iter().map(|(work, spent)| format!("profile: {work:<width$} {}", spent.row(total.time))),
        );
        lines.extend(self.inner.report());
        lines
    }

    fn label(&self, data: &[u8], name: &str) {
        self.labels().insert(data, name);
        self.inner.label(data, name);
    }

    fn decode(&self, dtype: DType, raw: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
        self.timed("decode", [(None, dtype, 0, 0)], raw.len(), 0, |k| k.decode(dtype, raw, out))
    }

    fn tally(&self, dtype: DType, raw: &[u8]) -> Result<Tally, DecodeError> {
        self.timed("tally", [(None, dtype, 0, 0)], raw.len(), 0, |k| k.tally(dtype, raw))
    }

    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        self.timed("dot", [(None, dtype, 1, x.len())], w.len(), 2 * x.len(), |k| k.dot(dtype, w, x))
    }

    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        let w = linear.weight;
        let operations = 2 * w.rows() * w.cols() * x.rows();
        self.timed("matmul", [self.stored(w)], bytes(w), operations, |k| k.matmul(linear, x, out));
    }

    fn matmuls(&self, linears: &[Linear<'_>], x: Rows<'_>, outs: Vec<RowsMut<'_>>) {
        let weights = linears.iter().map(|l| l.weight);
        let stored = weights.clone().map(bytes).sum();
        let operations = weights.clone().map(|w| 2 * w.rows() * w.cols() * x.rows()).sum();
        self.timed("matmuls", weights.map(|w| self.stored(w)), stored, operations, |k| {
            k.matmuls(linears, x, outs)
        });
    }

    fn embed(&self, w: Matrix<'_>, ids: &[u32], out: RowsMut<'_>) {
        self.timed("embed", [self.stored(w)], ids.len() * w.row_bytes(), 0, |k| k.embed(w, ids, out));
    }

    fn rms_norm(&self, x: RowsMut<'_>, weight: &[f32], eps: f32) {
        self.timed("rms_norm", [], 0, 4 * elements(&x), |k| k.rms_norm(x, weight, eps));
    }

    fn layer_norm(&self, x: RowsMut<'_>, weight: &[f32], bias: &[f32], eps: f32) {
        self.timed("layer_norm", [], 0, 8 * elements(&x), |k| k.layer_norm(x, weight, bias, eps));
    }

    fn rope(&self, x: RowsMut<'_>, rotation: &Rotation) {
        let heads = elements(&x) / rotation.head.max(1);
        self.timed("rope", [], 0, 6 * rotation.half * heads, |k| k.rope(x, rotation));
    }

    fn attention(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, out: RowsMut<'_>) {
        let operations = 2 * pairs(q.rows(), k.rows(), &how) * how.heads * (how.key + how.value);
        // By widths alone: the number of positions is another with every token.
        let stored = [(None, k.dtype(), 0, k.cols()), (None, v.dtype(), 0, v.cols())];
        self.timed("attention", stored, bytes(k) + bytes(v), operations, |kernel| {
            kernel.attention(q, k, v, how, out);
        });
    }

    fn activate(&self, activation: Activation, x: RowsMut<'_>) {
        self.timed("activate", [], 0, elements(&x), |k| k.activate(activation, x));
    }

    fn gate(&self, activation: Activation, gate: RowsMut<'_>, up: Rows<'_>) {
        self.timed("gate", [], 0, 2 * elements(&gate), |k| k.gate(activation, gate, up));
    }

    fn add(&self, x: RowsMut<'_>, y: Rows<'_>, factor: f32) {
        self.timed("add", [], 0, 2 * elements(&x), |k| k.add(x, y, factor));
    }

    fn scale(&self, x: RowsMut<'_>, factor: f32) {
        self.timed("scale", [], 0, elements(&x), |k| k.scale(x, factor));
    }

    fn softcap(&self, x: RowsMut<'_>, cap: f32) {
        self.timed("softcap", [], 0, 3 * elements(&x), |k| k.softcap(x, cap));
    }

    fn saturate(&self, rounds: u64) -> u64 {
        self.timed("saturate", [], 0, 0, |k| k.saturate(rounds))
    }

    fn sweep(&self, data: &[u8]) -> u64 {
        self.timed("sweep", [], data.len(), 0, |k| k.sweep(data))
    }

    fn route(&self, logits: Rows<'_>, how: Routing<'_>) -> Vec<(usize, f32)> {
        self.timed("route", [], 0, logits.rows() * logits.cols(), |k| k.route(logits, how))
    }
}

impl Spent {
    fn with(&self, other: &Spent) -> Spent {
        Spent {
            calls: self.calls + other.calls,
            time: self.time + other.time,
            bytes: self.bytes + other.bytes,
            operations: self.operations + other.operations,
        }
    }

    fn row(&self, total: Duration) -> String {
        let seconds = self.time.as_secs_f64().max(1e-12);
        let share = 100.0 * self.time.as_secs_f64() / total.as_secs_f64().max(1e-12);
        let rate = |n: u64| if n == 0 { "-".to_owned() } else { format!("{:.2}", n as f64 / seconds / 1e9) };
        format!(
            "{:>8} {:>11.3} {share:>5.1}% {:>8} {:>8}",
            self.calls,
            1e3 * seconds,
            rate(self.bytes),
            rate(self.operations)
        )
    }
}

impl std::fmt::Display for Work {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.op)?;
        for (name, dtype, rows, cols) in &self.stored {
            if let Some(name) = name {
                write!(f, " {name}")?;
            }
            match (rows, cols) {
                (0, 0) => write!(f, " {dtype}")?,
                (0, cols) => write!(f, " {dtype} [_, {cols}]")?,
                (rows, cols) => write!(f, " {dtype} [{rows}, {cols}]")?,
            }
        }
        Ok(())
    }
}
