//! The "K" formats: 256 elements. Pictures in core's `quant::k`.

use super::Parts;
use super::bits::{bytes, copy, two_bit_planes, u16_at, u32_at};
use crate::simd::Simd;

#[inline(always)]
pub(super) fn q2_k<S: Simd>(s: S, b: &[u8; 84], p: &mut Parts) {
    let (d, dm) = (s.f16(u16_at(b, 80)), s.f16(u16_at(b, 82)));
    let scales: &[u8; 16] = bytes(b, 0);
    for (j, both) in scales.iter().enumerate() {
        p.scales[j] = d * f32::from(both & 15);
        p.minima[j] = dm * f32::from(both >> 4);
    }
    two_bit_planes::<0>(bytes(b, 16), p);
}

#[inline(always)]
pub(super) fn q3_k<S: Simd>(s: S, b: &[u8; 110], p: &mut Parts) {
    let d = s.f16(u16_at(b, 108));
    let scales = q3_k_scales(bytes(b, 96));
    for (to, scale) in p.scales.iter_mut().zip(scales) {
        *to = d * f32::from(scale);
    }
    let (mask, low, high) = (bytes(b, 0), bytes(b, 32), bytes(b, 64));
    three_bits::<0, 0>(low, mask, p.run(0));
    three_bits::<2, 1>(low, mask, p.run(32));
    three_bits::<4, 2>(low, mask, p.run(64));
    three_bits::<6, 3>(low, mask, p.run(96));
    three_bits::<0, 4>(high, mask, p.run(128));
    three_bits::<2, 5>(high, mask, p.run(160));
    three_bits::<4, 6>(high, mask, p.run(192));
    three_bits::<6, 7>(high, mask, p.run(224));
}

#[inline(always)]
fn three_bits<const SHIFT: u32, const BIT: u32>(q: &[u8; 32], mask: &[u8; 32], to: &mut [i8; 32]) {
    for l in 0..32 {
        to[l] = (q[l] >> SHIFT & 3 | (mask[l] >> BIT & 1) << 2) as i8 - 4;
    }
}

/// The sixteen scales, four in a word: low four bits as nibbles, the high two in planes.
#[inline(always)]
fn q3_k_scales(b: &[u8; 12]) -> [i8; 16] {
    let (first, second, high) = (u32_at(b, 0), u32_at(b, 4), u32_at(b, 8));
    let words = [first, second, first >> 4, second >> 4];
    let mut scales = [0; 16];
    for (i, scales) in scales.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        let six = words[i] & 0x0f0f_0f0f | (high >> (2 * i) & 0x0303_0303) << 4;
        *scales = six.to_le_bytes().map(|scale| scale as i8 - 32);
    }
    scales
}

#[inline(always)]
pub(super) fn q4_k<S: Simd>(s: S, b: &[u8; 144], p: &mut Parts) {
    scales_and_minima(s, bytes(b, 0), p);
    for run in 0..4 {
        let q = bytes(b, 16 + 32 * run);
        four_bits::<0>(q, p.run(64 * run));
        four_bits::<4>(q, p.run(64 * run + 32));
    }
}

#[inline(always)]
fn four_bits<const SHIFT: u32>(q: &[u8; 32], to: &mut [i8; 32]) {
    for l in 0..32 {
        to[l] = (q[l] >> SHIFT & 15) as i8;
    }
}

#[inline(always)]
pub(super) fn q5_k<S: Simd>(s: S, b: &[u8; 176], p: &mut Parts) {
    scales_and_minima(s, bytes(b, 0), p);
    let high = bytes(b, 16);
    five_bits::<0, 0>(bytes(b, 48), high, p.run(0));
    five_bits::<4, 1>(bytes(b, 48), high, p.run(32));
    five_bits::<0, 2>(bytes(b, 80), high, p.run(64));
    five_bits::<4, 3>(bytes(b, 80), high, p.run(96));
    five_bits::<0, 4>(bytes(b, 112), high, p.run(128));
    five_bits::<4, 5>(bytes(b, 112), high, p.run(160));
    five_bits::<0, 6>(bytes(b, 144), high, p.run(192));
    five_bits::<4, 7>(bytes(b, 144), high, p.run(224));
}

#[inline(always)]
fn five_bits<const SHIFT: u32, const BIT: u32>(q: &[u8; 32], high: &[u8; 32], to: &mut [i8; 32]) {
    for l in 0..32 {
        to[l] = (q[l] >> SHIFT & 15 | (high[l] >> BIT & 1) << 4) as i8;
    }
}

#[inline(always)]
pub(super) fn q6_k<S: Simd>(s: S, b: &[u8; 210], p: &mut Parts) {
    let d = s.f16(u16_at(b, 208));
    let scales: &[u8; 16] = bytes(b, 192);
    for (to, scale) in p.scales.iter_mut().zip(scales) {
        *to = d * f32::from(*scale as i8);
    }
    for half in 0..2 {
        let (first, second) = (bytes(b, 64 * half), bytes(b, 64 * half + 32));
        let high = bytes(b, 128 + 32 * half);
        six_bits::<0, 0>(first, high, p.run(128 * half));
        six_bits::<0, 2>(second, high, p.run(128 * half + 32));
        six_bits::<4, 4>(first, high, p.run(128 * half + 64));
        six_bits::<4, 6>(second, high, p.run(128 * half + 96));
    }
}

#[inline(always)]
fn six_bits<const SHIFT: u32, const PLANE: u32>(q: &[u8; 32], high: &[u8; 32], to: &mut [i8; 32]) {
    for l in 0..32 {
        to[l] = (q[l] >> SHIFT & 15 | (high[l] >> PLANE & 3) << 4) as i8 - 32;
    }
}

#[inline(always)]
pub(super) fn q8_k<S: Simd>(_s: S, b: &[u8; 292], p: &mut Parts) {
    p.scales[0] = f32::from_le_bytes(*bytes(b, 0));
    copy::<256>(bytes(b, 4), p.run(0));
}

/// Scales and minima of Q4_K and Q5_K: `d`, `dm`, and twelve bytes that hold eight of each in six bits; four of them
/// in a word.
#[inline(always)]
fn scales_and_minima<S: Simd>(s: S, b: &[u8; 16], p: &mut Parts) {
    let (d, dm) = (s.f16(u16_at(b, 0)), s.f16(u16_at(b, 2)));
    let (scales, minima, rest) = (u32_at(b, 4), u32_at(b, 8), u32_at(b, 12));
    let six = |word: u32| word & 0x3f3f_3f3f;
    let joined = |low: u32, top: u32| low & 0x0f0f_0f0f | (top >> 6 & 0x0303_0303) << 4;
    let eight = |first: u32, second: u32| (u64::from(second) << 32 | u64::from(first)).to_le_bytes();
    let scales = eight(six(scales), joined(rest, scales));
    let minima = eight(six(minima), joined(rest >> 4, minima));
    for j in 0..8 {
        p.scales[j] = d * f32::from(scales[j]);
        p.minima[j] = dm * f32::from(minima[j]);
    }
}
