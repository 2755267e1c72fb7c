//! JSON objects as flat metadata, with the faults that a plain parser passes over.

use crate::codes;
use crate::error::{Error, Result};
use crate::finding::{Code, Finding, Findings, Severity};
use crate::metadata::{Entry, Items, Metadata, Value};
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::collections::HashSet;
use std::fmt;
use std::sync::Arc;

codes! {
    pub static JSON_INVALID = Error, Config, "json-invalid",
        "a file is not valid JSON",
        "The file breaks off, or holds what JSON does not allow (comments, NaN, a trailing comma, a second value). \
         Line and column say where.";
}

/// A JSON object with its nested objects folded into dotted keys.
pub struct Flat {
    /// Keys in file order.
    pub entries: Metadata,
    /// Keys that stand twice.
    pub faults: Findings,
}

/// No hyperparameter's path is longer; members below longer ones are passed over, as their paths would repeat the
/// long name once for each.
const LONGEST_KEY: usize = 512;

impl Flat {
    fn twice(&mut self, code: &'static Code, file: &str, key: String, severity: Severity, second: &str) {
        let message = format!("{key} stands twice, the second time as {second}");
        self.faults.push(Finding::new(code, message).file(file).field(key).severity(severity));
    }
}

/// Parses one JSON object. A key that stands twice is a finding of the code given: an error if the values
/// differ, a warning if they are the same.
pub fn flatten(file: &str, text: &[u8], duplicate: &'static Code) -> Result<Flat> {
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text);
    let mut flat = Flat { entries: Metadata::default(), faults: Findings::new() };
    let mut parser = serde_json::Deserializer::from_slice(text);
    let seed = Object { prefix: String::new(), flat: &mut flat, file, duplicate };
    let parsed = seed.deserialize(&mut parser).and_then(|()| parser.end());
    match parsed {
        Ok(()) => Ok(flat),
        Err(e) => {
            let what =
                if text.is_empty() { "the file is empty".to_owned() } else { format!("not valid JSON: {e}") };
            let f = Finding::new(&JSON_INVALID, what).file(file);
            Err(Error::malformed(f.advice("the file may be cut short or not be the config: fetch it again")))
        }
    }
}

/// Visits an object and adds its members under a prefix.
struct Object<'a> {
    prefix: String,
    flat: &'a mut Flat,
    file: &'a str,
    duplicate: &'static Code,
}

impl<'de> DeserializeSeed<'de> for Object<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<(), D::Error> {
        from.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for Object<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<(), A::Error> {
        let mut seen: HashSet<String> = HashSet::new();
        while let Some(name) = map.next_key::<String>()? {
            if self.prefix.len().saturating_add(name.len()) > LONGEST_KEY {
                map.next_value::<serde::de::IgnoredAny>()?;
                continue;
            }
            // A dot inside a name is no step into an object.
            let key = format!("{}{}", self.prefix, name.replace('.', "\\."));
            let again = !seen.insert(name);
            let fold = Object {
                prefix: format!("{key}."),
                flat: &mut *self.flat,
                file: self.file,
                duplicate: self.duplicate,
            };
            let value = map.next_value_seed(Node(Some(fold)))?;
            let Some(value) = value else {
                if again {
                    self.flat.twice(self.duplicate, self.file, key, Severity::Error, "an object");
                }
                continue;
            };
            let shown = value.to_string();
            let entry = Entry { kind: value.kind().to_owned(), key, value, at: None };
            let key = entry.key.clone();
            let pushed = self.flat.entries.push(entry).is_ok();
            if again {
                let earlier = self.flat.entries.get(&key).map(Value::to_string).unwrap_or_default();
                let same = !pushed && earlier == shown;
                let severity = if same { Severity::Warning } else { Severity::Error };
                self.flat.twice(self.duplicate, self.file, key, severity, &shown);
            }
        }
        Ok(())
    }
}

/// Visits one value. Of an object's members, those that are objects are folded in and leave no value of
/// their own; an object inside a list becomes a list of names and values, since no hyperparameter is looked
/// up through one.
struct Node<'a>(Option<Object<'a>>);

impl<'de> DeserializeSeed<'de> for Node<'_> {
    type Value = Option<Value>;

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> std::result::Result<Self::Value, D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Node<'_> {
    type Value = Option<Value>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        if let Some(fold) = self.0 {
            fold.visit_map(map)?;
            return Ok(None);
        }
        let mut items = Vec::new();
        while let Some(name) = map.next_key::<String>()? {
            items.push(Value::Text(name));
            items.extend(map.next_value_seed(Node(None))?);
        }
        Ok(Some(Value::List(Arc::new(Items { kind: "values", values: items }))))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> std::result::Result<Self::Value, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Node(None))? {
            items.extend(item);
        }
        Ok(Some(Value::List(Arc::new(Items { kind: "values", values: items }))))
    }

    fn visit_bool<E>(self, v: bool) -> std::result::Result<Self::Value, E> {
        Ok(Some(Value::Bool(v)))
    }

    fn visit_u64<E>(self, v: u64) -> std::result::Result<Self::Value, E> {
        Ok(Some(Value::Unsigned(v)))
    }

    fn visit_i64<E>(self, v: i64) -> std::result::Result<Self::Value, E> {
        Ok(Some(Value::Signed(v)))
    }

    fn visit_f64<E>(self, v: f64) -> std::result::Result<Self::Value, E> {
        Ok(Some(Value::Float(v)))
    }

    fn visit_str<E>(self, v: &str) -> std::result::Result<Self::Value, E> {
        Ok(Some(Value::Text(v.to_owned())))
    }

    fn visit_unit<E>(self) -> std::result::Result<Self::Value, E> {
        Ok(Some(Value::Null))
    }
}
