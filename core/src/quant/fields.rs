//! What the bytes of a block are: each field with the name that ggml gives it, and the numbers that it holds.
//!
//! Fields follow each other without gaps, so only their lengths are written down. The numbers are those that the loops
//! beside use, read by the same functions; `formula` says what is made of them. Numbers that belong to elements come in
//! the order of the elements, wherever their bits lie.

use super::iq::iq1_m_scale;
use super::k::{bit_planes, nibble_runs, q3_k_scales, scale_pair};
use super::one_two_bit::{bits, two_bits};
use super::ternary::{TQ1_0_RUNS, digits};
use super::{f16_at, half_e8m0, half_ue4m3, nibble, nibble_halves, two_bit_planes, u16_at, u32_at};

/// How a block is laid out.
#[derive(Debug)]
pub struct Layout {
    /// The fields, in the order of their bytes; they cover the block.
    pub fields: &'static [Field],
    /// What an element is, in terms of the lists of the fields. `e` is its number within the block.
    pub formula: &'static str,
}

/// A run of bytes of a block.
#[derive(Debug)]
pub struct Field {
    /// As ggml calls it.
    pub name: &'static str,
    /// How many bytes.
    pub bytes: usize,
    /// What is stored in them.
    pub lists: &'static [List],
}

/// Numbers stored in a field.
#[derive(Debug)]
pub struct List {
    /// What they are.
    pub name: &'static str,
    read: fn(&[u8]) -> Numbers,
}

/// Numbers as they are stored: whole ones not yet multiplied by a scale.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Codes, small scales, indices, signs.
    Whole(Vec<i32>),
    /// Scales and minima.
    Real(Vec<f32>),
}

impl Numbers {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Numbers::Whole(all) => all.len(),
            Numbers::Real(all) => all.len(),
        }
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A field of one block.
#[derive(Clone, Debug, PartialEq)]
pub struct Held<'b> {
    /// As ggml calls it.
    pub name: &'static str,
    /// Offset in the block of its first byte.
    pub at: usize,
    /// Its bytes.
    pub raw: &'b [u8],
    /// What is stored in them.
    pub lists: Vec<(&'static str, Numbers)>,
}

impl Layout {
    /// Bytes of all fields together.
    pub const fn bytes(&self) -> usize {
        let (mut sum, mut i) = (0, 0);
        while i < self.fields.len() {
            sum += self.fields[i].bytes;
            i += 1;
        }
        sum
    }

    /// The fields of a block; `None` if the bytes are not one.
    pub fn read<'b>(&self, block: &'b [u8]) -> Option<Vec<Held<'b>>> {
        if block.len() != self.bytes() {
            return None;
        }
        let (mut at, mut rest) = (0, block);
        let mut all = Vec::with_capacity(self.fields.len());
        for field in self.fields {
            let (raw, behind) = rest.split_at(field.bytes);
            let lists = field.lists.iter().map(|list| (list.name, (list.read)(raw))).collect();
            all.push(Held { name: field.name, at, raw, lists });
            at += field.bytes;
            rest = behind;
        }
        Some(all)
    }
}

const fn field(name: &'static str, bytes: usize, lists: &'static [List]) -> Field {
    Field { name, bytes, lists }
}

const fn list(name: &'static str, read: fn(&[u8]) -> Numbers) -> List {
    List { name, read }
}

fn whole<T: Into<i32>>(all: impl IntoIterator<Item = T>) -> Numbers {
    Numbers::Whole(all.into_iter().map(Into::into).collect())
}

const D: Field = field("d", 2, &[list("scale", half)]);
const M: Field = field("m", 2, &[list("minimum", half)]);
const DM: Field = field("dmin", 2, &[list("scale of the minima", half)]);

fn half(raw: &[u8]) -> Numbers {
    Numbers::Real(vec![f16_at(raw, 0)])
}

fn signed_bytes(raw: &[u8]) -> Numbers {
    whole(raw.iter().map(|&byte| byte as i8))
}

fn bytes(raw: &[u8]) -> Numbers {
    whole(raw.iter().copied())
}

