//! The header of one safetensors file: length, JSON object, data.

use super::entry;
use super::text::{Text, cut, kind, reason, string};
use scantling_core::bundle::File;
use scantling_core::codes;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Finding, Findings, Severity};
use scantling_core::foreign;
use scantling_core::index::Declared;
use scantling_core::metadata::{Entry, Metadata, Value};
use serde::de::{Deserializer, MapAccess, Visitor};
use serde_json::value::RawValue;
use std::borrow::Cow;
use std::fmt;

codes! {
    pub static HEADER = Error, Container, "safetensors-header",
        "the header cannot be read",
        "A safetensors file begins with a length of 8 bytes and that many bytes of JSON: one object, from its \
         first byte on, padded with spaces at most. If the length does not fit the file or the text breaks off, \
         the download is unfinished or the file is of another kind; compare its size with the one published.";
    pub static PADDING = Note, Container, "safetensors-padding",
        "the header is padded with something else than spaces",
        "The format names the space as padding after the header's JSON. Line breaks and tabs are read alike by \
         the reference reader, so nothing is lost; a stricter reader may refuse them.";
    pub static METADATA = Error, Container, "safetensors-metadata",
        "the header's metadata are not what the format allows",
        "__metadata__ stands once in a header and holds texts by unique names, nothing else. Readers refuse other \
         values or drop one of two equal names. Write the file again, numbers as text.";
}

/// The reference reader's bound on the length of a header.
pub(super) const MAX_HEADER_BYTES: u64 = 100_000_000;

/// Bytes of the length that a file begins with.
pub(super) const LENGTH_BYTES: u64 = 8;

const METADATA_KEY: &str = "__metadata__";

/// What a header says.
pub(super) struct Header {
    /// Tensors in the order of their entries; their shard is to be filled in.
    pub tensors: Vec<Declared>,
    /// `__metadata__`.
    pub metadata: Metadata,
    /// Where the data begins.
    pub data_start: u64,
}

/// Reads a file's header. What is wrong inside of entries goes to `findings`; an error carries them too.
pub(super) fn read(file: &File, findings: &mut Findings) -> Result<Header> {
    let bytes = fetch(file)?;
    let valid = match std::str::from_utf8(&bytes) {
        Ok(all) => all,
        Err(e) => bytes.get(..e.valid_up_to()).and_then(|b| std::str::from_utf8(b).ok()).unwrap_or_default(),
    };
    let text = Text { file: file.name(), text: valid, base: LENGTH_BYTES };
    let mut header = Header {
        tensors: Vec::new(),
        metadata: Metadata::default(),
        data_start: LENGTH_BYTES.saturating_add(bytes.len() as u64),
    };
    let broken = |message: String, at: u64| Finding::new(&HEADER, message).file(file.name()).at(at);
    if valid.starts_with([' ', '\t', '\r', '\n']) {
        let f = broken("white space stands before the header's JSON".into(), LENGTH_BYTES);
        findings.push(f.versus("'{'", format!("{:?}", valid.get(..1).unwrap_or_default())));
    }
    let parsed = Scan { text, metadata_at: None, unplaced: 0, header: &mut header, findings }.run();
    let stop = if valid.len() < bytes.len() {
        let at = LENGTH_BYTES.saturating_add(valid.len() as u64);
        let f = broken("the header is not UTF-8 text".into(), at);
        Some(f.advice("the file is damaged: fetch it again"))
    } else if let Err(e) = parsed {
        let f = broken(format!("the header is not valid JSON: {}", reason(&e)), text.stopped_at(valid, &e));
        Some(f.advice("the file is damaged, or its writer was broken off: fetch it again"))
    } else {
        None
    };
    let Some(stop) = stop else { return Ok(header) };
    findings.push(stop);
    Err(Error::Malformed { findings: std::mem::take(findings).into_vec() })
}

