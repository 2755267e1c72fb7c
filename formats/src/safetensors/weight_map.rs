//! The index of a sharded model: which file holds which tensor.

use super::text::{Text, cut, kind, reason, string, thousands};
use scantling_core::bundle::File;
use scantling_core::codes;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Code, Finding, Findings, Severity};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::fmt;

codes! {
    pub static INDEX_INVALID = Error, Shards, "index-invalid",
        "the index of a sharded model cannot be used",
        "An index is a JSON object with weight_map, an object that gives a file name for every tensor name. The \
         file breaks off, is of another kind, or lacks that map. Fetch it again; without an index, naming one of \
         the shards opens the set by the numbers in the file names.";
    pub static INDEX_ENTRY = Error, Shards, "index-entry",
        "an entry of the index is not a file name",
        "Every value of weight_map is the name of a file beside the index, as text. Readers cannot tell where \
         the tensor of such an entry lies. Write the index again.";
    pub static INDEX_DUPLICATE = Error, Shards, "index-duplicate",
        "the index names a tensor twice",
        "Readers take the first or the last of two equal names, so two of them may look into two different \
         files. If both entries name the same file, only a strict reader objects. Write the index again.";
    pub static INDEX_TOTAL_SIZE = Warning, Shards, "index-total-size",
        "the index's total_size is not the size of its tensors",
        "metadata.total_size is the number of bytes of all tensors together. Several exporters write the size of \
         the files or a number from before a conversion; loaders use it as a hint at most. If tensors are \
         missing as well, trust those findings.";
}

/// An index larger than any header could be is not an index.
pub(super) const MAX_INDEX_BYTES: u64 = super::header::MAX_HEADER_BYTES;

/// A file that the index names.
pub(super) struct Named<'t> {
    /// Its name as written.
    pub name: Cow<'t, str>,
    /// Where it is named first.
    pub at: u64,
    /// How many tensors it is said to hold.
    pub tensors: u64,
}

/// A tensor that the index names.
pub(super) struct Mapped<'t> {
    /// Its name.
    pub name: Cow<'t, str>,
    /// Which of the files.
    pub shard: usize,
    /// Where it is named.
    pub at: u64,
}

/// What an index says.
#[derive(Default)]
pub(super) struct WeightMap<'t> {
    /// The files, in order of first mention.
    pub shards: Vec<Named<'t>>,
    /// The tensors, each once, in order.
    pub tensors: Vec<Mapped<'t>>,
    /// Place in `tensors` by name.
    pub by_name: HashMap<Cow<'t, str>, usize>,
    /// `metadata.total_size`, and where it stands.
    pub total_size: Option<(u64, u64)>,
}

/// The bytes of an index.
pub(super) fn fetch(file: &File) -> Result<Vec<u8>> {
    file.read_all(MAX_INDEX_BYTES)
}

/// Reads an index. Faults of single entries go to `findings`; an error carries them too.
pub(super) fn read<'t>(file: &'t str, bytes: &'t [u8], findings: &mut Findings) -> Result<WeightMap<'t>> {
    const BOM: &[u8] = b"\xef\xbb\xbf";
    let (bytes, base) = bytes.strip_prefix(BOM).map_or((bytes, 0), |rest| (rest, BOM.len() as u64));
    let fail = |findings: &mut Findings, message: String, at: u64| {
        let f = Finding::new(&INDEX_INVALID, message).file(file).at(at);
        findings.push(f.advice("fetch the index again, or name one of the shards"));
        Err(Error::Malformed { findings: std::mem::take(findings).into_vec() })
    };
    let text = match std::str::from_utf8(bytes) {
        Ok(text) => Text { file, text, base },
        Err(e) => {
            let at = base.saturating_add(e.valid_up_to() as u64);
            return fail(findings, "the index is not UTF-8 text".into(), at);
        }
    };
    let mut scan =
        Scan { text, map: WeightMap::default(), files: HashMap::new(), last: ("", 0), maps: 0, findings };
    let mut parser = serde_json::Deserializer::from_str(text.text);
    let parsed = parser.deserialize_map(Top(&mut scan)).and_then(|()| parser.end());
    let (map, maps) = (scan.map, scan.maps);
    if let Err(e) = parsed {
        let at = text.stopped_at(text.text, &e);
        return fail(findings, format!("the index cannot be read: {}", reason(&e)), at);
    }
    if maps == 0 {
        return fail(findings, "the index has no weight_map".into(), base);
    }
    Ok(map)
}

struct Scan<'a, 't> {
    text: Text<'t>,
    map: WeightMap<'t>,
    /// Place in `map.shards` by name.
    files: HashMap<Cow<'t, str>, usize>,
    /// The file that was named last, as written, and its place: mostly the next tensor lies in it too.
    last: (&'t str, usize),
    /// How many members are called weight_map.
    maps: usize,
    findings: &'a mut Findings,
}

impl<'t> Scan<'_, 't> {
    fn finding(&self, code: &'static Code, message: impl Into<String>, at: u64) -> Finding {
        Finding::new(code, message).file(self.text.file).at(at)
    }

    fn top(&mut self, key: &'t str, value: &'t str) {
        match string(key).as_deref() {
            Ok("weight_map") => self.weight_map(key, value),
            Ok("metadata") if value.starts_with('{') => {
                // Only total_size is wanted of it; whatever else stands there is the exporter's own.
                let _ = serde_json::Deserializer::from_str(value).deserialize_map(Facts(self));
            }
            _ => {}
        }
    }

