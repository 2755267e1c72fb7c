//! The definitions of the ops, held against formulas written another way: sums over indexes in f64, rotations as
//! products of complex numbers, probabilities that add up.

use scantling_core::dtype::DType;
use scantling_core::kernel::{Kernel, Reference};
use scantling_core::matrix::{Matrix, Rows, RowsBuf};
use scantling_core::ops::{self, Activation, Attending, Linear, Pairing, Rotation, Routing, Scoring};
use scantling_core::quant;

/// Numbers between -1 and 1 that look random and are the same every time.
fn numbers(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(12345);
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as f32 / u32::MAX as f32 * 2.0 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

fn bytes(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

fn close(found: &[f32], expected: &[f64], limit: f64) {
    assert_eq!(found.len(), expected.len());
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        assert!((f64::from(*f) - e).abs() <= limit * e.abs().max(1.0), "element {i}: {f}, expected {e}");
    }
}

/// The definition in f32, which is what a kernel that overrides nothing computes.
struct Plain;

impl Kernel for Plain {
    fn name(&self) -> String {
        "plain".into()
    }
}

const BOTH: [(&dyn Kernel, f64); 2] = [(&Plain, 1e-5), (&Reference, 1e-7)];

#[test]
fn a_product_sums_scales_and_adds() {
    let (rows, cols, tokens) = (5, 37, 3);
    let (w, x, bias) = (numbers(rows * cols, 1), numbers(tokens * cols, 2), numbers(rows, 3));
    let stored = bytes(&w);
    let weight = Matrix::new(DType::F32, rows, cols, &stored).unwrap();
    let mut expected = Vec::new();
    for t in 0..tokens {
        for o in 0..rows {
            let sum: f64 = (0..cols).map(|i| f64::from(w[o * cols + i]) * f64::from(x[t * cols + i])).sum();
            expected.push(0.5 * sum + f64::from(bias[o]));
        }
    }
    for (kernel, limit) in BOTH {
        let linear = Linear { weight, bias: Some(&bias), scale: 0.5 };
        close(kernel.project(linear, Rows::new(&x, tokens, cols)).data(), &expected, limit);
    }
}

#[test]
fn every_type_that_decodes_multiplies_and_embeds_as_it_decodes() {
    for dtype in DType::all().filter(|d| d.codec().is_some() && d.block_values() == d.block_elements()) {
        let cols = 256usize.next_multiple_of(dtype.block_elements());
        let raw: Vec<u8> =
            (0..cols / dtype.block_elements() * dtype.block_bytes()).map(|i| (i * 7 % 60) as u8).collect();
        let mut values = vec![0.0; cols];
        quant::decode(dtype, &raw, &mut values).unwrap();
        let x = numbers(cols, 4);
        let expected: f64 = values.iter().zip(&x).map(|(w, x)| f64::from(*w) * f64::from(*x)).sum();
        let found = f64::from(Reference.dot(dtype, &raw, &x));
        let size: f64 = values.iter().zip(&x).map(|(w, x)| f64::from(*w * *x).abs()).sum();
        assert!(
            (found - expected).abs() <= 1e-6 * size || !size.is_finite(),
            "{dtype}: {found}, expected {expected}"
        );
        let matrix = Matrix::new(dtype, 1, cols, &raw).unwrap();
        let kernel: &dyn Kernel = &Plain;
        assert_eq!(kernel.embedded(matrix, &[0]).data().len(), cols);
        assert!(
            kernel.embedded(matrix, &[0]).data().iter().zip(&values).all(|(a, b)| a.to_bits() == b.to_bits())
        );
    }
}

#[test]
fn norms_leave_unit_size() {
    let x = numbers(2 * 24, 5);
    for (kernel, limit) in BOTH {
        // Of each head of 8, with weights of 1 and no epsilon: the mean square is 1.
        let normed = kernel.normed(Rows::new(&x, 2, 24), &[1.0; 8], 0.0);
        for head in normed.data().chunks(8) {
            let mean: f64 = head.iter().map(|v| f64::from(*v).powi(2)).sum::<f64>() / 8.0;
            assert!((mean - 1.0).abs() < limit, "{mean}");
        }
        let mut y = RowsBuf::copy_of(Rows::new(&x, 2, 24));
        kernel.layer_norm(y.view_mut(), &[2.0; 24], &[3.0; 24], 0.0);
        for row in y.data().chunks(24) {
            let mean: f64 = row.iter().map(|v| f64::from(*v)).sum::<f64>() / 24.0;
            let spread: f64 = row.iter().map(|v| (f64::from(*v) - mean).powi(2)).sum::<f64>() / 24.0;
            assert!((mean - 3.0).abs() < 1e-5 && (spread - 4.0).abs() < 1e-4, "{mean} {spread}");
        }
    }
    // The epsilon stands inside the root: of x = 0 nothing is left, of one alone the root of what was added.
    let mut one = [1.0];
    ops::rms_norm::<f64>(scantling_core::matrix::RowsMut::new(&mut one, 1, 1), &[1.0], 3.0);
    assert_eq!(one, [0.5]);
}

#[test]
fn a_rotation_is_a_complex_product() {
    let frequencies = [1.0, 0.25];
    for pairing in [Pairing::Halves, Pairing::Neighbours] {
        let mut rotation = Rotation::new(&frequencies, 1.5, 3, 2, pairing, 6);
        rotation.first = 1;
        let x = numbers(2 * 12, 6);
        let mut y = RowsBuf::copy_of(Rows::new(&x, 2, 12));
        Reference.rope(y.view_mut(), &rotation);
        for t in 0..2 {
            for head in 0..2 {
                let at = t * 12 + head * 6;
                assert_eq!(
                    (y.data()[at], y.data()[at + 5]),
                    (x[at], x[at + 5]),
                    "what lies outside is left alone"
                );
                for (a, frequency) in frequencies.iter().enumerate() {
                    let (i, j) = if pairing == Pairing::Halves { (a, a + 2) } else { (2 * a, 2 * a + 1) };
                    let angle = (3 + t) as f64 * frequency;
                    let (re, im) = (f64::from(x[at + 1 + i]), f64::from(x[at + 1 + j]));
                    let turned = [
                        1.5 * (re * angle.cos() - im * angle.sin()),
                        1.5 * (im * angle.cos() + re * angle.sin()),
                    ];
                    close(&[y.data()[at + 1 + i], y.data()[at + 1 + j]], &turned, 1e-6);
                }
            }
        }
    }
}

/// Attention written out over indexes.
fn attended(q: &[f32], k: &[f32], v: &[f32], n: usize, how: Attending<'_>) -> Vec<f64> {
    let group = how.heads / how.kv_heads;
    let mut out = Vec::new();
    for t in 0..q.len() / (how.heads * how.key) {
        for h in 0..how.heads {
            let mut weights = Vec::new();
            for p in 0..n {
                let at = how.start + t;
                let hidden = (how.causal && p > at) || how.window.is_some_and(|w| p + w <= at);
                let dot: f64 = (0..how.key)
                    .map(|i| {
                        let (q, k) = (
                            q[(t * how.heads + h) * how.key + i],
                            k[(p * how.kv_heads + h / group) * how.key + i],
                        );
                        f64::from(q) * f64::from(k)
                    })
                    .sum();
                let mut score = dot * f64::from(how.scale);
                if let Some(cap) = how.softcap {
                    score = f64::from(cap) * (score / f64::from(cap)).tanh();
                }
                weights.push(if hidden { 0.0 } else { score.exp() });
            }
            let sink = how.sinks.map_or(0.0, |s| f64::from(s[h]).exp());
            let sum: f64 = weights.iter().sum::<f64>() + sink;
            for i in 0..how.value {
                let value = |p: usize| f64::from(v[(p * how.kv_heads + h / group) * how.value + i]);
                out.push((0..n).map(|p| weights[p] / sum * value(p)).sum());
            }
        }
    }
    out
}

#[test]
fn attention_weighs_what_it_sees() {
    let plain = Attending {
        heads: 4,
        kv_heads: 2,
        key: 6,
        value: 5,
        scale: 0.4,
        start: 2,
        causal: true,
        window: None,
        softcap: None,
        sinks: None,
    };
    let (n, tokens) = (7, 3);
    let (q, k, v) = (numbers(tokens * 24, 7), numbers(n * 12, 8), numbers(n * 10, 9));
    let (kb, vb) = (bytes(&k), bytes(&v));
    let sinks = [0.1, -2.0, 0.7, 3.0];
    for how in [
        plain,
        Attending { causal: false, ..plain },
        Attending { window: Some(2), ..plain },
        Attending { softcap: Some(0.3), ..plain },
        Attending { sinks: Some(&sinks), window: Some(1), ..plain },
    ] {
        let keys = Matrix::new(DType::F32, n, 12, &kb).unwrap();
        let values = Matrix::new(DType::F32, n, 10, &vb).unwrap();
        for (kernel, limit) in BOTH {
            let found = kernel.attended(Rows::new(&q, tokens, 24), keys, values, how);
            close(found.data(), &attended(&q, &k, &v, n, how), limit);
        }
    }
}

#[test]
fn activations_have_their_known_values() {
    let act = |activation, x: f32| {
        let mut rows = RowsBuf::copy_of(Rows::new(&[x], 1, 1));
        Reference.activate(activation, rows.view_mut());
        f64::from(rows.data()[0])
    };
    // SiLU(1) = 1 / (1 + 1/e); the tanh form of GELU at 1 is 0.841192.
    assert!((act(Activation::Silu, 1.0) - 0.731_058_578_6).abs() < 1e-7);
    assert!((act(Activation::GeluTanh, 1.0) - 0.841_191_990_6).abs() < 1e-6);
    assert!((act(Activation::GeluTanh, -10.0)).abs() < 1e-6);
    let clamped = Activation::Clamped { alpha: 1.702, limit: 7.0 };
    let mut gate = RowsBuf::copy_of(Rows::new(&[9.0, 1.0, 1.0], 1, 3));
    Reference.gate(clamped, gate.view_mut(), Rows::new(&[9.0, -9.0, 0.5], 1, 3));
    let swish = |x: f64| x / (1.0 + (-1.702 * x).exp());
    close(gate.data(), &[swish(7.0) * 8.0, swish(1.0) * -6.0, swish(1.0) * 1.5], 1e-6);
    let mut x = RowsBuf::copy_of(Rows::new(&[100.0, 0.0], 1, 2));
    Reference.softcap(x.view_mut(), 30.0);
    close(x.data(), &[30.0 * (100.0f64 / 30.0).tanh(), 0.0], 1e-6);
}

#[test]
fn a_router_takes_the_best_of_the_best_groups() {
    let plain = Routing {
        used: 2,
        scoring: Scoring::Softmax,
        bias: None,
        groups: None,
        normalise: false,
        scale: 1.0,
    };
    let logits = [1.0, 3.0, 2.0, 3.0, -1.0, 0.0];
    let route = |how| Reference.route(Rows::new(&logits, 1, 6), how);
    let all: f64 = logits.iter().map(|l| f64::from(*l).exp()).sum();
    let chosen = route(plain);
    assert_eq!([chosen[0].0, chosen[1].0], [1, 3], "of equal scores the lower number comes first");
    assert!((f64::from(chosen[0].1) - 3f64.exp() / all).abs() < 1e-6);
    let halves = route(Routing { normalise: true, scale: 2.0, ..plain });
    assert!((halves[0].1 - 1.0).abs() < 1e-6 && (halves[1].1 - 1.0).abs() < 1e-6);
    let of_chosen = route(Routing { scoring: Scoring::SoftmaxOfChosen, ..plain });
    assert!((of_chosen[0].1 + of_chosen[1].1 - 1.0).abs() < 1e-6);
    // Groups {0, 1}, {2, 3}, {4, 5}: the sums of sigmoids put the second first; a bias lifts the third, and is not in
    // the weight.
    let grouped = Routing { scoring: Scoring::Sigmoid, groups: Some((3, 1)), ..plain };
    assert_eq!(route(grouped).iter().map(|c| c.0).collect::<Vec<_>>(), [3, 2]);
    let bias = [0.0, 0.0, 0.0, 0.0, 5.0, 5.0];
    let lifted = route(Routing { bias: Some(&bias), ..grouped });
    assert_eq!(lifted.iter().map(|c| c.0).collect::<Vec<_>>(), [5, 4]);
    assert!((lifted[0].1 - 0.5).abs() < 1e-6, "the weight is the sigmoid of 0");
}

/// A kernel that overrides one op, and one that wraps it.
struct Twice;
struct Around(Twice);

impl Kernel for Twice {
    fn name(&self) -> String {
        "twice".into()
    }

    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        2.0 * ops::dot::<f32>(dtype, w, x)
    }
}

impl Kernel for Around {
    fn name(&self) -> String {
        "around+twice".into()
    }

    fn base(&self) -> Option<&dyn Kernel> {
        Some(&self.0)
    }
}

#[test]
fn overriding_dot_changes_every_product_and_wrapping_changes_nothing() {
    let (w, x) = (bytes(&[1.0, 2.0, 3.0, 4.0]), [1.0, 1.0]);
    let linear = Linear::plain(Matrix::new(DType::F32, 2, 2, &w).unwrap());
    for kernel in [&Twice as &dyn Kernel, &Around(Twice)] {
        assert_eq!(kernel.project(linear, Rows::new(&x, 1, 2)).data(), [6.0, 14.0], "{}", kernel.name());
        let (mut a, mut b) = (RowsBuf::zeros(1, 2), RowsBuf::zeros(1, 2));
        kernel.matmuls(&[linear, linear], Rows::new(&x, 1, 2), vec![a.view_mut(), b.view_mut()]);
        assert_eq!((a.data(), b.data()), (&[6.0, 14.0][..], &[6.0, 14.0][..]));
    }
}
