//! What compressed-tensors calls pack-quantized: whole numbers of 4 or 8 bits in words of 32 bits. The picture of it stands
//! in `compressed.rs`.

use super::Packed;
use super::grid::{Cut, Grid};
use super::group::{Group, Part, int, word};
use super::scheme::FLOATS;
use super::weight_args::Args;
use crate::dtype::DType;
use crate::error::Result;
use std::borrow::Cow;

pub(super) const CODES: &str = ".weight_packed";
pub(super) const SCALES: &str = ".weight_scale";
pub(super) const ZEROS: &str = ".weight_zero_point";
pub(super) const ORDER: &str = ".weight_g_idx";
pub(super) const SHAPE: &str = ".weight_shape";

/// A weight whose parts fit each other.
pub(super) fn open<'a>(way: &Args, group: &Group<'a>) -> Result<Box<dyn Packed + 'a>> {
    let per = 32 / way.bits;
    let said = group.want(SHAPE, &[DType::I64], &[&[2]], "out, in").is_some();
    let Some((rows, cols)) = self::sides(group, way.bits).filter(|_| said) else {
        group.no_codes(CODES, "[out, in·bits / 32], and weight_shape that agrees");
        return group.unusable();
    };
    let codes = group.want(CODES, &[DType::I32], &[&[rows, cols.div_ceil(per)]], "out, in·bits / 32");
    let scales = Grid::want(group, SCALES, &FLOATS, way.cut, (rows, cols));
    let groups = way.cut.wide(cols);
    let zeros = match way.symmetric {
        true => None,
        false => group.want(ZEROS, &[DType::I32], &[&[rows.div_ceil(per), groups]], "out·bits / 32, groups"),
    };
    let order = group.may(ORDER, &[DType::I32], &[&[cols]], "in");
    // An order of nothing but -1 is none, and where a row has one scale it makes no difference.
    let order = order.filter(|_| matches!(way.cut, Cut::Group(_)));
    let order = order.filter(|order| (0..cols).any(|i| int(&order.data, i) != -1));
    if let Some(order) = &order {
        fill_groups(group, order, way.cut, cols);
    }
    let (Some(codes), Some(scales)) = (codes, scales) else { return group.unusable() };
    group.settle()?;
    let order = order.map(|order| order.data);
    let (codes, zeros) = (codes.data, zeros.map(|zeros| zeros.data));
    let (bits, sides, bytes) = (way.bits, (rows, cols), group.byte_len());
    Ok(Box::new(Words { codes, zeros, scales, order, groups, bits, sides, bytes }))
}

/// Outputs and inputs as `weight_shape` has them, if codes of so many bits take the room that is there.
pub(super) fn sides(group: &Group<'_>, bits: usize) -> Option<(usize, usize)> {
    let (rows, words) = group.sides(CODES)?;
    let shape = group.quiet(SHAPE, DType::I64, &[2])?;
    let side = |i: usize| {
        let number = shape.get(8 * i..).and_then(|rest| rest.first_chunk())?;
        usize::try_from(i64::from_le_bytes(*number)).ok()
    };
    let (out, inputs) = (side(0)?, side(1)?);
    (out == rows && inputs.div_ceil(32 / bits) == words).then_some((out, inputs))
}

/// Notes a group that has not as many inputs as it should: scales would be taken for those of others.
fn fill_groups(group: &Group<'_>, order: &Part<'_>, cut: Cut, cols: usize) {
    let Cut::Group(size) = cut else { return };
    let mut filled = vec![0usize; cols.div_ceil(size)];
    for i in 0..cols {
        let number = int(&order.data, i);
        let Some(count) = usize::try_from(number).ok().and_then(|g| filled.get_mut(g)) else {
            let last = cols.div_ceil(size).saturating_sub(1);
            let message = "weight_g_idx gives an input a group that there is not";
            group.wrong(
                order.info,
                message,
                format!("0 to {last} for each input"),
                format!("{number} for input {i}"),
            );
            return;
        };
        *count += 1;
    }
    let wrong = filled.iter().enumerate().find(|(g, n)| **n != size.min(cols - g * size));
    if let Some((g, n)) = wrong {
        let message = "weight_g_idx does not fill its groups";
        group.wrong(order.info, message, format!("{size} inputs in group {g}"), n.to_string());
    }
}

/// A matrix of whole numbers in words of 32 bits.
struct Words<'a> {
    codes: Cow<'a, [u8]>,
    zeros: Option<Cow<'a, [u8]>>,
    scales: Grid<'a>,
    /// The group of each input, where neighbours are not of one.
    order: Option<Cow<'a, [u8]>>,
    /// Groups of a row.
    groups: usize,
    bits: usize,
    sides: (usize, usize),
    bytes: u64,
}

impl Packed for Words<'_> {
    fn rows(&self) -> usize {
        self.sides.0
    }

    fn cols(&self) -> usize {
        self.sides.1
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn quantisation_error(&self) -> f64 {
        super::error_of_bits(self.bits)
    }

    fn widen(&self, first: usize, out: &mut [f32]) {
        let (cols, per) = (self.sides.1, 32 / self.bits);
        let (mask, middle) = ((1u32 << self.bits) - 1, 1 << (self.bits - 1));
        let words = cols.div_ceil(per);
        let mut scales = Vec::new();
        for (row, out) in out.chunks_exact_mut(cols.max(1)).enumerate() {
            let row = first + row;
            self.scales.row(row, &mut scales);
            for (input, out) in out.iter_mut().enumerate() {
                let group = match &self.order {
                    Some(order) => word(order, input) as usize,
                    None => input / self.scales.block_cols(),
                };
                let code = word(&self.codes, row * words + input / per) >> (self.bits * (input % per)) & mask;
                let zero = match &self.zeros {
                    Some(zeros) => {
                        word(zeros, row / per * self.groups + group) >> (self.bits * (row % per)) & mask
                    }
                    None => middle,
                };
                *out = (code as i32 - zero as i32) as f32 * scales[group];
            }
        }
    }
}
