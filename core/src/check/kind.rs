//! Models that are something else than a language model's weights, said for what they are.

use crate::config::Config;
use crate::metadata::Value;
use crate::source::{Dialect, WeightSource};

/// What a source is, if it is no whole language model in a layout that is checked. `wrapped`: the config is that of a
/// larger model with a text model of a known family in it.
pub(super) fn special(source: &dyn WeightSource, config: Option<&Config>, wrapped: bool) -> Option<String> {
    match source.dialect() {
        Dialect::Gguf => gguf(source),
        Dialect::Hf => by_names(source, wrapped).or_else(|| config.and_then(mlx)),
    }
}

/// GGUF says what it is in `general.type`; older files are told by their keys.
fn gguf(source: &dyn WeightSource) -> Option<String> {
    let metadata = source.metadata();
    let begins = |prefix: &str| metadata.entries().iter().any(|e| e.key.starts_with(prefix));
    let kind = metadata.text("general.type").unwrap_or_default();
    let what = match kind {
        "adapter" => "a LoRA adapter: changes to a base model, which is another file",
        "mmproj" => "a projector (mmproj) of a multimodal model: the language model is another file",
        "imatrix" => "an importance matrix: statistics for quantising, not weights",
        _ if begins("adapter.") => "a LoRA adapter: changes to a base model, which is another file",
        _ if begins("clip.") => {
            "a projector (mmproj) of a multimodal model: the language model is another file"
        }
        _ if begins("imatrix.") => "an importance matrix: statistics for quantising, not weights",
        _ if source.tensors().is_empty() && begins("tokenizer.ggml.") => "a vocabulary without weights",
        _ => return None,
    };
    Some(what.to_owned())
}

/// How the names of a tensor give a layout away.
struct Sign {
    /// Whether one name is enough.
    tells: fn(&str) -> bool,
    /// Whether a part of a larger model may have such names too.
    part: bool,
    what: &'static str,
}

const SIGNS: [Sign; 4] = [
    Sign {
        tells: |n| n.contains(".lora_A.") || n.contains(".lora_B.") || n.contains("lora_embedding_"),
        part: false,
        what: "a LoRA adapter: changes to a base model, which is another checkpoint",
    },
    Sign {
        tells: |n| {
            n == "tok_embeddings.weight"
                || n.ends_with(".attention.wq.weight")
                || n.ends_with(".feed_forward.w1.weight")
        },
        part: false,
        what: "Mistral's own (consolidated) layout: the same weights under other names, with params.json for a config; \
               the Hugging Face layout of the model is the one that is checked",
    },
    Sign {
        tells: |n| {
            n.starts_with("down_blocks.")
                || n.starts_with("transformer_blocks.")
                || n.starts_with("single_transformer_blocks.")
        },
        part: false,
        what: "a part of a diffusers pipeline",
    },
    Sign {
        tells: |n| {
            n.starts_with("text_model.encoder.layers.") || n.starts_with("vision_model.encoder.layers.")
        },
        part: true,
        what: "a CLIP or SigLIP encoder",
    },
];

/// Names looked at: a layout shows in the first few.
const LOOKED_AT: usize = 512;

fn by_names(source: &dyn WeightSource, wrapped: bool) -> Option<String> {
    let names = || source.tensors().tensors().iter().take(LOOKED_AT).map(|t| t.name.as_str());
    let mut signs = SIGNS.iter().filter(|sign| !(wrapped && sign.part));
    signs.find(|sign| names().any(sign.tells)).map(|sign| sign.what.to_owned())
}

/// MLX writes `quantization` without a method.
fn mlx(config: &Config) -> Option<String> {
    let bits = config
        .entries()
        .get("quantization.bits")
        .or_else(|| config.entries().get("quantization_config.bits"));
    let method = config.entries().get("quantization_config.quant_method");
    match (bits, method) {
        (Some(Value::Unsigned(bits)), None) => Some(format!("an MLX checkpoint, packed with {bits} bits")),
        _ => None,
    }
}
