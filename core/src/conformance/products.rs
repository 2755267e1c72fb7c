//! What reads stored matrices: decoding, products, rows by their number.

use super::data::{Placed, Pool, Random, Weights};
use super::{Case, Judged, Outcome, Scale, random};
use crate::dtype::DType;
use crate::kernel::{Kernel, Precision, Reference};
use crate::matrix::{Matrix, RowsBuf};
use crate::ops::Linear;
use crate::quant;
use crate::stats::piece::tally_by;
use crate::tolerance::{self, Judgement};
use std::sync::Arc;

/// Rows of activations: none, one, all tails of the tiles of 4, 8 and 16 that kernels use.
const TOKENS: [usize; 15] = [1, 0, 4, 2, 9, 3, 5, 7, 8, 13, 16, 17, 31, 33, 40];
/// Rows of a matrix, likewise.
const OUTPUTS: [usize; 16] = [9, 0, 1, 4, 17, 2, 3, 5, 6, 7, 8, 15, 16, 31, 33, 70];
/// Columns of a matrix, in blocks: for types of few elements a block, and of many.
const COLUMNS: [usize; 16] = [67, 1, 33, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 64, 100, 259];
const BLOCKS: [usize; 6] = [3, 1, 2, 4, 5, 9];

/// Cases of one element type.
pub(super) fn of_type(pool: &Arc<Pool>, scale: Scale, seed: u64) -> Vec<Case<'static>> {
    let dtype = pool.dtype;
    let many = 1 + 700 / dtype.block_values();
    let mut cases: Vec<_> =
        scale.some(&[many, 1, 7, 4 * many], 1).iter().map(|n| decode(dtype, *n, seed)).collect();
    cases.extend(scale.some(&[4 * many, 1, 0, 3], 2).iter().map(|n| tally(pool, *n, seed)));
    // A complex number is two values: there is no product with it.
    if dtype.block_values() != dtype.block_elements() {
        return cases;
    }
    let widths = if dtype.block_elements() < 8 { &COLUMNS[..] } else { &BLOCKS[..] };
    let widths = scale.some(widths, 3);
    let mut shapes: Vec<[usize; 3]> = Vec::new();
    shapes.extend(scale.some(&TOKENS, 5).iter().map(|m| [*m, OUTPUTS[m % 3], widths[0]]));
    shapes.extend(scale.some(&OUTPUTS, 5).iter().map(|o| [1 + 4 * (o % 2), *o, widths[1]]));
    shapes.extend(widths.iter().map(|n| [1, 5, *n]));
    shapes.extend(widths.iter().map(|n| [scale.of(4, 9), 6, *n]));
    if seed == 0 {
        // Longer than what kernels keep of a row at once, and more rows than they take at once.
        let long = 1100 / dtype.block_elements() + 1;
        shapes.extend([[1, 5, long], [scale.of(5, 70), scale.of(3, 19), long]]);
        cases.push(pieces(pool, [scale.of(16, 70), scale.of(34, 70), widths[1]], seed));
    }
    for (i, shape) in shapes.into_iter().enumerate() {
        cases.push(matmul(pool, shape, seed + 1000 * i as u64));
    }
    for n in widths {
        cases.push(dot(pool, *n, seed));
    }
    for shape in [[1, 9, widths[0]], [5, 37, widths[1]], [17, 21, widths[2]]] {
        cases.push(pieces(pool, shape, seed));
        cases.push(matmuls(pool, shape, seed));
    }
    cases.push(poisoned(pool, [2, 3, widths[0]], seed));
    cases.push(embed(pool, [7, 5, widths[0]], seed));
    cases.push(embed(pool, [0, 3, widths[1]], seed));
    cases
}

