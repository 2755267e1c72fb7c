//! The entries of the tensors: name, shape, element type, offset. What they amount to is judged by
//! [`TensorIndex`](scantling_core::index::TensorIndex).

use super::header::{GGUF_NAME, name};
use super::scan::{Scan, Scanned, lost};
use scantling_core::codes;
use scantling_core::dtype::{DType, GgmlTypeError};
use scantling_core::finding::{Findings, Severity};
use scantling_core::index::{Declared, ElementType};

codes! {
    pub(super) static GGUF_TENSOR_ENTRY = Error, Container, "gguf-tensor-entry",
        "the entry of a tensor is not what it should be",
        "A tensor of GGUF has at most 4 dimensions, each below 2^63. More dimensions cannot be held by ggml; a \
         number of them in the thousands is no entry at all, but the sign of a damaged header.";
    pub(super) static GGUF_ORDER = Warning, Container, "gguf-order",
        "the data is not in the order of the entries",
        "The text of the format lets the data of tensors lie in any order. llama.cpp demands that each offset be \
         the sum of the padded sizes before it, and refuses other files. Write the file again with a usual tool \
         if it is to be loaded there.";
}

/// The fewest bytes an entry takes: length of the name, number of dimensions, element type, offset.
pub(super) const LEAST: u64 = 24;

/// Longest name of a tensor that the text of the format allows.
const LONGEST_NAME: u64 = 64;

/// Dimensions that ggml has room for.
const MAX_RANK: u32 = 4;

/// Dimensions up to which an entry is read on, to find what else is wrong; beyond, it is not an entry.
const READABLE_RANK: u32 = 64;

/// Reads all entries; `count` of them have been found to fit into the file.
pub(super) fn read(
    scan: &mut Scan<'_>,
    count: u64,
    shard: usize,
    findings: &mut Findings,
) -> Scanned<Vec<Declared>> {
    let most = count.min(scan.left().checked_div(LEAST).unwrap_or(0));
    let mut entries: Vec<Declared> = Vec::with_capacity(usize::try_from(most).unwrap_or(0));
    let mut unordered = None;
    for i in 1..=count {
        let entry = entry(scan, i, count, shard, findings)?;
        if unordered.is_none() && entries.last().is_some_and(|before| before.start > entry.start) {
            unordered = Some((entry.entry_at, entry.name.clone()));
        }
        entries.push(entry);
    }
    if let Some((at, tensor)) = unordered {
        let message = "its data lies before that of the entry before it, which llama.cpp refuses to load";
        findings.push(scan.finding(&GGUF_ORDER, at, message).tensor(tensor));
    }
    Ok(entries)
}

fn entry(
    scan: &mut Scan<'_>,
    i: u64,
    count: u64,
    shard: usize,
    findings: &mut Findings,
) -> Scanned<Declared> {
    let entry_at = scan.offset();
    let name = tensor_name(scan, i, count, findings)?;
    let rank_at = scan.offset();
    let rank = scan.u32(format_args!("the number of dimensions of {name}"))?;
    if rank > MAX_RANK {
        let f = scan.finding(&GGUF_TENSOR_ENTRY, rank_at, "too many dimensions").tensor(&name);
        let f = f.versus(format!("at most {MAX_RANK} dimensions"), rank.to_string());
        if rank > READABLE_RANK {
            return Err(lost(f.advice("the header is damaged here: fetch the file again")));
        }
        findings.push(f);
    }
    let mut shape = Vec::with_capacity(usize::try_from(rank.min(READABLE_RANK)).unwrap_or(0));
    for _ in 0..rank {
        shape.push(scan.u64(format_args!("a dimension of {name}"))?);
    }
    // The file has the innermost dimension first.
    shape.reverse();
    let negative = shape.iter().any(|&d| i64::try_from(d).is_err());
    if negative && shape.contains(&0) {
        // With an empty axis the index counts no elements, and has no cause to look at the others.
        let f = scan.finding(&GGUF_TENSOR_ENTRY, rank_at, "a dimension is 2^63 or more").tensor(&name);
        findings.push(f);
    }
    let id = scan.u32(format_args!("the element type of {name}"))?;
    let start = scan.u64(format_args!("the offset of {name}"))?;
    Ok(Declared { name, dtype: element_type(id), shape, start, end: None, shard, entry_at })
}

fn tensor_name(scan: &mut Scan<'_>, i: u64, count: u64, findings: &mut Findings) -> Scanned<String> {
    let at = scan.offset();
    let name = name(scan, LONGEST_NAME, format_args!("the name of tensor {i} of {count}"))?;
    let found = format!("{} bytes", name.len);
    if name.len > LONGEST_NAME {
        let f = scan.finding(&GGUF_NAME, at, "the name of the tensor is too long").tensor(&name.text);
        findings.push(f.versus(format!("at most {LONGEST_NAME} bytes"), found));
    } else if name.len == LONGEST_NAME {
        let f = scan.finding(&GGUF_NAME, at, "the name is longer than llama.cpp loads").tensor(&name.text);
        findings.push(f.severity(Severity::Warning).versus("at most 63 bytes", found));
    }
    if !name.utf8 {
        let f = scan.finding(&GGUF_NAME, at, "the name of the tensor is not UTF-8").tensor(&name.text);
        findings.push(f);
    }
    Ok(name.text)
}

/// The element type of a number; one that is not known is named by it, and by what it was.
fn element_type(id: u32) -> ElementType {
    match DType::from_ggml(id) {
        Ok(dtype) => ElementType::Known(dtype),
        Err(GgmlTypeError::Unknown(id)) => ElementType::Unknown(format!("ggml type {id}")),
        Err(other) => ElementType::Unknown(other.to_string()),
    }
}
