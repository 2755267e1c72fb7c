//! tokenizer.json: looked over before the library builds from it, since that trusts what it reads.

use super::library;
use crate::bundle::File;
use crate::check::{MAX_TOKENIZER_BYTES, TOKENIZER_FILE, TOKENIZER_ID, TOKENIZER_MERGE};
use crate::config::MAX_CONFIG_BYTES;
use crate::error::{Error, Result};
use crate::finding::{Code, Finding};
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use serde_json::value::RawValue;
use std::fmt;

/// Reads a tokenizer.json.
pub(super) fn read(file: &File) -> Result<tokenizers::Tokenizer> {
    let text = file.read_all(MAX_TOKENIZER_BYTES)?;
    let fault = |code: &'static Code, what: String| {
        Error::malformed(Finding::new(code, what).file(file.name()).advice("fetch the file again"))
    };
    if text.trim_ascii_start().first().is_some_and(|&b| b != b'{') {
        return Err(fault(&TOKENIZER_FILE, "must be an object of JSON, and is something else".to_owned()));
    }
    let glance: Glance = serde_json::from_slice(&text).map_err(|e| fault(&TOKENIZER_FILE, e.to_string()))?;
    if let Err(what) = glance.model.judge() {
        return Err(fault(&TOKENIZER_MERGE, what));
    }
    if let Err(what) = glance.judge_growth() {
        return Err(fault(&TOKENIZER_FILE, what));
    }
    let made = library(|| tokenizers::Tokenizer::from_bytes(&text));
    let mut made = made.map_err(|e| fault(&TOKENIZER_FILE, format!("cannot be read: {e}")))?;
    // The library numbers added tokens as they come, whatever numbers they have in the file.
    for Added { id, content } in glance.added_tokens.iter().filter(|added| !added.content.is_empty()) {
        let given = made.token_to_id(content);
        if given != Some(*id) {
            let given = given.map_or("none".to_owned(), |id| id.to_string());
            let shown: String = content.chars().take(60).collect();
            let what = format!("added_tokens gives {shown:?} the id {id}, but by its place it has {given}");
            return Err(fault(&TOKENIZER_ID, what));
        }
    }
    // Settings of whoever saved the file for batches of training, not of the vocabulary.
    made.with_padding(None);
    let _ = made.with_truncation(None);
    Ok(made)
}

/// What has to be known before the library reads the file.
#[derive(Deserialize)]
#[serde(expecting = "an object")]
struct Glance<'a> {
    model: Model,
    #[serde(default)]
    added_tokens: Vec<Added>,
    #[serde(default, borrow)]
    normalizer: Option<&'a RawValue>,
    #[serde(default, borrow)]
    pre_tokenizer: Option<&'a RawValue>,
    #[serde(default, borrow)]
    decoder: Option<&'a RawValue>,
}

#[derive(Deserialize)]
#[serde(expecting = "an added token")]
struct Added {
    id: u32,
    content: String,
}

/// How many times as long as it was a text may become by what is replaced in it; marks of spaces make three of it.
const MOST_GROWTH: usize = 64;

impl Glance<'_> {
    /// Steps that lengthen a text do so one after the other, so that few of them could fill all memory.
    fn judge_growth(&self) -> Result<(), String> {
        let read = |name: &str, part: Option<&RawValue>| -> Result<Value, String> {
            let Some(part) = part else { return Ok(Value::Null) };
            if part.get().len() as u64 > MAX_CONFIG_BYTES {
                return Err(format!("{name} has more than {MAX_CONFIG_BYTES} bytes"));
            }
            serde_json::from_str(part.get()).map_err(|e| format!("{name}: {e}"))
        };
        let before = growth("normalizer", &read("normalizer", self.normalizer)?)?;
        let pieces = growth("pre_tokenizer", &read("pre_tokenizer", self.pre_tokenizer)?)?;
        let after = growth("decoder", &read("decoder", self.decoder)?)?;
        for (names, by) in
            [("normalizer and pre_tokenizer", before.saturating_mul(pieces)), ("decoder", after)]
        {
            if by > MOST_GROWTH {
                return Err(format!(
                    "the steps of {names} could make a text {by} times as long, and {MOST_GROWTH} times is the most"
                ));
            }
        }
        Ok(())
    }
}

/// How many times as long a step, or all steps within it, can make a text. As deep as JSON nests, which its reader
/// bounds.
fn growth(name: &str, step: &Value) -> Result<usize, String> {
    let steps = ["normalizers", "pretokenizers", "decoders"].iter().find_map(|key| step.get(key));
    if let Some(steps) = steps.and_then(Value::as_array) {
        let all = steps.iter().map(|step| growth(name, step));
        return all.into_iter().try_fold(1_usize, |all, one| Ok(all.saturating_mul(one?)));
    }
    if let Some(before) = step.get("prepend").and_then(Value::as_str) {
        // Once for each piece of the text, and the shortest piece is one byte.
        return Ok(before.len().saturating_add(1));
    }
    if let (Some(pattern), Some(content)) = (step.get("pattern"), step.get("content").and_then(Value::as_str))
    {
        let text = pattern.get("String").or(Some(pattern)).and_then(Value::as_str);
        let regex = pattern.get("Regex").and_then(Value::as_str);
        return match (text, regex) {
            (Some(""), _) | (_, Some("")) => Err(format!("{name}: Replace has an empty pattern")),
            (Some(text), _) => Ok(content.len().div_ceil(text.len().max(1)).max(1)),
            // What an expression finds may be as short as one byte, or be nothing between any two.
            (None, Some(regex)) if may_be_empty(regex) => Ok(content.len().saturating_add(1)),
            (None, _) => Ok(content.len().max(1)),
        };
    }
    // Bytes as characters of up to two; spaces around each ideograph.
    let doubles = matches!(step.get("type").and_then(Value::as_str), Some("ByteLevel" | "BertNormalizer"));
    Ok(if doubles { 2 } else { 1 })
}

/// Whether a regular expression may find what has no length; true where that takes more than a look.
fn may_be_empty(regex: &str) -> bool {
    regex.contains(['*', '?', '|', '^', '$'])
        || ["()", "{0", "{,", "\\b", "\\B", "\\A", "\\z", "\\Z", "\\G", "\\K"]
            .iter()
            .any(|s| regex.contains(s))
}

#[derive(Deserialize)]
#[serde(expecting = "an object")]
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
