//! `generate --chat` without a text: each line of standard input is a turn of one conversation.

use super::generate::Writer;
use super::report;
use super::tokens::{MOST_TEXT, opening, template, utf8};
use crate::interrupt::{INTERRUPTED, Interrupts};
use crate::render::json::generate::{self as document, Chat, Turn};
use crate::render::text;
use crate::runner;
use crate::terminal::Screen;
use scantling_core::error::{Error, Result};
use scantling_core::generate::Ending;
use scantling_core::model::Session;
use scantling_core::tokenizer::{Message, Reading};
use std::fmt::Write;
use std::io::{self, BufRead, IsTerminal, Read};
use std::sync::mpsc::{self, Receiver, Sender};
use std::thread;
use std::time::Duration;

/// Tokens there is room for, where neither the user nor the model says less: some pages of talk.
const CONTEXT: usize = 4096;

/// How long an interrupt is waited for behind the end of the input.
const GRACE: Duration = Duration::from_millis(50);

/// What can come while a turn is waited for.
enum Event {
    Line(String),
    End,
    Fault(Error),
    Interrupted,
}

/// Lines of standard input, one when it is asked for, and interrupts that come meanwhile. A thread of its own reads,
/// since a read that waits cannot be called off.
struct Lines {
    wishes: Sender<()>,
    events: Receiver<Event>,
}

pub(super) fn run(writer: &Writer<'_>, screen: &mut Screen<'_>) -> Result<u8> {
    let template = template(&writer.args.model, writer.template()?)?;
    let limit = writer.model.context().unwrap_or(CONTEXT).min(CONTEXT);
    let mut session = writer.session(writer.args.context.unwrap_or(limit))?;
    let full = session.cache_bytes(session.context()).unwrap_or(0);
    let json = writer.args.run.list.wants_json();
    if !json {
        writer.told(|to| text::generate::room(to, session.context(), full))?;
    }
    let (tell, events) = mpsc::channel();
    let interrupted = tell.clone();
    // Nobody listens any more only when the conversation is over.
    let interrupts = Interrupts::heed(move || drop(interrupted.send(Event::Interrupted)));
    let lines = Lines::new(tell, events);
    let mut turns = Vec::new();
    let mut render = |messages: &[Message]| {
        let said = runner::chat_template(&writer.args.model, template.render(messages, true))?;
        writer.ids(&said, Reading::TEMPLATED)
    };
    let code = talk(writer, &mut render, &mut session, &lines, &interrupts, &mut turns, screen);
    report(writer.look, writer.backend);
    // What was answered is told even where a later turn could not be.
    if json && (code.is_ok() || !turns.is_empty()) {
        let system = writer.args.chat.system.as_deref();
        let chat = Chat { context: session.context(), system, turns: &turns };
        document::chat(screen, writer.model, writer.backend, writer.kv, &chat);
    }
    code
}

/// Turn after turn, until the input or the room ends, or somebody ends it.
fn talk(
    writer: &Writer<'_>,
    render: &mut dyn FnMut(&[Message]) -> Result<Vec<u32>>,
    session: &mut Session<'_>,
    lines: &Lines,
    interrupts: &Interrupts,
    turns: &mut Vec<Turn>,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    let watched = io::stdin().is_terminal();
    let mut sampler = writer.sampler();
    let mut messages = opening(writer.args.chat.system.as_deref());
    loop {
        if watched {
            writer.told(|to| to.write_str("> "))?;
        }
        let said = match lines.next() {
            Event::Line(line) if line.trim().is_empty() => continue,
            Event::Line(line) => line,
            Event::Fault(error) => return Err(error),
            over @ (Event::End | Event::Interrupted) => {
                if watched {
                    // The shell's own prompt begins a line.
                    writer.told(|to| to.write_str("\n"))?;
                }
                return Ok(if matches!(over, Event::Interrupted) { INTERRUPTED } else { 0 });
            }
        };
        messages.push(Message::new("user", &*said));
        let ids = render(&messages)?;
        if ids.len() > session.context() {
            return Err(full(writer, turns.len().saturating_add(1), ids.len(), session.context()));
        }
        let rest = session.rewind(&ids);
        let kept = session.len();
        let done = writer.write(session, &mut sampler, rest, interrupts, true, screen)?;
        messages.push(Message::new("assistant", &*done.text));
        let over = done.ending == Ending::Interrupted && (!watched || screen.is_lost());
        turns.push(Turn { user: said, kept, prompt: ids, done });
        if over {
            return Ok(if screen.is_lost() { 0 } else { INTERRUPTED });
        }
    }
}

/// Why a turn cannot be answered.
fn full(writer: &Writer<'_>, turn: usize, takes: usize, room: usize) -> Error {
    let most = match writer.model.context() {
        Some(most) => format!(" (the model was made for {most})"),
        None => String::new(),
    };
    Error::Usage(format!(
        "turn {turn} does not fit: with it the conversation is {takes} tokens, but the context has room for {room}; \
         begin a new conversation, say less, or give a larger --context{most}"
    ))
}

impl Lines {
    fn new(tell: Sender<Event>, events: Receiver<Event>) -> Lines {
        let (wishes, wished) = mpsc::channel();
        // It ends with the program, or with the first line that nobody asks for.
        thread::spawn(move || {
            while wished.recv().is_ok() {
                if tell.send(line(&mut io::stdin().lock())).is_err() {
                    break;
                }
            }
        });
        Lines { wishes, events }
    }

    /// The next line, or what came in its place.
    fn next(&self) -> Event {
        // Both ends are there as long as the thread is, which waits for wishes.
        let event = self.wishes.send(()).ok().and_then(|()| self.events.recv().ok());
        match event.unwrap_or(Event::End) {
            // An interrupt goes to all of a pipeline: whoever fed this one may have ended of it a moment earlier.
            Event::End => self.events.recv_timeout(GRACE).unwrap_or(Event::End),
            event => event,
        }
    }
}

/// A line without its end.
fn line(input: &mut impl BufRead) -> Event {
    let mut bytes = Vec::new();
    match input.take(MOST_TEXT.saturating_add(1)).read_until(b'\n', &mut bytes) {
        Err(error) => return Event::Fault(Error::io("standard input", "cannot read it", error)),
        Ok(0) => return Event::End,
        Ok(_) if bytes.len() as u64 > MOST_TEXT => {
            let what = format!("a line of standard input holds more than {MOST_TEXT} bytes");
            return Event::Fault(Error::Usage(what));
        }
        Ok(_) => {}
    }
    match utf8(bytes, "a line of standard input") {
        Ok(text) => Event::Line(text.trim_end_matches(['\n', '\r']).to_owned()),
        Err(error) => Event::Fault(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_where_they_end() {
        let mut input = io::Cursor::new(b"one\r\n\n two\xc3\xa9".to_vec());
        let mut next = || match line(&mut input) {
            Event::Line(text) => Some(text),
            _ => None,
        };
        assert_eq!(next().as_deref(), Some("one"));
        assert_eq!(next().as_deref(), Some(""));
        assert_eq!(next().as_deref(), Some(" two\u{e9}"));
        assert_eq!(next(), None);
        assert!(matches!(line(&mut io::Cursor::new(b"\xff\n")), Event::Fault(Error::Usage(_))));
    }
}
