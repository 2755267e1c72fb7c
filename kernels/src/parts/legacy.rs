//! The first block formats of ggml: 32 elements. Pictures in core's `quant::q_legacy`.

use super::Parts;
use super::bits::{SPREAD, bytes, copy, nibbles, u16_at};
use crate::simd::Simd;

#[inline(always)]
pub(super) fn q4_0<S: Simd>(s: S, b: &[u8; 18], p: &mut Parts) {
    p.scales[0] = s.f16(u16_at(b, 0));
    for (to, code) in p.run::<32>(0).iter_mut().zip(nibbles(bytes(b, 2))) {
        *to = code as i8 - 8;
    }
}

#[inline(always)]
pub(super) fn q4_1<S: Simd>(s: S, b: &[u8; 20], p: &mut Parts) {
    p.scales[0] = s.f16(u16_at(b, 0));
    p.minima[0] = -s.f16(u16_at(b, 2));
    copy(&nibbles(bytes(b, 4)), p.run(0));
}

#[inline(always)]
pub(super) fn q5_0<S: Simd>(s: S, b: &[u8; 22], p: &mut Parts) {
    p.scales[0] = s.f16(u16_at(b, 0));
    for (to, code) in p.run::<32>(0).iter_mut().zip(five_bits(bytes(b, 2), bytes(b, 6))) {
        *to = code as i8 - 16;
    }
}

#[inline(always)]
pub(super) fn q5_1<S: Simd>(s: S, b: &[u8; 24], p: &mut Parts) {
    p.scales[0] = s.f16(u16_at(b, 0));
    p.minima[0] = -s.f16(u16_at(b, 2));
    copy(&five_bits(bytes(b, 4), bytes(b, 8)), p.run(0));
}

#[inline(always)]
pub(super) fn q8_0<S: Simd>(s: S, b: &[u8; 34], p: &mut Parts) {
    p.scales[0] = s.f16(u16_at(b, 0));
    copy::<32>(bytes(b, 2), p.run(0));
}

#[inline(always)]
pub(super) fn q8_1<S: Simd>(s: S, b: &[u8; 36], p: &mut Parts) {
    p.scales[0] = s.f16(u16_at(b, 0));
    copy::<32>(bytes(b, 4), p.run(0));
}

/// Nibbles, and above each the bit of `high` with its element's number.
#[inline(always)]
fn five_bits(high: &[u8; 4], low: &[u8; 16]) -> [u8; 32] {
    let mut fifth = [0; 32];
    for (eight, byte) in fifth.as_chunks_mut::<8>().0.iter_mut().zip(high) {
        *eight = SPREAD[usize::from(*byte)].to_le_bytes();
    }
    let mut codes = nibbles(low);
    for (code, fifth) in codes.iter_mut().zip(fifth) {
        *code |= fifth & 16;
    }
    codes
}
