//! The first block formats of ggml: 32 elements, one scale, and in the `_1` types a minimum beside it.
//!
//! ```text
//!        0     2                      18
//! Q4_0   | d   | 16 bytes of nibbles  |             x = (code - 8) * d
//!
//!        0     2     4                20
//! Q4_1   | d   | m   | nibbles        |             x = code * d + m
//!
//!        0     2     6                22
//! Q5_0   | d   | h   | nibbles        |             x = (code - 16) * d
//!
//!        0     2     4     8          24
//! Q5_1   | d   | m   | h   | nibbles  |             x = code * d + m
//!
//!        0     2                      34
//! Q8_0   | d   | 32 signed bytes      |             x = code * d
//!
//!        0     2     4                36
//! Q8_1   | d   | s   | 32 signed bytes|             x = code * d
//! ```
//!
//! `d` and `m` are f16. Byte `j` of the nibbles holds element `j` below and element `j + 16` above. `h` is a word
//! of 32 bits, bit `e` being the fifth, highest bit of element `e`. Q8_1 is what activations become while a program
//! runs: `s` is `d` times the sum of the codes, of use to a dot product and of none to a reader.

use super::{each_block, f16_at, nibble_halves, u32_at};

pub(crate) fn q4_0(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 18], x: &mut [f32; 32]| {
        let d = f16_at(b, 0);
        for (x, code) in x.iter_mut().zip(four_bits(&b[2..])) {
            *x = (f32::from(code) - 8.0) * d;
        }
    });
}

pub(crate) fn q4_1(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 20], x: &mut [f32; 32]| {
        let (d, m) = (f16_at(b, 0), f16_at(b, 2));
        for (x, code) in x.iter_mut().zip(four_bits(&b[4..])) {
            *x = f32::from(code) * d + m;
        }
    });
}

pub(crate) fn q5_0(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 22], x: &mut [f32; 32]| {
        let d = f16_at(b, 0);
        for (x, code) in x.iter_mut().zip(five_bits(u32_at(b, 2), &b[6..])) {
            *x = (f32::from(code) - 16.0) * d;
        }
    });
}

pub(crate) fn q5_1(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 24], x: &mut [f32; 32]| {
        let (d, m) = (f16_at(b, 0), f16_at(b, 2));
        for (x, code) in x.iter_mut().zip(five_bits(u32_at(b, 4), &b[8..])) {
            *x = f32::from(code) * d + m;
        }
    });
}

pub(crate) fn q8_0(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 34], x: &mut [f32; 32]| eight_bits(f16_at(b, 0), &b[2..], x));
}

pub(crate) fn q8_1(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 36], x: &mut [f32; 32]| eight_bits(f16_at(b, 0), &b[4..], x));
}

/// A stored sum that is NaN or infinite: decoding does not look at it.
pub(crate) fn q8_1_suspect(block: &[u8]) -> bool {
    block.len() >= 4 && !f16_at(block, 2).is_finite()
}

pub(super) fn four_bits(nibbles: &[u8]) -> [u8; 32] {
    let mut codes = [0; 32];
    nibble_halves(nibbles, &mut codes);
    codes
}

pub(super) fn five_bits(high: u32, nibbles: &[u8]) -> [u8; 32] {
    let mut codes = four_bits(nibbles);
    for (e, code) in codes.iter_mut().enumerate() {
        *code |= ((high >> e & 1) << 4) as u8;
    }
    codes
}

fn eight_bits(d: f32, codes: &[u8], x: &mut [f32; 32]) {
    for (x, &code) in x.iter_mut().zip(codes) {
        *x = f32::from(code as i8) * d;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    #[test]
    fn elements_and_their_fifth_bits_are_where_the_picture_has_them() {
        let mut b = [0; 22];
        b[..2].copy_from_slice(&f16::from_f32(2.0).to_le_bytes());
        b[2..6].copy_from_slice(&(1u32 << 17 | 1 << 31).to_le_bytes());
        b[6 + 1] = 0x43;
        let mut x = [0.0; 32];
        q5_0(&b, &mut x);
        assert_eq!((x[1], x[17], x[31], x[0]), (-26.0, 8.0, 0.0, -32.0));
    }

    #[test]
    fn the_stored_sum_of_q8_1_is_suspect_when_not_finite() {
        let mut b = [0; 36];
        assert!(!q8_1_suspect(&b));
        b[2..4].copy_from_slice(&f16::INFINITY.to_le_bytes());
        assert!(q8_1_suspect(&b));
    }
}
