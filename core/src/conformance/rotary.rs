//! Rotary positions: both pairings, whole heads and parts of them, any first position.

use super::data::Placed;
use super::{Case, Scale, random};
use crate::kernel::{Kernel, Reference};
use crate::matrix::RowsBuf;
use crate::ops::{Pairing, Rotation};
use crate::tolerance;

/// Width of a head, half of what turns, where that starts, heads, rows.
const SHAPES: [[usize; 5]; 12] = [
    [64, 32, 0, 3, 2],
    [20, 5, 4, 2, 3],
    [2, 1, 0, 5, 1],
    [64, 16, 0, 1, 9],
    [128, 64, 0, 2, 4],
    [96, 24, 48, 2, 2],
    [64, 32, 0, 2, 0],
    [18, 9, 0, 3, 5],
    [80, 37, 6, 1, 3],
    [33, 7, 19, 2, 2],
    [192, 32, 128, 2, 2],
    [256, 33, 0, 1, 7],
];

pub(super) fn cases(scale: Scale, seed: u64) -> Vec<Case<'static>> {
    let both = [Pairing::Halves, Pairing::Neighbours];
    let shapes = scale.some(&SHAPES, 5).iter();
    shapes.flat_map(|shape| both.map(|pairing| case(*shape, pairing, seed))).collect()
}

fn case([head, half, first, heads, rows]: [usize; 5], pairing: Pairing, seed: u64) -> Case<'static> {
    let shape =
        format!("{rows} rows of {heads} heads of {head}, {pairing:?}, turning {first}..{}", first + 2 * half);
    Case::new("rope", None, shape, move |kernel| {
        let mut random = random(seed, &[head, half, first, rows]);
        let frequencies: Vec<f64> = (0..half).map(|i| 100f64.powf(-(i as f64) / half as f64)).collect();
        let start = random.below(500);
        let rotation = Rotation::new(&frequencies, 1.25, start, rows, pairing, head);
        let rotation = Rotation { first, ..rotation };
        let mut x = Placed::normal(rows, heads * head, &mut random);
        let bounds = tolerance::rope(x.view(), &rotation);
        let mut expected = RowsBuf::copy_of(x.view());
        Reference.rope(expected.view_mut(), &rotation);
        kernel.rope(x.view_mut(), &rotation);
        x.judge(expected.data(), &bounds)
    })
}
