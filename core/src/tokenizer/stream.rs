//! Text out of ids that come one by one.

use super::Tokenizer;
use crate::error::Result;

/// Ids that may pass without any text before what they give is taken as it is: no character has more bytes.
const MOST_HELD: usize = 4;

/// Decodes ids as they come, and holds back the bytes of a character until it is whole. (The library's own stream
/// waits for ever where bytes make no character, which models do write.)
pub struct Stream<'t> {
    tokenizer: &'t Tokenizer,
    skip_special: bool,
    /// The ids that are still needed: some that were given out, for what they do to those that follow, and the rest.
    ids: Vec<u32>,
    /// How many of them were given out whole.
    told: usize,
    /// Bytes given out of the text of the rest, whose last character is not whole.
    sent: usize,
    /// Ids since any text was given.
    silent: usize,
}

impl<'t> Stream<'t> {
    pub(super) fn new(tokenizer: &'t Tokenizer, skip_special: bool) -> Stream<'t> {
        Stream { tokenizer, skip_special, ids: Vec::new(), told: 0, sent: 0, silent: 0 }
    }

    /// Takes one more id, and gives the text that it completes, if it completes any.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn push(&mut self, id: u32) -> Result<Option<String>> {
        self.tokenizer.decode(&[id], self.skip_special)?;
        self.ids.push(id);
        self.silent = self.silent.saturating_add(1);
        self.give(self.silent < MOST_HELD)
    }

    /// Gives what is still held back, at the end.
    ///
    /// # Errors
    /// As [`Tokenizer::decode`].
    pub fn finish(&mut self) -> Result<Option<String>> {
        self.give(false)
    }

    fn give(&mut self, wait: bool) -> Result<Option<String>> {
        let before = self.tokenizer.text(self.ids.get(..self.told).unwrap_or_default(), self.skip_special)?;
        let now = self.tokenizer.text(&self.ids, self.skip_special)?;
        // What was told cannot be taken back: where new ids change it, the rest goes on from what is common.
        let common: usize =
            before.chars().zip(now.chars()).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum();
        let rest = now.get(common..).unwrap_or_default();
        let whole = if wait { rest.trim_end_matches('\u{fffd}') } else { rest };
        let new = whole.get(self.sent..).unwrap_or_default().to_owned();
        if whole.len() < rest.len() {
            self.sent = self.sent.max(whole.len());
        } else {
            if !rest.is_empty() {
                // Ids without text are no context: what follows them would be decoded as if it began the text.
                self.ids.drain(..self.told);
            }
            self.told = self.ids.len();
            self.sent = 0;
            self.silent = 0;
        }
        if !new.is_empty() {
            self.silent = 0;
        }
        Ok((!new.is_empty()).then_some(new))
    }
}
