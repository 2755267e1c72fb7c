//! The "IQ" formats: what is stored is the number of an entry in a fixed table of short vectors (a codebook).
//!
//! IQ2 and IQ3 take magnitudes from the codebook and store signs beside it; IQ1 takes entries of -1, 0 and +1 and
//! shifts them all by an eighth; IQ4 has a table of single values. All but IQ4_NL hold 256 elements to a block.
//!
//! ```text
//!           0     2                                        66
//! IQ2_XXS   | d   | 8 x (indices: 4 bytes, word: u32)      |
//!             a pair is a sub-block of 32. Word: four sign codes of 7 bits, from bit 0 up; c in bits 28..31
//!
//!           0     2                          66      74
//! IQ2_XS    | d   | 32 x u16                 | sc[8] |
//!             bits 0..8 index, bits 9..15 sign code; c of 16 elements: a nibble of sc
//!
//!           0     2           34          66      74      82
//! IQ2_S     | d   | index[32] | signs[32] | hi[8] | sc[8] |
//!             hi: two more bits for each index; signs: a bit for each element; sc as IQ2_XS
//!
//!           all IQ2:  x = ((d * (0.5 + c)) * 0.25) * entry * sign         entries of 8
//!
//!           0     2            66               98
//! IQ3_XXS   | d   | index[64]  | 8 x word u32   |
//!             word as IQ2_XXS, one for a sub-block of 32;
//!             x = ((d * (0.5 + c)) * 0.5) * entry * sign                  entries of 4
//!
//!           0     2            66      74          106     110
//! IQ3_S     | d   | index[64]  | hi[8] | signs[32] | sc[4] |
//!             hi: one more bit for each index; c of 32 elements: a nibble of sc;
//!             x = (d * (1 + 2c)) * entry * sign                           entries of 4
//!
//!           0     2            34               50
//! IQ1_S     | d   | index[32]  | 8 x word u16   |
//!             word: three more bits for each of four indices, c in bits 12..14, bit 15 the direction of the shift
//!
//!           0            32           48               56
//! IQ1_M     | index[32]  | hi[16]     | 4 x word u16   |
//!             hi: a nibble for each index, three more bits and the direction of the shift; words: four c of 3 bits
//!             for 16 elements each, and in their top nibbles, lowest first, d
//!
//!           both IQ1:  x = (d * (2c + 1)) * (entry + shift)               entries of 8, shift 1/8 up or down
//!
//!           0     2                    18
//! IQ4_NL    | d   | 16 bytes           |        32 elements, nibbles as Q4_0;  x = d * value
//!
//!           0     2     4       8                    136
//! IQ4_XS    | d   | hi  | lo[4] | 8 x 16 bytes       |
//!             scale of sub-block b: nibble b of lo, bits 2b and 2b+1 of hi above it, minus 32;
//!             x = (d * scale) * value
//! ```
//!
//! A sign code of 7 bits gives the signs of 8 elements: bit k set makes element k negative, and the eighth element is
//! whatever makes the number of minus signs even.

use super::codebooks::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4};
use super::{each_block, f16_at, nibble, nibble_halves, u16_at, u32_at};
use half::f16;

const SHIFT: f32 = 0.125;

pub(crate) fn iq2_xxs(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 66], x: &mut [f32; 256]| {
        let d = f16_at(b, 0);
        for (pair, x) in b[2..].chunks_exact(8).zip(x.chunks_exact_mut(32)) {
            let word = u32_at(pair, 4);
            let scale = iq2_scale(d, (word >> 28) as u8);
            for (l, x) in x.chunks_exact_mut(8).enumerate() {
                signed(scale, &IQ2_XXS[usize::from(pair[l])], even_signs(word >> (7 * l)), x);
            }
        }
    });
}

pub(crate) fn iq2_xs(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 74], x: &mut [f32; 256]| {
        let (d, scales) = (f16_at(b, 0), &b[66..]);
        for (i, x) in x.chunks_exact_mut(8).enumerate() {
            let word = u16_at(b, 2 + 2 * i);
            let scale = iq2_scale(d, nibble(scales, i / 2));
            signed(scale, &IQ2_XS[usize::from(word & 511)], even_signs(u32::from(word >> 9)), x);
        }
    });
}

pub(crate) fn iq2_s(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 82], x: &mut [f32; 256]| {
        let (d, low, signs, high, scales) = (f16_at(b, 0), &b[2..34], &b[34..66], &b[66..74], &b[74..]);
        for (i, x) in x.chunks_exact_mut(8).enumerate() {
            let index = usize::from(low[i]) | usize::from(high[i / 4] >> (2 * (i % 4)) & 3) << 8;
            signed(iq2_scale(d, nibble(scales, i / 2)), &IQ2_S[index], signs[i], x);
        }
    });
}

pub(crate) fn iq3_xxs(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 98], x: &mut [f32; 256]| {
        let (d, indices) = (f16_at(b, 0), &b[2..66]);
        for (i, x) in x.chunks_exact_mut(8).enumerate() {
            let word = u32_at(b, 66 + 4 * (i / 4));
            let scale = (d * (0.5 + (word >> 28) as f32)) * 0.5;
            let signs = even_signs(word >> (7 * (i % 4)));
            let (left, right) = x.split_at_mut(4);
            signed(scale, &IQ3_XXS[usize::from(indices[2 * i])], signs, left);
            signed(scale, &IQ3_XXS[usize::from(indices[2 * i + 1])], signs >> 4, right);
        }
    });
}

