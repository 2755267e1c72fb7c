//! Reads every value and counts those that are no numbers.

use super::Progress;
use super::tables::file_of;
use crate::codes;
use crate::dtype::{Class, DType};
use crate::error::Result;
use crate::finding::Finding;
use crate::index::{OVERLAP, Shape, TensorInfo, overlap};
use crate::kernel::{Kernel, Options};
use crate::packed::Packed;
use crate::parallel::on_all_cores;
use crate::registry::Registry;
use crate::report::Unchecked;
use crate::show;
use crate::source::WeightSource;
use rayon::prelude::*;
use std::path::Path;

codes! {
    pub static DATA_NOT_FINITE = Error, Data, "data-not-finite",
        "a tensor holds values that are no numbers",
        "NaN or infinity among the weights spreads through every result that touches them. In a block-quantised tensor \
         one bad scale spoils its whole block, and many of them mean that the type or the offset is wrong.";
    pub static DATA_SUSPECT = Warning, Data, "data-suspect",
        "a tensor holds scales that no quantiser writes",
        "The values decode to numbers, but the scale byte is one that stands for NaN or that no quantiser produces: \
         the block was probably damaged, or is not of this type.";
    pub static DATA_DISPUTED = Warning, Data, "data-disputed",
        "a packed weight holds codes that readers take differently",
        "A code stands for one number by one reading and for another by the next: a GPTQ zero that overflows when 1 is \
         added, a scale of all ones. The weights that it belongs to differ from program to program; quantise them again.";
    pub static DATA_UNREADABLE = Error, Data, "data-unreadable",
        "a tensor's values could not be read",
        "The bytes are not in the file, or the system failed to read them.";
}

/// What a reading of all values found.
pub(super) struct Data {
    pub findings: Vec<Finding>,
    pub unchecked: Vec<Unchecked>,
}

/// Bytes of one unit of work: enough to keep a core busy, few enough that memory stays small.
const CHUNK: usize = 1 << 20;

/// Reads all values of all tensors on all cores.
pub(super) fn check(
    source: &dyn WeightSource,
    path: &Path,
    registry: &Registry,
    progress: &dyn Progress,
) -> Result<Data> {
    let kernel = registry.best_leaf(false, &Options::default())?;
    let tensors = source.tensors().tensors();
    let mut data = Data { findings: Vec::new(), unchecked: Vec::new() };
    if let Some(finding) = overlap(source.tensors(), source.files()) {
        let (what, why) = ("tensor values".to_owned(), OVERLAP.to_owned());
        return Ok(Data { findings: vec![finding], unchecked: vec![Unchecked { what, why }] });
    }
    progress.begin("reading values", tensors.iter().fold(0u64, |n, t| n.saturating_add(t.byte_len())));
    for tensor in tensors.iter().filter(|t| t.is_packed()) {
        // What keeps one from being opened is told by another check.
        let Some(packed) = source.packed(tensor).ok().flatten() else { continue };
        let place = |f: Finding| f.tensor(&tensor.name).file(file_of(source, tensor));
        let disputed = packed.disputed().map(|what| place(Finding::new(&DATA_DISPUTED, what)));
        data.findings.extend(disputed);
        if let Some((count, first)) = not_finite(packed.as_ref()) {
            let message = format!("{count} of the weights that it makes are NaN or infinite");
            let f = Finding::new(&DATA_NOT_FINITE, format!("{message}, the first in row {first}"));
            data.findings.push(place(f).advice(look_at(path, &tensor.name, &[first])));
        }
    }
    // Of a packed weight what is stored: its scales, and codes that are floats themselves.
    let tensors = tensors.iter().flat_map(TensorInfo::stored);
    for tensor in tensors {
        let Some(dtype) = tensor.dtype.known() else {
            data.skip(tensor, "its type is not known");
            continue;
        };
        if matches!(dtype.class(), Class::Integer | Class::Bool) {
            progress.advance(tensor.byte_len());
            continue;
        }
        if dtype.codec().is_none() {
            data.skip(tensor, "nothing says how its bits are packed");
            continue;
        }
        match source.bytes(tensor) {
            Ok(bytes) => {
                let tally = scan(kernel.as_ref(), dtype, &bytes, progress);
                data.findings.extend(tally.findings(source, path, tensor, dtype));
            }
            Err(e) => {
                let f = Finding::new(&DATA_UNREADABLE, e.to_string()).tensor(&tensor.name);
                data.findings.push(f.file(file_of(source, tensor)));
            }
        }
    }
    progress.end();
    Ok(data)
}

