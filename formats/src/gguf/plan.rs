//! Lays out a new GGUF file: version 3, little-endian, data in the order of the entries, as llama.cpp wants it.

use super::value::Kind;
use scantling_core::error::{Error, Result};
use scantling_core::metadata::{Entry, Item, List, Metadata, Value};
use scantling_core::source::{Plan, TensorSpec};
use std::collections::HashSet;
use std::ops::ControlFlow;

const VERSION: u32 = 3;

/// What offsets are multiples of unless the metadata says otherwise.
const ALIGNMENT: u64 = 32;

/// llama.cpp keeps a name in 64 bytes with a zero at the end.
const LONGEST_NAME: usize = 63;

/// Longest key that the text of the format allows.
const LONGEST_KEY: usize = 65_535;

/// Axes that ggml has room for.
const MAX_RANK: usize = 4;

/// Arrays within arrays; no real file has any, and readers bound them too.
const MAX_DEPTH: u32 = 8;

/// Lays out a file. Each metadata entry is written as the kind that it names (`u32`, `array[string]`).
pub(super) fn plan(metadata: &Metadata, specs: &[TensorSpec]) -> Result<Plan> {
    let alignment = alignment(metadata)?;
    let mut header = b"GGUF".to_vec();
    header.extend(VERSION.to_le_bytes());
    header.extend((specs.len() as u64).to_le_bytes());
    header.extend((metadata.len() as u64).to_le_bytes());
    for entry in metadata.entries() {
        key(entry, &mut header)?;
    }
    // Offsets count from the start of the data, which is not known before the entries are written.
    let mut offsets = Vec::with_capacity(specs.len());
    let mut names = HashSet::with_capacity(specs.len());
    let mut at = 0u64;
    for spec in specs {
        if !names.insert(spec.name.as_str()) {
            return Err(refusal(&spec.name, "two tensors have this name"));
        }
        offsets.push(at);
        let len = tensor(spec, at, &mut header)?;
        let end = at.checked_add(len).and_then(|end| end.checked_next_multiple_of(alignment));
        at = end.ok_or_else(|| too_long(&spec.name))?;
    }
    if specs.is_empty() {
        // A vocabulary alone ends with its metadata.
        return Ok(Plan { len: header.len() as u64, header, offsets });
    }
    let padded = (header.len() as u64).next_multiple_of(alignment);
    header.resize(usize::try_from(padded).map_err(|_| too_long("general.alignment"))?, 0);
    for offset in &mut offsets {
        *offset = offset.checked_add(padded).ok_or_else(|| too_long("the data"))?;
    }
    let len = at.checked_add(padded).ok_or_else(|| too_long("the data"))?;
    Ok(Plan { header, offsets, len })
}

/// What the metadata says of the alignment.
fn alignment(metadata: &Metadata) -> Result<u64> {
    const KEY: &str = "general.alignment";
    let Some(entry) = metadata.entry(KEY) else { return Ok(ALIGNMENT) };
    match entry.value {
        // 2^31 is the largest power of two in a u32.
        Value::Unsigned(n) if entry.kind == "u32" && n.is_power_of_two() && (8..=1 << 31).contains(&n) => {
            Ok(n)
        }
        ref other => {
            let what =
                format!("must be a power of two from 8 on, written as a u32, not {} {other}", entry.kind);
            Err(refusal(KEY, &what))
        }
    }
}

/// The entry of a tensor, whose data is to begin at `at`. Returns how long the data is.
fn tensor(spec: &TensorSpec, at: u64, header: &mut Vec<u8>) -> Result<u64> {
    let refuse = |what: &str| Err(refusal(&spec.name, what));
    if spec.name.is_empty() || spec.name.len() > LONGEST_NAME {
        return refuse(&format!("the name of a tensor has 1 to {LONGEST_NAME} bytes in GGUF"));
    }
    if spec.shape.len() > MAX_RANK {
        return refuse(&format!("{} axes are more than the {MAX_RANK} of GGUF", spec.shape.len()));
    }
    let Some(id) = spec.dtype.ggml_id() else {
        return refuse(&format!("GGUF has no element type {}", spec.dtype));
    };
    let len = spec.dtype.byte_len(&spec.shape).map_err(|e| refusal(&spec.name, &e.to_string()))?;
    text(spec.name.as_bytes(), header);
    header.extend((spec.shape.len() as u32).to_le_bytes());
    // The file has the innermost axis first.
    for &axis in spec.shape.iter().rev() {
        let Ok(axis) = i64::try_from(axis) else { return refuse("an axis of 2^63 or more") };
        header.extend(axis.to_le_bytes());
    }
    header.extend(id.to_le_bytes());
    header.extend(at.to_le_bytes());
    Ok(len)
}

