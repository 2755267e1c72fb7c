//! Many rows of activations: the weights of 16 outputs are rearranged once, then multiplied with tiles of
//! activations, every lane of a vector being another output.

use super::activations::{Grain, SPAN, TALLEST, Tile, Tiles, swap_halves};
use super::dot8::{Dot8, OUTPUTS, Task};
use super::formats::{Codes, Format};
use super::rows::padded;
use scantling_core::matrix::{Matrix, RowsMut};
use scantling_core::ops::Linear;
use std::marker::PhantomData;
use std::ops::Range;

/// Spans that are rearranged at a time: with the tile of activations, they fit in the nearest cache.
const CHUNK: usize = 4;

/// One span of 16 rows of weights.
#[repr(C, align(64))]
struct Panel {
    /// Four elements of each row, then the next four. Below 64 unless [`Codes::Wide`].
    codes: [[u8; 4 * OUTPUTS]; 64],
    /// Coarse grain: for each 16 elements, the integer scales, twice. Fine grain: 1.
    scales: [[[i16; 2]; OUTPUTS]; 16],
    /// Coarse grain: for each 32 elements, the integer minima of their halves.
    minima: [[[i16; 2]; OUTPUTS]; 8],
    /// Fine grain: for each 32 elements. Coarse: the first.
    d: [[f32; OUTPUTS]; 8],
    /// The same for minima.
    m: [[f32; OUTPUTS]; 8],
}

impl Panel {
    fn new() -> Panel {
        Panel {
            codes: [[0; 4 * OUTPUTS]; 64],
            scales: [[[1; 2]; OUTPUTS]; 16],
            minima: [[[0; 2]; OUTPUTS]; 8],
            d: [[0.0; OUTPUTS]; 8],
            m: [[0.0; OUTPUTS]; 8],
        }
    }
}

/// Bytes that a product takes for itself beside its activations, of which there are so many rows.
pub(super) fn takes(rows: usize) -> usize {
    CHUNK * size_of::<Panel>() + rows * size_of::<[f32; OUTPUTS]>()
}

/// The product of a matrix of format `F`.
pub(super) fn product<F: Format, S: Dot8>(s: S, linear: Linear<'_>, x: &Tiles, mut out: RowsMut<'_>) {
    let spans = linear.weight.cols().div_ceil(SPAN);
    let mut panels: Vec<Panel> = (0..CHUNK.min(spans)).map(|_| Panel::new()).collect();
    let mut sums = vec![[0.0; OUTPUTS]; out.rows()];
    for first in (0..linear.weight.rows()).step_by(OUTPUTS) {
        let outputs = first..(first + OUTPUTS).min(linear.weight.rows());
        let part = linear.outputs(outputs.start, outputs.end);
        sums.fill([0.0; OUTPUTS]);
        for from in (0..spans).step_by(CHUNK) {
            let to = (from + CHUNK).min(spans);
            let panels = &mut panels[..to - from];
            s.run(Pack::<F> { w: part.weight, from, panels, format: PhantomData });
            for (rows, x) in x.iter(from, to) {
                multiply::<F, S>(s, panels, x, &mut sums[rows]);
            }
        }
        for (row, sums) in sums.iter().enumerate() {
            let y = &mut out.row(row)[outputs.clone()];
            match y.as_mut_array() {
                Some(y) => *y = *sums,
                None => y.copy_from_slice(&sums[..y.len()]),
            }
            part.finish(0, y);
        }
    }
}

fn multiply<F: Format, S: Dot8>(s: S, panels: &[Panel], x: &[u32], sums: &mut [[f32; OUTPUTS]]) {
    let format = PhantomData;
    match sums.len() {
        4 => s.run(Multiply::<F, 4> { panels, x, sums, format }),
        5 => s.run(Multiply::<F, 5> { panels, x, sums, format }),
        TALLEST => s.run(Multiply::<F, TALLEST> { panels, x, sums, format }),
        other => unreachable!("tiles have 4 to {TALLEST} rows, not {other}"),
    }
}

/// Rearranges spans from `from` on, as many as there are panels.
struct Pack<'a, F> {
    w: Matrix<'a>,
    from: usize,
    panels: &'a mut [Panel],
    format: PhantomData<F>,
}

