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
use std::cell::Cell;

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
    /// What [`Dot8::add_raised_pair`] wants beside them. With [`Dot8::PAIRED`], the first four are for pairs.
    pub raised: [[i16; 16]; 8],
    /// For each 16 codes, the sum of those in the first two places of four, and of those in the last two.
    pairs: [[i16; 2]; 16],
    /// Sums of 16 codes: those of the first halves of all runs of 32, then those of the second halves.
    pub sums: [i16; 16],
    /// Sums of 32 codes.
    pub run_sums: [i16; 8],
    /// One for each 32 codes.
    pub scales: [f32; 8],
    /// Scale times the sum of its 32 codes.
    pub weighted: [f32; 8],
}

impl Span {
    const ZERO: Span = Span {
        codes: [[0; 32]; 8],
        raised: [[0; 16]; 8],
        pairs: [[0; 2]; 16],
        sums: [0; 16],
        run_sums: [0; 8],
        scales: [0.0; 8],
        weighted: [0.0; 8],
    };
}

/// Rounds up to 256 numbers of a row.
#[inline(always)]
fn quantise<S: Dot8>(s: S, x: &[f32], grain: Grain) -> Span {
    match x.first_chunk::<SPAN>() {
        Some(whole) => quantise_whole(s, whole, grain),
        None => {
            let mut padded = [0.0; SPAN];
            padded[..x.len()].copy_from_slice(x);
            quantise_whole(s, &padded, grain)
        }
    }
}

#[inline(always)]
fn quantise_whole<S: Dot8>(s: S, x: &[f32; SPAN], grain: Grain) -> Span {
    let mut span = Span::ZERO;
    let blocks = x.as_chunks::<32>().0;
    let mut greatest = [0; 8];
    for (greatest, block) in greatest.iter_mut().zip(blocks) {
        *greatest = s.greatest(block);
    }
    if grain == Grain::Coarse {
        greatest = [greatest.into_iter().fold(0, u32::max); 8];
    }
    for b in 0..8 {
        let (scale, inverse) = scale(f32::from_bits(greatest[b]));
        span.scales[b] = scale;
        if inverse > 0.0 {
            span.codes[b] = s.rounded(&blocks[b], inverse);
        }
    }
    for b in 0..8 {
        [span.pairs[2 * b], span.pairs[2 * b + 1]] = s.pair_sums(&span.codes[b]);
    }
    for j in 0..16 {
        span.sums[j / 2 + j % 2 * 8] = span.pairs[j][0] + span.pairs[j][1];
    }
    for b in 0..8 {
        span.run_sums[b] = span.sums[b] + span.sums[b + 8];
        span.weighted[b] = span.scales[b] * f32::from(span.run_sums[b]);
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

/// The second half of a run of 32 changes places with the first half of the fourth after it: from the order of the
/// elements to that of [`Dot8::PAIRED`], and back.
#[inline(always)]
pub(super) fn swap_halves<T>(codes: &mut [T; SPAN]) {
    let halves = codes.as_chunks_mut::<16>().0;
    for pair in 0..4 {
        halves.swap(2 * pair + 1, 2 * pair + 8);
    }
}

/// What a format wants of few rows of activations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    pub grain: Grain,
    /// Whether codes are in the order of [`Dot8::PAIRED`].
    pub paired: bool,
    /// What the weights' codes are raised by; 0 with coarse grain, where sums are enough.
    pub raised: i8,
}

/// Few rows of activations, in tiles of 8 and up to 4 rows.
pub(super) struct Few {
    pub layout: Layout,
    /// Tile after tile; of a tile, the first spans of all rows, then the second ones.
    spans: Vec<Span>,
    /// Rows in all.
    rows: usize,
    /// Spans of a row.
    per_row: usize,
}

impl Few {
    pub fn new<S: Dot8>(s: S, x: Rows<'_>, layout: Layout) -> Few {
        let per_row = x.cols().div_ceil(SPAN);
        let mut few =
            Few { layout, spans: Vec::with_capacity(spans(x.rows(), x.cols())), rows: x.rows(), per_row };
        s.run(QuantiseRows { x, few: &mut few });
        few
    }

    /// First row, number of rows and spans of each tile.
    #[inline]
    pub fn tiles(&self) -> impl Iterator<Item = (usize, usize, &[Span])> {
        let mut first = 0;
        std::iter::from_fn(move || {
            let (rows, start) = (height(self.rows - first), first);
            first += rows;
            (rows > 0).then(|| (start, rows, &self.spans[start * self.per_row..first * self.per_row]))
        })
    }
}

/// Spans of so many rows and columns.
fn spans(rows: usize, cols: usize) -> usize {
    rows * cols.div_ceil(SPAN)
}

/// Bytes that so many rows and columns take, rounded: as spans where they are few, or as words of tiles.
pub(super) fn takes(rows: usize, cols: usize) -> usize {
    // Fewer than many rows take what few of them do, and more may take less.
    let few = spans(rows.min(MANY - 1), cols) * size_of::<Span>();
    let many = if rows < MANY { 0 } else { spans(rows, cols) * WORDS * size_of::<u32>() };
    few.max(many)
}

/// Rows of the next tile, of so many that are left.
#[inline]
fn height(rows: usize) -> usize {
    match rows {
        5 | 6 => 3,
        8.. => 8,
        rows => rows.min(4),
    }
}

struct QuantiseRows<'a> {
    x: Rows<'a>,
    few: &'a mut Few,
}

