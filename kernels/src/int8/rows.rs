//! Few rows of activations: weights are read once, as they are stored, each row against all activations.

use super::activations::{Few, Grain, Span};
use super::dot8::{Dot8, Task};
use super::formats::{Codes, Format};
use scantling_core::matrix::RowsMut;
use scantling_core::ops::Linear;
use std::marker::PhantomData;

/// Rows of weights that are gone through together, a span of each in turn. They lie far apart: memory is read fastest
/// as a few long streams, and a span of activations serves all of them while it is in the nearest cache.
const STREAMS: usize = 4;

/// The product of a matrix of format `F`.
pub(super) fn product<F: Format, S: Dot8>(s: S, linear: Linear<'_>, x: &Few, out: RowsMut<'_>) {
    s.run(Product::<F> { linear, x, out, format: PhantomData });
}

struct Product<'a, F> {
    linear: Linear<'a>,
    x: &'a Few,
    out: RowsMut<'a>,
    format: PhantomData<F>,
}

impl<F: Format> Task for Product<'_, F> {
    type Out = ();
    #[inline(always)]
    fn call<S: Dot8>(mut self, s: S) {
        let rows = self.linear.weight.rows();
        let part = rows / STREAMS;
        // One call for whole turns and the rows left over: half as much to compile.
        for turn in 0..part + rows % STREAMS {
            let apart = if turn < part { part } else { 0 };
            let first = if turn < part { turn } else { turn + 3 * part };
            let outputs = [first, first + apart, first + 2 * apart, first + 3 * apart];
            self.outputs(s, &outputs[..if turn < part { STREAMS } else { 1 }]);
        }
    }
}

impl<F: Format> Product<'_, F> {
    /// Up to [`STREAMS`] outputs, with all activations.
    #[inline(always)]
    fn outputs<S: Dot8>(&mut self, s: S, outputs: &[usize]) {
        let mut w: [&[u8]; STREAMS] = [&[]; STREAMS];
        for (w, o) in w.iter_mut().zip(outputs) {
            *w = self.linear.weight.row(*o);
        }
        let w = &w[..outputs.len()];
        for (first, rows, x) in self.x.tiles() {
            match rows {
                1 => self.tile::<S, 1>(s, outputs, w, first, x),
                2 => self.tile::<S, 2>(s, outputs, w, first, x),
                3 => self.tile::<S, 3>(s, outputs, w, first, x),
                4 => self.tile::<S, 4>(s, outputs, w, first, x),
                other => unreachable!("tiles have 1 to 4 rows, not {other}"),
            }
        }
    }

    /// The same with `R` rows of activations.
    #[inline(always)]
    fn tile<S: Dot8, const R: usize>(
        &mut self,
        s: S,
        outputs: &[usize],
        w: &[&[u8]],
        first: usize,
        x: &[Span],
    ) {
        let sums = dots::<F, S, R>(s, w, x.as_chunks().0);
        for (o, sums) in outputs.iter().zip(sums) {
            let bias = self.linear.bias.map_or(0.0, |bias| bias[*o]);
            for (r, sum) in sums.into_iter().enumerate() {
                self.out.row(first + r)[*o] = sum * self.linear.scale + bias;
            }
        }
    }
}

/// Up to [`STREAMS`] rows of weights against `R` rows of activations.
#[inline(always)]
fn dots<F: Format, S: Dot8, const R: usize>(s: S, w: &[&[u8]], x: &[[Span; R]]) -> [[f32; R]; STREAMS] {
    let mut floats = [[[s.no_floats(); 2]; R]; STREAMS];
    let mut padded = [0; 512];
    for (i, x) in x.iter().enumerate() {
        for (w, floats) in w.iter().zip(&mut floats) {
            let rest = &w[i * F::BYTES..];
            let w = if rest.len() >= F::BYTES {
                &rest[..F::BYTES]
            } else {
                // Blocks of zero bytes against activations of zero add nothing.
                padded[..rest.len()].copy_from_slice(rest);
                padded[rest.len()..].fill(0);
                &padded[..F::BYTES]
            };
            one_span::<F, S, R>(s, w, x, floats);
        }
    }
    let mut sums = [[0.0; R]; STREAMS];
    for (sums, floats) in sums.iter_mut().zip(floats) {
        for (sum, [even, odd]) in sums.iter_mut().zip(floats) {
            *sum = s.total(s.join_floats(even, odd));
        }
    }
    sums
}

#[inline(always)]
fn one_span<F: Format, S: Dot8, const R: usize>(
    s: S,
    w: &[u8],
    x: &[Span; R],
    floats: &mut [[S::Floats; 2]; R],
) {
    let codes = F::codes(s, w);
    let scales = F::scales(s, w);
    if F::GRAIN == Grain::Fine {
        let mut by = [scales.d; R];
        for (r, x) in x.iter().enumerate() {
            for (by, scale) in by[r].iter_mut().zip(&x.scales) {
                *by *= scale;
            }
            if F::MINIMA {
                floats[r][0] = s.add_products(floats[r][0], &scales.m, &x.weighted);
            }
        }
        if F::PAIRED {
            pairs::<F, S, R>(s, codes, &by, x, floats);
        } else {
            for (b, codes) in codes.into_iter().enumerate() {
                for r in 0..R {
                    let sums = s.sums(products::<F, S>(s, codes, &x[r], b));
                    floats[r][b % 2] = s.add_sums(floats[r][b % 2], sums, by[r][b]);
                }
            }
        }
    } else {
        let ready = s.scales(scales.scales);
        let mut sums = [s.no_sums(); R];
        for (b, codes) in codes.into_iter().enumerate() {
            for r in 0..R {
                sums[r] = s.scaled(sums[r], products::<F, S>(s, codes, &x[r], b), ready, b);
            }
        }
        for (r, x) in x.iter().enumerate() {
            floats[r][0] = s.add_sums(floats[r][0], sums[r], scales.d[0] * x.scales[0]);
            if F::MINIMA {
                let minima = s.minima(scales.minima, &x.sums);
                floats[r][1] = s.add_sums(floats[r][1], minima, scales.m[0] * x.scales[0]);
            }
        }
    }
}

/// Two runs of 32 at a time.
#[inline(always)]
fn pairs<F: Format, S: Dot8, const R: usize>(
    s: S,
    codes: [S::Bytes; 8],
    by: &[[f32; 8]; R],
    x: &[Span; R],
    floats: &mut [[S::Floats; 2]; R],
) {
    for pair in 0..4 {
        for r in 0..R {
            let first = products::<F, S>(s, codes[2 * pair], &x[r], 2 * pair);
            let second = products::<F, S>(s, codes[2 * pair + 1], &x[r], 2 * pair + 1);
            let sum = &mut floats[r][pair % 2];
            *sum = match F::CODES {
                Codes::Wide => s.add_pair::<true>(*sum, [first, second], &by[r], pair),
                _ => s.add_pair::<false>(*sum, [first, second], &by[r], pair),
            };
        }
    }
}

/// The products of run `b`.
#[inline(always)]
fn products<F: Format, S: Dot8>(s: S, codes: S::Bytes, x: &Span, b: usize) -> S::Products {
    match F::CODES {
        Codes::Unsigned(_) => s.products::<false>(codes, &x.codes[b]),
        Codes::Signed(bits) => s.raised_products(codes, 1 << bits, &x.codes[b], &x.raised[b]),
        Codes::Wide => s.products::<true>(codes, &x.codes[b]),
    }
}