fn key(entry: &Entry, header: &mut Vec<u8>) -> Result<()> {
    if entry.key.is_empty() || entry.key.len() > LONGEST_KEY {
        return Err(refusal(&entry.key, &format!("a key has 1 to {LONGEST_KEY} bytes in GGUF")));
    }
    text(entry.key.as_bytes(), header);
    let element = entry.kind.strip_prefix("array[").and_then(|k| k.strip_suffix(']'));
    let writer = Writer { key: &entry.key };
    match (element, &entry.value) {
        (Some(element), Value::List(list)) => {
            let element = writer.kind(element)?;
            header.extend(id(Kind::Array).to_le_bytes());
            writer.list(list.as_ref(), element, 1, header)
        }
        (Some(_), other) => Err(refusal(&entry.key, &format!("must be a list, not {}", other.kind()))),
        (None, value) => {
            let kind = writer.kind(&entry.kind)?;
            header.extend(id(kind).to_le_bytes());
            writer.value(value, kind, 0, header)
        }
    }
}

/// Writes values; holds the key, by which what cannot be written is named.
struct Writer<'a> {
    key: &'a str,
}

impl Writer<'_> {
    /// A kind by the name that the reader gives it.
    fn kind(&self, name: &str) -> Result<Kind> {
        let mut kinds = (0..).map_while(Kind::from_id);
        kinds.find(|kind| kind.name() == name).ok_or_else(|| {
            let what = if name.is_empty() { "no kind is given".to_owned() } else { format!("\"{name}\"") };
            refusal(
                self.key,
                &format!("{what}: a value of GGUF is of a kind such as u32, string, array[f32]"),
            )
        })
    }

    /// The kind of the elements, their number, the elements.
    fn list(&self, list: &dyn List, element: Kind, depth: u32, header: &mut Vec<u8>) -> Result<()> {
        if depth > MAX_DEPTH {
            return Err(refusal(self.key, "lists within lists are nested too deep"));
        }
        header.extend(id(element).to_le_bytes());
        header.extend(list.len().to_le_bytes());
        let (mut seen, mut failed) = (0u64, None);
        list.visit(&mut |_, item| {
            let written = match item {
                Item::Text(bytes) if element == Kind::Text => {
                    text(bytes, header);
                    Ok(())
                }
                item => self.value(&item.into_value(), element, depth, header),
            };
            seen = seen.saturating_add(1);
            match written {
                Ok(()) => ControlFlow::Continue(()),
                Err(e) => {
                    failed = Some(e);
                    ControlFlow::Break(())
                }
            }
        })?;
        match failed {
            Some(e) => Err(e),
            None if seen != list.len() => {
                Err(refusal(self.key, "the list holds fewer elements than it says"))
            }
            None => Ok(()),
        }
    }

    fn value(&self, value: &Value, kind: Kind, depth: u32, header: &mut Vec<u8>) -> Result<()> {
        let no = || refusal(self.key, &format!("{} ({value}) is no {}", value.kind(), kind.name()));
        match (kind, value) {
            (Kind::Text, Value::Text(all)) => text(all.as_bytes(), header),
            (Kind::Text, Value::Bytes(all)) => text(all, header),
            (Kind::Text, Value::Long { .. }) => {
                return Err(refusal(
                    self.key,
                    "the text was left in its file and cannot be copied from there",
                ));
            }
            (Kind::Array, Value::List(list)) => {
                let element = self.kind(list.kind())?;
                return self.list(list.as_ref(), element, depth.saturating_add(1), header);
            }
            (Kind::Bool, Value::Bool(b)) => header.push(u8::from(*b)),
            (Kind::F64, Value::Float(x)) => header.extend(x.to_le_bytes()),
            (Kind::F32, Value::Float(x)) => {
                let narrow = *x as f32;
                if narrow.is_infinite() && x.is_finite() {
                    return Err(no());
                }
                header.extend(narrow.to_le_bytes());
            }
            (_, Value::Unsigned(_) | Value::Signed(_)) => {
                let n = match value {
                    Value::Unsigned(n) => i128::from(*n),
                    Value::Signed(n) => i128::from(*n),
                    _ => return Err(no()),
                };
                whole(n, kind, header).ok_or_else(no)?;
            }
            _ => return Err(no()),
        }
        Ok(())
    }
}

