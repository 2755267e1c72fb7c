//! Which ops, element types and shapes are measured.

use super::jobs::{Attention, Decode, InPlace, Job, Matmul};
use super::weights::{COLD, Windows, cold_len, made_up};
use crate::args::BenchOp;
use scantling_core::dtype::DType;
use scantling_core::error::Result;
use scantling_core::matrix::Matrix;
use scantling_core::paging::HugeBuf;

/// Element types that are measured unless others are named: plain floats, and what most quantised files consist of.
pub const TYPES: [DType; 7] =
    [DType::F32, DType::F16, DType::BF16, DType::Q8_0, DType::Q4_0, DType::Q4_K, DType::Q6_K];
/// The same in a hurry.
pub const QUICK_TYPES: [DType; 3] = [DType::BF16, DType::Q8_0, DType::Q4_K];

/// Widths of a model; those of a decoder of 8 billion weights unless a model tells its own.
#[derive(Clone, Copy, Debug)]
pub struct Dims {
    /// The residual stream.
    pub hidden: usize,
    /// Inside the feed-forward part.
    pub inner: usize,
    /// Query heads and key-value heads.
    pub heads: (usize, usize),
    /// Elements of a head.
    pub head: usize,
}

impl Default for Dims {
    fn default() -> Dims {
        Dims { hidden: 4096, inner: 14336, heads: (32, 8), head: 128 }
    }
}

/// One thing to measure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Case {
    /// So many rows by a matrix.
    Matmul(usize, Stored),
    /// A matrix widened.
    Decode(Stored),
    /// So many queries over so many positions.
    Attention(DType, usize, usize),
    /// So many rows of so many columns.
    InPlace(BenchOp, usize, usize),
}

/// A stored matrix: element type, rows, columns.
pub type Stored = (DType, usize, usize);

impl Case {
    /// Whether a kernel that rounds activations does so here.
    pub fn rounds(&self) -> bool {
        matches!(self, Case::Matmul(_, (dtype, ..)) if dtype.is_quantised())
    }

    /// What it is, while it is measured.
    pub fn words(&self) -> String {
        let dtype = self.dtype().map_or("", DType::name);
        match self {
            Case::Matmul(rows, (_, outputs, inputs)) => {
                format!("matmul {dtype} {rows} × {inputs} → {outputs}")
            }
            Case::Decode((_, rows, cols)) => format!("decode {dtype} {rows} × {cols}"),
            Case::Attention(_, queries, positions) => format!("attention {dtype} {queries} × {positions}"),
            Case::InPlace(op, rows, cols) => format!("{} {rows} × {cols}", op.word()),
        }
    }

    /// The element type of what is stored.
    pub fn dtype(&self) -> Option<DType> {
        match self {
            Case::Matmul(_, stored) | Case::Decode(stored) => Some(stored.0),
            Case::Attention(dtype, ..) => Some(*dtype),
            Case::InPlace(..) => None,
        }
    }
}

/// What there is to choose cases from.
pub struct Choice<'a> {
    /// The ops; none for all.
    pub ops: &'a [BenchOp],
    /// The element types; none for the usual ones, or for all that the model has.
    pub dtypes: &'a [DType],
    /// Whether to be quick.
    pub quick: bool,
    /// The matrices of a model; none to make some up.
    pub stored: Option<&'a [Stored]>,
    /// Its widths.
    pub dims: Dims,
}

