//! The "IQ" formats whose codebooks hold vectors: eight elements are one word from a table, their signs another.
//! Pictures in core's `quant::iq`.

use super::Parts;
use super::bits::{ONES, SPREAD, bytes, nibble, u16_at, u32_at};
use crate::simd::Simd;
use scantling_core::quant::codebooks::{IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS};

/// The signs that codes of seven bits stand for, spread: the eighth makes the number of minus signs even.
static EVEN: [u64; 128] = {
    let mut words = [0; 128];
    let mut code = 0;
    while code < 128usize {
        words[code] = SPREAD[code | (code.count_ones() as usize & 1) << 7];
        code += 1;
    }
    words
};

#[inline(always)]
pub(super) fn iq2_xxs<S: Simd>(s: S, b: &[u8; 66], p: &mut Parts) {
    let d = s.f16(u16_at(b, 0));
    for j in 0..8 {
        let (indices, word): (&[u8; 4], u32) = (bytes(b, 2 + 8 * j), u32_at(b, 6 + 8 * j));
        p.scales[j] = (d * (0.5 + (word >> 28) as f32)) * 0.25;
        for (l, index) in indices.iter().enumerate() {
            let entry = whole(&IQ2_XXS[usize::from(*index)]);
            p.eight(4 * j + l, signed(entry, even(word >> (7 * l))));
        }
    }
}

#[inline(always)]
pub(super) fn iq2_xs<S: Simd>(s: S, b: &[u8; 74], p: &mut Parts) {
    iq2_scales(s.f16(u16_at(b, 0)), bytes(b, 66), p);
    for i in 0..32 {
        let word = u16_at(b, 2 + 2 * i);
        let entry = whole(&IQ2_XS[usize::from(word & 511)]);
        p.eight(i, signed(entry, even(u32::from(word >> 9))));
    }
}

#[inline(always)]
pub(super) fn iq2_s<S: Simd>(s: S, b: &[u8; 82], p: &mut Parts) {
    iq2_scales(s.f16(u16_at(b, 0)), bytes(b, 74), p);
    let (low, signs, high): (&[u8; 32], &[u8; 32], &[u8; 8]) = (bytes(b, 2), bytes(b, 34), bytes(b, 66));
    for i in 0..32 {
        let index = usize::from(low[i]) | usize::from(high[i / 4] >> (2 * (i % 4)) & 3) << 8;
        p.eight(i, signed(whole(&IQ2_S[index]), SPREAD[usize::from(signs[i])]));
    }
}

#[inline(always)]
pub(super) fn iq3_xxs<S: Simd>(s: S, b: &[u8; 98], p: &mut Parts) {
    let d = s.f16(u16_at(b, 0));
    for j in 0..8 {
        let (indices, word): (&[u8; 8], u32) = (bytes(b, 2 + 8 * j), u32_at(b, 66 + 4 * j));
        p.scales[j] = (d * (0.5 + (word >> 28) as f32)) * 0.5;
        for l in 0..4 {
            let (left, right) = (usize::from(indices[2 * l]), usize::from(indices[2 * l + 1]));
            p.eight(4 * j + l, signed(pair(&IQ3_XXS[left], &IQ3_XXS[right]), even(word >> (7 * l))));
        }
    }
}

#[inline(always)]
pub(super) fn iq3_s<S: Simd>(s: S, b: &[u8; 110], p: &mut Parts) {
    let d = s.f16(u16_at(b, 0));
    let (signs, scales): (&[u8; 32], &[u8; 4]) = (bytes(b, 74), bytes(b, 106));
    for j in 0..8 {
        p.scales[j] = d * (1.0 + 2.0 * f32::from(nibble(scales, j)));
        let (low, high): (&[u8; 8], usize) = (bytes(b, 2 + 8 * j), usize::from(b[66 + j]));
        for l in 0..4 {
            let left = usize::from(low[2 * l]) | high << (8 - 2 * l) & 256;
            let right = usize::from(low[2 * l + 1]) | high << (7 - 2 * l) & 256;
            let signs = SPREAD[usize::from(signs[4 * j + l])];
            p.eight(4 * j + l, signed(pair(&IQ3_S[left], &IQ3_S[right]), signs));
        }
    }
}

/// The codes of IQ1 are eight times an entry, and one more or less: eighths of `entry + shift`. So the scales are
/// an eighth, which is exact.
#[inline(always)]
pub(super) fn iq1_s<S: Simd>(s: S, b: &[u8; 50], p: &mut Parts) {
    let d = s.f16(u16_at(b, 0));
    for j in 0..8 {
        let word = u16_at(b, 34 + 2 * j);
        p.scales[j] = iq1_scale(d, word >> 12 & 7);
        let indices: &[u8; 4] = bytes(b, 2 + 4 * j);
        for (l, low) in indices.iter().enumerate() {
            let index = usize::from(*low) | usize::from(word >> (3 * l) & 7) << 8;
            p.eight(4 * j + l, shifted(whole(&IQ1[index]), word >> 15 == 1));
        }
    }
}

#[inline(always)]
pub(super) fn iq1_m<S: Simd>(s: S, b: &[u8; 56], p: &mut Parts) {
    let (indices, high): (&[u8; 32], &[u8; 16]) = (bytes(b, 0), bytes(b, 32));
    let words: [u16; 4] = std::array::from_fn(|i| u16_at(b, 48 + 2 * i));
    let d = s.f16(words[0] >> 12 | words[1] >> 8 & 0xf0 | words[2] >> 4 & 0xf00 | words[3] & 0xf000);
    for j in 0..16 {
        p.scales[j] = iq1_scale(d, words[j / 4] >> (3 * (j % 4)) & 7);
    }
    for i in 0..32 {
        let high = nibble(high, i);
        let entry = whole(&IQ1[usize::from(indices[i]) | usize::from(high & 7) << 8]);
        p.eight(i, shifted(entry, high & 8 != 0));
    }
}

#[inline(always)]
fn iq2_scales(d: f32, nibbles: &[u8; 8], p: &mut Parts) {
    for j in 0..16 {
        p.scales[j] = (d * (0.5 + f32::from(nibble(nibbles, j)))) * 0.25;
    }
}

#[inline(always)]
fn iq1_scale(d: f32, c: u16) -> f32 {
    d * (2.0 * f32::from(c) + 1.0) * 0.125
}

#[inline(always)]
fn whole(entry: &[i8; 8]) -> u64 {
    u64::from_le_bytes(entry.map(|x| x as u8))
}

#[inline(always)]
fn pair(left: &[i8; 4], right: &[i8; 4]) -> u64 {
    let word = |entry: &[i8; 4]| u64::from(u32::from_le_bytes(entry.map(|x| x as u8)));
    word(left) | word(right) << 32
}

#[inline(always)]
fn even(code: u32) -> u64 {
    EVEN[(code & 127) as usize]
}

/// Eight positive bytes, negative where `signs` has all bits set: the complement and one, which never carries into
/// the next byte, since no byte is 0.
#[inline(always)]
fn signed(entry: u64, signs: u64) -> u64 {
    (entry ^ signs).wrapping_add(signs & ONES)
}

/// Eight times each of eight bytes of -1, 0 and +1, and 1 more, or `down` 1 less. The top bits are added apart from
/// the others, so that nothing carries into the next byte.
#[inline(always)]
fn shifted(entry: u64, down: bool) -> u64 {
    let eights = entry << 3 & (ONES * 0xf8);
    let shift = if down { u64::MAX } else { ONES };
    let top = ONES * 0x80;
    ((eights & !top) + (shift & !top)) ^ ((eights ^ shift) & top)
}
