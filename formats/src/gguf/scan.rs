//! Reading forward through a GGUF header: numbers in either byte order, and lengths that are held against
//! the file before anything is made of them.

use super::value::{InFile, Kind, Order, PIECE};
use scantling_core::bundle::{Cursor, File};
use scantling_core::codes;
use scantling_core::error::Error;
use scantling_core::finding::{Code, Finding};
use std::fmt::Arguments;
use std::sync::Arc;

codes! {
    pub(super) static GGUF_TRUNCATED = Error, Container, "gguf-truncated",
        "the file ends inside its header",
        "The header of a GGUF file lists its metadata and its tensors before any data. The file ends before that \
         list does, so nothing of the rest can be told: the download was broken off, the disk was full, or a \
         length inside the header is damaged and points past the end. Compare the size with the one published \
         and fetch the file again.";
    pub(super) static GGUF_STRING = Error, Container, "gguf-string",
        "a text in the metadata is not what it should be",
        "Texts are written as a length and that many bytes of UTF-8, at most 1 GiB. A length beyond that is \
         damaged. Bytes that are not UTF-8 do occur in the vocabularies of real files; they are shown escaped, \
         and only warned about.";
    pub(super) static GGUF_ARRAY = Error, Container, "gguf-array",
        "an array in the metadata is not what it should be",
        "An array names the kind of its elements and how many there are. An unknown kind has no size, so nothing \
         behind it can be read; a number of elements that the file has no room for is damaged, or the file is \
         cut short. Arrays of arrays are in the text of the format, but llama.cpp refuses to load such files, so \
         they are warned about; here they are read up to eight deep.";
}

/// Longest text that llama.cpp takes.
const LONGEST: u64 = 1 << 30;

/// How deep arrays may be nested. The bound keeps a hostile file from using up the stack.
const DEPTH: usize = 8;

/// What to do where the file ends early.
const FETCH: &str =
    "the file is cut short or damaged: compare its size with the one published and fetch it again";

/// Why reading stopped.
pub(super) enum Stop {
    /// Nothing behind this place can be trusted.
    Lost(Box<Finding>),
    /// The system refused, or a bound was reached.
    Failed(Error),
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Failed(error)
    }
}

impl From<Stop> for Error {
    fn from(stop: Stop) -> Error {
        match stop {
            Stop::Lost(finding) => Error::malformed(*finding),
            Stop::Failed(error) => error,
        }
    }
}

/// The result of reading on.
pub(super) type Scanned<T> = std::result::Result<T, Stop>;

/// A place in the header of one file. `what` tells, in each call, what is being read.
pub(super) struct Scan<'a> {
    file: &'a Arc<File>,
    cursor: Cursor<'a>,
    /// Byte order; told by the version, so it is set once that has been read.
    pub(super) order: Order,
}