/// What to do about numbers that are none, the first of them at these places.
pub(crate) fn look_at(model: &Path, tensor: &str, places: &[usize]) -> String {
    let command = show::command(model, tensor, places);
    format!("{command} shows it; fetch the file again, or look at how it was made")
}

/// How many weights come out as no numbers, and the first row that has one.
fn not_finite(packed: &dyn Packed) -> Option<(u64, usize)> {
    let cols = packed.cols().max(1);
    let rows = (CHUNK / size_of::<f32>()).checked_div(cols).unwrap_or(1).max(1);
    let chunks = packed.rows().div_ceil(rows);
    let count = |values: &mut Vec<f32>, chunk: usize| {
        let first = chunk.saturating_mul(rows);
        let some = rows.min(packed.rows().saturating_sub(first));
        values.resize(some.saturating_mul(cols), 0.0);
        packed.widen(first, values);
        let bad = values.iter().filter(|v| !v.is_finite()).count() as u64;
        let at = values.iter().position(|v| !v.is_finite()).and_then(|at| at.checked_div(cols));
        at.map(|row| (bad, first.saturating_add(row)))
    };
    let all = || (0..chunks).into_par_iter().map_init(Vec::new, count).flatten();
    on_all_cores(|| all().reduce_with(|a, b| (a.0.saturating_add(b.0), a.1.min(b.1))))
}

impl Data {
    fn skip(&mut self, tensor: &TensorInfo, why: &str) {
        let what = format!("values of {} ({})", tensor.name, tensor.dtype);
        self.unchecked.push(Unchecked { what, why: why.to_owned() });
    }
}

/// What is wrong with the values of one tensor.
#[derive(Clone, Copy, Default)]
struct Tally {
    nan: u64,
    infinite: u64,
    /// Blocks whose scale no quantiser writes.
    suspect: u64,
    /// Index of the first value that is no number.
    first: Option<u64>,
    /// Index of the first suspect block.
    first_block: Option<u64>,
}

impl Tally {
    fn join(self, other: Tally) -> Tally {
        let earlier = |a: Option<u64>, b: Option<u64>| a.into_iter().chain(b).min();
        Tally {
            nan: self.nan.saturating_add(other.nan),
            infinite: self.infinite.saturating_add(other.infinite),
            suspect: self.suspect.saturating_add(other.suspect),
            first: earlier(self.first, other.first),
            first_block: earlier(self.first_block, other.first_block),
        }
    }

    fn findings(
        &self,
        source: &dyn WeightSource,
        path: &Path,
        tensor: &TensorInfo,
        dtype: DType,
    ) -> Vec<Finding> {
        let at_block = |block: u64| {
            let start = tensor.bytes.as_ref().map_or(0, |r| r.start);
            start.saturating_add(block.saturating_mul(dtype.block_bytes() as u64))
        };
        let place =
            |f: Finding, block: u64| f.tensor(&tensor.name).file(file_of(source, tensor)).at(at_block(block));
        let mut findings = Vec::new();
        if let Some(first) = self.first {
            let message =
                format!("{} NaN and {} infinite of {} values", self.nan, self.infinite, tensor.elements());
            let block = first.checked_div(dtype.block_values() as u64).unwrap_or(0);
            let (element, places) = show::element_of(first, Some(dtype), &tensor.shape);
            let message = format!("{message}, the first at element {element} {:?}", Shape(&places));
            let f = Finding::new(&DATA_NOT_FINITE, message).advice(look_at(path, &tensor.name, &places));
            findings.push(place(f, block));
        }
        if let Some(block) = self.first_block {
            let message = format!("{} blocks of {dtype} with a scale that no quantiser writes", self.suspect);
            findings.push(place(
                Finding::new(&DATA_SUSPECT, format!("{message}, the first block {block}")),
                block,
            ));
        }
        findings
    }
}

