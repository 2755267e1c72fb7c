//! One tensor's entry in a header: every fault in it is reported, and reading goes on.

use super::text::{Text, cut, elements, kind, reason, string};
use scantling_core::codes;
use scantling_core::dtype::DType;
use scantling_core::finding::{Code, Finding, Findings};
use scantling_core::index::{Declared, ElementType};
use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

codes! {
    pub static ENTRY = Error, Container, "safetensors-entry",
        "a tensor's entry in the header is not as it should be",
        "An entry is an object with dtype, shape and data_offsets, each of them once. Readers differ in which of \
         two equal fields they take, and can do nothing with an entry of another kind. The writer of the file is \
         at fault, or the header was edited or damaged: write the file again.";
    pub static DTYPE = Error, Container, "safetensors-dtype",
        "a tensor's element type is missing or not a name",
        "The field dtype holds the name of an element type as text: F32, BF16, F8_E4M3. Without it neither the \
         size nor the values of the tensor can be told. Write the file again.";
    pub static SHAPE = Error, Container, "safetensors-shape",
        "a tensor's shape is missing or not a list of sizes",
        "The field shape is a list of whole numbers of 0 or more, outermost axis first; [] is a single number. \
         Negative sizes, fractions, text and null have no meaning here. Write the file again.";
    pub static OFFSETS = Error, Container, "safetensors-offsets",
        "a tensor's byte range is missing or not two numbers",
        "The field data_offsets holds two whole numbers of 0 or more: where the tensor's bytes begin and end, \
         counted from the end of the header. Without them its bytes cannot be found. Write the file again.";
}

/// Reads the entry that stands at `at` under `name`. A fault is left behind as a finding, and the entry as
/// one whose extent is not known, so that it is still listed and its bytes are not taken for a gap.
pub(super) fn read(
    text: &Text<'_>,
    name: Cow<'_, str>,
    at: u64,
    raw: &str,
    findings: &mut Findings,
) -> Declared {
    let mut entry = Entry { text, name: &name, at, findings };
    let fields = entry.fields(raw);
    let dtype = fields.as_ref().and_then(|f| entry.dtype(f.dtype));
    let shape = fields.as_ref().and_then(|f| entry.shape(f.shape));
    let range = fields.as_ref().and_then(|f| entry.offsets(f.offsets));
    // An empty name is a type whose fault has been reported; it keeps the index from deriving a size or a
    // range from what is only half there. A type with a name is the index's to report.
    let whole = shape.is_some() && range.is_some();
    let dtype = dtype.filter(|d| whole || d.known().is_none());
    let dtype = dtype.unwrap_or_else(|| ElementType::Unknown(String::new()));
    let shape = shape.unwrap_or_default();
    let (start, end) = range.map_or((0, None), |(start, end)| (start, Some(end)));
    Declared { name: name.into_owned(), dtype, shape, start, end, shard: 0, entry_at: at }
}

/// An entry that is being read.
struct Entry<'a, 't> {
    text: &'a Text<'t>,
    name: &'a str,
    at: u64,
    findings: &'a mut Findings,
}

