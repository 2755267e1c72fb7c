//! The tensors of a source, judged once for all formats: names, lengths, bounds, overlaps.

use crate::bundle::File;
use crate::codes;
use crate::dtype::DType;
use crate::finding::{Finding, Findings, Severity};
use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

codes! {
    pub static TENSOR_DUPLICATE = Error, Container, "tensor-duplicate",
        "a tensor name stands twice",
        "Two entries carry one name, so two readers may load two different tensors. Neither format allows it. \
         Write the file again with a tool that keeps names unique.";
    pub static TENSOR_UNNAMED = Warning, Container, "tensor-unnamed",
        "a tensor has an empty name",
        "An empty name is a legal key, but hardly meant: no model asks for a tensor without a name.";
    pub static TENSOR_TYPE_UNKNOWN = Error, Container, "tensor-type-unknown",
        "a tensor's element type is not known",
        "The number or name of the element type is none of the current specification, so the tensor's size and \
         values cannot be told. The file may come from a fork with types of its own, from a newer version of \
         the format, or be damaged. Types that were once in the format and have been removed are named.";
    pub static TENSOR_SIZE = Error, Container, "tensor-size",
        "a tensor's shape cannot be stored in its element type",
        "The number of elements or bytes overflows, or a row does not fill whole blocks of a block-quantised \
         type, or the bits do not fill whole bytes. The shape or the type in the header is wrong.";
    pub static TENSOR_LENGTH = Error, Container, "tensor-length",
        "a tensor's byte range does not hold its shape",
        "The header gives a byte range whose length differs from elements × element size. One of shape, \
         element type and offsets is wrong; reading on would give shifted numbers.";
    pub static TENSOR_RANGE = Error, Container, "tensor-range",
        "a tensor's byte range is not a range",
        "The end lies before the beginning, or the offsets overflow when the start of the data is added.";
    pub static TENSOR_MISALIGNED = Error, Container, "tensor-misaligned",
        "a tensor's offset is not aligned",
        "GGUF asks that every offset be a multiple of general.alignment (32 unless stated); readers map the data \
         and rely on it.";
    pub static TENSORS_OVERLAP = Error, Container, "tensors-overlap",
        "two tensors share bytes",
        "Neither format lets two tensors share bytes, not even tied weights: each has a range of its own. \
         Offsets that overlap come from a faulty writer or a damaged header.";
    pub static DATA_GAP = Warning, Container, "data-gap",
        "bytes that belong to no tensor",
        "safetensors forbids unread bytes anywhere in the data, since they could hide a second file. GGUF pads \
         between tensors; a gap wider than the padding is allowed by its text, but llama.cpp refuses it.";
    pub static DATA_TRAILING = Warning, Container, "data-trailing",
        "bytes after the last tensor",
        "safetensors forbids bytes after the last tensor. In GGUF up to one alignment of padding is usual; more \
         is allowed, but nothing reads it.";
    pub static FILE_TRUNCATED = Error, Container, "file-truncated",
        "the file ends before its tensors do",
        "The header describes more data than the file holds: usually a download that was broken off, or a copy \
         that ran out of space. Compare the size with the one published and fetch the file again.";
    pub static TENSOR_OUTSIDE = Error, Container, "tensor-outside",
        "a tensor lies outside the file",
        "The tensor's byte range ends past the end of the file, so its values cannot be read.";
}

/// How a tensor's numbers are stored, as far as that is known.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ElementType {
    /// A type of the table.
    Known(DType),
    /// Anything else, as the file calls it: "type 1000", "F5". Empty where the file does not say, or where
    /// what it says of shape and range cannot be used: the format has then reported why.
    Unknown(String),
    /// None of its own: several stored tensors make it up, in the scheme named: "GPTQ 4-bit g64".
    Packed(String),
}

impl ElementType {
    /// The type, if it is one of the table.
    pub fn known(&self) -> Option<DType> {
        match self {
            ElementType::Known(dtype) => Some(*dtype),
            ElementType::Unknown(_) | ElementType::Packed(_) => None,
        }
    }
}

