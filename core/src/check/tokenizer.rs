//! The vocabulary beside or inside the weights: do its lists fit each other, and the embedding?

use super::tables::ranges;
use crate::bundle::File;
use crate::codes;
use crate::config::{Config, MAX_CONFIG_BYTES};
use crate::error::Error;
use crate::finding::{Code, Finding, Findings, Severity};
use crate::json::{self, JSON_INVALID};
use crate::metadata::{Item, List, Metadata, Value};
use crate::report::Vocabulary;
use crate::source::{Dialect, WeightSource};
use crate::table::{TensorTable, Use};
use crate::vocabulary_names::{TOKENIZER_MODELS, is_known_pre_tokenizer};
use serde_json::value::RawValue;
use std::collections::HashMap;
use std::ops::ControlFlow;

codes! {
    pub static TOKENIZER_LIST = Error, Tokenizer, "tokenizer-list",
        "a list of the vocabulary is of the wrong kind or length",
        "Tokens are text; their types and scores are numbers, one for each token. A list of another kind or length \
         makes readers refuse the file, or index past its end.";
    pub static TOKENIZER_ID = Error, Tokenizer, "tokenizer-id",
        "a special token is not in the vocabulary",
        "The id of a special token (begin, end, padding, …) is no index of the vocabulary or of the embedding's rows. \
         A program that trusts it reads past the end.";
    pub static TOKENIZER_MERGE = Error, Tokenizer, "tokenizer-merge",
        "a merge is not two parts with a space between",
        "Byte-pair merges are written as two tokens parted by one space. An entry of another form cannot be applied, \
         so text is split otherwise than the model was trained on.";
    pub static TOKENIZER_PRE = Error, Tokenizer, "tokenizer-pre",
        "the pre-tokenizer is not known",
        "tokenizer.ggml.pre names the rule by which text is split before merging. An unknown rule means other tokens \
         than the model was trained on, without any error when it runs. Convert the model again with a current \
         converter.";
    pub static TOKENIZER_PRE_ABSENT = Warning, Tokenizer, "tokenizer-pre-absent",
        "the file does not say how text is split before merging",
        "Files from before tokenizer.ggml.pre existed are read with the rule `default`, which gives other tokens than \
         most models were trained on. Convert the model again.";
    pub static TOKENIZER_MODEL = Error, Tokenizer, "tokenizer-model",
        "the kind of tokenizer is not known",
        "tokenizer.ggml.model is not one of the kinds that readers know.";
    pub static TOKENIZER_ROWS = Error, Tokenizer, "tokenizer-rows",
        "the vocabulary and the embedding differ in length",
        "Every token needs a row of the embedding. With more tokens than rows some have none; in GGUF the two must be \
         equal, and padding tokens are added where a model has spare rows.";
    pub static TOKENIZER_FILE = Error, Tokenizer, "tokenizer-file",
        "the tokenizer's file cannot be read",
        "tokenizer.json is damaged or is not a tokenizer of the `tokenizers` library. Fetch it again.";
}

/// Special ids of one kind that are looked at; models have a handful.
const MOST_IDS: usize = 1024;

/// A tokenizer.json is at most some tens of megabytes.
pub(crate) const MAX_TOKENIZER_BYTES: u64 = 256 * 1024 * 1024;

/// What a glance tells of the vocabulary, without reading its lists.
pub(super) fn glance(source: &dyn WeightSource) -> Option<Vocabulary> {
    if source.dialect() == Dialect::Hf {
        let there = |name: &str| matches!(source.beside(name), Ok(Some(_)));
        let file = ["tokenizer.json", "tokenizer.model"].into_iter().find(|name| there(name))?;
        let chat_template = there("chat_template.jinja") || template_in_config(source);
        return Some(Vocabulary { file: file.to_owned(), chat_template, ..Vocabulary::default() });
    }
    let metadata = source.metadata();
    let text = |key: &str| metadata.text(key).map(str::to_owned);
    let len = |key: &str| metadata.list(key).map(|l| l.len());
    let model = text("tokenizer.ggml.model")?;
    Some(Vocabulary {
        file: source.files().first()?.name().to_owned(),
        model: Some(model),
        pre: text("tokenizer.ggml.pre"),
        tokens: len("tokenizer.ggml.tokens"),
        merges: len("tokenizer.ggml.merges"),
        chat_template: metadata.entries().iter().any(|e| e.key.starts_with("tokenizer.chat_template")),
    })
}

