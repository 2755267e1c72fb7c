//! Floats of one byte: a table of 256 values each, made at compile time from the widths of the fields.
//!
//! ```text
//!              sign exponent mantissa  bias   largest   not a number        infinite
//! E4M3          1      4        3        7        448   all ones, both signs    –
//! E5M2          1      5        2       15     57,344   as IEEE              as IEEE
//! E4M3FNUZ      1      4        3        8        240   0x80 alone              –       (so no -0)
//! E5M2FNUZ      1      5        2       16     57,344   0x80 alone              –       (so no -0)
//! E8M0          –      8        –      127      2^127   0xff                    –       (no zero either)
//! ```

/// Which codes of a one-byte float are not ordinary numbers.
#[derive(Clone, Copy)]
enum Specials {
    /// The largest exponent is infinity (mantissa 0) and NaN (any other).
    Ieee,
    /// Only the code with exponent and mantissa all ones is NaN; none is infinite.
    AllOnes,
    /// Only the code that would be -0 is NaN; none is infinite.
    NegativeZero,
}

static E4M3: [f32; 256] = table(3, 7, Specials::AllOnes);
static E5M2: [f32; 256] = table(2, 15, Specials::Ieee);
static E4M3FNUZ: [f32; 256] = table(3, 8, Specials::NegativeZero);
static E5M2FNUZ: [f32; 256] = table(2, 16, Specials::NegativeZero);

pub(crate) fn e4m3(raw: &[u8], out: &mut [f32]) {
    look_up(raw, out, &E4M3);
}

pub(crate) fn e5m2(raw: &[u8], out: &mut [f32]) {
    look_up(raw, out, &E5M2);
}

pub(crate) fn e4m3fnuz(raw: &[u8], out: &mut [f32]) {
    look_up(raw, out, &E4M3FNUZ);
}

pub(crate) fn e5m2fnuz(raw: &[u8], out: &mut [f32]) {
    look_up(raw, out, &E5M2FNUZ);
}

/// A power of two: the byte is an f32's exponent field, but for 0, which is the subnormal 2^-127, and 255.
pub(crate) fn e8m0(raw: &[u8], out: &mut [f32]) {
    for (&byte, out) in raw.iter().zip(out) {
        *out = match byte {
            0 => f32::from_bits(0x0040_0000),
            255 => f32::NAN,
            _ => f32::from_bits(u32::from(byte) << 23),
        };
    }
}

fn look_up(raw: &[u8], out: &mut [f32], table: &[f32; 256]) {
    for (&byte, out) in raw.iter().zip(out) {
        *out = table[usize::from(byte)];
    }
}

const fn table(mantissa_bits: u32, bias: i32, specials: Specials) -> [f32; 256] {
    let mut values = [0.0; 256];
    let mut code = 0;
    while code < 256 {
        values[code] = value(code as u32, mantissa_bits, bias, specials);
        code += 1;
    }
    values
}

const fn value(code: u32, mantissa_bits: u32, bias: i32, specials: Specials) -> f32 {
    let one = 1 << mantissa_bits;
    let (exponent, mantissa) = ((code & 0x7f) >> mantissa_bits, code & (one - 1));
    let largest = 0x7f >> mantissa_bits;
    let sign = if code & 0x80 == 0 { 1.0 } else { -1.0 };
    match specials {
        Specials::Ieee if exponent == largest && mantissa == 0 => return sign * f32::INFINITY,
        Specials::Ieee if exponent == largest => return f32::NAN,
        Specials::AllOnes if code & 0x7f == 0x7f => return f32::NAN,
        Specials::NegativeZero if code == 0x80 => return f32::NAN,
        _ => {}
    }
    let unit = 1 - bias - mantissa_bits as i32;
    match exponent {
        0 => sign * mantissa as f32 * power_of_two(unit),
        _ => sign * (one + mantissa) as f32 * power_of_two(unit + exponent as i32 - 1),
    }
}

/// `2^n` for the exponents of normal f32 numbers.
const fn power_of_two(n: i32) -> f32 {
    f32::from_bits(((n + 127) as u32) << 23)
}

#[cfg(test)]
mod tests {
    use super::*;
    use half::f16;

    /// (-1)^s (1 + m / 2^k) 2^(e - bias), in f64 and with real powers: nothing in common with the tables' way.
    fn spelled_out(code: u8, mantissa_bits: i32, bias: i32) -> f64 {
        let parts = 2f64.powi(mantissa_bits);
        let (magnitude, sign) = (f64::from(code & 0x7f), if code > 0x7f { -1.0 } else { 1.0 });
        let (exponent, fraction) = ((magnitude / parts).floor(), (magnitude / parts).fract());
        let scaled = if exponent == 0.0 { fraction * 2.0 } else { (1.0 + fraction) * exponent.exp2() };
        sign * scaled * 2f64.powi(-bias)
    }

    #[test]
    fn ordinary_codes_have_the_value_their_fields_spell() {
        let tables = [(&E4M3, 3, 7), (&E5M2, 2, 15), (&E4M3FNUZ, 3, 8), (&E5M2FNUZ, 2, 16)];
        let mut finite = [0; 4];
        for (finite, (table, mantissa_bits, bias)) in finite.iter_mut().zip(tables) {
            for code in 0..=255u8 {
                let found = table[usize::from(code)];
                if found.is_finite() {
                    *finite += 1;
                    assert_eq!(f64::from(found), spelled_out(code, mantissa_bits, bias), "{code:#x}");
                }
            }
        }
        assert_eq!(finite, [254, 248, 255, 255]);
    }

    #[test]
    fn specials_and_largest_values_are_where_the_formats_put_them() {
        let largest =
            |table: &[f32; 256]| table.iter().copied().filter(|x| x.is_finite()).fold(0.0, f32::max);
        assert_eq!([&E4M3, &E5M2, &E4M3FNUZ, &E5M2FNUZ].map(largest), [448.0, 57_344.0, 240.0, 57_344.0]);
        assert!(E4M3[0x7f].is_nan() && E4M3[0xff].is_nan());
        assert!(E4M3FNUZ[0x80].is_nan() && E5M2FNUZ[0x80].is_nan());
        assert!(E4M3[0x80] == 0.0 && E4M3[0x80].is_sign_negative());
    }

    #[test]
    fn e5m2_is_the_upper_byte_of_an_f16() {
        for code in 0..=255u8 {
            let (found, f16) = (E5M2[usize::from(code)], f16::from_bits(u16::from(code) << 8).to_f32());
            assert!(found.to_bits() == f16.to_bits() || found.is_nan() && f16.is_nan(), "{code:#x}");
        }
    }

    #[test]
    fn e8m0_is_a_power_of_two_for_every_code_but_255() {
        let raw: Vec<u8> = (0..=255).collect();
        let mut out = [0.0; 256];
        e8m0(&raw, &mut out);
        for (code, &found) in out.iter().enumerate().take(255) {
            assert_eq!(f64::from(found), 2f64.powi(code as i32 - 127));
        }
        assert!(out[255].is_nan());
    }
}
