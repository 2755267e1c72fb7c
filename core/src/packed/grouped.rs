//! How GPTQ and AWQ are decoded: whole numbers in words of 32 bits, a zero and a scale for each group of inputs. Both are
//! stored transposed.
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
use super::group::{Part, word};
use crate::quant;
use std::borrow::Cow;

pub(super) const CODES: &str = ".qweight";
pub(super) const ZEROS: &str = ".qzeros";
pub(super) const SCALES: &str = ".scales";

/// Where the code of each of eight neighbours stands in an AWQ word.
const SLOTS: [usize; 8] = [0, 4, 1, 5, 2, 6, 3, 7];

/// The size of groups for display: ` g64`, nothing where one is of all inputs.
pub(super) fn words(size: Option<usize>) -> String {
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

    fn disputed(&self) -> Option<String> {
        let (rows, groups) = (self.sides.0, self.sides.1.div_ceil(self.size));
        let mask = (1 << self.bits) - 1;
        let largest =
            |group| (0..rows).filter(move |&row| self.along_outputs(&self.zeros, group, row) & mask == mask);
        let count = (0..groups).map(|group| largest(group).count()).sum::<usize>();
        (self.plus > 0 && count > 0).then(|| {
            format!(
                "{count} zeros are {mask}, to which 1 is added: some readers wrap to 0 there, here it is {}",
                mask + 1
            )
        })
    }

    fn quantisation_error(&self) -> f64 {
        super::error_of_bits(self.bits)
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