pub(crate) fn iq3_s(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 110], x: &mut [f32; 256]| {
        let (d, low, high, signs, scales) = (f16_at(b, 0), &b[2..66], &b[66..74], &b[74..106], &b[106..]);
        for (i, x) in x.chunks_exact_mut(4).enumerate() {
            let index = usize::from(low[i]) | usize::from(high[i / 8] >> (i % 8) & 1) << 8;
            let scale = d * (1.0 + 2.0 * f32::from(nibble(scales, i / 8)));
            signed(scale, &IQ3_S[index], signs[i / 2] >> (4 * (i % 2)), x);
        }
    });
}

pub(crate) fn iq1_s(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 50], x: &mut [f32; 256]| {
        let d = f16_at(b, 0);
        for (i, x) in x.chunks_exact_mut(8).enumerate() {
            let word = u16_at(b, 34 + 2 * (i / 4));
            let index = usize::from(b[2 + i]) | usize::from(word >> (3 * (i % 4)) & 7) << 8;
            shifted(iq1_scale(d, word >> 12 & 7), &IQ1[index], word >> 15 == 1, x);
        }
    });
}

pub(crate) fn iq1_m(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 56], x: &mut [f32; 256]| {
        let words: [u16; 4] = std::array::from_fn(|i| u16_at(b, 48 + 2 * i));
        let d = iq1_m_scale(&b[48..]);
        for (i, x) in x.chunks_exact_mut(8).enumerate() {
            let high = nibble(&b[32..48], i);
            let index = usize::from(b[i]) | usize::from(high & 7) << 8;
            let c = words[i / 8] >> (3 * (i / 2 % 4)) & 7;
            shifted(iq1_scale(d, c), &IQ1[index], high & 8 != 0, x);
        }
    });
}

pub(crate) fn iq4_nl(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 18], x: &mut [f32; 32]| sixteen_values(f16_at(b, 0), &b[2..], x));
}

pub(crate) fn iq4_xs(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 136], x: &mut [f32; 256]| {
        let (d, high) = (f16_at(b, 0), u16_at(b, 2));
        let (sub_blocks, _) = x.as_chunks_mut();
        for (i, (x, nibbles)) in sub_blocks.iter_mut().zip(b[8..].chunks_exact(16)).enumerate() {
            let scale = u16::from(nibble(&b[4..8], i)) | (high >> (2 * i) & 3) << 4;
            sixteen_values(d * (f32::from(scale) - 32.0), nibbles, x);
        }
    });
}

/// The scale of IQ1_M: the top nibbles of four words, the lowest first.
pub(super) fn iq1_m_scale(words: &[u8]) -> f32 {
    let words: [u16; 4] = std::array::from_fn(|i| u16_at(words, 2 * i));
    f16::from_bits(words.iter().rev().fold(0, |bits, word| bits << 4 | word >> 12)).to_f32()
}

pub(super) fn iq2_scale(d: f32, c: u8) -> f32 {
    (d * (0.5 + f32::from(c))) * 0.25
}

pub(super) fn iq1_scale(d: f32, c: u16) -> f32 {
    d * (2.0 * f32::from(c) + 1.0)
}

/// The eight signs that the low seven bits of `code` stand for.
fn even_signs(code: u32) -> u8 {
    let seven = (code & 0x7f) as u8;
    seven | (seven.count_ones() as u8 & 1) << 7
}

/// A codebook entry, scaled; element `k` negative where bit `k` of `negative` is set.
fn signed(scale: f32, entry: &[i8], negative: u8, x: &mut [f32]) {
    for (k, (x, &value)) in x.iter_mut().zip(entry).enumerate() {
        let value = scale * f32::from(value);
        *x = if negative >> k & 1 == 1 { -value } else { value };
    }
}

fn shifted(scale: f32, entry: &[i8; 8], down: bool, x: &mut [f32]) {
    let shift = if down { -SHIFT } else { SHIFT };
    for (x, &value) in x.iter_mut().zip(entry) {
        *x = scale * (f32::from(value) + shift);
    }
}

fn sixteen_values(scale: f32, nibbles: &[u8], x: &mut [f32; 32]) {
    let mut codes = [0; 32];
    nibble_halves(nibbles, &mut codes);
    for (x, code) in x.iter_mut().zip(codes) {
        *x = scale * f32::from(IQ4[usize::from(code)]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sign_codes_keep_their_seven_bits_and_make_the_count_even() {
        for code in 0..128 {
            let signs = even_signs(code | 0x80);
            assert_eq!(u32::from(signs & 0x7f), code);
            assert!(signs.count_ones().is_multiple_of(2));
        }
    }

    #[test]
    fn the_scale_of_iq1_m_is_put_together_from_four_nibbles() {
        let mut b = [0; 56];
        for (word, nibble) in b[48..].chunks_exact_mut(2).zip([0x1, 0x2, 0x0, 0x4]) {
            word[1] = nibble << 4;
        }
        let mut x = [0.0; 256];
        iq1_m(&b, &mut x);
        assert_eq!(x[0], f16::from_bits(0x4021).to_f32() * (f32::from(IQ1[0][0]) + SHIFT));
    }
}
