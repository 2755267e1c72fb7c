//! What a file says of itself: flat keys in file order. JSON and GGUF metadata are one thing here.

use crate::error::Result;
use std::collections::HashMap;
use std::fmt;
use std::ops::ControlFlow;
use std::sync::Arc;

/// One value.
#[derive(Clone, Debug)]
pub enum Value {
    /// JSON's null.
    Null,
    /// True or false.
    Bool(bool),
    /// A whole number that is not negative.
    Unsigned(u64),
    /// A negative whole number.
    Signed(i64),
    /// A number with a fraction, or beyond the whole ones; may be NaN or infinite in GGUF.
    Float(f64),
    /// Text.
    Text(String),
    /// Text that is not UTF-8.
    Bytes(Vec<u8>),
    /// Text too long to carry along, left in its file.
    Long {
        /// Length in bytes.
        len: u64,
    },
    /// A list, left in the file until it is read.
    List(Arc<dyn List>),
}

/// A list of values that may lie unread in its file.
pub trait List: Send + Sync + fmt::Debug {
    /// Kind of the elements as the format names it, such as `i32`.
    fn kind(&self) -> &str;

    /// Number of elements.
    fn len(&self) -> u64;

    /// Whether it holds none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Calls `see` with each element in order until it breaks off.
    fn visit(&self, see: &mut dyn FnMut(u64, Item<'_>) -> ControlFlow<()>) -> Result<()>;
}

/// An element of a list, borrowed while it is visited.
#[derive(Debug)]
pub enum Item<'a> {
    /// Text as stored; UTF-8 by convention only.
    Text(&'a [u8]),
    /// Anything else.
    Other(Value),
}

impl Item<'_> {
    /// An owned value.
    pub fn into_value(self) -> Value {
        match self {
            Item::Text(bytes) => Value::text(bytes),
            Item::Other(value) => value,
        }
    }
}

impl Value {
    /// Text if the bytes are UTF-8, bytes if not.
    pub fn text(bytes: &[u8]) -> Value {
        match std::str::from_utf8(bytes) {
            Ok(text) => Value::Text(text.to_owned()),
            Err(_) => Value::Bytes(bytes.to_owned()),
        }
    }

    /// What kind of value it is, in words.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Bool(_) => "true or false",
            Value::Unsigned(_) => "a whole number",
            Value::Signed(_) => "a negative number",
            Value::Float(_) => "a number with a fraction",
            Value::Text(_) | Value::Long { .. } => "text",
            Value::Bytes(_) => "text that is not UTF-8",
            Value::List(_) => "a list",
        }
    }

    /// The first `limit` elements of a list, read now.
    pub fn first_items(&self, limit: usize) -> Result<Vec<Value>> {
        let mut items = Vec::new();
        if let Value::List(list) = self {
            list.visit(&mut |_, item| {
                if items.len() == limit {
                    return ControlFlow::Break(());
                }
                items.push(item.into_value());
                ControlFlow::Continue(())
            })?;
        }
        Ok(items)
    }
}

/// A short form for messages: long lists and texts are cut.
impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 60;
        match self {
            Value::Null => write!(f, "null"),
            Value::Bool(b) => write!(f, "{b}"),
            Value::Unsigned(n) => write!(f, "{n}"),
            Value::Signed(n) => write!(f, "{n}"),
            Value::Float(x) => write!(f, "{x:?}"),
            Value::Text(text) if text.chars().count() <= SHOWN => write!(f, "\"{text}\""),
            Value::Text(text) => {
                write!(f, "\"{}…\" ({} bytes)", text.chars().take(SHOWN).collect::<String>(), text.len())
            }
            Value::Bytes(bytes) => {
                write!(f, "b\"{}\"", bytes.get(..bytes.len().min(SHOWN)).unwrap_or_default().escape_ascii())
            }
            Value::Long { len } => write!(f, "text of {len} bytes"),
            Value::List(list) => write!(f, "a list of {} {}", list.len(), list.kind()),
        }
    }
}

/// A list held in memory, as JSON's are.
#[derive(Debug)]
pub struct Items {
    /// Kind of the elements; JSON has none for a list.
    pub kind: &'static str,
    /// The elements.
    pub values: Vec<Value>,
}

impl List for Items {
    fn kind(&self) -> &str {
        self.kind
    }

    fn len(&self) -> u64 {
        self.values.len() as u64
    }

    fn visit(&self, see: &mut dyn FnMut(u64, Item<'_>) -> ControlFlow<()>) -> Result<()> {
        for (i, value) in self.values.iter().enumerate() {
            let item = match value {
                Value::Text(text) => Item::Text(text.as_bytes()),
                other => Item::Other(other.clone()),
            };
            if see(i as u64, item).is_break() {
                break;
            }
        }
        Ok(())
    }
}

/// One key with its value.
#[derive(Clone, Debug)]
pub struct Entry {
    /// Dotted key: `rope_scaling.factor`, `qwen3.block_count`.
    pub key: String,
    /// The value.
    pub value: Value,
    /// Its kind as the format names it (`u32`, `string`, `array`), for display.
    pub kind: String,
    /// Where the entry begins in its file, where known.
    pub at: Option<u64>,
}

/// Keys and values in file order. Keys are unique: the reader has seen to that.
#[derive(Clone, Debug, Default)]
pub struct Metadata {
    entries: Vec<Entry>,
    by_key: HashMap<String, usize>,
}

impl Metadata {
    /// Adds an entry; returns the earlier entry's place instead if the key is already there.
    pub fn push(&mut self, entry: Entry) -> std::result::Result<(), usize> {
        if let Some(&earlier) = self.by_key.get(&entry.key) {
            return Err(earlier);
        }
        self.by_key.insert(entry.key.clone(), self.entries.len());
        self.entries.push(entry);
        Ok(())
    }

    /// All entries in file order.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The value of a key.
    pub fn get(&self, key: &str) -> Option<&Value> {
        self.entry(key).map(|e| &e.value)
    }

    /// The entry of a key.
    pub fn entry(&self, key: &str) -> Option<&Entry> {
        self.by_key.get(key).and_then(|&i| self.entries.get(i))
    }

    /// The value of a key if it is text.
    pub fn text(&self, key: &str) -> Option<&str> {
        match self.get(key) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// The value of a key if it is a whole number.
    pub fn unsigned(&self, key: &str) -> Option<u64> {
        match self.get(key) {
            Some(Value::Unsigned(n)) => Some(*n),
            _ => None,
        }
    }

    /// The value of a key if it is a list.
    pub fn list(&self, key: &str) -> Option<&Arc<dyn List>> {
        match self.get(key) {
            Some(Value::List(list)) => Some(list),
            _ => None,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }
}
