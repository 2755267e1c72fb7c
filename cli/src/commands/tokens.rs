//! `tokenize` and `detokenize`: text to ids and back.

use super::written;
use crate::args::{DetokenizeArgs, TokenizeArgs};
use crate::render::{json, text};
use crate::terminal::Screen;
use scantling_core::bundle::Bundle;
use scantling_core::error::{Error, Result};
use scantling_core::registry::Registry;
use scantling_core::tokenizer::{self, Message, Reading};
use std::io::Read;
use std::path::Path;

/// Bytes of a text at most: a prompt is far shorter, and a pipe need not end.
const MOST_TEXT: u64 = 64 * 1024 * 1024;

pub(super) fn tokenize(registry: &Registry, args: &TokenizeArgs, screen: &mut Screen<'_>) -> Result<u8> {
    let (tokenizer, chat) = tokenizer::open(registry, &args.model)?;
    let given = match (&args.text, &args.prompt_file) {
        (Some(text), _) => text.clone(),
        (None, Some(path)) => of_file(path)?,
        (None, None) => of_stdin()?,
    };
    let (given, how) = if args.chat {
        let Some(chat) = chat else {
            let model = args.model.display();
            return Err(Error::Usage(format!("{model} has no chat template; leave --chat out")));
        };
        let mut messages: Vec<Message> = Vec::new();
        messages.extend(args.system.as_ref().map(|text| Message::new("system", text)));
        messages.push(Message::new("user", given));
        (chat.render(&messages, true)?, Reading::TEMPLATED)
    } else if args.no_special {
        (given, Reading { edges: false, special: false })
    } else {
        (given, Reading::PROMPT)
    };
    let tokens = tokenizer.encode(&given, how)?;
    if args.ids_only {
        written(text::tokens::ids(screen, &tokens))?;
    } else if args.list.wants_json() {
        json::tokens::tokens(screen, tokenizer.origin(), &given, &tokens);
    } else {
        written(text::tokens::tokens(screen, &tokenizer, args.chat.then_some(&given), &tokens))?;
    }
    Ok(0)
}

pub(super) fn detokenize(registry: &Registry, args: &DetokenizeArgs, screen: &mut Screen<'_>) -> Result<u8> {
    let (tokenizer, _) = tokenizer::open(registry, &args.model)?;
    let ids = if args.ids.is_empty() { numbers(&of_stdin()?)? } else { args.ids.clone() };
    let text = tokenizer.decode(&ids, args.skip_special)?;
    if args.list.wants_json() {
        json::tokens::text(screen, tokenizer.origin(), &ids, &text);
    } else {
        written(text::tokens::text(screen, &text))?;
    }
    Ok(0)
}

/// Ids apart by spaces, commas or line ends, in brackets or without.
fn numbers(text: &str) -> Result<Vec<u32>> {
    let apart = |c: char| c.is_whitespace() || matches!(c, ',' | '[' | ']');
    let words = text.split(apart).filter(|word| !word.is_empty());
    let id = |word: &str| word.parse().map_err(|_| Error::Usage(format!("\"{word}\" is no id of a token")));
    words.map(id).collect()
}

pub(super) fn of_file(path: &Path) -> Result<String> {
    utf8(Bundle::on_disk(path)?.file().read_all(MOST_TEXT)?, &path.display().to_string())
}

pub(super) fn of_stdin() -> Result<String> {
    let mut bytes = Vec::new();
    let read = std::io::stdin().take(MOST_TEXT.saturating_add(1)).read_to_end(&mut bytes);
    read.map_err(|e| Error::io("standard input", "cannot read it", e))?;
    if bytes.len() as u64 > MOST_TEXT {
        return Err(Error::Usage(format!("standard input holds more than {MOST_TEXT} bytes")));
    }
    utf8(bytes, "standard input")
}

fn utf8(bytes: Vec<u8>, from: &str) -> Result<String> {
    String::from_utf8(bytes).map_err(|e| {
        let at = e.utf8_error().valid_up_to();
        Error::Usage(format!("{from} is not text in UTF-8: byte {at} begins no character"))
    })
}
