//! The metadata of a GGUF file: a config's hyperparameters under their other names, and a vocabulary.

use super::{Family, push};
use scantling_core::config::{Config, Key};
use scantling_core::decoder;
use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::metadata::{Items, Metadata, Value};
use std::sync::Arc;

/// Hyperparameters that are whole numbers, each with the kind it is written in, in the converter's order.
static COUNTS: [&Key; 8] = [
    &decoder::LAYERS,
    &decoder::CONTEXT,
    &decoder::HIDDEN_SIZE,
    &decoder::INTERMEDIATE_SIZE,
    &decoder::HEADS,
    &decoder::KV_HEADS,
    &decoder::HEAD_DIM,
    &decoder::VOCAB_SIZE,
];

/// Hyperparameters with a fraction.
static NUMBERS: [&Key; 2] = [&decoder::ROPE_THETA, &decoder::RMS_NORM_EPS];

/// Numbers that are only there where the rotation is scaled.
static SCALING: [&Key; 2] = [&decoder::ROPE_FACTOR, &decoder::ROPE_ORIGINAL];

/// Kinds of tokens.
const NORMAL: u64 = 1;
const CONTROL: u64 = 3;
const UNUSED: u64 = 5;

/// Tokens of Qwen3's vocabulary that no merge makes: bytes, special ones and padding.
const UNMERGED: usize = 549;

const CHAT_TEMPLATE: &str = "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\\n' + \
     message['content'] + '<|im_end|>\\n' }}{% endfor %}{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' \
     }}{% endif %}";

/// All keys of a model's file. The config has been read by its family, which knows what is not said in it.
pub fn metadata(config: &Config, family: &Family, dtype: DType, vocabulary: &Vocabulary) -> Metadata {
    let arch = family.plugin.gguf.first().copied().unwrap_or(family.plugin.name);
    let mut all = Metadata::default();
    let mut put = |key: &str, kind: &str, value: Value| push(&mut all, key, kind, value);
    put("general.architecture", "string", text(arch));
    put("general.type", "string", text("model"));
    put("general.name", "string", text("made by make-model"));
    let facts = config.facts();
    let fact = |key: &Key| facts.iter().find(|f| f.meaning == key.meaning).map(|f| f.value.clone());
    for key in COUNTS {
        // Only llama's converter states the number of tokens; for the others their list does.
        let unsaid = key == &decoder::VOCAB_SIZE && arch != "llama" && !vocabulary.tokens.is_empty();
        if let Some(value) = fact(key).filter(|_| !unsaid) {
            put(&format!("{arch}.{}", key.gguf), "u32", value);
        }
    }
    if let Some(width) = fact(&decoder::HEAD_DIM) {
        put(&format!("{arch}.attention.value_length"), "u32", width);
    }
    let scaling = match fact(&decoder::ROPE_TYPE) {
        // llama3's scaling has no keys: it is told by a tensor.
        Some(Value::Text(kind)) if !["default", "none", "llama3"].contains(&kind.as_str()) => Some(kind),
        _ => None,
    };
    for key in NUMBERS.into_iter().chain(scaling.iter().flat_map(|_| SCALING)) {
        let (kind, value) = match (key.gguf.ends_with("_length"), fact(key)) {
            (_, None) => continue,
            (true, Some(value)) => ("u32", value),
            (false, Some(Value::Unsigned(n))) => ("f32", Value::Float(n as f64)),
            (false, Some(value)) => ("f32", value),
        };
        put(&format!("{arch}.{}", key.gguf), kind, value);
    }
    if let Some(kind) = scaling {
        put(&format!("{arch}.{}", decoder::ROPE_TYPE.gguf), "string", Value::Text(kind));
    }
    if let Some(number) = file_type(dtype) {
        put("general.file_type", "u32", Value::Unsigned(number));
    }
    put("general.quantization_version", "u32", Value::Unsigned(2));
    vocabulary.put(config, arch, &mut all);
    all
}

/// llama.cpp's number for a file that is mostly of one type.
fn file_type(dtype: DType) -> Option<u64> {
    Some(match dtype {
        DType::F32 => 0,
        DType::F16 => 1,
        DType::Q4_0 => 2,
        DType::Q4_1 => 3,
        DType::Q8_0 => 7,
        DType::Q5_0 => 8,
        DType::Q5_1 => 9,
        DType::Q2_K => 10,
        DType::Q3_K => 12,
        DType::Q4_K => 15,
        DType::Q5_K => 17,
        DType::Q6_K => 18,
        DType::BF16 => 32,
        _ => return None,
    })
}

/// What a file says of its tokens.
#[derive(Clone, Debug, Default)]
pub struct Vocabulary {
    /// By id.
    pub tokens: Vec<String>,
    /// Kind of each.
    pub kinds: Vec<u64>,
    /// Parts of each merge, with a space between.
    pub merges: Vec<String>,
}