impl Choice<'_> {
    /// The cases, in the order they are measured.
    pub fn cases(&self) -> Vec<Case> {
        BenchOp::ALL.into_iter().filter(|op| self.wants(*op)).flat_map(|op| self.of(op)).collect()
    }

    fn wants(&self, op: BenchOp) -> bool {
        let usual = !self.quick || matches!(op, BenchOp::Matmul | BenchOp::Decode);
        if self.ops.is_empty() { usual } else { self.ops.contains(&op) }
    }

    fn of(&self, op: BenchOp) -> Vec<Case> {
        let batches: &[usize] = if self.quick { &[1, 512] } else { &[1, 8, 512] };
        let Dims { hidden, inner, heads, head } = self.dims;
        let rows = [1, 512];
        match op {
            BenchOp::Matmul => {
                let of_batch =
                    |rows: usize| self.stored(rows).into_iter().map(move |s| Case::Matmul(rows, s));
                batches.iter().flat_map(|rows| of_batch(*rows)).collect()
            }
            BenchOp::Decode => self.stored(1).into_iter().map(Case::Decode).collect(),
            BenchOp::Attention => [DType::F32, DType::F16, DType::BF16, DType::Q8_0]
                .into_iter()
                .filter(|d| head.is_multiple_of(d.block_elements()))
                .filter(|d| if self.dtypes.is_empty() { *d == DType::F16 } else { self.dtypes.contains(d) })
                .flat_map(|d| [Case::Attention(d, 1, 4096), Case::Attention(d, 512, 512)])
                .collect(),
            BenchOp::RmsNorm => rows.map(|rows| Case::InPlace(op, rows, hidden)).into(),
            BenchOp::Rope => rows.map(|rows| Case::InPlace(op, rows, heads.0 * head)).into(),
            BenchOp::Activate | BenchOp::Gate => rows.map(|rows| Case::InPlace(op, rows, inner)).into(),
        }
    }

    /// Matrices for so many rows of activations.
    fn stored(&self, rows: usize) -> Vec<Stored> {
        let wanted = |dtype: DType| self.dtypes.is_empty() || self.dtypes.contains(&dtype);
        if let Some(stored) = self.stored {
            return stored.iter().copied().filter(|s| wanted(s.0)).collect();
        }
        // Many rows multiply enough on a smaller matrix.
        let side = match (rows < 64, self.quick) {
            (true, _) => 4096,
            (false, false) => 2048,
            (false, true) => 1024,
        };
        let usual: &[DType] = if self.quick { &QUICK_TYPES } else { &TYPES };
        let types = if self.dtypes.is_empty() { usual } else { self.dtypes };
        types.iter().filter(|d| d.codec().is_some()).map(|d| (*d, side, side)).collect()
    }
}

/// Where the data come from: a model's own matrices, or a buffer that is filled anew for each case.
pub struct Data<'m> {
    /// Matrices of the model.
    pub model: Vec<(Stored, Vec<Matrix<'m>>)>,
    /// Widths.
    pub dims: Dims,
    buffer: HugeBuf,
}

impl<'m> Data<'m> {
    /// With room for whatever these cases make up.
    pub fn new(model: Vec<(Stored, Vec<Matrix<'m>>)>, dims: Dims, cases: &[Case]) -> Result<Data<'m>> {
        let size = |(dtype, rows, cols): Stored| dtype.byte_len(&[rows, cols]).map_or(0, |n| n as usize);
        let need = |case: &Case| match case {
            Case::Matmul(_, stored) | Case::Decode(stored) if model.iter().all(|(s, _)| s != stored) => {
                cold_len(size(*stored))
            }
            Case::Attention(dtype, _, positions) => cold_len(size(cache(*dtype, *positions, dims))),
            _ => 0,
        };
        let len = cases.iter().map(need).max().unwrap_or(0);
        Ok(Data { model, dims, buffer: HugeBuf::zeroed(len)? })
    }

    /// Makes the data of a case and hands it on.
    pub fn with<R>(&mut self, case: &Case, work: impl FnOnce(&mut dyn Job) -> R) -> Result<R> {
        let dims = self.dims;
        Ok(match *case {
            Case::Matmul(rows, stored) => work(&mut Matmul::new(self.windows(stored)?, rows)),
            Case::Decode(stored @ (dtype, rows, cols)) => {
                let values = rows * (cols / dtype.block_elements() * dtype.block_values());
                let mut out = HugeBuf::zeroed((4 * values).max(COLD))?;
                out.fill(1); // its pages are had now, not while it is timed
                work(&mut Decode::new(self.windows(stored)?, out))
            }
            Case::Attention(dtype, queries, positions) => {
                let (dtype, rows, cols) = cache(dtype, positions, dims);
                let cache = made_up(&mut self.buffer, dtype, rows, cols)?;
                work(&mut Attention::new(cache, queries, dims.heads, dims.head))
            }
            Case::InPlace(op, rows, cols) => work(&mut InPlace::new(op, rows, cols, dims.head)),
        })
    }

    fn windows(&mut self, stored: Stored) -> Result<Windows<'_>> {
        let own = self.model.iter().find(|(s, _)| *s == stored).and_then(|(_, m)| Windows::new(m.clone()));
        match own {
            Some(own) => Ok(own),
            None => made_up(&mut self.buffer, stored.0, stored.1, stored.2),
        }
    }

    /// The share of made-up data on huge pages, where there are any and the system says.
    pub fn huge_share(&self) -> Option<f64> {
        if self.buffer.len() > 1 { self.buffer.huge_share() } else { None }
    }
}

/// The shape of keys and of values.
fn cache(dtype: DType, positions: usize, dims: Dims) -> Stored {
    (dtype, positions, dims.heads.1 * dims.head)
}
