//! Which ops, element types and shapes are measured.

use super::Shape;
use super::jobs::{Attention, Decode, InPlace, Job, Matmul, repeats};
use super::weights::{COLD, Windows, cold_len, made_up};
use crate::args::BenchOp;
use crate::render::words::bytes;
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

    /// What tells its rows from those of other cases.
    pub fn shape(&self, dims: Dims) -> Shape {
        let dtype = self.dtype();
        match *self {
            Case::Matmul(rows, (_, outputs, inputs)) => {
                Shape { op: BenchOp::Matmul, dtype, rows, inputs, outputs }
            }
            Case::Decode((_, rows, inputs)) => {
                Shape { op: BenchOp::Decode, dtype, rows, inputs, outputs: inputs }
            }
            Case::Attention(_, rows, outputs) => {
                let inputs = dims.heads.0.saturating_mul(dims.head);
                Shape { op: BenchOp::Attention, dtype, rows, inputs, outputs }
            }
            Case::InPlace(op, rows, inputs) => Shape { op, dtype, rows, inputs, outputs: inputs },
        }
    }

    /// Bytes of memory it takes beside the matrices of the model, `own` if its matrix is one of those; none if that is
    /// beyond counting.
    pub fn memory(&self, dims: Dims, own: bool) -> Option<usize> {
        let floats = |rows: usize, cols: usize| rows.checked_mul(cols)?.checked_mul(4);
        let cold = |stored: Stored| match own {
            true => Some(0),
            // The buffer, as cold_len has it.
            false => size(stored)?.checked_mul(2)?.checked_add(COLD),
        };
        match *self {
            Case::Matmul(rows, stored) => {
                floats(rows, stored.2)?.checked_add(floats(rows, stored.1)?)?.checked_add(cold(stored)?)
            }
            Case::Decode(stored @ (dtype, rows, cols)) => {
                let values = (cols / dtype.block_elements()).checked_mul(dtype.block_values())?;
                floats(rows, values)?.max(COLD).checked_add(cold(stored)?)
            }
            Case::Attention(dtype, queries, positions) => {
                let (_, _, width) = cache(dtype, positions, dims);
                // Nobody's heads are cut: the widths have to be countable themselves.
                let queries = floats(queries, dims.heads.0.checked_mul(dims.head)?)?.checked_mul(2)?;
                queries.checked_add(cold((dtype, positions, width))?)
            }
            Case::InPlace(op, rows, cols) => {
                let head = if op == BenchOp::Rope { dims.head } else { 2 };
                let copies = floats(rows.checked_mul(repeats(rows))?, cols)?.checked_mul(2)?;
                // Two for each pair, and the frequencies.
                let angles = floats(rows.checked_add(1)?, head)?;
                copies.checked_add(floats(rows, cols)?)?.checked_add(angles)
            }
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
            BenchOp::Rope => {
                let cols = heads.0.saturating_mul(head);
                rows.map(|rows| Case::InPlace(op, rows, cols)).into()
            }
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
        let size = |stored| size(stored).unwrap_or(0);
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
            Case::InPlace(op, rows, cols) => {
                let head = if op == BenchOp::Rope { dims.head } else { 2 };
                work(&mut InPlace::new(op, rows, cols, head))
            }
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
    (dtype, positions, dims.heads.1.saturating_mul(dims.head))
}

/// Bytes of a stored matrix, if they can be counted.
fn size((dtype, rows, cols): Stored) -> Option<usize> {
    usize::try_from(dtype.byte_len(&[rows, cols]).ok()?).ok()
}

/// Shapes of a model that are measured: those with most bytes. Each takes some seconds.
const MOST_SHAPES: usize = 24;

/// What is to be measured, and what is left out of it.
#[derive(Debug, Default)]
pub struct Chosen {
    /// The cases that are measured.
    pub cases: Vec<Case>,
    /// What is not, and why: a line each.
    pub left_out: Vec<String>,
}

/// The cases of a choice, but for shapes beyond the first so many and for what takes more than half of `free` bytes
/// of memory. Numbers of a model's config may be anything.
pub fn chosen(choice: &Choice<'_>, free: Option<u64>) -> Chosen {
    let mut left_out = Vec::new();
    let wanted = |s: &Stored| choice.dtypes.is_empty() || choice.dtypes.contains(&s.0);
    let all: Option<Vec<Stored>> = choice.stored.map(|all| all.iter().copied().filter(wanted).collect());
    let some = all.as_deref().map(|all| &all[..all.len().min(MOST_SHAPES)]);
    if let (Some(all), Some(some)) = (&all, some)
        && all.len() > some.len()
    {
        left_out.push(format!(
            "{} of the model's {} shapes: the {} with most bytes are measured (--type names others)",
            all.len() - some.len(),
            all.len(),
            some.len()
        ));
    }
    let limit = free.unwrap_or(UNKNOWN) / 2;
    let fits = |case: &Case| {
        let own = match case {
            Case::Matmul(_, stored) | Case::Decode(stored) => some.is_some_and(|some| some.contains(stored)),
            Case::Attention(..) | Case::InPlace(..) => false,
        };
        let taken = case.memory(choice.dims, own);
        if taken.is_some_and(|n| n as u64 <= limit) {
            return true;
        }
        let taken = taken.map_or_else(|| "more memory than can be counted".to_owned(), |n| bytes(n as u64));
        let whence = if own { "a tensor's shape" } else { "widths of the config or the usual ones" };
        left_out.push(format!(
            "{} takes {taken} ({whence}), but half of the free memory is {}",
            case.words(),
            bytes(limit)
        ));
        false
    };
    let choice = Choice { stored: some, ..*choice };
    let cases = choice.cases().into_iter().filter(fits).collect();
    Chosen { cases, left_out }
}

/// Bytes of memory that are taken for free where the system does not say.
const UNKNOWN: u64 = 8 << 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn of(stored: Option<&[Stored]>, dims: Dims, ops: &[BenchOp], free: u64) -> Chosen {
        chosen(&Choice { ops, dtypes: &[], quick: false, stored, dims }, Some(free))
    }

    #[test]
    fn usual_cases_fit_a_usual_machine() {
        let chosen = of(None, Dims::default(), &[], 4 << 30);
        assert!(chosen.left_out.is_empty() && !chosen.cases.is_empty(), "{:?}", chosen.left_out);
    }

    #[test]
    fn widths_of_any_size_are_left_out_with_their_size() {
        for wide in [1 << 40, usize::MAX / 2, usize::MAX - 1] {
            let dims = Dims { hidden: wide, inner: wide, heads: (wide, wide), head: wide };
            let chosen = of(Some(&[]), dims, &[], 64 << 30);
            assert!(chosen.cases.is_empty(), "{:?}", chosen.cases);
            // Of each op but products and decodes two.
            assert_eq!(chosen.left_out.len(), 10, "{:?}", chosen.left_out);
            assert!(chosen.left_out.iter().all(|l| l.ends_with("but half of the free memory is 32.0 GiB")));
        }
        let wide = Dims { hidden: 1 << 40, ..Dims::default() };
        let chosen = of(Some(&[]), wide, &[BenchOp::RmsNorm], 64 << 30);
        assert!(
            chosen.left_out[1].starts_with("rms_norm 512 × 1099511627776 takes "),
            "{:?}",
            chosen.left_out
        );
    }

    #[test]
    fn long_rows_are_measured_as_far_as_memory_goes() {
        let long = [(DType::F32, 2, 1 << 28)];
        let chosen = of(Some(&long), Dims::default(), &[BenchOp::Matmul], 16 << 30);
        assert_eq!(chosen.cases, [Case::Matmul(1, long[0])]);
        assert_eq!(chosen.left_out.len(), 2, "{:?}", chosen.left_out);
    }

    #[test]
    fn of_many_shapes_the_first_are_measured() {
        let many: Vec<Stored> = (1..=20_000).map(|n| (DType::F32, n, 8)).collect();
        let chosen = of(Some(&many), Dims::default(), &[BenchOp::Decode], 16 << 30);
        assert_eq!(chosen.cases.len(), MOST_SHAPES);
        let told =
            "19976 of the model's 20000 shapes: the 24 with most bytes are measured (--type names others)";
        assert_eq!(chosen.left_out, [told]);
    }
}