fn scan(kernel: &dyn Kernel, dtype: DType, bytes: &[u8], progress: &dyn Progress) -> Tally {
    let blocks = CHUNK.checked_div(dtype.block_bytes()).unwrap_or(1).max(1);
    let chunk = blocks.saturating_mul(dtype.block_bytes());
    if bytes.len() <= chunk {
        progress.advance(bytes.len() as u64);
        return scan_chunk(kernel, dtype, bytes, &mut Vec::new());
    }
    let read = || {
        bytes
            .par_chunks(chunk)
            .enumerate()
            .map_init(Vec::new, |values, (i, raw)| {
                progress.advance(raw.len() as u64);
                let first_block = (i as u64).saturating_mul(blocks as u64);
                scan_chunk(kernel, dtype, raw, values).moved(first_block, dtype)
            })
            .reduce(Tally::default, Tally::join)
    };
    on_all_cores(read)
}

impl Tally {
    fn add(&mut self, index: usize, nan: bool) {
        self.first.get_or_insert(index as u64);
        let count = if nan { &mut self.nan } else { &mut self.infinite };
        *count = count.saturating_add(1);
    }

    /// Indexes counted from the start of the tensor instead of the chunk's.
    fn moved(mut self, first_block: u64, dtype: DType) -> Tally {
        let values = first_block.saturating_mul(dtype.block_values() as u64);
        self.first = self.first.map(|i| i.saturating_add(values));
        self.first_block = self.first_block.map(|i| i.saturating_add(first_block));
        self
    }
}

/// F64 reaches beyond what the decoded f32 can hold, so it is looked at as it stands.
fn scan_f64(raw: &[u8]) -> Tally {
    let mut tally = Tally::default();
    let (values, _) = raw.as_chunks::<8>();
    for (i, x) in values.iter().map(|b| f64::from_le_bytes(*b)).enumerate().filter(|(_, x)| !x.is_finite()) {
        tally.add(i, x.is_nan());
    }
    tally
}

fn scan_chunk(kernel: &dyn Kernel, dtype: DType, raw: &[u8], values: &mut Vec<f32>) -> Tally {
    if dtype == DType::F64 {
        return scan_f64(raw);
    }
    let mut tally = Tally::default();
    let blocks = raw.len().checked_div(dtype.block_bytes()).unwrap_or(0);
    values.resize(blocks.saturating_mul(dtype.block_values()), 0.0);
    if kernel.decode(dtype, raw, values).is_err() {
        return tally;
    }
    // Almost always every value is a number: one pass that vectorises says so.
    if !values.iter().fold(true, |all, x| all & x.is_finite()) {
        for (i, x) in values.iter().enumerate().filter(|(_, x)| !x.is_finite()) {
            tally.add(i, x.is_nan());
        }
    }
    if let Some(suspect) = dtype.codec().and_then(|c| c.suspect) {
        for (i, _) in raw.chunks_exact(dtype.block_bytes()).enumerate().filter(|(_, block)| suspect(block)) {
            tally.suspect = tally.suspect.saturating_add(1);
            tally.first_block.get_or_insert(i as u64);
        }
    }
    tally
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Made;

    impl Packed for Made {
        fn rows(&self) -> usize {
            700_000
        }

        fn cols(&self) -> usize {
            3
        }

        fn bytes(&self) -> u64 {
            0
        }

        fn quantisation_error(&self) -> f64 {
            0.0
        }

        fn widen(&self, first: usize, out: &mut [f32]) {
            for (row, out) in out.chunks_mut(3).enumerate() {
                let bad = [400_000, 699_999].contains(&(first + row));
                out.fill(if bad { f32::INFINITY } else { 1.0 });
            }
        }
    }

    #[test]
    fn what_a_packed_weight_makes_is_looked_at_in_every_row() {
        assert_eq!(not_finite(&Made), Some((6, 400_000)));
    }
}
