//! The tokens with a meaning: where a text begins, where a turn ends.

use crate::bundle::File;
use crate::config::MAX_CONFIG_BYTES;
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::json::JSON_INVALID;
use serde_json::Value;

/// Ids of special tokens, as far as the files name them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SpecialIds {
    /// Begins a text.
    pub bos: Option<u32>,
    /// Ends a text.
    pub eos: Option<u32>,
    /// Ends a turn of a conversation.
    pub eot: Option<u32>,
    /// Ends a message that awaits a tool's answer.
    pub eom: Option<u32>,
    /// Stands for what the vocabulary lacks.
    pub unknown: Option<u32>,
    /// Fills rows.
    pub padding: Option<u32>,
    /// Further ids at which generation ends.
    pub(super) more_ends: Vec<u32>,
}

impl SpecialIds {
    /// Every id that ends a generated text, sorted.
    pub fn ends(&self) -> Vec<u32> {
        let mut ids: Vec<u32> = [self.eos, self.eot, self.eom].into_iter().flatten().collect();
        ids.extend(&self.more_ends);
        ids.sort_unstable();
        ids.dedup();
        ids
    }
}

/// Names that end a turn in the families that have such, for files that do not say it by a key.
pub(super) const TURN_ENDS: [&str; 7] =
    ["<|eot_id|>", "<|im_end|>", "<|end|>", "<|return|>", "<end_of_turn>", "<|eom_id|>", "<|endoftext|>"];

/// Looks for a small file beside a model.
pub(super) type Beside<'a> = &'a dyn Fn(&str) -> Result<Option<File>>;

/// A small JSON file beside the model, if there is one.
pub(super) fn json_beside(beside: Beside<'_>, name: &str) -> Result<Option<Value>> {
    let Some(file) = beside(name)? else { return Ok(None) };
    let text = file.read_all(MAX_CONFIG_BYTES)?;
    let text = text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&text);
    match serde_json::from_slice(text) {
        Ok(value) => Ok(Some(value)),
        Err(e) => Err(Error::malformed(
            Finding::new(&JSON_INVALID, format!("not valid JSON: {e}")).file(file.name()),
        )),
    }
}

/// Ids from the JSON files beside a checkpoint. What is there but cannot be read is an error: a wrong end of text
/// would let a model talk on.
pub(super) fn beside(files: Beside<'_>, id_of: &dyn Fn(&str) -> Option<u32>) -> Result<SpecialIds> {
    let mut ids = SpecialIds::default();
    if let Some(config) = json_beside(files, "tokenizer_config.json")? {
        let named = |key: &str| token_text(config.get(key)?).and_then(id_of);
        ids.bos = named("bos_token");
        ids.eos = named("eos_token");
        ids.eot = named("eot_token");
        ids.unknown = named("unk_token");
        ids.padding = named("pad_token");
    }
    for name in ["generation_config.json", "config.json"] {
        let Some(config) = json_beside(files, name)? else { continue };
        let ends = whole(config.get("eos_token_id"));
        ids.eos = ids.eos.or(ends.first().copied());
        ids.bos = ids.bos.or(whole(config.get("bos_token_id")).first().copied());
        ids.padding = ids.padding.or(whole(config.get("pad_token_id")).first().copied());
        ids.more_ends.extend(ends);
    }
    Ok(ids)
}

/// A token of a config: its text, or an object that holds it.
pub(super) fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// One id, or a list of them.
fn whole(value: Option<&Value>) -> Vec<u32> {
    let id = |v: &Value| v.as_u64().and_then(|id| u32::try_from(id).ok());
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(id).collect(),
        Some(value) => id(value).into_iter().collect(),
        None => Vec::new(),
    }
}
