//! Writes small GGUF files, right or wrong, in either byte order.

use scantling_core::dtype::DType;
use scantling_core::metadata::{Item, Value};
use std::ops::ControlFlow;

/// A value to be written.
#[derive(Clone, Debug, PartialEq)]
pub enum V {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    Text(Vec<u8>),
    /// Number of the elements' kind, and the elements.
    Array(u32, Vec<V>),
    U64(u64),
    I64(i64),
    F64(f64),
}

pub fn text(s: &str) -> V {
    V::Text(s.as_bytes().to_vec())
}

pub const KINDS: [&str; 13] =
    ["u8", "i8", "u16", "i16", "u32", "i32", "f32", "bool", "string", "array", "u64", "i64", "f64"];

impl V {
    pub fn id(&self) -> u32 {
        match self {
            V::U8(_) => 0,
            V::I8(_) => 1,
            V::U16(_) => 2,
            V::I16(_) => 3,
            V::U32(_) => 4,
            V::I32(_) => 5,
            V::F32(_) => 6,
            V::Bool(_) => 7,
            V::Text(_) => 8,
            V::Array(..) => 9,
            V::U64(_) => 10,
            V::I64(_) => 11,
            V::F64(_) => 12,
        }
    }

    /// The kind as an entry names it.
    pub fn kind(&self) -> String {
        match self {
            V::Array(kind, _) => format!("array[{}]", KINDS[*kind as usize]),
            other => KINDS[other.id() as usize].to_owned(),
        }
    }

    /// From what was read, with the kind that the entry or list names.
    pub fn from_read(value: &Value, kind: &str) -> V {
        let n = |value: &Value| match value {
            Value::Unsigned(n) => i128::from(*n),
            Value::Signed(n) => i128::from(*n),
            other => panic!("{other} is no whole number"),
        };
        let x = |value: &Value| match value {
            Value::Float(x) => *x,
            other => panic!("{other} is no number with a fraction"),
        };
        match (kind, value) {
            ("u8", v) => V::U8(n(v) as u8),
            ("i8", v) => V::I8(n(v) as i8),
            ("u16", v) => V::U16(n(v) as u16),
            ("i16", v) => V::I16(n(v) as i16),
            ("u32", v) => V::U32(n(v) as u32),
            ("i32", v) => V::I32(n(v) as i32),
            ("u64", v) => V::U64(n(v) as u64),
            ("i64", v) => V::I64(n(v) as i64),
            ("f32", v) => V::F32(x(v) as f32),
            ("f64", v) => V::F64(x(v)),
            ("bool", Value::Bool(b)) => V::Bool(*b),
            ("string", Value::Text(t)) => text(t),
            ("string", Value::Bytes(b)) => V::Text(b.clone()),
            (_, Value::List(list)) => {
                let mut items = Vec::new();
                list.visit(&mut |i, item| {
                    assert_eq!(i, items.len() as u64);
                    items.push(match item {
                        Item::Text(bytes) => V::Text(bytes.to_vec()),
                        Item::Other(value) => V::from_read(&value, list.kind()),
                    });
                    ControlFlow::Continue(())
                })
                .unwrap();
                assert_eq!(list.len(), items.len() as u64);
                V::Array(KINDS.iter().position(|k| *k == list.kind()).unwrap() as u32, items)
            }
            other => panic!("unexpected {other:?}"),
        }
    }
}

/// A tensor to be written; dimensions innermost first, as in the file.
#[derive(Clone, Debug, PartialEq)]
pub struct T {
    pub name: Vec<u8>,
    pub dims: Vec<u64>,
    pub id: u32,
    /// Little-endian; turned round by the builder if need be.
    pub data: Vec<u8>,
    /// In place of the right offset.
    pub offset: Option<u64>,
}

impl T {
    pub fn new(name: &str, dims: &[u64], id: u32, data: Vec<u8>) -> T {
        T { name: name.as_bytes().to_vec(), dims: dims.to_vec(), id, data, offset: None }
    }

    pub fn f32(name: &str, dims: &[u64]) -> T {
        let n = dims.iter().product::<u64>() as usize;
        T::new(name, dims, 0, (0..n).flat_map(|i| (i as f32).to_le_bytes()).collect())
    }
}

/// A file to be written.
#[derive(Clone, Debug)]
pub struct File {
    pub big: bool,
    pub version: u32,
    pub keys: Vec<(Vec<u8>, V)>,
    pub tensors: Vec<T>,
    pub alignment: usize,
}

/// What was written, and where.
pub struct Built {
    pub bytes: Vec<u8>,
    pub key_at: Vec<u64>,
    pub tensor_at: Vec<u64>,
    pub data_at: u64,
}

impl File {
    pub fn new(keys: Vec<(&str, V)>, tensors: Vec<T>) -> File {
        let keys = keys.into_iter().map(|(k, v)| (k.as_bytes().to_vec(), v)).collect();
        File { big: false, version: 3, keys, tensors, alignment: 32 }
    }

    fn put(&self, out: &mut Vec<u8>, little: &[u8]) {
        let from = out.len();
        out.extend_from_slice(little);
        if self.big {
            out[from..].reverse();
        }
    }

    fn text(&self, out: &mut Vec<u8>, text: &[u8]) {
        self.put(out, &(text.len() as u64).to_le_bytes());
        out.extend_from_slice(text);
    }

