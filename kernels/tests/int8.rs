//! Kernels with activations of 8 bits against their definition: activations rounded by the documented rule in plain
//! loops, weights as core decodes them, sums in f64. What may differ is the rounding of f32 sums alone.
#![allow(clippy::print_stdout)] // what is skipped is said

use scantling_core::dtype::DType;
use scantling_core::kernel::{Kernel, Make, Options, Precision};
use scantling_core::matrix::{Matrix, Rows, RowsBuf};
use scantling_core::ops::Linear;
use scantling_core::quant;

/// Types with a path of their own, and the size of the activation blocks that goes with each.
const TYPES: [(DType, usize); 13] = [
    (DType::Q8_0, 32),
    (DType::Q4_0, 32),
    (DType::Q4_1, 32),
    (DType::Q5_0, 32),
    (DType::Q5_1, 32),
    (DType::IQ4_NL, 32),
    (DType::MXFP4, 32),
    (DType::Q2_K, 256),
    (DType::Q3_K, 256),
    (DType::Q4_K, 256),
    (DType::Q5_K, 256),
    (DType::Q6_K, 256),
    (DType::IQ4_XS, 256),
];

/// Every leaf of this program that rounds activations and runs on this machine.
fn leaves() -> Vec<Box<dyn Kernel>> {
    let plugins =
        [scantling_kernels::AVX2_INT8, scantling_kernels::AVX512_INT8, scantling_kernels::NEON_INT8];
    assert!(plugins.iter().all(|k| matches!(k.precision, Precision::Quantised { .. })));
    let leaves: Vec<_> = plugins
        .iter()
        .filter_map(|k| match k.make {
            Make::Leaf(make) => make(&Options::default()).ok(),
            Make::Wrapper(_) => None,
        })
        .collect();
    if leaves.is_empty() {
        println!("skipped: no kernel with activations of 8 bits runs here");
    }
    leaves
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.0 >> 33
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    /// Within ±1.
    fn float(&mut self) -> f32 {
        (self.next() % 200_001) as f32 / 100_000.0 - 1.0
    }

    fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }

    /// An f16 of either sign from 2^-9 to 2^-2.
    fn half(&mut self) -> [u8; 2] {
        let (sign, exponent, mantissa) = (self.next() & 1, 6 + self.next() % 7, self.next() & 1023);
        ((sign << 15 | exponent << 10 | mantissa) as u16).to_le_bytes()
    }
}

/// Where the f16 of a block are.
fn halves(dtype: DType) -> &'static [usize] {
    match dtype {
        DType::Q4_1 | DType::Q5_1 | DType::Q4_K | DType::Q5_K => &[0, 2],
        DType::Q2_K => &[80, 82],
        DType::Q3_K => &[108],
        DType::Q6_K => &[208],
        DType::MXFP4 => &[],
        _ => &[0],
    }
}

/// Blocks of which every byte is as `fill` says but for the scales in f16, which are random but tame.
fn stored(
    dtype: DType,
    elements: usize,
    random: &mut Random,
    mut fill: impl FnMut(&mut Random) -> u8,
) -> Vec<u8> {
    let bytes = elements / dtype.block_elements() * dtype.block_bytes();
    let mut raw: Vec<u8> = (0..bytes).map(|_| fill(random)).collect();
    for block in raw.chunks_mut(dtype.block_bytes()) {
        for at in halves(dtype) {
            block[*at..at + 2].copy_from_slice(&random.half());
        }
        if dtype == DType::MXFP4 {
            block[0] = 120 + (random.byte() & 7);
        }
    }
    raw
}

/// The rule, block by block.
fn rounded(x: &[f32], block: usize) -> Vec<f64> {
    let mut out = Vec::new();
    for x in x.chunks(block) {
        let greatest = x.iter().fold(0.0f32, |m, x| m.max(x.abs()));
        let (scale, inverse) = (greatest / 127.0, 127.0 / greatest);
        let code = |x: f32| if greatest == 0.0 { 0.0 } else { (x * inverse).round_ties_even() };
        out.extend(x.iter().map(|x| f64::from(code(*x)) * f64::from(scale)));
    }
    out
}

