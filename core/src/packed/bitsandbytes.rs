//! bitsandbytes in 4 bits, NF4 and FP4: codes for the entries of a map, a largest magnitude for each run of elements.
//!
//! ```text
//! X.weight                             U8 [elements / 2, 1]: two to a byte, the first in the HIGH nibble
//! X.weight.quant_map                   F32 [16]
//! X.weight.absmax                      F32 [elements / blocksize], or U8 where they are quantised too:
//! X.weight.nested_quant_map            F32 [256]
//! X.weight.nested_absmax               F32 [blocks / nested_blocksize]
//! X.weight.quant_state.bitsandbytes__* U8: a JSON object with shape, blocksize, nested_blocksize, nested_offset
//!
//! weight[n] = map[code[n]] * absmax[n / blocksize]      over the elements in order, so that runs cross rows
//! absmax[b] = nested_map[code[b]] * nested_absmax[b / nested_blocksize] + nested_offset
//! ```

use super::Packed;
use super::group::{Group, Part};
use super::quant_state::{NESTED_ABSMAX, NESTED_MAP, STATES, State};
use super::said::Said;
use super::scheme::{Layout, Scheme};
use crate::dtype::DType;
use crate::error::Result;
use crate::quant;

const CODES: &str = ".weight";
const MAP: &str = ".weight.quant_map";
const ABSMAX: &str = ".weight.absmax";

static LAYOUTS: [Layout; 1] = [Layout {
    codes: CODES,
    types: Some(&[DType::U8]),
    others: &[ABSMAX, MAP, NESTED_ABSMAX, NESTED_MAP, STATES[0], STATES[1]],
    name: ".weight",
}];

/// The scheme, of which the config says nothing that the states do not.
pub(super) struct BitsAndBytes;

impl BitsAndBytes {
    pub fn of(said: &Said) -> Option<BitsAndBytes> {
        let four = said.is_on("load_in_4bit") || said.is_on("_load_in_4bit");
        let eight = said.is_on("load_in_8bit") || said.is_on("_load_in_8bit");
        (four && !eight).then_some(BitsAndBytes)
    }
}

impl Scheme for BitsAndBytes {
    fn layouts(&self) -> &'static [Layout] {
        &LAYOUTS
    }

    fn look(&self, group: &Group<'_>) -> (Vec<usize>, String) {
        match State::of(group) {
            Some(state) => {
                let nested = if state.nested.is_some() { " nested" } else { "" };
                let words = format!("{} b{}{nested}", state.kind.to_uppercase(), state.blocksize);
                (state.shape, words)
            }
            None => (group.shape(CODES).to_vec(), "4-bit".to_owned()),
        }
    }

    fn open<'a>(&'a self, group: &Group<'a>) -> Result<Box<dyn Packed + 'a>> {
        let Some(state) = State::of(group) else { return group.unusable() };
        let Some(elements) = state.elements() else {
            if let Some(info) = group.part(CODES) {
                let found = format!("{:?}", state.shape);
                group.wrong(
                    info,
                    "shape of quant_state cannot be",
                    "a weight that can be stored".to_owned(),
                    found,
                );
            }
            return group.unusable();
        };
        let half = elements.div_ceil(2);
        let blocks = elements.div_ceil(state.blocksize);
        let codes = group.want(CODES, &[DType::U8], &[&[half, 1], &[half], &[1, half]], "elements / 2, 1");
        let map = group.want(MAP, &[DType::F32], &[&[16]], "one for each code");
        let axes = format!("elements / blocksize {}", state.blocksize);
        let (absmax, nested) = match state.nested {
            None => (group.want(ABSMAX, &[DType::F32], &[&[blocks]], &axes), None),
            Some((size, offset)) => {
                let absmax = group.want(ABSMAX, &[DType::U8], &[&[blocks]], &axes);
                let map = group.want(NESTED_MAP, &[DType::F32], &[&[256]], "one for each code");
                let axes = format!("blocks / nested_blocksize {size}");
                let scales = group.want(NESTED_ABSMAX, &[DType::F32], &[&[blocks.div_ceil(size)]], &axes);
                let nested = map.zip(scales).map(|(map, scales)| Nested { map, scales, size, offset });
                if nested.is_none() {
                    return group.unusable();
                }
                (absmax, nested)
            }
        };
        let (Some(codes), Some(map), Some(absmax)) = (codes, map, absmax) else { return group.unusable() };
        let mut entries = [0.0; 16];
        quant::plain::f32(&map.data, &mut entries);
        let cols = state.shape.last().copied().unwrap_or(0);
        let sides = (elements.checked_div(cols).unwrap_or(0), cols);
        let (size, bytes) = (state.blocksize, group.byte_len());
        Ok(Box::new(Mapped { codes, map: entries, absmax, nested, size, sides, bytes }))
    }
}

struct Mapped<'a> {
    codes: Part<'a>,
    map: [f32; 16],
    absmax: Part<'a>,
    nested: Option<Nested<'a>>,
    /// Elements of a run.
    size: usize,
    sides: (usize, usize),
    bytes: u64,
}

/// How magnitudes that are quantised themselves are read.
struct Nested<'a> {
    map: Part<'a>,
    scales: Part<'a>,
    size: usize,
    offset: f32,
}

fn float(bytes: &[u8], i: usize) -> f32 {
    f32::from_bits(super::group::word(bytes, i))
}

impl Mapped<'_> {
    fn magnitude(&self, block: usize) -> f32 {
        match &self.nested {
            None => float(&self.absmax.data, block),
            Some(nested) => {
                let entry = float(&nested.map.data, usize::from(self.absmax.data[block]));
                entry * float(&nested.scales.data, block / nested.size) + nested.offset
            }
        }
    }
}

impl Packed for Mapped<'_> {
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
        super::error_of_bits(4)
    }

    fn widen(&self, first: usize, out: &mut [f32]) {
        let before = first * self.sides.1;
        let mut run = (usize::MAX, 0.0);
        for (n, out) in (before..).zip(out) {
            if n / self.size != run.0 {
                run = (n / self.size, self.magnitude(n / self.size));
            }
            let code = self.codes.data[n / 2] >> (4 * (1 - n % 2)) & 15;
            *out = self.map[usize::from(code)] * run.1;
        }
    }
}
