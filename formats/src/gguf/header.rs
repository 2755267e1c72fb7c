//! The header of one GGUF file: mark, version, counts and metadata. [`super::entries`] reads on from there.

use super::entries;
use super::scan::{GGUF_ARRAY, GGUF_STRING, Scan, Scanned, Stop, lost};
use super::value::{INLINE, InFile, Kind, Order, PIECE};
use scantling_core::bundle::File;
use scantling_core::codes;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Finding, Findings, Severity};
use scantling_core::index::Declared;
use scantling_core::metadata::{Entry, Metadata, Value};
use std::sync::Arc;

codes! {
    pub(super) static GGUF_VERSION = Error, Container, "gguf-version",
        "the version of the format is not one that is read",
        "Versions 2 and 3 of GGUF share one layout and are read, in either byte order. Version 1 counted in 32 \
         bits; it was current for a few weeks of 2023, and llama.cpp refuses it too: convert the original model \
         again. Any other number is a damaged file or a format of the future, which must not be guessed at.";
    pub(super) static GGUF_COUNT = Error, Container, "gguf-count",
        "the header counts more than the file has room for",
        "The header begins with the number of tensors and of metadata keys, each of which takes some bytes at \
         the least. The file is smaller than that: it is cut short, or the number is damaged.";
    pub(super) static GGUF_METADATA = Error, Container, "gguf-metadata",
        "a metadata value is not what it should be",
        "A value is of one of thirteen kinds, and a bool is 0 or 1. A value of an unknown kind has no size, so \
         nothing behind it can be read.";
    pub(super) static GGUF_KEY_DUPLICATE = Error, Container, "gguf-key-duplicate",
        "a metadata key stands twice",
        "Readers differ in which of two equal keys they take, so two programs would see two models; llama.cpp \
         refuses the file. The first one is shown here. Write the file again with a tool that keeps keys unique.";
    pub(super) static GGUF_NAME = Error, Container, "gguf-name",
        "a key or a tensor's name is not what it should be",
        "Keys are UTF-8 of 1 to 65,535 bytes, names of tensors UTF-8 of at most 64 bytes. llama.cpp keeps names \
         in 64 bytes with a zero at the end, so it refuses one of exactly 64, which is only warned about here.";
    pub(super) static GGUF_ALIGNMENT = Error, Container, "gguf-alignment",
        "general.alignment is not an alignment",
        "The data of every tensor begins at a multiple of general.alignment, a power of two written as a u32, \
         32 where the key is absent. With any other value readers disagree on where the data is. The text of \
         the format asks for a multiple of 8; smaller powers of two are read and warned about.";
}

/// Where the data begins unless the file says otherwise.
const ALIGNMENT: u64 = 32;

/// Metadata held in memory per file: keys, and texts up to [`INLINE`] each. What is beyond stays in the file.
const BUDGET: u64 = 16 * 1024 * 1024;

/// Keys that a file may have; real ones have some dozens. Bounds what a hostile file can cost.
const MAX_KEYS: u64 = 1 << 16;

/// Longest key that the text of the format allows.
const LONGEST_KEY: u64 = 65_535;

/// Bytes of an overlong name that are kept to show it by.
const SHOWN: u64 = 1024;

/// The fewest bytes a key with its value takes: length, kind, one byte.
const LEAST_KEY: u64 = 13;

/// All that a header says.
pub(super) struct Header {
    /// Version of the format.
    pub(super) version: u32,
    /// Byte order.
    pub(super) order: Order,
    /// What offsets are multiples of.
    pub(super) alignment: u64,
    /// Keys and values.
    pub(super) metadata: Metadata,
    /// Entries of the tensors, not yet judged.
    pub(super) tensors: Vec<Declared>,
    /// Offset of the data section.
    pub(super) data_start: u64,
    /// What is wrong with it.
    pub(super) findings: Vec<Finding>,
}

/// Reads the header of a file that is the `shard`-th of its source, which may have `room` more tensors.
pub(super) fn read(file: &Arc<File>, shard: usize, room: u64) -> Result<Header> {
    let mut findings = Findings::new();
    match read_on(file, shard, room, &mut findings) {
        Ok(header) => Ok(Header { findings: findings.into_vec(), ..header }),
        Err(Stop::Failed(error)) => Err(error),
        Err(Stop::Lost(last)) => {
            let mut findings = findings.into_vec();
            findings.push(*last);
            Err(Error::Malformed { findings })
        }
    }
}

