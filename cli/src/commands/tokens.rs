//! `tokenize` and `detokenize`: text to ids and back.

use super::written;
use crate::args::{DetokenizeArgs, TokenizeArgs, ids_in};
use crate::render::{json, text};
use crate::runner;
use crate::terminal::Screen;
use scantling_core::bundle;
use scantling_core::error::{Error, Result};
use scantling_core::registry::Registry;
use scantling_core::tokenizer::{self, ChatTemplate, Message, Reading};
use std::io::Read;
use std::path::Path;

/// Bytes of a text at most: a prompt is far shorter, and a pipe need not end.
pub(super) const MOST_TEXT: u64 = 64 * 1024 * 1024;

/// What standard input is called where something of it is told.
const STDIN: &str = "standard input";

/// What a model is asked to read: a text, a file of one, or else standard input.
pub(super) struct Asked<'a> {
    pub model: &'a Path,
    pub text: Option<&'a str>,
    pub file: Option<&'a Path>,
    /// Whether it is what a user says.
    pub chat: bool,
    /// What the system says before.
    pub system: Option<&'a str>,
}

impl Asked<'_> {
    /// The text that the model sees, and how it is read.
    pub fn read(&self, chat: impl FnOnce() -> Result<Option<ChatTemplate>>) -> Result<(String, Reading)> {
        let given = match (self.text, self.file) {
            (Some(text), _) => text.to_owned(),
            (None, Some(path)) => of_file(path)?,
            (None, None) => of_stdin()?,
        };
        if !self.chat {
            return Ok((given, Reading::PROMPT));
        }
        let mut messages = opening(self.system);
        messages.push(Message::new("user", given));
        let said = template(self.model, chat()?)?.render(&messages, true);
        Ok((runner::chat_template(self.model, said)?, Reading::TEMPLATED))
    }
}

/// The template of a model that a conversation is asked of.
pub(super) fn template(model: &Path, found: Option<ChatTemplate>) -> Result<ChatTemplate> {
    found.ok_or_else(|| Error::Usage(format!("{} has no chat template; leave --chat out", model.display())))
}

/// What stands before the first turn of a conversation.
pub(super) fn opening(system: Option<&str>) -> Vec<Message> {
    system.map(|text| Message::new("system", text)).into_iter().collect()
}

pub(super) fn tokenize(registry: &Registry, args: &TokenizeArgs, screen: &mut Screen<'_>) -> Result<u8> {
    let (tokenizer, chat) = runner::vocabulary(&args.model, tokenizer::open(registry, &args.model))?;
    let asked = Asked {
        model: &args.model,
        text: args.text.as_deref(),
        file: args.prompt_file.as_deref(),
        chat: args.chat.chat,
        system: args.chat.system.as_deref(),
    };
    let (given, how) = asked.read(|| Ok(chat))?;
    let how = if args.no_special { Reading { edges: false, special: false } } else { how };
    let tokens = tokenizer.encode(&given, how)?;
    if args.ids_only {
        written(text::tokens::ids(screen, &tokens))?;
    } else if args.list.wants_json() {
        json::tokens::tokens(screen, tokenizer.origin(), &given, &tokens);
    } else {
        written(text::tokens::tokens(screen, &tokenizer, args.chat.chat.then_some(&given), &tokens))?;
    }
    Ok(0)
}

pub(super) fn detokenize(registry: &Registry, args: &DetokenizeArgs, screen: &mut Screen<'_>) -> Result<u8> {
    let (tokenizer, _) = runner::vocabulary(&args.model, tokenizer::open(registry, &args.model))?;
    let ids = if args.ids.is_empty() {
        let listed = ids_in(&of_stdin()?);
        listed.map_err(|what| Error::Usage(format!("{STDIN} is no list of ids: {what}; {IDS}")))?
    } else {
        ids_in(&args.ids.join(" ")).map_err(|what| Error::Usage(format!("no list of ids: {what}; {IDS}")))?
    };
    let text = tokenizer.decode(&ids, args.skip_special)?;
    if args.list.wants_json() {
        json::tokens::text(screen, tokenizer.origin(), &ids, &text);
    } else {
        written(text::tokens::text(screen, &text))?;
    }
    Ok(0)
}

/// The most bytes of a file of ids: some hundred million tokens.
const MOST_IDS: u64 = 1 << 30;

/// The ids that a file lists.
pub(super) fn ids_in_file(path: &Path) -> Result<Vec<u32>> {
    let shown = path.display().to_string();
    let bytes = bundle::read_text(path, MOST_IDS)?;
    let text = std::str::from_utf8(&bytes).map_err(|_| "it is not UTF-8".to_owned());
    text.and_then(ids_in).map_err(|what| Error::Foreign {
        file: shown,
        what: format!("no list of ids: {what}"),
        advice: IDS.to_owned(),
    })
}

const IDS: &str = "ids are whole numbers, as a JSON list or with spaces or commas between";

pub(super) fn of_file(path: &Path) -> Result<String> {
    utf8(bundle::read_text(path, MOST_TEXT)?, &path.display().to_string())
}

fn of_stdin() -> Result<String> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(MOST_TEXT.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|e| Error::io(STDIN, "cannot read it", e))?;
    if bytes.len() as u64 > MOST_TEXT {
        return Err(Error::Usage(format!("{STDIN} holds more than {MOST_TEXT} bytes")));
    }
    utf8(bytes, STDIN)
}

pub(super) fn utf8(bytes: Vec<u8>, from: &str) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::Usage(format!("{from} is not text in UTF-8: byte {at} begins no character"))
    })
}