/// Cases of a matrix that was given.
pub(super) fn of_matrix(matrix: Matrix<'_>, scale: Scale) -> Vec<Case<'_>> {
    let dtype = matrix.dtype();
    if dtype.codec().is_none() || dtype.block_values() != dtype.block_elements() {
        return Vec::new();
    }
    let (rows, some) = (matrix.rows(), scale.of(16, 48).min(matrix.rows()));
    let mut starts = vec![0, (rows - some) / 2, rows - some];
    starts.dedup();
    let mut cases = Vec::new();
    for start in starts {
        let part = matrix.rows_at(start..start + some);
        for m in [1, scale.of(3, 8)] {
            let shape = format!("{m}×{} · [{rows}, {}]ᵀ, rows {start}…", matrix.cols(), matrix.cols());
            cases.push(Case::new("matmul", Some(dtype), shape, move |kernel| {
                let mut random = random(start as u64, &[m, rows, matrix.cols()]);
                let x = Placed::normal(m, matrix.cols(), &mut random);
                product(kernel, Linear::plain(part), &x, &mut random)
            }));
        }
        let shape = format!("[{rows}, {}], rows {start}…", matrix.cols());
        cases.push(Case::new("embed", Some(dtype), shape, move |kernel| {
            let ids: Vec<u32> = (0..some.min(4) as u32).rev().collect();
            gather(kernel, part, &ids, &mut random(1, &[start]))
        }));
    }
    cases
}

/// Bit for bit, and of any bytes at all: what is not finite too.
fn decode(dtype: DType, blocks: usize, seed: u64) -> Case<'static> {
    Case::new("decode", Some(dtype), format!("{blocks} blocks"), move |kernel| {
        let mut random = random(seed, &[dtype as usize, blocks, 1]);
        let lead = random.below(4);
        let raw = random.bytes(lead + blocks * dtype.block_bytes());
        let cols = blocks * dtype.block_values();
        let mut out = Placed::blank(1, cols, &mut random);
        kernel.decode(dtype, &raw[lead..], out.view_mut().row(0)).map_err(|e| format!("refused: {e}"))?;
        let mut expected = vec![0.0; cols];
        quant::decode(dtype, &raw[lead..], &mut expected).map_err(|e| e.to_string())?;
        if kernel.decode(dtype, &raw[lead..], &mut vec![0.0; cols + 1]).is_ok() {
            return Err("took an output of the wrong length".into());
        }
        out.judge(&expected, &vec![0.0; cols])
    })
}

/// Bit for bit, of sane blocks, and of those with one of any bytes among them.
fn tally(pool: &Arc<Pool>, blocks: usize, seed: u64) -> Case<'static> {
    let pool = Arc::clone(pool);
    Case::new("tally", Some(pool.dtype), format!("{blocks} blocks"), move |kernel| {
        let mut random = random(seed, &[pool.dtype as usize, blocks, 4]);
        let mut raw = pool.draw(blocks, &mut random);
        for any in [false, true] {
            if any && blocks > 0 {
                let at = random.below(blocks) * pool.dtype.block_bytes();
                let block = random.bytes(pool.dtype.block_bytes());
                raw[at..at + block.len()].copy_from_slice(&block);
            }
            let found = kernel.tally(pool.dtype, &raw).map_err(|e| format!("refused: {e}"))?;
            let decode = |raw: &[u8], out: &mut [f32]| quant::decode(pool.dtype, raw, out);
            let expected = tally_by(pool.dtype, &raw, decode).map_err(|e| e.to_string())?;
            if found != expected {
                return Err(format!("{found:?}, expected {expected:?}"));
            }
        }
        Ok(Judged { judgement: Judgement::equal(&[0.0], &[0.0]), cols: 1 })
    })
}

fn dot(pool: &Arc<Pool>, blocks: usize, seed: u64) -> Case<'static> {
    let (pool, cols) = (Arc::clone(pool), blocks * pool.dtype.block_elements());
    Case::new("dot", Some(pool.dtype), format!("{cols}"), move |kernel| {
        let mut random = random(seed, &[pool.dtype as usize, blocks, 2]);
        let (w, x) = (Weights::new(&pool, 1, blocks, &mut random), Placed::normal(1, cols, &mut random));
        let (w, x) = (w.view(), x.view().row(0));
        let found = kernel.dot(w.dtype(), w.row(0), x);
        let expected = Reference.dot(w.dtype(), w.row(0), x);
        let judgement = Judgement::of(&[found], &[expected], &[tolerance::dot(w, x)]);
        Ok(Judged { judgement, cols: 1 })
    })
}

