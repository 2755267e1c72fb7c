//! Elements that are -1, 0 or +1 times an f16 scale: 256 to a block.
//!
//! ```text
//!         0                 64    66
//! TQ2_0   | 64 bytes        | d   |     two bits each, in planes (see `two_bit_planes`); x = (code - 1) * d
//!
//!         0         48      52    54
//! TQ1_0   | q[48]   | h[4]  | d   |     five elements to a byte, in base 3; x = (digit - 1) * d
//! ```
//!
//! A byte of TQ1_0 is a fraction: the number of five base-3 digits, divided by 3^5 and given in 256ths, rounded up.
//! Tripling it moves the most significant digit above the point, where it is read and dropped; what stays is the
//! fraction of the rest. The digits of one byte are not neighbours. Digit `n` of byte `i` is element
//!
//! ```text
//! q[0..32]:  32n + i           160 elements
//! q[32..48]: 160 + 16n + i      80 elements
//! h:         240 + 4n + i       16 elements, four digits only
//! ```

use super::{each_block, f16_at, two_bit_planes};

pub(crate) fn tq2_0(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 66], x: &mut [f32; 256]| {
        let d = f16_at(b, 64);
        for (x, code) in x.iter_mut().zip(two_bit_planes(&b[..64])) {
            *x = (f32::from(code) - 1.0) * d;
        }
    });
}

pub(crate) fn tq1_0(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 54], x: &mut [f32; 256]| {
        let d = f16_at(b, 52);
        let (first, rest) = x.split_at_mut(160);
        let (second, third) = rest.split_at_mut(80);
        base_three(&b[..32], d, first);
        base_three(&b[32..48], d, second);
        base_three(&b[48..52], d, third);
    });
}

/// Bytes of each run of TQ1_0, and the digits that each of its bytes has.
pub(super) const TQ1_0_RUNS: [(usize, usize); 3] = [(32, 5), (16, 5), (4, 4)];

/// So many digits of every byte, the first digit of all bytes before the second of any.
pub(super) fn digits(bytes: &[u8], each: usize) -> impl Iterator<Item = u16> {
    let powers = [1u8, 3, 9, 27, 81].into_iter().take(each);
    powers.flat_map(move |power| bytes.iter().map(move |byte| digit(*byte, power)))
}

fn digit(byte: u8, power: u8) -> u16 {
    (u16::from(byte.wrapping_mul(power)) * 3) >> 8
}

/// As many digits of every byte as `x` has room for, the first digit of all bytes before the second of any.
fn base_three(bytes: &[u8], d: f32, x: &mut [f32]) {
    for (x, power) in x.chunks_exact_mut(bytes.len()).zip([1u8, 3, 9, 27, 81]) {
        for (x, byte) in x.iter_mut().zip(bytes) {
            *x = (f32::from(digit(*byte, power)) - 1.0) * d;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_of_five_digits_survives_the_fraction() {
        for number in 0..243u32 {
            let byte = (number * 256).div_ceil(243) as u8;
            let mut digits = [0.0; 5];
            base_three(&[byte], 1.0, &mut digits);
            let found = digits.iter().fold(0, |sum, digit| 3 * sum + (digit + 1.0) as u32);
            assert_eq!(found, number);
        }
    }
}
