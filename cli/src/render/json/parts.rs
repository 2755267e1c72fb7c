//! The pieces of a report as JSON values.

use crate::render::json::Each;
use scantling_core::bundle::File;
use scantling_core::config::{Fact, Origin};
use scantling_core::finding::Finding;
use scantling_core::index::TensorInfo;
use scantling_core::metadata::{Entry, Value as Stored};
use scantling_core::report::{
    Container, Counts, Likeness, Model, Outside, Row, RowPart, Section, SectionPlace, TypeShare, Vocabulary,
};
use scantling_core::source::Dialect;
use scantling_core::table::Use;
use serde::ser::SerializeMap;
use serde::{Serialize, Serializer};
use serde_json::{Map, Value, json};
use std::sync::Arc;

/// Elements up to which a list of metadata goes in whole.
const ITEMS: usize = 32;

pub(super) fn container(container: &Container) -> Value {
    let files: Vec<Value> =
        container.files.iter().map(|(name, len)| json!({"name": name, "bytes": len})).collect();
    let facts: Map<String, Value> =
        container.facts.iter().map(|(key, value)| ((*key).to_owned(), json!(value))).collect();
    let dialect = match container.dialect {
        Dialect::Hf => "hf",
        Dialect::Gguf => "gguf",
    };
    json!({
        "format": container.format,
        "dialect": dialect,
        "bytes": container.bytes(),
        "files": files,
        "facts": facts,
    })
}

pub(super) fn model(model: &Model) -> Value {
    json!({
        "family": model.family,
        "architecture": model.architecture,
        "config": model.config,
        "special": model.special,
        "packing": model.packing,
    })
}

pub(super) fn fact(fact: &Fact) -> Value {
    let (origin, derived) = match &fact.origin {
        Origin::File => ("file", None),
        Origin::Default => ("default", None),
        Origin::Derived(how) => ("derived", Some(how)),
        Origin::Assumed => ("assumed", None),
    };
    json!({
        "name": fact.name,
        "symbol": fact.symbol,
        "meaning": fact.meaning,
        "value": stored(&fact.value, false),
        "origin": origin,
        "derived": derived,
        "dimension": fact.dimension,
        "note": fact.note,
    })
}

/// A section, whose rows are made one after the other: where no two tensors are alike, each has one.
pub(super) struct Rows<'a>(pub &'a Section);

impl Serialize for Rows<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut section = serializer.serialize_map(None)?;
        let place = match &self.0.place {
            SectionPlace::Global => "global",
            SectionPlace::Final => "final",
            SectionPlace::Unexpected => "unexpected",
            SectionPlace::Outside => "outside",
            SectionPlace::Layers { .. } => "layers",
        };
        section.serialize_entry("place", place)?;
        if let SectionPlace::Layers { prefix, layers, alike } = &self.0.place {
            section.serialize_entry("prefix", prefix)?;
            section.serialize_entry("layers", layers)?;
            section.serialize_entry("alike", alike)?;
        }
        section.serialize_entry("rows", &Each(|| self.0.rows.iter().map(row)))?;
        section.end()
    }
}

fn row(row: &Row) -> Value {
    let mut object = json!({
        "name": row.name,
        "dtype": row.dtype,
        "shape": row.shape,
        "elements": row.elements,
        "tensors": row.tensors,
        "layers": row.layers,
        "usage": row.usage.map(self::usage),
        "tied": row.tied,
    });
    if !row.parts.is_empty() {
        let part =
            |p: &RowPart| json!({"name": p.name, "dtype": p.dtype, "shape": p.shape, "bytes": p.bytes});
        object["parts"] = row.parts.iter().map(part).collect();
        object["bits_per_weight"] = json!(row.bits_per_weight());
    }
    object
}

pub(super) fn usage(usage: Use) -> &'static str {
    match usage {
        Use::Embedding => "embedding",
        Use::Matrix => "matrix",
        Use::Scale => "scale",
        Use::Bias => "bias",
        Use::Helper => "helper",
    }
}

pub(super) fn outside(outside: &Outside) -> Value {
    json!({"part": outside.part, "tensors": outside.tensors, "bytes": outside.bytes})
}

pub(super) fn likeness(likeness: &Likeness) -> Value {
    let sizes = likeness.sizes.iter().map(|size| {
        json!({"symbol": size.symbol, "meaning": size.meaning, "value": size.value, "from": size.from})
    });
    let nearest = likeness.nearest.as_ref().map(|near| {
        json!({"architectures": near.families, "shared": near.shared, "more": near.more, "less": near.less})
    });
    json!({
        "prefix": likeness.prefix,
        "sizes": sizes.collect::<Vec<_>>(),
        "not_in_shapes": likeness.hidden,
        "nearest": nearest,
    })
}

