//! Tied tensors that are stored twice: are the copies really the same?

use super::Progress;
use super::tables::file_of;
use crate::architecture::Architecture;
use crate::codes;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::index::{ElementType, TensorInfo};
use crate::kernel::{Kernel, Options};
use crate::parallel::on_all_cores;
use crate::registry::Registry;
use crate::report::Unchecked;
use crate::source::WeightSource;
use crate::table::Absence;
use rayon::prelude::*;

codes! {
    pub static TIED_COPY = Note, Ties, "tied-copy",
        "a tied tensor is stored all the same",
        "The config says that the head is the embedding, and the file holds the head as well, byte for byte the same. \
         That is common and harmless; the copy takes space and is counted once.";
    pub static TIED_COPY_RETYPED = Note, Ties, "tied-copy-retyped",
        "a tied tensor is stored in another type, with equal values",
        "The head is stored beside the embedding it is tied to, in another element type, and every value is the same.";
    pub static TIED_DIFFERS = Error, Ties, "tied-differs",
        "a tied tensor differs from the one that it is tied to",
        "The config says that the head is the embedding, but the file holds a head with other values. A reader that \
         follows the config ignores it, one that follows the file uses it: two different models. If the head is \
         meant, set tie_word_embeddings to false; if not, remove it.";
    pub static TIED_UNREADABLE = Error, Ties, "tied-unreadable",
        "a tied copy could not be compared",
        "The bytes of one of the two tensors are not in the file or their type is not known.";
}

/// What became of the ties of a model.
#[derive(Default)]
pub(super) struct Ties {
    /// Names of stored copies that are to be counted once.
    pub copies: Vec<String>,
    pub findings: Vec<Finding>,
    pub unchecked: Vec<Unchecked>,
}

/// Compares every stored copy with what it is tied to.
pub(super) fn check(
    source: &dyn WeightSource,
    architecture: &dyn Architecture,
    registry: &Registry,
    identity: bool,
    progress: &dyn Progress,
) -> Ties {
    let table = architecture.tensors();
    let dialect = source.dialect();
    let mut ties = Ties::default();
    for row in table.rows() {
        let Absence::StandIn { by, declared } = row.absence else { continue };
        let Some(by) = table.rows().get(by) else { continue };
        let (name, original) = (table.name(row, dialect), table.name(by, dialect));
        let (Some(copy), Some(first)) = (source.tensors().get(&name), source.tensors().get(&original)) else {
            continue;
        };
        if copy.shape != first.shape {
            continue; // Said as a wrong shape.
        }
        let pair = Pair { source, copy, first, declared };
        let why_not = match (identity, copy.is_packed() || first.is_packed()) {
            (false, _) => Some("--no-identity"),
            // Rounded to codes, a copy is never quite the same.
            (true, true) => Some("one of them is packed"),
            (true, false) => None,
        };
        if let Some(why) = why_not {
            if declared {
                ties.copies.push(name.clone());
            }
            let what = format!("whether {name} equals {original}");
            ties.unchecked.push(Unchecked { what, why: why.to_owned() });
        } else {
            pair.compare(registry, progress, &mut ties);
        }
    }
    ties
}

/// A tensor and the one it is tied to.
struct Pair<'a> {
    source: &'a dyn WeightSource,
    copy: &'a TensorInfo,
    first: &'a TensorInfo,
    /// Whether the config ties them; if not, a difference means that they are two tensors.
    declared: bool,
}