/// The header's bytes. Its length is held against the file and the limit before anything is set aside for it.
fn fetch(file: &File) -> Result<Vec<u8>> {
    let len = file.len();
    let damaged = |message: String| Finding::new(&HEADER, message).file(file.name()).at(0);
    let refuse = |finding: Finding| -> Error {
        match file.head(512).map(|head| foreign::sniff(&head)) {
            Ok(Some((what, advice))) => {
                Error::Foreign { file: file.name().to_owned(), what: what.into(), advice: advice.into() }
            }
            _ => Error::malformed(finding),
        }
    };
    let Some(room) = len.checked_sub(LENGTH_BYTES) else {
        let f = damaged("the file is too short for a header".into());
        let f = f.versus("at least 8 bytes of length", format!("{len} bytes in all"));
        return Err(refuse(f.advice("the download may not have begun: fetch it again")));
    };
    let reader = file.reader()?;
    let mut length = [0; LENGTH_BYTES as usize];
    reader.read_at(0, &mut length)?;
    let said = u64::from_le_bytes(length);
    if said > room {
        let f = damaged("the header is said to reach past the end of the file".into());
        let f = f.versus(format!("at most {room} bytes"), format!("{said} bytes"));
        let what =
            "the file is cut short, or is no safetensors file: compare its size with the published one";
        return Err(refuse(f.advice(what)));
    }
    if said > MAX_HEADER_BYTES {
        let f = damaged("the header is said to be longer than any reader accepts".into());
        let f = f.versus(format!("at most {MAX_HEADER_BYTES} bytes"), format!("{said} bytes"));
        return Err(refuse(f.advice("it is no safetensors file, or its first bytes are damaged")));
    }
    let mut bytes = vec![0; usize::try_from(said).unwrap_or_default()];
    reader.read_at(LENGTH_BYTES, &mut bytes)?;
    match bytes.iter().find(|b| !b.is_ascii_whitespace()) {
        Some(b'{') => Ok(bytes),
        other => {
            let found = match other {
                Some(_) => {
                    format!("\"{}\"", bytes.get(..bytes.len().min(16)).unwrap_or(&bytes).escape_ascii())
                }
                None if said == 0 => "a header of 0 bytes".to_owned(),
                None => format!("{said} bytes of white space"),
            };
            let f = damaged("the header does not begin with '{'".into()).at(LENGTH_BYTES);
            Err(refuse(f.versus("a JSON object", found).advice("it is no safetensors file, or damaged")))
        }
    }
}

/// Goes through the members of the header's object, of which it builds nothing but the tensors.
struct Scan<'a, 't> {
    text: Text<'t>,
    header: &'a mut Header,
    findings: &'a mut Findings,
    /// Where the first `__metadata__` stands.
    metadata_at: Option<u64>,
    /// Entries so far that have no range.
    unplaced: usize,
}