/// With or without bias and scale, by turns.
fn matmul(pool: &Arc<Pool>, [m, rows, blocks]: [usize; 3], seed: u64) -> Case<'static> {
    let (pool, cols) = (Arc::clone(pool), blocks * pool.dtype.block_elements());
    let mut random = random(seed, &[pool.dtype as usize, m, rows, blocks, 3]);
    let (biased, scale) = (random.one_in(2), random.pick(&[1.0, 1.0, 0.375, -1.7]));
    let shape = format!("{m}×{cols} · [{rows}, {cols}]ᵀ{}", extras(biased, scale));
    Case::new("matmul", Some(pool.dtype), shape, move |kernel| {
        let mut random = random.clone();
        let w = Weights::new(&pool, rows, blocks, &mut random);
        let x = Placed::normal(m, cols, &mut random);
        let bias = biased.then(|| bias(w.view(), &mut random));
        let linear = Linear { weight: w.view(), bias: bias.as_deref(), scale };
        product(kernel, linear, &x, &mut random)
    })
}

fn extras(biased: bool, scale: f32) -> String {
    let bias = if biased { " + bias" } else { "" };
    if scale == 1.0 { bias.to_owned() } else { format!(" · {scale}{bias}") }
}

/// Of about the size of a term of the product.
fn bias(w: Matrix<'_>, random: &mut Random) -> Vec<f32> {
    let mut row = vec![0.0; w.cols()];
    let size = |row: &mut Vec<f32>, o: usize| {
        quant::decode(w.dtype(), w.row(o), row).expect("whole blocks");
        row.iter().fold(0.0f32, |m, v| m.max(v.abs()))
    };
    (0..w.rows()).map(|o| size(&mut row, o) * (1.0 + random.unit() / 2.0)).collect()
}

fn product(kernel: &dyn Kernel, linear: Linear<'_>, x: &Placed, random: &mut Random) -> Outcome {
    let mut out = Placed::blank(x.view().rows(), linear.weight.rows(), random);
    kernel.matmul(linear, x.view(), out.view_mut());
    let expected = (&Reference as &dyn Kernel).project(linear, x.view());
    out.judge(expected.data(), &tolerance::matmul(linear, x.view(), kernel.precision()))
}

/// A number that is none makes none of all outputs of its row, and of no other's. What rounding to integers makes of
/// it is not defined.
fn poisoned(pool: &Arc<Pool>, [m, rows, blocks]: [usize; 3], seed: u64) -> Case<'static> {
    let (pool, cols) = (Arc::clone(pool), blocks * pool.dtype.block_elements());
    let shape = format!("{m}×{cols} · [{rows}, {cols}]ᵀ with a NaN");
    Case::new("matmul", Some(pool.dtype), shape, move |kernel| {
        if kernel.precision() != Precision::Exact {
            return Ok(Judged { judgement: Judgement::equal(&[], &[]), cols: 1 });
        }
        let mut random = random(seed, &[pool.dtype as usize, m, rows, blocks, 7]);
        let w = Weights::new(&pool, rows, blocks, &mut random);
        let mut x = Placed::normal(m, cols, &mut random);
        x.view_mut().row(m - 1)[cols - 1] = f32::NAN;
        product(kernel, Linear::plain(w.view()), &x, &mut random)
    })
}

/// An output has the same bits whichever rows of the matrix stand beside its own: what lets a wrapper cut outputs.
fn pieces(pool: &Arc<Pool>, [m, rows, blocks]: [usize; 3], seed: u64) -> Case<'static> {
    let (pool, cols) = (Arc::clone(pool), blocks * pool.dtype.block_elements());
    let shape = format!("{m}×{cols} · [{rows}, {cols}]ᵀ in pieces");
    Case::new("matmul", Some(pool.dtype), shape, move |kernel| {
        let mut random = random(seed, &[pool.dtype as usize, m, rows, blocks, 4]);
        let w = Weights::new(&pool, rows, blocks, &mut random);
        let x = Placed::normal(m, cols, &mut random);
        let bias = random.normals(rows);
        let linear = Linear { weight: w.view(), bias: Some(&bias), scale: 0.5 };
        let mut whole = Placed::blank(m, rows, &mut random);
        kernel.matmul(linear, x.view(), whole.view_mut());
        let mut pieces = Placed::blank(m, rows, &mut random);
        let (mut rest, mut from) = (pieces.view_mut(), 0);
        while from < rows {
            let to = (from + 1 + random.below(9)).min(rows);
            let (left, right) = rest.split_cols(to - from);
            kernel.matmul(linear.outputs(from, to), x.view(), left);
            (rest, from) = (right, to);
        }
        whole.same(&pieces, "computed in pieces")?;
        let expected = (&Reference as &dyn Kernel).project(linear, x.view());
        whole.judge(expected.data(), &tolerance::matmul(linear, x.view(), kernel.precision()))
    })
}

