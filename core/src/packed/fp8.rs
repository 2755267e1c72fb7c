//! FP8 as `quant_method` "fp8" has it: a byte for each element, a scale for each block, row or tensor.
//!
//! ```text
//! X.weight             F8      [out, in]
//! X.weight_scale_inv   floats  [⌈out / high⌉, ⌈in / wide⌉], or one for the tensor
//! X.weight_scale       floats  one for each output, or one for the tensor
//!
//! weight[o][i] = f8(code[o][i]) * scale[o / high][i / wide]
//! ```
//!
//! The name says inverse, the operation is a multiplication. Blocks at the far edges may be partial. A scale that is a
//! byte is a power of two (E8M0). Scales of activations may lie beside: nothing is computed with them here.

use super::Packed;
use super::grid::{Cut, Grid};
use super::group::Group;
use super::said::Said;
use super::scheme::{FP8, Layout, Scheme};
use crate::dtype::DType;
use crate::error::Result;
use crate::quant;
use crate::quant::rounding::float_step;
use std::borrow::Cow;

const CODES: &str = ".weight";
const SCALES: [&str; 2] = [".weight_scale_inv", ".weight_scale"];
const SCALE_TYPES: [DType; 5] = [DType::F32, DType::BF16, DType::F16, DType::F8_E8M0, DType::U8];

static LAYOUTS: [Layout; 1] = [Layout {
    codes: CODES,
    types: Some(&FP8),
    others: &[SCALES[0], SCALES[1], ".input_scale", ".activation_scale"],
    name: ".weight",
}];

/// What a config says of the scheme.
pub(super) struct Fp8 {
    /// The sides of a block; `None` where the config says that there are none, or nothing.
    block: Option<(usize, usize)>,
}

impl Fp8 {
    pub fn of(said: &Said) -> Option<Fp8> {
        let block = said.pair("weight_block_size");
        (block.is_some() || said.value("weight_block_size").is_none()).then_some(Fp8 { block })
    }

    /// How the scales of a matrix are to be: in blocks where the config says so; else by what is stored.
    fn cut(&self, group: &Group<'_>, rows: usize) -> Cut {
        const UNSAID: Cut = Cut::Block(128, 128);
        let stored = SCALES.iter().find_map(|end| group.part(end)).map(|part| part.shape.as_slice());
        match (self.block, stored) {
            (Some((high, wide)), _) => Cut::Block(high, wide),
            (None, Some([] | [1] | [1, 1])) => Cut::Tensor,
            (None, Some([n] | [n, 1])) if *n == rows => Cut::Channel,
            (None, Some([_, _])) => UNSAID,
            (None, _) => Cut::Tensor,
        }
    }
}

impl Scheme for Fp8 {
    fn layouts(&self) -> &'static [Layout] {
        &LAYOUTS
    }

    fn look(&self, group: &Group<'_>) -> (Vec<usize>, String) {
        let shape = group.shape(CODES).to_vec();
        let rows = shape.first().copied().unwrap_or(0);
        let dtype = group.part(CODES).map_or(String::new(), |part| part.dtype.to_string());
        (shape, format!("{dtype} {}", self.cut(group, rows).words()))
    }

    fn open<'a>(&'a self, group: &Group<'a>) -> Result<Box<dyn Packed + 'a>> {
        let Some(sides) = group.sides(CODES) else {
            group.no_codes(CODES, "[out, in]");
            return group.unusable();
        };
        let codes = group.want(CODES, &FP8, &[&[sides.0, sides.1]], "out, in");
        let end = SCALES.into_iter().find(|end| group.part(end).is_some()).unwrap_or(SCALES[0]);
        let scales = Grid::want(group, end, &SCALE_TYPES, self.cut(group, sides.0), sides);
        let (Some(codes), Some(scales)) = (codes, scales) else { return group.unusable() };
        Ok(Box::new(Scaled {
            codes: codes.data,
            dtype: codes.dtype,
            sides,
            zeros: None,
            scales,
            bytes: group.byte_len(),
        }))
    }
}

/// A matrix of numbers of one byte each, scaled in blocks.
pub(super) struct Scaled<'a> {
    /// The numbers, in rows.
    pub codes: Cow<'a, [u8]>,
    /// Their type.
    pub dtype: DType,
    /// Rows and columns.
    pub sides: (usize, usize),
    /// What is taken away first, if anything.
    pub zeros: Option<Grid<'a>>,
    /// What is multiplied by.
    pub scales: Grid<'a>,
    /// Bytes of all parts.
    pub bytes: u64,
}

impl Packed for Scaled<'_> {
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
        // Errors are spread evenly over a step, and steps are of the size of the numbers.
        let step = float_step(self.dtype, 1.0);
        step.map_or_else(|| super::error_of_bits(8), |step| step / 12f64.sqrt())
    }

    fn widen(&self, first: usize, out: &mut [f32]) {
        let cols = self.sides.1;
        let (mut scales, mut zeros) = (Vec::new(), Vec::new());
        for (row, out) in out.chunks_exact_mut(cols.max(1)).enumerate() {
            let row = first + row;
            quant::decode(self.dtype, &self.codes[row * cols..][..cols], out).expect("one byte each");
            if let Some(grid) = &self.zeros {
                grid.row(row, &mut zeros);
                each_block(out, grid.block_cols(), &zeros, |x, zero| x - zero);
            }
            self.scales.row(row, &mut scales);
            each_block(out, self.scales.block_cols(), &scales, |x, scale| x * scale);
        }
    }
}

fn each_block(row: &mut [f32], wide: usize, numbers: &[f32], op: impl Fn(f32, f32) -> f32) {
    for (block, number) in row.chunks_mut(wide).zip(numbers) {
        block.iter_mut().for_each(|x| *x = op(*x, *number));
    }
}