/// Whether tokenizer_config.json holds a chat template.
fn template_in_config(source: &dyn WeightSource) -> bool {
    let Ok(Some(file)) = source.beside("tokenizer_config.json") else { return false };
    let text = file.read_all(MAX_CONFIG_BYTES);
    let flat = text.and_then(|text| json::flatten(file.name(), &text, &TOKENIZER_FILE));
    flat.is_ok_and(|flat| flat.entries.get("chat_template").is_some_and(|v| !matches!(v, Value::Null)))
}

/// Everything that is wrong with the vocabulary; `table` tells which tensor the embedding is, if it is known.
pub(super) fn check(
    source: &dyn WeightSource,
    config: Option<&Config>,
    table: Option<&TensorTable>,
) -> Vec<Finding> {
    let rows = embedding_rows(source, table);
    let mut findings = Findings::new();
    match source.dialect() {
        Dialect::Gguf => {
            let file = source.files().first().map_or_else(String::new, |f| f.name().to_owned());
            Inside { metadata: source.metadata(), file, findings: &mut findings }.check(rows);
        }
        Dialect::Hf => beside(source, config, rows, &mut findings),
    }
    findings.into_vec()
}

/// Rows of the embedding, under the name that the architecture has for it, or else under usual ones.
fn embedding_rows(source: &dyn WeightSource, table: Option<&TensorTable>) -> Option<u64> {
    let names = ["token_embd.weight", "model.embed_tokens.weight", "transformer.wte.weight"];
    let mut known = table.into_iter().flat_map(|table| {
        let lookups = table.rows().iter().filter(|row| row.usage == Use::Embedding);
        lookups.map(|row| table.name(row, source.dialect()))
    });
    let own = known.next().and_then(|name| source.tensors().get(&name));
    let tensor = own.or_else(|| names.iter().find_map(|n| source.tensors().get(n)))?;
    tensor.shape.first().map(|&rows| rows as u64)
}

/// The vocabulary inside a GGUF file.
struct Inside<'a> {
    metadata: &'a Metadata,
    file: String,
    findings: &'a mut Findings,
}

