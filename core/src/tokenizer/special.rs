//! The tokens with a meaning: where a text begins, where a turn ends.

use crate::bundle::File;
use crate::check::TOKENIZER_ID;
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

/// Ids from the JSON files beside a checkpoint. What is there but cannot be read is an error, and so is an end of text
/// that is no token: with a wrong one a model would talk on.
pub(super) fn beside(files: Beside<'_>, library: &tokenizers::Tokenizer) -> Result<SpecialIds> {
    let mut ids = SpecialIds::default();
    if let Some(config) = json_beside(files, "tokenizer_config.json")? {
        let named = |key: &str| library.token_to_id(token_text(config.get(key)?)?);
        ids.bos = named("bos_token");
        ids.eos = named("eos_token");
        ids.eot = named("eot_token");
        ids.unknown = named("unk_token");
        ids.padding = named("pad_token");
    }
    for name in ["generation_config.json", "config.json"] {
        let Some(config) = json_beside(files, name)? else { continue };
        let ends = ends(config.get("eos_token_id"), library).map_err(|what| {
            let f = Finding::new(&TOKENIZER_ID, what).file(name).field("eos_token_id");
            Error::malformed(f.advice("correct it, or fetch the file that belongs to this tokenizer.json"))
        })?;
        ids.eos = ids.eos.or(ends.first().copied());
        ids.bos = ids.bos.or(id(config.get("bos_token_id")));
        ids.padding = ids.padding.or(id(config.get("pad_token_id")));
        ids.more_ends.extend(ends);
    }
    Ok(ids)
}

/// A token of a config: its text, or an object that holds it.
pub(super) fn token_text(value: &Value) -> Option<&str> {
    value.as_str().or_else(|| value.get("content")?.as_str())
}

/// Ids at which a text ends: one, or a list of them.
fn ends(value: Option<&Value>, library: &tokenizers::Tokenizer) -> Result<Vec<u32>, String> {
    let one = |value: &Value| {
        if !value.is_i64() && !value.is_u64() {
            return Err("must be the whole number of a token, or a list of such".to_owned());
        }
        match id(Some(value)).filter(|&id| library.id_to_token(id).is_some()) {
            Some(id) => Ok(id),
            None => {
                let size = library.get_vocab_size(true);
                Err(format!("token {value} is not in the vocabulary of {size} tokens"))
            }
        }
    };
    match value {
        // Writers that have no such token put -1.
        Some(none) if none.is_null() || none.as_i64() == Some(-1) => Ok(Vec::new()),
        Some(Value::Array(list)) => list.iter().map(one).collect(),
        Some(value) => Ok(vec![one(value)?]),
        None => Ok(Vec::new()),
    }
}

/// An id, where there is one.
fn id(value: Option<&Value>) -> Option<u32> {
    u32::try_from(value?.as_u64()?).ok()
}
