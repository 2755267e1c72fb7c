//! The screen: the one place where characters leave the program.
//!
//! Everything goes through a [`Screen`]. It escapes what a terminal would obey rather than show, puts ASCII in
//! the place of other characters where that is wished for, colours nothing unless asked to, and treats a
//! reader that has gone away as one that has seen enough.

#![allow(clippy::disallowed_methods)] // this is where the two streams are opened

use crate::args::{ColourWish, LookArgs};
use anstream::ColorChoice;
use anstyle::Style;
use std::borrow::Cow;
use std::fmt;
use std::io::{self, IsTerminal, Write};

/// How output is to look.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Look {
    /// Columns of the terminal; `None` where nobody limits them.
    pub width: Option<usize>,
    /// Whether only ASCII may be written.
    pub ascii: bool,
    /// Whether colours may be written.
    pub colour: bool,
    /// Whether it is a terminal, which obeys what it is sent.
    pub terminal: bool,
}

impl Look {
    /// What standard output should look like.
    pub fn of_stdout(args: &LookArgs) -> Look {
        let colour = choice(args.color, &io::stdout()) != ColorChoice::Never;
        let here = || terminal_size::terminal_size_of(io::stdout()).map(|(w, _)| usize::from(w.0));
        let terminal = io::stdout().is_terminal();
        Look { width: args.width.flatten().or_else(here), ascii: args.ascii, colour, terminal }
    }

    /// What standard error should look like.
    pub fn of_stderr(args: &LookArgs) -> Look {
        let colour = choice(args.color, &io::stderr()) != ColorChoice::Never;
        let here = || terminal_size::terminal_size_of(io::stderr()).map(|(w, _)| usize::from(w.0));
        let terminal = io::stderr().is_terminal();
        Look { width: args.width.flatten().or_else(here), ascii: args.ascii, colour, terminal }
    }
}

/// Whether a stream gets colours: as asked; if not asked, by `NO_COLOR`, `CLICOLOR` and what the stream is.
fn choice(wish: ColourWish, stream: &impl anstream::stream::RawStream) -> ColorChoice {
    match wish {
        ColourWish::Always => ColorChoice::Always,
        ColourWish::Never => ColorChoice::Never,
        ColourWish::Auto => anstream::AutoStream::choice(stream),
    }
}

/// Standard output, locked and buffered, with colours translated as the stream needs it.
pub fn stdout(look: &Look) -> impl Write {
    io::BufWriter::with_capacity(1 << 16, anstream::AutoStream::new(io::stdout().lock(), stream_choice(look)))
}

/// Standard error, locked and buffered.
pub fn stderr(look: &Look) -> impl Write {
    io::BufWriter::new(anstream::AutoStream::new(io::stderr().lock(), stream_choice(look)))
}

fn stream_choice(look: &Look) -> ColorChoice {
    // Without colours nothing of this program's own is to be stripped, and texts of models may hold anything.
    if look.colour { ColorChoice::Always } else { ColorChoice::AlwaysAnsi }
}

/// A place to write to, with the rules of the house.
pub struct Screen<'a> {
    out: &'a mut dyn Write,
    look: Look,
    /// The first thing that went wrong; nothing more is written after it.
    failed: Option<io::Error>,
}

impl<'a> Screen<'a> {
    /// A screen over any writer.
    pub fn new(out: &'a mut dyn Write, look: Look) -> Screen<'a> {
        Screen { out, look, failed: None }
    }

    /// How it looks.
    pub fn look(&self) -> Look {
        self.look
    }

    /// Whether what is written goes nowhere any more.
    pub fn is_lost(&self) -> bool {
        self.failed.is_some()
    }

    /// Columns there are; a very large number where nobody limits them.
    pub fn width(&self) -> usize {
        self.look.width.unwrap_or(usize::MAX).max(20)
    }

    /// What a cut is marked with.
    pub fn ellipsis(&self) -> &'static str {
        if self.look.ascii { "..." } else { "…" }
    }

    /// Writes text in a style.
    pub fn paint(&mut self, style: Style, text: &str) -> fmt::Result {
        if self.look.colour {
            self.send(style.render().to_string().as_bytes());
        }
        fmt::Write::write_str(self, text)?;
        if self.look.colour {
            self.send(style.render_reset().to_string().as_bytes());
        }
        Ok(())
    }

    /// Writes bytes as they are: for documents that follow escaping rules of their own.
    pub fn send(&mut self, bytes: &[u8]) {
        if self.failed.is_none()
            && let Err(error) = self.out.write_all(bytes)
        {
            self.failed = Some(error);
        }
    }

    /// Hands on what is in the buffer, so that it can be read while the next model is looked at.
    pub fn flush(&mut self) {
        if self.failed.is_none()
            && let Err(error) = self.out.flush()
        {
            self.failed = Some(error);
        }
    }

    /// Whether everything arrived. A reader that closed its end has had all it wanted.
    pub fn finish(mut self) -> io::Result<()> {
        self.flush();
        match self.failed {
            Some(error) if error.kind() != io::ErrorKind::BrokenPipe => Err(error),
            _ => Ok(()),
        }
    }
}

