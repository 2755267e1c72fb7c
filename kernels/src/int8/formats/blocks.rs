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

/// The nibbles of eight blocks, in pairs.
#[inline(always)]
fn nibbles<S: Dot8>(s: S, span: &[u8], block: usize, from: usize) -> [S::Bytes; 8] {
    let [a, e] = s.nibble_pairs(at(span, from), at(span, from + 4 * block));
    let [b, f] = s.nibble_pairs(at(span, from + block), at(span, from + 5 * block));
    let [c, g] = s.nibble_pairs(at(span, from + 2 * block), at(span, from + 6 * block));
    let [d, h] = s.nibble_pairs(at(span, from + 3 * block), at(span, from + 7 * block));
    [a, b, c, d, e, f, g, h]
}

/// The nibbles of eight blocks with their fifth bits, which stand in front of them.
#[inline(always)]
fn five_bits<S: Dot8>(s: S, span: &[u8], block: usize, from: usize) -> [S::Bytes; 8] {
    let low = nibbles(s, span, block, from + 4);
    eight!(i => {
        let a = u32_at(span, from + i % 4 * block);
        let b = u32_at(span, from + (i % 4 + 4) * block);
        let bits = if !S::PAIRED {
            [a, b][i / 4]
        } else if i < 4 { a & 0xffff | b << 16 } else { a >> 16 | b & 0xffff_0000 };
        s.join::<4>(low[i], s.bits(bits))
    })
}

#[inline(always)]
fn lookup<S: Dot8>(s: S, table: &[i8; 16], codes: [S::Bytes; 8]) -> [S::Bytes; 8] {
    eight!(i => s.lookup(table, codes[i]))
}

pub(crate) struct Q8_0;

impl Format for Q8_0 {
    const BYTES: usize = 8 * 34;
    const GRAIN: Grain = Grain::Fine;
    const CODES: Codes = Codes::Wide;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        let [a, e] = s.byte_pairs(at(span, 2), at(span, 4 * 34 + 2));
        let [b, f] = s.byte_pairs(at(span, 34 + 2), at(span, 5 * 34 + 2));
        let [c, g] = s.byte_pairs(at(span, 2 * 34 + 2), at(span, 6 * 34 + 2));
        let [d, h] = s.byte_pairs(at(span, 3 * 34 + 2), at(span, 7 * 34 + 2));
        [a, b, c, d, e, f, g, h]
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
        nibbles(s, span, 18, 2)
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
        nibbles(s, span, 20, 4)
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        Scales::fine(halves(s, span, 20, 0), halves(s, span, 20, 2))
    }
}

pub(crate) struct Q5_0;

impl Format for Q5_0 {
    const BYTES: usize = 8 * 22;
    const GRAIN: Grain = Grain::Fine;
    const CODES: Codes = Codes::Signed(4);

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        five_bits(s, span, 22, 2)
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
        five_bits(s, span, 24, 4)
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
        lookup(s, &IQ4, nibbles(s, span, 18, 2))
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        Scales::fine(halves(s, span, 18, 0), [0.0; 8])
    }
}

/// Twice the numbers of E2M1, raised by the 16 that [`Codes::Signed`] is about.
static E2M1_RAISED: [i8; 16] = {
    let mut raised = E2M1_DOUBLED;
    let mut i = 0;
    while i < 16 {
        raised[i] += 16;
        i += 1;
    }
    raised
};

pub(crate) struct Mxfp4;

impl Format for Mxfp4 {
    const BYTES: usize = 8 * 17;
    const GRAIN: Grain = Grain::Fine;
    const CODES: Codes = Codes::Signed(4);

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        lookup(s, &E2M1_RAISED, nibbles(s, span, 17, 1))
    }

    /// 2^(e - 128), the two smallest being subnormal.
    #[inline(always)]
    fn scales<S: Dot8>(_s: S, span: &[u8]) -> Scales {
        let half = |e: u32| if e < 2 { 0x0020_0000 << e } else { (e - 1) << 23 };
        Scales::fine(eight!(b => f32::from_bits(half(u32::from(span[17 * b])))), [0.0; 8])
    }
}
