//! The opened weights: one file or several that act as one.

use super::header::Header;
use scantling_core::bundle::{File, Folder};
use scantling_core::codes;
use scantling_core::config::{Config, MAX_CONFIG_BYTES};
use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Finding, Findings, Severity};
use scantling_core::index::{
    DATA_GAP, ElementType, Rules, Shard, TENSOR_OUTSIDE, TENSOR_TYPE_UNKNOWN, TensorIndex, TensorInfo,
};
use scantling_core::metadata::Metadata;
use scantling_core::source::{Dialect, WeightSource};
use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;

codes! {
    pub static EMPTY_INSIDE = Error, Container, "safetensors-empty-inside",
        "an empty tensor stands inside another one",
        "A tensor without bytes still has its place in the row of tensors: where one ends and the next begins. \
         The reference reader refuses a file that puts it elsewhere. Nothing is lost with it; write the file \
         again.";
}

/// The format allows no byte that belongs to no tensor, and asks for no alignment.
const RULES: Rules = Rules { gap: Severity::Error, trailing: Severity::Error, alignment: 1 };

/// An opened set of safetensors files.
pub(super) struct Source {
    folder: Folder,
    files: Vec<Arc<File>>,
    /// All tensors.
    pub index: TensorIndex,
    metadata: Metadata,
    header_bytes: u64,
    findings: Vec<Finding>,
}

/// Puts files with their headers together and has the index judge their tensors.
pub(super) fn judge(folder: &Folder, parts: Vec<(Arc<File>, Header)>, findings: &mut Findings) -> Source {
    let count = parts.iter().fold(0usize, |n, (_, h)| n.saturating_add(h.tensors.len()));
    let mut declared = Vec::with_capacity(count);
    let mut shards = Vec::with_capacity(parts.len());
    let mut metadata = Metadata::default();
    let mut header_bytes = 0u64;
    for (i, (file, mut header)) in parts.into_iter().enumerate() {
        header.tensors.iter_mut().for_each(|t| t.shard = i);
        declared.append(&mut header.tensors);
        header_bytes = header_bytes.saturating_add(header.data_start);
        for entry in header.metadata.entries() {
            // Every shard says the same of the whole; where one does not, the first is heard.
            let _ = metadata.push(entry.clone());
        }
        shards.push(Shard { file, data_start: header.data_start });
    }
    let index = TensorIndex::new(&shards, declared, &RULES, findings);
    empty_inside(&shards, &index, findings);
    let files = shards.into_iter().map(|s| s.file).collect();
    Source { folder: folder.clone(), files, index, metadata, header_bytes, findings: Vec::new() }
}

/// An empty tensor shares no byte with another and leaves no gap, so the index has nothing to say of where
/// it stands. This format's reference reader does.
fn empty_inside(shards: &[Shard], index: &TensorIndex, findings: &mut Findings) {
    let placed = || index.tensors().iter().filter_map(|t| Some((t, t.bytes.clone()?)));
    if !placed().any(|(_, r)| r.is_empty()) {
        return;
    }
    let filled = placed().filter(|(_, r)| !r.is_empty());
    let mut filled: Vec<_> = filled.map(|(t, r)| (t.shard, r.start, r.end, t)).collect();
    filled.sort_unstable_by_key(|(shard, start, ..)| (*shard, *start));
    for (tensor, range) in placed().filter(|(_, r)| r.is_empty()) {
        let before =
            filled.partition_point(|(shard, start, ..)| (*shard, *start) < (tensor.shard, range.start));
        let around = before.checked_sub(1).and_then(|i| filled.get(i));
        let Some((shard, _, end, other)) = around else { continue };
        if *shard != tensor.shard || *end <= range.start {
            continue;
        }
        let file = shards.get(tensor.shard).map_or("", |s| s.file.name());
        let f = Finding::new(&EMPTY_INSIDE, format!("stands inside the bytes of {}", other.name));
        findings.push(f.file(file).at(tensor.entry_at).tensor(&tensor.name));
    }
}

/// Whether an entry's type stands for a fault that has been reported.
fn nameless(dtype: &ElementType) -> bool {
    matches!(dtype, ElementType::Unknown(name) if name.is_empty())
}

impl Source {
    /// With all that was found.
    pub fn settle(mut self, findings: Findings) -> Source {
        self.findings = findings.into_vec();
        // Bytes that no entry lays claim to may be those of one whose range could not be read.
        let lost = self.index.tensors().iter().filter(|t| t.bytes.is_none() && nameless(&t.dtype));
        let lost: HashSet<usize> = lost.map(|t| t.shard).collect();
        let lost: Vec<&str> = lost.iter().filter_map(|&i| self.files.get(i)).map(|f| f.name()).collect();
        self.findings.retain(|f| {
            f.code.id != DATA_GAP.id || f.place.file.as_deref().is_none_or(|file| !lost.contains(&file))
        });
        for finding in self.findings.iter_mut().filter(|f| f.code.id == TENSOR_TYPE_UNKNOWN.id) {
            let tensor = finding.place.tensor.as_deref().and_then(|name| self.index.get(name));
            let Some(ElementType::Unknown(name)) = tensor.map(|t| &t.dtype) else { continue };
            let upper = name.to_ascii_uppercase();
            if DType::from_safetensors(&upper).is_some() {
                finding.advice = Some(format!("element types are written in upper case: {upper}"));
            }
        }
        self
    }

    /// Bytes of all tensors together; `None` if those of one cannot be told.
    pub fn tensor_bytes(&self) -> Option<u64> {
        let known = |t: &TensorInfo| t.bytes.as_ref().map(|_| t.byte_len());
        self.index.tensors().iter().try_fold(0u64, |sum, t| Some(sum.saturating_add(known(t)?)))
    }
}

impl WeightSource for Source {
    fn format(&self) -> String {
        "safetensors".into()
    }

    fn dialect(&self) -> Dialect {
        Dialect::Hf
    }

    fn files(&self) -> &[Arc<File>] {
        &self.files
    }

    fn tensors(&self) -> &TensorIndex {
        &self.index
    }

    fn bytes(&self, tensor: &TensorInfo) -> Result<Cow<'_, [u8]>> {
        let file = self.files.get(tensor.shard);
        let (Some(file), Some(range)) = (file, tensor.bytes.clone()) else {
            let f = Finding::new(&TENSOR_OUTSIDE, "its bytes cannot be told, or are not in the file");
            let f = f.file(file.map_or("", |f| f.name())).at(tensor.entry_at).tensor(&tensor.name);
            return Err(Error::malformed(f.advice("the findings on the file say why")));
        };
        if range.is_empty() {
            return Ok(Cow::Borrowed(&[]));
        }
        file.bytes(range).map(Cow::Borrowed)
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn config(&self) -> Result<Option<Config>> {
        const NAME: &str = "config.json";
        match self.folder.file(NAME)? {
            Some(file) => Config::from_json(NAME, &file.read_all(MAX_CONFIG_BYTES)?).map(Some),
            None => Ok(None),
        }
    }

    fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn beside(&self, name: &str) -> Result<Option<File>> {
        self.folder.file(name)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![("shards", self.files.len().to_string()), ("header bytes", self.header_bytes.to_string())]
    }
}
