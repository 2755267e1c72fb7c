//! The ways that one leaf has to its sums, held against each other.

#![allow(clippy::print_stderr, reason = "a test that leaves something out has to say so")]

use super::Int8;
use super::activations::MANY;
use super::dot8::Dot8;
use scantling_core::conformance;
use scantling_core::dtype::DType;
use scantling_core::kernel::{Kernel, Make, Options};
use scantling_core::matrix::{Matrix, Rows};
use scantling_core::ops::Linear;

const TYPES: [DType; 13] = [
    DType::Q8_0,
    DType::Q4_0,
    DType::Q4_1,
    DType::Q5_0,
    DType::Q5_1,
    DType::IQ4_NL,
    DType::MXFP4,
    DType::Q2_K,
    DType::Q3_K,
    DType::Q4_K,
    DType::Q5_K,
    DType::Q6_K,
    DType::IQ4_XS,
];

/// A leaf around what takes over from it in nothing that is compared here.
pub(crate) fn leaf<S: Dot8, M: Dot8>(name: &'static str, few: S, many: M) -> Int8<S, M> {
    let Make::Leaf(make) = crate::SCALAR.make else { unreachable!("scalar is a leaf") };
    Int8::new(name, few, many, make(&Options::default()).expect("scalar runs everywhere"))
}

/// Few and many rows of activations, in tiles of all heights, with rows of weights that fill no panel; where the
/// processor can go both ways.
pub(crate) fn same_bits(a: Result<impl Kernel, String>, b: Result<impl Kernel, String>) {
    let (a, b) = match (&a, &b) {
        (Ok(a), Ok(b)) => (a as &dyn Kernel, b as &dyn Kernel),
        (Err(why), _) | (_, Err(why)) => return eprintln!("skipped: {why}"),
    };
    for dtype in TYPES {
        let (rows, cols) = (21, 512 + 2 * dtype.block_elements());
        let raw = conformance::blocks(dtype, rows * cols / dtype.block_elements(), 7);
        let linear = Linear::plain(Matrix::new(dtype, rows, cols, &raw).unwrap());
        for m in [1, 2, 3, 4, 8, 9, MANY - 1, MANY, MANY + 1, MANY + 2, MANY + 3] {
            let x = conformance::normals(m * cols, m as u64);
            let x = Rows::new(&x, m, cols);
            let (first, second) = (a.project(linear, x), b.project(linear, x));
            for (t, (first, second)) in first.view().iter().zip(second.view().iter()).enumerate() {
                let bits = |y: &[f32]| y.iter().map(|y| y.to_bits()).collect::<Vec<_>>();
                let what = format!("{dtype}, row {t} of {m}: {} and {}", a.name(), b.name());
                assert_eq!(bits(first), bits(second), "{what}");
                assert!(first.iter().all(|y| y.is_finite()), "{what}: {first:?}");
            }
        }
    }
}
