//! Few rows of activations: weights are read once, as they are stored, each row against all activations.

use super::activations::{Few, Grain, Span};
use super::dot8::{Dot8, Raised, Task};
use super::formats::{Codes, Format};
use scantling_core::matrix::RowsMut;
use scantling_core::ops::Linear;
use std::marker::PhantomData;

/// Rows of weights that take turns. They lie far apart: memory is read fastest as a few long streams.
const STREAMS: usize = 4;

/// Bytes that are fetched from memory at a time.
const LINE: usize = 64;

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
        for i in 0..part * (STREAMS / 2) + rows % STREAMS {
            let (turn, half) = (i / (STREAMS / 2), i % (STREAMS / 2));
            let (first, second) = if turn < part {
                (half * part + turn, (half + STREAMS / 2) * part + turn)
            } else {
                let left = STREAMS * part + i - part * (STREAMS / 2);
                (left, left)
            };
            self.outputs(s, first, second);
        }
    }
}

impl<F: Format> Product<'_, F> {
    /// Two outputs, which may be the same, with all activations.
    #[inline(always)]
    fn outputs<S: Dot8>(&mut self, s: S, a: usize, b: usize) {
        for (first, rows, x) in self.x.tiles() {
            match rows {
                1 => self.tile::<S, 1>(s, [a, b], first, x),
                2 => self.tile::<S, 2>(s, [a, b], first, x),
                3 => self.tile::<S, 3>(s, [a, b], first, x),
                4 => self.tile::<S, 4>(s, [a, b], first, x),
                8 => self.tile::<S, 8>(s, [a, b], first, x),
                other => unreachable!("tiles have 1 to 4 rows or 8, not {other}"),
            }
        }
    }

    /// The same with `R` rows of activations.
    #[inline(always)]
    fn tile<S: Dot8, const R: usize>(&mut self, s: S, outputs: [usize; 2], first: usize, x: &[Span]) {
        let w = [self.linear.weight.row(outputs[0]), self.linear.weight.row(outputs[1])];
        let x = x.as_chunks().0;
        if F::TWOS && S::PAIRED {
            let sums = dots_of_two::<F, S, R>(s, w, x);
            for (o, sums) in outputs.iter().zip(sums) {
                self.store(*o, first, sums);
            }
            return;
        }
        let both = if outputs[0] == outputs[1] { 1 } else { 2 };
        for (o, w) in outputs.iter().zip(w).take(both) {
            let sums = dots::<F, S, R>(s, w, x);
            self.store(*o, first, sums);
        }
    }

    #[inline(always)]
    fn store<const R: usize>(&mut self, o: usize, first: usize, sums: [f32; R]) {
        // Written out: `Linear::finish` would be a branch for each of the two, in every tile of every format.
        let bias = self.linear.bias.map_or(0.0, |bias| bias[o]);
        for (r, sum) in sums.into_iter().enumerate() {
            self.out.row(first + r)[o] = sum * self.linear.scale + bias;
        }
    }
}

/// What is left of a row, too short for a span, with zeros behind it. Blocks of zero bytes against activations of zero
/// add nothing.
#[inline(always)]
pub(super) fn padded<'a, F: Format>(rest: &[u8], room: &'a mut [u8; 512]) -> &'a [u8] {
    room[..rest.len()].copy_from_slice(rest);
    &room[..F::BYTES]
}

/// Has brought near what comes next in this stream, one row on.
#[inline(always)]
fn prefetch<F: Format, S: Dot8>(s: S, span: &[u8], row: usize) {
    let ahead = span.as_ptr().wrapping_add(row);
    for line in 0..F::BYTES.div_ceil(LINE) {
        s.prefetch(ahead.wrapping_add(line * LINE));
    }
}

/// Two rows of weights against `R` rows of activations: each has half of every vector, so that what belongs to a span
/// is taken out of both at once.
#[inline(always)]
fn dots_of_two<F: Format, S: Dot8, const R: usize>(s: S, w: [&[u8]; 2], x: &[[Span; R]]) -> [[f32; R]; 2] {
    let mut floats = [s.no_floats(); R];
    let [mut a, mut b] = w;
    for x in x {
        let (mut first, mut second);
        let (span_a, span_b) = if a.len() >= F::BYTES {
            let ((span_a, rest_a), (span_b, rest_b)) = (a.split_at(F::BYTES), b.split_at(F::BYTES));
            (a, b) = (rest_a, rest_b);
            (span_a, span_b)
        } else {
            (first, second) = ([0; 512], [0; 512]);
            (padded::<F>(a, &mut first), padded::<F>(b, &mut second))
        };
        prefetch::<F, S>(s, span_a, w[0].len());
        prefetch::<F, S>(s, span_b, w[1].len());
        let heads = F::heads(s, span_a, span_b);
        let mut sums = [s.no_sums(); R];
        for (run, codes) in F::codes_of_two(s, span_a, span_b).into_iter().enumerate() {
            for r in 0..R {
                let products = s.products_of_two(codes, &x[r].codes[run]);
                sums[r] = s.settled(s.scaled(sums[r], products, heads.scales, run));
            }
        }
        for r in 0..R {
            floats[r] = s.add_two(floats[r], sums[r], &heads, &x[r].run_sums, x[r].scales[0]);
        }
    }
    let mut totals = [[0.0; R]; 2];
    for r in 0..R {
        [totals[0][r], totals[1][r]] = s.totals_of_two(floats[r]);
    }
    totals
}

