//! Limits of numbers by their bits, which one pass of integer instructions tells.

use super::moments::LANES;
use crate::dtype::DType;

pub(super) const MAGNITUDE: u32 = 0x7fff_ffff;
pub(super) const HALF_MAGNITUDE: u16 = 0x7fff;

/// Limits of a run, by the bits of its numbers: those of magnitudes are ordered as magnitudes are, so that the largest
/// signed one is the largest number, if it is positive, and the largest unsigned one the smallest, if it is negative.
pub(super) struct Extent {
    top: i32,
    bottom: u32,
    /// Bits of the smallest magnitude.
    pub low: u32,
}

impl Extent {
    #[inline(always)]
    pub fn of(values: &[f32]) -> Extent {
        let (mut top, mut bottom, mut low) = ([i32::MIN; LANES], [0; LANES], [MAGNITUDE; LANES]);
        let (whole, rest) = values.as_chunks::<LANES>();
        for chunk in whole {
            for i in 0..LANES {
                let bits = chunk[i].to_bits();
                top[i] = top[i].max(bits as i32);
                bottom[i] = bottom[i].max(bits);
                low[i] = low[i].min(bits & MAGNITUDE);
            }
        }
        let mut extent = Extent { top: i32::MIN, bottom: 0, low: MAGNITUDE };
        for i in 0..LANES {
            extent.take(top[i], bottom[i], low[i]);
        }
        for x in rest {
            let bits = x.to_bits();
            extent.take(bits as i32, bits, bits & MAGNITUDE);
        }
        extent
    }

    #[inline(always)]
    fn take(&mut self, top: i32, bottom: u32, low: u32) {
        self.top = self.top.max(top);
        self.bottom = self.bottom.max(bottom);
        self.low = self.low.min(low);
    }

    /// Bits of the largest magnitude.
    pub fn high(&self) -> u32 {
        let positive = u32::try_from(self.top).unwrap_or(0);
        if self.bottom > MAGNITUDE { positive.max(self.bottom & MAGNITUDE) } else { positive }
    }

    pub fn min(&self) -> f32 {
        f32::from_bits(if self.bottom > MAGNITUDE { self.bottom } else { self.low })
    }

    pub fn max(&self) -> f32 {
        u32::try_from(self.top).map_or(-f32::from_bits(self.low), f32::from_bits)
    }
}

/// Limits of 16-bit floats, by their bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HalfExtent {
    /// The largest, if it is positive.
    pub top: i16,
    /// The smallest, if it is negative.
    pub bottom: u16,
    /// The smallest magnitude.
    pub low: u16,
}

impl HalfExtent {
    /// Of none yet.
    pub const NONE: HalfExtent = HalfExtent { top: i16::MIN, bottom: 0, low: HALF_MAGNITUDE };

    /// Of numbers as they are stored.
    #[inline(always)]
    pub fn of(words: &[[u8; 2]]) -> HalfExtent {
        let mut extent = HalfExtent::NONE;
        for word in words {
            let bits = u16::from_le_bytes(*word);
            extent.take(bits as i16, bits, bits & HALF_MAGNITUDE);
        }
        extent
    }

    /// With the limits of others.
    #[inline(always)]
    pub fn take(&mut self, top: i16, bottom: u16, low: u16) {
        self.top = self.top.max(top);
        self.bottom = self.bottom.max(bottom);
        self.low = self.low.min(low);
    }

    /// The same as f32: widening keeps the order of bits.
    #[inline(always)]
    pub(super) fn widened(&self, dtype: DType) -> Extent {
        let wide = |bits: u16| match dtype {
            DType::F16 => half::f16::from_bits(bits).to_f32().to_bits(),
            _ => u32::from(bits) << 16,
        };
        let top = u16::try_from(self.top).map_or(i32::MIN, |top| wide(top) as i32);
        Extent { top, bottom: wide(self.bottom), low: wide(self.low) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn limits_are_told_by_bits(bits in prop::collection::vec(any::<u32>(), 1..70), signs in 0..3u32) {
            let sign = |b: u32| match signs { 0 => b, 1 => b & MAGNITUDE, _ => b | !MAGNITUDE };
            let values: Vec<f32> = bits.iter().map(|b| f32::from_bits(sign(*b))).filter(|x| x.is_finite()).collect();
            prop_assume!(!values.is_empty());
            let extent = Extent::of(&values);
            prop_assert_eq!(extent.min(), values.iter().copied().fold(f32::INFINITY, f32::min));
            prop_assert_eq!(extent.max(), values.iter().copied().fold(f32::NEG_INFINITY, f32::max));
            let largest = values.iter().fold(0.0f32, |a, x| a.max(x.abs()));
            prop_assert_eq!(f32::from_bits(extent.high()), largest);
        }

        #[test]
        fn limits_of_halves_are_those_of_the_same_as_f32(bits in prop::collection::vec(any::<u16>(), 1..70)) {
            let words: Vec<[u8; 2]> = bits.iter().map(|bits| bits.to_le_bytes()).collect();
            let f16: Vec<f32> = bits.iter().map(|bits| half::f16::from_bits(*bits).to_f32()).collect();
            let bf16: Vec<f32> = bits.iter().map(|bits| half::bf16::from_bits(*bits).to_f32()).collect();
            for (dtype, wide) in [(DType::F16, f16), (DType::BF16, bf16)] {
                let (found, expected) = (HalfExtent::of(&words).widened(dtype), Extent::of(&wide));
                // A NaN may have been made a quiet one.
                let infinite = f32::INFINITY.to_bits();
                prop_assert_eq!(found.high() >= infinite, expected.high() >= infinite);
                if expected.high() < infinite {
                    prop_assert_eq!(found.low, expected.low);
                    prop_assert_eq!((found.min(), found.max()), (expected.min(), expected.max()));
                }
            }
        }
    }
}
