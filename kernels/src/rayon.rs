//! Any kernel on several threads. Outputs are cut, never a sum: the bits are those of the kernel within.
//!
//! Every op is one piece to a thread, known beforehand: a kernel that prepares its input does so once a piece. The
//! calling thread does the first piece itself, so that a pool has one thread less than are asked for.

use crate::awake::{Awake, Piece};
use ::rayon::{Scope, ThreadPool, ThreadPoolBuilder};
use scantling_core::dtype::DType;
use scantling_core::inventory;
use scantling_core::kernel::{Job, Kernel, KernelPlugin, Make, Options, Precision};
use scantling_core::matrix::{Matrix, Rows, RowsMut};
use scantling_core::ops::{Activation, Attending, Linear, Rotation};
use scantling_core::parallel::worth;
use scantling_core::quant::DecodeError;
use std::ops::Range;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// Wraps any kernel.
pub const RAYON: KernelPlugin = KernelPlugin {
    name: "rayon",
    summary: "spreads any kernel over the cores; the same bits at any number of threads",
    rank: 0,
    precision: Precision::Exact,
    make: Make::Wrapper(make),
};

inventory::submit! { RAYON }

/// Multiplications below which a product or attention is done on one thread: starting others takes some
/// microseconds.
const FEW: usize = 1 << 17;
/// Elements likewise, for ops that do little with each.
const SMALL: usize = 1 << 15;
/// Positions that an attention is cut to at least: kernels go about many in another way than about few, which gives
/// other bits.
const MANY: usize = 64;

struct Spread {
    inner: Box<dyn Kernel>,
    /// None where threads are not wanted or cannot be had.
    pool: Option<ThreadPool>,
    threads: usize,
    awake: Awake,
}

fn make(inner: Box<dyn Kernel>, options: &Options) -> Box<dyn Kernel> {
    let wanted = worth(options.threads);
    let pool = (wanted > 1).then(|| ThreadPoolBuilder::new().num_threads(wanted - 1).build().ok()).flatten();
    let threads = pool.as_ref().map_or(1, |pool| pool.current_num_threads() + 1);
    Box::new(Spread { inner, pool, threads, awake: Awake::new(threads) })
}

/// `n` cut in up to `pieces` of about the same length, at multiples of `step`; no piece is empty.
fn cuts(n: usize, pieces: usize, step: usize) -> Vec<Range<usize>> {
    let steps = n.div_ceil(step);
    let pieces = pieces.min(steps).max(1);
    let at = |i: usize| (steps * i / pieces * step).min(n);
    (0..pieces).map(|i| at(i)..at(i + 1)).filter(|r| !r.is_empty()).collect()
}

/// `n` cut in up to `pieces` of about the same length, none shorter than `least` unless all is.
fn cut_long(n: usize, pieces: usize, least: usize) -> Vec<Range<usize>> {
    let pieces = pieces.min(n / least).max(1);
    (0..pieces).map(|i| n * i / pieces..n * (i + 1) / pieces).filter(|r| !r.is_empty()).collect()
}

/// Where rows of a matrix are cut: kernels take several at once.
fn step(rows: usize, pieces: usize) -> usize {
    [32, 8].into_iter().find(|step| rows >= 2 * step * pieces).unwrap_or(1)
}

impl Spread {
    fn pool(&self, work: usize, enough: usize) -> Option<&ThreadPool> {
        self.pool.as_ref().filter(|_| work >= enough)
    }

    /// Does each piece on a thread, the first on this one. A panic in any of them is passed on when all have ended.
    fn each<T: Send>(&self, pool: &ThreadPool, pieces: Vec<T>, run: impl Fn(&dyn Kernel, T) + Sync) {
        let (inner, run) = (&*self.inner, &run);
        let left = AtomicUsize::new(pieces.len().saturating_sub(1));
        let mut pieces = pieces.into_iter();
        pool.in_place_scope(|scope: &Scope<'_>| {
            let first = pieces.next();
            for piece in pieces {
                let done = Piece(&left);
                scope.spawn(move |_| {
                    let _done = done;
                    run(inner, piece);
                });
            }
            first.into_iter().for_each(|piece| run(inner, piece));
            self.awake.watch(&left);
        });
        self.awake.linger(pool);
    }

    /// The heads and the rows of queries that attention is cut into; a piece is some of each.
    fn cut_attention(&self, how: &Attending<'_>, queries: usize) -> (Vec<Heads>, Vec<Range<usize>>) {
        let mut parts = cut_heads(how, self.threads);
        let even = parts.len().is_multiple_of(self.threads) && how.kv_heads.is_multiple_of(parts.len());
        if !even && queries >= MANY && how.heads >= 2 * self.threads {
            // Each by itself: keys that are read more often cost little beside so many queries.
            parts = cut_heads(how, how.heads);
        }
        let enough = even || parts.len() >= 2 * self.threads;
        (parts, cut_long(queries, if enough { 1 } else { 4 * self.threads }, MANY))
    }

    /// Some rows to each thread: their numbers, and the rows themselves.
    fn by_rows(&self, x: RowsMut<'_>, run: impl Fn(&dyn Kernel, Range<usize>, RowsMut<'_>) + Sync) {
        let all = 0..x.rows();
        match self.pool(x.rows() * x.cols(), SMALL) {
            Some(pool) if x.rows() > 1 => {
                let rows = cuts(x.rows(), self.threads, 1);
                let pieces = rows.iter().cloned().zip(cut_rows(x, &rows)).collect();
                self.each(pool, pieces, |kernel, (rows, x)| run(kernel, rows, x));
            }
            _ => run(&*self.inner, all, x),
        }
    }
}

