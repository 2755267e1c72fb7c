//! Conversations as text, through the template that the model brings along.

use super::Tokenizer;
use super::special::{Beside, json_beside};
use crate::bundle::Folder;
use crate::codes;
use crate::config::MAX_CONFIG_BYTES;
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::metadata::Value as Stated;
use crate::source::{Dialect, WeightSource};
use minijinja::syntax::SyntaxConfig;
use minijinja::value::Value;
use minijinja::{Environment, ErrorKind, context};
use std::sync::{Arc, mpsc};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

codes! {
    pub static CHAT_TEMPLATE = Error, Tokenizer, "chat-template",
        "the chat template cannot be used",
        "A model's chat template is a small program in Jinja. It has a fault in its syntax, takes too many steps, or \
         refuses the conversation it was given (some allow no system text, or want user and assistant to take turns).";
}

// What bounds a template, which is a program that came with a file:
// - its length bounds how deep the parser, the compiler and what drops their tree call themselves;
// - fuel bounds its steps, the bytes and list slots that it makes, and so also how deep a value can be nested that is
//   then printed, compared or dropped level by level;
// - the stack holds the deepest of both (the tests of hostile templates try each);
// - a deadline ends what costs no fuel: sums of lists are kept as sums, and counting one walks it. Work that passed
//   it cannot be stopped, only left behind: its thread ends with the program, if not by itself.

/// Bytes of a template; the longest in use have not half of it.
const MOST_TEMPLATE: usize = 128 * 1024;

/// Steps that a template may take before it is stopped; 64 bytes that it makes count as one more. A conversation of
/// thousands of messages takes a tenth.
const FUEL: u64 = 1_000_000;

/// Bytes that a template makes in all, and that `tojson` makes of one value.
const MOST_TEXT: usize = 16 << 20;

/// Stack of the thread that templates are read and run on: address space, of which only what is used is ever backed.
const STACK: usize = 1 << 30;

/// How long a template is waited for. Real ones take a thousandth.
const PATIENCE: Duration = Duration::from_secs(4);

/// One message of a conversation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// Who speaks: `system`, `user`, `assistant`.
    pub role: String,
    /// What is said.
    pub content: String,
}

impl Message {
    /// A message.
    pub fn new(role: impl Into<String>, content: impl Into<String>) -> Message {
        Message { role: role.into(), content: content.into() }
    }
}

/// A chat template, ready to be used.
pub struct ChatTemplate {
    environment: Arc<Environment<'static>>,
    file: String,
    origin: String,
    /// Texts of special tokens by the names that templates use.
    tokens: Vec<(&'static str, String)>,
}

/// A template as found.
struct Found {
    text: String,
    file: String,
    origin: String,
}

impl ChatTemplate {
    /// The template of a model, if it has one: chat_template.jinja or tokenizer_config.json beside a checkpoint, or
    /// GGUF's `tokenizer.chat_template`. Of several that have names it is the one called `default`.
    ///
    /// # Errors
    /// [`Error::Malformed`] where it is no valid template.
    pub fn of(source: &dyn WeightSource, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
        let found = match source.dialect() {
            Dialect::Gguf => {
                let file = source.files().first().map_or("", |f| f.name());
                inside(source.metadata(), file)?
            }
            Dialect::Hf => beside(&|name| source.beside(name))?,
        };
        found.map(|found| ChatTemplate::new(found, tokenizer)).transpose()
    }

    /// The template of a folder without weights.
    ///
    /// # Errors
    /// As [`of`](Self::of).
    pub fn of_folder(folder: &Folder, tokenizer: &Tokenizer) -> Result<Option<ChatTemplate>> {
        let found = beside(&|name| folder.file(name))?;
        found.map(|found| ChatTemplate::new(found, tokenizer)).transpose()
    }