pub(super) fn share(share: &TypeShare) -> Value {
    json!({
        "dtype": share.dtype,
        "tensors": share.tensors,
        "elements": share.elements,
        "bytes": share.bytes,
    })
}

pub(super) fn counts(counts: &Counts) -> Value {
    json!({
        "tensors": counts.tensors,
        "bytes": counts.bytes,
        "stored": counts.stored,
        "logical": counts.logical,
        "embedding": counts.embedding,
        "expected": counts.expected,
    })
}

pub(super) fn vocabulary(vocabulary: &Vocabulary) -> Value {
    json!({
        "file": vocabulary.file,
        "model": vocabulary.model,
        "pre": vocabulary.pre,
        "tokens": vocabulary.tokens,
        "merges": vocabulary.merges,
        "chat_template": vocabulary.chat_template,
    })
}

pub(super) fn tensor(files: &[Arc<File>], tensor: &TensorInfo) -> Value {
    let known = tensor.stored().iter().all(|t| t.bytes.is_some());
    let mut object = json!({
        "name": tensor.name,
        "dtype": tensor.dtype.to_string(),
        "shape": tensor.shape,
        "file": files.get(tensor.shard).map(|f| f.name()),
        "offset": tensor.bytes.as_ref().map(|r| r.start),
        "bytes": known.then(|| tensor.byte_len()),
        "elements": tensor.elements(),
    });
    if tensor.is_packed() {
        object["parts"] = tensor.parts.iter().map(|part| self::tensor(files, part)).collect();
        object["bits_per_weight"] = json!(tensor.bits_per_weight());
    }
    object
}

pub(super) fn entry(entry: &Entry, full: bool) -> Value {
    json!({
        "key": entry.key,
        "kind": entry.kind,
        "offset": entry.at,
        "value": stored(&entry.value, full),
    })
}

pub(super) fn finding(finding: &Finding) -> Value {
    let place = &finding.place;
    json!({
        "code": finding.code.id,
        "severity": finding.severity.word(),
        "part": finding.code.part.word(),
        "place": {
            "file": place.file,
            "tensor": place.tensor,
            "field": place.field,
            "offset": place.offset,
        },
        "message": finding.message,
        "expected": finding.expected,
        "found": finding.found,
        "advice": finding.advice,
        "symptoms": finding.symptoms.iter().map(self::finding).collect::<Vec<_>>(),
    })
}

/// A stored value. What JSON cannot hold stands there as text or as an object that says what it is.
pub(super) fn stored(value: &Stored, full: bool) -> Value {
    match value {
        Stored::Null => Value::Null,
        Stored::Bool(b) => json!(b),
        Stored::Unsigned(n) => json!(n),
        Stored::Signed(n) => json!(n),
        Stored::Float(x) => number(*x),
        Stored::Text(text) => json!(text),
        Stored::Bytes(bytes) => json!({"bytes": bytes.escape_ascii().to_string()}),
        Stored::Long { len } => json!({"text_bytes": len}),
        Stored::List(list) => {
            let whole = full || list.len() <= ITEMS as u64;
            let items = value.first_items(if whole { usize::MAX } else { ITEMS });
            match items {
                Ok(items) => {
                    let items: Vec<Value> = items.iter().map(|v| stored(v, full)).collect();
                    if whole {
                        Value::Array(items)
                    } else {
                        json!({"length": list.len(), "kind": list.kind(), "first": items})
                    }
                }
                Err(error) => json!({"unreadable": error.to_string()}),
            }
        }
    }
}

/// A number, with no more digits than f32 needs where it is one.
pub(super) fn narrow(x: f64) -> Value {
    let short = x as f32;
    if f64::from(short) == x { json!(short) } else { number(x) }
}

/// A number, or the name of what is none.
pub(super) fn number(x: f64) -> Value {
    match x {
        x if x.is_finite() => json!(x),
        x if x.is_nan() => json!("NaN"),
        x if x > 0.0 => json!("Infinity"),
        _ => json!("-Infinity"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_json_cannot_hold_is_named() {
        assert_eq!(number(f64::NAN), json!("NaN"));
        assert_eq!(number(f64::NEG_INFINITY), json!("-Infinity"));
        assert_eq!(number(1e-6), json!(1e-6));
        assert_eq!(stored(&Stored::Unsigned(u64::MAX), false).to_string(), u64::MAX.to_string());
        assert_eq!(stored(&Stored::Bytes(vec![0xff]), false), json!({"bytes": "\\xff"}));
    }
}