/// Low nibbles, then high ones.
fn halves(raw: &[u8]) -> Numbers {
    halves_of_runs(raw, raw.len())
}

/// The same of each run of so many bytes.
fn halves_of_runs(raw: &[u8], run: usize) -> Numbers {
    let mut codes = vec![0; raw.len() * 2];
    for (raw, codes) in raw.chunks_exact(run).zip(codes.chunks_exact_mut(run * 2)) {
        nibble_halves(raw, codes);
    }
    whole(codes)
}

fn halves_of_8(raw: &[u8]) -> Numbers {
    halves_of_runs(raw, 8)
}

fn halves_of_16(raw: &[u8]) -> Numbers {
    halves_of_runs(raw, 16)
}

fn halves_of_64(raw: &[u8]) -> Numbers {
    halves_of_runs(raw, 64)
}

fn runs(raw: &[u8]) -> Numbers {
    whole(nibble_runs(raw))
}

fn two_planes(raw: &[u8]) -> Numbers {
    whole(two_bit_planes(raw))
}

fn one_planes(raw: &[u8]) -> Numbers {
    whole(bit_planes(raw))
}

/// Nibbles in the order of memory.
fn nibbles(raw: &[u8]) -> Numbers {
    whole((0..raw.len() * 2).map(|i| nibble(raw, i)))
}

fn low_nibbles(raw: &[u8]) -> Numbers {
    whole(raw.iter().map(|byte| byte & 15))
}

fn high_nibbles(raw: &[u8]) -> Numbers {
    whole(raw.iter().map(|byte| byte >> 4))
}

fn bits_in_order(raw: &[u8]) -> Numbers {
    whole(raw.iter().flat_map(|&byte| bits(byte)))
}

fn pairs_in_order(raw: &[u8]) -> Numbers {
    whole(raw.iter().flat_map(|&byte| two_bits(byte)))
}

fn words(raw: &[u8]) -> impl Iterator<Item = u16> {
    (0..raw.len() / 2).map(|i| u16_at(raw, 2 * i))
}

pub(crate) static Q4_0: Layout =
    Layout { fields: &[D, field("qs", 16, &[list("code", halves)])], formula: "scale · (code − 8)" };

pub(crate) static Q4_1: Layout =
    Layout { fields: &[D, M, field("qs", 16, &[list("code", halves)])], formula: "scale · code + minimum" };

const HIGH: Field = field("qh", 4, &[list("high bit", bits_in_order)]);
const LOW: Field = field("qs", 16, &[list("low bits", halves)]);

pub(crate) static Q5_0: Layout =
    Layout { fields: &[D, HIGH, LOW], formula: "scale · (low bits + 16 · high bit − 16)" };

pub(crate) static Q5_1: Layout =
    Layout { fields: &[D, M, HIGH, LOW], formula: "scale · (low bits + 16 · high bit) + minimum" };

const EIGHT: Field = field("qs", 32, &[list("code", signed_bytes)]);

pub(crate) static Q8_0: Layout = Layout { fields: &[D, EIGHT], formula: "scale · code" };

pub(crate) static Q8_1: Layout = Layout {
    fields: &[D, field("s", 2, &[list("scale · sum of the codes", half)]), EIGHT],
    formula: "scale · code",
};

pub(crate) static Q2_K: Layout = Layout {
    fields: &[
        field("scales", 16, &[list("sub-scale", low_nibbles), list("sub-minimum", high_nibbles)]),
        field("qs", 64, &[list("code", two_planes)]),
        D,
        DM,
    ],
    formula: "scale · sub-scale[e/16] · code − scale of the minima · sub-minimum[e/16]",
};

pub(crate) static Q3_K: Layout = Layout {
    fields: &[
        field("hmask", 32, &[list("high bit", one_planes)]),
        field("qs", 64, &[list("low bits", two_planes)]),
        field("scales", 12, &[list("sub-scale", |raw| whole(q3_k_scales(raw)))]),
        D,
    ],
    formula: "scale · sub-scale[e/16] · (low bits + 4 · high bit − 4)",
};