    fn new(found: Found, tokenizer: &Tokenizer) -> Result<ChatTemplate> {
        let Found { text, file, origin } = found;
        if text.len() > MOST_TEMPLATE {
            let what = format!("has {} bytes, and {MOST_TEMPLATE} are the most that are read", text.len());
            return Err(told(&file, &origin, &what));
        }
        let mut environment = Environment::new();
        // Else an error takes along what the template had in its variables, to be dropped on a common stack.
        environment.set_debug(false);
        environment.set_fuel(Some(FUEL));
        environment.set_recursion_limit(64);
        // As transformers sets its own up.
        let syntax = SyntaxConfig::builder().trim_blocks(true).lstrip_blocks(true).build();
        environment.set_syntax(syntax.map_err(|e| told(&file, &origin, &words(&e)))?);
        environment.set_auto_escape_callback(|_| minijinja::AutoEscape::None);
        environment.set_unknown_method_callback(minijinja_contrib::pycompat::unknown_method_callback);
        environment.add_function("raise_exception", |what: String| -> Result<String, minijinja::Error> {
            Err(minijinja::Error::new(ErrorKind::InvalidOperation, what))
        });
        environment.add_function("strftime_now", |form: String| now(&form));
        environment.add_filter("tojson", to_json);
        // They indent what is nested, so that their text grows with the square of its depth, unseen by the fuel.
        environment.remove_filter("pprint");
        environment.remove_global("debug");
        let environment = apart(move || {
            environment.add_template_owned("chat", text).map_err(|e| words(&e))?;
            Ok(environment)
        });
        let environment = Arc::new(environment.map_err(|what| told(&file, &origin, &what))?);
        let ids = tokenizer.special();
        let named = [
            ("bos_token", ids.bos),
            ("eos_token", ids.eos),
            ("unk_token", ids.unknown),
            ("pad_token", ids.padding),
        ];
        let tokens = named.into_iter().filter_map(|(name, id)| Some((name, tokenizer.piece(id?)?)));
        Ok(ChatTemplate { environment, file, origin, tokens: tokens.collect() })
    }

    /// A conversation as the model was trained to see it. With `prompt` it ends where the model's answer begins.
    ///
    /// What comes out has all special tokens in it: tokenize it as
    /// [`Reading::TEMPLATED`](super::Reading::TEMPLATED).
    ///
    /// # Errors
    /// [`Error::Malformed`] where the template refuses the conversation, or takes too long.
    pub fn render(&self, messages: &[Message], prompt: bool) -> Result<String> {
        let (environment, messages) = (self.environment.clone(), messages.to_vec());
        let tokens = self.tokens.clone();
        let text = apart(move || {
            let message = |m: &Message| context! { role => m.role.as_str(), content => m.content.as_str() };
            let messages: Vec<Value> = messages.iter().map(message).collect();
            let given = context! {
                messages => messages,
                add_generation_prompt => prompt,
                // Stated as absent, as transformers does: templates ask whether they are none.
                tools => Value::from(()),
                documents => Value::from(()),
            };
            let tokens: Value =
                tokens.iter().map(|(name, text)| (*name, Value::from(text.as_str()))).collect();
            let template = environment.get_template("chat");
            // Printing one value is one step, however long it gets: only the writer can stop it.
            let mut out = Bounded(Vec::new());
            let context = context! { ..given, ..tokens };
            let done = template.and_then(|t| t.render_captured_to(context, &mut out).map(drop));
            done.map_err(|e| words(&e))?;
            Ok(String::from_utf8_lossy(&out.0).into_owned())
        });
        text.map_err(|what| told(&self.file, &self.origin, &what))
    }