impl Entry<'_, '_> {
    fn fields<'r>(&mut self, raw: &'r str) -> Option<Fields<'r>> {
        if !raw.starts_with('{') {
            let found = format!("{} ({})", kind(raw), cut(raw));
            let f = self.finding(&ENTRY, "the entry is not an object", self.text.at(raw));
            self.findings.push(f.versus("an object with dtype, shape and data_offsets", found));
            return None;
        }
        let mut fields = Fields::default();
        let parsed = serde_json::Deserializer::from_str(raw).deserialize_map(IntoFields(&mut fields));
        if let Err(e) = parsed {
            let at = self.text.stopped_at(raw, &e);
            let message = format!("the entry cannot be read: {}", reason(&e));
            self.findings.push(self.finding(&ENTRY, message, at));
            return None;
        }
        for (field, again) in std::mem::take(&mut fields.twice) {
            let f = self.finding(&ENTRY, format!("{field} stands twice in the entry"), self.text.at(again));
            self.findings.push(f.field(field).advice("write the file again with each field once"));
        }
        for (field, other) in std::mem::take(&mut fields.other) {
            if let Err(e) = serde_json::from_str::<Skipped>(other) {
                let message = format!("the field {} cannot be read: {}", cut(&field), reason(&e));
                let at = self.text.stopped_at(other, &e);
                self.findings.push(self.finding(&ENTRY, message, at).field(cut(&field)));
            }
        }
        Some(fields)
    }

    fn dtype(&mut self, raw: Option<&str>) -> Option<ElementType> {
        let Some(raw) = raw else {
            return self.missing(&DTYPE, "dtype", "the name of an element type");
        };
        match string(raw).ok().filter(|_| raw.starts_with('"')) {
            Some(name) if !name.is_empty() => Some(match DType::from_safetensors(&name) {
                Some(dtype) => ElementType::Known(dtype),
                None => ElementType::Unknown(cut(&name).into_owned()),
            }),
            _ => self.unfit(&DTYPE, "dtype", "the name of an element type, such as \"BF16\"", raw),
        }
    }

    fn shape(&mut self, raw: Option<&str>) -> Option<Vec<u64>> {
        const WANTED: &str = "a list of whole numbers of 0 or more";
        let Some(raw) = raw else { return self.missing(&SHAPE, "shape", WANTED) };
        if let Ok(shape) = serde_json::from_str(raw) {
            return Some(shape);
        }
        let list = elements(raw).unwrap_or_default();
        match list.iter().position(|e| serde_json::from_str::<u64>(e).is_err()) {
            Some(axis) => {
                let bad = list.get(axis).copied().unwrap_or(raw);
                let message = format!("axis {axis} of its shape is not a size");
                let f = self.finding(&SHAPE, message, self.text.at(bad)).field("shape");
                self.findings.push(f.versus("a whole number of 0 or more", described(bad)));
                None
            }
            None => self.unfit(&SHAPE, "shape", WANTED, raw),
        }
    }

    fn offsets(&mut self, raw: Option<&str>) -> Option<(u64, u64)> {
        const WANTED: &str = "two whole numbers, [begin, end]";
        let Some(raw) = raw else { return self.missing(&OFFSETS, "data_offsets", WANTED) };
        match serde_json::from_str(raw) {
            Ok(range) => Some(range),
            Err(_) => self.unfit(&OFFSETS, "data_offsets", WANTED, raw),
        }
    }

    fn missing<T>(&mut self, code: &'static Code, field: &str, wanted: &str) -> Option<T> {
        let f = self.finding(code, format!("{field} is missing from the entry"), self.at).field(field);
        self.findings.push(f.versus(wanted, "nothing"));
        None
    }

    fn unfit<T>(&mut self, code: &'static Code, field: &str, wanted: &str, raw: &str) -> Option<T> {
        let message = format!("{field} is not what it should be");
        let f = self.finding(code, message, self.text.at(raw)).field(field);
        self.findings.push(f.versus(wanted, described(raw)));
        None
    }

    fn finding(&self, code: &'static Code, message: impl Into<String>, at: u64) -> Finding {
        Finding::new(code, message).file(self.text.file).at(at).tensor(self.name)
    }
}

/// A value as messages show it.
fn described(raw: &str) -> String {
    match kind(raw) {
        "null" => "null".to_owned(),
        kind => format!("{kind}: {}", cut(raw)),
    }
}

/// The fields of an entry, unread.
#[derive(Default)]
struct Fields<'r> {
    dtype: Option<&'r str>,
    shape: Option<&'r str>,
    offsets: Option<&'r str>,
    /// Fields that came again, with their second value.
    twice: Vec<(&'static str, &'r str)>,
    /// Fields that the format does not know; the reference reader skips them too.
    other: Vec<(String, &'r str)>,
}

struct IntoFields<'a, 'r>(&'a mut Fields<'r>);

impl<'r> Visitor<'r> for IntoFields<'_, 'r> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'r>>(self, mut map: A) -> Result<(), A::Error> {
        let fields = self.0;
        while let Some(key) = map.next_key::<Name>()? {
            let raw = map.next_value::<&'r RawValue>()?.get();
            let (name, slot) = match key {
                Name::Dtype => ("dtype", &mut fields.dtype),
                Name::Shape => ("shape", &mut fields.shape),
                Name::Offsets => ("data_offsets", &mut fields.offsets),
                Name::Other(name) => {
                    fields.other.push((name, raw));
                    continue;
                }
            };
            match slot {
                Some(_) => fields.twice.push((name, raw)),
                None => *slot = Some(raw),
            }
        }
        Ok(())
    }
}

/// The name of a field.
enum Name {
    Dtype,
    Shape,
    Offsets,
    Other(String),
}

impl<'de> Deserialize<'de> for Name {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Name, D::Error> {
        struct IntoName;
        impl Visitor<'_> for IntoName {
            type Value = Name;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a field name")
            }

            fn visit_str<E>(self, name: &str) -> Result<Name, E> {
                Ok(match name {
                    "dtype" => Name::Dtype,
                    "shape" => Name::Shape,
                    "data_offsets" => Name::Offsets,
                    other => Name::Other(other.to_owned()),
                })
            }
        }
        from.deserialize_str(IntoName)
    }
}

/// A value that is read and dropped. Unlike serde's own way of skipping it holds text, numbers and depth to
/// the parser's limits, as the reference reader does.
struct Skipped;

impl<'de> Deserialize<'de> for Skipped {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Skipped, D::Error> {
        from.deserialize_any(Skipped)
    }
}

impl<'de> Visitor<'de> for Skipped {
    type Value = Skipped;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Skipped, A::Error> {
        while map.next_entry::<Skipped, Skipped>()?.is_some() {}
        Ok(Skipped)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Skipped, A::Error> {
        while list.next_element::<Skipped>()?.is_some() {}
        Ok(Skipped)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_str<E>(self, _: &str) -> Result<Skipped, E> {
        Ok(Skipped)
    }

    fn visit_unit<E>(self) -> Result<Skipped, E> {
        Ok(Skipped)
    }
}