impl<F: Format> Task for Pack<'_, F> {
    type Out = ();
    #[inline(always)]
    fn call<S: Dot8>(self, s: S) {
        // Rows past the last stay zero, and so do the outputs nobody asked for.
        let mut rows = [[0u8; SPAN]; OUTPUTS];
        for (i, panel) in self.panels.iter_mut().enumerate() {
            for (r, codes) in rows.iter_mut().enumerate().take(self.w.rows()) {
                let w = &self.w.row(r)[(self.from + i) * F::BYTES..];
                let mut room;
                let w = match w.get(..F::BYTES) {
                    Some(whole) => whole,
                    None => {
                        room = [0; 512];
                        padded::<F>(w, &mut room)
                    }
                };
                pack_row::<F, S>(s, w, r, codes, panel);
            }
            s.transpose(&rows, &mut panel.codes);
        }
    }
}

#[inline(always)]
fn pack_row<F: Format, S: Dot8>(s: S, w: &[u8], r: usize, codes: &mut [u8; SPAN], panel: &mut Panel) {
    for (run, to) in F::codes(s, w).into_iter().zip(codes.as_chunks_mut().0) {
        s.store(run, to);
    }
    if F::GRAIN == Grain::Fine && S::PAIRED {
        swap_halves(codes);
    }
    let scales = F::scales(s, w);
    if F::GRAIN == Grain::Fine {
        for b in 0..8 {
            panel.d[b][r] = scales.d[b];
            panel.m[b][r] = scales.m[b];
        }
        return;
    }
    for b in 0..8 {
        panel.scales[2 * b][r] = [i16::from(scales.scales[b] as i8); 2];
        panel.scales[2 * b + 1][r] = [i16::from(scales.scales[b + 8] as i8); 2];
        panel.minima[b][r] = [i16::from(scales.minima[b]), i16::from(scales.minima[b + 8])];
    }
    (panel.d[0][r], panel.m[0][r]) = (scales.d[0], scales.m[0]);
}

/// Adds the products of a tile of `R` rows to its sums.
struct Multiply<'a, F, const R: usize> {
    panels: &'a [Panel],
    x: &'a [u32],
    sums: &'a mut [[f32; OUTPUTS]],
    format: PhantomData<F>,
}

impl<F: Format, const R: usize> Task for Multiply<'_, F, R> {
    type Out = ();
    #[inline(always)]
    fn call<S: Dot8>(self, s: S) {
        let sums = self.sums.first_chunk_mut::<R>().expect("a tile of R rows");
        let mut outputs = [s.outputs(&[0.0; OUTPUTS]); R];
        for (outputs, sums) in outputs.iter_mut().zip(&*sums) {
            *outputs = s.outputs(sums);
        }
        for (panel, x) in self.panels.iter().zip(Tile::<R>::spans(self.x)) {
            if F::GRAIN == Grain::Fine {
                fine::<F, S, R>(s, panel, x, &mut outputs);
            } else {
                coarse::<F, S, R>(s, panel, x, &mut outputs);
            }
        }
        for (outputs, sums) in outputs.into_iter().zip(sums) {
            s.store_outputs(outputs, sums);
        }
    }
}

#[inline(always)]
fn fine<F: Format, S: Dot8, const R: usize>(
    s: S,
    panel: &Panel,
    x: Tile<'_, R>,
    outputs: &mut [S::Outputs; R],
) {
    for run in 0..8 {
        let mut totals = [s.no_totals(); R];
        one_run::<F, S, R>(s, panel, &x, run, &mut totals);
        for r in 0..R {
            let factor = f32::from_bits(x.scales[run][r]);
            outputs[r] = s.add_totals(outputs[r], totals[r], &panel.d[run], factor);
            if F::MINIMA {
                let factor = f32::from_bits(x.sums[run][r]);
                outputs[r] = s.add_scaled(outputs[r], &panel.m[run], factor);
            }
        }
    }
}

#[inline(always)]
fn coarse<F: Format, S: Dot8, const R: usize>(
    s: S,
    panel: &Panel,
    x: Tile<'_, R>,
    outputs: &mut [S::Outputs; R],
) {
    let mut totals = [s.no_totals(); R];
    for run in 0..SPAN / F::RUN {
        one_run::<F, S, R>(s, panel, &x, run, &mut totals);
    }
    for r in 0..R {
        let factor = f32::from_bits(x.scales[0][r]);
        outputs[r] = s.add_totals(outputs[r], totals[r], &panel.d[0], factor);
        if F::MINIMA {
            let mut totals = s.no_totals();
            for (minima, sums) in panel.minima.iter().zip(x.sums) {
                totals = s.add_pairs(totals, minima, sums[r]);
            }
            outputs[r] = s.add_totals(outputs[r], totals, &panel.m[0], factor);
        }
    }
}

