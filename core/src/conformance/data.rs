//! Inputs that look random and are the same every time, and how they lie in memory.

use super::{Judged, Outcome};
use crate::dtype::{Class, DType};
use crate::matrix::{Matrix, Rows, RowsMut};
use crate::quant;
use crate::tolerance::Judgement;
use half::{bf16, f16};

/// A sequence of numbers from a seed (SplitMix64).
#[derive(Clone)]
pub(super) struct Random(u64);

impl Random {
    pub(super) fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// 64 bits.
    pub(super) fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A whole number below `n`.
    pub(super) fn below(&mut self, n: usize) -> usize {
        (self.bits() % n.max(1) as u64) as usize
    }

    /// Whether a coin of a chance of one in `n` shows.
    pub(super) fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    /// From -1 to 1.
    pub(super) fn unit(&mut self) -> f32 {
        ((self.bits() >> 40) as f32 / (1u64 << 23) as f32) - 1.0
    }

    /// Bell-shaped around 0, standard deviation 1.
    pub(super) fn normal(&mut self) -> f32 {
        self.unit() + self.unit() + self.unit()
    }

    pub(super) fn normals(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.normal()).collect()
    }

    pub(super) fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.bits() as u8).collect()
    }

    /// One of a list.
    pub(super) fn pick<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }
}

/// Valid blocks of one type, of values that can be summed: what matrices are made of.
pub(super) struct Pool {
    pub(super) dtype: DType,
    blocks: Vec<u8>,
}

/// Where the largest value of a block has to lie, so that no block drowns the others in a sum.
const SIZES: std::ops::Range<f32> = 0.0625..16.0;
/// How often a block is drawn anew. Of random bits of an F64, one in 256 is of such a size.
const DRAWS: usize = 4096;

impl Pool {
    pub(super) fn new(dtype: DType, seed: u64) -> Pool {
        let mut random = super::random(seed, &[dtype as usize, 77]);
        let count = (4096 / dtype.block_elements()).clamp(48, 256);
        let blocks = (0..count).flat_map(|_| block(dtype, &mut random)).collect();
        Pool { dtype, blocks }
    }

    /// So many blocks of it, in any order.
    pub(super) fn draw(&self, blocks: usize, random: &mut Random) -> Vec<u8> {
        let bytes = self.dtype.block_bytes();
        let mut raw = Vec::with_capacity(blocks * bytes);
        for _ in 0..blocks {
            let at = random.below(self.blocks.len() / bytes) * bytes;
            raw.extend_from_slice(&self.blocks[at..][..bytes]);
        }
        raw
    }
}

/// Random bytes that are a block of sane values. Nothing here knows a layout: bytes are drawn until they decode to
/// something fit.
fn block(dtype: DType, random: &mut Random) -> Vec<u8> {
    let mut values = vec![0.0; dtype.block_values()];
    for _ in 0..DRAWS {
        let mut raw = random.bytes(dtype.block_bytes());
        if dtype.class() == Class::Bool {
            raw.iter_mut().for_each(|b| *b &= 1);
        }
        quant::decode(dtype, &raw, &mut values).expect("one block of a decodable type");
        if fit(dtype, &values) {
            return raw;
        }
    }
    panic!("{DRAWS} draws of random bytes are no block of {dtype} with values in {SIZES:?}");
}

fn fit(dtype: DType, values: &[f32]) -> bool {
    if matches!(dtype.class(), Class::Integer | Class::Bool) {
        // All of one magnitude, whatever the bytes.
        return true;
    }
    let largest = values.iter().fold(0.0, |m: f32, v| if v.is_nan() { *v } else { m.max(v.abs()) });
    let n = values.len() as f32;
    let mean = values.iter().sum::<f32>() / n;
    let spread = (values.iter().map(|v| (v - mean) * (v - mean)).sum::<f32>() / n).sqrt();
    // Codes may not drown in a minimum that all share.
    SIZES.contains(&largest) && (dtype.block_elements() <= 2 || spread >= largest / 32.0)
}

/// Numbers stored as one of the three types that key-value caches use.
pub(super) fn stored(dtype: DType, values: &[f32]) -> Vec<u8> {
    let each = values.iter();
    match dtype {
        DType::F32 => each.flat_map(|x| x.to_le_bytes()).collect(),
        DType::F16 => each.flat_map(|x| f16::from_f32(*x).to_le_bytes()).collect(),
        DType::BF16 => each.flat_map(|x| bf16::from_f32(*x).to_le_bytes()).collect(),
        other => panic!("no cache is stored as {other}"),
    }
}

/// How something lies in what is around it: its start, and columns of others on both sides, in blocks.
#[derive(Clone, Copy, Debug)]
pub(super) struct Placing {
    lead: usize,
    left: usize,
    right: usize,
}

impl Placing {
    /// By itself, from an odd place on, or a window of something wider.
    pub(super) fn any(random: &mut Random) -> Placing {
        let (left, right) = match random.below(3) {
            0 => (0, 0),
            1 => (0, 1 + random.below(3)),
            _ => (1 + random.below(3), random.below(3)),
        };
        Placing { lead: random.below(4), left, right }
    }
}