const PAIRS: Field = field(
    "scales",
    12,
    &[
        list("sub-scale", |raw| whole((0..8).map(|j| scale_pair(raw, j).0))),
        list("sub-minimum", |raw| whole((0..8).map(|j| scale_pair(raw, j).1))),
    ],
);

pub(crate) static Q4_K: Layout = Layout {
    fields: &[D, DM, PAIRS, field("qs", 128, &[list("code", runs)])],
    formula: "scale · sub-scale[e/32] · code − scale of the minima · sub-minimum[e/32]",
};

pub(crate) static Q5_K: Layout = Layout {
    fields: &[
        D,
        DM,
        PAIRS,
        field("qh", 32, &[list("high bit", one_planes)]),
        field("qs", 128, &[list("low bits", runs)]),
    ],
    formula: "scale · sub-scale[e/32] · (low bits + 16 · high bit) − scale of the minima · sub-minimum[e/32]",
};

pub(crate) static Q6_K: Layout = Layout {
    fields: &[
        field("ql", 128, &[list("low bits", halves_of_64)]),
        field("qh", 64, &[list("high bits", two_planes)]),
        field("scales", 16, &[list("sub-scale", signed_bytes)]),
        D,
    ],
    formula: "scale · sub-scale[e/16] · (low bits + 16 · high bits − 32)",
};

pub(crate) static Q8_K: Layout = Layout {
    fields: &[
        field("d", 4, &[list("scale", |raw| Numbers::Real(vec![f32::from_bits(u32_at(raw, 0))]))]),
        field("qs", 256, &[list("code", signed_bytes)]),
        field("bsums", 32, &[list("sum of 16 codes", |raw| whole(words(raw).map(|word| word as i16)))]),
    ],
    formula: "scale · code",
};

/// The four sign codes of a word, and the scale above them.
fn sign_codes(word: u32) -> impl Iterator<Item = i32> {
    (0..4).map(move |l| (word >> (7 * l) & 127) as i32)
}

pub(crate) static IQ2_XXS: Layout = Layout {
    fields: &[
        D,
        field(
            "qs",
            64,
            &[
                list("index", |raw| whole(raw.chunks_exact(8).flat_map(|pair| pair[..4].to_vec()))),
                list("sign code", |raw| {
                    whole(raw.chunks_exact(8).flat_map(|pair| sign_codes(u32_at(pair, 4))))
                }),
                list("sub-scale", |raw| whole(raw.chunks_exact(8).map(|pair| pair[7] >> 4))),
            ],
        ),
    ],
    formula: "scale · (0.5 + sub-scale[e/32]) · 0.25 · sign(sign code[e/8], e%8) · codebook[index[e/8]][e%8]",
};

const SIXTEEN_SCALES: Field = field("scales", 8, &[list("sub-scale", nibbles)]);

pub(crate) static IQ2_XS: Layout = Layout {
    fields: &[
        D,
        field(
            "qs",
            64,
            &[
                list("index", |raw| whole(words(raw).map(|word| word & 511))),
                list("sign code", |raw| whole(words(raw).map(|word| word >> 9))),
            ],
        ),
        SIXTEEN_SCALES,
    ],
    formula: "scale · (0.5 + sub-scale[e/16]) · 0.25 · sign(sign code[e/8], e%8) · codebook[index[e/8]][e%8]",
};

pub(crate) static IQ2_S: Layout = Layout {
    fields: &[
        D,
        field("qs", 32, &[list("low bits of the index", bytes)]),
        field("signs", 32, &[list("signs", bytes)]),
        field("qh", 8, &[list("high bits of the index", pairs_in_order)]),
        SIXTEEN_SCALES,
    ],
    formula: "scale · (0.5 + sub-scale[e/16]) · 0.25 · sign(bit e%8 of signs[e/8]) · codebook[low bits of the \
              index[e/8] + 256 · high bits of the index[e/8]][e%8]",
};

