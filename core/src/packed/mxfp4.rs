//! MXFP4 as GPT-OSS stores its experts: floats of four bits, a power of two for each 32 of them.
//!
//! ```text
//! X_blocks  U8 [experts, out, in / 32, 16]   two to a byte, the first in the low nibble
//! X_scales  U8 [experts, out, in / 32]       2^(byte - 127)
//!
//! weight[e][o][i] = e2m1(code) * scale[e][o][i / 32]
//! ```
//!
//! The weight is [experts, out, in]; the same tensor in plain types is stored transposed, [experts, in, out].

use super::Packed;
use super::group::{Group, Part};
use super::said::Said;
use super::scheme::{Layout, Scheme};
use crate::dtype::DType;
use crate::error::Result;
use crate::quant;

const CODES: &str = "_blocks";
const SCALES: &str = "_scales";

static LAYOUTS: [Layout; 1] = [Layout { codes: CODES, types: None, others: &[SCALES], name: "" }];

/// Elements of a block, and their bytes.
const BLOCK: usize = 32;
const BYTES: usize = BLOCK / 2;

/// The scheme, of which a config says nothing more.
pub(super) struct Mxfp4;

impl Mxfp4 {
    pub fn of(_: &Said) -> Option<Mxfp4> {
        Some(Mxfp4)
    }
}

impl Scheme for Mxfp4 {
    fn layouts(&self) -> &'static [Layout] {
        &LAYOUTS
    }

    fn look(&self, group: &Group<'_>) -> (Vec<usize>, String) {
        let shape = match group.shape(CODES) {
            [outer @ .., blocks, BYTES] => [outer, &[blocks.saturating_mul(BLOCK)]].concat(),
            other => other.to_vec(),
        };
        (shape, DType::MXFP4.name().to_owned())
    }

    fn open<'a>(&'a self, group: &Group<'a>) -> Result<Box<dyn Packed + 'a>> {
        let shape = group.shape(CODES);
        let ([outer @ .., blocks, BYTES], true) = (shape, shape.len() > 2) else {
            group.no_codes(CODES, "[experts, out, in / 32, 16]");
            return group.unusable();
        };
        let codes = group.want(CODES, &[DType::U8], &[shape], "");
        let grid = shape.get(..shape.len().saturating_sub(1)).unwrap_or_default();
        let types = [DType::U8, DType::F8_E8M0];
        let scales = group.want(SCALES, &types, &[grid], "experts, out, in / 32");
        let rows = outer.iter().try_fold(1usize, |n, side| n.checked_mul(*side));
        let cols = blocks.checked_mul(BLOCK);
        let (Some(codes), Some(scales), Some(rows), Some(cols)) = (codes, scales, rows, cols) else {
            return group.unusable();
        };
        Ok(Box::new(Blocks { codes, scales, sides: (rows, cols), bytes: group.byte_len() }))
    }
}

struct Blocks<'a> {
    codes: Part<'a>,
    scales: Part<'a>,
    sides: (usize, usize),
    bytes: u64,
}

impl Packed for Blocks<'_> {
    fn rows(&self) -> usize {
        self.sides.0
    }

    fn cols(&self) -> usize {
        self.sides.1
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn disputed(&self) -> Option<String> {
        let count = self.scales.data.iter().filter(|scale| **scale == 255).count();
        (count > 0)
            .then(|| format!("{count} scales are 255, which stands for NaN; some readers take it for 2^128"))
    }

    fn quantisation_error(&self) -> f64 {
        DType::MXFP4.quantisation_error().unwrap_or_default()
    }

    fn widen(&self, first: usize, out: &mut [f32]) {
        let (blocks, _) = out.as_chunks_mut::<BLOCK>();
        let before = first * (self.sides.1 / BLOCK);
        let scales = &self.scales.data[before..][..blocks.len()];
        let codes = &self.codes.data[before * BYTES..][..blocks.len() * BYTES];
        for ((block, codes), scale) in blocks.iter_mut().zip(codes.chunks_exact(BYTES)).zip(scales) {
            quant::fp4::f4(codes, block);
            let mut number = [0.0];
            quant::fp8::e8m0(&[*scale], &mut number);
            block.iter_mut().for_each(|x| *x *= number[0]);
        }
    }
}
