//! What has to hold of any input, told without the definitions wherever that can be.

mod leaves;

use proptest::prelude::*;
use scantling_core::conformance::{blocks, normals};
use scantling_core::dtype::DType;
use scantling_core::kernel::{Kernel, Reference};
use scantling_core::matrix::{Matrix, Rows, RowsBuf};
use scantling_core::ops::{Activation, Attending, Linear, Pairing, Rotation};
use scantling_core::tolerance::{self, Judgement, ROUNDOFF};

fn types() -> Vec<DType> {
    DType::all().filter(|d| d.codec().is_some() && d.block_values() == d.block_elements()).collect()
}

/// A product of any shape: type, rows of the matrix, blocks of each, rows of activations.
#[derive(Clone, Debug)]
struct Product {
    dtype: DType,
    rows: usize,
    cols: usize,
    raw: Vec<u8>,
    x: RowsBuf,
}

fn product() -> impl Strategy<Value = Product> {
    let wide =
        |d: DType| if d.block_elements() < 32 { 600 / d.block_elements() } else { 1024 / d.block_elements() };
    let shape = (prop::sample::select(types()), 1usize..40, 1usize..20, any::<u64>());
    let sized = shape.prop_flat_map(move |(dtype, rows, tokens, seed)| {
        (1..=wide(dtype), Just((dtype, rows, tokens, seed)))
    });
    sized.prop_map(|(width, (dtype, rows, tokens, seed))| {
        let cols = width * dtype.block_elements();
        let x = normals(tokens * cols, seed);
        let x = RowsBuf::copy_of(Rows::new(&x, tokens, cols));
        Product { dtype, rows, cols, raw: blocks(dtype, rows * width, seed), x }
    })
}

impl Product {
    fn linear(&self) -> Linear<'_> {
        Linear::plain(Matrix::new(self.dtype, self.rows, self.cols, &self.raw).unwrap())
    }
}

