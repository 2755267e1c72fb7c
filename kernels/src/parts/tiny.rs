//! One or two bits an element, or a digit of base three. Pictures in core's `quant::one_two_bit` and `quant::ternary`.

use super::Parts;
use super::bits::{ONES, SPREAD, bytes, two_bit_planes, u16_at};
use crate::simd::Simd;

/// The four codes of a byte of Q2_0, the first lowest: two bits each, less 1.
static QUADS: [[i8; 4]; 256] = {
    let mut quads = [[0; 4]; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut k = 0;
        while k < 4 {
            quads[byte][k] = (byte >> (2 * k) & 3) as i8 - 1;
            k += 1;
        }
        byte += 1;
    }
    quads
};

#[inline(always)]
pub(super) fn q1_0<S: Simd>(s: S, b: &[u8; 18], p: &mut Parts) {
    p.scales[0] = s.f16(u16_at(b, 0));
    for (i, byte) in bytes::<16>(b, 2).iter().enumerate() {
        // 1 where the bit is set, all bits, which is -1, elsewhere.
        p.eight(i, !SPREAD[usize::from(*byte)] | ONES);
    }
}

#[inline(always)]
pub(super) fn q2_0<S: Simd>(s: S, b: &[u8; 18], p: &mut Parts) {
    p.scales[0] = s.f16(u16_at(b, 0));
    for (i, byte) in bytes::<16>(b, 2).iter().enumerate() {
        *p.run(4 * i) = QUADS[usize::from(*byte)];
    }
}

#[inline(always)]
pub(super) fn tq2_0<S: Simd>(s: S, b: &[u8; 66], p: &mut Parts) {
    p.scales[0] = s.f16(u16_at(b, 64));
    two_bit_planes::<1>(bytes(b, 0), p);
}

/// Powers of three that bring digit `l / 4` of a byte before the point.
const POWERS: [u8; 16] = [1, 1, 1, 1, 3, 3, 3, 3, 9, 9, 9, 9, 27, 27, 27, 27];

#[inline(always)]
pub(super) fn tq1_0<S: Simd>(s: S, b: &[u8; 54], p: &mut Parts) {
    p.scales[0] = s.f16(u16_at(b, 52));
    five_digits::<32>(*bytes(b, 0), p.run::<160>(0));
    five_digits::<16>(*bytes(b, 32), p.run::<80>(160));
    let last = [*bytes::<4>(b, 48); 4];
    let (last, to) = (last.as_flattened(), p.run::<16>(240));
    for l in 0..16 {
        to[l] = digit(last[l].wrapping_mul(POWERS[l]));
    }
}

/// The first digits of all bytes, then the second of all, and so on.
#[inline(always)]
fn five_digits<const N: usize>(mut fractions: [u8; N], to: &mut [i8]) {
    let (to, _) = to.as_chunks_mut::<N>();
    for to in &mut to[..5] {
        for (to, fraction) in to.iter_mut().zip(&mut fractions) {
            *to = digit(*fraction);
            *fraction = fraction.wrapping_mul(3);
        }
    }
}

/// What three times a byte is above its 256ths, less 1: two comparisons, which there are for vectors of bytes, as
/// there is no multiplication.
#[inline(always)]
fn digit(fraction: u8) -> i8 {
    i8::from(fraction > 85) + i8::from(fraction > 170) - 1
}
