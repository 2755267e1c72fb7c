//! GPTQ in 2, 4 and 8 bits, and how it and AWQ are decoded: whole numbers in words of 32 bits, a zero and a scale for each
//! group of inputs. Both are stored transposed.
//!
//! ```text
//!            GPTQ                              AWQ
//! X.qweight  I32 [in·bits / 32, out]           I32 [in, out / 8]
//! X.qzeros   I32 [groups, out·bits / 32]       I32 [groups, out / 8]
//! X.scales   floats [groups, out]              the same
//! X.g_idx    I32 [in]: the group of each input –
//!
//! weight[o][i] = (code[i][o] - zero[group(i)][o]) * scale[group(i)][o]
//! ```
//!
//! GPTQ packs the codes of neighbouring inputs, AWQ those of outputs, in the order 0 2 4 6 1 3 5 7; the lowest bits come
//! first. Zeros are packed along outputs in both. The first version of GPTQ's format stores them less 1. A difference of
//! such small numbers times an f16 is exact in f32.

use super::Packed;
use super::group::{Group, Part, int, word};
use super::said::Said;
use super::scheme::{FLOATS, Layout, Scheme};
use crate::dtype::DType;
use crate::error::Result;
use crate::quant;
use std::borrow::Cow;

pub(super) const CODES: &str = ".qweight";
pub(super) const ZEROS: &str = ".qzeros";
pub(super) const SCALES: &str = ".scales";
const ORDER: &str = ".g_idx";

static LAYOUTS: [Layout; 1] =
    [Layout { codes: CODES, types: None, others: &[ZEROS, SCALES, ORDER], name: ".weight" }];

/// Where the code of each of eight neighbours stands in an AWQ word.
const SLOTS: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// What a config says of GPTQ.
pub(super) struct Gptq {
    bits: usize,
    /// Inputs of a group; `None` for all.
    group: Option<usize>,
    /// What is added to a stored zero.
    plus: i32,
    /// Whether inputs were ordered, so that only `g_idx` tells the group of one.
    ordered: bool,
}

impl Gptq {
    pub fn of(said: &Said) -> Option<Gptq> {
        let bits = said.count("bits").filter(|bits| [2, 4, 8].contains(bits))?;
        let plus = match said.text("checkpoint_format").or(said.text("format")) {
            None | Some("gptq") => 1,
            Some("gptq_v2") => 0,
            Some(_) => return None,
        };
        // Rules that give some modules other bits; those that begin with "-:" only leave modules alone.
        let other_bits = said.keys("dynamic").any(|key| !key.starts_with("-:"));
        let other_words = said.text("pack_dtype").is_some_and(|dtype| dtype != "int32");
        if other_bits || other_words || said.is_on("is_marlin_format") {
            return None;
        }
        Some(Gptq { bits, group: said.group_size("group_size", 128)?, plus, ordered: said.is_on("desc_act") })
    }

    /// Outputs and inputs.
    fn sides(&self, group: &Group<'_>) -> Option<(usize, usize)> {
        let (words, outputs) = group.sides(CODES)?;
        Some((outputs, words.checked_mul(32 / self.bits)?))
    }
}

impl Scheme for Gptq {
    fn layouts(&self) -> &'static [Layout] {
        &LAYOUTS
    }

    fn look(&self, group: &Group<'_>) -> (Vec<usize>, String) {
        let shape = self.sides(group).map_or(group.shape(CODES).to_vec(), |(out, inputs)| vec![out, inputs]);
        (shape, format!("GPTQ {}-bit{}", self.bits, group_words(self.group)))
    }

    fn open<'a>(&'a self, group: &Group<'a>) -> Result<Box<dyn Packed + 'a>> {
        let Some((rows, cols)) = self.sides(group) else {
            group.no_codes(CODES, "[in·bits / 32, out]");
            return group.unusable();
        };
        let size = self.group.unwrap_or(cols).max(1);
        let (groups, words) = (cols.div_ceil(size), rows.div_ceil(32 / self.bits));
        let axes = format!("in / group_size {size}");
        let codes = group.want(CODES, &[DType::I32], &[group.shape(CODES)], "");
        let zeros = group.want(ZEROS, &[DType::I32], &[&[groups, words]], &format!("{axes}, out·bits / 32"));
        let scales = group.want(SCALES, &FLOATS, &[&[groups, rows]], &format!("{axes}, out"));
        let order = match self.ordered {
            true => group.want(ORDER, &[DType::I32], &[&[cols]], "in"),
            false => group.may(ORDER, &[DType::I32], &[&[cols]], "in"),
        };
        if let Some(order) = &order {
            in_range(group, order, groups);
        }
        group.settle()?;
        let (Some(codes), Some(zeros), Some(scales)) = (codes, zeros, scales) else {
            return group.unusable();
        };
        let (bits, plus, bytes) = (self.bits, self.plus, group.byte_len());
        let order = order.map(|order| order.data);
        let (codes, zeros) = (codes.data, zeros.data);
        Ok(Box::new(Grouped {
            codes,
            zeros,
            scales,
            order,
            size,
            sides: (rows, cols),
            bits,
            plus,
            awq: false,
            bytes,
        }))
    }
}