impl Inside<'_> {
    fn check(&mut self, rows: Option<u64>) {
        let key = "tokenizer.ggml.model";
        let Some(model) = self.metadata.get(key) else {
            if self.metadata.get("tokenizer.ggml.tokens").is_some() {
                let message = "is missing, though there are tokens".to_owned();
                self.add(&TOKENIZER_MODEL, key, message, Some("convert the model again".into()));
            }
            return;
        };
        let model = match model {
            Value::Text(text) => text.clone(),
            other => {
                let message = format!("must be text, not {}", other.kind());
                return self.add(&TOKENIZER_MODEL, "tokenizer.ggml.model", message, None);
            }
        };
        if TOKENIZER_MODELS.binary_search(&model.as_str()).is_err() {
            let known = format!("known: {}", TOKENIZER_MODELS.join(", "));
            self.add(
                &TOKENIZER_MODEL,
                "tokenizer.ggml.model",
                format!("\"{model}\" is not known"),
                Some(known),
            );
        }
        self.pre_tokenizer(&model);
        let tokens = self.tokens();
        if let Some(tokens) = tokens {
            self.parallel_list(
                "tokenizer.ggml.token_type",
                tokens,
                &["i32", "u32", "i8", "u8", "i16", "u16"],
            );
            self.parallel_list("tokenizer.ggml.scores", tokens, &["f32", "f64"]);
            self.special_ids(tokens);
            if let Some(rows) = rows.filter(|&rows| rows != tokens) {
                let message = format!("{tokens} tokens, but the embedding has {rows} rows");
                self.add(&TOKENIZER_ROWS, "tokenizer.ggml.tokens", message, None);
            }
        }
        self.merges();
    }

    fn add(&mut self, code: &'static Code, key: &str, message: String, advice: Option<String>) {
        let mut f = Finding::new(code, message).file(&self.file).field(key);
        f.place.offset = self.metadata.entry(key).and_then(|e| e.at);
        f.advice = advice;
        self.findings.push(f);
    }

    /// Only byte-pair vocabularies are split by a named rule first.
    fn pre_tokenizer(&mut self, model: &str) {
        if !["gpt2", "hybriddna", "whitespace"].contains(&model) {
            return;
        }
        let key = "tokenizer.ggml.pre";
        match self.metadata.get(key) {
            None => {
                let message = "is absent: readers fall back on `default`".to_owned();
                self.add(&TOKENIZER_PRE_ABSENT, key, message, Some("convert the model again".into()));
            }
            Some(Value::Text(pre)) if pre.is_empty() || is_known_pre_tokenizer(pre) => {}
            Some(other) => {
                let message = format!("the pre-tokenizer {other} is not known");
                self.add(
                    &TOKENIZER_PRE,
                    key,
                    message,
                    Some("convert the model again with a current converter".into()),
                );
            }
        }
    }

    /// The number of tokens, if the list is one of text.
    fn tokens(&mut self) -> Option<u64> {
        let key = "tokenizer.ggml.tokens";
        match self.metadata.get(key) {
            Some(Value::List(list)) if list.kind() == "string" => Some(list.len()),
            Some(Value::List(list)) => {
                let message = format!("must be a list of strings, not of type {}", list.kind());
                self.add(&TOKENIZER_LIST, key, message, None);
                None
            }
            Some(other) => {
                self.add(&TOKENIZER_LIST, key, format!("must be a list, not {}", other.kind()), None);
                None
            }
            None if self.metadata.text("tokenizer.ggml.model") == Some("none") => None,
            None => {
                self.add(&TOKENIZER_LIST, key, "is missing".to_owned(), None);
                None
            }
        }
    }

    /// A list with one number for each token.
    fn parallel_list(&mut self, key: &str, tokens: u64, kinds: &[&str]) {
        match self.metadata.get(key) {
            None => {}
            Some(Value::List(list)) if !kinds.contains(&list.kind()) => {
                let message =
                    format!("must be a list of type {}, not {}", kinds.first().unwrap_or(&""), list.kind());
                self.add(&TOKENIZER_LIST, key, message, None);
            }
            Some(Value::List(list)) if list.len() != tokens => {
                let message = format!("has length {}, but there are {tokens} tokens", list.len());
                self.add(&TOKENIZER_LIST, key, message, None);
            }
            Some(Value::List(_)) => {}
            Some(other) => {
                self.add(&TOKENIZER_LIST, key, format!("must be a list, not {}", other.kind()), None)
            }
        }
    }

    /// Keys that end in `_token_id` name a token.
    fn special_ids(&mut self, tokens: u64) {
        let metadata = self.metadata;
        let ids = metadata
            .entries()
            .iter()
            .filter(|e| e.key.starts_with("tokenizer.ggml.") && e.key.ends_with("_token_id"));
        for entry in ids {
            let inside = matches!(entry.value, Value::Unsigned(id) if id < tokens);
            // Writers that have no such token put -1 or the largest 32-bit number.
            let none = matches!(entry.value, Value::Signed(-1) | Value::Unsigned(0xffff_ffff));
            if !inside && !none {
                let message = format!("token {} is not in the vocabulary of {tokens} tokens", entry.value);
                self.add(&TOKENIZER_ID, &entry.key, message, None);
            }
        }
    }

    fn merges(&mut self) {
        let key = "tokenizer.ggml.merges";
        let list = match self.metadata.get(key) {
            None => return,
            Some(Value::List(list)) if list.kind() == "string" => list.clone(),
            Some(Value::List(list)) => {
                let message = format!("must be a list of strings, not of type {}", list.kind());
                return self.add(&TOKENIZER_LIST, key, message, None);
            }
            Some(other) => {
                let message = format!("must be a list of strings, not {}", other.kind());
                return self.add(&TOKENIZER_LIST, key, message, None);
            }
        };
        if let Some(bad) = malformed_merges(list.as_ref()) {
            let (count, first, text) = bad;
            let message = format!("{count} of {} merges are not two parts with a space between", list.len());
            let first = format!("the first is number {first}: \"{}\"", text.escape_ascii());
            self.add(&TOKENIZER_MERGE, key, format!("{message}; {first}"), None);
        }
    }
}

/// Count of malformed merges, number and text of the first. The space may not be the first byte, since a part
/// is never empty; a part may begin with one.
fn malformed_merges(list: &dyn List) -> Option<(u64, u64, Vec<u8>)> {
    let mut bad: Option<(u64, u64, Vec<u8>)> = None;
    let read = list.visit(&mut |i, item| {
        let Item::Text(text) = item else { return ControlFlow::Break(()) };
        let parts = text.get(1..).and_then(|rest| {
            let at = rest.iter().position(|&b| b == b' ')?;
            rest.get(at.saturating_add(1)..)
        });
        if parts.is_none_or(|second| second.is_empty() || second.contains(&b' ')) {
            match &mut bad {
                Some((count, _, _)) => *count = count.saturating_add(1),
                None => bad = Some((1, i, text.get(..text.len().min(60)).unwrap_or_default().to_vec())),
            }
        }
        ControlFlow::Continue(())
    });
    read.ok().and(bad)
}

