//! Activations rounded to 8 bits.
//!
//! The rule, for a block of 32 or 256 numbers of one row (the last one shorter, if the row ends in it):
//!
//! ```text
//! m = max |x|     scale = m / 127     code = the whole number nearest to x · (127 / m), of two the even one
//! ```
//!
//! all in f32, so `x ≈ code · scale` within `m / 254` and a rounding. A block in which something is NaN or infinite
//! gets the scale NaN, so every output that depends on it is NaN. A block whose `127 / m` is too large for f32
//! (m below 2^-121) counts as zeros.

use super::dot8::{Dot8, Task};
use scantling_core::matrix::Rows;

/// Elements in a span: one super-block, or eight blocks of 32.
pub(super) const SPAN: usize = 256;

/// How many activations share a scale.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grain {
    /// 32, for weights in blocks of up to 64.
    Fine,
    /// 256, for super-blocks.
    Coarse,
}

/// 256 activations; zeros past the end of a row.
#[derive(Clone, Copy)]
#[repr(C, align(32))]
pub(super) struct Span {
    /// -127..=127.
    pub codes: [[i8; 32]; 8],
    /// Sums of 16 codes.
    pub sums: [i16; 16],
    /// One for each 32 codes.
    pub scales: [f32; 8],
    /// Scale times the sum of its 32 codes.
    pub weighted: [f32; 8],
}

impl Span {
    const ZERO: Span = Span { codes: [[0; 32]; 8], sums: [0; 16], scales: [0.0; 8], weighted: [0.0; 8] };
}

/// Rounds up to 256 numbers of a row.
#[inline(always)]
pub(super) fn quantise(x: &[f32], grain: Grain) -> Span {
    match x.first_chunk::<SPAN>() {
        Some(whole) => quantise_whole(whole, grain),
        None => {
            let mut padded = [0.0; SPAN];
            padded[..x.len()].copy_from_slice(x);
            quantise_whole(&padded, grain)
        }
    }
}

#[inline(always)]
fn quantise_whole(x: &[f32; SPAN], grain: Grain) -> Span {
    let mut span = Span::ZERO;
    let blocks = x.as_chunks::<32>().0;
    // As bits without sign, floats are in order, infinity and NaN above all numbers.
    let mut greatest = [0u32; 8];
    for (greatest, block) in greatest.iter_mut().zip(blocks) {
        *greatest = block.iter().fold(0, |most, x| most.max(x.to_bits() & 0x7fff_ffff));
    }
    if grain == Grain::Coarse {
        greatest = [greatest.into_iter().fold(0, u32::max); 8];
    }
    for b in 0..8 {
        let (scale, inverse) = scale(f32::from_bits(greatest[b]));
        span.scales[b] = scale;
        if inverse > 0.0 {
            for (code, x) in span.codes[b].iter_mut().zip(&blocks[b]) {
                *code = nearest(x * inverse);
            }
        }
    }
    for (sum, codes) in span.sums.iter_mut().zip(span.codes.as_flattened().as_chunks::<16>().0) {
        *sum = codes.iter().map(|c| i16::from(*c)).sum();
    }
    for b in 0..8 {
        span.weighted[b] = span.scales[b] * f32::from(span.sums[2 * b] + span.sums[2 * b + 1]);
    }
    span
}

/// Scale of a block, and what its numbers are multiplied by; 0 if all its codes are to be 0.
#[inline(always)]
fn scale(greatest: f32) -> (f32, f32) {
    let inverse = 127.0 / greatest;
    if !greatest.is_finite() {
        (f32::NAN, 0.0)
    } else if !inverse.is_finite() {
        (0.0, 0.0)
    } else {
        (greatest / 127.0, inverse)
    }
}

/// Adding 1.5 · 2^23 leaves the whole number, rounded to even, in the lowest bits; `x` is within ±128.
#[inline(always)]
fn nearest(x: f32) -> i8 {
    (x + 12_582_912.0).to_bits() as i8
}

/// Rows of activations, each in spans.
pub(super) struct Few {
    /// Row after row.
    pub spans: Vec<Span>,
    /// Spans of a row.
    pub per_row: usize,
}

impl Few {
    pub fn new<S: Dot8>(s: S, x: Rows<'_>, grain: Grain) -> Few {
        let per_row = x.cols().div_ceil(SPAN);
        let mut few = Few { spans: Vec::with_capacity(x.rows() * per_row), per_row };
        s.run(QuantiseRows { x, grain, spans: &mut few.spans });
        few
    }
}

struct QuantiseRows<'a> {
    x: Rows<'a>,
    grain: Grain,
    spans: &'a mut Vec<Span>,
}

impl Task for QuantiseRows<'_> {
    type Out = ();
    #[inline(always)]
    fn call<S: Dot8>(self, _s: S) {
        for row in self.x.iter() {
            for x in row.chunks(SPAN) {
                self.spans.push(quantise(x, self.grain));
            }
        }
    }
}

/// Rows of activations that a tile has at most.
pub(super) const TALLEST: usize = 6;
/// Rows from which on any number is a sum of numbers from 4 to [`TALLEST`].
pub(super) const MANY: usize = 8;
/// Words of a span for each row of a tile; see [`Tile`].
const WORDS: usize = 64 + 16 + 8 + 8;