pub(crate) static IQ3_XXS: Layout = Layout {
    fields: &[
        D,
        field("qs", 64, &[list("index", bytes)]),
        field(
            "scales_and_signs",
            32,
            &[
                list("sign code", |raw| {
                    whole(raw.chunks_exact(4).flat_map(|word| sign_codes(u32_at(word, 0))))
                }),
                list("sub-scale", |raw| whole(raw.chunks_exact(4).map(|word| word[3] >> 4))),
            ],
        ),
    ],
    formula: "scale · (0.5 + sub-scale[e/32]) · 0.5 · sign(sign code[e/8], e%8) · codebook[index[e/4]][e%4]",
};

pub(crate) static IQ3_S: Layout = Layout {
    fields: &[
        D,
        field("qs", 64, &[list("low bits of the index", bytes)]),
        field("qh", 8, &[list("high bit of the index", bits_in_order)]),
        field("signs", 32, &[list("signs", bytes)]),
        field("scales", 4, &[list("sub-scale", nibbles)]),
    ],
    formula: "scale · (1 + 2 · sub-scale[e/32]) · sign(bit e%8 of signs[e/8]) · codebook[low bits of the index[e/4] + \
              256 · high bit of the index[e/4]][e%4]",
};

pub(crate) static IQ1_S: Layout = Layout {
    fields: &[
        D,
        field("qs", 32, &[list("low bits of the index", bytes)]),
        field(
            "qh",
            16,
            &[
                list("high bits of the index", |raw| {
                    whole(words(raw).flat_map(|word| (0..4).map(move |l| word >> (3 * l) & 7)))
                }),
                list("sub-scale", |raw| whole(words(raw).map(|word| word >> 12 & 7))),
                list("shift down", |raw| whole(words(raw).map(|word| word >> 15))),
            ],
        ),
    ],
    formula: "scale · (2 · sub-scale[e/32] + 1) · (codebook[low bits of the index[e/8] + 256 · high bits of the \
              index[e/8]][e%8] ± 1/8), − where shift down[e/32] is 1",
};

pub(crate) static IQ1_M: Layout = Layout {
    fields: &[
        field("qs", 32, &[list("low bits of the index", bytes)]),
        field(
            "qh",
            16,
            &[
                list("high bits of the index", |raw| whole((0..32).map(|i| nibble(raw, i) & 7))),
                list("shift down", |raw| whole((0..32).map(|i| nibble(raw, i) >> 3))),
            ],
        ),
        field(
            "scales",
            8,
            &[
                list("sub-scale", |raw| {
                    whole(words(raw).flat_map(|word| (0..4).map(move |l| word >> (3 * l) & 7)))
                }),
                list("scale", |raw| Numbers::Real(vec![iq1_m_scale(raw)])),
            ],
        ),
    ],
    formula: "scale · (2 · sub-scale[e/16] + 1) · (codebook[low bits of the index[e/8] + 256 · high bits of the \
              index[e/8]][e%8] ± 1/8), − where shift down[e/8] is 1",
};

pub(crate) static IQ4_NL: Layout =
    Layout { fields: &[D, field("qs", 16, &[list("code", halves)])], formula: "scale · codebook[code]" };

pub(crate) static IQ4_XS: Layout = Layout {
    fields: &[
        D,
        field("scales_h", 2, &[list("high bits of the sub-scale", pairs_in_order)]),
        field("scales_l", 4, &[list("low bits of the sub-scale", nibbles)]),
        field("qs", 128, &[list("code", halves_of_16)]),
    ],
    formula: "scale · (low bits of the sub-scale[e/32] + 16 · high bits of the sub-scale[e/32] − 32) · codebook[code]",
};

pub(crate) static TQ1_0: Layout = Layout {
    fields: &[
        field(
            "qs",
            48,
            &[list("digit of elements 0..240", |raw| {
                let (first, second) = raw.split_at(TQ1_0_RUNS[0].0);
                whole(digits(first, TQ1_0_RUNS[0].1).chain(digits(second, TQ1_0_RUNS[1].1)))
            })],
        ),
        field("qh", 4, &[list("digit of elements 240..256", |raw| whole(digits(raw, TQ1_0_RUNS[2].1)))]),
        D,
    ],
    formula: "scale · (digit − 1)",
};

