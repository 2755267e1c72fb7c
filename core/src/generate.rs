//! Writing on: a prompt in, token after token out, until something ends it.

use crate::error::{Error, Result};
use crate::logits::judge;
use crate::matrix::RowsBuf;
use crate::model::Session;
use crate::sample::Sampler;
use crate::tokenizer::Tokenizer;
use std::time::{Duration, Instant};

/// When to stop, beside the model's own ends.
#[derive(Clone, Debug, Default)]
pub struct Stops {
    /// After so many tokens.
    pub tokens: usize,
    /// Before any of these texts.
    pub texts: Vec<String>,
    /// Whether to go on after a token that ends a turn.
    pub ignore_ends: bool,
}

/// Why it stopped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// So many tokens were asked for.
    Length,
    /// The model said that it has nothing more to say, with this token.
    Token(u32),
    /// One of the texts would have come.
    Text(String),
    /// There is no room for more.
    Context,
    /// Whoever listens wanted no more.
    Interrupted,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Written {
    /// The tokens, the one that ended it included.
    pub ids: Vec<u32>,
    /// The text.
    pub text: String,
    /// Why it stopped.
    pub ending: Ending,
    /// How long reading the prompt took.
    pub read: Duration,
    /// How long writing took.
    pub wrote: Duration,
}

/// Feeds the session what follows on what it has seen, then writes on. Text is told as it comes, also where it is
/// empty, and nothing (`None`) between the batches of the prompt: whoever listens may end it each time by answering
/// `false`, and hears no more.
pub fn write_on(
    session: &mut Session<'_>,
    tokenizer: &Tokenizer,
    sampler: &mut Sampler,
    prompt: &[u32],
    stops: &Stops,
    tell: &mut dyn FnMut(Option<&str>) -> bool,
) -> Result<Written> {
    let ends = if stops.ignore_ends { Vec::new() } else { tokenizer.end_ids() };
    let began = Instant::now();
    let first = prefill(session, prompt, tell)?;
    let read = began.elapsed();
    let began = Instant::now();
    let (mut ids, mut stream, mut held) = (Vec::new(), tokenizer.stream(true), Held::new(&stops.texts));
    let mut text = String::new();
    let mut say = |new: &str, text: &mut String| {
        text.push_str(new);
        tell(Some(new))
    };
    let ending = 'written: {
        let Some(mut logits) = first else { break 'written Ending::Interrupted };
        loop {
            if ids.len() >= stops.tokens {
                break Ending::Length;
            }
            let rows = logits.view();
            let row = rows.rows().checked_sub(1).map_or(&[][..], |last| rows.row(last));
            let at = session.len().saturating_sub(1);
            judge(at, session.ids().last().copied().unwrap_or(0), row)?;
            let Some(id) = sampler.pick(row, session.ids()) else {
                return Err(Error::NotFinite { what: format!("no logit after token {at} is a number") });
            };
            ids.push(id);
            if ends.contains(&id) {
                break Ending::Token(id);
            }
            // A row of the embedding that no token belongs to has no text.
            let new = if tokenizer.piece(id).is_some() { stream.push(id)? } else { None };
            let (new, stop) = held.push(&new.unwrap_or_default());
            if !say(&new, &mut text) {
                break Ending::Interrupted;
            }
            if let Some(stop) = stop {
                break Ending::Text(stop);
            }
            if ids.len() >= stops.tokens {
                break Ending::Length;
            }
            if session.len() >= session.context() {
                break Ending::Context;
            }
            logits = session.feed(&[id], 1, None)?;
        }
    };
    if !matches!(ending, Ending::Text(_) | Ending::Interrupted) {
        let (new, stop) = held.push(&stream.finish()?.unwrap_or_default());
        let rest = if stop.is_none() { held.rest() } else { String::new() };
        say(&(new + &rest), &mut text);
    }
    Ok(Written { ids, text, ending, read, wrote: began.elapsed() })
}

/// The logits behind the last token of a prompt, or nothing if whoever listens would not wait for them.
fn prefill(
    session: &mut Session<'_>,
    prompt: &[u32],
    tell: &mut dyn FnMut(Option<&str>) -> bool,
) -> Result<Option<RowsBuf>> {
    session.fits(prompt)?;
    let mut rest = prompt;
    loop {
        let (some, more) = rest.split_at(rest.len().min(session.batch()));
        let logits = session.feed(some, usize::from(more.is_empty()), None)?;
        if more.is_empty() {
            return Ok(Some(logits));
        }
        if !tell(None) {
            return Ok(None);
        }
        rest = more;
    }
}

/// Holds back text that may be the beginning of one that ends all.
struct Held<'s> {
    stops: &'s [String],
    text: String,
}

impl<'s> Held<'s> {
    fn new(stops: &'s [String]) -> Held<'s> {
        Held { stops, text: String::new() }
    }

    /// The text that may be told now, and the stop that came, if one did.
    fn push(&mut self, new: &str) -> (String, Option<String>) {
        self.text.push_str(new);
        let found = self.stops.iter().filter(|s| !s.is_empty());
        let found = found.filter_map(|s| Some((self.text.find(s.as_str())?, s))).min_by_key(|(at, _)| *at);
        if let Some((at, stop)) = found {
            let told = self.text[..at].to_owned();
            self.text.clear();
            return (told, Some(stop.clone()));
        }
        let may_begin = |at: &usize| self.stops.iter().any(|s| s.starts_with(&self.text[*at..]));
        let held = self.text.char_indices().map(|(at, _)| at).find(may_begin).unwrap_or(self.text.len());
        let rest = self.text.split_off(held);
        (std::mem::replace(&mut self.text, rest), None)
    }

    /// What is left when no more comes.
    fn rest(&mut self) -> String {
        std::mem::take(&mut self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_may_be_a_stop_is_held_until_it_is_none() {
        let stops = ["\n\n".to_owned(), "END".to_owned()];
        let mut held = Held::new(&stops);
        assert_eq!(held.push("a\n"), ("a".to_owned(), None));
        assert_eq!(held.push("bE"), ("\nb".to_owned(), None));
        assert_eq!(held.push("N"), (String::new(), None));
        assert_eq!(held.push("x E"), ("ENx ".to_owned(), None));
        assert_eq!(held.push("ND, no more"), (String::new(), Some("END".to_owned())));
        let mut held = Held::new(&stops);
        assert_eq!(held.push("so\n"), ("so".to_owned(), None));
        assert_eq!(held.rest(), "\n");
        assert_eq!(Held::new(&[]).push("é\n"), ("é\n".to_owned(), None));
    }
}
