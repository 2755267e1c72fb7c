//! How far apart the values are that an element type has: what rounding a number to it may move it by.

use super::f16_at;
use crate::dtype::DType;

/// By how much an element of a block may be off that was rounded to one of the first block types of ggml (Q4_0 to Q8_0):
/// one step of its codes. The scale is rounded to f16 too, which moves the farthest code by so much more. `None` for
/// other types, and for less than a block.
///
/// A block with a scale far too large would allow all of its numbers to be lost: where `numbers`, which the block was made
/// of, are given, a step counts for no more than half as much again as they need.
pub fn block_step(dtype: DType, block: &[u8], numbers: Option<&[f32]>) -> Option<f64> {
    let (farthest, codes, from_minimum) = match dtype {
        DType::Q4_0 => (16.0, 8.0, false),
        DType::Q4_1 => (16.0, 15.0, true),
        DType::Q5_0 => (32.0, 16.0, false),
        DType::Q5_1 => (32.0, 31.0, true),
        DType::Q8_0 => (128.0, 127.0, false),
        _ => return None,
    };
    if block.len() < dtype.block_bytes() {
        return None;
    }
    let scale = f64::from(f16_at(block, 0)).abs();
    let half = |x: f64| ulp(x, 10, -24) / 2.0;
    let of_minimum = if from_minimum { half(f64::from(f16_at(block, 2)).abs()) } else { 0.0 };
    let needed = numbers.map_or(f64::INFINITY, |numbers| {
        let least = numbers.iter().fold(f32::INFINITY, |least, x| least.min(*x));
        let most = numbers.iter().fold(f32::NEG_INFINITY, |most, x| most.max(*x));
        let (least, most) = (f64::from(least), f64::from(most));
        let span = if from_minimum { most - least } else { most.max(-least) };
        1.5 * span / codes
    });
    Some(scale.min(needed) + farthest * half(scale) + of_minimum)
}

/// The distance between neighbouring values of a float type around a number; `None` for types that are no floats, or
/// hold every f32.
pub fn float_step(dtype: DType, x: f32) -> Option<f64> {
    // Bits of the mantissa, and the exponent of the smallest subnormal.
    let (mantissa, least) = match dtype {
        DType::F16 => (10, -24),
        DType::BF16 => (7, -133),
        DType::F8_E4M3 => (3, -9),
        DType::F8_E5M2 => (2, -16),
        DType::F8_E4M3FNUZ => (3, -10),
        DType::F8_E5M2FNUZ => (2, -17),
        DType::F4 => (1, -1),
        _ => return None,
    };
    Some(ulp(f64::from(x).abs(), mantissa, least))
}

/// The distance between neighbours at `x`, which is not negative, of floats with so many bits of mantissa.
fn ulp(x: f64, mantissa: i32, least: i32) -> f64 {
    // The power of two that x begins with: its bits without those of its own mantissa.
    let power = f64::from_bits(x.to_bits() & 0x7ff0_0000_0000_0000);
    let least = f64::from(least).exp2();
    if power.is_finite() { (power * f64::from(-mantissa).exp2()).max(least) } else { least }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_the_distance_to_the_next_value() {
        let next = |bits: u16| half::f16::from_bits(bits + 1).to_f64() - half::f16::from_bits(bits).to_f64();
        for bits in [0u16, 1, 0x03ff, 0x0400, 0x3c00, 0x3fff, 0x7bfe] {
            let x = half::f16::from_bits(bits).to_f32();
            assert_eq!(float_step(DType::F16, x), Some(next(bits)), "{bits:#x}");
        }
        assert_eq!(float_step(DType::BF16, -1.5), Some(1.0 / 128.0));
        assert_eq!(float_step(DType::F32, 1.0), None);
    }

    #[test]
    fn a_block_allows_one_step_and_the_rounding_of_its_scale() {
        let mut block = [0u8; 34];
        block[..2].copy_from_slice(&half::f16::from_f32(-0.5).to_le_bytes());
        // f16 at 0.5 has steps of 2^-11; half of one, 128 times.
        assert_eq!(block_step(DType::Q8_0, &block, None), Some(0.5 + 128.0 * 2f64.powi(-12)));
        // Numbers up to 2 need steps of 2 / 127.
        let numbers = [0.5, -2.0, 1.0];
        let expected = 1.5 * 2.0 / 127.0 + 128.0 * 2f64.powi(-12);
        assert_eq!(block_step(DType::Q8_0, &block, Some(&numbers)), Some(expected));
        assert_eq!(block_step(DType::Q8_0, &block[..33], None), None);
        assert_eq!(block_step(DType::Q4_K, &[0; 144], None), None);
    }
}
