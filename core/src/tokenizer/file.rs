//! tokenizer.json: looked over before the library builds from it, since that trusts what it reads.

use super::library;
use crate::bundle::File;
use crate::check::{MAX_TOKENIZER_BYTES, TOKENIZER_FILE, TOKENIZER_MERGE};
use crate::error::{Error, Result};
use crate::finding::{Code, Finding};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// Reads a tokenizer.json.
pub(super) fn read(file: &File) -> Result<tokenizers::Tokenizer> {
    let text = file.read_all(MAX_TOKENIZER_BYTES)?;
    let fault = |code: &'static Code, what: String| {
        Error::malformed(Finding::new(code, what).file(file.name()).advice("fetch the file again"))
    };
    let glance: Glance = serde_json::from_slice(&text).map_err(|e| fault(&TOKENIZER_FILE, e.to_string()))?;
    if let Err(what) = glance.model.judge() {
        return Err(fault(&TOKENIZER_MERGE, what));
    }
    let made = library(|| tokenizers::Tokenizer::from_bytes(&text));
    let mut made = made.map_err(|e| fault(&TOKENIZER_FILE, format!("cannot be read: {e}")))?;
    // Settings of whoever saved the file for batches of training, not of the vocabulary.
    made.with_padding(None);
    let _ = made.with_truncation(None);
    Ok(made)
}

/// What has to be known before the library reads the file.
#[derive(Deserialize)]
struct Glance {
    model: Model,
}

#[derive(Deserialize)]
struct Model {
    #[serde(default)]
    vocab: Longest,
    #[serde(default)]
    merges: Merges,
    #[serde(default)]
    continuing_subword_prefix: Option<String>,
}

impl Model {
    /// The library copies both parts of a merge into a buffer of the longest token's length, and cuts the prefix
    /// off the second part.
    fn judge(&self) -> Result<(), String> {
        let prefix = self.continuing_subword_prefix.as_ref().map_or(0, String::len);
        if self.merges.longest.saturating_sub(prefix) > self.vocab.0 {
            return Err("a merge makes a token that is not in the vocabulary".to_owned());
        }
        if prefix > 0 && self.merges.shortest_second.is_some_and(|len| len < prefix) {
            return Err("the second part of a merge is shorter than the prefix of such parts".to_owned());
        }
        Ok(())
    }
}

/// Length of the longest token of a vocabulary, which is an object (or a list, where there are no merges).
#[derive(Default)]
struct Longest(usize);

impl<'de> Deserialize<'de> for Longest {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Longest, D::Error> {
        from.deserialize_any(Longest(0))
    }
}

impl<'de> Visitor<'de> for Longest {
    type Value = Longest;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a vocabulary")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Longest, A::Error> {
        let mut longest = 0;
        while let Some(key) = map.next_key::<Length>()? {
            longest = longest.max(key.0);
            map.next_value::<IgnoredAny>()?;
        }
        Ok(Longest(longest))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Longest, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(self)
    }
}

/// Length of a text, which is not kept.
struct Length(usize);

impl<'de> Deserialize<'de> for Length {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Length, D::Error> {
        from.deserialize_str(Length(0))
    }
}

impl Visitor<'_> for Length {
    type Value = Length;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text")
    }

    fn visit_str<E>(self, text: &str) -> Result<Length, E> {
        Ok(Length(text.len()))
    }
}

/// Lengths among the merges.
#[derive(Default)]
struct Merges {
    /// Bytes of the longest pair.
    longest: usize,
    /// Bytes of the shortest second part.
    shortest_second: Option<usize>,
}

impl<'de> Deserialize<'de> for Merges {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Merges, D::Error> {
        from.deserialize_seq(Merges::default())
    }
}

impl<'de> Visitor<'de> for Merges {
    type Value = Merges;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of merges")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut seq: A) -> Result<Merges, A::Error> {
        while let Some(Merge(first, second)) = seq.next_element()? {
            self.longest = self.longest.max(first.saturating_add(second));
            self.shortest_second = Some(self.shortest_second.map_or(second, |s| s.min(second)));
        }
        Ok(self)
    }
}

/// Lengths of both parts of a merge, which is one text or two.
struct Merge(usize, usize);

impl<'de> Deserialize<'de> for Merge {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Merge, D::Error> {
        from.deserialize_any(Merge(0, 0))
    }
}

impl<'de> Visitor<'de> for Merge {
    type Value = Merge;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a merge")
    }

    fn visit_str<E>(self, text: &str) -> Result<Merge, E> {
        // A text without a space is refused by the library.
        Ok(text.split_once(' ').map_or(Merge(0, usize::MAX / 4), |(a, b)| Merge(a.len(), b.len())))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Merge, A::Error> {
        let first = seq.next_element::<Length>()?.map_or(0, |l| l.0);
        let second = seq.next_element::<Length>()?.map_or(0, |l| l.0);
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Merge(first, second))
    }
}