impl Task for QuantiseRows<'_> {
    type Out = ();
    #[inline(always)]
    fn call<S: Dot8>(self, s: S) {
        let Few { layout, spans, rows, per_row } = self.few;
        let mut first = 0;
        while first < *rows {
            let height = height(*rows - first);
            for i in 0..*per_row {
                for row in first..first + height {
                    let x = &self.x.row(row)[i * SPAN..];
                    spans.push(quantise_for(s, &x[..x.len().min(SPAN)], *layout));
                }
            }
            first += height;
        }
    }
}

#[inline(always)]
fn quantise_for<S: Dot8>(s: S, x: &[f32], layout: Layout) -> Span {
    let mut span = quantise(s, x, layout.grain);
    if layout.paired {
        swap_halves(span.codes.as_flattened_mut().first_chunk_mut().expect("eight runs of 32"));
    }
    if layout.raised != 0 {
        for (raised, codes) in span.raised.iter_mut().zip(&span.codes) {
            *raised = s.raised(codes, layout.raised);
        }
        if layout.paired {
            let (first, last) = span.raised.split_at_mut(4);
            for (both, second) in first.iter_mut().zip(last) {
                for (both, second) in both.iter_mut().zip(second) {
                    *both += *second;
                }
            }
        }
    }
    span
}

/// Rows of activations that a tile has at most.
pub(super) const TALLEST: usize = 6;
/// Rows from which on tiles are made. With fewer, weights are read faster one row after the other than turned into
/// panels; and any number from here on is a sum of numbers from 4 to [`TALLEST`].
pub(super) const MANY: usize = 24;
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
        let mut words = SPARE.take();
        words.resize(spans(x.rows(), x.cols()) * WORDS, 0);
        let mut tiles = Tiles { words, starts: heights(x.rows()), per_row };
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

thread_local! {
    /// The words of the last tiles: memory that was never used before costs more than to fill it.
    static SPARE: Cell<Vec<u32>> = const { Cell::new(Vec::new()) };
}

impl Drop for Tiles {
    fn drop(&mut self) {
        SPARE.set(std::mem::take(&mut self.words));
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
    fn call<S: Dot8>(self, s: S) {
        let Tiles { words, starts, per_row } = self.tiles;
        for tile in starts.windows(2) {
            let height = tile[1] - tile[0];
            let words = &mut words[tile[0] * *per_row * WORDS..][..height * *per_row * WORDS];
            let rows = self.x.rows_at(tile[0]..tile[1]);
            match height {
                4 => fill::<S, 4>(s, rows, self.grain, words),
                5 => fill::<S, 5>(s, rows, self.grain, words),
                TALLEST => fill::<S, TALLEST>(s, rows, self.grain, words),
                other => unreachable!("tiles have 4 to {TALLEST} rows, not {other}"),
            }
        }
    }
}

/// The words of a tile of `R` rows; see [`Tile`].
#[inline(always)]
fn fill<S: Dot8, const R: usize>(s: S, x: Rows<'_>, grain: Grain, words: &mut [u32]) {
    let mut spans = [Span::ZERO; R];
    for (i, words) in words.chunks_exact_mut(WORDS * R).enumerate() {
        for (r, span) in spans.iter_mut().enumerate() {
            let x = &x.row(r)[i * SPAN..];
            *span = quantise(s, &x[..x.len().min(SPAN)], grain);
        }
        let words = words.as_chunks_mut::<R>().0;
        for (r, span) in spans.iter().enumerate() {
            let quads = span.codes.as_flattened().as_chunks::<4>().0;
            for g in 0..64 {
                let [a, b, c, d] = quads[g];
                words[g][r] = u32::from_le_bytes([a as u8, b as u8, c as u8, d as u8]);
            }
            for j in 0..16 {
                words[64 + j][r] = start(span, grain, j);
            }
            for b in 0..8 {
                words[80 + b][r] = span.scales[b].to_bits();
                words[88 + b][r] = match grain {
                    Grain::Fine => span.weighted[b].to_bits(),
                    Grain::Coarse => pair(span.sums[b], span.sums[b + 8]),
                };
            }
        }
    }
}

#[inline(always)]
fn start(span: &Span, grain: Grain, j: usize) -> u32 {
    match (grain, j % 2) {
        (Grain::Coarse, _) => pair(-span.pairs[j][0], -span.pairs[j][1]),
        (Grain::Fine, 0) => {
            let [a, b] = [span.pairs[j], span.pairs[j + 1]];
            pair(-a[0] - b[0], -a[1] - b[1])
        }
        (Grain::Fine, _) => 0,
    }
}

#[inline(always)]
fn pair(low: i16, high: i16) -> u32 {
    u32::from(low as u16) | u32::from(high as u16) << 16
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tiles_cover_all_rows_and_none_is_short() {
        for rows in MANY..200 {
            let starts = heights(rows);
            assert_eq!((starts[0], *starts.last().unwrap()), (0, rows));
            assert!(starts.windows(2).all(|w| (4..=TALLEST).contains(&(w[1] - w[0]))), "{rows}: {starts:?}");
        }
    }
}