impl Pair<'_> {
    fn compare(&self, registry: &Registry, progress: &dyn Progress, ties: &mut Ties) {
        let (copy, first) = (self.copy, self.first);
        let same_type = copy.dtype == first.dtype;
        let wide = [copy, first].iter().any(|t| t.dtype == ElementType::Known(DType::F64));
        if !same_type && !self.declared {
            return;
        }
        progress.begin("comparing tied tensors", copy.byte_len().saturating_add(first.byte_len()));
        let outcome = match (same_type, wide) {
            (true, _) => self.bytes(progress),
            (false, true) => {
                Err(Error::Usage("F64 values are compared with those of another type by nothing here".into()))
            }
            (false, false) => self.values(registry, progress),
        };
        progress.end();
        let finding = match outcome {
            Err(e) => {
                let f =
                    Finding::new(&TIED_UNREADABLE, format!("could not be compared with {}: {e}", first.name));
                self.place(f)
            }
            Ok(None) => {
                ties.copies.push(copy.name.clone());
                let embedding = short(&first.name);
                let once = format!("({} params counted once)", grouped(copy.elements()));
                if same_type {
                    let how =
                        format!("present but tied — a redundant byte-identical copy of {embedding} {once}");
                    self.place(Finding::new(&TIED_COPY, how))
                } else {
                    let how = format!(
                        "present but tied — {} values equal to those of {embedding} in {} {once}",
                        copy.dtype, first.dtype
                    );
                    self.place(Finding::new(&TIED_COPY_RETYPED, how))
                }
            }
            Ok(Some(_)) if !self.declared => return,
            Ok(Some(difference)) => {
                let message = format!("tied to {}, but differs from it {}", first.name, difference.place);
                let f = Finding::new(&TIED_DIFFERS, message).versus(difference.expected, difference.found);
                let mut f = self.place(f);
                f.place.offset = difference.offset;
                f.advice("if the head is meant, set tie_word_embeddings to false; if not, remove it")
            }
        };
        ties.findings.push(finding);
    }

    fn place(&self, finding: Finding) -> Finding {
        finding.tensor(&self.copy.name).file(file_of(self.source, self.copy))
    }

    /// Byte by byte.
    fn bytes(&self, progress: &dyn Progress) -> Result<Option<Difference>> {
        let (copy, first) = (self.source.bytes(self.copy)?, self.source.bytes(self.first)?);
        let Some(at) = first_difference(&copy, &first, progress) else { return Ok(None) };
        let offset = |t: &TensorInfo| t.bytes.as_ref().map(|r| r.start.saturating_add(at as u64));
        let byte = |all: &[u8]| all.get(at).map_or_else(String::new, |b| format!("0x{b:02x}"));
        let place = format!(
            "first in byte {at} of the tensor, at byte {} of {} against byte {} of {}",
            offset(self.copy).unwrap_or_default(),
            file_of(self.source, self.copy),
            offset(self.first).unwrap_or_default(),
            file_of(self.source, self.first),
        );
        Ok(Some(Difference { place, expected: byte(&first), found: byte(&copy), offset: offset(self.copy) }))
    }

    /// Value by value, for two element types.
    fn values(&self, registry: &Registry, progress: &dyn Progress) -> Result<Option<Difference>> {
        const ELEMENTS: usize = 256 * 64;
        let kernel = registry.best_leaf(false, &Options::default())?;
        let (copy, first) = (self.source.bytes(self.copy)?, self.source.bytes(self.first)?);
        let (mut a, mut b) = (Vec::new(), Vec::new());
        let total = usize::try_from(self.copy.elements()).unwrap_or(usize::MAX);
        for from in (0..total).step_by(ELEMENTS) {
            let n = ELEMENTS.min(total.saturating_sub(from));
            let done = widen(kernel.as_ref(), self.copy, &copy, from, n, &mut a)?.saturating_add(widen(
                kernel.as_ref(),
                self.first,
                &first,
                from,
                n,
                &mut b,
            )?);
            progress.advance(done);
            let differs = a.iter().zip(&b).position(|(x, y)| x != y && !(x.is_nan() && y.is_nan()));
            if let Some(i) = differs {
                let at = from.saturating_add(i);
                let value = |all: &[f32]| all.get(i).map_or_else(String::new, f32::to_string);
                let place = format!("first in element {at}");
                return Ok(Some(Difference { place, expected: value(&b), found: value(&a), offset: None }));
            }
        }
        Ok(None)
    }
}

struct Difference {
    place: String,
    expected: String,
    found: String,
    offset: Option<u64>,
}

/// Widens `n` elements from element `from` on; `from` and `n` are multiples of every block. Returns the bytes read.
fn widen(
    kernel: &dyn Kernel,
    tensor: &TensorInfo,
    raw: &[u8],
    from: usize,
    n: usize,
    out: &mut Vec<f32>,
) -> Result<u64> {
    let unreadable = |what: String| Error::Usage(what);
    let dtype = tensor.dtype.known().ok_or_else(|| unreadable(format!("{} is not known", tensor.dtype)))?;
    let blocks = n.div_ceil(dtype.block_elements());
    let start = from.checked_div(dtype.block_elements()).unwrap_or(0).saturating_mul(dtype.block_bytes());
    let end = start.saturating_add(blocks.saturating_mul(dtype.block_bytes()));
    let part = raw.get(start..end).ok_or_else(|| unreadable("its bytes end early".to_owned()))?;
    out.resize(blocks.saturating_mul(dtype.block_values()), 0.0);
    kernel.decode(dtype, part, out).map_err(|e| unreadable(e.to_string()))?;
    Ok(part.len() as u64)
}

/// The first byte in which two equally long runs differ, found on all cores; later parts are left unread once
/// one is found.
fn first_difference(a: &[u8], b: &[u8], progress: &dyn Progress) -> Option<usize> {
    const CHUNK: usize = 1 << 20;
    let differs = |(x, y): (&[u8], &[u8])| {
        progress.advance(x.len().saturating_add(y.len()) as u64);
        x != y
    };
    let chunk = match a.len() {
        ..=CHUNK => differs((a, b)).then_some(0)?,
        _ => on_all_cores(|| a.par_chunks(CHUNK).zip(b.par_chunks(CHUNK)).position_first(differs))?,
    };
    let start = chunk.saturating_mul(CHUNK);
    let within = a.get(start..)?.iter().zip(b.get(start..)?).position(|(x, y)| x != y)?;
    Some(start.saturating_add(within))
}

/// `embed_tokens` of `model.embed_tokens.weight`.
fn short(name: &str) -> &str {
    let stem = name.strip_suffix(".weight").unwrap_or(name);
    stem.rsplit('.').next().unwrap_or(stem)
}

/// A number with its thousands parted by commas.
pub(super) fn grouped(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && digits.len().saturating_sub(i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::check::Silent;

    #[test]
    fn the_lowest_difference_is_found() {
        let a = vec![7u8; 5 << 20];
        let mut b = a.clone();
        assert_eq!(first_difference(&a, &b, &Silent), None);
        for at in [b.len() - 1, (3 << 20) + 17, 1 << 20, 0] {
            b[at] ^= 1;
            assert_eq!(first_difference(&a, &b, &Silent), Some(at));
        }
    }

    #[test]
    fn thousands_are_parted() {
        assert_eq!(grouped(0), "0");
        assert_eq!(grouped(999), "999");
        assert_eq!(grouped(155_582_464), "155,582,464");
    }
}
