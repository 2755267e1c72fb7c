//! One and two bits an element, in memory order, with an f16 scale.
//!
//! ```text
//!        0     2                18
//! Q1_0   | d   | 16 bytes       |     128 elements; bit k of byte j is element 8j + k: set +d, clear -d
//!
//!        0     2                18
//! Q2_0   | d   | 16 bytes       |      64 elements; bits 2k, 2k+1 of byte j are element 4j + k
//!          x = (code - 1) * d          so the codes stand for -1, 0, +1, +2
//! ```

use super::{each_block, f16_at};

pub(crate) fn q1_0(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 18], x: &mut [f32; 128]| {
        let d = f16_at(b, 0);
        for (x, byte) in x.chunks_exact_mut(8).zip(&b[2..]) {
            for (x, bit) in x.iter_mut().zip(bits(*byte)) {
                *x = if bit == 1 { d } else { -d };
            }
        }
    });
}

pub(crate) fn q2_0(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 18], x: &mut [f32; 64]| {
        let d = f16_at(b, 0);
        for (x, byte) in x.chunks_exact_mut(4).zip(&b[2..]) {
            for (x, code) in x.iter_mut().zip(two_bits(*byte)) {
                *x = (f32::from(code) - 1.0) * d;
            }
        }
    });
}

/// The bits of a byte, the lowest first.
pub(super) fn bits(byte: u8) -> [u8; 8] {
    std::array::from_fn(|k| byte >> k & 1)
}

/// The four codes of a byte, the lowest first.
pub(super) fn two_bits(byte: u8) -> [u8; 4] {
    std::array::from_fn(|k| byte >> (2 * k) & 3)
}