    /// Where the template is from: `chat_template.jinja`, `tokenizer_config.json` or `tokenizer.chat_template`.
    pub fn origin(&self) -> &str {
        &self.origin
    }
}

/// Does work on a thread with a large stack, for a while. What the work makes is dropped on that thread too, but for
/// what it gives.
fn apart<T: Send + 'static>(work: impl FnOnce() -> Result<T, String> + Send + 'static) -> Result<T, String> {
    let (give, take) = mpsc::sync_channel(1);
    let run = move || {
        // Nobody waits any more once it took too long.
        let _ = give.send(work());
    };
    let thread = std::thread::Builder::new().name("chat template".to_owned()).stack_size(STACK);
    thread
        .spawn(run)
        .map_err(|e| format!("cannot be run, for want of a thread with {STACK} bytes of stack: {e}"))?;
    match take.recv_timeout(PATIENCE) {
        Ok(made) => made,
        Err(mpsc::RecvTimeoutError::Timeout) => {
            Err(format!("takes longer than a template may: {} seconds", PATIENCE.as_secs()))
        }
        Err(mpsc::RecvTimeoutError::Disconnected) => Err("cannot be run".to_owned()),
    }
}

/// What is wrong, in words: the error itself may hold values of the template.
fn words(error: &minijinja::Error) -> String {
    let mut what = error.detail().map_or_else(|| error.to_string(), str::to_owned);
    if error.kind() == ErrorKind::OutOfFuel {
        what = "takes more steps, or makes more text, than a template may".to_owned();
    }
    if error.kind() == ErrorKind::WriteFailure {
        what = "makes more text than a template may".to_owned();
    }
    match error.line() {
        Some(line) => format!("line {line}: {what}"),
        None => what,
    }
}

fn told(file: &str, origin: &str, what: &str) -> Error {
    let f = Finding::new(&CHAT_TEMPLATE, format!("the template: {what}")).file(file);
    Error::malformed(if origin == file { f } else { f.field(origin) })
}

/// The template in GGUF's metadata.
fn inside(metadata: &crate::metadata::Metadata, file: &str) -> Result<Option<Found>> {
    let key = "tokenizer.chat_template";
    let found = |text: &str, key: &str| Found {
        text: text.to_owned(),
        file: file.to_owned(),
        origin: key.to_owned(),
    };
    for key in [key, "tokenizer.chat_template.default"] {
        match metadata.get(key) {
            None | Some(Stated::Null) => {}
            Some(Stated::Text(text)) => return Ok(Some(found(text, key))),
            Some(other) => {
                let what = format!("must be text of a template's length, not {}", other.kind());
                return Err(Error::malformed(Finding::new(&CHAT_TEMPLATE, what).file(file).field(key)));
            }
        }
    }
    Ok(None)
}

/// The template beside a checkpoint.
fn beside(files: Beside<'_>) -> Result<Option<Found>> {
    if let Some(file) = files("chat_template.jinja")? {
        let text = String::from_utf8(file.read_all(MAX_CONFIG_BYTES)?).map_err(|_| {
            Error::malformed(Finding::new(&CHAT_TEMPLATE, "is not text in UTF-8").file(file.name()))
        })?;
        return Ok(Some(Found { text, file: file.name().to_owned(), origin: file.name().to_owned() }));
    }
    let name = "tokenizer_config.json";
    let Some(config) = json_beside(files, name)? else { return Ok(None) };
    let text = match config.get("chat_template") {
        Some(serde_json::Value::String(text)) => Some(text.as_str()),
        Some(serde_json::Value::Array(list)) => {
            let called =
                |name: &str| list.iter().find(|t| t.get("name").and_then(|n| n.as_str()) == Some(name));
            called("default").or(list.first()).and_then(|t| t.get("template")).and_then(|t| t.as_str())
        }
        _ => None,
    };
    Ok(text.map(|text| Found { text: text.to_owned(), file: name.to_owned(), origin: name.to_owned() }))
}