impl fmt::Display for ElementType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ElementType::Known(dtype) => f.pad(dtype.name()),
            ElementType::Unknown(name) | ElementType::Packed(name) => f.pad(name),
        }
    }
}

/// One tensor of an index.
#[derive(Clone, Debug)]
pub struct TensorInfo {
    /// Name as stored.
    pub name: String,
    /// How its numbers are stored.
    pub dtype: ElementType,
    /// Outermost axis first; empty for a single number.
    pub shape: Vec<usize>,
    /// Which of the source's files holds it.
    pub shard: usize,
    /// Where its bytes lie in that file; `None` if that could not be told or is not in the file.
    pub bytes: Option<Range<u64>>,
    /// Where its entry stands in the header.
    pub entry_at: u64,
    /// The stored tensors that make it up, the one with the codes first; none where it is stored by itself.
    pub parts: Vec<TensorInfo>,
}

impl TensorInfo {
    /// Number of elements; saturates, which only an index with findings can show.
    pub fn elements(&self) -> u64 {
        if self.shape.contains(&0) {
            return 0;
        }
        self.shape.iter().fold(1u64, |n, &d| n.saturating_mul(d as u64))
    }

    /// Bytes it takes in its files, 0 where that could not be told.
    pub fn byte_len(&self) -> u64 {
        let own = self.bytes.as_ref().map_or(0, |r| r.end.saturating_sub(r.start));
        self.parts.iter().fold(own, |sum, part| sum.saturating_add(part.byte_len()))
    }

    /// Whether several stored tensors make it up, so that it has no bytes of its own.
    pub fn is_packed(&self) -> bool {
        !self.parts.is_empty()
    }

    /// The stored tensors that it stands for: itself, or those that make it up.
    pub fn stored(&self) -> &[TensorInfo] {
        if self.is_packed() { &self.parts } else { std::slice::from_ref(self) }
    }

    /// Bits that an element takes in its files, with all that belongs to it; `None` where there are no elements.
    pub fn bits_per_weight(&self) -> Option<f64> {
        (self.elements() > 0).then(|| self.byte_len() as f64 * 8.0 / self.elements() as f64)
    }
}

/// An entry as a format's header declares it, before it is judged.
#[derive(Clone, Debug)]
pub struct Declared {
    /// Name as stored.
    pub name: String,
    /// Element type.
    pub dtype: ElementType,
    /// Outermost axis first.
    pub shape: Vec<u64>,
    /// Offset of the first byte from the start of the shard's data.
    pub start: u64,
    /// Offset past the last byte, if the header says it; otherwise it follows from shape and type.
    pub end: Option<u64>,
    /// Which file.
    pub shard: usize,
    /// Where its entry stands in the header.
    pub entry_at: u64,
}

/// A file and where its tensor data begins.
#[derive(Clone, Debug)]
pub struct Shard {
    /// The file.
    pub file: Arc<File>,
    /// Offset of the data section.
    pub data_start: u64,
}

/// What a format allows between and around its tensors.
#[derive(Clone, Copy, Debug)]
pub struct Rules {
    /// Severity of bytes between tensors, beyond padding to the alignment.
    pub gap: Severity,
    /// Severity of bytes after the last tensor, beyond padding to the alignment.
    pub trailing: Severity,
    /// What every offset is a multiple of; 1 for none.
    pub alignment: u64,
}

/// All tensors of a source: by name, and in file order.
#[derive(Debug, Default)]
pub struct TensorIndex {
    tensors: Vec<TensorInfo>,
    /// Places of the tensors, sorted by their names: names stand in memory once, however many tensors there are.
    by_name: Vec<usize>,
}

/// Of each name that was met, the place of the first tensor that has it.
type Met = HashMap<String, usize>;

