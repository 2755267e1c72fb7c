//! Good inputs to begin with: small files of every kind, built here, and whatever lies in `testdata`.

mod folders;
pub mod gguf;
pub mod safetensors;
mod text;

use crate::mutate::MAX_LEN;
use crate::targets::registry;
pub use folders::index_config;
use gguf::Gguf;
use safetensors::{Tensor, file, with_header};
use scantling_core::config::Config;
use scantling_core::dtype::DType;
use scantling_core::index::TensorIndex;
use scantling_core::source::Dialect;
use scantling_core::table::{Absence, Use};
use std::fs;
use std::path::Path;
pub use text::{config, index};

/// Name of the first shard of two.
pub const SHARD_1: &str = "model-00001-of-00002.safetensors";
/// Name of the second.
pub const SHARD_2: &str = "model-00002-of-00002.safetensors";

/// The families that models are made of.
const FAMILIES: [&str; 3] = ["qwen3", "qwen2", "llama"];

/// Widths of a small model.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Distinct tokens.
    pub vocab: usize,
    /// Of the residual stream.
    pub hidden: usize,
    /// Blocks.
    pub layers: usize,
    /// Of one of two heads.
    pub head: usize,
    /// Inside the FFN.
    pub inner: usize,
}

/// As small as can be.
pub const TINY: Sizes = Sizes { vocab: 8, hidden: 4, layers: 2, head: 2, inner: 6 };
/// Wide enough for blocks of 32.
pub const BLOCKS: Sizes = Sizes { vocab: 8, hidden: 32, layers: 1, head: 16, inner: 32 };

/// Every tensor of a family's model, from the family's own table.
fn tensors(family: &str, sizes: Sizes, dialect: Dialect, matrices: DType, vectors: DType) -> Vec<Tensor> {
    // A table is made for no more layers than there are tensors, so one is asked for and repeated.
    let one = config(family, Sizes { layers: 1, ..sizes }, "");
    let plugin = registry().architecture(family).ok();
    let config = Config::from_json("config.json", one.as_bytes()).ok();
    let built = plugin.zip(config).and_then(|(p, c)| (p.build)(&c, &TensorIndex::default()).ok());
    let Some(built) = built else { return Vec::new() };
    let mut all = Vec::new();
    for stored in built.tensors().named(dialect).filter(|s| s.row.absence != Absence::Fine) {
        let dtype = if matches!(stored.row.usage, Use::Scale | Use::Bias) { vectors } else { matrices };
        let layers = if stored.row.layer.is_some() { sizes.layers } else { 1 };
        let name = |l: usize| stored.name.replace(".0.", &format!(".{l}."));
        all.extend((0..layers).map(|l| (name(l), dtype, stored.lens())));
    }
    all
}

/// The small configs of all families, with a vocabulary of eight.
fn family_configs() -> Vec<String> {
    let mut found = Vec::new();
    gather(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/families")), ".json", &mut found);
    let text =
        |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).replace("\"vocab_size\": 331", "\"vocab_size\": 8");
    found.into_iter().map(text).collect()
}

/// A model of every family as a folder: its config and its weights.
fn family_folders() -> Vec<Vec<u8>> {
    let folder = |text: String| {
        let config = Config::from_json("config.json", text.as_bytes()).ok()?;
        let plugin = registry().architecture_of(&config)?;
        let built = (plugin.build)(&config, &TensorIndex::default()).ok()?;
        let rows = built.tensors().named(Dialect::Hf).filter(|s| s.row.absence == Absence::Fault);
        let tensors: Vec<Tensor> = rows.map(|s| (s.name.clone(), DType::BF16, s.lens())).collect();
        Some(crate::folder::join(&[
            ("config.json", text.as_bytes()),
            ("model.safetensors", &file(&tensors, &[("format", "pt")])),
        ]))
    };
    family_configs().into_iter().filter_map(folder).collect()
}

/// A small model: its config and its weights.
pub fn model() -> (Vec<u8>, Vec<u8>) {
    let tensors = tensors("qwen2", TINY, Dialect::Hf, DType::BF16, DType::BF16);
    (config("qwen2", TINY, "").into_bytes(), file(&tensors, &[("format", "pt")]))
}

/// One tensor of each type that a test says yes to, one block long.
fn every_type(is_in: fn(DType) -> bool) -> Vec<Tensor> {
    let types = DType::all().filter(|dtype| is_in(*dtype));
    types.map(|d| (format!("t.{d}"), d, vec![1, d.block_elements()])).collect()
}

