//! Types whose codes of four bits number the entries of a table. Pictures in core's `quant::iq` and `quant::fp4`.

use super::Parts;
use super::bits::{bytes, nibble, u16_at};
use crate::simd::Simd;
use scantling_core::quant::codebooks::{E2M1_DOUBLED, IQ4};
use scantling_core::quant::{half_e8m0, half_ue4m3};

#[inline(always)]
pub(super) fn iq4_nl<S: Simd>(s: S, b: &[u8; 18], p: &mut Parts) {
    p.scales[0] = s.f16(u16_at(b, 0));
    entries(s, &IQ4, bytes(b, 2), p.run(0));
}

#[inline(always)]
pub(super) fn iq4_xs<S: Simd>(s: S, b: &[u8; 136], p: &mut Parts) {
    let (d, high, low) = (s.f16(u16_at(b, 0)), u16_at(b, 2), bytes::<4>(b, 4));
    for j in 0..8 {
        let scale = u16::from(nibble(low, j)) | (high >> (2 * j) & 3) << 4;
        p.scales[j] = d * (f32::from(scale) - 32.0);
        entries(s, &IQ4, bytes(b, 8 + 16 * j), p.run(32 * j));
    }
}

#[inline(always)]
pub(super) fn mxfp4<S: Simd>(s: S, b: &[u8; 17], p: &mut Parts) {
    p.scales[0] = half_e8m0(b[0]);
    entries(s, &E2M1_DOUBLED, bytes(b, 1), p.run(0));
}

#[inline(always)]
pub(super) fn nvfp4<S: Simd>(s: S, b: &[u8; 36], p: &mut Parts) {
    for j in 0..4 {
        p.scales[j] = half_ue4m3(b[j]);
        let word = u64::from_le_bytes(*bytes(b, 4 + 8 * j));
        let halves = [word & 0x0f0f_0f0f_0f0f_0f0f, word >> 4 & 0x0f0f_0f0f_0f0f_0f0f];
        let mut indices = [0; 16];
        for (indices, half) in indices.as_chunks_mut::<8>().0.iter_mut().zip(halves) {
            *indices = half.to_le_bytes();
        }
        *p.run(16 * j) = s.look_up(&E2M1_DOUBLED, &indices);
    }
}

/// The entries that the nibbles number, those of the low nibbles first.
#[inline(always)]
fn entries<S: Simd>(s: S, table: &[i8; 16], nibbles: &[u8; 16], to: &mut [i8; 32]) {
    let (low, high) = to.split_at_mut(16);
    low.copy_from_slice(&s.look_up(table, &nibbles.map(|byte| byte & 15)));
    high.copy_from_slice(&s.look_up(table, &nibbles.map(|byte| byte >> 4)));
}