impl<'t> Scan<'_, 't> {
    fn run(mut self) -> serde_json::Result<()> {
        let mut parser = serde_json::Deserializer::from_str(self.text.text);
        parser.deserialize_map(Members(&mut self))?;
        parser.end()?;
        let end = self.text.text.rfind('}').map_or(0, |i| i.saturating_add(1));
        let padding = self.text.text.get(end..).unwrap_or_default();
        if let Some(odd) = padding.find(|c| c != ' ') {
            let at = self.text.at(padding).saturating_add(odd as u64);
            let f = Finding::new(&PADDING, "the header is padded with line breaks or tabs");
            self.findings.push(f.file(self.text.file).at(at).versus("spaces", "other white space"));
        }
        Ok(())
    }

    fn member(&mut self, key: &'t str, value: &'t str) {
        let at = self.text.at(key);
        match string(key) {
            Ok(name) if name == METADATA_KEY => self.metadata(at, value),
            Ok(name) => self.tensor(name, at, value),
            Err(e) => {
                let message = format!("a name is not text: {} in {}", reason(&e), cut(key));
                let f = Finding::new(&entry::ENTRY, message).file(self.text.file);
                self.findings.push(f.at(self.text.stopped_at(key, &e)));
                // Listed as it is written: its bytes are no gap.
                self.tensor(Cow::Borrowed(key.trim_matches('"')), at, value);
            }
        }
    }

    /// Adds a tensor. Entries without a range can be as short as five bytes: as many are listed as have
    /// findings that are kept, so that a header full of them does not take many times its size.
    fn tensor(&mut self, name: Cow<'_, str>, at: u64, value: &'t str) {
        let tensor = entry::read(&self.text, name, at, value, self.findings);
        if tensor.end.is_none() {
            self.unplaced = self.unplaced.saturating_add(1);
        }
        if tensor.end.is_some() || self.unplaced <= Findings::KEPT {
            self.header.tensors.push(tensor);
        }
    }

    fn metadata(&mut self, at: u64, value: &'t str) {
        if let Some(first) = self.metadata_at {
            let f = self.fault("__metadata__ stands twice", at);
            self.findings.push(f.versus("once", format!("first at byte {first}")));
        }
        self.metadata_at = Some(at);
        if value == "null" {
            return;
        }
        if !value.starts_with('{') {
            let f = self.fault("__metadata__ is not an object", self.text.at(value));
            self.findings.push(f.versus("texts by name", format!("{}: {}", kind(value), cut(value))));
            return;
        }
        let parsed = serde_json::Deserializer::from_str(value).deserialize_map(Notes(self));
        if let Err(e) = parsed {
            let message = format!("__metadata__ cannot be read: {}", reason(&e));
            self.findings.push(self.fault(&message, self.text.stopped_at(value, &e)));
        }
    }

    fn note(&mut self, key: &'t str, value: &'t str) {
        let at = self.text.at(key);
        let Ok(name) = string(key) else {
            self.findings.push(self.fault(&format!("a name is not text: {}", cut(key)), at));
            return;
        };
        let Some(text) = string(value).ok().filter(|_| value.starts_with('"')) else {
            let f = self.fault(&format!("the value of {} is not text", cut(&name)), self.text.at(value));
            let f = f.field(format!("{METADATA_KEY}.{}", cut(&name)));
            self.findings.push(f.versus("text", format!("{}: {}", kind(value), cut(value))));
            return;
        };
        if let Some(earlier) = self.header.metadata.text(&name) {
            let (same, earlier) = (earlier == text, cut(earlier).into_owned());
            let message = format!("{} stands twice: \"{earlier}\", then \"{}\"", cut(&name), cut(&text));
            let f = self.fault(&message, at).field(format!("{METADATA_KEY}.{}", cut(&name)));
            self.findings.push(f.severity(if same { Severity::Warning } else { Severity::Error }));
            return;
        }
        let value = Value::Text(text.into_owned());
        let entry = Entry { key: name.into_owned(), value, kind: "string".into(), at: Some(at) };
        // Cannot be there already: the first of its name is kept, and looked for above.
        let _ = self.header.metadata.push(entry);
    }

    fn fault(&self, message: &str, at: u64) -> Finding {
        Finding::new(&METADATA, message).file(self.text.file).at(at).field(METADATA_KEY)
    }
}

/// Visits the header's object.
struct Members<'s, 'a, 't>(&'s mut Scan<'a, 't>);

impl<'t> Visitor<'t> for Members<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<&'t RawValue, &'t RawValue>()? {
            self.0.member(key.get(), value.get());
        }
        Ok(())
    }
}

/// Visits the object of `__metadata__`.
struct Notes<'s, 'a, 't>(&'s mut Scan<'a, 't>);

impl<'t> Visitor<'t> for Notes<'_, '_, 't> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of texts")
    }

    fn visit_map<A: MapAccess<'t>>(self, mut map: A) -> Result<(), A::Error> {
        while let Some((key, value)) = map.next_entry::<&'t RawValue, &'t RawValue>()? {
            self.0.note(key.get(), value.get());
        }
        Ok(())
    }
}
