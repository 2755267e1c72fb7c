//! The kinds of values that GGUF metadata holds, and its arrays, which stay in the file until they are read.

use super::scan::Scan;
use scantling_core::bundle::File;
use scantling_core::error::{Error, Result};
use scantling_core::metadata::{Item, List, Value};
use std::io;
use std::ops::ControlFlow;
use std::sync::Arc;

/// Longest text carried along in memory; longer ones stay in the file.
pub(super) const INLINE: u64 = 1024 * 1024;

/// Bytes looked at in one go while passing over arrays; the cursor reads as many at a time.
pub(super) const PIECE: u64 = 64 * 1024;

/// Which end of its numbers a file writes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Order {
    /// Least significant byte first, as nearly all files.
    Little,
    /// Most significant byte first, as files made for s390x.
    Big,
}

impl Order {
    /// A number of 4 bytes.
    pub(super) fn u32(self, bytes: [u8; 4]) -> u32 {
        match self {
            Order::Little => u32::from_le_bytes(bytes),
            Order::Big => u32::from_be_bytes(bytes),
        }
    }

    /// A number of 8 bytes.
    pub(super) fn u64(self, bytes: [u8; 8]) -> u64 {
        match self {
            Order::Little => u64::from_le_bytes(bytes),
            Order::Big => u64::from_be_bytes(bytes),
        }
    }

    /// The order in words.
    pub(super) fn word(self) -> &'static str {
        match self {
            Order::Little => "little-endian",
            Order::Big => "big-endian",
        }
    }
}

/// A kind of value, in the order of GGUF's numbers for them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    Text,
    Array,
    U64,
    I64,
    F64,
}

/// Every kind at its number in the file. The 64-bit kinds were added after arrays.
const KINDS: [Kind; 13] = {
    use Kind::*;
    [U8, I8, U16, I16, U32, I32, F32, Bool, Text, Array, U64, I64, F64]
};

impl Kind {
    /// The kind of a number in the file.
    pub(super) fn from_id(id: u32) -> Option<Kind> {
        KINDS.get(usize::try_from(id).ok()?).copied()
    }

    /// The name shown.
    pub(super) fn name(self) -> &'static str {
        match self {
            Kind::U8 => "u8",
            Kind::I8 => "i8",
            Kind::U16 => "u16",
            Kind::I16 => "i16",
            Kind::U32 => "u32",
            Kind::I32 => "i32",
            Kind::F32 => "f32",
            Kind::Bool => "bool",
            Kind::Text => "string",
            Kind::Array => "array",
            Kind::U64 => "u64",
            Kind::I64 => "i64",
            Kind::F64 => "f64",
        }
    }

    /// Bytes that every value of the kind takes; `None` where they differ.
    pub(super) fn size(self) -> Option<u64> {
        match self {
            Kind::U8 | Kind::I8 | Kind::Bool => Some(1),
            Kind::U16 | Kind::I16 => Some(2),
            Kind::U32 | Kind::I32 | Kind::F32 => Some(4),
            Kind::U64 | Kind::I64 | Kind::F64 => Some(8),
            Kind::Text | Kind::Array => None,
        }
    }

    /// The fewest bytes that a value takes as an element of an array.
    pub(super) fn at_least(self) -> u64 {
        match self {
            Kind::Text => 8,
            Kind::Array => 12,
            _ => self.size().unwrap_or(1),
        }
    }

    /// A value of a kind of fixed size, from exactly its bytes. A bool that is neither 0 nor 1 is given as
    /// the number it is.
    pub(super) fn number(self, bytes: &[u8], order: Order) -> Value {
        let mut wide = [0; 8];
        match order {
            Order::Little => wide.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from),
            Order::Big => wide.iter_mut().zip(bytes.iter().rev()).for_each(|(to, from)| *to = *from),
        }
        let raw = u64::from_le_bytes(wide);
        match self {
            Kind::I8 => signed(i64::from(raw as i8)),
            Kind::I16 => signed(i64::from(raw as i16)),
            Kind::I32 => signed(i64::from(raw as i32)),
            Kind::I64 => signed(raw as i64),
            Kind::F32 => Value::Float(f64::from(f32::from_bits(raw as u32))),
            Kind::F64 => Value::Float(f64::from_bits(raw)),
            Kind::Bool if raw <= 1 => Value::Bool(raw == 1),
            _ => Value::Unsigned(raw),
        }
    }
}

/// A signed number as metadata holds it: only negative ones are told apart.
fn signed(n: i64) -> Value {
    u64::try_from(n).map_or(Value::Signed(n), Value::Unsigned)
}

/// An array, left in its file. Its extent was walked when the file was opened.
#[derive(Debug)]
pub(super) struct InFile {
    /// The file.
    pub(super) file: Arc<File>,
    /// Kind of the elements.
    pub(super) kind: Kind,
    /// Number of elements.
    pub(super) count: u64,
    /// Offset of the first element.
    pub(super) start: u64,
    /// Byte order of the file.
    pub(super) order: Order,
}

impl InFile {
    /// Elements of a fixed size, a bufferful at a time.
    fn visit_numbers(
        &self,
        scan: &mut Scan<'_>,
        size: u64,
        see: &mut dyn FnMut(u64, Item<'_>) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut i = 0u64;
        let bytes = self.count.saturating_mul(size);
        let mut seen = 0u64;
        while seen < bytes {
            let want = bytes.saturating_sub(seen).min(PIECE);
            let piece = scan.piece(want)?;
            if piece.len() as u64 != want {
                return Err(self.shrunk());
            }
            for element in piece.chunks_exact(usize::try_from(size).unwrap_or(1)) {
                if see(i, Item::Other(self.kind.number(element, self.order))).is_break() {
                    return Ok(());
                }
                i = i.saturating_add(1);
            }
            seen = seen.saturating_add(want);
        }
        Ok(())
    }

    /// The file was whole when it was opened.
    fn shrunk(&self) -> Error {
        Error::io(self.file.name(), "cannot read an array", io::ErrorKind::UnexpectedEof.into())
    }
}

impl List for InFile {
    fn kind(&self) -> &str {
        self.kind.name()
    }

    fn len(&self) -> u64 {
        self.count
    }

    fn visit(&self, see: &mut dyn FnMut(u64, Item<'_>) -> ControlFlow<()>) -> Result<()> {
        let mut scan = Scan::new(&self.file, self.start, self.order)?;
        if let Some(size) = self.kind.size() {
            return self.visit_numbers(&mut scan, size, see);
        }
        for i in 0..self.count {
            let what = format_args!("element {i} of an array");
            let flow = if self.kind == Kind::Text {
                let len = scan.length(what)?;
                if len > INLINE {
                    scan.skip(len, what)?;
                    see(i, Item::Other(Value::Long { len }))
                } else {
                    see(i, Item::Text(scan.text(len, what)?))
                }
            } else {
                let inner = scan.array(what)?;
                scan.skip_elements(&inner, 1, what)?;
                see(i, Item::Other(Value::List(Arc::new(inner))))
            };
            if flow.is_break() {
                break;
            }
        }
        Ok(())
    }
}
