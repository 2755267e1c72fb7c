//! compressed-tensors: whole numbers and FP8, each number by itself or packed in words.
//!
//! ```text
//! pack-quantized     X.weight_packed      I32 [out, ⌈in·bits / 32⌉]   4 or 8 bits, lowest first, along inputs
//!                    X.weight_scale       floats, one for each group, row or the tensor
//!                    X.weight_zero_point  I32 [⌈out·bits / 32⌉, groups], packed along outputs
//!                    X.weight_g_idx       I32 [in]: the group of each input
//!                    X.weight_shape       I64 [2]: out, in
//! int-quantized,     X.weight             I8 or FP8 [out, in]
//! float-quantized    X.weight_scale, X.weight_zero_point: one for each group, block, row or the tensor
//!
//! weight[o][i] = (code[o][i] - zero) * scale      zero is 2^(bits - 1) in packed codes, 0 in others, if none is stored
//! ```
//!
//! A config may describe several kinds of groups; the parts of a weight tell which is its own.

use super::Packed;
use super::fp8::Scaled;
use super::grid::Grid;
use super::group::Group;
use super::packed_words::{self, CODES as PACKED, ORDER, SCALES, SHAPE, ZEROS};
use super::said::Said;
use super::scheme::{FLOATS, FP8, Layout, Scheme};
use super::weight_args::{Args, Kind};
use crate::dtype::DType;
use crate::error::Result;

const CODES: &str = ".weight";

const BYTE: [DType; 5] = [DType::I8, FP8[0], FP8[1], FP8[2], FP8[3]];

static LAYOUTS: [Layout; 2] = [
    Layout {
        codes: PACKED,
        types: None,
        others: &[SCALES, ZEROS, ORDER, SHAPE, ".input_scale", ".output_scale"],
        name: ".weight",
    },
    Layout {
        codes: CODES,
        types: Some(&BYTE),
        others: &[SCALES, ZEROS, ".input_scale", ".input_zero_point", ".output_scale"],
        name: ".weight",
    },
];

/// What a config says of the scheme.
pub(super) struct Compressed {
    /// How weights are stored: at least one way.
    ways: Vec<Args>,
}

impl Compressed {
    pub fn of(said: &Said) -> Option<Compressed> {
        let sparse = said.text("sparsity_config.format").is_some_and(|format| format != "dense");
        let ways = Args::of(said).filter(|ways| !sparse && !ways.is_empty())?;
        Some(Compressed { ways })
    }

    /// The way that the codes of a weight are stored in: of several, the first whose scales are there in their shape.
    fn way(&self, group: &Group<'_>) -> Option<&Args> {
        let packed = group.part(PACKED);
        let dtype = group.part(CODES).and_then(|part| part.dtype.known());
        let kind = match (packed, dtype) {
            (Some(_), _) => Kind::Packed,
            (None, Some(DType::I8)) => Kind::Int,
            _ => Kind::Float,
        };
        let of_kind = || self.ways.iter().filter(|way| way.kind == kind);
        let fits = |way: &&Args| {
            let sides =
                if packed.is_some() { packed_words::sides(group, way.bits) } else { group.sides(CODES) };
            sides.is_some_and(|sides| way.cut.has_shape(group.shape(SCALES), sides))
        };
        of_kind().find(fits).or_else(|| of_kind().next()).or(self.ways.first())
    }

    fn open_bytes<'a>(&self, way: &Args, group: &Group<'a>) -> Result<Box<dyn Packed + 'a>> {
        let Some(sides) = group.sides(CODES) else {
            group.no_codes(CODES, "[out, in]");
            return group.unusable();
        };
        let types: &[DType] = if way.kind == Kind::Int { &BYTE[..1] } else { &FP8 };
        let codes = group.want(CODES, types, &[&[sides.0, sides.1]], "out, in");
        let scales = Grid::want(group, SCALES, &FLOATS, way.cut, sides);
        let zero_types = [&BYTE[..], &FLOATS[..]].concat();
        let zeros = match way.symmetric {
            true => None,
            false => Grid::want(group, ZEROS, &zero_types, way.cut, sides),
        };
        let (Some(codes), Some(scales)) = (codes, scales) else { return group.unusable() };
        group.settle()?;
        let (codes, dtype, bytes) = (codes.data, codes.dtype, group.byte_len());
        Ok(Box::new(Scaled { codes, dtype, sides, zeros, scales, bytes }))
    }
}

impl Scheme for Compressed {
    fn layouts(&self) -> &'static [Layout] {
        &LAYOUTS
    }

    fn look(&self, group: &Group<'_>) -> (Vec<usize>, String) {
        let Some(way) = self.way(group) else { return (group.shape(CODES).to_vec(), String::new()) };
        let cut = way.cut.words();
        if group.part(PACKED).is_some() {
            let sides = packed_words::sides(group, way.bits).map(|(rows, cols)| vec![rows, cols]);
            return (sides.unwrap_or(group.shape(PACKED).to_vec()), format!("INT{} {cut}", way.bits));
        }
        let dtype = group.part(CODES).map_or(String::new(), |part| part.dtype.to_string());
        let name = if dtype == "I8" { "INT8".to_owned() } else { dtype };
        (group.shape(CODES).to_vec(), format!("{name} {cut}"))
    }

    fn open<'a>(&'a self, group: &Group<'a>) -> Result<Box<dyn Packed + 'a>> {
        match (self.way(group), group.part(PACKED)) {
            (Some(way), Some(_)) => packed_words::open(way, group),
            (Some(way), None) => self.open_bytes(way, group),
            (None, _) => group.unusable(),
        }
    }
}
