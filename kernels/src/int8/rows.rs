//! Few rows of activations: weights are read once, as they are stored, each row against all activations.

use super::activations::{Few, Grain, SPAN, Span};
use super::dot8::{Dot8, Task};
use super::formats::{Codes, Format};
use scantling_core::matrix::RowsMut;
use scantling_core::ops::Linear;
use std::marker::PhantomData;

/// How far ahead of its use memory is asked for, in bytes.
const AHEAD: usize = 4096;
/// Rows of weights that are gone through before the next activations: few enough to stay in the nearest cache.
const TURN: usize = 4;
/// Rows of activations that a row of weights is multiplied with at once.
const AT_ONCE: usize = 4;

/// The product of a matrix of format `F`.
pub(super) fn product<F: Format, S: Dot8>(s: S, linear: Linear<'_>, x: &Few, mut out: RowsMut<'_>) {
    for first in (0..linear.weight.rows()).step_by(TURN) {
        let outputs = first..(first + TURN).min(linear.weight.rows());
        for row in (0..out.rows()).step_by(AT_ONCE) {
            let rows = (out.rows() - row).min(AT_ONCE);
            let x = &x.spans[row * x.per_row..][..rows * x.per_row];
            let turn = Turn { linear, outputs: outputs.clone(), row };
            match rows {
                1 => s.run(Rows::<F, 1> { turn, x, out: &mut out, format: PhantomData }),
                2 => s.run(Rows::<F, 2> { turn, x, out: &mut out, format: PhantomData }),
                3 => s.run(Rows::<F, 3> { turn, x, out: &mut out, format: PhantomData }),
                _ => s.run(Rows::<F, 4> { turn, x, out: &mut out, format: PhantomData }),
            }
        }
    }
}

/// Which outputs are made.
struct Turn<'a> {
    linear: Linear<'a>,
    outputs: std::ops::Range<usize>,
    /// First row of activations.
    row: usize,
}

/// Some rows of weights with `R` rows of activations.
struct Rows<'a, 'o, F, const R: usize> {
    turn: Turn<'a>,
    x: &'a [Span],
    out: &'a mut RowsMut<'o>,
    format: PhantomData<F>,
}

impl<F: Format, const R: usize> Task for Rows<'_, '_, F, R> {
    type Out = ();
    #[inline(always)]
    fn call<S: Dot8>(self, s: S) {
        let Turn { linear, outputs, row } = self.turn;
        let per_row = linear.weight.cols().div_ceil(SPAN);
        let mut x: [&[Span]; R] = [&[]; R];
        for (r, x) in x.iter_mut().enumerate() {
            *x = &self.x[r * per_row..][..per_row];
        }
        for o in outputs {
            let sums = one_row::<F, S, R>(s, linear.weight.row(o), &x);
            let bias = linear.bias.map_or(0.0, |bias| bias[o]);
            for (r, sum) in sums.into_iter().enumerate() {
                self.out.row(row + r)[o] = sum * linear.scale + bias;
            }
        }
    }
}

/// One row of weights against `R` rows of activations.
#[inline(always)]
fn one_row<F: Format, S: Dot8, const R: usize>(s: S, w: &[u8], x: &[&[Span]; R]) -> [f32; R] {
    let mut floats = [[s.no_floats(); 2]; R];
    let mut padded = [0; 512];
    for i in 0..x[0].len() {
        let rest = &w[i * F::BYTES..];
        for line in (0..F::BYTES).step_by(64) {
            s.prefetch(rest.as_ptr().wrapping_add(AHEAD + line));
        }
        let w = if rest.len() >= F::BYTES {
            &rest[..F::BYTES]
        } else {
            // Blocks of zero bytes against activations of zero add nothing.
            padded[..rest.len()].copy_from_slice(rest);
            &padded[..F::BYTES]
        };
        one_span::<F, S, R>(s, w, x, i, &mut floats);
    }
    let mut sums = [0.0; R];
    for (sum, [even, odd]) in sums.iter_mut().zip(floats) {
        *sum = s.total(s.join_floats(even, odd));
    }
    sums
}

#[inline(always)]
fn one_span<F: Format, S: Dot8, const R: usize>(
    s: S,
    w: &[u8],
    x: &[&[Span]; R],
    i: usize,
    floats: &mut [[S::Floats; 2]; R],
) {
    let codes = F::codes(s, w);
    let scales = F::scales(s, w);
    if F::GRAIN == Grain::Fine {
        let mut by = [scales.d; R];
        for (r, x) in x.iter().enumerate() {
            for (by, scale) in by[r].iter_mut().zip(&x[i].scales) {
                *by *= scale;
            }
            if F::MINIMA {
                floats[r][0] = s.add_products(floats[r][0], &scales.m, &x[i].weighted);
            }
        }
        if F::PAIRED {
            pairs::<F, S, R>(s, codes, &by, x, i, floats);
        } else {
            for (b, codes) in codes.into_iter().enumerate() {
                for r in 0..R {
                    let sums = s.sums(products::<F, S>(s, codes, &x[r][i].codes[b]));
                    floats[r][b % 2] = s.add_sums(floats[r][b % 2], sums, by[r][b]);
                }
            }
        }
    } else {
        let ready = s.scales(scales.scales);
        let mut sums = [s.no_sums(); R];
        for (b, codes) in codes.into_iter().enumerate() {
            for r in 0..R {
                let products = products::<F, S>(s, codes, &x[r][i].codes[b]);
                sums[r] = s.scaled(sums[r], products, ready, b);
            }
        }
        for r in 0..R {
            let x = &x[r][i];
            floats[r][0] = s.add_sums(floats[r][0], sums[r], scales.d[0] * x.scales[0]);
            if F::MINIMA {
                let minima = s.minima(scales.minima, &x.sums);
                floats[r][1] = s.add_sums(floats[r][1], minima, scales.m[0] * x.scales[0]);
            }
        }
    }
}

/// Two runs of 32 at a time, their halves lying together.
#[inline(always)]
fn pairs<F: Format, S: Dot8, const R: usize>(
    s: S,
    codes: [S::Bytes; 8],
    by: &[[f32; 8]; R],
    x: &[&[Span]; R],
    i: usize,
    floats: &mut [[S::Floats; 2]; R],
) {
    for pair in 0..4 {
        for r in 0..R {
            let x = &x[r][i].codes;
            let first = products::<F, S>(s, codes[2 * pair], &x[2 * pair]);
            let second = products::<F, S>(s, codes[2 * pair + 1], &x[2 * pair + 1]);
            let sums = match F::CODES {
                Codes::Wide => s.pair_of_sums::<true>(first, second),
                _ => s.pair_of_sums::<false>(first, second),
            };
            floats[r][pair % 2] = s.add_pair(floats[r][pair % 2], sums, &by[r], pair);
        }
    }
}

#[inline(always)]
fn products<F: Format, S: Dot8>(s: S, codes: S::Bytes, x: &[i8; 32]) -> S::Products {
    if F::CODES.signed() { s.products::<true>(codes, x) } else { s.products::<false>(codes, x) }
}