/// A whole number, or `None` if the kind does not hold it.
fn whole(n: i128, kind: Kind, header: &mut Vec<u8>) -> Option<()> {
    match kind {
        Kind::U8 => header.extend(u8::try_from(n).ok()?.to_le_bytes()),
        Kind::I8 => header.extend(i8::try_from(n).ok()?.to_le_bytes()),
        Kind::U16 => header.extend(u16::try_from(n).ok()?.to_le_bytes()),
        Kind::I16 => header.extend(i16::try_from(n).ok()?.to_le_bytes()),
        Kind::U32 => header.extend(u32::try_from(n).ok()?.to_le_bytes()),
        Kind::I32 => header.extend(i32::try_from(n).ok()?.to_le_bytes()),
        Kind::U64 => header.extend(u64::try_from(n).ok()?.to_le_bytes()),
        Kind::I64 => header.extend(i64::try_from(n).ok()?.to_le_bytes()),
        Kind::F32 | Kind::F64 | Kind::Bool | Kind::Text | Kind::Array => return None,
    }
    Some(())
}

/// The number of a kind in the file.
fn id(kind: Kind) -> u32 {
    (0..).map_while(|id| Some((id, Kind::from_id(id)?))).find(|(_, k)| *k == kind).map_or(0, |(id, _)| id)
}

fn text(bytes: &[u8], header: &mut Vec<u8>) {
    header.extend((bytes.len() as u64).to_le_bytes());
    header.extend(bytes);
}

fn refusal(name: &str, why: &str) -> Error {
    Error::Usage(format!("{}: {why}", name.escape_debug()))
}

