//! Norms, and what is done to each number by itself.

use super::data::{Placed, Random};
use super::{Case, Outcome, Scale, random};
use crate::kernel::{Kernel, Reference};
use crate::matrix::{RowsBuf, RowsMut};
use crate::ops::Activation;
use crate::tolerance;

/// Widths: tails of registers and of unrolled loops.
const WIDTHS: [usize; 15] = [67, 1, 8, 259, 2, 3, 5, 7, 9, 15, 16, 17, 33, 64, 1030];
const ROWS: [usize; 3] = [3, 1, 0];
const ACTIVATIONS: [Activation; 3] =
    [Activation::Silu, Activation::GeluTanh, Activation::Clamped { alpha: 1.702, limit: 7.0 }];

/// Where formulas break: what overflows an exponential, what cancels, what is no number. An argument of an
/// exponential just short of overflowing is left out: there results are below [`tolerance::TINY`] or infinite, by
/// how an exponential is made.
const EXTREMES: [f32; 24] = [
    0.0,
    -0.0,
    1e4,
    -1e4,
    1e-30,
    -1e-30,
    f32::NAN,
    f32::INFINITY,
    f32::NEG_INFINITY,
    1.0,
    -1.0,
    20.0,
    -20.0,
    80.0,
    -80.0,
    200.0,
    -200.0,
    7.0,
    7.5,
    -7.0,
    -7.5,
    0.5,
    1e-8,
    -3.0,
];

pub(super) fn cases(scale: Scale, seed: u64) -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    for (i, cols) in scale.some(&WIDTHS, 4).iter().enumerate() {
        let (rows, seed) = (ROWS[i % 3], seed + 100 * i as u64);
        for rows in [rows, 2] {
            cases.push(rms_norm(rows, *cols, 1, seed));
            cases.push(layer_norm(rows, *cols, seed));
            cases.extend(ACTIVATIONS.map(|a| activate(a, rows, *cols, seed)));
            cases.extend(ACTIVATIONS.map(|a| gate(a, rows, *cols, seed)));
            cases.extend([1.0, -0.37].map(|factor| add(factor, rows, *cols, seed)));
            cases.extend([0.25, -51.3].map(|factor| scaled(factor, rows, *cols, seed)));
            cases.extend([30.0, 1.5].map(|cap| softcap(cap, rows, *cols, seed)));
        }
        cases.push(rms_norm(2, *cols, 5, seed));
    }
    cases
}

/// Runs an op that changes its input, and the definition beside it.
fn in_place(
    kernel: &dyn Kernel,
    mut x: Placed,
    op: impl Fn(&dyn Kernel, RowsMut<'_>),
    bounds: impl Fn(&Placed, &[f32]) -> Vec<f64>,
) -> Outcome {
    let mut expected = RowsBuf::copy_of(x.view());
    op(&Reference, expected.view_mut());
    let bounds = bounds(&x, expected.data());
    op(kernel, x.view_mut());
    x.judge(expected.data(), &bounds)
}

/// Numbers of some size that go from tiny to large with the seed: what ε is for.
fn sized(rows: usize, cols: usize, seed: u64, random: &mut Random) -> Placed {
    let size = [1.0, 1e-3, 30.0][seed as usize % 3];
    let values: Vec<f32> = (0..rows * cols).map(|_| size * random.normal()).collect();
    Placed::of(&values, rows, cols, random)
}

/// With a number in it that is none, every number of its run becomes none.
fn rms_norm(rows: usize, n: usize, runs: usize, seed: u64) -> Case<'static> {
    Case::new("rms_norm", None, format!("{rows}×{runs} runs of {n}"), move |kernel| {
        let mut random = random(seed, &[rows, n, runs, 10]);
        let mut x = sized(rows, n * runs, seed, &mut random);
        if runs > 1 {
            x.view_mut().row(0)[n * 2] = f32::NAN;
        }
        let (weight, eps) = (random.normals(n), [1e-6, 1e-5, 0.3][random.below(3)]);
        let op = |k: &dyn Kernel, x: RowsMut<'_>| k.rms_norm(x, &weight, eps);
        in_place(kernel, x, op, |_, expected| tolerance::rms_norm(n, expected))
    })
}

