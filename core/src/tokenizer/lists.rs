//! The lists of a vocabulary in GGUF metadata, read whole and held against each other.

use crate::check::{TOKENIZER_ID, TOKENIZER_LIST, TOKENIZER_MERGE};
use crate::error::{Error, Result};
use crate::finding::{Code, Finding};
use crate::metadata::{Item, Metadata, Value};
use std::ops::ControlFlow;

/// No vocabulary has more tokens, nor more merges.
const MOST_ITEMS: u64 = 1 << 24;

/// Kinds of tokens, as GGUF numbers them.
pub(super) mod kind {
    pub const UNKNOWN: i64 = 2;
    pub const CONTROL: i64 = 3;
    pub const USER: i64 = 4;
    pub const UNUSED: i64 = 5;
    pub const BYTE: i64 = 6;
}

/// The metadata of a file, with its name for messages.
pub(super) struct Lists<'a> {
    pub file: &'a str,
    pub metadata: &'a Metadata,
}

impl Lists<'_> {
    /// An error about a key.
    pub fn fault(&self, code: &'static Code, key: &str, what: impl Into<String>) -> Error {
        let mut f = Finding::new(code, what.into()).file(self.file).field(key);
        f.place.offset = self.metadata.entry(key).and_then(|e| e.at);
        Error::malformed(f.advice("convert the model again"))
    }

    /// A value that is fine, but not one that is known here.
    pub fn unsupported(&self, key: &str, found: &str, known: &[&str]) -> Error {
        Error::Foreign {
            file: self.file.to_owned(),
            what: format!("{key} is \"{}\", which cannot be tokenized with here", found.escape_debug()),
            advice: format!("known: {}", known.join(", ")),
        }
    }

    /// Every element of a list, through `each`; `None` where the key is absent.
    fn list<T>(
        &self,
        key: &str,
        what: &str,
        each: impl Fn(&Item<'_>) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        let list = match self.metadata.get(key) {
            None => return Ok(None),
            Some(Value::List(list)) => list,
            Some(other) => {
                return Err(self.fault(
                    &TOKENIZER_LIST,
                    key,
                    format!("must be a list, not {}", other.kind()),
                ));
            }
        };
        if list.len() > MOST_ITEMS {
            let what = format!("{key} has {} elements", list.len());
            return Err(Error::Limit { file: self.file.to_owned(), what, limit: MOST_ITEMS });
        }
        // Grown as elements come, not by the length that the file claims.
        let mut items = Vec::new();
        let mut bad = None;
        list.visit(&mut |i, item| match each(&item) {
            Some(item) => {
                items.push(item);
                ControlFlow::Continue(())
            }
            None => {
                bad = Some((i, item.into_value()));
                ControlFlow::Break(())
            }
        })?;
        match bad {
            Some((i, found)) => {
                let what = format!("element {i} is {} ({found}), not {what}", found.kind());
                Err(self.fault(&TOKENIZER_LIST, key, what))
            }
            None => Ok(Some(items)),
        }
    }

    /// A list of texts.
    pub fn texts(&self, key: &str) -> Result<Option<Vec<String>>> {
        self.list(key, "text in UTF-8", |item| match item {
            Item::Text(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
            Item::Other(_) => None,
        })
    }

    /// The tokens; never none.
    pub fn tokens(&self) -> Result<Vec<String>> {
        let key = "tokenizer.ggml.tokens";
        match self.texts(key)? {
            Some(tokens) if !tokens.is_empty() => Ok(tokens),
            Some(_) => Err(self.fault(&TOKENIZER_LIST, key, "holds no token")),
            None => Err(self.fault(&TOKENIZER_LIST, key, "is missing")),
        }
    }

    /// A list of numbers, one for each token.
    fn parallel<T>(
        &self,
        key: &str,
        tokens: usize,
        each: impl Fn(&Value) -> Option<T>,
    ) -> Result<Option<Vec<T>>> {
        let numbers = self.list(key, "a number of the right kind", |item| match item {
            Item::Other(value) => each(value),
            Item::Text(_) => None,
        })?;
        if let Some(found) = numbers.as_ref().map(Vec::len).filter(|&len| len != tokens) {
            let what = format!("has length {found}, but there are {tokens} tokens");
            return Err(self.fault(&TOKENIZER_LIST, key, what));
        }
        Ok(numbers)
    }

    /// The kind of each token; all ordinary where the file does not say.
    pub fn kinds(&self, tokens: usize) -> Result<Vec<i64>> {
        let kinds = self.parallel("tokenizer.ggml.token_type", tokens, |value| match *value {
            Value::Unsigned(n) => i64::try_from(n).ok(),
            Value::Signed(n) => Some(n),
            _ => None,
        })?;
        Ok(kinds.unwrap_or_else(|| vec![1; tokens]))
    }

    /// The score of each token, all finite.
    pub fn scores(&self, tokens: usize) -> Result<Option<Vec<f64>>> {
        self.parallel("tokenizer.ggml.scores", tokens, |value| match *value {
            Value::Float(x) if x.is_finite() => Some(x),
            Value::Unsigned(n) => Some(n as f64),
            Value::Signed(n) => Some(n as f64),
            _ => None,
        })
    }

    /// Merges as pairs.
    pub fn merges(&self) -> Result<Vec<(String, String)>> {
        let pairs = self.list("tokenizer.ggml.merges", "text in UTF-8", |item| match item {
            Item::Text(bytes) => {
                std::str::from_utf8(bytes).ok().map(|merge| parts(merge).ok_or(merge.to_owned()))
            }
            Item::Other(_) => None,
        })?;
        let pairs = pairs.unwrap_or_default().into_iter().enumerate();
        let judged = pairs.map(|(i, pair)| {
            pair.map_err(|merge| {
                let what = format!("merge {i} is not two parts with a space between: {merge:?}");
                self.fault(&TOKENIZER_MERGE, "tokenizer.ggml.merges", what)
            })
        });
        judged.collect()
    }

    /// A special id; `None` where the file names none.
    pub fn id(&self, name: &str, tokens: usize) -> Result<Option<u32>> {
        let key = format!("tokenizer.ggml.{name}_token_id");
        match self.metadata.get(&key) {
            // Writers that have no such token put -1 or the largest 32-bit number.
            None | Some(Value::Signed(-1) | Value::Unsigned(0xffff_ffff)) => Ok(None),
            Some(&Value::Unsigned(id)) if id < tokens as u64 => Ok(u32::try_from(id).ok()),
            Some(other) => {
                let what = format!("token {other} is not in the vocabulary of {tokens} tokens");
                Err(self.fault(&TOKENIZER_ID, &key, what))
            }
        }
    }

    /// A switch; `otherwise` where the file does not say.
    pub fn flag(&self, name: &str, otherwise: bool) -> Result<bool> {
        let key = format!("tokenizer.ggml.{name}");
        match self.metadata.get(&key) {
            None => Ok(otherwise),
            Some(&Value::Bool(on)) => Ok(on),
            Some(other) => {
                Err(self.fault(&TOKENIZER_LIST, &key, format!("must be true or false, not {}", other.kind())))
            }
        }
    }
}

/// The two parts of a merge. The space may not be the first character, since a part is never empty; a part may begin
/// with one.
fn parts(merge: &str) -> Option<(String, String)> {
    let first = merge.chars().next()?.len_utf8();
    let at = merge.get(first..)?.find(' ')?.checked_add(first)?;
    let (a, b) = merge.split_at_checked(at)?;
    let b = b.get(1..).filter(|b| !b.is_empty())?;
    Some((a.to_owned(), b.to_owned()))
}
