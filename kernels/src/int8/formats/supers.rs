//! Super-blocks of 256 elements: integer scales for parts of them, and a scale of those scales in f16.

use super::{Codes, Format, Scales, at, u16_at, u32_at};
use crate::int8::activations::Grain;
use crate::int8::dot8::{Dot8, Heads, twice};
use scantling_core::quant::codebooks::IQ4;

/// The same byte in all places.
const fn bytes(byte: u8) -> u64 {
    u64::from_ne_bytes([byte; 8])
}

/// Each byte of a word less 32, as a signed byte; they are below 64.
const fn less_32(word: u64) -> u64 {
    ((word | bytes(0x80)) - bytes(32)) ^ bytes(0x80)
}

const fn words(low: u64, high: u64) -> [u8; 16] {
    (low as u128 | (high as u128) << 64).to_le_bytes()
}

/// 128 bytes are four runs of 32; a run's low nibbles are 32 codes, its high nibbles the next 32.
#[inline(always)]
fn nibble_runs<S: Dot8>(s: S, bytes: &[u8; 128]) -> [S::Bytes; 8] {
    eight!(r => {
        let run = s.load(at(bytes, r / 2 * 32));
        if r.is_multiple_of(2) { s.field::<0>(run, 15) } else { s.field::<4>(run, 15) }
    })
}

/// The same of two rows, half by half: low nibbles and high nibbles in turn.
#[inline(always)]
fn nibble_runs_of_two<S: Dot8>(s: S, a: &[u8; 128], b: &[u8; 128]) -> [[S::Bytes; 2]; 8] {
    let halves: [[[S::Bytes; 2]; 2]; 8] = eight!(r => {
        let from = r / 2 * 32;
        [s.nibble_pairs(at(a, from), at(b, from)), s.nibble_pairs(at(a, from + 16), at(b, from + 16))]
    });
    eight!(r => [halves[r][0][r % 2], halves[r][1][r % 2]])
}

/// Bit `k` of 32 bytes is for elements `32k..32k + 32`.
#[inline(always)]
fn bit_planes<S: Dot8>(s: S, all: S::Bytes) -> [S::Bytes; 8] {
    [
        s.field::<0>(all, 1),
        s.field::<1>(all, 1),
        s.field::<2>(all, 1),
        s.field::<3>(all, 1),
        s.field::<4>(all, 1),
        s.field::<5>(all, 1),
        s.field::<6>(all, 1),
        s.field::<7>(all, 1),
    ]
}

/// Two bits of each element: in each half of the 64 bytes, four planes of 32.
#[inline(always)]
fn two_bit_planes<S: Dot8>(s: S, bytes: &[u8; 64]) -> [S::Bytes; 8] {
    let (a, b) = (s.load(at(bytes, 0)), s.load(at(bytes, 32)));
    [
        s.field::<0>(a, 3),
        s.field::<2>(a, 3),
        s.field::<4>(a, 3),
        s.field::<6>(a, 3),
        s.field::<0>(b, 3),
        s.field::<2>(b, 3),
        s.field::<4>(b, 3),
        s.field::<6>(b, 3),
    ]
}

/// `d`, `dm` and the twelve bytes of scales at the head of Q4_K and Q5_K.
#[inline(always)]
fn head<S: Dot8>(s: S, span: &[u8]) -> Scales {
    let [scales, minima] = s.six_bits(at(span, 0));
    Scales::coarse(s, scales, minima, u16_at(span, 0), u16_at(span, 2))
}

pub(crate) struct Q4K;

impl Format for Q4K {
    const BYTES: usize = 144;
    const GRAIN: Grain = Grain::Coarse;
    const CODES: Codes = Codes::Unsigned(15);
    const MINIMA: bool = true;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        nibble_runs(s, at(span, 16))
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        head(s, span)
    }

    const TWOS: bool = true;

    #[inline(always)]
    fn codes_of_two<S: Dot8>(s: S, a: &[u8], b: &[u8]) -> [[S::Bytes; 2]; 8] {
        nibble_runs_of_two(s, at(a, 16), at(b, 16))
    }

    #[inline(always)]
    fn heads<S: Dot8>(s: S, a: &[u8], b: &[u8]) -> Heads<S> {
        s.heads_of_two(at(a, 0), at(b, 0))
    }
}

pub(crate) struct Q5K;