/// A row of weights against `R` rows of activations.
#[inline(always)]
fn dots<F: Format, S: Dot8, const R: usize>(s: S, w: &[u8], x: &[[Span; R]]) -> [f32; R] {
    let mut floats = [[s.no_floats(); 2]; R];
    let mut rest = w;
    for x in x {
        let mut room;
        let span = if rest.len() >= F::BYTES {
            let (span, behind) = rest.split_at(F::BYTES);
            rest = behind;
            span
        } else {
            room = [0; 512];
            padded::<F>(rest, &mut room)
        };
        prefetch::<F, S>(s, span, w.len());
        if F::GRAIN == Grain::Fine {
            fine::<F, S, R>(s, span, x, &mut floats);
        } else {
            coarse::<F, S, R>(s, span, x, &mut floats);
        }
    }
    let mut sums = [0.0; R];
    for (sum, [even, odd]) in sums.iter_mut().zip(floats) {
        *sum = s.total(if R < TALL { s.join_floats(even, odd) } else { even });
    }
    sums
}

/// Rows of activations from which on each has one vector of floats instead of two: there are enough sums at a time
/// that do not wait for each other.
const TALL: usize = 4;

/// Adds a span with a scale for each 32 elements, two runs at a time.
#[inline(always)]
fn fine<F: Format, S: Dot8, const R: usize>(s: S, w: &[u8], x: &[Span; R], floats: &mut [[S::Floats; 2]; R]) {
    let scales = F::scales(s, w);
    let mut by = [s.multiplied(&scales.d, &x[0].scales); R];
    for r in 0..R {
        by[r] = s.multiplied(&scales.d, &x[r].scales);
        if F::MINIMA {
            floats[r][0] = s.add_products(floats[r][0], &scales.m, &x[r].weighted);
        }
    }
    let codes = F::codes(s, w);
    // Written out: the compiler would keep a loop whose body is as long as with eight rows.
    fine_pair::<F, S, R>(s, &codes, x, &by, 0, floats);
    fine_pair::<F, S, R>(s, &codes, x, &by, 1, floats);
    fine_pair::<F, S, R>(s, &codes, x, &by, 2, floats);
    fine_pair::<F, S, R>(s, &codes, x, &by, 3, floats);
}

/// Runs `pair` and `pair + 4`.
#[inline(always)]
fn fine_pair<F: Format, S: Dot8, const R: usize>(
    s: S,
    codes: &[S::Bytes; 8],
    x: &[Span; R],
    by: &[S::Eight; R],
    pair: usize,
    floats: &mut [[S::Floats; 2]; R],
) {
    for r in 0..R {
        let codes = [codes[pair], codes[pair + 4]];
        let runs = [&x[r].codes[pair], &x[r].codes[pair + 4]];
        let sum = &mut floats[r][if R < TALL { pair % 2 } else { 0 }];
        *sum = match F::CODES {
            Codes::Unsigned(_) => s.add_pair::<false>(*sum, codes, runs, by[r], pair),
            Codes::Signed(bits) => {
                let raised = Raised { by: 1 << bits, products: &x[r].raised[pair] };
                s.add_raised_pair(*sum, codes, raised, runs, by[r], pair)
            }
            Codes::Wide => s.add_pair::<true>(*sum, codes, runs, by[r], pair),
        };
    }
}

/// Adds a span with integer scales.
#[inline(always)]
fn coarse<F: Format, S: Dot8, const R: usize>(
    s: S,
    w: &[u8],
    x: &[Span; R],
    floats: &mut [[S::Floats; 2]; R],
) {
    let scales = F::scales(s, w);
    let factors = s.factors(scales.scales);
    let mut sums = [s.no_sums(); R];
    for r in 0..R {
        if let Codes::Signed(bits) = F::CODES {
            sums[r] = s.lowered(factors, &x[r].sums, 1 << bits);
        }
        if F::MINIMA {
            let (minima, sum) = (s.minima(scales.minima, &x[r].sums), &mut floats[r][usize::from(R < TALL)]);
            *sum = s.add_sums(*sum, minima, scales.m[0] * x[r].scales[0]);
        }
    }
    for (b, codes) in F::codes(s, w).into_iter().enumerate() {
        for r in 0..R {
            let products = match F::CODES {
                Codes::Wide => s.products::<true>(codes, &x[r].codes[b]),
                _ => s.products::<false>(codes, &x[r].codes[b]),
            };
            sums[r] = s.settled(s.scaled(sums[r], products, factors, b));
        }
    }
    for r in 0..R {
        floats[r][0] = s.add_sums(floats[r][0], sums[r], scales.d[0] * x[r].scales[0]);
    }
}