/// JSON as Python writes it, which is what transformers gives to templates: nothing escaped for HTML.
fn to_json(value: Value, options: minijinja::value::Kwargs) -> Result<Value, minijinja::Error> {
    let indent: Option<usize> = options.get("indent")?;
    for known in ["ensure_ascii", "separators", "sort_keys"] {
        let _: Option<Value> = options.get(known)?;
    }
    options.assert_all_used()?;
    let mut out = Bounded(Vec::new());
    let made = match indent {
        Some(_) => serde_json::to_writer_pretty(&mut out, &value),
        None => {
            let mut writer = serde_json::Serializer::with_formatter(&mut out, Spaced);
            serde::Serialize::serialize(&value, &mut writer)
        }
    };
    made.map(|()| Value::from_safe_string(String::from_utf8_lossy(&out.0).into_owned()))
        .map_err(|e| minijinja::Error::new(ErrorKind::InvalidOperation, e.to_string()))
}

/// Text while it is made, which a value that holds itself many times over could make endless: fuel counts only what
/// came of it.
struct Bounded(Vec<u8>);

impl std::io::Write for Bounded {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        if self.0.len().saturating_add(bytes.len()) > MOST_TEXT {
            return Err(std::io::Error::other("makes more text than a template may"));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// Python's separators: a space after commas and colons.
struct Spaced;

impl serde_json::ser::Formatter for Spaced {
    fn begin_array_value<W: ?Sized + std::io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_key<W: ?Sized + std::io::Write>(
        &mut self,
        to: &mut W,
        first: bool,
    ) -> std::io::Result<()> {
        if first { Ok(()) } else { to.write_all(b", ") }
    }

    fn begin_object_value<W: ?Sized + std::io::Write>(&mut self, to: &mut W) -> std::io::Result<()> {
        to.write_all(b": ")
    }
}

/// The time in the world's time zone, in the forms that templates ask for.
fn now(form: &str) -> Result<String, minijinja::Error> {
    let seconds = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |d| d.as_secs());
    Ok(date(form, seconds))
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];

/// A time given in seconds since 1970.
fn date(form: &str, seconds: u64) -> String {
    let mut days = seconds / 86_400;
    let weekday = DAYS.get((days % 7) as usize).copied().unwrap_or_default();
    let leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970_u64;
    while let Some(rest) = days.checked_sub(if leap(year) { 366 } else { 365 }) {
        days = rest;
        year = year.saturating_add(1);
    }
    let february = if leap(year) { 29 } else { 28 };
    let mut month = 0_usize;
    for len in [31, february, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31] {
        match days.checked_sub(len) {
            Some(rest) => days = rest,
            None => break,
        }
        month = month.saturating_add(1);
    }
    let name = MONTHS.get(month).copied().unwrap_or_default();
    let (day, month) = (days.saturating_add(1), month.saturating_add(1));
    let short = |name: &str| name.get(..3).unwrap_or_default().to_owned();
    let mut out = String::new();
    let mut chars = form.chars();
    while let Some(c) = chars.next() {
        if c != '%' {
            out.push(c);
            continue;
        }
        out.push_str(&match chars.next() {
            Some('Y') => year.to_string(),
            Some('m') => format!("{month:02}"),
            Some('d') => format!("{day:02}"),
            Some('B') => name.to_owned(),
            Some('b') => short(name),
            Some('A') => weekday.to_owned(),
            Some('a') => short(weekday),
            Some('H') => format!("{:02}", seconds % 86_400 / 3600),
            Some('M') => format!("{:02}", seconds % 3600 / 60),
            Some('S') => format!("{:02}", seconds % 60),
            Some('%') => "%".to_owned(),
            Some(other) => format!("%{other}"),
            None => "%".to_owned(),
        });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates_are_those_of_the_calendar() {
        assert_eq!(date("%d %b %Y", 0), "01 Jan 1970");
        assert_eq!(date("%A %d %B %Y %H:%M:%S %%", 951_827_696), "Tuesday 29 February 2000 12:34:56 %");
        assert_eq!(date("%Y-%m-%d %a", 1_767_225_599), "2025-12-31 Wed");
    }
}