/// Notes the first input whose group is none.
fn in_range(group: &Group<'_>, order: &Part<'_>, groups: usize) {
    let numbers = (0..order.data.len() / 4).map(|i| int(&order.data, i));
    let outside = |group: i32| usize::try_from(group).map_or(true, |group| group >= groups);
    if let Some((i, strange)) = numbers.enumerate().find(|(_, group)| outside(*group)) {
        let message = "g_idx gives an input a group that there is not";
        let last = groups.saturating_sub(1);
        group.wrong(
            order.info,
            message,
            format!("0 to {last} for each input"),
            format!("{strange} for input {i}"),
        );
    }
}

pub(super) fn group_words(size: Option<usize>) -> String {
    size.map_or(String::new(), |size| format!(" g{size}"))
}

/// A matrix of packed whole numbers with a zero and a scale for each output and group of inputs.
pub(super) struct Grouped<'a> {
    pub codes: Cow<'a, [u8]>,
    pub zeros: Cow<'a, [u8]>,
    pub scales: Part<'a>,
    /// The group of each input, where neighbours are not of one.
    pub order: Option<Cow<'a, [u8]>>,
    /// Inputs of a group.
    pub size: usize,
    /// Outputs and inputs.
    pub sides: (usize, usize),
    pub bits: usize,
    /// What is added to a stored zero.
    pub plus: i32,
    /// Whether codes are packed as AWQ does it.
    pub awq: bool,
    /// Bytes of all parts.
    pub bytes: u64,
}

impl Grouped<'_> {
    /// The number that is packed for one of neighbouring outputs, `at` outputs into words.
    fn along_outputs(&self, words: &[u8], line: usize, row: usize) -> u32 {
        let per = 32 / self.bits;
        let slot = if self.awq { SLOTS[row % per] } else { row % per };
        word(words, line * self.sides.0.div_ceil(per) + row / per) >> (self.bits * slot)
    }

    fn code(&self, input: usize, row: usize) -> u32 {
        let per = 32 / self.bits;
        match self.awq {
            true => self.along_outputs(&self.codes, input, row),
            false => word(&self.codes, input / per * self.sides.0 + row) >> (self.bits * (input % per)),
        }
    }

    fn group_of(&self, input: usize) -> usize {
        self.order.as_ref().map_or(input / self.size, |order| word(order, input) as usize)
    }
}

impl Packed for Grouped<'_> {
    fn rows(&self) -> usize {
        self.sides.0
    }

    fn cols(&self) -> usize {
        self.sides.1
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn widen(&self, first: usize, out: &mut [f32]) {
        let (rows, cols) = self.sides;
        let some = out.len() / cols.max(1);
        let mask = (1 << self.bits) - 1;
        let groups = cols.div_ceil(self.size);
        // The zeros and scales of these rows: rows lie apart in the file, groups side by side here.
        let (mut zeros, mut scales) = (vec![0; groups * some], vec![0.0; groups * some]);
        let wide = self.scales.dtype.block_bytes();
        for (group, (zeros, scales)) in
            zeros.chunks_mut(some.max(1)).zip(scales.chunks_mut(some.max(1))).enumerate()
        {
            let from = (group * rows + first) * wide;
            let data = &self.scales.data[from..][..some * wide];
            quant::decode(self.scales.dtype, data, scales).expect("a type of one element to a block");
            for (row, zero) in zeros.iter_mut().enumerate() {
                *zero = (self.along_outputs(&self.zeros, group, first + row) & mask) as i32 + self.plus;
            }
        }
        for input in 0..cols {
            let group = self.group_of(input) * some;
            for row in 0..some {
                let code = (self.code(input, first + row) & mask) as i32;
                out[row * cols + input] = (code - zeros[group + row]) as f32 * scales[group + row];
            }
        }
    }
}