/// What the product is to be, and how far off it may be: 8 roundings of f32 of the largest it could be.
fn expected(linear: &Linear<'_>, x: Rows<'_>, block: usize) -> Vec<Vec<(f64, f64)>> {
    let w = linear.weight;
    let x: Vec<Vec<f64>> = x.iter().map(|x| rounded(x, block)).collect();
    let mut out = vec![Vec::new(); x.len()];
    let mut values = vec![0.0; w.cols()];
    for o in 0..w.rows() {
        quant::decode(w.dtype(), w.row(o), &mut values).unwrap();
        let largest = values.iter().fold(0.0f64, |m, w| m.max(f64::from(w.abs())));
        let bias = linear.bias.map_or(0.0, |b| f64::from(b[o]));
        for (x, out) in x.iter().zip(&mut out) {
            let sum: f64 = values.iter().zip(x).map(|(w, x)| f64::from(*w) * x).sum();
            let most: f64 = x.iter().map(|x| x.abs() * largest).sum::<f64>() * f64::from(linear.scale.abs());
            let bound = (8.0 * most + 2.0 * bias.abs()) * 2f64.powi(-24) + 1e-30;
            out.push((sum * f64::from(linear.scale) + bias, bound));
        }
    }
    out
}

#[track_caller]
fn agrees(kernel: &dyn Kernel, linear: Linear<'_>, x: Rows<'_>, block: usize, what: &str) {
    let out = kernel.project(linear, x);
    for (t, row) in expected(&linear, x, block).iter().enumerate() {
        for (o, (want, bound)) in row.iter().enumerate() {
            let got = f64::from(out.view().row(t)[o]);
            assert!(
                (got - want).abs() <= *bound,
                "{} {:?} × {} rows, {what}: row {t}, output {o}: expected {want} ± {bound}, got {got}",
                kernel.name(),
                linear.weight,
                x.rows()
            );
        }
    }
}

#[test]
fn products_are_those_of_the_rounded_activations() {
    for kernel in leaves() {
        let mut random = Random(1);
        for (dtype, block) in TYPES {
            for (rows, cols) in [(1, 1), (3, 3), (16, 2), (17, 8), (37, 9)] {
                let cols = cols * dtype.block_elements();
                let raw = stored(dtype, rows * cols, &mut random, Random::byte);
                let weight = Matrix::new(dtype, rows, cols, &raw).unwrap();
                let bias = random.floats(rows);
                for m in [1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 13, 17] {
                    let x = random.floats(m * cols);
                    let x = Rows::new(&x, m, cols);
                    agrees(&*kernel, Linear::plain(weight), x, block, "plain");
                    let linear = Linear { weight, bias: Some(&bias), scale: -0.75 };
                    agrees(&*kernel, linear, x, block, "with bias and scale");
                }
            }
        }
    }
}

#[test]
fn nothing_saturates_at_the_ends_of_the_ranges() {
    for kernel in leaves() {
        let mut random = Random(2);
        for (dtype, block) in TYPES {
            let (rows, cols) = (19, 512);
            for byte in [0x00, 0xff, 0x80, 0x7f, 0x0f, 0xf0, 0x88, 0x77] {
                let raw = stored(dtype, rows * cols, &mut random, |_| byte);
                let weight = Matrix::new(dtype, rows, cols, &raw).unwrap();
                for (name, sign) in [
                    ("all 127", (|_| 1.0) as fn(usize) -> f32),
                    ("all -127", |_| -1.0),
                    ("in turn", |i| if i % 2 == 0 { 1.0 } else { -1.0 }),
                    ("in pairs", |i| if i % 4 < 2 { 1.0 } else { -1.0 }),
                    ("in halves", |i| if i % 32 < 16 { -1.0 } else { 1.0 }),
                ] {
                    for m in [1, 4, 8, 12] {
                        let x: Vec<f32> = (0..m * cols).map(|i| 3.0 * sign(i)).collect();
                        let what = format!("bytes {byte:#x}, activations {name}");
                        agrees(&*kernel, Linear::plain(weight), Rows::new(&x, m, cols), block, &what);
                    }
                }
            }
        }
    }
}

#[test]
fn an_output_has_the_same_bits_wherever_it_is_made() {
    for kernel in leaves() {
        let mut random = Random(3);
        for (dtype, _) in TYPES {
            let (rows, cols) = (41, 2 * dtype.block_elements() + 256);
            let raw = stored(dtype, rows * cols, &mut random, Random::byte);
            let linear = Linear::plain(Matrix::new(dtype, rows, cols, &raw).unwrap());
            for m in [1, 3, 6, 8, 13] {
                let x = random.floats(m * cols);
                let x = Rows::new(&x, m, cols);
                let all = kernel.project(linear, x);
                for (from, to) in [(0, 1), (1, 2), (5, 23), (16, 41), (40, 41), (7, 7)] {
                    let part = kernel.project(linear.outputs(from, to), x);
                    for t in 0..m {
                        let bits = |x: &[f32]| x.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
                        let (want, got) = (bits(&all.view().row(t)[from..to]), bits(part.view().row(t)));
                        assert_eq!(want, got, "{} {dtype} {from}..{to}, row {t} of {m}", kernel.name());
                    }
                }
            }
        }
    }
}