impl TensorIndex {
    /// Judges every entry and gathers all faults into `findings`. Faulty entries are kept, without a byte
    /// range where theirs cannot be trusted, so that they can still be listed.
    pub fn new(
        shards: &[Shard],
        declared: Vec<Declared>,
        rules: &Rules,
        findings: &mut Findings,
    ) -> TensorIndex {
        let mut index = TensorIndex::default();
        index.tensors.reserve(declared.len());
        let mut met = Met::with_capacity(declared.len());
        let mut claims: Vec<Claims> = shards.iter().map(|_| Claims::default()).collect();
        for entry in declared {
            let (Some(shard), Some(claims)) = (shards.get(entry.shard), claims.get_mut(entry.shard)) else {
                continue;
            };
            match (Judge { shard, entry: &entry, rules }).range(findings) {
                Some(range) => claims.ranges.push((range, index.tensors.len())),
                None => claims.unknown = true,
            }
            index.add(shards, entry, &mut met, findings);
        }
        for (shard, claims) in shards.iter().zip(claims) {
            index.judge_shard(shard, claims, rules, findings);
        }
        TensorIndex::of(index.tensors)
    }

    /// Of tensors that were judged before: those of another index, some of them put together.
    pub(crate) fn of(tensors: Vec<TensorInfo>) -> TensorIndex {
        let mut by_name: Vec<usize> = (0..tensors.len()).collect();
        by_name.sort_by_key(|&i| tensors.get(i).map(|t| t.name.as_str()));
        TensorIndex { tensors, by_name }
    }

    fn add(&mut self, shards: &[Shard], entry: Declared, met: &mut Met, findings: &mut Findings) {
        let file = |shard: usize| shards.get(shard).map_or("", |s| s.file.name()).to_owned();
        if entry.name.is_empty() {
            let f = Finding::new(&TENSOR_UNNAMED, "a tensor has an empty name");
            findings.push(f.file(file(entry.shard)).at(entry.entry_at));
        }
        match met.entry(entry.name.clone()) {
            Entry::Vacant(slot) => {
                slot.insert(self.tensors.len());
            }
            Entry::Occupied(slot) => {
                let first = self.tensors.get(*slot.get());
                let whereabouts =
                    first.map_or(String::new(), |t| format!("{} at byte {}", file(t.shard), t.entry_at));
                let f =
                    Finding::new(&TENSOR_DUPLICATE, format!("the name stands twice, first in {whereabouts}"));
                findings.push(f.file(file(entry.shard)).at(entry.entry_at).tensor(&entry.name));
            }
        }
        self.tensors.push(TensorInfo {
            name: entry.name,
            dtype: entry.dtype,
            shape: entry.shape.iter().map(|&d| usize::try_from(d).unwrap_or(usize::MAX)).collect(),
            shard: entry.shard,
            bytes: None,
            entry_at: entry.entry_at,
            parts: Vec::new(),
        });
    }

    /// Bounds, overlaps, gaps and trailing bytes of one file.
    fn judge_shard(&mut self, shard: &Shard, claims: Claims, rules: &Rules, findings: &mut Findings) {
        let mut order = claims.ranges;
        // Empty ranges sort before the tensor that begins where they stand.
        order.sort_by_key(|(r, _)| (r.start, r.end));
        let len = shard.file.len();
        let mut sweep = Sweep { shard, rules, covered: shard.data_start, owner: None };
        let mut outside = Findings::new();
        let mut need = 0;
        for (range, i) in &order {
            let Some(tensor) = self.tensors.get_mut(*i) else { continue };
            if range.end > len {
                need = range.end.max(need);
                let f = Finding::new(&TENSOR_OUTSIDE, "lies past the end of the file").tensor(&tensor.name);
                let span = format!("bytes {}..{}", range.start, range.end);
                outside
                    .push(f.file(shard.file.name()).at(tensor.entry_at).versus(span, format!("{len} bytes")));
            } else {
                tensor.bytes = Some(range.clone());
            }
            let names = (sweep.owner.and_then(|o| self.tensors.get(o)), self.tensors.get(*i));
            if let (before, Some(tensor)) = names {
                sweep.step(range, before.map(|t| t.name.as_str()), tensor, findings);
            }
            if range.end > sweep.covered {
                sweep.covered = range.end;
                sweep.owner = Some(*i);
            }
        }
        if !outside.is_empty() {
            let missing = need.saturating_sub(len);
            let message = format!("the file ends {missing} bytes before its tensors do");
            let f = Finding::new(&FILE_TRUNCATED, message).file(shard.file.name()).at(len);
            let f = f.versus(format!("at least {need} bytes"), format!("{len}"));
            let f = f.advice("compare the size with the published one and fetch the file again");
            findings.push(f.because_of_this(outside.into_vec()));
        } else if !claims.unknown {
            // With an entry of unknown extent, what follows the last known one may be its data.
            sweep.finish(findings);
        }
    }

