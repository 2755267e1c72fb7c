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
    let mut factors = [const { Factors::NONE }; STREAMS];
    let mut spans: [&[u8]; STREAMS] = [&[]; STREAMS];
    // Blocks of zero bytes against activations of zero add nothing.
    let short = w[0].len() < x.len() * F::BYTES;
    let whole = (x.len() - usize::from(short)) * F::BYTES;
    let mut padded = Vec::new();
    for (w, span) in w.iter().zip(&mut spans) {
        *span = &w[..whole];
        if short {
            padded.extend_from_slice(&w[whole..]);
            padded.resize(padded.len().next_multiple_of(F::BYTES), 0);
        }
    }
    let padded = &padded[..];
    for x in x {
        // What it takes to get at scales is a long way, though not much work: all rows at a time.
        let rows = spans.iter_mut().zip(&mut factors).zip(&mut floats).take(w.len());
        for (o, ((rest, factors), floats)) in rows.enumerate() {
            if rest.is_empty() {
                *rest = &padded[o * F::BYTES..][..F::BYTES];
            }
            factors_of::<F, S, R>(s, &rest[..F::BYTES], x, factors, floats);
        }
        for ((rest, factors), floats) in spans.iter_mut().zip(&factors).zip(&mut floats).take(w.len()) {
            let (span, behind) = rest.split_at(F::BYTES);
            *rest = behind;
            if F::GRAIN == Grain::Fine {
                fine::<F, S, R>(s, span, x, factors, floats);
            } else {
                coarse::<F, S, R>(s, span, x, factors, floats);
            }
        }
    }
    let mut sums = [[0.0; R]; STREAMS];
    for (sums, floats) in sums.iter_mut().zip(floats).take(w.len()) {
        for (sum, [even, odd]) in sums.iter_mut().zip(floats) {
            *sum = s.total(s.join_floats(even, odd));
        }
    }
    sums
}

/// What the sums of products of a span are multiplied by. It lies in memory, from where a single number is spread over
/// a vector at no cost.
#[derive(Clone, Copy)]
struct Factors<const R: usize> {
    /// Coarse grain: integer scale of each 16 elements.
    scales: [i16; 16],
    /// For each row of activations; with coarse grain in the first place.
    by: [[f32; 8]; R],
}

impl<const R: usize> Factors<R> {
    const NONE: Factors<R> = Factors { scales: [0; 16], by: [[0.0; 8]; R] };
}

/// The factors of a span; its minima are added to the sums at once.
#[inline(always)]
fn factors_of<F: Format, S: Dot8, const R: usize>(
    s: S,
    w: &[u8],
    x: &[Span; R],
    factors: &mut Factors<R>,
    floats: &mut [[S::Floats; 2]; R],
) {
    let scales = F::scales(s, w);
    if F::GRAIN == Grain::Fine {
        for (r, x) in x.iter().enumerate() {
            factors.by[r] = s.multiplied(&scales.d, &x.scales);
            if F::MINIMA {
                floats[r][0] = s.add_products(floats[r][0], &scales.m, &x.weighted);
            }
        }
        return;
    }
    factors.scales = s.widened(scales.scales);
    for (r, x) in x.iter().enumerate() {
        factors.by[r][0] = scales.d[0] * x.scales[0];
        if F::MINIMA {
            let minima = s.minima(scales.minima, &x.sums);
            floats[r][1] = s.add_sums(floats[r][1], minima, scales.m[0] * x.scales[0]);
        }
    }
}

/// Adds a span with a scale for each 32 elements.
#[inline(always)]
fn fine<F: Format, S: Dot8, const R: usize>(
    s: S,
    w: &[u8],
    x: &[Span; R],
    factors: &Factors<R>,
    floats: &mut [[S::Floats; 2]; R],
) {
    let codes = F::codes(s, w);
    if F::PAIRED {
        return pairs::<F, S, R>(s, codes, &factors.by, x, floats);
    }
    for (b, codes) in codes.into_iter().enumerate() {
        for r in 0..R {
            let sums = s.settled(s.sums(products::<F, S>(s, codes, &x[r], b)));
            floats[r][b % 2] = s.add_sums(floats[r][b % 2], sums, factors.by[r][b]);
        }
    }
}

/// Adds a span with integer scales.
#[inline(always)]
fn coarse<F: Format, S: Dot8, const R: usize>(
    s: S,
    w: &[u8],
    x: &[Span; R],
    factors: &Factors<R>,
    floats: &mut [[S::Floats; 2]; R],
) {
    let mut sums = [s.no_sums(); R];
    for (b, codes) in F::codes(s, w).into_iter().enumerate() {
        for r in 0..R {
            let products = products::<F, S>(s, codes, &x[r], b);
            let sum = match F::RUN {
                32 => s.scaled::<true>(sums[r], products, &factors.scales, b),
                _ => s.scaled::<false>(sums[r], products, &factors.scales, b),
            };
            sums[r] = s.settled(sum);
        }
    }
    for r in 0..R {
        floats[r][0] = s.add_sums(floats[r][0], sums[r], factors.by[r][0]);
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
            let second = if S::PAIRED && matches!(F::CODES, Codes::Signed(_)) {
                s.products::<false>(codes[2 * pair + 1], &x[r].codes[2 * pair + 1])
            } else {
                products::<F, S>(s, codes[2 * pair + 1], &x[r], 2 * pair + 1)
            };
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