pub(crate) static TQ2_0: Layout =
    Layout { fields: &[field("qs", 64, &[list("code", two_planes)]), D], formula: "scale · (code − 1)" };

pub(crate) static MXFP4: Layout = Layout {
    fields: &[
        field(
            "e",
            1,
            &[
                list("exponent + 127", bytes),
                list("half of the scale", |raw| Numbers::Real(raw.iter().map(|&e| half_e8m0(e)).collect())),
            ],
        ),
        field("qs", 16, &[list("code", halves)]),
    ],
    formula: "half of the scale · twice the E2M1 float that code is",
};

pub(crate) static NVFP4: Layout = Layout {
    fields: &[
        field(
            "d",
            4,
            &[
                list("code of the scale", bytes),
                list("half of the scale", |raw| Numbers::Real(raw.iter().map(|&s| half_ue4m3(s)).collect())),
            ],
        ),
        field("qs", 32, &[list("code", halves_of_8)]),
    ],
    formula: "half of the scale[e/16] · twice the E2M1 float that code is",
};

pub(crate) static Q1_0: Layout = Layout {
    fields: &[D, field("qs", 16, &[list("bit", bits_in_order)])],
    formula: "scale where bit is 1, −scale where it is 0",
};

pub(crate) static Q2_0: Layout = Layout {
    fields: &[D, field("qs", 16, &[list("code", pairs_in_order)])],
    formula: "scale · (code − 1)",
};

#[cfg(test)]
mod tests {
    use crate::dtype::DType;

    #[test]
    fn every_block_type_is_laid_out_and_its_fields_cover_it() {
        for dtype in DType::all() {
            let layout = dtype.layout();
            assert_eq!(layout.is_some(), dtype.is_quantised(), "{dtype}");
            let Some(layout) = layout else { continue };
            assert_eq!(layout.bytes(), dtype.block_bytes(), "{dtype}");
            let block: Vec<u8> = (0..layout.bytes()).map(|i| i as u8).collect();
            let held = layout.read(&block).unwrap();
            let covered: Vec<u8> = held.iter().flat_map(|field| field.raw.to_vec()).collect();
            assert_eq!(covered, block, "{dtype}");
            assert!(held.iter().all(|field| block[field.at..].starts_with(field.raw)), "{dtype}");
            assert!(held.iter().all(|f| !f.lists.is_empty() && f.lists.iter().all(|(_, n)| !n.is_empty())));
            assert!(layout.read(&block[1..]).is_none() && layout.read(&[]).is_none());
        }
    }

    /// No bit of a block is without a meaning, but for those that the formats leave unused.
    #[test]
    fn every_bit_shows_in_the_field_that_it_is_in() {
        for (dtype, layout) in DType::all().filter_map(|dtype| Some((dtype, dtype.layout()?))) {
            let zero = vec![0; layout.bytes()];
            let plain = layout.read(&zero).unwrap();
            let mut silent = Vec::new();
            for bit in 0..layout.bytes() * 8 {
                let mut block = zero.clone();
                block[bit / 8] = 1 << (bit % 8);
                let held = layout.read(&block).unwrap();
                let moved: Vec<bool> = held
                    .iter()
                    .zip(&plain)
                    .map(|(a, b)| format!("{:?}", a.lists) != format!("{:?}", b.lists))
                    .collect();
                let own = held.iter().position(|f| (f.at..f.at + f.raw.len()).contains(&(bit / 8))).unwrap();
                assert!(moved.iter().enumerate().all(|(i, moved)| !moved || i == own), "{dtype} bit {bit}");
                silent.extend((!moved[own]).then_some(bit));
            }
            // A byte of base-3 digits is a fraction: its low bits alone make no digit.
            if dtype != DType::TQ1_0 {
                assert!(silent.is_empty(), "{dtype}: bits {silent:?} show nowhere");
            }
        }
    }
}