/// A stored matrix with its surroundings.
pub(super) struct Weights {
    dtype: DType,
    rows: usize,
    blocks: usize,
    placing: Placing,
    data: Vec<u8>,
}

impl Weights {
    /// Of `rows` × `blocks` blocks, anywhere.
    pub(super) fn new(pool: &Pool, rows: usize, blocks: usize, random: &mut Random) -> Weights {
        let placing = Placing::any(random);
        let mut data = random.bytes(placing.lead);
        data.extend(pool.draw(rows * (placing.left + blocks + placing.right), random));
        Weights { dtype: pool.dtype, rows, blocks, placing, data }
    }

    /// Of numbers, as one of the types of caches. Its surroundings are NaN.
    pub(super) fn of(dtype: DType, rows: usize, cols: usize, random: &mut Random) -> Weights {
        let placing = Placing::any(random);
        let mut values = Vec::new();
        for _ in 0..rows {
            values.extend(std::iter::repeat_n(f32::NAN, placing.left));
            values.extend(random.normals(cols));
            values.extend(std::iter::repeat_n(f32::NAN, placing.right));
        }
        let mut data = random.bytes(placing.lead);
        data.extend(stored(dtype, &values));
        Weights { dtype, rows, blocks: cols, placing, data }
    }

    /// Makes the last row NaN, whose bits are ones in every element type that caches have.
    pub(super) fn poison_last(&mut self) {
        let end = self.data.len();
        let row = (end - self.placing.lead) / self.rows.max(1);
        self.data[end - row..].fill(0xff);
    }

    pub(super) fn view(&self) -> Matrix<'_> {
        let (block, Placing { lead, left, right }) = (self.dtype.block_elements(), self.placing);
        let cols = (left + self.blocks + right) * block;
        let whole = Matrix::new(self.dtype, self.rows, cols, &self.data[lead..]);
        whole.expect("drawn to fit").cols_at(left * block..(left + self.blocks) * block)
    }
}

/// What lies around activations: a NaN with a payload of its own.
const AROUND: u32 = 0x7fc0_5ca1;

/// Activations with their surroundings, which poison what reads them and tell when they are written to.
#[derive(Clone)]
pub(super) struct Placed {
    rows: usize,
    cols: usize,
    placing: Placing,
    data: Vec<f32>,
}

impl Placed {
    /// Nothing yet: an output.
    pub(super) fn blank(rows: usize, cols: usize, random: &mut Random) -> Placed {
        let placing = Placing::any(random);
        let width = placing.left + cols + placing.right;
        Placed { rows, cols, placing, data: vec![f32::from_bits(AROUND); placing.lead + rows * width] }
    }

    pub(super) fn of(values: &[f32], rows: usize, cols: usize, random: &mut Random) -> Placed {
        let mut placed = Placed::blank(rows, cols, random);
        let mut view = placed.view_mut();
        for row in 0..rows {
            view.row(row).copy_from_slice(&values[row * cols..][..cols]);
        }
        placed
    }

    pub(super) fn normal(rows: usize, cols: usize, random: &mut Random) -> Placed {
        Placed::of(&random.normals(rows * cols), rows, cols, random)
    }

    fn width(&self) -> usize {
        self.placing.left + self.cols + self.placing.right
    }

    pub(super) fn view(&self) -> Rows<'_> {
        let left = self.placing.left;
        Rows::new(&self.data[self.placing.lead..], self.rows, self.width()).cols_at(left..left + self.cols)
    }

    pub(super) fn view_mut(&mut self) -> RowsMut<'_> {
        let (width, left, cols) = (self.width(), self.placing.left, self.cols);
        let all = RowsMut::new(&mut self.data[self.placing.lead..], self.rows, width);
        all.split_cols(left).1.split_cols(cols).0
    }

    pub(super) fn values(&self) -> Vec<f32> {
        self.view().iter().flatten().copied().collect()
    }

    /// Whether all around is as it was.
    pub(super) fn guard(&self) -> Result<(), String> {
        let Placing { lead, left, .. } = self.placing;
        for (i, x) in self.data.iter().enumerate() {
            let col = i.checked_sub(lead).map(|i| i % self.width());
            let inside = col.is_some_and(|c| (left..left + self.cols).contains(&c));
            if !inside && x.to_bits() != AROUND {
                return Err(format!("wrote {x:e} outside of its output, at column {col:?} of a wider one"));
            }
        }
        Ok(())
    }

    /// Compares it as an output.
    pub(super) fn judge(&self, expected: &[f32], bounds: &[f64]) -> Outcome {
        self.guard()?;
        Ok(Judged { judgement: Judgement::of(&self.values(), expected, bounds), cols: self.cols })
    }

    /// Compares it bit for bit with another way to the same.
    pub(super) fn same(&self, other: &Placed, what: &str) -> Result<(), String> {
        self.guard()?;
        other.guard()?;
        let pairs = self.values().into_iter().zip(other.values());
        for (i, (a, b)) in pairs.enumerate() {
            if a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan()) {
                let (row, col) = (i / self.cols, i % self.cols);
                return Err(format!("row {row}, column {col} is {a:e}, but {b:e} {what}: not the same bits"));
            }
        }
        Ok(())
    }
}