/// Files for the target `safetensors`.
pub fn safetensors() -> Vec<Vec<u8>> {
    let f32 = |name: &str, shape: &[usize]| (name.to_owned(), DType::F32, shape.to_vec());
    let mut seeds = vec![
        with_header("{}", b""),
        file(&[f32("a", &[2])], &[]),
        file(&[f32("scalar", &[]), f32("empty", &[0, 4]), f32("b", &[1, 2, 1])], &[("format", "pt")]),
        file(&every_type(|d| d.safetensors_name().is_some()), &[("a", "1"), ("b", "\\n\\u00e9")]),
        with_header(
            r#"{"a":{"dtype":"F32","shape":[1],"data_offsets":[0,4],"extra":{"b":[null]}}}"#,
            &[0; 4],
        ),
        model().1,
    ];
    seeds.extend(testdata(".safetensors"));
    seeds
}

/// A GGUF file with the hyperparameters of a family.
fn gguf_of(family: &str, sizes: Sizes, from: Gguf) -> Gguf {
    let key = |name: &str| format!("{family}.{name}");
    from.text("general.architecture", family)
        .text("general.name", "seed")
        .u32(&key("block_count"), sizes.layers as u32)
        .u32(&key("context_length"), 64)
        .u32(&key("embedding_length"), sizes.hidden as u32)
        .u32(&key("feed_forward_length"), sizes.inner as u32)
        .u32(&key("attention.head_count"), 2)
        .u32(&key("attention.head_count_kv"), 1)
        .u32(&key("attention.key_length"), sizes.head as u32)
        .u32(&key("attention.value_length"), sizes.head as u32)
        .f32(&key("attention.layer_norm_rms_epsilon"), 1e-6)
        .f32(&key("rope.freq_base"), 1e6)
}

/// A byte-pair vocabulary of eight tokens.
fn byte_pairs(file: Gguf) -> Gguf {
    file.text("tokenizer.ggml.model", "gpt2")
        .text("tokenizer.ggml.pre", "qwen2")
        .texts("tokenizer.ggml.tokens", &["a", "b", "c", "d", "ab", "cd", "<e>", "abcd"])
        .i32s("tokenizer.ggml.token_type", &[1, 1, 1, 1, 1, 1, 3, 1])
        .texts("tokenizer.ggml.merges", &["a b", "c d", "ab cd"])
        .u32("tokenizer.ggml.eos_token_id", 6)
        .u32("tokenizer.ggml.padding_token_id", 6)
        .text("tokenizer.chat_template", "{{ messages }}")
}

/// A vocabulary with scores.
fn pieces(file: Gguf) -> Gguf {
    file.text("tokenizer.ggml.model", "llama")
        .texts("tokenizer.ggml.tokens", &["<unk>", "<s>", "</s>", "<0x00>", "a", "b", "\u{2581}a", "ab"])
        .f32s("tokenizer.ggml.scores", &[0.0, 0.0, 0.0, 0.0, -1.0, -2.0, -3.0, -4.0])
        .i32s("tokenizer.ggml.token_type", &[2, 3, 3, 6, 1, 1, 1, 1])
        .u32("tokenizer.ggml.bos_token_id", 1)
        .u32("tokenizer.ggml.unknown_token_id", 0)
}

/// Files for the target `gguf`.
pub fn gguf() -> Vec<Vec<u8>> {
    let types = every_type(|d| d.ggml_id().is_some());
    let some: Vec<Tensor> = types.iter().take(4).cloned().collect();
    let split = |no: u16| {
        Gguf::new().u16("split.no", no).u16("split.count", 2).i32("split.tensors.count", 8).file(&some)
    };
    let mut seeds = vec![
        Gguf::new().file(&[]),
        Gguf::new().every_kind().file(&some),
        Gguf::big_endian().every_kind().file(&some),
        Gguf::version_2().every_kind().file(&[]),
        Gguf::new().nested("a", 3).nested("b", 7).file(&[]),
        Gguf::new().aligned(64).file(&some),
        Gguf::new().aligned(1).file(&some),
        Gguf::new().file(&types),
        Gguf::new().text("general.type", "adapter").text("adapter.type", "lora").file(&some),
        byte_pairs(Gguf::new()).file(&[]),
        split(0),
        split(1),
    ];
    seeds.extend(gguf_model());
    seeds.extend(testdata(".gguf"));
    seeds
}