impl Vocabulary {
    /// Made-up tokens, each unlike the others, seven bytes long on average.
    pub fn made_up(count: usize) -> Vocabulary {
        let letter = |n: usize| char::from(b'a' + (n % 26) as u8);
        let token = |i: usize| -> String {
            let digits = [i / 17_576, i / 676, i / 26, i].map(letter);
            digits.into_iter().chain((0..(i * 7 + i / 31) % 7).map(|k| letter(i + k))).collect()
        };
        let mut tokens: Vec<String> = (0..count).map(token).collect();
        let mut kinds = vec![NORMAL; count];
        for (i, name) in ["<|im_end|>", "<|im_start|>", "<|endoftext|>"].into_iter().enumerate() {
            if let Some(at) = count.checked_sub(i + 1) {
                (tokens[at], kinds[at]) = (name.to_owned(), CONTROL);
            }
        }
        let merges = tokens.iter().take(count.saturating_sub(UNMERGED));
        let merges = merges.map(|t| t.split_at(2)).map(|(a, b)| format!("{a} {b}")).collect();
        Vocabulary { tokens, kinds, merges }
    }

    /// Those of a `tokenizer.json`, padded to `count` as converters do.
    pub fn from_json(file: &str, json: &[u8], count: usize) -> Result<Vocabulary> {
        let wrong = |what: &str| Error::Usage(format!("{file}: {what}"));
        let json: serde_json::Value = serde_json::from_slice(json).map_err(|e| wrong(&e.to_string()))?;
        let vocab = json["model"]["vocab"].as_object().ok_or_else(|| wrong("no model.vocab in it"))?;
        let added = json["added_tokens"].as_array().map_or(&[][..], Vec::as_slice);
        let ids = vocab.iter().map(|(token, id)| (token.as_str(), id.as_u64(), NORMAL));
        let extra =
            added.iter().map(|a| (a["content"].as_str().unwrap_or_default(), a["id"].as_u64(), CONTROL));
        let mut tokens: Vec<String> = (0..count).map(|i| format!("[PAD{i}]")).collect();
        let mut kinds = vec![UNUSED; count];
        for (token, id, kind) in ids.chain(extra) {
            let id = id.and_then(|id| usize::try_from(id).ok()).filter(|&id| id < count);
            let id =
                id.ok_or_else(|| wrong(&format!("the id of {token} is none of the {count} asked for")))?;
            (tokens[id], kinds[id]) = (token.to_owned(), kind);
        }
        let merges = json["model"]["merges"].as_array().map_or(&[][..], Vec::as_slice).iter();
        // Either "left right" or ["left", "right"].
        let merge = |m: &serde_json::Value| match (m.as_str(), m[0].as_str(), m[1].as_str()) {
            (Some(pair), ..) => pair.to_owned(),
            (None, a, b) => format!("{} {}", a.unwrap_or_default(), b.unwrap_or_default()),
        };
        Ok(Vocabulary { tokens, kinds, merges: merges.map(merge).collect() })
    }

    fn put(&self, config: &Config, arch: &str, all: &mut Metadata) {
        if self.tokens.is_empty() {
            return;
        }
        let strings = |all: &[String]| items("string", all.iter().map(|s| text(s)).collect());
        push(all, "tokenizer.ggml.model", "string", text("gpt2"));
        let pre = if arch == "llama" { "llama-bpe" } else { "qwen2" };
        push(all, "tokenizer.ggml.pre", "string", text(pre));
        push(all, "tokenizer.ggml.tokens", "array[string]", strings(&self.tokens));
        let kinds = self.kinds.iter().map(|k| Value::Unsigned(*k)).collect();
        push(all, "tokenizer.ggml.token_type", "array[i32]", items("i32", kinds));
        push(all, "tokenizer.ggml.merges", "array[string]", strings(&self.merges));
        for (key, name) in [("eos_token_id", "eos"), ("pad_token_id", "padding"), ("bos_token_id", "bos")] {
            let id = match config.entries().get(key) {
                Some(Value::Unsigned(id)) if *id < self.tokens.len() as u64 => *id,
                _ if name == "padding" => continue,
                _ => self.tokens.len() as u64 - 1,
            };
            push(all, &format!("tokenizer.ggml.{name}_token_id"), "u32", Value::Unsigned(id));
        }
        push(all, "tokenizer.ggml.add_bos_token", "bool", Value::Bool(arch == "llama"));
        push(all, "tokenizer.chat_template", "string", text(CHAT_TEMPLATE));
    }
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn items(kind: &'static str, values: Vec<Value>) -> Value {
    Value::List(Arc::new(Items { kind, values }))
}