fn read_on(file: &Arc<File>, shard: usize, room: u64, findings: &mut Findings) -> Scanned<Header> {
    let mut scan = Scan::new(file, 0, Order::Little)?;
    let version = version(&mut scan, file)?;
    let at = scan.offset();
    let tensors = scan.u64(format_args!("the number of tensors"))?;
    let keys = scan.u64(format_args!("the number of metadata keys"))?;
    let no_room = more_than_fit(&scan, tensors, entries::LEAST, "tensors", at);
    if let Some(f) = more_than_fit(&scan, keys, LEAST_KEY, "metadata keys", at.saturating_add(8)) {
        findings.extend(no_room);
        return Err(lost(f));
    }
    bounded(file, keys, MAX_KEYS, "metadata keys")?;
    let mut reading = Reading { file, scan, findings, metadata: Metadata::default(), budget: BUDGET };
    let read = reading.keys(keys);
    if let Some(f) = no_room {
        // The keys can still be trusted and are read for their faults; entries of tensors cannot.
        return Err(match read {
            Ok(()) => lost(f),
            Err(stop) => {
                reading.findings.push(f);
                stop
            }
        });
    }
    read?;
    bounded(file, tensors, room, "tensors")?;
    let alignment = reading.alignment();
    let Reading { mut scan, findings, metadata, .. } = reading;
    let tensors = entries::read(&mut scan, tensors, shard, findings)?;
    let data_start = data_start(scan.offset(), alignment, file.len(), tensors.is_empty());
    Ok(Header { version, order: scan.order, alignment, metadata, tensors, data_start, findings: Vec::new() })
}

/// The mark and the version; sets the byte order.
fn version(scan: &mut Scan<'_>, file: &File) -> Scanned<u32> {
    let mark: [u8; 4] = scan.bytes(format_args!("the mark \"GGUF\""))?;
    if mark != *b"GGUF" {
        return Err(Stop::Failed(Error::Foreign {
            file: file.name().to_owned(),
            what: format!("not a GGUF file: it begins with \"{}\"", mark.escape_ascii()),
            advice: "a GGUF file begins with \"GGUF\": fetch it anew, or name another file".to_owned(),
        }));
    }
    let at = scan.offset();
    let bytes: [u8; 4] = scan.bytes(format_args!("the version"))?;
    // Versions are small, so only the wrong order shows two empty low bytes: 03 00 00 00 read from the top.
    let little = u32::from_le_bytes(bytes);
    if little & 0xffff == 0 && little != 0 {
        scan.order = Order::Big;
    }
    let version = scan.order.u32(bytes);
    let advice = match version {
        2 | 3 => return Ok(version),
        1 => "version 1 is the first form, with counts of 32 bits: convert the original model again",
        0 => "there is no such version: the file is damaged, fetch it again",
        _ => "the file is damaged, or of a version that came later than this program",
    };
    let f = scan.finding(&GGUF_VERSION, at, format!("version {version} of the format is not read"));
    Err(lost(f.versus("version 2 or 3", format!("version {version}, {}", scan.order.word())).advice(advice)))
}

/// A finding if so many things, each of at least `least` bytes, do not fit into what is left.
fn more_than_fit(scan: &Scan<'_>, count: u64, least: u64, what: &str, at: u64) -> Option<Finding> {
    let most = scan.left().checked_div(least).unwrap_or(0);
    let f = || scan.finding(&GGUF_COUNT, at, format!("more {what} are counted than the file has room for"));
    let advice = "the file is cut short or the number is damaged: fetch it again";
    (count > most).then(|| f().versus(format!("at most {most} {what}"), count.to_string()).advice(advice))
}

/// Refuses what would cost more memory than a reader should be made to spend.
fn bounded(file: &File, count: u64, limit: u64, what: &str) -> Result<()> {
    if count <= limit {
        return Ok(());
    }
    Err(Error::Limit { file: file.name().to_owned(), what: format!("{count} {what}"), limit })
}