fn scaled(x: Rows<'_>, factor: f32) -> RowsBuf {
    let mut copy = RowsBuf::copy_of(x);
    Reference.scale(copy.view_mut(), factor);
    copy
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    #[test]
    fn products_of_any_shape_are_within_their_bounds(product in product(), scale in -3.0f32..3.0) {
        let bias = normals(product.rows, 5);
        let linear = Linear { bias: Some(&bias), scale, ..product.linear() };
        let expected = (&Reference as &dyn Kernel).project(linear, product.x.view());
        for (_, kernel) in leaves::usable() {
            let bounds = tolerance::matmul(linear, product.x.view(), kernel.precision());
            let found = kernel.project(linear, product.x.view());
            let judged = Judgement::of(found.data(), expected.data(), &bounds);
            prop_assert!(judged.pass, "{}: {judged:?}", kernel.name());
        }
    }

    /// A power of two changes no rounding, not even to integers.
    #[test]
    fn twice_the_input_is_twice_the_product_bit_for_bit(product in product()) {
        for (_, kernel) in leaves::usable() {
            let once = kernel.project(product.linear(), product.x.view());
            let twice = kernel.project(product.linear(), scaled(product.x.view(), 2.0).view());
            prop_assert_eq!(scaled(once.view(), 2.0), twice, "{}", kernel.name());
        }
    }

    #[test]
    fn an_output_does_not_depend_on_where_its_row_stands(product in product(), by in 0usize..40) {
        let row = product.linear().weight.row_bytes();
        let by = by % product.rows;
        let mut turned = product.clone();
        turned.raw.rotate_left(by * row);
        for (_, kernel) in leaves::usable() {
            let mut before = kernel.project(product.linear(), product.x.view());
            let mut view = before.view_mut();
            (0..view.rows()).for_each(|t| view.row(t).rotate_left(by));
            prop_assert_eq!(&before, &kernel.project(turned.linear(), turned.x.view()), "{}", kernel.name());
        }
    }

    /// Weights of a softmax add up to one: values that are all alike come out as they are.
    #[test]
    fn attention_to_values_all_alike_gives_that_value(
        (group, kv_heads, key, value) in (1usize..4, 1usize..4, 1usize..70, 1usize..70),
        (rows, past) in (1usize..6, 0usize..150),
        (causal, window) in (any::<bool>(), prop::option::of(1usize..40)),
        seed: u64,
    ) {
        let keys = past + rows;
        let stored = |values: Vec<f32>| values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let k = stored(normals(keys * kv_heads * key, seed));
        let v = stored(vec![0.7; keys * kv_heads * value]);
        let k = Matrix::new(DType::F32, keys, kv_heads * key, &k).unwrap();
        let v = Matrix::new(DType::F32, keys, kv_heads * value, &v).unwrap();
        let heads = group * kv_heads;
        let q = normals(rows * heads * key, seed ^ 1);
        let how = Attending {
            heads, kv_heads, key, value, scale: 0.5, start: past, causal, window, softcap: None, sinks: None,
        };
        for (_, kernel) in leaves::usable() {
            let found = kernel.attended(Rows::new(&q, rows, heads * key), k, v, how);
            let bound = ROUNDOFF * (tolerance::steps(keys) + 8.0);
            let near = |y: &f32| (f64::from(*y) - f64::from(0.7f32)).abs() <= bound;
            prop_assert!(found.data().iter().all(near), "{}: {found:?}", kernel.name());
        }
    }

    /// Turning there and back again.
    #[test]
    fn rotations_can_be_taken_back(
        (half, heads, rows, around) in (1usize..50, 1usize..4, 1usize..6, 0usize..20),
        neighbours: bool,
        seed: u64,
    ) {
        let pairing = if neighbours { Pairing::Neighbours } else { Pairing::Halves };
        let head = 2 * half + around;
        let frequencies: Vec<f64> = (0..half).map(|i| 0.9f64.powi(i as i32)).collect();
        let there = Rotation { first: around / 2, ..Rotation::new(&frequencies, 1.0, 3, rows, pairing, head) };
        let back = Rotation { sin: there.sin.iter().map(|s| -s).collect(), ..there.clone() };
        let x = normals(rows * heads * head, seed);
        for (_, kernel) in leaves::usable() {
            let mut turned = RowsBuf::copy_of(Rows::new(&x, rows, heads * head));
            kernel.rope(turned.view_mut(), &there);
            kernel.rope(turned.view_mut(), &back);
            let near = |(a, b): (&f32, &f32)| (a - b).abs() < 4e-6;
            prop_assert!(turned.data().iter().zip(&x).all(near), "{}", kernel.name());
        }
    }

    /// `f(x) - f(-x) = x`, of both.
    #[test]
    fn activations_of_both_signs_add_up(n in 1usize..100, size in 0.01f32..40.0, seed: u64) {
        let x: Vec<f32> = normals(n, seed).iter().map(|x| size * x).collect();
        let minus: Vec<f32> = x.iter().map(|x| -x).collect();
        for (_, kernel) in leaves::usable() {
            for activation in [Activation::Silu, Activation::GeluTanh] {
                let of = |x: &[f32]| {
                    let mut y = RowsBuf::copy_of(Rows::new(x, 1, n));
                    kernel.activate(activation, y.view_mut());
                    y
                };
                let (right, left) = (of(&x), of(&minus));
                for ((x, r), l) in x.iter().zip(right.data()).zip(left.data()) {
                    let off = (f64::from(*r) - f64::from(*l) - f64::from(*x)).abs();
                    let bound = 20.0 * ROUNDOFF * f64::from(x.abs()) + 1e-30;
                    prop_assert!(off <= bound, "{}: {activation:?} of {x}: {off:e}", kernel.name());
                }
            }
        }
    }

    #[test]
    fn a_norm_does_not_tell_the_size_of_its_input(n in 1usize..300, seed: u64) {
        let (x, weight) = (normals(3 * n, seed), normals(n, seed ^ 1));
        let x = Rows::new(&x, 3, n);
        for (_, kernel) in leaves::usable() {
            // A power of four: its root is a power of two, so no rounding changes.
            let (small, large) = (kernel.normed(x, &weight, 0.0), kernel.normed(scaled(x, 4.0).view(), &weight, 0.0));
            prop_assert_eq!(small, large, "{}", kernel.name());
        }
    }
}
