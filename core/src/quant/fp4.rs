//! Floats of four bits, E2M1: alone (F4), or in blocks that share a scale (MXFP4, NVFP4).
//!
//! ```text
//! code     0   1   2   3   4   5   6   7     8 to 15: the same, negative
//! value    0  .5   1  1.5  2   3   4   6     no NaN, no infinity
//!
//! F4      one byte: the first element in the low nibble, the second in the high one; code 8 is -0
//!
//!         0     1                         17
//! MXFP4   | e   | 16 bytes of nibbles     |      32 elements, order as Q4_0
//!           x = doubled value * s(e), s(e) = 2^(e - 128); code 8 is +0
//!
//!         0        4                      36
//! NVFP4   | s[4]   | 32 bytes of nibbles  |      4 sub-blocks of 16 elements in 8 bytes each, order as Q4_0
//!           x = doubled value * u(s), u half of the number that s is in unsigned E4M3; code 8 is +0
//! ```
//!
//! The blocks store whole numbers, twice the values, and halve the scale. An NVFP4 tensor comes with a second one,
//! `NAME.scale`, that multiplies it as a whole: that is no part of the block and not applied here.

use super::codebooks::E2M1_DOUBLED;
use super::{each_block, nibble_halves};

static E2M1: [f32; 16] =
    [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, -0.0, -0.5, -1.0, -1.5, -2.0, -3.0, -4.0, -6.0];

pub(crate) fn f4(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |&[byte]: &[u8; 1], x: &mut [f32; 2]| {
        *x = [E2M1[usize::from(byte & 15)], E2M1[usize::from(byte >> 4)]];
    });
}

pub(crate) fn mxfp4(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 17], x: &mut [f32; 32]| scaled(&b[1..], half_e8m0(b[0]), x));
}

/// A scale of 255: NaN where the format was specified, but here read as 2^127.
pub(crate) fn mxfp4_suspect(block: &[u8]) -> bool {
    block.first() == Some(&255)
}

pub(crate) fn nvfp4(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 36], x: &mut [f32; 64]| {
        for (g, (x, codes)) in x.chunks_exact_mut(16).zip(b[4..].chunks_exact(8)).enumerate() {
            scaled(codes, half_ue4m3(b[g]), x);
        }
    });
}

/// A scale whose E4M3 code is NaN: read as 0, or as 240 if its unused sign bit is set.
pub(crate) fn nvfp4_suspect(block: &[u8]) -> bool {
    block.iter().take(4).any(|scale| scale & 0x7f == 0x7f)
}

fn scaled(nibbles: &[u8], scale: f32, x: &mut [f32]) {
    let mut codes = [0; 32];
    let codes = &mut codes[..x.len()];
    nibble_halves(nibbles, codes);
    for (x, &code) in x.iter_mut().zip(&*codes) {
        *x = f32::from(E2M1_DOUBLED[usize::from(code)]) * scale;
    }
}

/// 2^(e - 128): half of the power of two that the byte is as E8M0, the two smallest being subnormal.
pub fn half_e8m0(e: u8) -> f32 {
    match e {
        0 | 1 => f32::from_bits(0x0020_0000 << e),
        _ => f32::from_bits(u32::from(e - 1) << 23),
    }
}

/// Half of an unsigned E4M3 number; the code for NaN counts as 0, the top bit is not looked at.
pub fn half_ue4m3(s: u8) -> f32 {
    let (exponent, mantissa) = (s >> 3 & 15, f32::from(s & 7));
    let number = match (s, exponent) {
        (0 | 0x7f, _) => 0.0,
        (_, 0) => mantissa * f32::from_bits((127 - 9) << 23),
        _ => (1.0 + mantissa / 8.0) * f32::from_bits((u32::from(exponent) + 127 - 7) << 23),
    };
    number * 0.5
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn block_codes_are_twice_the_values() {
        for (doubled, value) in E2M1_DOUBLED.iter().zip(E2M1) {
            assert_eq!(f32::from(*doubled), value * 2.0);
        }
        assert!(E2M1[8].is_sign_negative());
    }

    #[test]
    fn scales_are_half_of_what_their_formats_say() {
        for e in 0..=255u8 {
            assert_eq!(f64::from(half_e8m0(e)), 2f64.powi(i32::from(e) - 128), "{e}");
        }
        for s in 1..0x7fu8 {
            let mut e4m3 = [0.0];
            super::super::fp8::e4m3(&[s], &mut e4m3);
            assert_eq!(half_ue4m3(s), e4m3[0] / 2.0, "{s:#x}");
        }
        assert_eq!((half_ue4m3(0), half_ue4m3(0x7f), half_ue4m3(0xff)), (0.0, 0.0, 240.0));
    }

    #[test]
    fn scales_without_a_number_are_suspect() {
        let (mut mx, mut nv) = ([0; 17], [0; 36]);
        assert!(!mxfp4_suspect(&mx) && !nvfp4_suspect(&nv));
        (mx[16], nv[4]) = (255, 0x7f);
        assert!(!mxfp4_suspect(&mx) && !nvfp4_suspect(&nv));
        (mx[0], nv[3]) = (255, 0x7f);
        assert!(mxfp4_suspect(&mx) && nvfp4_suspect(&nv));
    }
}