/// Where the data begins. A file without tensors ends after its metadata, and its padding may be absent.
fn data_start(header_end: u64, alignment: u64, len: u64, no_tensors: bool) -> u64 {
    let padded = header_end.checked_next_multiple_of(alignment).unwrap_or(u64::MAX);
    if no_tensors { padded.min(len) } else { padded }
}

/// A header while its metadata is read.
struct Reading<'a, 'f> {
    file: &'a Arc<File>,
    scan: Scan<'a>,
    findings: &'f mut Findings,
    metadata: Metadata,
    /// Bytes of keys and texts that may still be kept.
    budget: u64,
}

impl Reading<'_, '_> {
    fn keys(&mut self, count: u64) -> Scanned<()> {
        for i in 1..=count {
            let at = self.scan.offset();
            let key = self.key(at, i, count)?;
            let kind_at = self.scan.offset();
            let id = self.scan.u32(format_args!("the kind of the value of {key}"))?;
            let Some(kind) = Kind::from_id(id) else {
                let f = self.scan.finding(&GGUF_METADATA, kind_at, format!("unknown type of value {id}"));
                let f = f.field(key).versus("a kind from 0 to 12", id.to_string());
                return Err(lost(
                    f.advice("its size cannot be told, so reading stops here; fetch the file again"),
                ));
            };
            let (value, kind) = self.value(kind, &key)?;
            if let Err(earlier) = self.metadata.push(Entry { key: key.clone(), value, kind, at: Some(at) }) {
                let first = self.metadata.entries().get(earlier).and_then(|e| e.at).unwrap_or(0);
                let f = format!("the key stands twice, first at byte {first}");
                self.findings.push(self.scan.finding(&GGUF_KEY_DUPLICATE, at, f).field(key));
            }
        }
        Ok(())
    }

    fn key(&mut self, at: u64, i: u64, count: u64) -> Scanned<String> {
        let name = name(&mut self.scan, LONGEST_KEY, format_args!("metadata key {i} of {count}"))?;
        if name.len == 0 {
            let f = self.scan.finding(&GGUF_NAME, at, "a metadata key is empty");
            self.findings.push(f.versus("at least one character", "none"));
        } else if name.len > LONGEST_KEY {
            let f = self.scan.finding(&GGUF_NAME, at, "a metadata key is too long").field(&name.text);
            self.findings
                .push(f.versus(format!("at most {LONGEST_KEY} bytes"), format!("{} bytes", name.len)));
        }
        if !name.utf8 {
            let f = self.scan.finding(&GGUF_NAME, at, "a metadata key is not UTF-8").field(&name.text);
            self.findings.push(f);
        }
        // Texts can be left in the file when the budget is used up, keys cannot.
        let size = name.text.len() as u64;
        let used = BUDGET.saturating_sub(self.budget).saturating_add(size);
        bounded(self.file, used, BUDGET, "bytes of metadata keys and texts")?;
        self.budget = self.budget.saturating_sub(size);
        Ok(name.text)
    }

    /// A value, and its kind in words.
    fn value(&mut self, kind: Kind, key: &str) -> Scanned<(Value, String)> {
        let at = self.scan.offset();
        let what = format_args!("the value of {key}");
        let value = match (kind, kind.size()) {
            (Kind::Array, _) => return self.list(key),
            (_, Some(size)) => {
                let order = self.scan.order;
                let value = kind.number(self.scan.text(size, what)?, order);
                if let (Kind::Bool, Value::Unsigned(n)) = (kind, &value) {
                    let f = self.scan.finding(&GGUF_METADATA, at, "a bool is neither true nor false");
                    self.findings.push(f.field(key).versus("0 or 1", n.to_string()));
                }
                value
            }
            (_, None) => self.long_or_short(at, key)?,
        };
        Ok((value, kind.name().to_owned()))
    }

    /// A text: in memory while it is of a size to be looked at, and the file has not had its share.
    fn long_or_short(&mut self, at: u64, key: &str) -> Scanned<Value> {
        let what = format_args!("the value of {key}");
        let len = self.scan.length(what)?;
        if len > INLINE || len > self.budget {
            self.scan.skip(len, what)?;
            return Ok(Value::Long { len });
        }
        self.budget = self.budget.saturating_sub(len);
        let value = Value::text(self.scan.text(len, what)?);
        if let Value::Bytes(_) = &value {
            let f = self.scan.finding(&GGUF_STRING, at, "the text is not UTF-8").field(key);
            self.findings.push(f.severity(Severity::Warning));
        }
        Ok(value)
    }