fn too_long(name: &str) -> Error {
    refusal(name, "the file would be longer than 64 bits can count")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use scantling_core::bundle::Bundle;
    use scantling_core::dtype::DType;
    use scantling_core::finding::Severity;
    use scantling_core::metadata::Items;
    use scantling_core::source::WeightSource;
    use std::sync::Arc;

    fn metadata(entries: &[(&str, &str, Value)]) -> Metadata {
        let mut metadata = Metadata::default();
        for (key, kind, value) in entries.iter().cloned() {
            metadata.push(Entry { key: key.into(), value, kind: kind.into(), at: None }).unwrap();
        }
        metadata
    }

    fn list(kind: &'static str, values: Vec<Value>) -> Value {
        Value::List(Arc::new(Items { kind, values }))
    }

    fn word(s: &str) -> Value {
        Value::Text(s.into())
    }

    fn spec(name: &str, dtype: DType, shape: &[usize]) -> TensorSpec {
        TensorSpec { name: name.into(), dtype, shape: shape.to_vec() }
    }

    fn data(i: usize, spec: &TensorSpec) -> Vec<u8> {
        let len = spec.dtype.byte_len(&spec.shape).unwrap();
        (0..len).map(|at| (at.wrapping_mul(5) as usize + 37 * i) as u8).collect()
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

    fn open(file: Vec<u8>) -> Box<dyn WeightSource> {
        super::super::open(&Bundle::in_memory("m.gguf", [("m.gguf".to_owned(), file)]).unwrap()).unwrap()
    }

    /// All of a value, lists within lists too.
    fn told(value: &Value) -> String {
        match value {
            Value::List(list) => {
                let items = value.first_items(usize::MAX).unwrap();
                format!("{} {:?}", list.kind(), items.iter().map(told).collect::<Vec<_>>())
            }
            Value::Bytes(bytes) => format!("{bytes:?}"),
            Value::Text(text) => format!("{text:?}"),
            other => other.to_string(),
        }
    }

    fn read_back(file: Vec<u8>, metadata: &Metadata, specs: &[TensorSpec]) {
        let source = open(file);
        let severe = |f: &&scantling_core::finding::Finding| f.severity == Severity::Error;
        assert_eq!(source.findings().iter().filter(severe).map(ToString::to_string).next(), None);
        let all = |m: &Metadata| -> Vec<(String, String, String)> {
            m.entries().iter().map(|e| (e.key.clone(), e.kind.clone(), told(&e.value))).collect()
        };
        assert_eq!(all(source.metadata()), all(metadata));
        let names: Vec<&str> = source.tensors().tensors().iter().map(|t| t.name.as_str()).collect();
        assert_eq!(names, specs.iter().map(|s| s.name.as_str()).collect::<Vec<_>>());
        for (i, (spec, tensor)) in specs.iter().zip(source.tensors().tensors()).enumerate() {
            assert_eq!((tensor.dtype.known(), &tensor.shape), (Some(spec.dtype), &spec.shape));
            assert_eq!(source.bytes(tensor).unwrap(), data(i, spec), "{}", spec.name);
        }
    }

    #[test]
    fn every_kind_and_every_element_type_is_planned_and_read_back() {
        let inner = list("i8", vec![Value::Signed(-1), Value::Unsigned(2)]);
        let nested = list("array", vec![inner, list("string", vec![word("x")]), list("u8", vec![])]);
        let metadata = metadata(&[
            ("general.architecture", "string", word("x")),
            ("u8", "u8", Value::Unsigned(255)),
            ("i8", "i8", Value::Signed(-128)),
            ("u16", "u16", Value::Unsigned(65_535)),
            ("i16", "i16", Value::Signed(-32_768)),
            ("u32", "u32", Value::Unsigned(u64::from(u32::MAX))),
            ("i32", "i32", Value::Unsigned(i32::MAX as u64)),
            ("u64", "u64", Value::Unsigned(u64::MAX)),
            ("i64", "i64", Value::Signed(i64::MIN)),
            ("f32", "f32", Value::Float(f64::from(1e-6f32))),
            ("f64", "f64", Value::Float(0.1)),
            ("infinite", "f32", Value::Float(f64::NEG_INFINITY)),
            ("bool", "bool", Value::Bool(true)),
            ("bytes", "string", Value::Bytes(vec![0xff, 0])),
            ("tokens", "array[string]", list("string", vec![word("a"), word(""), Value::Bytes(vec![0xc3])])),
            ("floats", "array[f32]", list("f32", vec![Value::Float(0.5), Value::Float(-2.0)])),
            ("flags", "array[bool]", list("bool", vec![Value::Bool(false), Value::Bool(true)])),
            ("nested", "array[array]", list("array", vec![nested])),
            ("empty", "array[u64]", list("u64", vec![])),
            ("general.alignment", "u32", Value::Unsigned(64)),
        ]);
        let types = DType::all().filter(|d| d.ggml_id().is_some());
        let mut specs: Vec<TensorSpec> = types.map(|d| spec(d.name(), d, &[3, d.block_elements()])).collect();
        specs.extend([spec("scalar", DType::F32, &[]), spec("none", DType::F32, &[0, 7])]);
        let plan = plan(&metadata, &specs).unwrap();
        assert!(plan.offsets.iter().all(|at| at.is_multiple_of(64)) && plan.len.is_multiple_of(64));
        read_back(filled(&metadata, &specs), &metadata, &specs);
    }

    #[test]
    fn what_was_read_can_be_planned_again_to_the_same_bytes() {
        let entries = [
            ("general.architecture", "string", word("x")),
            ("tokens", "array[string]", list("string", vec![word("a"), word("b")])),
        ];
        let specs = [spec("w", DType::Q4_K, &[2, 256])];
        let first = filled(&metadata(&entries), &specs);
        assert_eq!(filled(open(first.clone()).metadata(), &specs), first);
    }

    #[test]
    fn a_file_without_tensors_ends_after_its_metadata() {
        let metadata = metadata(&[("general.architecture", "string", word("x"))]);
        let file = filled(&metadata, &[]);
        assert_eq!(file.len(), 24 + 8 + 20 + 4 + 8 + 1);
        read_back(file, &metadata, &[]);
    }

    #[test]
    fn what_the_format_cannot_hold_is_refused_by_name() {
        let key =
            |kind: &str, value: Value| plan(&metadata(&[("k", kind, value)]), &[]).unwrap_err().to_string();
        assert_eq!(key("u8", Value::Unsigned(256)), "k: a whole number (256) is no u8");
        assert_eq!(key("u32", Value::Signed(-1)), "k: a negative number (-1) is no u32");
        assert_eq!(key("f32", Value::Float(1e300)), "k: a number with a fraction (1e300) is no f32");
        assert!(key("f32", Value::Unsigned(1)).ends_with("is no f32"));
        assert!(key("bool", Value::Unsigned(2)).ends_with("is no bool"));
        assert!(key("null", Value::Null).contains("a value of GGUF is of a kind such as"));
        assert!(key("", Value::Bool(true)).contains("no kind is given"));
        assert!(key("string", Value::Long { len: 9 }).contains("left in its file"));
        assert!(key("array[i32]", Value::Unsigned(1)).contains("must be a list"));
        assert!(key("array[i32]", list("i32", vec![word("x")])).ends_with("is no i32"));
        let deep = (0..9).fold(list("u8", vec![]), |inner, _| list("array", vec![inner]));
        assert!(key("array[array]", deep).contains("nested too deep"));
        for alignment in [0, 4, 24, 1 << 32] {
            let entry = ("general.alignment", "u32", Value::Unsigned(alignment));
            assert!(
                plan(&metadata(&[entry]), &[]).unwrap_err().to_string().starts_with("general.alignment: ")
            );
        }
        let none = Metadata::default();
        let refused = |specs: &[TensorSpec]| plan(&none, specs).unwrap_err().to_string();
        assert_eq!(refused(&[spec("w", DType::U8, &[1])]), "w: GGUF has no element type U8");
        assert!(refused(&[spec(&"n".repeat(64), DType::F32, &[1])]).contains("1 to 63 bytes"));
        assert!(refused(&[spec("w", DType::F32, &[1; 5])]).contains("5 axes"));
        assert!(refused(&[spec("w", DType::Q4_0, &[2, 33])]).contains("whole blocks"));
        assert!(refused(&[spec("w", DType::F32, &[usize::MAX, 0])]).contains("2^63"));
        let twice = [spec("w", DType::F32, &[1]), spec("w", DType::F32, &[1])];
        assert_eq!(refused(&twice), "w: two tensors have this name");
        let huge = spec("w", DType::I8, &[1 << 62]);
        let four: Vec<_> = (0..4).map(|i| TensorSpec { name: format!("w{i}"), ..huge.clone() }).collect();
        assert!(refused(&four).contains("64 bits"));
    }

    fn any_value() -> impl Strategy<Value = (String, Value)> {
        let n = |kind: &'static str, n: u64| (kind, Value::Unsigned(n));
        let scalar = prop_oneof![
            any::<u8>().prop_map(move |x| n("u8", u64::from(x))),
            any::<u16>().prop_map(move |x| n("u16", u64::from(x))),
            any::<u32>().prop_map(move |x| n("u32", u64::from(x))),
            any::<u64>().prop_map(move |x| n("u64", x)),
            (i8::MIN..0).prop_map(|x| ("i8", Value::Signed(i64::from(x)))),
            (i32::MIN..0).prop_map(|x| ("i32", Value::Signed(i64::from(x)))),
            any::<f32>().prop_map(|x| ("f32", Value::Float(f64::from(x)))),
            any::<f64>().prop_map(|x| ("f64", Value::Float(x))),
            any::<bool>().prop_map(|x| ("bool", Value::Bool(x))),
            ".{0,20}".prop_map(|x| ("string", Value::Text(x))),
        ];
        scalar.prop_flat_map(|(kind, value)| {
            let same = list(kind, vec![value.clone(); 3]);
            let twice = list("array", vec![same.clone(), list(kind, vec![])]);
            prop_oneof![
                4 => Just((kind.to_owned(), value)),
                2 => Just((format!("array[{kind}]"), same)),
                1 => Just(("array[array]".to_owned(), twice)),
            ]
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
        #[test]
        fn what_is_planned_and_filled_is_read_back(
            keys in prop::collection::btree_map("[a-zß]{1,20}", any_value(), 0..8),
            names in prop::collection::btree_set("[a-zß.0-9]{1,20}", 0..6),
            dtypes in prop::collection::vec(0usize..35, 6),
            rows in prop::collection::vec(prop::collection::vec(0usize..4, 0..4), 6),
            alignment in prop::sample::select(vec![8u64, 32, 256]),
        ) {
            let mut entries: Vec<(&str, &str, Value)> =
                keys.iter().map(|(k, (kind, v))| (k.as_str(), kind.as_str(), v.clone())).collect();
            entries.push(("general.alignment", "u32", Value::Unsigned(alignment)));
            let metadata = metadata(&entries);
            let types: Vec<DType> = DType::all().filter(|d| d.ggml_id().is_some()).collect();
            let specs: Vec<TensorSpec> = names.iter().zip(dtypes).zip(rows).map(|((name, dtype), mut shape)| {
                shape.push(types[dtype].block_elements());
                spec(name, types[dtype], &shape)
            }).collect();
            read_back(filled(&metadata, &specs), &metadata, &specs);
        }
    }
}
