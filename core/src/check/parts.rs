//! The stored tensors that make up packed weights, held against each other.

use super::tables::file_of;
use crate::error::Error;
use crate::finding::Finding;
use crate::index::TensorInfo;
use crate::packed::PART_UNREADABLE;
use crate::source::WeightSource;
use std::collections::HashMap;

/// What is wrong with the parts of all packed weights; what many have in common is told once.
pub(super) fn check(source: &dyn WeightSource) -> Vec<Finding> {
    let packed = source.tensors().tensors().iter().filter(|t| t.is_packed());
    // A part whose bytes are not there was told with its file.
    let whole = packed.filter(|t| t.parts.iter().all(|part| part.bytes.is_some()));
    fold(whole.flat_map(|tensor| of(source, tensor)))
}

fn of(source: &dyn WeightSource, tensor: &TensorInfo) -> Vec<Finding> {
    match source.packed(tensor) {
        Ok(_) => Vec::new(),
        Err(Error::Malformed { findings }) => findings,
        Err(other) => {
            let f = Finding::new(&PART_UNREADABLE, other.to_string()).tensor(&tensor.name);
            vec![f.file(file_of(source, tensor))]
        }
    }
}

/// Findings that say the same of different tensors become one with the others under it.
fn fold(findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut heads: Vec<Finding> = Vec::new();
    let mut known: HashMap<(&str, String), usize> = HashMap::new();
    for finding in findings {
        let key = (finding.code.id, finding.message.clone());
        match known.get(&key).and_then(|&i| heads.get_mut(i)) {
            Some(head) => head.symptoms.push(finding),
            None => {
                known.insert(key, heads.len());
                heads.push(finding);
            }
        }
    }
    for head in heads.iter_mut().filter(|head| !head.symptoms.is_empty()) {
        let first = Finding { symptoms: Vec::new(), ..head.clone() };
        let tensors = head.symptoms.len().saturating_add(1);
        head.message = format!("{}, in {tensors} tensors", head.message);
        head.symptoms.insert(0, first);
        head.symptoms.truncate(crate::finding::Findings::KEPT);
    }
    heads
}