    fn value(&self, out: &mut Vec<u8>, value: &V) {
        match value {
            V::U8(n) => self.put(out, &n.to_le_bytes()),
            V::I8(n) => self.put(out, &n.to_le_bytes()),
            V::U16(n) => self.put(out, &n.to_le_bytes()),
            V::I16(n) => self.put(out, &n.to_le_bytes()),
            V::U32(n) => self.put(out, &n.to_le_bytes()),
            V::I32(n) => self.put(out, &n.to_le_bytes()),
            V::F32(x) => self.put(out, &x.to_le_bytes()),
            V::Bool(b) => self.put(out, &[u8::from(*b)]),
            V::U64(n) => self.put(out, &n.to_le_bytes()),
            V::I64(n) => self.put(out, &n.to_le_bytes()),
            V::F64(x) => self.put(out, &x.to_le_bytes()),
            V::Text(t) => self.text(out, t),
            V::Array(kind, items) => {
                self.put(out, &kind.to_le_bytes());
                self.put(out, &(items.len() as u64).to_le_bytes());
                items.iter().for_each(|item| self.value(out, item));
            }
        }
    }

    pub fn build(&self) -> Built {
        let mut out = b"GGUF".to_vec();
        self.put(&mut out, &self.version.to_le_bytes());
        self.put(&mut out, &(self.tensors.len() as u64).to_le_bytes());
        self.put(&mut out, &(self.keys.len() as u64).to_le_bytes());
        let (mut key_at, mut tensor_at) = (Vec::new(), Vec::new());
        for (key, value) in &self.keys {
            key_at.push(out.len() as u64);
            self.text(&mut out, key);
            self.put(&mut out, &value.id().to_le_bytes());
            self.value(&mut out, value);
        }
        let mut data = Vec::new();
        for t in &self.tensors {
            data.resize(data.len().next_multiple_of(self.alignment), 0);
            tensor_at.push(out.len() as u64);
            self.text(&mut out, &t.name);
            self.put(&mut out, &(t.dims.len() as u32).to_le_bytes());
            t.dims.iter().for_each(|d| self.put(&mut out, &d.to_le_bytes()));
            self.put(&mut out, &t.id.to_le_bytes());
            self.put(&mut out, &t.offset.unwrap_or(data.len() as u64).to_le_bytes());
            let mut bytes = t.data.clone();
            if self.big {
                turn(t.id, &mut bytes);
            }
            data.extend(bytes);
        }
        if !self.tensors.is_empty() {
            out.resize(out.len().next_multiple_of(self.alignment), 0);
        }
        let data_at = out.len() as u64;
        out.extend(data);
        Built { bytes: out, key_at, tensor_at, data_at }
    }
}

/// Turns round the numbers of whole blocks; the layouts are spelled out in full, so that they are another
/// statement than the reader's.
fn turn(id: u32, data: &mut [u8]) {
    let dtype = DType::from_ggml(id).unwrap();
    let widths: Vec<usize> = layout(dtype).iter().flat_map(|&(n, w)| std::iter::repeat_n(w, n)).collect();
    assert_eq!(widths.iter().sum::<usize>(), dtype.block_bytes(), "{dtype}");
    let mut at = 0;
    for width in widths.iter().cycle() {
        let Some(number) = data.get_mut(at..at + width) else { break };
        number.reverse();
        at += width;
    }
    assert_eq!(at, data.len());
}

/// Runs of numbers: how many, and of how many bytes each.
#[rustfmt::skip]
pub fn layout(dtype: DType) -> &'static [(usize, usize)] {
    use DType::*;
    match dtype {
        I8 => &[(1, 1)],
        F16 | BF16 | I16 => &[(1, 2)],
        F32 | I32 => &[(1, 4)],
        F64 | I64 => &[(1, 8)],
        Q4_0 => &[(1, 2), (16, 1)],                        // d, codes
        Q4_1 => &[(1, 2), (1, 2), (16, 1)],                // d, m, codes
        Q5_0 => &[(1, 2), (1, 4), (16, 1)],                // d, high bits, codes
        Q5_1 => &[(1, 2), (1, 2), (1, 4), (16, 1)],        // d, m, high bits, codes
        Q8_0 => &[(1, 2), (32, 1)],
        Q8_1 => &[(1, 2), (1, 2), (32, 1)],
        Q2_K => &[(16, 1), (64, 1), (1, 2), (1, 2)],       // scales, codes, d, dm
        Q3_K => &[(32, 1), (64, 1), (12, 1), (1, 2)],      // high bits, codes, scales, d
        Q4_K => &[(1, 2), (1, 2), (12, 1), (128, 1)],
        Q5_K => &[(1, 2), (1, 2), (12, 1), (32, 1), (128, 1)],
        Q6_K => &[(128, 1), (64, 1), (16, 1), (1, 2)],
        Q8_K => &[(1, 4), (256, 1), (16, 2)],
        IQ2_XXS => &[(1, 2), (16, 4)],                     // d, pairs of words
        IQ2_XS => &[(1, 2), (32, 2), (8, 1)],
        IQ2_S => &[(1, 2), (32, 1), (32, 1), (8, 1), (8, 1)],
        IQ3_XXS => &[(1, 2), (64, 1), (8, 4)],
        IQ3_S => &[(1, 2), (64, 1), (8, 1), (32, 1), (4, 1)],
        IQ1_S => &[(1, 2), (32, 1), (8, 2)],
        IQ1_M => &[(32, 1), (16, 1), (4, 2)],
        IQ4_NL => &[(1, 2), (16, 1)],
        IQ4_XS => &[(1, 2), (1, 2), (4, 1), (128, 1)],
        TQ1_0 => &[(48, 1), (4, 1), (1, 2)],
        TQ2_0 => &[(64, 1), (1, 2)],
        MXFP4 => &[(1, 1), (16, 1)],
        NVFP4 => &[(4, 1), (32, 1)],
        Q1_0 | Q2_0 => &[(1, 2), (16, 1)],
        other => panic!("{other} is not a type of GGUF"),
    }
}