/// Files for the target `gguf_model`: whole models.
pub fn gguf_model() -> Vec<Vec<u8>> {
    let mut seeds = Vec::new();
    for family in FAMILIES {
        let of = |sizes, dtype| tensors(family, sizes, Dialect::Gguf, dtype, DType::F32);
        seeds.push(byte_pairs(gguf_of(family, TINY, Gguf::new())).file(&of(TINY, DType::F16)));
        let untied: Vec<Tensor> =
            of(TINY, DType::F32).into_iter().filter(|t| t.0 != "output.weight").collect();
        seeds.push(pieces(gguf_of(family, TINY, Gguf::big_endian())).file(&untied));
        seeds.push(gguf_of(family, BLOCKS, Gguf::new()).file(&of(BLOCKS, DType::Q4_0)));
        seeds.push(gguf_of(family, BLOCKS, Gguf::new()).file(&of(BLOCKS, DType::MXFP4)));
    }
    seeds.push(Gguf::new().file(&every_type(|d| d.ggml_id().is_some())));
    seeds.extend(testdata(".gguf"));
    seeds
}

/// Files for the target `rewrite`: those of every format.
pub fn rewrite() -> Vec<Vec<u8>> {
    [safetensors(), gguf()].concat()
}

/// Inputs for the target `tokenizer`.
pub fn tokenizer() -> Vec<Vec<u8>> {
    let embedding = ("token_embd.weight".to_owned(), DType::F32, vec![8, 2]);
    let mut seeds = vec![
        byte_pairs(Gguf::new()).file(&[]),
        byte_pairs(Gguf::new()).file(std::slice::from_ref(&embedding)),
        pieces(Gguf::new()).file(std::slice::from_ref(&embedding)),
        pieces(Gguf::big_endian()).file(&[]),
        text::BPE.as_bytes().to_vec(),
        text::UNIGRAM.as_bytes().to_vec(),
    ];
    seeds.extend(testdata("tokenizer.json"));
    seeds
}

/// The beginnings of the files of `testdata` whose name ends so.
fn testdata(suffix: &str) -> Vec<Vec<u8>> {
    let mut found = Vec::new();
    gather(Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata")), suffix, &mut found);
    found
}

fn gather(folder: &Path, suffix: &str, found: &mut Vec<Vec<u8>>) {
    let mut paths: Vec<_> = fs::read_dir(folder).into_iter().flatten().flatten().map(|e| e.path()).collect();
    paths.sort();
    for path in paths {
        if path.is_dir() {
            gather(&path, suffix, found);
        } else if path.to_string_lossy().ends_with(suffix)
            && let Ok(mut bytes) = fs::read(&path)
        {
            bytes.truncate(MAX_LEN);
            found.push(bytes);
        }
    }
}

/// The quantised checkpoints of `testdata` as folders.
fn packed_folders() -> Vec<Vec<u8>> {
    let packed = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../testdata/packed"));
    let (mut configs, mut weights) = (Vec::new(), Vec::new());
    gather(packed, "config.json", &mut configs);
    gather(packed, "model.safetensors", &mut weights);
    let both = configs.iter().zip(&weights);
    both.map(|(c, w)| crate::folder::join(&[("config.json", c), ("model.safetensors", w)])).collect()
}

/// A shard of one tensor, which every input of the target `index_text` has beside it.
pub const SHARD: &[u8] = b"\x3c\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}      \0\0\0\0\0\0\0\0";

/// Inputs for the target `index_text`.
pub fn index_text() -> Vec<Vec<u8>> {
    let index = format!("{{\"metadata\":{{\"total_size\":8}},\"weight_map\":{{\"a\":\"{SHARD_1}\"}}}}");
    let two = format!("{{\"weight_map\":{{\"a\":\"./{SHARD_1}\",\"b\":\"x.safetensors\"}}}}");
    let qwen3 = r#"{"model_type":"qwen3","vocab_size":4,"hidden_size":4,"num_hidden_layers":1,"head_dim":2,"num_attention_heads":2,"num_key_value_heads":1,"intermediate_size":4,"rope_theta":1e6,"rms_norm_eps":1e-6}"#;
    let llama = r#"{"architectures":["LlamaForCausalLM"],"text_config":{"vocab_size":4,"hidden_size":4,"num_hidden_layers":1,"num_attention_heads":2,"intermediate_size":4},"rope_parameters":{"rope_type":"llama3","factor":8,"rope_theta":1}}"#;
    let qwen2 = qwen3.replace("qwen3", "qwen2");
    let texts =
        [&index, &two].into_iter().flat_map(|index| [qwen3, llama, &qwen2].map(|config| (index, config)));
    let texts = texts.map(|(index, config)| format!("{index}\0{config}").into_bytes());
    let families = family_configs().into_iter().map(|config| format!("{index}\0{config}").into_bytes());
    texts.chain(families).collect()
}
