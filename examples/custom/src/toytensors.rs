//! The `.toytensors` format: a header of names, shapes and offsets, then 32-bit floats.
//!
//! All numbers are little-endian.
//!
//! ```text
//! magic    4 bytes   TOY1
//! count    u32       number of tensors
//! entries  count ×   name length u16, name, rank u8, rank × length u64 (outermost first), offset u64
//! data               each tensor's F32 from its offset on, counted from the end of the header
//! ```
//!
//! The hyperparameters are in a `config.json` beside the file, and the tensors have Hugging Face names.
//!
//! The reader turns bytes into declarations and judges nothing that [`TensorIndex`] judges: sizes, bounds,
//! overlaps, gaps and names are found there, alike for every format.

// A reader meets files that strangers wrote: nothing in it may be able to panic.
#![warn(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![warn(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use scantling_core::bundle::{Bundle, Cursor, File, Folder};
use scantling_core::codes;
use scantling_core::config::{Config, MAX_CONFIG_BYTES};
use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Finding, Findings, Severity};
use scantling_core::index::{Declared, ElementType, Rules, Shard, TensorIndex, TensorInfo};
use scantling_core::inventory;
use scantling_core::metadata::Metadata;
use scantling_core::source::{Candidate, Confidence, Dialect, FormatPlugin, Plan, TensorSpec, WeightSource};
use std::borrow::Cow;
use std::sync::Arc;

/// The format.
pub const TOYTENSORS: FormatPlugin = FormatPlugin {
    name: "toytensors",
    summary: "toy: names, shapes and offsets, then F32",
    extensions: &["toytensors"],
    probe,
    find,
    open,
    plan: Some(plan),
};

inventory::submit! { TOYTENSORS }

codes! {
    pub static TOY_HEADER = Error, Container, "toytensors-header",
        "the header of a .toytensors file is damaged",
        "The header ends in the middle of an entry, or a name is not UTF-8, so the tensors after it cannot be told. \
         Fetch the file again, or write it anew.";
}

const MAGIC: &[u8; 4] = b"TOY1";

/// The tensors lie back to back: what lies between or after them is odd, and does not keep them from being read.
const RULES: Rules = Rules { gap: Severity::Warning, trailing: Severity::Warning, alignment: 1 };

fn probe(name: &str, head: &[u8], _len: u64) -> Confidence {
    if head.starts_with(MAGIC) {
        Confidence::Magic
    } else if name.ends_with(".toytensors") {
        Confidence::Name
    } else {
        Confidence::No
    }
}

fn find(_folder: &Folder, names: &[String]) -> Result<Vec<Candidate>> {
    let mine = names.iter().filter(|name| name.ends_with(".toytensors"));
    Ok(mine.map(|name| Candidate { file: name.clone(), what: "toytensors".into() }).collect())
}

fn open(bundle: &Bundle) -> Result<Box<dyn WeightSource>> {
    let file = bundle.file().clone();
    let (declared, data_start) = Header { file: &file, cursor: Cursor::new(&file, 0)? }.read()?;
    let shards = [Shard { file: file.clone(), data_start }];
    let mut findings = Findings::new();
    let tensors = TensorIndex::new(&shards, declared, &RULES, &mut findings);
    Ok(Box::new(ToyTensors {
        bundle: bundle.clone(),
        files: [file],
        tensors,
        metadata: Metadata::default(),
        findings: findings.into_vec(),
    }))
}

/// A header while it is read. No number in it is trusted: memory grows only with bytes that are really there.
struct Header<'a> {
    file: &'a File,
    cursor: Cursor<'a>,
}