/// Adds a run of elements that share a scale.
#[inline(always)]
fn one_run<F: Format, S: Dot8, const R: usize>(
    s: S,
    panel: &Panel,
    x: &Tile<'_, R>,
    run: usize,
    totals: &mut [S::Totals; R],
) {
    let quads = F::RUN / 4;
    let scales = match F::GRAIN {
        // Known to be 1, so that nothing is multiplied where that is all there is to do.
        Grain::Fine if !S::NARROW => &[[1; 2]; OUTPUTS],
        _ => &panel.scales[run * F::RUN / 16],
    };
    let codes = &panel.codes[run * quads..][..quads];
    let x_quads = &x.quads[run * quads..][..quads];
    if F::CODES == Codes::Wide && S::NARROW {
        // As many rows at a time as there are registers for, twice at most.
        wide_rows::<S, R>(s, codes, x_quads, scales, 0..R.min(WIDE_ROWS), totals);
        wide_rows::<S, R>(s, codes, x_quads, scales, R.min(WIDE_ROWS)..R, totals);
        return;
    }
    let step = step::<F, S>();
    for (codes, x_quads) in codes.chunks_exact(step).zip(x_quads.chunks_exact(step)) {
        let starts = &x.starts[run * F::RUN / 16..][..F::RUN / 16];
        let mut runs = [s.start::<0>(0); R];
        for r in 0..R {
            runs[r] = match F::CODES {
                Codes::Unsigned(_) => runs[r],
                Codes::Signed(_) => offset::<F, S>(s, starts[0][r]),
                Codes::Wide => s.start_wide([starts[0][r], starts[F::RUN / 16 - 1][r]]),
            };
        }
        runs = match F::CODES {
            Codes::Wide => s.multiply_rows::<true, R>(runs, codes, x_quads),
            _ => s.multiply_rows::<false, R>(runs, codes, x_quads),
        };
        for r in 0..R {
            totals[r] = s.add_runs(totals[r], runs[r], scales);
        }
    }
}

/// Rows of a tile whose sums, with the codes, their magnitudes and what is multiplied meanwhile, fit in 16 registers.
const WIDE_ROWS: usize = 3;
const _: () = assert!(TALLEST <= 2 * WIDE_ROWS);

/// Sums of 16 bits hold one quad alone where codes have 8: each is scaled as it comes.
#[inline(always)]
fn wide_rows<S: Dot8, const R: usize>(
    s: S,
    codes: &[[u8; 4 * OUTPUTS]],
    x: &[[u32; R]],
    scales: &[[i16; 2]; OUTPUTS],
    rows: Range<usize>,
    totals: &mut [S::Totals; R],
) {
    for (codes, x) in codes.iter().zip(x) {
        let codes = s.quads(codes);
        for r in rows.clone() {
            let quad = s.multiply::<true>(s.start::<0>(0), codes, x[r]);
            totals[r] = s.settled_totals(s.add_runs(totals[r], quad, scales));
        }
    }
}

/// Quads that are added up before they are widened.
#[inline(always)]
const fn step<F: Format, S: Dot8>() -> usize {
    let fit = F::CODES.quads_in_16_bits();
    let step = if S::NARROW && fit < F::RUN / 4 { 4 } else { F::RUN / 4 };
    assert!(!S::NARROW || step <= fit, "sums overflow");
    assert!(!matches!(F::CODES, Codes::Signed(_)) || step == F::RUN / 4, "starts are for whole runs");
    assert!(!matches!(F::CODES, Codes::Wide) || F::RUN == 32, "starts are of two halves");
    step
}

/// What signed codes are raised by makes each sum too large by itself times the sum of activations.
#[inline(always)]
fn offset<F: Format, S: Dot8>(s: S, start: u32) -> S::Runs {
    match F::CODES {
        Codes::Signed(2) => s.start::<2>(start),
        Codes::Signed(3) => s.start::<3>(start),
        Codes::Signed(4) => s.start::<4>(start),
        Codes::Signed(5) => s.start::<5>(start),
        _ => unreachable!("other codes have no offset"),
    }
}
