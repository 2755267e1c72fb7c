//! The tokenizer names that a GGUF file may carry.
//!
//! Gathered from the vocabulary loader of llama.cpp, as packaged in llama-cpp-python 0.3.36. They are the
//! names which that program accepts: it refuses a file whose `tokenizer.ggml.model` is not among
//! [`TOKENIZER_MODELS`]. Where the model is `gpt2`, `hybriddna` or `whitespace`, it also refuses a
//! `tokenizer.ggml.pre` that is not among [`PRE_TOKENIZERS`], and takes an absent or empty one as `default`,
//! with a warning. Where the model is `gemma4`, it uses `gemma4` whatever the file says. With every other
//! model it lets any name through, and its converters do write names there that are not in the list, such as
//! `bert-bge` and `chatglm-spm`.

/// The values of `tokenizer.ggml.pre` that llama.cpp (as packaged in llama-cpp-python 0.3.36) accepts,
/// aliases included, in byte order.
pub const PRE_TOKENIZERS: &[&str] = &[
    "a.x-4.0",
    "afmoe",
    "bailingmoe",
    "bailingmoe2",
    "bloom",
    "chameleon",
    "chatglm-bpe",
    "codeshell",
    "cohere2moe",
    "command-r",
    "dbrx",
    "deepseek-coder",
    "deepseek-llm",
    "deepseek-r1-qwen",
    "deepseek-v3",
    "default",
    "exaone",
    "exaone-moe",
    "exaone4",
    "f2llmv2",
    "falcon",
    "falcon-h1",
    "falcon3",
    "gemma4",
    "gigachat",
    "glm4",
    "glm5",
    "gpt-2",
    "gpt-4o",
    "gpt3-finnish",
    "granite-docling",
    "granite-embed-multi-311m",
    "granite-embed-multi-97m",
    "grok-2",
    "hunyuan",
    "hunyuan-dense",
    "hy_v4",
    "jais",
    "jais-2",
    "jina-de",
    "jina-es",
    "jina-v1-en",
    "jina-v2-code",
    "jina-v2-de",
    "jina-v2-es",
    "jina-v5-nano",
    "joyai-llm",
    "kanana2",
    "kimi-k2",
    "kormo",
    "laguna",
    "lfm2",
    "llada-moe",
    "llama-bpe",
    "llama-v3",
    "llama3",
    "llama4",
    "megrez",
    "mellum",
    "mellum2",
    "midm-2.0",
    "minerva-7b",
    "minicpm5",
    "minimax-m2",
    "modern-bert",
    "mpt",
    "olmo",
    "phi-2",
    "pixtral",
    "poro-chat",
    "qwen2",
    "qwen35",
    "refact",
    "roberta-bpe",
    "sarvam-moe",
    "seed-coder",
    "smaug-bpe",
    "smollm",
    "solar-open",
    "spark2_5",
    "stablelm2",
    "starcoder",
    "superbpe",
    "talkie",
    "tekken",
    "tiny_aya",
    "trillion",
    "ufakzeka",
    "viking",
    "whitespace",
    "youtu",
];

/// The values of `tokenizer.ggml.model` that llama.cpp (as packaged in llama-cpp-python 0.3.36) accepts, in
/// byte order. `no_vocab` and `none` both say that the file holds no vocabulary; `test` is for that
/// program's own tests.
pub const TOKENIZER_MODELS: &[&str] = &[
    "bert",
    "gemma4",
    "gpt2",
    "hybriddna",
    "llama",
    "no_vocab",
    "none",
    "plamo2",
    "rwkv",
    "t5",
    "test",
    "whitespace",
];

/// Whether `name` is one of [`PRE_TOKENIZERS`]. Names are compared byte for byte, and the empty name is not
/// among them.
pub fn is_known_pre_tokenizer(name: &str) -> bool {
    PRE_TOKENIZERS.binary_search(&name).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_sorted_and_unique() {
        for names in [PRE_TOKENIZERS, TOKENIZER_MODELS] {
            for pair in names.windows(2) {
                assert!(pair[0] < pair[1], "{:?} does not come before {:?}", pair[0], pair[1]);
            }
        }
    }

    #[test]
    fn every_name_is_found_and_others_are_not() {
        assert!(PRE_TOKENIZERS.iter().all(|name| is_known_pre_tokenizer(name)));
        for name in ["", "Qwen2", "qwen2 ", "qwen", "bert-bge", "zzz"] {
            assert!(!is_known_pre_tokenizer(name), "{name:?}");
        }
    }
}
