//! A kernel run beside the definitions in f64: tells the first result beyond its bound.

use crate::labels::Labels;
use scantling_core::dtype::DType;
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Precision, Reference};
use scantling_core::matrix::{Matrix, Rows, RowsBuf, RowsMut};
use scantling_core::ops::{Activation, Attending, Linear, Rotation, Routing};
use scantling_core::quant::{self, DecodeError};
use scantling_core::stats::piece::tally_by;
use scantling_core::stats::tally::Tally;
use scantling_core::tolerance::{self, Judgement};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Wraps any kernel; slow, since everything is computed twice and once in f64.
pub const VERIFY: KernelPlugin = KernelPlugin {
    name: "verify",
    summary: "runs the definitions in f64 beside a kernel; reports the first result beyond its bound",
    rank: 0,
    precision: Precision::Exact,
    make: Make::Wrapper(|inner, _| Box::new(Verify { inner, seen: Mutex::default() })),
};

inventory::submit! { VERIFY }

struct Verify {
    inner: Box<dyn Kernel>,
    seen: Mutex<Seen>,
}

#[derive(Default)]
struct Seen {
    ops: u64,
    missed: u64,
    first: Option<String>,
    labels: Labels,
}

impl Seen {
    /// A matrix with its name, if its bytes were given one.
    fn name(&self, w: Matrix<'_>) -> String {
        self.labels.of(w).map_or_else(|| format!("{w:?}"), |name| format!("{name} ({w:?})"))
    }
}

impl Verify {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes what came of an op on `what`, whose output is so many columns wide.
    fn note(&self, op: &str, what: impl Fn(&Seen) -> String, cols: usize, judged: &Judgement) {
        let mut seen = self.seen();
        seen.ops += 1;
        if judged.pass {
            return;
        }
        seen.missed += 1;
        if let (None, Some(worst)) = (&seen.first, judged.worst) {
            let (row, col) = (worst.at / cols.max(1), worst.at % cols.max(1));
            seen.first = Some(format!(
                "{op} of {}, the {}. op: row {row}, column {col} is {:e}, expected {:e}, may differ by {:.2e}",
                what(&seen),
                seen.ops,
                worst.found,
                worst.expected,
                worst.bound
            ));
        }
    }

    /// An op that changes its input.
    fn in_place(
        &self,
        op: &str,
        mut x: RowsMut<'_>,
        run: impl Fn(&dyn Kernel, RowsMut<'_>),
        bounds: impl Fn(Rows<'_>, &[f32]) -> Vec<f64>,
    ) {
        let before = copied(&mut x);
        run(&*self.inner, x.reborrow());
        let mut expected = before.clone();
        run(&Reference, expected.view_mut());
        let bounds = bounds(before.view(), expected.data());
        let judged = Judgement::of(copied(&mut x).data(), expected.data(), &bounds);
        self.note(op, |_| format!("[{}, {}]", x.rows(), x.cols()), x.cols(), &judged);
    }

    fn product(&self, op: &str, linear: Linear<'_>, x: Rows<'_>, mut out: RowsMut<'_>) {
        let expected = (&Reference as &dyn Kernel).project(linear, x);
        let bounds = tolerance::matmul(linear, x, self.inner.precision());
        let judged = Judgement::of(copied(&mut out).data(), expected.data(), &bounds);
        let what = |seen: &Seen| format!("{} with {} rows", seen.name(linear.weight), x.rows());
        self.note(op, what, out.cols(), &judged);
    }
}

fn copied(x: &mut RowsMut<'_>) -> RowsBuf {
    let mut copy = RowsBuf::zeros(x.rows(), x.cols());
    let mut to = copy.view_mut();
    (0..x.rows()).for_each(|row| to.row(row).copy_from_slice(x.row(row)));
    copy
}

impl Kernel for Verify {
    fn name(&self) -> String {
        format!("verify+{}", self.inner.name())
    }

    fn base(&self) -> Option<&dyn Kernel> {
        Some(&*self.inner)
    }

    fn report(&self) -> Vec<String> {
        let seen = self.seen();
        let Seen { ops, missed, first, .. } = &*seen;
        let mut lines = vec![match first {
            None => format!("verify: {ops} ops, all within their bounds"),
            Some(first) => format!("verify: {missed} of {ops} ops beyond their bounds; first: {first}"),
        }];
        lines.extend(self.inner.report());
        lines
    }

    fn label(&self, data: &[u8], name: &str) {
        self.seen().labels.insert(data, name);
        self.inner.label(data, name);
    }

    fn decode(&self, dtype: DType, raw: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
        let result = self.inner.decode(dtype, raw, out);
        let mut expected = vec![0.0; out.len()];
        let judged = match (quant::decode(dtype, raw, &mut expected) == result, &result) {
            (true, Ok(())) => Judgement::equal(out, &expected),
            // Both refused, or only one did.
            (same, _) => Judgement::equal(&[f32::from(u8::from(same))], &[1.0]),
        };
        self.note("decode", |_| format!("{} bytes of {dtype}", raw.len()), out.len(), &judged);
        result
    }

    fn tally(&self, dtype: DType, raw: &[u8]) -> Result<Tally, DecodeError> {
        let found = self.inner.tally(dtype, raw);
        let same = found == tally_by(dtype, raw, |raw, out| quant::decode(dtype, raw, out));
        let judged = Judgement::equal(&[f32::from(u8::from(same))], &[1.0]);
        self.note("tally", |_| format!("{} bytes of {dtype}", raw.len()), 1, &judged);
        found
    }

    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        let found = self.inner.dot(dtype, w, x);
        if let Ok(row) = Matrix::new(dtype, 1, x.len(), w) {
            let expected = Reference.dot(dtype, w, x);
            let judged = Judgement::of(&[found], &[expected], &[tolerance::dot(row, x)]);
            self.note("dot", |seen| seen.name(row), 1, &judged);
        }
        found
    }

    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, mut out: RowsMut<'_>) {
        self.inner.matmul(linear, x, out.reborrow());
        self.product("matmul", linear, x, out);
    }