fn cut_rows<'a>(x: RowsMut<'a>, rows: &[Range<usize>]) -> Vec<RowsMut<'a>> {
    let mut rest = Some(x);
    let cut = rows.iter().filter_map(|r| {
        let (upper, lower) = rest.take()?.split_rows(r.len());
        rest = Some(lower);
        Some(upper)
    });
    cut.collect()
}

fn cut_cols<'a>(x: RowsMut<'a>, widths: impl Iterator<Item = usize>) -> Vec<RowsMut<'a>> {
    let mut rest = Some(x);
    let cut = widths.filter_map(|width| {
        let (left, right) = rest.take()?.split_cols(width);
        rest = Some(right);
        Some(left)
    });
    cut.collect()
}

/// Some of the heads of an attention: query heads, and the kv heads that they look at.
type Heads = (Range<usize>, Range<usize>);

/// Whole kv heads, so that a thread reads only its own; if there are too few, parts of the groups that share one.
fn cut_heads(how: &Attending<'_>, pieces: usize) -> Vec<Heads> {
    let group = how.heads / how.kv_heads;
    if how.kv_heads >= pieces {
        return cuts(how.kv_heads, pieces, 1).into_iter().map(|kv| (times(&kv, group), kv)).collect();
    }
    let parts = cuts(group, pieces.div_ceil(how.kv_heads), 1);
    let of_head = |g: usize| parts.iter().map(move |p| (g * group + p.start..g * group + p.end, g..g + 1));
    (0..how.kv_heads).flat_map(of_head).collect()
}

fn times(range: &Range<usize>, width: usize) -> Range<usize> {
    range.start * width..range.end * width
}

impl Kernel for Spread {
    fn name(&self) -> String {
        format!("rayon+{}", self.inner.name())
    }

    fn base(&self) -> Option<&dyn Kernel> {
        Some(&*self.inner)
    }

    fn threads(&self) -> usize {
        self.threads
    }

    /// What the largest piece takes, on every thread.
    fn scratch(&self, job: &Job) -> usize {
        let piece = match job {
            Job::Attention { how, queries, positions } => {
                let (parts, rows) = self.cut_attention(how, *queries);
                let longest = rows.iter().map(Range::len).max().unwrap_or(0);
                let widest = parts.iter().max_by_key(|(heads, kv)| (kv.len(), heads.len()));
                let (heads, kv_heads) =
                    widest.map_or((how.heads, how.kv_heads), |(heads, kv)| (heads.len(), kv.len()));
                let how = Attending { heads, kv_heads, ..*how };
                self.inner.scratch(&Job::Attention { how, queries: longest, positions: *positions })
            }
            product => self.inner.scratch(product),
        };
        piece.saturating_mul(self.threads)
    }

    fn decode(&self, dtype: DType, raw: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
        let blocks = raw.len() / dtype.block_bytes();
        let fits =
            raw.len().is_multiple_of(dtype.block_bytes()) && out.len() == blocks * dtype.block_values();
        let Some(pool) = self.pool(out.len(), SMALL).filter(|_| fits && dtype.codec().is_some()) else {
            return self.inner.decode(dtype, raw, out);
        };
        let piece = blocks.div_ceil(self.threads);
        let raw = raw.chunks(piece * dtype.block_bytes());
        let pieces = raw.zip(out.chunks_mut(piece * dtype.block_values())).collect();
        let failed = std::sync::Mutex::new(Ok(()));
        self.each(pool, pieces, |kernel, (raw, out)| {
            if let Err(error) = kernel.decode(dtype, raw, out) {
                *failed.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = Err(error);
            }
        });
        failed.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        let w = linear.weight;
        let Some(pool) = self.pool(w.rows() * w.cols() * x.rows(), FEW) else {
            return self.inner.matmul(linear, x, out);
        };
        let rows = cuts(w.rows(), self.threads, step(w.rows(), self.threads));
        let pieces = rows.iter().cloned().zip(cut_cols(out, rows.iter().map(Range::len))).collect();
        self.each(pool, pieces, |kernel, (rows, out)| {
            kernel.matmul(linear.outputs(rows.start, rows.end), x, out);
        });
    }