/// The vocabulary beside a Hugging Face checkpoint.
fn beside(source: &dyn WeightSource, config: Option<&Config>, rows: Option<u64>, findings: &mut Findings) {
    match source.beside("tokenizer.json") {
        Ok(Some(file)) => match Vocab::read(&file) {
            Ok(vocab) => vocab.check(&file, rows, findings),
            Err(finding) => findings.push(*finding),
        },
        Ok(None) => {}
        Err(e) => findings.push(Finding::new(&TOKENIZER_FILE, e.to_string())),
    }
    if let (Some(config), Some(rows)) = (config, rows) {
        config_ids(config, rows, findings);
    }
}

/// Special ids that config.json names, one number or a list of them.
fn config_ids(config: &Config, rows: u64, findings: &mut Findings) {
    for key in ["bos_token_id", "eos_token_id", "pad_token_id"] {
        let named = match config.value(key) {
            Some(list @ Value::List(_)) => list.first_items(MOST_IDS).unwrap_or_default(),
            Some(value) => vec![value.clone()],
            None => Vec::new(),
        };
        for value in named {
            let fine = matches!(value, Value::Null) || matches!(value, Value::Unsigned(id) if id < rows);
            if !fine {
                let message = format!("token {value} has no row in the embedding of {rows} rows");
                // Padding ids beyond the vocabulary are common, and are never looked up.
                let severity = if key == "pad_token_id" { Severity::Warning } else { Severity::Error };
                let f = Finding::new(&TOKENIZER_ID, message).file(config.file()).field(key);
                findings.push(f.severity(severity));
            }
        }
    }
}

/// Ids of a tokenizer.json.
struct Vocab {
    /// Token and id; added tokens included.
    ids: Vec<(String, u64)>,
}

type Object<'a> = HashMap<String, &'a RawValue>;

impl Vocab {
    fn read(file: &File) -> Result<Vocab, Box<Finding>> {
        let fail = |code: &'static Code, what: String| Box::new(Finding::new(code, what).file(file.name()));
        let bytes =
            file.read_all(MAX_TOKENIZER_BYTES).map_err(|e: Error| fail(&TOKENIZER_FILE, e.to_string()))?;
        let invalid = |e: serde_json::Error| {
            let mut finding = fail(&JSON_INVALID, format!("not valid JSON: {e}"));
            finding.code = &TOKENIZER_FILE;
            finding
        };
        let top: Object<'_> = serde_json::from_slice(&bytes).map_err(invalid)?;
        let model =
            top.get("model").ok_or_else(|| fail(&TOKENIZER_FILE, "there is no \"model\" in it".into()))?;
        let model: Object<'_> = serde_json::from_str(model.get()).map_err(invalid)?;
        let mut ids: Vec<(String, u64)> = Vec::new();
        if let Some(vocab) = model.get("vocab") {
            if vocab.get().starts_with('{') {
                let map: HashMap<String, u64> = serde_json::from_str(vocab.get()).map_err(invalid)?;
                ids.extend(map);
            } else {
                let list: Vec<(String, f64)> = serde_json::from_str(vocab.get()).map_err(invalid)?;
                ids.extend(list.into_iter().enumerate().map(|(i, (token, _))| (token, i as u64)));
            }
        }
        let added = top.get("added_tokens").map_or("[]", |raw| raw.get());
        let added: Vec<Object<'_>> = serde_json::from_str(added).map_err(invalid)?;
        for token in added {
            let content = token.get("content").map_or("", |raw| raw.get().trim_matches('"'));
            let id = token.get("id").map_or("null", |raw| raw.get());
            match id.parse() {
                Ok(id) => ids.push((content.to_owned(), id)),
                Err(_) => {
                    let what =
                        format!("the added token \"{content}\" has the id {id}, which is no whole number");
                    return Err(fail(&TOKENIZER_FILE, what));
                }
            }
        }
        Ok(Vocab { ids })
    }

    fn check(&self, file: &File, rows: Option<u64>, findings: &mut Findings) {
        let Some(rows) = rows else { return };
        let mut beyond: Vec<usize> = self
            .ids
            .iter()
            .filter(|(_, id)| *id >= rows)
            .filter_map(|(_, id)| usize::try_from(*id).ok())
            .collect();
        beyond.sort_unstable();
        beyond.dedup();
        if let Some(first) = beyond.first() {
            let name = self.ids.iter().find(|(_, id)| *id == *first as u64).map_or("", |(name, _)| name);
            let shown = ranges(beyond.get(..beyond.len().min(1000)).unwrap_or_default());
            let message = format!(
                "{} tokens have no row in the embedding of {rows} rows: {shown} (the first is \"{name}\")",
                beyond.len()
            );
            findings.push(Finding::new(&TOKENIZER_ROWS, message).file(file.name()));
        }
    }
}
