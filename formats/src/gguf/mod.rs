//! GGUF: one file, or a split set, that carries metadata, vocabulary and tensors.
//!
//! The header is read by offset, never mapped. [`scan`] reads numbers and lengths, [`header`] the metadata,
//! [`entries`] the tensors' entries, [`split`] the parts of a set; [`value`] holds the kinds of values and the
//! arrays, which stay in the file; [`endian`] turns big-endian data round.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

mod endian;
mod entries;
mod header;
mod plan;
mod scan;
mod split;
mod value;

use scantling_core::bundle::{Bundle, File, Folder};
use scantling_core::config::Config;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Finding, Severity};
use scantling_core::index::{Rules, Shard, TensorIndex, TensorInfo};
use scantling_core::metadata::Metadata;
use scantling_core::source::{Candidate, Confidence, Dialect, FormatPlugin, WeightSource};
use std::borrow::Cow;
use std::io;
use std::sync::Arc;
use value::Order;

const PLUGIN: FormatPlugin = FormatPlugin {
    name: "gguf",
    summary: "GGUF versions 2 and 3, in one file or split, little- and big-endian",
    extensions: &["gguf"],
    probe,
    find,
    open,
    plan: Some(plan::plan),
};

/// The plugin, for programs that make their registry by hand.
pub static GGUF: FormatPlugin = PLUGIN;

scantling_core::inventory::submit! { PLUGIN }

fn probe(name: &str, head: &[u8], _len: u64) -> Confidence {
    if head.starts_with(b"GGUF") {
        Confidence::Magic
    } else if split::has_suffix(name) {
        Confidence::Name
    } else {
        Confidence::No
    }
}

fn find(_folder: &Folder, names: &[String]) -> Result<Vec<Candidate>> {
    Ok(split::candidates(names))
}

fn open(bundle: &Bundle) -> Result<Box<dyn WeightSource>> {
    let split::Set { parts, mut findings } = split::read(bundle)?;
    let mut source = Source {
        folder: bundle.folder().clone(),
        files: Vec::new(),
        orders: Vec::new(),
        version: 0,
        alignment: 0,
        metadata: Arc::default(),
        main: 0,
        tensors: TensorIndex::default(),
        findings: Vec::new(),
    };
    let mut shards = Vec::new();
    let mut declared = Vec::new();
    // Parts may differ in their alignment: only the first states one, and a splitter may pad the others by
    // the default. What all offsets are multiples of is then the least, as they are powers of two.
    let mut alignment = u64::MAX;
    for part in parts {
        let mut data_start = part.file.len();
        let mut order = Order::Little;
        if let Some(header) = part.header {
            data_start = header.data_start;
            order = header.order;
            if !header.tensors.is_empty() {
                alignment = alignment.min(header.alignment);
            }
            declared.extend(header.tensors);
            // Only the first part carries the metadata.
            if source.version == 0 {
                source.version = header.version;
                source.alignment = header.alignment;
                source.metadata = Arc::new(header.metadata);
                source.main = source.files.len();
            }
        }
        source.files.push(part.file.clone());
        source.orders.push(order);
        shards.push(Shard { file: part.file, data_start });
    }
    let alignment = if alignment == u64::MAX { source.alignment } else { alignment };
    let rules = Rules { gap: Severity::Warning, trailing: Severity::Warning, alignment };
    source.tensors = TensorIndex::new(&shards, declared, &rules, &mut findings);
    source.findings = findings.into_vec();
    Ok(Box::new(source))
}

/// An opened GGUF file, or all parts of a split one.
struct Source {
    folder: Folder,
    files: Vec<Arc<File>>,
    /// Byte order of each file.
    orders: Vec<Order>,
    version: u32,
    alignment: u64,
    metadata: Arc<Metadata>,
    /// The file that the metadata is from.
    main: usize,
    tensors: TensorIndex,
    findings: Vec<Finding>,
}

impl Source {
    fn order(&self, file: usize) -> Order {
        self.orders.get(file).copied().unwrap_or(Order::Little)
    }

    fn main_name(&self) -> &str {
        self.files.get(self.main).map_or("", |f| f.name())
    }
}

impl WeightSource for Source {
    fn format(&self) -> String {
        match self.order(self.main) {
            Order::Little => format!("GGUF v{}", self.version),
            Order::Big => format!("GGUF v{} (big-endian)", self.version),
        }
    }

    fn dialect(&self) -> Dialect {
        Dialect::Gguf
    }

    fn files(&self) -> &[Arc<File>] {
        &self.files
    }

    fn tensors(&self) -> &TensorIndex {
        &self.tensors
    }

    fn bytes(&self, tensor: &TensorInfo) -> Result<Cow<'_, [u8]>> {
        let unreadable = |why: &str| {
            let name = self.files.get(tensor.shard).map_or(self.main_name(), |f| f.name());
            let why = format!("{}: {why}", tensor.name);
            Error::io(name, "cannot read tensor data", io::Error::other(why))
        };
        let (Some(file), Some(range)) = (self.files.get(tensor.shard), tensor.bytes.clone()) else {
            return Err(unreadable("where it lies is not known, see the findings"));
        };
        let bytes = file.bytes(range)?;
        if self.order(tensor.shard) == Order::Little {
            return Ok(Cow::Borrowed(bytes));
        }
        let mut bytes = bytes.to_vec();
        match tensor.dtype.known() {
            Some(dtype) if endian::swap(dtype, &mut bytes) => Ok(Cow::Owned(bytes)),
            _ => Err(unreadable("the byte order of its element type is not known")),
        }
    }

    fn is_big_endian(&self, tensor: &TensorInfo) -> bool {
        self.order(tensor.shard) == Order::Big
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn config(&self) -> Result<Option<Config>> {
        Ok(Some(Config::from_gguf(self.main_name(), self.metadata.clone())))
    }

    fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn beside(&self, name: &str) -> Result<Option<File>> {
        self.folder.file(name)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        vec![
            ("version", self.version.to_string()),
            ("byte order", self.order(self.main).word().to_owned()),
            ("alignment", self.alignment.to_string()),
            ("metadata keys", self.metadata.len().to_string()),
            ("parts", self.files.len().to_string()),
        ]
    }
}
