//! safetensors: single files, and sharded sets with or without an index.

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod entry;
mod folder;
mod header;
mod numbered;
mod plan;
mod sharded;
mod source;
mod text;
mod weight_map;

use folder::Standing;
use numbered::{SUFFIX, split_suffix};
use scantling_core::bundle::Bundle;
use scantling_core::error::Result;
use scantling_core::finding::Findings;
use scantling_core::inventory;
use scantling_core::source::{Confidence, FormatPlugin, WeightSource};

const PLUGIN: FormatPlugin = FormatPlugin {
    name: "safetensors",
    summary: "safetensors, single files and sharded sets (Hugging Face)",
    extensions: &["safetensors", "safetensors.index.json"],
    probe,
    find: folder::find,
    open,
    plan: Some(plan::plan),
};

/// The safetensors format, for programs that register their plugins by hand.
pub static SAFETENSORS: FormatPlugin = PLUGIN;

inventory::submit! { PLUGIN }

/// What the name of every index ends in.
const INDEX_SUFFIX: &str = ".index.json";

/// Bytes that tell what a file is.
const HEAD: usize = 4096;

fn probe(name: &str, head: &[u8], len: u64) -> Confidence {
    if has_header(head, len) || has_index(name, head) {
        Confidence::Shape
    } else if split_suffix(name, SUFFIX).is_some() || split_suffix(name, INDEX_SUFFIX).is_some() {
        Confidence::Name
    } else {
        Confidence::No
    }
}

/// Whether the first bytes are the length of a header that the file has room for, and the header's '{'.
fn has_header(head: &[u8], len: u64) -> bool {
    let Some((length, rest)) = head.split_first_chunk() else { return false };
    let room = len.saturating_sub(header::LENGTH_BYTES);
    u64::from_le_bytes(*length) <= room && rest.first() == Some(&b'{')
}

/// Whether the first bytes are those of an index: of any JSON object under such a name, under others of one
/// that soon speaks of its weight_map.
fn has_index(name: &str, head: &[u8]) -> bool {
    const KEY: &[u8] = b"\"weight_map\"";
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let named = split_suffix(name, INDEX_SUFFIX).is_some();
    text.first() == Some(&b'{') && (named || head.windows(KEY.len()).any(|w| w == KEY))
}

fn open(bundle: &Bundle) -> Result<Box<dyn WeightSource>> {
    let file = bundle.file();
    let head = file.head(HEAD)?;
    let named = split_suffix(file.name(), INDEX_SUFFIX).is_some();
    if !has_header(&head, file.len()) && (named || has_index(file.name(), &head)) {
        return Ok(Box::new(sharded::from_index(bundle, None)?));
    }
    let mut findings = Findings::new();
    let source = match folder::standing(bundle, &mut findings) {
        Standing::Indexed(index) => sharded::from_index(&bundle.beside(&index)?, Some(file.name()))?,
        Standing::Numbered(names) => sharded::from_numbers(bundle, &names, findings)?,
        Standing::Alone => {
            let header = header::read(file, &mut findings)?;
            source::judge(bundle.folder(), vec![(file.clone(), header)], &mut findings).settle(findings)
        }
    };
    Ok(Box::new(source))
}