#[test]
fn several_products_are_the_same_as_one_after_the_other() {
    for kernel in leaves() {
        let mut random = Random(4);
        let (rows, cols) = (20, 512);
        let types = [DType::Q4_K, DType::Q8_0, DType::F16, DType::Q6_K, DType::Q4_0];
        let raws = types.map(|dtype| stored(dtype, rows * cols, &mut random, |r| r.byte() & 0x3f));
        let linears: Vec<Linear<'_>> = types
            .iter()
            .zip(&raws)
            .map(|(dtype, raw)| Linear::plain(Matrix::new(*dtype, rows, cols, raw).unwrap()))
            .collect();
        for m in [1, 9] {
            let x = random.floats(m * cols);
            let x = Rows::new(&x, m, cols);
            let mut together: Vec<RowsBuf> = types.iter().map(|_| RowsBuf::zeros(m, rows)).collect();
            kernel.matmuls(&linears, x, together.iter_mut().map(RowsBuf::view_mut).collect());
            for (linear, out) in linears.iter().zip(&together) {
                assert_eq!(*out, kernel.project(*linear, x), "{} {:?}", kernel.name(), linear.weight);
            }
        }
    }
}

#[test]
fn windows_of_wider_matrices_are_products_too() {
    for kernel in leaves() {
        let mut random = Random(5);
        for (dtype, block) in TYPES {
            let e = dtype.block_elements();
            let (rows, cols) = (21, 5 * e);
            let raw = stored(dtype, rows * cols, &mut random, Random::byte);
            let weight = Matrix::new(dtype, rows, cols, &raw).unwrap().cols_at(e..4 * e).rows_at(2..19);
            for m in [1, 10] {
                let x = random.floats(m * cols);
                let x = Rows::new(&x, m, cols).cols_at(2 * e..5 * e);
                agrees(&*kernel, Linear::plain(weight), x, block, "a window");
            }
        }
    }
}

#[test]
fn what_is_not_a_number_shows_in_its_row_alone() {
    for kernel in leaves() {
        let mut random = Random(6);
        for (dtype, _) in TYPES {
            let (rows, cols) = (18, 512);
            let raw = stored(dtype, rows * cols, &mut random, Random::byte);
            let linear = Linear::plain(Matrix::new(dtype, rows, cols, &raw).unwrap());
            for (m, bad) in [(1, f32::NAN), (2, f32::INFINITY), (9, f32::NEG_INFINITY), (12, -f32::NAN)] {
                let clean = random.floats(m * cols);
                let mut x = clean.clone();
                let row = m / 2;
                x[row * cols + 300] = bad;
                let (clean, out) = (
                    kernel.project(linear, Rows::new(&clean, m, cols)),
                    kernel.project(linear, Rows::new(&x, m, cols)),
                );
                for t in 0..m {
                    let (clean, out) = (clean.view().row(t).to_vec(), out.view().row(t).to_vec());
                    let what = format!("{} {dtype}, row {t} of {m} with {bad} in row {row}", kernel.name());
                    if t == row {
                        assert!(out.iter().all(|y| y.is_nan()), "{what}: {out:?}");
                    } else {
                        assert_eq!(out, clean, "{what}");
                    }
                }
            }
        }
    }
}

#[test]
fn scales_that_are_no_numbers_and_activations_of_nothing() {
    for kernel in leaves() {
        let mut random = Random(7);
        for (dtype, _) in TYPES {
            let (rows, cols) = (18, 512);
            let mut raw = stored(dtype, rows * cols, &mut random, Random::byte);
            let bias = random.floats(rows);
            for m in [0, 1, 5, 8] {
                let weight = Matrix::new(dtype, rows, cols, &raw).unwrap();
                let x = vec![0.0; m * cols];
                let out =
                    kernel.project(Linear { weight, bias: Some(&bias), scale: 2.0 }, Rows::new(&x, m, cols));
                assert!(out.view().iter().all(|y| y == bias), "{} {dtype} × {m} zeros", kernel.name());
            }
            let Some(at) = halves(dtype).first() else { continue };
            raw[*at..at + 2].copy_from_slice(&0x7e00u16.to_le_bytes());
            for m in [1, 8] {
                let x = random.floats(m * cols);
                let linear = Linear::plain(Matrix::new(dtype, rows, cols, &raw).unwrap());
                let out = kernel.project(linear, Rows::new(&x, m, cols));
                for y in out.view().iter() {
                    assert!(
                        y[0].is_nan() && y[1..].iter().all(|y| y.is_finite()),
                        "{} {dtype}",
                        kernel.name()
                    );
                }
            }
            let none = Matrix::new(dtype, 0, cols, &[]).unwrap();
            let x = random.floats(9 * cols);
            assert_eq!(kernel.project(Linear::plain(none), Rows::new(&x, 9, cols)).view().cols(), 0);
        }
    }
}
