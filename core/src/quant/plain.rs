//! Numbers that are stored one by one: floats, integers, truth values, complex numbers.
//!
//! ```text
//! F32 F64 I8.. U8..   as the machine has them, little-endian; rounded to the nearest f32, ties to even
//! F16                 1 sign, 5 exponent, 10 mantissa bits: IEEE binary16
//! BF16                the upper half of an f32
//! BOOL                one byte, 0 or 1
//! C64                 two f32: real part, imaginary part
//! ```
//!
//! Whole files are scanned through these loops, so they are written to be vectorised by the compiler.

use half::f16;
use half::slice::HalfFloatSliceExt;

/// Converts every number. A macro, since a function that is passed to another is not inlined for sure, and then is
/// not compiled for the instructions that are switched on where `decode_inlined` is called.
macro_rules! each {
    ($raw:ident, $out:ident, |$bytes:pat_param| $value:expr) => {
        for (&$bytes, out) in $raw.as_chunks().0.iter().zip($out) {
            *out = $value;
        }
    };
}

#[inline(always)]
pub(crate) fn f32(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |bytes| f32::from_le_bytes(bytes));
}

#[inline(always)]
pub(crate) fn f64(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |bytes| f64::from_le_bytes(bytes) as f32);
}

/// The conversion of single numbers asks the processor for its features each time; that of slices asks once.
pub(crate) fn f16(raw: &[u8], out: &mut [f32]) {
    let mut stored = [f16::ZERO; 256];
    for (raw, out) in raw.chunks(512).zip(out.chunks_mut(256)) {
        let (raw, _) = raw.as_chunks();
        let count = raw.len().min(out.len());
        for (stored, &bytes) in stored.iter_mut().zip(raw) {
            *stored = f16::from_le_bytes(bytes);
        }
        stored[..count].convert_to_f32_slice(&mut out[..count]);
    }
}

#[inline(always)]
pub(crate) fn bf16(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |bytes| f32::from_bits(u32::from(u16::from_le_bytes(bytes)) << 16));
}

pub(crate) fn i8(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |bytes| f32::from(i8::from_le_bytes(bytes)));
}

pub(crate) fn i16(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |bytes| f32::from(i16::from_le_bytes(bytes)));
}

pub(crate) fn i32(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |bytes| i32::from_le_bytes(bytes) as f32);
}

pub(crate) fn i64(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |bytes| i64::from_le_bytes(bytes) as f32);
}

pub(crate) fn u8(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |[byte]| f32::from(byte));
}

pub(crate) fn u16(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |bytes| f32::from(u16::from_le_bytes(bytes)));
}

pub(crate) fn u32(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |bytes| u32::from_le_bytes(bytes) as f32);
}

pub(crate) fn u64(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |bytes| u64::from_le_bytes(bytes) as f32);
}

/// Any byte but 0 is true, so that the values are 0 and 1 whatever the file holds.
pub(crate) fn bool(raw: &[u8], out: &mut [f32]) {
    each!(raw, out, |[byte]| if byte == 0 { 0.0 } else { 1.0 });
}

/// A truth value that is neither 0 nor 1.
pub(crate) fn bool_suspect(block: &[u8]) -> bool {
    block.iter().any(|&byte| byte > 1)
}

/// The two parts of a complex number are two values: the bytes are those of a list of f32.
pub(crate) fn c64(raw: &[u8], out: &mut [f32]) {
    f32(raw, out);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_f16_has_the_value_its_fields_spell() {
        let raw: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_le_bytes).collect();
        let mut out = vec![0.0; 1 << 16];
        f16(&raw, &mut out);
        for (bits, &found) in (0..=u16::MAX).zip(&out) {
            let (exponent, mantissa) = (i32::from(bits >> 10 & 31), f64::from(bits & 1023));
            let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
            match exponent {
                31 if mantissa == 0.0 => assert_eq!(found, sign as f32 * f32::INFINITY),
                31 => assert!(found.is_nan()),
                0 => assert_eq!(f64::from(found), sign * mantissa * 2f64.powi(-24)),
                _ => assert_eq!(f64::from(found), sign * (1024.0 + mantissa) * 2f64.powi(exponent - 25)),
            }
            assert_eq!(found.is_sign_negative(), bits >> 15 == 1);
        }
    }

    #[test]
    fn f16_of_any_count_is_decoded_to_its_end() {
        for count in [0, 1, 7, 255, 256, 257, 1000] {
            let raw: Vec<u8> = f16::from_f32(1.5).to_le_bytes().repeat(count);
            let mut out = vec![0.0; count];
            f16(&raw, &mut out);
            assert!(out.iter().all(|&x| x == 1.5), "{count}");
        }
    }

    #[test]
    fn truth_values_are_0_and_1_and_others_are_suspect() {
        let mut out = [9.0; 3];
        bool(&[0, 1, 2], &mut out);
        assert_eq!(out, [0.0, 1.0, 1.0]);
        assert!(!bool_suspect(&[0]) && !bool_suspect(&[1]) && bool_suspect(&[2]));
    }

    #[test]
    fn wide_integers_round_to_even() {
        let mut out = [0.0; 2];
        let odd = (1u64 << 24) + 1;
        u64(&[odd.to_le_bytes(), (odd + 2).to_le_bytes()].concat(), &mut out);
        assert_eq!(out, [16_777_216.0, 16_777_220.0]);
        u64(&u64::MAX.to_le_bytes(), &mut out[..1]);
        assert_eq!(out[0], 2f32.powi(64));
    }
}
