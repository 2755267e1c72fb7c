//! Lays out a new safetensors file as the reference writer does: wide elements first, then by name, so that
//! the data of every tensor is aligned to its elements without any padding.

use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::metadata::{Metadata, Value};
use scantling_core::source::{Plan, TensorSpec};
use std::cmp::Reverse;
use std::collections::HashSet;

/// The name that stands for the metadata.
const METADATA: &str = "__metadata__";

/// The header is padded to a multiple of this, and so the data begins at one.
const ALIGNMENT: usize = 8;

/// Longest header that the reference reader takes.
const MAX_HEADER: usize = 100_000_000;

/// Lays out a file. Metadata has to be text, the only kind that the format has.
pub(super) fn plan(metadata: &Metadata, specs: &[TensorSpec]) -> Result<Plan> {
    let mut names = HashSet::with_capacity(specs.len());
    let mut order = Vec::with_capacity(specs.len());
    for (i, spec) in specs.iter().enumerate() {
        if spec.name == METADATA {
            return Err(refusal(format!("no tensor can be named {METADATA}: it stands for the metadata")));
        }
        if !names.insert(spec.name.as_str()) {
            return Err(refusal(format!("{}: two tensors have this name", spec.name)));
        }
        order.push((Reverse(rank(spec)?), spec.name.as_str(), i));
    }
    order.sort_unstable();

    let mut header = vec![0; ALIGNMENT];
    header.push(b'{');
    describe(metadata, &mut header)?;
    let mut ranges = vec![0; specs.len()];
    let mut at = 0u64;
    for spec in order.iter().filter_map(|(_, _, i)| Some((specs.get(*i)?, *i))) {
        let (spec, i) = spec;
        let len = spec.dtype.byte_len(&spec.shape).map_err(|e| refusal(format!("{}: {e}", spec.name)))?;
        let end = at.checked_add(len).ok_or_else(too_long)?;
        separate(&mut header);
        text(&spec.name, &mut header);
        let (dtype, shape) = (spec.dtype.name(), &spec.shape);
        let entry = format!(r#":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{at},{end}]}}"#);
        header.extend(entry.bytes().filter(|b| *b != b' '));
        if let Some(range) = ranges.get_mut(i) {
            *range = at;
        }
        at = end;
    }
    header.push(b'}');
    header.resize(header.len().next_multiple_of(ALIGNMENT), b' ');
    let length = header.len().saturating_sub(ALIGNMENT);
    if length > MAX_HEADER {
        let what = format!("a header of {length} bytes");
        return Err(refusal(format!("{what} is more than readers take ({MAX_HEADER}): write several files")));
    }
    for (to, from) in header.iter_mut().zip((length as u64).to_le_bytes()) {
        *to = from;
    }
    let start = header.len() as u64;
    let absolute = |offset: u64| start.checked_add(offset).ok_or_else(too_long);
    let offsets = ranges.into_iter().map(absolute).collect::<Result<Vec<u64>>>()?;
    Ok(Plan { header, offsets, len: absolute(at)? })
}

/// Place of an element type in the order of the reference writer, which is one of width and then of its own.
fn rank(spec: &TensorSpec) -> Result<u8> {
    Ok(match spec.dtype {
        DType::BOOL => 0,
        DType::F4 => 1,
        DType::F6_E2M3 => 2,
        DType::F6_E3M2 => 3,
        DType::U8 => 4,
        DType::I8 => 5,
        DType::F8_E5M2 => 6,
        DType::F8_E4M3 => 7,
        DType::F8_E8M0 => 8,
        DType::F8_E4M3FNUZ => 9,
        DType::F8_E5M2FNUZ => 10,
        DType::I16 => 11,
        DType::U16 => 12,
        DType::F16 => 13,
        DType::BF16 => 14,
        DType::I32 => 15,
        DType::U32 => 16,
        DType::F32 => 17,
        DType::C64 => 18,
        DType::F64 => 19,
        DType::I64 => 20,
        DType::U64 => 21,
        other => return Err(refusal(format!("{}: safetensors has no element type {other}", spec.name))),
    })
}

fn describe(metadata: &Metadata, header: &mut Vec<u8>) -> Result<()> {
    if metadata.is_empty() {
        return Ok(());
    }
    text(METADATA, header);
    header.extend(b":{");
    for entry in metadata.entries() {
        let Value::Text(value) = &entry.value else {
            let what = format!("{} is {}", entry.key, entry.value.kind());
            return Err(refusal(format!("{what}: the metadata of safetensors holds only text")));
        };
        separate(header);
        text(&entry.key, header);
        header.push(b':');
        text(value, header);
    }
    header.push(b'}');
    Ok(())
}

/// A comma, unless an object has just been opened.
fn separate(header: &mut Vec<u8>) {
    if header.last() != Some(&b'{') {
        header.push(b',');
    }
}

/// A JSON string.
fn text(text: &str, header: &mut Vec<u8>) {
    header.extend(serde_json::Value::from(text).to_string().bytes());
}

fn refusal(why: String) -> Error {
    Error::Usage(why)
}

fn too_long() -> Error {
    refusal("the file would be longer than 64 bits can count".to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, clippy::arithmetic_side_effects)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use safetensors::tensor::{Dtype, SafeTensors, TensorView, serialize};
    use scantling_core::bundle::Bundle;
    use scantling_core::metadata::Entry;
    use std::collections::HashMap;

    fn metadata(pairs: &[(&str, &str)]) -> Metadata {
        let mut metadata = Metadata::default();
        for (key, value) in pairs {
            let value = Value::Text((*value).to_owned());
            metadata.push(Entry { key: (*key).into(), value, kind: "string".into(), at: None }).unwrap();
        }
        metadata
    }

    fn spec(name: &str, dtype: DType, shape: &[usize]) -> TensorSpec {
        TensorSpec { name: name.into(), dtype, shape: shape.to_vec() }
    }

    /// Bytes that differ between tensors and along each.
    fn data(i: usize, spec: &TensorSpec) -> Vec<u8> {
        let len = spec.dtype.byte_len(&spec.shape).unwrap();
        (0..len).map(|at| (at.wrapping_mul(7) as usize + 31 * i) as u8).collect()
    }

    fn filled(metadata: &Metadata, specs: &[TensorSpec]) -> Vec<u8> {
        let plan = plan(metadata, specs).unwrap();
        let mut file = plan.header;
        file.resize(plan.len as usize, 0);
        for (i, (spec, at)) in specs.iter().zip(&plan.offsets).enumerate() {
            let data = data(i, spec);
            file[*at as usize..][..data.len()].copy_from_slice(&data);
        }
        file
    }

    fn read_back(file: Vec<u8>, metadata: &Metadata, specs: &[TensorSpec]) {
        let bundle = Bundle::in_memory("model.safetensors", [("model.safetensors".into(), file)]).unwrap();
        let source = super::super::open(&bundle).unwrap();
        let severe = |f: &&scantling_core::finding::Finding| f.code.id != "tensor-unnamed";
        assert_eq!(source.findings().iter().filter(severe).map(ToString::to_string).next(), None);
        assert_eq!(source.tensors().len(), specs.len());
        for (i, spec) in specs.iter().enumerate() {
            let tensor = source.tensors().get(&spec.name).unwrap();
            assert_eq!((tensor.dtype.known(), &tensor.shape), (Some(spec.dtype), &spec.shape));
            assert_eq!(source.bytes(tensor).unwrap(), data(i, spec), "{}", spec.name);
        }
        let told = |m: &Metadata| -> Vec<(String, String)> {
            m.entries().iter().map(|e| (e.key.clone(), e.value.to_string())).collect()
        };
        assert_eq!(told(source.metadata()), told(metadata));
    }

    #[test]
    fn every_element_type_is_planned_and_read_back() {
        let types = DType::all().filter(|d| d.safetensors_name().is_some());
        let mut specs: Vec<TensorSpec> =
            types.map(|d| spec(&format!("layers.0.{}", d.name()), d, &[3, 4])).collect();
        specs.push(spec("a scalar", DType::F32, &[]));
        specs.push(spec("none", DType::BF16, &[0, 7]));
        specs.push(spec("q\"uo\\te\u{1}ß", DType::U8, &[1]));
        let metadata = metadata(&[("format", "pt"), ("ke\"y", "line\nline")]);
        let file = filled(&metadata, &specs);
        let start = 8 + u64::from_le_bytes(file[..8].try_into().unwrap());
        assert!(start.is_multiple_of(8));
        let plan = plan(&metadata, &specs).unwrap();
        for (spec, at) in specs.iter().zip(plan.offsets) {
            let width = (spec.dtype.bits_per_weight() as u64 / 8).max(1);
            assert!(at.is_multiple_of(width), "{} at {at}", spec.name);
        }
        read_back(file, &metadata, &specs);
    }

    #[test]
    fn the_file_is_byte_for_byte_that_of_the_reference_writer() {
        let types: HashMap<DType, Dtype> = [
            (DType::BOOL, Dtype::BOOL),
            (DType::U8, Dtype::U8),
            (DType::I8, Dtype::I8),
            (DType::F8_E5M2, Dtype::F8_E5M2),
            (DType::F8_E4M3, Dtype::F8_E4M3),
            (DType::F8_E8M0, Dtype::F8_E8M0),
            (DType::F8_E4M3FNUZ, Dtype::F8_E4M3FNUZ),
            (DType::F8_E5M2FNUZ, Dtype::F8_E5M2FNUZ),
            (DType::I16, Dtype::I16),
            (DType::U16, Dtype::U16),
            (DType::F16, Dtype::F16),
            (DType::BF16, Dtype::BF16),
            (DType::I32, Dtype::I32),
            (DType::U32, Dtype::U32),
            (DType::F32, Dtype::F32),
            (DType::C64, Dtype::C64),
            (DType::F64, Dtype::F64),
            (DType::I64, Dtype::I64),
            (DType::U64, Dtype::U64),
            (DType::F4, Dtype::F4),
            (DType::F6_E2M3, Dtype::F6_E2M3),
            (DType::F6_E3M2, Dtype::F6_E3M2),
        ]
        .into();
        let mut specs = Vec::new();
        for dtype in DType::all().filter(|d| types.contains_key(d)) {
            specs.push(spec(&format!("b.{dtype}"), dtype, &[4, 2]));
            specs.push(spec(&format!("a.{dtype}"), dtype, &[0]));
        }
        assert_eq!(specs.len(), 2 * 22);
        for named in [None, Some(metadata(&[("format", "pt")]))] {
            let all: Vec<Vec<u8>> = specs.iter().enumerate().map(|(i, s)| data(i, s)).collect();
            let mut views = Vec::new();
            for (spec, data) in specs.iter().zip(&all) {
                let view = TensorView::new(types[&spec.dtype], spec.shape.clone(), data).unwrap();
                views.push((spec.name.clone(), view));
            }
            let info = named.as_ref().map(|_| HashMap::from([("format".to_owned(), "pt".to_owned())]));
            let theirs = serialize(views, info).unwrap();
            assert_eq!(filled(&named.unwrap_or_default(), &specs), theirs);
        }
    }

    #[test]
    fn what_the_format_cannot_hold_is_refused_by_name() {
        let refused =
            |metadata: &Metadata, specs: &[TensorSpec]| plan(metadata, specs).unwrap_err().to_string();
        let none = Metadata::default();
        let twice = [spec("a", DType::F32, &[1]), spec("a", DType::F16, &[1])];
        assert_eq!(refused(&none, &twice), "a: two tensors have this name");
        let block = refused(&none, &[spec("w", DType::Q4_K, &[256])]);
        assert_eq!(block, "w: safetensors has no element type Q4_K");
        assert!(refused(&none, &[spec(METADATA, DType::F32, &[1])]).contains("stands for the metadata"));
        assert!(refused(&none, &[spec("odd", DType::F4, &[3])]).starts_with("odd: "));
        assert!(refused(&none, &[spec("big", DType::F32, &[usize::MAX, 2])]).starts_with("big: "));
        let half = spec("x", DType::U8, &[1 << 62]);
        let four: Vec<_> = (0..4).map(|i| TensorSpec { name: format!("x{i}"), ..half.clone() }).collect();
        assert!(refused(&none, &four).contains("64 bits"));
        let mut number = Metadata::default();
        let entry = Entry { key: "n".into(), value: Value::Unsigned(1), kind: "u32".into(), at: None };
        number.push(entry).unwrap();
        assert_eq!(refused(&number, &[]), "n is a whole number: the metadata of safetensors holds only text");
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_planned_and_filled_is_read_back(
            names in prop::collection::btree_set("[a-zß\"\\\\\u{7}.0-9]{0,12}", 0..8),
            dtypes in prop::collection::vec(0usize..22, 8),
            shapes in prop::collection::vec(prop::collection::vec(0usize..5, 0..4), 8),
            pairs in prop::collection::btree_map("[a-z\n\"]{1,8}", ".{0,12}", 0..4),
        ) {
            let types: Vec<DType> = DType::all().filter(|d| d.safetensors_name().is_some()).collect();
            let specs: Vec<TensorSpec> = names.iter().zip(dtypes).zip(&shapes)
                .map(|((name, dtype), shape)| spec(name, types[dtype], shape))
                .filter(|s| s.dtype.byte_len(&s.shape).is_ok())
                .collect();
            let pairs: Vec<(&str, &str)> = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
            let metadata = metadata(&pairs);
            let file = filled(&metadata, &specs);
            prop_assert_eq!(SafeTensors::deserialize(&file).unwrap().len(), specs.len());
            read_back(file, &metadata, &specs);
        }
    }
}