/// The same bits as one product after the other.
fn matmuls(pool: &Arc<Pool>, [m, rows, blocks]: [usize; 3], seed: u64) -> Case<'static> {
    let (pool, cols) = (Arc::clone(pool), blocks * pool.dtype.block_elements());
    let shape = format!("{m}×{cols} · [{rows}, {cols}]ᵀ, [0, {cols}]ᵀ, [4, {cols}]ᵀ");
    Case::new("matmuls", Some(pool.dtype), shape, move |kernel| {
        let mut random = random(seed, &[pool.dtype as usize, m, rows, blocks, 5]);
        let weights = [rows, 0, 4].map(|rows| Weights::new(&pool, rows, blocks, &mut random));
        let x = Placed::normal(m, cols, &mut random);
        let bias = random.normals(4);
        let linears: Vec<Linear<'_>> = weights
            .iter()
            .enumerate()
            .map(|(i, w)| Linear {
                weight: w.view(),
                bias: (i == 2).then_some(&bias[..]),
                scale: 1.0 - i as f32 / 4.0,
            })
            .collect();
        let mut together: Vec<Placed> =
            linears.iter().map(|l| Placed::blank(m, l.weight.rows(), &mut random)).collect();
        kernel.matmuls(&linears, x.view(), together.iter_mut().map(Placed::view_mut).collect());
        for (i, (linear, together)) in linears.iter().zip(&together).enumerate() {
            let mut alone = Placed::blank(m, linear.weight.rows(), &mut random);
            kernel.matmul(*linear, x.view(), alone.view_mut());
            together.same(&alone, &format!("in a product alone (matrix {i})"))?;
        }
        let (mut found, mut expected, mut bounds) = (Vec::new(), Vec::new(), Vec::new());
        for (linear, together) in linears.iter().zip(&together) {
            found.extend(together.values());
            expected.extend_from_slice((&Reference as &dyn Kernel).project(*linear, x.view()).data());
            bounds.extend(tolerance::matmul(*linear, x.view(), kernel.precision()));
        }
        Ok(Judged { judgement: Judgement::of(&found, &expected, &bounds), cols: rows })
    })
}

fn embed(pool: &Arc<Pool>, [n, rows, blocks]: [usize; 3], seed: u64) -> Case<'static> {
    let pool = Arc::clone(pool);
    let cols = blocks * pool.dtype.block_elements();
    Case::new("embed", Some(pool.dtype), format!("{n} of [{rows}, {cols}]"), move |kernel| {
        let mut random = random(seed, &[pool.dtype as usize, n, rows, blocks, 6]);
        let w = Weights::new(&pool, rows, blocks, &mut random);
        let mut ids: Vec<u32> = (0..n).map(|_| random.below(rows) as u32).collect();
        ids.iter_mut().take(1).for_each(|id| *id = rows as u32 - 1);
        gather(kernel, w.view(), &ids, &mut random)
    })
}

fn gather(kernel: &dyn Kernel, w: Matrix<'_>, ids: &[u32], random: &mut Random) -> Outcome {
    let mut out = Placed::blank(ids.len(), w.cols(), random);
    kernel.embed(w, ids, out.view_mut());
    let expected: RowsBuf = (&Reference as &dyn Kernel).embedded(w, ids);
    out.judge(expected.data(), &vec![0.0; expected.data().len()])
}
