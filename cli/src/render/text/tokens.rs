//! Tokens for people.

use super::table::Table;
use crate::terminal::{Screen, escape};
use scantling_core::tokenizer::{Token, Tokenizer};
use std::fmt::{self, Write};

/// A row for each token; before them the text that a template made, if one did.
pub fn tokens(
    screen: &mut Screen<'_>,
    tokenizer: &Tokenizer,
    templated: Option<&String>,
    tokens: &[Token],
) -> fmt::Result {
    if let Some(text) = templated {
        for line in text.lines() {
            writeln!(screen, "  {}", escape(line))?;
        }
        writeln!(screen)?;
    }
    let mut table = Table::new(&[">ID", ">BYTES", "PIECE"]);
    for token in tokens {
        let bytes = match token.bytes.is_empty() {
            true => String::new(),
            false => format!("{}..{}", token.bytes.start, token.bytes.end),
        };
        table.row([token.id.to_string(), bytes, escape(&token.piece).into_owned()]);
    }
    table.write(screen, 0)?;
    let from = tokenizer.origin();
    writeln!(screen, "{} tokens (vocabulary of {}, from {from})", tokens.len(), tokenizer.vocab_size())
}

/// The ids on one line.
pub fn ids(screen: &mut Screen<'_>, tokens: &[Token]) -> fmt::Result {
    let ids: Vec<String> = tokens.iter().map(|token| token.id.to_string()).collect();
    writeln!(screen, "{}", ids.join(" "))
}

/// A text out of ids. On a terminal its lines stay lines, and whatever else it would obey is escaped; anywhere else it is
/// the text, byte for byte.
pub fn text(screen: &mut Screen<'_>, text: &str) -> fmt::Result {
    if !screen.look().terminal && !screen.look().ascii {
        screen.send(text.as_bytes());
        return Ok(());
    }
    for line in text.split('\n') {
        writeln!(screen, "{}", escape(line))?;
    }
    Ok(())
}
