//! Floats of one byte, by arithmetic on their bits: unlike a table, it can be done to many at once. Their fields are
//! drawn in core's `quant::fp8`.

/// One type of them.
pub(super) struct Float8 {
    mantissa: u32,
    bias: u32,
    /// The code from which on all are infinite or NaN as IEEE has them; 0x80 if there are none.
    special: u32,
    /// The one byte that is NaN beside those, and which of its bits are looked at.
    nan: (u8, u8),
}

pub(super) const E4M3: Float8 = Float8 { mantissa: 3, bias: 7, special: 0x80, nan: (0x7f, 0x7f) };
pub(super) const E5M2: Float8 = Float8 { mantissa: 2, bias: 15, special: 0x7c, nan: (0x7f, 0x7f) };
pub(super) const E4M3FNUZ: Float8 = Float8 { mantissa: 3, bias: 8, special: 0x80, nan: (0x80, 0xff) };
pub(super) const E5M2FNUZ: Float8 = Float8 { mantissa: 2, bias: 16, special: 0x80, nan: (0x80, 0xff) };

impl Float8 {
    /// Widens bytes.
    #[inline(always)]
    pub(super) fn widen(self, raw: &[u8], out: &mut [f32]) {
        for (byte, out) in raw.iter().zip(out) {
            *out = self.value(*byte);
        }
    }

    /// Every case is computed and one of them chosen, so that nothing depends on a branch.
    #[inline(always)]
    fn value(&self, byte: u8) -> f32 {
        let code = u32::from(byte & 0x7f);
        // The same fields as those of an f32, but for the bias of the exponent.
        let fields = code << (23 - self.mantissa);
        let normal = fields + ((127 - self.bias) << 23);
        // Without an implied one: what exponent 1 makes of the mantissa, less that one.
        let one = (128 - self.bias) << 23;
        let subnormal = f32::from_bits(one + fields) - f32::from_bits(one);
        let finite = if code >> self.mantissa == 0 { subnormal.to_bits() } else { normal };
        let magnitude = if code >= self.special { fields | 0x7f80_0000 } else { finite };
        let signed = magnitude | u32::from(byte & 0x80) << 24;
        let (nan, looked_at) = self.nan;
        f32::from_bits(if byte & looked_at == nan { f32::NAN.to_bits() } else { signed })
    }
}
