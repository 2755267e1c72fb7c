//! How codes and scales are taken out of stored blocks: once for all instructions, in vectors of 32 codes.
//!
//! The layouts are pictured in core's `quant`, beside the loops that define them.

/// An array of eight, written out: a closure would be a function of its own, without the instructions that
/// [`Dot8::run`] has switched on.
macro_rules! eight {
    ($i:ident => $value:expr) => {
        [
            eight!($i = 0, $value),
            eight!($i = 1, $value),
            eight!($i = 2, $value),
            eight!($i = 3, $value),
            eight!($i = 4, $value),
            eight!($i = 5, $value),
            eight!($i = 6, $value),
            eight!($i = 7, $value),
        ]
    };
    ($i:ident = $n:literal, $value:expr) => {{
        let $i: usize = $n;
        $value
    }};
}

mod blocks;
mod supers;

pub(super) use blocks::{Iq4Nl, Mxfp4, Q4_0, Q4_1, Q5_0, Q5_1, Q8_0};
pub(super) use supers::{Iq4Xs, Q2K, Q3K, Q4K, Q5K, Q6K};

use super::activations::Grain;
use super::dot8::{Dot8, Heads};

/// An element type whose codes are small integers. Everything comes in spans of 256 elements: a super-block, or
/// eight blocks of 32.
pub(super) trait Format: 'static {
    /// Bytes of a span.
    const BYTES: usize;
    /// The activations that go with it. With fine grain, scales and minima are f32, one for each 32 elements; with
    /// coarse grain, there is one f32 for all, and integers for each 16 elements.
    const GRAIN: Grain;
    /// Range of the codes.
    const CODES: Codes;
    /// Elements that share a scale: 16 or 32.
    const RUN: usize = 32;
    /// Whether something is added to what the codes make.
    const MINIMA: bool = false;

    /// The codes, in the order of the elements; with fine grain, runs `i` and `i + 4` together, in the order of
    /// [`Dot8::PAIRED`].
    fn codes<S: Dot8>(s: S, span: &[u8]) -> [S::Bytes; 8];
    /// What they are multiplied by.
    fn scales<S: Dot8>(s: S, span: &[u8]) -> Scales;

    /// Whether two rows can be taken together, where [`Dot8::PAIRED`]: then the functions below are there, and they are
    /// the way for few rows of activations.
    const TWOS: bool = false;
    /// Of each run, the first halves of both rows, and the second halves.
    #[inline(always)]
    fn codes_of_two<S: Dot8>(_s: S, _a: &[u8], _b: &[u8]) -> [[S::Bytes; 2]; 8] {
        unreachable!("only with TWOS")
    }
    /// What they are multiplied by.
    #[inline(always)]
    fn heads<S: Dot8>(_s: S, _a: &[u8], _b: &[u8]) -> Heads<S> {
        unreachable!("only with TWOS")
    }
}

/// Range of codes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Codes {
    /// 0 up to this, at most 31.
    Unsigned(u8),
    /// -2^n to 2^n - 1, n being at most 5. [`Format::codes`] gives them raised by 2^n, as most are stored.
    Signed(u32),
    /// -128..=127.
    Wide,
}

impl Codes {
    /// How many quads of codes times activations are sure to fit in the 16 bits of [`Dot8::Runs`]: each adds two
    /// products, of codes from whose range the offset has been taken off again.
    pub const fn quads_in_16_bits(self) -> usize {
        let largest = match self {
            Codes::Unsigned(top) => top as usize,
            Codes::Signed(bits) => 1 << bits,
            Codes::Wide => 128,
        };
        32767 / (2 * 127 * largest)
    }
}

/// Scales and minima of a span. An element is `code · scale + minimum`.
pub(super) struct Scales {
    /// Coarse grain: integer scale of each 16 elements, a signed byte. The first halves of all runs of 32 come first,
    /// then their second halves.
    pub scales: [u8; 16],
    /// Coarse grain: integer minimum of each 16 elements, in the same order.
    pub minima: [u8; 16],
    /// Fine grain: scale of each 32 elements. Coarse: what all integer scales are multiplied by, in the first place.
    pub d: [f32; 8],
    /// The same for minima.
    pub m: [f32; 8],
}

impl Scales {
    #[inline(always)]
    fn fine(d: [f32; 8], m: [f32; 8]) -> Scales {
        Scales { scales: [1; 16], minima: [0; 16], d, m }
    }

    #[inline(always)]
    fn coarse<S: Dot8>(s: S, scales: [u8; 16], minima: [u8; 16], d: u16, m: u16) -> Scales {
        let [d, m, ..] = s.halves([d, m, 0, 0, 0, 0, 0, 0]);
        Scales { scales, minima, d: [d; 8], m: [-m; 8] }
    }
}

/// `N` bytes from `from` on.
#[inline(always)]
fn at<const N: usize>(bytes: &[u8], from: usize) -> &[u8; N] {
    bytes[from..].first_chunk().expect("a span is as long as its format says")
}

#[inline(always)]
fn u16_at(bytes: &[u8], from: usize) -> u16 {
    u16::from_le_bytes(*at(bytes, from))
}

#[inline(always)]
fn u32_at(bytes: &[u8], from: usize) -> u32 {
    u32::from_le_bytes(*at(bytes, from))
}