    fn weight_map(&mut self, key: &'t str, value: &'t str) {
        self.maps = self.maps.saturating_add(1);
        let at = self.text.at(key);
        if self.maps > 1 {
            let f = self.finding(&INDEX_DUPLICATE, "weight_map stands twice in the index", at);
            self.findings.push(f.advice("write the index again"));
        }
        if !value.starts_with('{') {
            let f = self.finding(&INDEX_INVALID, "weight_map is not an object", self.text.at(value));
            let f = f.field("weight_map").versus("file names by tensor name", kind(value));
            self.findings.push(f);
            return;
        }
        let before = self.map.tensors.len();
        // An entry of real models takes a hundred bytes; what is set aside stays below the text's own size.
        let likely = value.len().checked_div(128).unwrap_or_default();
        self.map.tensors.reserve(likely);
        self.map.by_name.reserve(likely);
        let parsed = serde_json::Deserializer::from_str(value).deserialize_map(Tensors(self));
        if let Err(e) = parsed {
            let at = self.text.stopped_at(value, &e);
            let f = self.finding(&INDEX_INVALID, format!("weight_map cannot be read: {}", reason(&e)), at);
            self.findings.push(f.field("weight_map"));
        } else if self.map.tensors.len() == before && self.findings.is_empty() {
            let f = self.finding(&INDEX_INVALID, "weight_map is empty: it names no tensors", at);
            self.findings.push(f.field("weight_map").advice("write the index again"));
        }
    }

    fn tensor(&mut self, key: &'t str, value: &'t str) {
        let at = self.text.at(key);
        let name = match string(key) {
            Ok(name) => name,
            Err(e) => {
                let message = format!("a tensor name is not text: {} in {}", reason(&e), cut(key));
                self.findings.push(self.finding(&INDEX_ENTRY, message, at));
                return;
            }
        };
        let Some(shard) = self.shard(value, at) else {
            let f = self.finding(&INDEX_ENTRY, "the index does not give a file name", self.text.at(value));
            let found = format!("{}: {}", kind(value), cut(value));
            self.findings.push(f.tensor(name).versus("the name of a file", found));
            return;
        };
        match self.map.by_name.entry(name.clone()) {
            Entry::Vacant(slot) => {
                slot.insert(self.map.tensors.len());
                self.map.tensors.push(Mapped { name, shard, at });
                if let Some(named) = self.map.shards.get_mut(shard) {
                    named.tensors = named.tensors.saturating_add(1);
                }
            }
            Entry::Occupied(slot) => {
                let first = self.map.tensors.get(*slot.get());
                let (first, first_at) = first.map_or((shard, at), |t| (t.shard, t.at));
                let file = |i: usize| self.map.shards.get(i).map_or("", |s| &*s.name);
                let message = format!(
                    "the index names the tensor twice: in {} (byte {first_at}), then in {}",
                    cut(file(first)),
                    cut(file(shard))
                );
                let severity = if first == shard { Severity::Warning } else { Severity::Error };
                let f = self.finding(&INDEX_DUPLICATE, message, at).tensor(name).severity(severity);
                self.findings.push(f);
            }
        }
    }

    /// The place of a file by its name as written; `None` if that is no text.
    fn shard(&mut self, raw: &'t str, at: u64) -> Option<usize> {
        if raw == self.last.0 {
            return Some(self.last.1);
        }
        let name = one_spelling(string(raw).ok().filter(|_| raw.starts_with('"'))?);
        let next = self.map.shards.len();
        let shard = *self.files.entry(name).or_insert_with_key(|name| {
            self.map.shards.push(Named { name: name.clone(), at, tensors: 0 });
            next
        });
        self.last = (raw, shard);
        Some(shard)
    }

    fn fact(&mut self, key: &'t str, value: &'t str) {
        if !string(key).is_ok_and(|k| k == "total_size") {
            return;
        }
        let at = self.text.at(value);
        match serde_json::from_str::<u64>(value) {
            Ok(size) => self.map.total_size = Some((size, at)),
            Err(_) => {
                let f = self.finding(&INDEX_TOTAL_SIZE, "total_size is not a number of bytes", at);
                let found = format!("{}: {}", kind(value), cut(value));
                self.findings.push(f.field("metadata.total_size").versus("a whole number", found));
            }
        }
    }
}

/// A relative name without the steps that lead nowhere, so that `./a//b` and `a/b` are one file.
fn one_spelling(name: Cow<'_, str>) -> Cow<'_, str> {
    let idle = |step: &str| step.is_empty() || step == ".";
    if name.starts_with('/') || !name.split('/').any(idle) {
        return name;
    }
    Cow::Owned(name.split('/').filter(|step| !idle(step)).collect::<Vec<_>>().join("/"))
}

/// Holds the index's total against the tensors' own.
pub(super) fn judge_total(file: &str, map: &WeightMap<'_>, sum: u64, findings: &mut Findings) {
    if let Some((said, at)) = map.total_size.filter(|(said, _)| *said != sum) {
        let f = Finding::new(&INDEX_TOTAL_SIZE, "total_size is not what the tensors take").file(file).at(at);
        let (sum, said) = (thousands(sum), thousands(said));
        findings.push(f.field("metadata.total_size").versus(format!("{sum} bytes"), format!("{said} bytes")));
    }
}

/// Makes a visitor that hands every member of an object, unread, to a method of [`Scan`].
macro_rules! members {
    ($($name:ident => $method:ident, $what:literal;)+) => {$(
        struct $name<'s, 'a, 't>(&'s mut Scan<'a, 't>);

        impl<'t> Visitor<'t> for $name<'_, '_, 't> {
            type Value = ();

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str($what)
            }

            fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
                while let Some((key, value)) = map.next_entry::<&'t RawValue, &'t RawValue>()? {
                    self.0.$method(key.get(), value.get());
                }
                Ok(())
            }
        }
    )+};
}

members! {
    Top => top, "an object with weight_map";
    Tensors => tensor, "an object of file names by tensor name";
    Facts => fact, "an object";
}