    fn matmuls(&self, linears: &[Linear<'_>], x: Rows<'_>, mut outs: Vec<RowsMut<'_>>) {
        self.inner.matmuls(linears, x, outs.iter_mut().map(RowsMut::reborrow).collect());
        linears.iter().zip(outs).for_each(|(linear, out)| self.product("matmuls", *linear, x, out));
    }

    fn embed(&self, w: Matrix<'_>, ids: &[u32], mut out: RowsMut<'_>) {
        self.inner.embed(w, ids, out.reborrow());
        let expected = (&Reference as &dyn Kernel).embedded(w, ids);
        let judged = Judgement::equal(copied(&mut out).data(), expected.data());
        self.note("embed", |seen| format!("{} for {} ids", seen.name(w), ids.len()), out.cols(), &judged);
    }

    fn rms_norm(&self, x: RowsMut<'_>, weight: &[f32], eps: f32) {
        let run = |k: &dyn Kernel, x: RowsMut<'_>| k.rms_norm(x, weight, eps);
        self.in_place("rms_norm", x, run, |_, expected| tolerance::rms_norm(weight.len(), expected));
    }

    fn layer_norm(&self, x: RowsMut<'_>, weight: &[f32], bias: &[f32], eps: f32) {
        let run = |k: &dyn Kernel, x: RowsMut<'_>| k.layer_norm(x, weight, bias, eps);
        self.in_place("layer_norm", x, run, |x, _| tolerance::layer_norm(x, weight, bias, eps));
    }

    fn rope(&self, x: RowsMut<'_>, rotation: &Rotation) {
        let run = |k: &dyn Kernel, x: RowsMut<'_>| k.rope(x, rotation);
        self.in_place("rope", x, run, |x, _| tolerance::rope(x, rotation));
    }

    fn attention(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, mut out: RowsMut<'_>) {
        self.inner.attention(q, k, v, how, out.reborrow());
        let expected = (&Reference as &dyn Kernel).attended(q, k, v, how);
        let bounds = tolerance::attention(q, k, v, how);
        let judged = Judgement::of(copied(&mut out).data(), expected.data(), &bounds);
        let what = |_: &Seen| format!("{} rows over {k:?} and {v:?}, {} heads", q.rows(), how.heads);
        self.note("attention", what, out.cols(), &judged);
    }

    fn activate(&self, activation: Activation, x: RowsMut<'_>) {
        let run = |k: &dyn Kernel, x: RowsMut<'_>| k.activate(activation, x);
        self.in_place("activate", x, run, |x, _| tolerance::activate(activation, x));
    }

    fn gate(&self, activation: Activation, gate: RowsMut<'_>, up: Rows<'_>) {
        let run = |k: &dyn Kernel, x: RowsMut<'_>| k.gate(activation, x, up);
        let bounds = |x: Rows<'_>, expected: &[f32]| tolerance::gate(activation, x, up, expected);
        self.in_place("gate", gate, run, bounds);
    }

    fn add(&self, x: RowsMut<'_>, y: Rows<'_>, factor: f32) {
        let run = |k: &dyn Kernel, x: RowsMut<'_>| k.add(x, y, factor);
        self.in_place("add", x, run, |x, _| tolerance::add(x, y, factor));
    }

    fn scale(&self, x: RowsMut<'_>, factor: f32) {
        let run = |k: &dyn Kernel, x: RowsMut<'_>| k.scale(x, factor);
        self.in_place("scale", x, run, |_, expected| tolerance::scale(expected));
    }

    fn softcap(&self, x: RowsMut<'_>, cap: f32) {
        let run = |k: &dyn Kernel, x: RowsMut<'_>| k.softcap(x, cap);
        self.in_place("softcap", x, run, |x, _| tolerance::softcap(x, cap));
    }

    fn route(&self, logits: Rows<'_>, how: Routing<'_>) -> Vec<(usize, f32)> {
        let found = self.inner.route(logits, how);
        let judged = tolerance::route(logits, how, &found);
        self.note("route", |_| format!("[{}, {}]", logits.rows(), logits.cols()), how.used, &judged);
        found
    }
}