impl Header<'_> {
    fn read(&mut self) -> Result<(Vec<Declared>, u64)> {
        if self.bytes::<4>("the magic")? != *MAGIC {
            return Err(self.damaged("does not begin with TOY1", 0));
        }
        let count = u32::from_le_bytes(self.bytes("the number of tensors")?);
        let mut declared = Vec::new();
        for _ in 0..count {
            declared.push(self.entry()?);
        }
        Ok((declared, self.cursor.offset()))
    }

    fn entry(&mut self) -> Result<Declared> {
        let entry_at = self.cursor.offset();
        let length = u16::from_le_bytes(self.bytes("the length of a name")?);
        let name = match self.cursor.take(usize::from(length))? {
            Some(name) => String::from_utf8(name.to_vec()),
            None => return Err(self.ends_in("a name")),
        };
        let name = name.map_err(|_| self.damaged("a name is not UTF-8", entry_at))?;
        let [rank] = self.bytes("a number of axes")?;
        let mut shape = Vec::new();
        for _ in 0..rank {
            shape.push(u64::from_le_bytes(self.bytes("a shape")?));
        }
        let start = u64::from_le_bytes(self.bytes("an offset")?);
        let dtype = ElementType::Known(DType::F32);
        Ok(Declared { name, dtype, shape, start, end: None, shard: 0, entry_at })
    }

    fn bytes<const N: usize>(&mut self, what: &str) -> Result<[u8; N]> {
        match self.cursor.take(N)?.and_then(|bytes| bytes.try_into().ok()) {
            Some(bytes) => Ok(bytes),
            None => Err(self.ends_in(what)),
        }
    }

    fn ends_in(&self, what: &str) -> Error {
        self.damaged(&format!("the file ends in {what}"), self.cursor.offset())
    }

    fn damaged(&self, what: &str, at: u64) -> Error {
        Error::malformed(Finding::new(&TOY_HEADER, what).file(self.file.name()).at(at))
    }
}

/// An opened file.
struct ToyTensors {
    bundle: Bundle,
    files: [Arc<File>; 1],
    tensors: TensorIndex,
    /// The format has none.
    metadata: Metadata,
    findings: Vec<Finding>,
}

impl WeightSource for ToyTensors {
    fn format(&self) -> String {
        "toytensors v1".to_owned()
    }

    fn dialect(&self) -> Dialect {
        Dialect::Hf
    }

    fn files(&self) -> &[Arc<File>] {
        &self.files
    }

    fn tensors(&self) -> &TensorIndex {
        &self.tensors
    }

    fn bytes(&self, tensor: &TensorInfo) -> Result<Cow<'_, [u8]>> {
        match &tensor.bytes {
            Some(range) => Ok(Cow::Borrowed(self.bundle.file().bytes(range.clone())?)),
            None => Err(Error::Usage(format!("the bytes of {} are not in the file", tensor.name))),
        }
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn config(&self) -> Result<Option<Config>> {
        match self.beside("config.json")? {
            Some(file) => Config::from_json(file.name(), &file.read_all(MAX_CONFIG_BYTES)?).map(Some),
            None => Ok(None),
        }
    }

    fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn beside(&self, name: &str) -> Result<Option<File>> {
        self.bundle.folder().file(name)
    }
}

fn plan(_metadata: &Metadata, specs: &[TensorSpec]) -> Result<Plan> {
    let too_large = |name: &str| Error::Usage(format!("{name} is too large for a .toytensors file"));
    let count = u32::try_from(specs.len()).map_err(|_| too_large("the number of tensors"))?;
    let mut header = [&MAGIC[..], &count.to_le_bytes()].concat();
    let mut offsets = Vec::new();
    let mut end = 0u64;
    for spec in specs {
        if spec.dtype != DType::F32 {
            let what = format!("{} is {}, but a .toytensors file holds F32 only", spec.name, spec.dtype);
            return Err(Error::Usage(what));
        }
        let length = u16::try_from(spec.name.len()).map_err(|_| too_large("a name"))?;
        let rank = u8::try_from(spec.shape.len()).map_err(|_| too_large(&spec.name))?;
        header.extend(length.to_le_bytes());
        header.extend(spec.name.as_bytes());
        header.push(rank);
        spec.shape.iter().for_each(|&axis| header.extend((axis as u64).to_le_bytes()));
        header.extend(end.to_le_bytes());
        offsets.push(end);
        let size = DType::F32.byte_len(&spec.shape).map_err(|_| too_large(&spec.name))?;
        end = end.checked_add(size).ok_or_else(|| too_large(&spec.name))?;
    }
    // The data follows the header, whose length is known only now.
    let start = header.len() as u64;
    let len = start.checked_add(end).ok_or_else(|| too_large("the file"))?;
    let offsets = offsets.into_iter().map(|offset| start.saturating_add(offset)).collect();
    Ok(Plan { header, offsets, len })
}