    /// To each thread its part of every matrix, so that all have as much to do whatever the types.
    fn matmuls(&self, linears: &[Linear<'_>], x: Rows<'_>, outs: Vec<RowsMut<'_>>) {
        let work = linears.iter().map(|l| l.weight.rows() * l.weight.cols() * x.rows()).sum();
        let Some(pool) = self.pool(work, FEW) else {
            return self.inner.matmuls(linears, x, outs);
        };
        let mut pieces: Vec<(Vec<Linear<'_>>, Vec<RowsMut<'_>>)> =
            (0..self.threads).map(|_| (Vec::new(), Vec::new())).collect();
        for (linear, out) in linears.iter().zip(outs) {
            let rows = linear.weight.rows();
            let cut = cuts(rows, self.threads, step(rows, self.threads));
            let parts = cut_cols(out, cut.iter().map(Range::len));
            for ((piece, rows), out) in pieces.iter_mut().zip(cut).zip(parts) {
                piece.0.push(linear.outputs(rows.start, rows.end));
                piece.1.push(out);
            }
        }
        self.each(pool, pieces, |kernel, (linears, outs)| kernel.matmuls(&linears, x, outs));
    }

    fn embed(&self, w: Matrix<'_>, ids: &[u32], out: RowsMut<'_>) {
        self.by_rows(out, |kernel, rows, out| kernel.embed(w, &ids[rows], out));
    }

    fn rms_norm(&self, x: RowsMut<'_>, weight: &[f32], eps: f32) {
        self.by_rows(x, |kernel, _, x| kernel.rms_norm(x, weight, eps));
    }

    fn layer_norm(&self, x: RowsMut<'_>, weight: &[f32], bias: &[f32], eps: f32) {
        self.by_rows(x, |kernel, _, x| kernel.layer_norm(x, weight, bias, eps));
    }

    fn rope(&self, x: RowsMut<'_>, rotation: &Rotation) {
        let all = x.rows();
        self.by_rows(x, |kernel, rows, x| {
            if rows.len() == all {
                return kernel.rope(x, rotation);
            }
            let part = |angles: &[f32]| angles[times(&rows, rotation.half)].to_vec();
            let Rotation { half, pairing, head, first, .. } = *rotation;
            let (cos, sin) = (part(&rotation.cos), part(&rotation.sin));
            kernel.rope(x, &Rotation { cos, sin, half, pairing, head, first });
        });
    }

    /// By heads; by queries as well where the heads do not come out even.
    fn attention(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, out: RowsMut<'_>) {
        let work = q.rows() * k.rows() * how.heads * (how.key + how.value);
        let Some(pool) = self.pool(work, FEW) else {
            return self.inner.attention(q, k, v, how, out);
        };
        let (parts, rows) = self.cut_attention(&how, q.rows());
        let mut pieces = Vec::new();
        for (rows, out) in rows.iter().zip(cut_rows(out, &rows)) {
            let outs = cut_cols(out, parts.iter().map(|(heads, _)| heads.len() * how.value));
            pieces.extend(parts.iter().zip(outs).map(|(part, out)| (rows.clone(), part, out)));
        }
        self.each(pool, pieces, |kernel, (rows, (heads, kv), out)| {
            let sinks = how.sinks.map(|s| &s[heads.clone()]);
            let start = how.start + rows.start;
            let how = Attending { heads: heads.len(), kv_heads: kv.len(), sinks, start, ..how };
            let q = q.rows_at(rows).cols_at(times(heads, how.key));
            kernel.attention(q, k.cols_at(times(kv, how.key)), v.cols_at(times(kv, how.value)), how, out);
        });
    }

    fn activate(&self, activation: Activation, x: RowsMut<'_>) {
        self.by_rows(x, |kernel, _, x| kernel.activate(activation, x));
    }

    fn gate(&self, activation: Activation, gate: RowsMut<'_>, up: Rows<'_>) {
        self.by_rows(gate, |kernel, rows, gate| kernel.gate(activation, gate, up.rows_at(rows)));
    }

    fn add(&self, x: RowsMut<'_>, y: Rows<'_>, factor: f32) {
        self.by_rows(x, |kernel, rows, x| kernel.add(x, y.rows_at(rows), factor));
    }

    fn scale(&self, x: RowsMut<'_>, factor: f32) {
        self.by_rows(x, |kernel, _, x| kernel.scale(x, factor));
    }

    fn softcap(&self, x: RowsMut<'_>, cap: f32) {
        self.by_rows(x, |kernel, _, x| kernel.softcap(x, cap));
    }

    /// On all threads at once, so many rounds each.
    fn saturate(&self, rounds: u64) -> u64 {
        let Some(pool) = &self.pool else { return self.inner.saturate(rounds) };
        let sum = AtomicU64::new(0);
        self.each(pool, vec![(); self.threads], |kernel, ()| {
            sum.fetch_add(kernel.saturate(rounds), Ordering::Relaxed);
        });
        sum.into_inner()
    }

    fn sweep(&self, data: &[u8]) -> u64 {
        let Some(pool) = self.pool(data.len(), SMALL) else { return self.inner.sweep(data) };
        let sum = AtomicU64::new(0);
        let pieces = data.chunks(data.len().div_ceil(self.threads).next_multiple_of(4096)).collect();
        self.each(pool, pieces, |kernel, piece| {
            sum.fetch_add(kernel.sweep(piece), Ordering::Relaxed);
        });
        sum.into_inner()
    }
}