    /// In file order.
    pub fn tensors(&self) -> &[TensorInfo] {
        &self.tensors
    }

    /// The tensor of a name; of two with one name, the first.
    pub fn get(&self, name: &str) -> Option<&TensorInfo> {
        let name_of = |i: &usize| self.tensors.get(*i).map(|t| t.name.as_str());
        let at = self.by_name.partition_point(|i| name_of(i) < Some(name));
        self.by_name.get(at).filter(|i| name_of(i) == Some(name)).and_then(|&i| self.tensors.get(i))
    }

    /// Number of tensors.
    pub fn len(&self) -> usize {
        self.tensors.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.tensors.is_empty()
    }
}

/// What the entries of one file lay claim to.
#[derive(Default)]
struct Claims {
    /// Byte ranges from the start of the file, with the tensor of each.
    ranges: Vec<(Range<u64>, usize)>,
    /// Whether there is a tensor whose range cannot be told.
    unknown: bool,
}

/// One entry with what it is judged by.
struct Judge<'a> {
    shard: &'a Shard,
    entry: &'a Declared,
    rules: &'a Rules,
}

impl Judge<'_> {
    /// Where the entry says its bytes are, from the start of the file; `None` once a finding says why not.
    fn range(&self, findings: &mut Findings) -> Option<Range<u64>> {
        let size = self.size(findings);
        let Declared { start, end, .. } = *self.entry;
        if let Some(end) = end {
            if end < start {
                let f = self.finding(&TENSOR_RANGE, "ends before it begins");
                findings.push(f.versus("begin ≤ end", format!("begin {start}, end {end}")));
                return None;
            }
            let length = end.saturating_sub(start);
            if let Some(size) = size.filter(|&s| s != length) {
                let f = self.finding(&TENSOR_LENGTH, "the byte range does not hold the shape");
                let expected =
                    format!("{size} bytes for {} {:?}", self.entry.dtype, Shape(&self.entry.shape));
                findings.push(f.versus(expected, format!("{length} bytes ({start}..{end})")));
            }
        }
        if self.rules.alignment > 1 && start.checked_rem(self.rules.alignment) != Some(0) {
            let f = self.finding(&TENSOR_MISALIGNED, "the offset is not aligned");
            findings.push(f.versus(format!("a multiple of {}", self.rules.alignment), start.to_string()));
        }
        let length = match end {
            Some(end) => end.saturating_sub(start),
            None => size?,
        };
        let from = self.shard.data_start.checked_add(start);
        match from.and_then(|from| Some(from..from.checked_add(length)?)) {
            Some(range) => Some(range),
            None => {
                let f = self.finding(&TENSOR_RANGE, "the offset overflows");
                findings.push(f.versus("an offset inside the file", start.to_string()));
                None
            }
        }
    }

    /// Bytes that shape and type ask for.
    fn size(&self, findings: &mut Findings) -> Option<u64> {
        let dtype = match &self.entry.dtype {
            ElementType::Known(dtype) => *dtype,
            ElementType::Unknown(name) if name.is_empty() => return None,
            ElementType::Unknown(name) | ElementType::Packed(name) => {
                let f = self.finding(&TENSOR_TYPE_UNKNOWN, format!("the element type is not known: {name}"));
                findings.push(f.advice("its size and values cannot be told; convert the model again"));
                return None;
            }
        };
        let shape: Option<Vec<usize>> = self.entry.shape.iter().map(|&d| usize::try_from(d).ok()).collect();
        match shape.map(|shape| dtype.byte_len(&shape)) {
            Some(Ok(size)) => Some(size),
            other => {
                let why = match other {
                    Some(Err(e)) => e.to_string(),
                    _ => "a dimension is larger than this machine addresses".to_owned(),
                };
                let what = format!("{dtype} {:?} cannot be stored: {why}", Shape(&self.entry.shape));
                findings.push(self.finding(&TENSOR_SIZE, what));
                None
            }
        }
    }

    fn finding(&self, code: &'static crate::finding::Code, message: impl Into<String>) -> Finding {
        let f = Finding::new(code, message).file(self.shard.file.name());
        f.at(self.entry.entry_at).tensor(&self.entry.name)
    }
}

