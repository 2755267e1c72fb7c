//! Writes `.gguf` files.

use super::safetensors::{Tensor, pattern};

/// A file in the making.
#[derive(Clone, Debug)]
pub struct Gguf {
    big: bool,
    version: u32,
    alignment: usize,
    keys: u64,
    body: Vec<u8>,
}

impl Gguf {
    /// Version 3, little-endian, aligned to 32 bytes.
    pub fn new() -> Gguf {
        Gguf { big: false, version: 3, alignment: 32, keys: 0, body: Vec::new() }
    }

    /// Every number with its bytes reversed.
    pub fn big_endian() -> Gguf {
        Gguf { big: true, ..Gguf::new() }
    }

    /// The version before.
    pub fn version_2() -> Gguf {
        Gguf { version: 2, ..Gguf::new() }
    }

    /// Bytes of a number in the file's order, from their little-endian order.
    fn ordered<const N: usize>(&self, mut bytes: [u8; N]) -> [u8; N] {
        if self.big {
            bytes.reverse();
        }
        bytes
    }

    fn string(&self, text: &[u8]) -> Vec<u8> {
        [&self.ordered((text.len() as u64).to_le_bytes())[..], text].concat()
    }

    /// A key with a value of a kind, whose bytes are given in the file's order.
    pub fn raw(mut self, key: &str, kind: u32, value: &[u8]) -> Gguf {
        let key = self.string(key.as_bytes());
        let kind = self.ordered(kind.to_le_bytes());
        self.body = [&self.body, &key[..], &kind, value].concat();
        self.keys += 1;
        self
    }

    /// A number of 32 bits.
    pub fn u32(self, key: &str, value: u32) -> Gguf {
        let bytes = self.ordered(value.to_le_bytes());
        self.raw(key, 4, &bytes)
    }

    /// A number of 16 bits.
    pub fn u16(self, key: &str, value: u16) -> Gguf {
        let bytes = self.ordered(value.to_le_bytes());
        self.raw(key, 2, &bytes)
    }

    /// A number of 32 bits with a sign.
    pub fn i32(self, key: &str, value: i32) -> Gguf {
        let bytes = self.ordered(value.to_le_bytes());
        self.raw(key, 5, &bytes)
    }

    /// A number with a fraction.
    pub fn f32(self, key: &str, value: f32) -> Gguf {
        let bytes = self.ordered(value.to_le_bytes());
        self.raw(key, 6, &bytes)
    }

    /// Text.
    pub fn text(self, key: &str, value: &str) -> Gguf {
        let bytes = self.string(value.as_bytes());
        self.raw(key, 8, &bytes)
    }

    /// The bytes of a list: its kind, its length, its elements.
    fn list(&self, kind: u32, len: usize, elements: &[u8]) -> Vec<u8> {
        let kind = self.ordered(kind.to_le_bytes());
        let len = self.ordered((len as u64).to_le_bytes());
        [&kind[..], &len, elements].concat()
    }

    /// A list of texts.
    pub fn texts(self, key: &str, values: &[&str]) -> Gguf {
        let elements: Vec<u8> = values.iter().flat_map(|v| self.string(v.as_bytes())).collect();
        let list = self.list(8, values.len(), &elements);
        self.raw(key, 9, &list)
    }

    /// A list of whole numbers.
    pub fn i32s(self, key: &str, values: &[i32]) -> Gguf {
        let elements: Vec<u8> = values.iter().flat_map(|v| self.ordered(v.to_le_bytes())).collect();
        let list = self.list(5, values.len(), &elements);
        self.raw(key, 9, &list)
    }

    /// A list of numbers with a fraction.
    pub fn f32s(self, key: &str, values: &[f32]) -> Gguf {
        let elements: Vec<u8> = values.iter().flat_map(|v| self.ordered(v.to_le_bytes())).collect();
        let list = self.list(6, values.len(), &elements);
        self.raw(key, 9, &list)
    }

    /// A list in a list, so many deep, around two bytes.
    pub fn nested(self, key: &str, depth: usize) -> Gguf {
        let innermost = self.list(0, 2, &[1, 2]);
        let list = (0..depth).fold(innermost, |inner, _| self.list(9, 1, &inner));
        self.raw(key, 9, &list)
    }

    /// One key of every kind.
    pub fn every_kind(self) -> Gguf {
        let one = |n: usize| -> Vec<u8> { (0..n).map(|i| u8::from(i == 0)).collect() };
        let widths = [1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8];
        let plain = widths.iter().enumerate().filter(|(_, width)| **width > 0);
        let file = plain
            .fold(self, |file, (kind, width)| file.raw(&format!("a.kind.{kind}"), kind as u32, &one(*width)));
        file.text("a.text", "text").i32s("a.list", &[1, -1]).nested("a.nested", 2)
    }

    /// Another alignment, said in the file.
    pub fn aligned(mut self, alignment: u32) -> Gguf {
        self.alignment = alignment as usize;
        self.u32("general.alignment", alignment)
    }

    /// The file, with these tensors; their element types are ggml's.
    pub fn file(&self, tensors: &[Tensor]) -> Vec<u8> {
        let mut head = b"GGUF".to_vec();
        head.extend(self.ordered(self.version.to_le_bytes()));
        head.extend(self.ordered((tensors.len() as u64).to_le_bytes()));
        head.extend(self.ordered(self.keys.to_le_bytes()));
        head.extend(&self.body);
        let mut data = Vec::new();
        for (name, dtype, shape) in tensors {
            head.extend(self.string(name.as_bytes()));
            head.extend(self.ordered((shape.len() as u32).to_le_bytes()));
            for axis in shape.iter().rev() {
                head.extend(self.ordered((*axis as u64).to_le_bytes()));
            }
            head.extend(self.ordered(dtype.ggml_id().unwrap_or(u32::MAX).to_le_bytes()));
            head.extend(self.ordered((data.len() as u64).to_le_bytes()));
            data.extend(pattern(*dtype, shape));
            data.resize(data.len().next_multiple_of(self.alignment), 0);
        }
        if !tensors.is_empty() {
            head.resize(head.len().next_multiple_of(self.alignment), 0);
        }
        head.extend(data);
        head
    }
}

impl Default for Gguf {
    fn default() -> Gguf {
        Gguf::new()
    }
}