/// Text for people. A fault of the writer is kept for [`Screen::finish`], so that a command goes on to its
/// exit code even when nobody reads any more.
impl fmt::Write for Screen<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let harmless = text.bytes().all(|b| b == b'\n' || (b' '..0x7f).contains(&b));
        if harmless {
            self.send(text.as_bytes());
            return Ok(());
        }
        let shown = escape_where(text, |c| c != '\n' && is_control(c));
        if self.look.ascii {
            self.send(to_ascii(&shown).as_bytes());
        } else {
            self.send(shown.as_bytes());
        }
        Ok(())
    }
}

/// A document with escaping rules of its own, such as JSON.
impl Write for Screen<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Characters that a terminal obeys, or that change how the text around them is read: C0 with tab and newline,
/// DEL, C1, line separators, bidirectional controls, spaces of no width, the byte order mark.
pub fn is_control(c: char) -> bool {
    matches!(
        c,
        '\0'..='\x1f'
            | '\x7f'..='\u{9f}'
            | '\u{61c}'
            | '\u{200b}'
            | '\u{2060}'
            | '\u{200e}'
            | '\u{200f}'
            | '\u{2028}'..='\u{202e}'
            | '\u{2066}'..='\u{2069}'
            | '\u{feff}'
    )
}

/// A string that came from a file or a path, safe to show on one line.
pub fn escape(text: &str) -> Cow<'_, str> {
    escape_where(text, is_control)
}

fn escape_where(text: &str, unsafe_char: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(&unsafe_char) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len().saturating_add(16));
    for c in text.chars() {
        match c {
            c if !unsafe_char(c) => shown.push(c),
            c if c.is_ascii() => shown.push_str(&format!("\\x{:02x}", u32::from(c))),
            c => shown.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
    }
    Cow::Owned(shown)
}

/// The same text in ASCII: what this program draws with by likeness, anything else by number.
pub fn to_ascii(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    let mut before = ' ';
    for c in text.chars() {
        match c {
            c if c.is_ascii() => plain.push(c),
            '─' | '–' | '—' => plain.push('-'),
            '▶' => plain.push('>'),
            '█' => plain.push('#'),
            '✓' => plain.push_str("ok"),
            '✗' => plain.push_str("!!"),
            '×' => plain.push('x'),
            '±' => plain.push_str("+/-"),
            'µ' => plain.push('u'),
            '·' if before == ' ' => plain.push('|'),
            '·' => plain.push('*'),
            '→' => plain.push_str("->"),
            'ᵀ' => plain.push_str("^T"),
            '…' => plain.push_str("..."),
            '≤' => plain.push_str("<="),
            '≥' => plain.push_str(">="),
            '≠' => plain.push_str("!="),
            '‘' | '’' => plain.push('\''),
            '“' | '”' => plain.push('"'),
            c => plain.push_str(&format!("\\u{{{:x}}}", u32::from(c))),
        }
        before = c;
    }
    plain
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fmt::Write as _;

    fn shown(look: Look, write: impl FnOnce(&mut Screen<'_>)) -> String {
        let mut bytes = Vec::new();
        let mut screen = Screen::new(&mut bytes, look);
        write(&mut screen);
        screen.finish().unwrap();
        String::from_utf8(bytes).unwrap()
    }

    #[test]
    fn every_control_is_escaped_and_the_rest_is_kept() {
        assert_eq!(escape("plain ü 漢 \u{1f600}"), "plain ü 漢 \u{1f600}");
        assert_eq!(escape("\x1b[2J"), "\\x1b[2J");
        assert_eq!(escape("a\tb\nc\x7f"), "a\\x09b\\x0ac\\x7f");
        assert_eq!(escape("\u{9b}\u{202e}\u{2066}\u{feff}"), "\\u{9b}\\u{202e}\\u{2066}\\u{feff}");
        for c in (0..=0x10ffff).filter_map(char::from_u32).filter(|c| c.is_control()) {
            assert!(!escape(&c.to_string()).chars().any(char::is_control), "{c:?}");
        }
    }

    #[test]
    fn the_screen_escapes_what_nobody_escaped_before() {
        let out = shown(Look::default(), |s| s.write_str("one\ntwo\x1b[2J\r").unwrap());
        assert_eq!(out, "one\ntwo\\x1b[2J\\x0d");
    }

    #[test]
    fn ascii_is_ascii() {
        let look = Look { ascii: true, ..Look::default() };
        let out = shown(look, |s| s.write_str("── 1 ──▶ 2 · ✓ ✗ 16·128 × → ᵀ … — ±1 µs 漢").unwrap());
        assert_eq!(out, "-- 1 --> 2 | ok !! 16*128 x -> ^T ... - +/-1 us \\u{6f22}");
    }

    #[test]
    fn colours_only_where_asked_for() {
        let bold = Style::new().bold();
        assert_eq!(shown(Look::default(), |s| s.paint(bold, "x").unwrap()), "x");
        let look = Look { colour: true, ..Look::default() };
        assert_eq!(shown(look, |s| s.paint(bold, "x").unwrap()), "\x1b[1mx\x1b[0m");
    }

    /// A reader that goes away after a few bytes.
    struct Closed(usize);

    impl Write for Closed {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            if self.0 == 0 {
                return Err(io::ErrorKind::BrokenPipe.into());
            }
            let n = bytes.len().min(self.0);
            self.0 -= n;
            Ok(n)
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_closed_pipe_is_no_fault() {
        let mut pipe = Closed(3);
        let mut screen = Screen::new(&mut pipe, Look::default());
        for _ in 0..10 {
            screen.write_str("some text\n").unwrap();
        }
        screen.finish().unwrap();
    }
}
