//! Super-blocks of 256 elements: integer scales for parts of them, and a scale of those scales in f16.

use super::{Codes, Format, Scales, at, u16_at, u32_at};
use crate::int8::activations::Grain;
use crate::int8::dot8::Dot8;
use scantling_core::quant::codebooks::IQ4;
use std::array::from_fn;

/// Each of eight numbers twice: one for each 16 elements of 32.
#[inline(always)]
fn doubled<T: Copy>(eight: [T; 8]) -> [T; 16] {
    from_fn(|i| eight[i / 2])
}

/// 128 bytes are four runs of 32; a run's low nibbles are 32 codes, its high nibbles the next 32.
#[inline(always)]
fn nibble_runs<S: Dot8>(s: S, bytes: &[u8; 128]) -> [S::Bytes; 8] {
    eight!(r => {
        let run = s.load(at(bytes, r / 2 * 32));
        if r % 2 == 0 { s.field::<0>(run, 15) } else { s.field::<4>(run, 15) }
    })
}

/// Bit `k` of 32 bytes is for elements `32k..32k + 32`.
#[inline(always)]
fn bit_planes<S: Dot8>(s: S, bytes: &[u8; 32]) -> [S::Bytes; 8] {
    let all = s.load(bytes);
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

/// The eight scales and eight minima, 6 bits each, of Q4_K and Q5_K, four at a time.
#[inline(always)]
fn six_bits(bytes: &[u8; 12]) -> ([u8; 8], [u8; 8]) {
    let [a, b, c] = from_fn(|i| u32_at(bytes, 4 * i));
    let low = |word: u32| word & 0x3f3f_3f3f;
    let high = |word: u32, nibbles: u32| (nibbles & 0x0f0f_0f0f) | (word >> 6 & 0x0303_0303) << 4;
    let join = |low: u32, high: u32| (u64::from(low) | u64::from(high) << 32).to_le_bytes();
    (join(low(a), high(a, c)), join(low(b), high(b, c >> 4)))
}

/// `d`, `dm` and the twelve bytes of scales at the head of Q4_K and Q5_K.
#[inline(always)]
fn head<S: Dot8>(s: S, span: &[u8]) -> Scales {
    let (scales, minima) = six_bits(at(span, 4));
    let scales = doubled(scales).map(|x| x as i8);
    Scales::coarse(s, scales, doubled(minima), u16_at(span, 0), u16_at(span, 2))
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
}

pub(crate) struct Q5K;

impl Format for Q5K {
    const BYTES: usize = 176;
    const GRAIN: Grain = Grain::Coarse;
    const CODES: Codes = Codes::Unsigned(31);
    const MINIMA: bool = true;

    #[inline(always)]
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8] {
        let (low, high) = (nibble_runs(s, at(span, 48)), bit_planes(s, at(span, 16)));
        eight!(r => s.join::<4>(low[r], high[r]))
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        head(s, span)
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
            s.offset(s.join::<4>(low, high[r]), -32)
        })
    }

    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        let scales = at::<16>(span, 192).map(|x| x as i8);
        Scales::coarse(s, scales, [0; 16], u16_at(span, 208), 0)
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
        let (low, high) = (two_bit_planes(s, at(span, 32)), bit_planes(s, at(span, 0)));
        eight!(r => s.offset(s.join::<2>(low[r], high[r]), -4))
    }

    /// Four bits of each scale in nibbles, the low ones of eight bytes first; two in planes of four.
    #[inline(always)]
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales {
        let [a, b, c] = from_fn(|i| u32_at(span, 96 + 4 * i));
        let four = |low: u32, planes: u32| (low & 0x0f0f_0f0f) | (planes & 0x0303_0303) << 4;
        let words = [four(a, c), four(b, c >> 2), four(a >> 4, c >> 4), four(b >> 4, c >> 6)];
        let scales = from_fn(|j| (words[j / 4] >> (8 * (j % 4))) as u8 as i8 - 32);
        Scales::coarse(s, scales, [0; 16], u16_at(span, 108), 0)
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
        let both = at::<16>(span, 0);
        let (scales, minima) = (both.map(|x| (x & 15) as i8), both.map(|x| x >> 4));
        Scales::coarse(s, scales, minima, u16_at(span, 80), u16_at(span, 82))
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
        let (high, low) = (u16_at(span, 2), u32_at(span, 4));
        let scale = |r: usize| (low >> (4 * r) & 15) as i8 | ((high >> (2 * r) & 3) << 4) as i8;
        Scales::coarse(s, doubled(from_fn(|r| scale(r) - 32)), [0; 16], u16_at(span, 0), 0)
    }
}