/// Around a mean far from 0 by turns.
fn layer_norm(rows: usize, n: usize, seed: u64) -> Case<'static> {
    Case::new("layer_norm", None, format!("{rows}×{n}"), move |kernel| {
        let mut random = random(seed, &[rows, n, 11]);
        let mut x = sized(rows, n, seed, &mut random);
        let mean = random.pick(&[0.0, 1.0, -300.0]);
        for row in 0..rows {
            x.view_mut().row(row).iter_mut().for_each(|v| *v += mean);
        }
        let (weight, bias, eps) = (random.normals(n), random.normals(n), random.pick(&[1e-5, 0.3]));
        let op = |k: &dyn Kernel, x: RowsMut<'_>| k.layer_norm(x, &weight, &bias, eps);
        in_place(kernel, x, op, |x, _| tolerance::layer_norm(x.view(), &weight, &bias, eps))
    })
}

/// Normal numbers, among them extreme ones.
fn extreme(rows: usize, cols: usize, random: &mut Random) -> Placed {
    let from = random.below(EXTREMES.len());
    let value = |i: usize, random: &mut Random| match i % 3 {
        0 => EXTREMES[(from + i / 3) % EXTREMES.len()],
        _ => 3.0 * random.normal(),
    };
    let values: Vec<f32> = (0..rows * cols).map(|i| value(i, random)).collect();
    Placed::of(&values, rows, cols, random)
}

fn activate(activation: Activation, rows: usize, cols: usize, seed: u64) -> Case<'static> {
    Case::new("activate", None, format!("{rows}×{cols} {activation:?}"), move |kernel| {
        let mut random = random(seed, &[rows, cols, 12]);
        let x = extreme(rows, cols, &mut random);
        let op = |k: &dyn Kernel, x: RowsMut<'_>| k.activate(activation, x);
        in_place(kernel, x, op, |x, _| tolerance::activate(activation, x.view()))
    })
}

fn gate(activation: Activation, rows: usize, cols: usize, seed: u64) -> Case<'static> {
    Case::new("gate", None, format!("{rows}×{cols} {activation:?}"), move |kernel| {
        let mut random = random(seed, &[rows, cols, 13]);
        let x = extreme(rows, cols, &mut random);
        let up: Vec<f32> = (0..rows * cols).map(|_| 5.0 * random.normal()).collect();
        let up = Placed::of(&up, rows, cols, &mut random);
        let op = |k: &dyn Kernel, x: RowsMut<'_>| k.gate(activation, x, up.view());
        in_place(kernel, x, op, |x, expected| tolerance::gate(activation, x.view(), up.view(), expected))
    })
}

fn add(factor: f32, rows: usize, cols: usize, seed: u64) -> Case<'static> {
    Case::new("add", None, format!("{rows}×{cols} times {factor}"), move |kernel| {
        let mut random = random(seed, &[rows, cols, 14]);
        let (x, y) = (Placed::normal(rows, cols, &mut random), Placed::normal(rows, cols, &mut random));
        let op = |k: &dyn Kernel, x: RowsMut<'_>| k.add(x, y.view(), factor);
        in_place(kernel, x, op, |x, _| tolerance::add(x.view(), y.view(), factor))
    })
}

fn scaled(factor: f32, rows: usize, cols: usize, seed: u64) -> Case<'static> {
    Case::new("scale", None, format!("{rows}×{cols} times {factor}"), move |kernel| {
        let mut random = random(seed, &[rows, cols, 15]);
        let x = extreme(rows, cols, &mut random);
        let op = |k: &dyn Kernel, x: RowsMut<'_>| k.scale(x, factor);
        // An infinity times a factor is one in any arithmetic.
        let bounds = |_: &Placed, expected: &[f32]| {
            let bounds = tolerance::scale(expected).into_iter();
            bounds.map(|b| if b.is_finite() { b } else { 0.0 }).collect()
        };
        in_place(kernel, x, op, bounds)
    })
}

fn softcap(cap: f32, rows: usize, cols: usize, seed: u64) -> Case<'static> {
    Case::new("softcap", None, format!("{rows}×{cols} at {cap}"), move |kernel| {
        let mut random = random(seed, &[rows, cols, 16]);
        let x = extreme(rows, cols, &mut random);
        let op = |k: &dyn Kernel, x: RowsMut<'_>| k.softcap(x, cap);
        in_place(kernel, x, op, |x, _| tolerance::softcap(x.view(), cap))
    })
}