    fn list(&mut self, key: &str) -> Scanned<(Value, String)> {
        let at = self.scan.offset();
        let what = format_args!("the value of {key}");
        let list = self.scan.array(what)?;
        let named = format!("array[{}]", list.kind.name());
        if list.kind == Kind::Bool {
            self.bools(&list, key)?;
        } else {
            self.scan.skip_elements(&list, 1, what)?;
        }
        if list.kind == Kind::Array {
            let f = self.scan.finding(&GGUF_ARRAY, at, "an array of arrays, which llama.cpp refuses to load");
            self.findings.push(f.field(key).severity(Severity::Warning));
        }
        Ok((Value::List(Arc::new(list)), named))
    }

    /// Passes over an array of bools. Only the first of its faults is told.
    fn bools(&mut self, list: &InFile, key: &str) -> Scanned<()> {
        let (mut to_go, mut told) = (list.count, false);
        while to_go > 0 {
            let at = self.scan.offset();
            // The array fits into the file, so no piece is empty.
            let piece = self.scan.piece(to_go.min(PIECE))?;
            let size = (piece.len() as u64).max(1);
            if let Some(i) = piece.iter().position(|&b| b > 1).filter(|_| !told) {
                let found = piece.get(i).map_or(String::new(), u8::to_string);
                let at = at.saturating_add(i as u64);
                let f =
                    self.scan.finding(&GGUF_METADATA, at, "a bool of the array is neither true nor false");
                self.findings.push(f.field(key).versus("0 or 1", found));
                told = true;
            }
            to_go = to_go.saturating_sub(size);
        }
        Ok(())
    }

    /// The alignment that the metadata asks for.
    fn alignment(&mut self) -> u64 {
        const KEY: &str = "general.alignment";
        let Some(entry) = self.metadata.entry(KEY) else { return ALIGNMENT };
        let at = entry.at.unwrap_or(0);
        let finding = |message: &str| self.scan.finding(&GGUF_ALIGNMENT, at, message).field(KEY);
        match entry.value {
            Value::Unsigned(n) if entry.kind == "u32" && n.is_power_of_two() => {
                if n < 8 {
                    let f = finding("the alignment is less than the format's text allows");
                    let f = f.severity(Severity::Warning).versus("a multiple of 8", n.to_string());
                    self.findings.push(f);
                }
                n
            }
            ref other => {
                let found = format!("{} {other}", entry.kind);
                let f = finding("the alignment is not a power of two written as a u32");
                let f = f.versus("u32 8, 16, 32, 64, …", found);
                self.findings.push(f.advice("tensors are listed as if it were 32; write the file again"));
                ALIGNMENT
            }
        }
    }
}

/// A key or the name of a tensor, as far as it is kept.
pub(super) struct Name {
    /// To be shown and looked up by: bytes that are not UTF-8 are escaped, an overlong name is cut.
    pub(super) text: String,
    /// Length in the file.
    pub(super) len: u64,
    /// Whether it is UTF-8.
    pub(super) utf8: bool,
}

/// Reads a name, of which no more than its limit, or [`SHOWN`] bytes of an overlong one, is kept.
pub(super) fn name(scan: &mut Scan<'_>, limit: u64, what: std::fmt::Arguments<'_>) -> Scanned<Name> {
    let len = scan.length(what)?;
    let keep = if len > limit { len.min(SHOWN) } else { len };
    let bytes = scan.text(keep, what)?;
    let (mut text, mut utf8) = (String::with_capacity(bytes.len()), true);
    for chunk in bytes.utf8_chunks() {
        text.push_str(chunk.valid());
        // A name that was cut may end inside a character.
        if !chunk.invalid().is_empty() && keep == len {
            utf8 = false;
            text.push_str(&chunk.invalid().escape_ascii().to_string());
        }
    }
    if keep < len {
        text.push('…');
    }
    scan.skip(len.saturating_sub(keep), what)?;
    Ok(Name { text, len, utf8 })
}