/// A shape in messages; cut after eight axes, as a header may claim a hundred thousand.
pub struct Shape<'a, T>(pub &'a [T]);

impl<T: fmt::Display> fmt::Debug for Shape<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[")?;
        for (i, d) in self.0.iter().take(8).enumerate() {
            write!(f, "{}{d}", if i == 0 { "" } else { ", " })?;
        }
        match self.0.len() {
            0..=8 => f.write_str("]"),
            n => write!(f, ", … {n} axes]"),
        }
    }
}

/// Walks the ranges of one file in order of offset.
struct Sweep<'a> {
    shard: &'a Shard,
    rules: &'a Rules,
    /// End of what is covered so far, from the start of the file.
    covered: u64,
    /// The tensor that reaches furthest.
    owner: Option<usize>,
}

impl Sweep<'_> {
    fn step(&self, range: &Range<u64>, before: Option<&str>, tensor: &TensorInfo, findings: &mut Findings) {
        let name = self.shard.file.name();
        if range.start < self.covered && range.start < range.end {
            let other = before.unwrap_or("the header");
            let shared = self.covered.min(range.end).saturating_sub(range.start);
            let f = Finding::new(&TENSORS_OVERLAP, format!("shares {shared} bytes with {other}"));
            findings.push(f.file(name).at(range.start).tensor(&tensor.name));
        }
        if range.start > self.padded() {
            let gap = range.start.saturating_sub(self.covered);
            let f =
                Finding::new(&DATA_GAP, format!("{gap} bytes before {} belong to no tensor", tensor.name));
            findings.push(f.file(name).at(self.covered).severity(self.rules.gap));
        }
    }

    /// The end of what is covered, with padding to the alignment.
    fn padded(&self) -> u64 {
        let past = self.covered.saturating_sub(self.shard.data_start);
        let padded = past.checked_next_multiple_of(self.rules.alignment.max(1)).unwrap_or(u64::MAX);
        self.shard.data_start.saturating_add(padded)
    }

    fn finish(&self, findings: &mut Findings) {
        let len = self.shard.file.len();
        if len > self.padded() {
            let extra = len.saturating_sub(self.covered);
            let f =
                Finding::new(&DATA_TRAILING, format!("{extra} bytes after the last tensor belong to none"));
            findings.push(f.file(self.shard.file.name()).at(self.covered).severity(self.rules.trailing));
        }
    }
}

/// Why values are not read where [`overlap`] finds something.
pub const OVERLAP: &str = "tensors lie over one another";

/// The finding about tensors that lie over one another so often that together they hold more bytes than the files: a small
/// file would take days to read. Those of a sound file never do.
pub fn overlap(tensors: &TensorIndex, files: &[Arc<File>]) -> Option<Finding> {
    let there = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.len()));
    // Several packed weights may share a part.
    let mut seen = HashSet::new();
    let all = tensors.tensors().iter().flat_map(TensorInfo::stored);
    let distinct = all.filter(|t| seen.insert((t.shard, t.entry_at, t.name.as_str())));
    let claimed = distinct.fold(0u64, |sum, t| sum.saturating_add(t.byte_len()));
    (claimed > there).then(|| {
        let f = Finding::new(&TENSORS_OVERLAP, format!("{OVERLAP}, so that their values are not read"));
        f.versus(format!("at most the {there} bytes of the files"), format!("tensors of {claimed} bytes"))
    })
}

/// A tensor's name without the numbers of layers and experts: `blk.*.attn_q.weight`.
pub fn role(name: &str) -> String {
    let word = |part| if str::bytes(part).all(|b| b.is_ascii_digit()) { "*" } else { part };
    name.split('.').map(word).collect::<Vec<_>>().join(".")
}
