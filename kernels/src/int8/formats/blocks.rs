//! Blocks of 32 elements: a scale in f16, perhaps a minimum, and codes.

use super::{Codes, Format, Scales, at, u16_at, u32_at};
use crate::int8::activations::Grain;
use crate::int8::dot8::Dot8;
use scantling_core::quant::codebooks::{E2M1_DOUBLED, IQ4};

/// f16 at the same place of each of eight blocks.
#[inline(always)]
fn halves<S: Dot8>(s: S, span: &[u8], block: usize, from: usize) -> [f32; 8] {
    s.halves(eight!(b => u16_at(span, b * block + from)))
}

pub(crate) struct Q8_0;

impl Format for Q8_0 {
    const BYTES: usize = 8 * 34;
    const GRAIN: Grain = Grain::Fine;
    const CODES: Codes = Codes::Wide;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        eight!(b => s.load(at(span, 34 * b + 2)))
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        Scales::fine(halves(s, span, 34, 0), [0.0; 8])
    }
}

pub(crate) struct Q4_0;

impl Format for Q4_0 {
    const BYTES: usize = 8 * 18;
    const GRAIN: Grain = Grain::Fine;
    const CODES: Codes = Codes::Signed(3);

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        eight!(b => s.offset(s.nibbles(at(span, 18 * b + 2)), -8))
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        Scales::fine(halves(s, span, 18, 0), [0.0; 8])
    }
}

pub(crate) struct Q4_1;

impl Format for Q4_1 {
    const BYTES: usize = 8 * 20;
    const GRAIN: Grain = Grain::Fine;
    const CODES: Codes = Codes::Unsigned(15);
    const MINIMA: bool = true;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        eight!(b => s.nibbles(at(span, 20 * b + 4)))
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        Scales::fine(halves(s, span, 20, 0), halves(s, span, 20, 2))
    }
}

/// The nibbles of a block with their fifth bits, which stand in front of them.
#[inline(always)]
fn five_bits<S: Dot8>(s: S, span: &[u8], from: usize) -> S::Bytes {
    s.join::<4>(s.nibbles(at(span, from + 4)), s.bits(u32_at(span, from)))
}

pub(crate) struct Q5_0;

impl Format for Q5_0 {
    const BYTES: usize = 8 * 22;
    const GRAIN: Grain = Grain::Fine;
    const CODES: Codes = Codes::Signed(4);

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        eight!(b => s.offset(five_bits(s, span, 22 * b + 2), -16))
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        Scales::fine(halves(s, span, 22, 0), [0.0; 8])
    }
}

pub(crate) struct Q5_1;

impl Format for Q5_1 {
    const BYTES: usize = 8 * 24;
    const GRAIN: Grain = Grain::Fine;
    const CODES: Codes = Codes::Unsigned(31);
    const MINIMA: bool = true;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        eight!(b => five_bits(s, span, 24 * b + 4))
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        Scales::fine(halves(s, span, 24, 0), halves(s, span, 24, 2))
    }
}

pub(crate) struct Iq4Nl;

impl Format for Iq4Nl {
    const BYTES: usize = 8 * 18;
    const GRAIN: Grain = Grain::Fine;
    const CODES: Codes = Codes::Wide;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        eight!(b => s.lookup(&IQ4, s.nibbles(at(span, 18 * b + 2))))
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        Scales::fine(halves(s, span, 18, 0), [0.0; 8])
    }
}

pub(crate) struct Mxfp4;

impl Format for Mxfp4 {
    const BYTES: usize = 8 * 17;
    const GRAIN: Grain = Grain::Fine;
    const CODES: Codes = Codes::Signed(4);

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        eight!(b => s.lookup(&E2M1_DOUBLED, s.nibbles(at(span, 17 * b + 1))))
    }

    /// 2^(e - 128), the two smallest being subnormal.
    #[inline(always)]
    fn scales<S: Dot8>(_s: S, span: &[u8]) -> Scales {
        let half = |e: u32| if e < 2 { 0x0020_0000 << e } else { (e - 1) << 23 };
        Scales::fine(eight!(b => f32::from_bits(half(u32::from(span[17 * b])))), [0.0; 8])
    }
}