impl<'a> Scan<'a> {
    /// Starts at an offset.
    pub(super) fn new(file: &'a Arc<File>, offset: u64, order: Order) -> Result<Scan<'a>, Error> {
        Ok(Scan { file, cursor: Cursor::new(file, offset)?, order })
    }

    /// Offset of the next byte.
    pub(super) fn offset(&self) -> u64 {
        self.cursor.offset()
    }

    /// Bytes up to the end of the file.
    pub(super) fn left(&self) -> u64 {
        self.cursor.left()
    }

    /// A finding at a place in this file.
    pub(super) fn finding(&self, code: &'static Code, at: u64, message: impl Into<String>) -> Finding {
        Finding::new(code, message).file(self.file.name()).at(at)
    }

    /// `N` bytes.
    pub(super) fn bytes<const N: usize>(&mut self, what: Arguments<'_>) -> Scanned<[u8; N]> {
        let at = self.offset();
        match self.cursor.take(N)?.and_then(|b| b.first_chunk().copied()) {
            Some(bytes) => Ok(bytes),
            None => Err(self.ends(at, N as u64, what)),
        }
    }

    /// A number of 4 bytes.
    pub(super) fn u32(&mut self, what: Arguments<'_>) -> Scanned<u32> {
        let bytes = self.bytes(what)?;
        Ok(self.order.u32(bytes))
    }

    /// A number of 8 bytes.
    pub(super) fn u64(&mut self, what: Arguments<'_>) -> Scanned<u64> {
        let bytes = self.bytes(what)?;
        Ok(self.order.u64(bytes))
    }

    /// The length of a text, which the file has room for.
    pub(super) fn length(&mut self, what: Arguments<'_>) -> Scanned<u64> {
        let at = self.offset();
        let len = self.u64(format_args!("the length of {what}"))?;
        if len > self.left() { Err(self.too_long(at, len, what)) } else { Ok(len) }
    }

    /// The bytes of a text, whose length the caller has bounded.
    pub(super) fn text(&mut self, len: u64, what: Arguments<'_>) -> Scanned<&[u8]> {
        let at = self.offset();
        if len > self.left() {
            return Err(self.ends(at, len, what));
        }
        let take = usize::try_from(len).unwrap_or(usize::MAX);
        Ok(self.cursor.take(take)?.unwrap_or_default())
    }

    /// Passes over bytes.
    pub(super) fn skip(&mut self, len: u64, what: Arguments<'_>) -> Scanned<()> {
        let at = self.offset();
        if self.cursor.skip(len) { Ok(()) } else { Err(self.ends(at, len, what)) }
    }

    /// The next bytes, up to `want`; fewer at the end of the file.
    pub(super) fn piece(&mut self, want: u64) -> Result<&[u8], Error> {
        let take = want.min(self.left()).min(PIECE);
        Ok(self.cursor.take(usize::try_from(take).unwrap_or(0))?.unwrap_or_default())
    }

    /// The head of an array: the kind and number of its elements, which the file has room for.
    pub(super) fn array(&mut self, what: Arguments<'_>) -> Scanned<InFile> {
        let at = self.offset();
        let id = self.u32(format_args!("the kind of the elements of {what}"))?;
        let count_at = self.offset();
        let count = self.u64(format_args!("the number of elements of {what}"))?;
        let Some(kind) = Kind::from_id(id) else {
            let f = self.finding(&GGUF_ARRAY, at, format!("{what} has elements of unknown type {id}"));
            let f = f.versus("a kind from 0 to 12", id.to_string());
            return Err(lost(
                f.advice("its size cannot be told, so reading stops here; write the file again"),
            ));
        };
        let room = self.left().checked_div(kind.at_least()).unwrap_or(0);
        if count > room {
            let message = format!("{what} is said to be larger than what is left of the file");
            let f = self.finding(&GGUF_ARRAY, count_at, message);
            let f = f.versus(format!("at most {room} elements of {}", kind.name()), count.to_string());
            return Err(lost(f.advice(FETCH)));
        }
        Ok(InFile { file: self.file.clone(), kind, count, start: self.offset(), order: self.order })
    }

    /// Passes over the elements of an array. `depth` counts the arrays around them, their own included.
    pub(super) fn skip_elements(&mut self, list: &InFile, depth: usize, what: Arguments<'_>) -> Scanned<()> {
        if let Some(size) = list.kind.size() {
            return self.skip(list.count.saturating_mul(size), what);
        }
        if list.kind == Kind::Text {
            return self.skip_texts(list.count, what);
        }
        if depth >= DEPTH {
            let f = self.finding(&GGUF_ARRAY, self.offset(), format!("{what} nests arrays too deep"));
            let f = f.versus(format!("at most {DEPTH} levels"), "more");
            return Err(lost(f.advice("no writer makes such files: fetch it again from its source")));
        }
        for _ in 0..list.count {
            let inner = self.array(what)?;
            self.skip_elements(&inner, depth.saturating_add(1), what)?;
        }
        Ok(())
    }

    /// Passes over texts, many to a buffer: vocabularies hold hundreds of thousands.
    fn skip_texts(&mut self, count: u64, what: Arguments<'_>) -> Scanned<()> {
        let mut to_go = count;
        while to_go > 0 {
            // A text takes at least the 8 bytes of its length, so this piece does not reach past the array.
            let want = to_go.saturating_mul(8).min(PIECE);
            let (start, order) = (self.offset(), self.order);
            let walked = walk(self.piece(want)?, order);
            to_go = to_go.saturating_sub(walked.passed);
            if let Some(over) = walked.over {
                if !self.cursor.skip(over) {
                    let at = start.saturating_add(walked.last);
                    return Err(self.too_long(at, walked.last_len, what));
                }
            } else if to_go > 0 {
                // A length that lies across the end of the piece.
                let at = start.saturating_add(walked.last);
                let have = walked.tail_len;
                let mut length = walked.tail;
                let rest = 8u64.saturating_sub(have as u64);
                if rest > self.left() {
                    return Err(self.ends(at, 8, what));
                }
                let more = self.piece(rest)?;
                length.iter_mut().skip(have).zip(more).for_each(|(to, from)| *to = *from);
                let len = order.u64(length);
                if !self.cursor.skip(len) {
                    return Err(self.too_long(at, len, what));
                }
                to_go = to_go.saturating_sub(1);
            }
        }
        Ok(())
    }

    /// The file ends inside something that needs `need` bytes from `at` on.
    fn ends(&self, at: u64, need: u64, what: Arguments<'_>) -> Stop {
        let left = self.file.len().saturating_sub(at);
        let missing = need.saturating_sub(left);
        let f =
            self.finding(&GGUF_TRUNCATED, at, format!("the file ends inside {what}, {missing} bytes short"));
        lost(f.versus(format!("{need} bytes"), format!("{left}")).advice(FETCH))
    }

    /// A text whose length, at `at`, reaches past the end of the file.
    fn too_long(&self, at: u64, len: u64, what: Arguments<'_>) -> Stop {
        let left = self.file.len().saturating_sub(at.saturating_add(8));
        let missing = len.saturating_sub(left);
        let code = if len > LONGEST { &GGUF_STRING } else { &GGUF_TRUNCATED };
        let f = self.finding(
            code,
            at,
            format!("the length of {what} reaches {missing} bytes past the end of the file"),
        );
        lost(f.versus(format!("at most {left} bytes"), len.to_string()).advice(FETCH))
    }
}

/// Shorthand.
pub(super) fn lost(finding: Finding) -> Stop {
    Stop::Lost(Box::new(finding))
}

/// What [`walk`] found.
struct Walked {
    /// Texts whose length lies in the piece.
    passed: u64,
    /// Where the last one began; if the piece ends inside a length, where that begins.
    last: u64,
    /// Its length.
    last_len: u64,
    /// How far it reaches past the piece; `None` if the piece ends inside or before a length.
    over: Option<u64>,
    /// The part of that length which is in the piece.
    tail: [u8; 8],
    /// How many bytes that is.
    tail_len: usize,
}

/// Goes from text to text as far as a piece reaches.
fn walk(piece: &[u8], order: Order) -> Walked {
    let (mut passed, mut last, mut last_len) = (0u64, 0, 0);
    let mut at = 0usize;
    while let Some(length) = piece.get(at..).and_then(|rest| rest.first_chunk()) {
        last = at as u64;
        last_len = order.u64(*length);
        at = at.saturating_add(8).saturating_add(usize::try_from(last_len).unwrap_or(usize::MAX));
        passed = passed.saturating_add(1);
    }
    let mut tail = [0; 8];
    let Some(rest) = piece.get(at..) else {
        let over = Some(at.saturating_sub(piece.len()) as u64);
        return Walked { passed, last, last_len, over, tail, tail_len: 0 };
    };
    tail.iter_mut().zip(rest).for_each(|(to, from)| *to = *from);
    Walked { passed, last: at as u64, last_len, over: None, tail, tail_len: rest.len() }
}