impl Format for Q5K {
    const BYTES: usize = 176;
    const GRAIN: Grain = Grain::Coarse;
    const CODES: Codes = Codes::Unsigned(31);
    const MINIMA: bool = true;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        let (low, high) = (nibble_runs(s, at(span, 48)), bit_planes(s, s.load(at(span, 16))));
        eight!(r => s.join::<4>(low[r], high[r]))
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        head(s, span)
    }

    const TWOS: bool = true;

    #[inline(always)]
    fn codes_of_two<S: Dot8>(s: S, a: &[u8], b: &[u8]) -> [[S::Bytes; 2]; 8] {
        let low = nibble_runs_of_two(s, at(a, 48), at(b, 48));
        let [high_a, high_b] = s.byte_pairs(at(a, 16), at(b, 16));
        let (first, second) = (bit_planes(s, high_a), bit_planes(s, high_b));
        eight!(r => [s.join::<4>(low[r][0], first[r]), s.join::<4>(low[r][1], second[r])])
    }

    #[inline(always)]
    fn heads<S: Dot8>(s: S, a: &[u8], b: &[u8]) -> Heads<S> {
        s.heads_of_two(at(a, 0), at(b, 0))
    }
}

pub(crate) struct Q6K;

impl Format for Q6K {
    const BYTES: usize = 210;
    const GRAIN: Grain = Grain::Coarse;
    const CODES: Codes = Codes::Signed(5);
    const RUN: usize = 16;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        let high = two_bit_planes(s, at(span, 128));
        eight!(r => {
            let low = s.load(at(span, r / 4 * 64 + r % 2 * 32));
            let low = if r % 4 < 2 { s.field::<0>(low, 15) } else { s.field::<4>(low, 15) };
            s.join::<4>(low, high[r])
        })
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        Scales::coarse(s, s.by_halves(at(span, 192)), [0; 16], u16_at(span, 208), 0)
    }
}

pub(crate) struct Q3K;

impl Format for Q3K {
    const BYTES: usize = 110;
    const GRAIN: Grain = Grain::Coarse;
    const CODES: Codes = Codes::Signed(2);
    const RUN: usize = 16;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        let (low, high) = (two_bit_planes(s, at(span, 32)), bit_planes(s, s.load(at(span, 0))));
        eight!(r => s.join::<2>(low[r], high[r]))
    }

    /// Four bits of each scale in nibbles, the low ones of eight bytes first; two in planes of four.
    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        let nibbles = u64::from_le_bytes(*at(span, 96));
        let planes = u64::from(u32_at(span, 104));
        let planes = [planes | planes << 30, planes >> 4 | planes << 26];
        let four = |nibbles: u64, planes: u64| nibbles & bytes(15) | (planes & bytes(3)) << 4;
        let scales = words(less_32(four(nibbles, planes[0])), less_32(four(nibbles >> 4, planes[1])));
        Scales::coarse(s, s.by_halves(&scales), [0; 16], u16_at(span, 108), 0)
    }
}

pub(crate) struct Q2K;

impl Format for Q2K {
    const BYTES: usize = 84;
    const GRAIN: Grain = Grain::Coarse;
    const CODES: Codes = Codes::Unsigned(3);
    const RUN: usize = 16;
    const MINIMA: bool = true;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        two_bit_planes(s, at(span, 16))
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        let (a, b) = (u64::from_le_bytes(*at(span, 0)), u64::from_le_bytes(*at(span, 8)));
        let scales = words(a & bytes(15), b & bytes(15));
        let minima = words(a >> 4 & bytes(15), b >> 4 & bytes(15));
        Scales::coarse(s, s.by_halves(&scales), s.by_halves(&minima), u16_at(span, 80), u16_at(span, 82))
    }
}

pub(crate) struct Iq4Xs;

impl Format for Iq4Xs {
    const BYTES: usize = 136;
    const GRAIN: Grain = Grain::Coarse;
    const CODES: Codes = Codes::Wide;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        eight!(r => s.lookup(&IQ4, s.nibbles(at(span, 8 + 16 * r))))
    }

    /// Six bits each: four in nibbles, two in a word.
    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        let mut low = u64::from(u32_at(span, 4));
        low = (low | low << 16) & 0x0000_ffff_0000_ffff;
        low = (low | low << 8) & 0x00ff_00ff_00ff_00ff;
        low = (low | low << 4) & bytes(15);
        let mut high = u64::from(u16_at(span, 2));
        high = (high | high << 24) & 0x0000_00ff_0000_00ff;
        high = (high | high << 12) & 0x000f_000f_000f_000f;
        high = (high | high << 6) & bytes(3);
        let scales = less_32(low | high << 4);
        Scales::coarse(s, twice(scales), [0; 16], u16_at(span, 0), 0)
    }
}