/// Rows of activations in tiles of 4 to 6 rows, the numbers of a tile lying together in the order in which they are
/// used.
pub(super) struct Tiles {
    words: Vec<u32>,
    /// First row of each tile, and at last their number.
    starts: Vec<usize>,
    per_row: usize,
}

impl Tiles {
    pub fn new<S: Dot8>(s: S, x: Rows<'_>, grain: Grain) -> Tiles {
        let per_row = x.cols().div_ceil(SPAN);
        let mut tiles =
            Tiles { words: vec![0; x.rows() * per_row * WORDS], starts: heights(x.rows()), per_row };
        s.run(QuantiseTiles { x, grain, tiles: &mut tiles });
        tiles
    }

    /// Rows and spans `from..to` of each tile.
    pub fn iter(&self, from: usize, to: usize) -> impl Iterator<Item = (std::ops::Range<usize>, &[u32])> {
        self.starts.windows(2).map(move |w| {
            let (rows, words) = (w[0]..w[1], WORDS * (w[1] - w[0]));
            let tile = &self.words[w[0] * self.per_row * WORDS..][..self.per_row * words];
            (rows, &tile[from * words..to * words])
        })
    }
}

/// Where tiles start that are as tall as can be, and about equally so.
fn heights(rows: usize) -> Vec<usize> {
    let tiles = rows.div_ceil(TALLEST);
    (0..=tiles).map(|t| t * rows / tiles.max(1)).collect()
}

/// One span of a tile of `R` rows.
pub(super) struct Tile<'a, const R: usize> {
    /// Four codes each, the first in the lowest byte.
    pub quads: &'a [[u32; R]],
    /// For each 16 elements, two 16-bit numbers: minus the sum of the codes in the first two places of its quads,
    /// and in the last two. With [`Grain::Fine`] for each 32 elements, in every second place.
    pub starts: &'a [[u32; R]],
    /// f32: one for each 32 codes.
    pub scales: &'a [[u32; R]],
    /// Fine: f32, scale times sum of each 32 codes. Coarse: two 16-bit sums of 16 codes each.
    pub sums: &'a [[u32; R]],
}

impl<'a, const R: usize> Tile<'a, R> {
    #[inline(always)]
    pub fn spans(words: &'a [u32]) -> impl Iterator<Item = Tile<'a, R>> {
        words.chunks_exact(WORDS * R).map(|span| {
            let (quads, rest) = span.split_at(64 * R);
            let (starts, rest) = rest.split_at(16 * R);
            let (scales, sums) = rest.split_at(8 * R);
            Tile {
                quads: quads.as_chunks().0,
                starts: starts.as_chunks().0,
                scales: scales.as_chunks().0,
                sums: sums.as_chunks().0,
            }
        })
    }
}

struct QuantiseTiles<'a> {
    x: Rows<'a>,
    grain: Grain,
    tiles: &'a mut Tiles,
}

impl Task for QuantiseTiles<'_> {
    type Out = ();
    #[inline(always)]
    fn call<S: Dot8>(self, _s: S) {
        let Tiles { words, starts, per_row } = self.tiles;
        for tile in starts.windows(2) {
            let height = tile[1] - tile[0];
            let words = &mut words[tile[0] * *per_row * WORDS..];
            for r in 0..height {
                let row = self.x.row(tile[0] + r);
                for (x, words) in row.chunks(SPAN).zip(words.chunks_exact_mut(height * WORDS)) {
                    scatter(&quantise(x, self.grain), self.grain, &mut words[r..], height);
                }
            }
        }
    }
}

/// Writes every `height`-th word.
#[inline(always)]
fn scatter(span: &Span, grain: Grain, words: &mut [u32], height: usize) {
    let mut place = words.iter_mut().step_by(height);
    let quads = span.codes.as_flattened().as_chunks::<4>().0;
    for (quad, word) in quads.iter().zip(&mut place) {
        *word = u32::from_le_bytes(quad.map(|c| c as u8));
    }
    let (mut starts, run) = match grain {
        Grain::Coarse => ([0u32; 16], 4),
        Grain::Fine => ([0u32; 16], 8),
    };
    for (i, quads) in quads.chunks_exact(run).enumerate() {
        let (mut first, mut last) = (0i16, 0i16);
        for q in quads {
            first -= i16::from(q[0]) + i16::from(q[1]);
            last -= i16::from(q[2]) + i16::from(q[3]);
        }
        starts[i * run / 4] = pair(first, last);
    }
    for (start, word) in starts.into_iter().zip(&mut place) {
        *word = start;
    }
    for (scale, word) in span.scales.iter().zip(&mut place) {
        *word = scale.to_bits();
    }
    for (i, word) in (0..8).zip(&mut place) {
        *word = match grain {
            Grain::Fine => span.weighted[i].to_bits(),
            Grain::Coarse => pair(span.sums[2 * i], span.sums[2 * i + 1]),
        };
    }
}

fn pair(low: i16, high: i16) -> u32 {
    u32::from(low as u16) | u32::from(high as u16) << 16
}
