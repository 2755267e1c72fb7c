//! Folders: indexes, configs, shards, and things that go wrong between them.

use super::gguf::Gguf;
use super::safetensors::{Tensor, file};
use super::{
    FAMILIES, SHARD_1, SHARD_2, Sizes, TINY, byte_pairs, config, family_folders, gguf_of, index,
    packed_folders, tensors, text,
};
use crate::folder::join;
use scantling_core::dtype::DType;
use scantling_core::source::Dialect;

/// Name of an index.
const INDEX: &str = "model.safetensors.index.json";
/// Name of a model in one file.
const SINGLE: &str = "model.safetensors";
/// Name of a config.
const CONFIG: &str = "config.json";

/// Inputs for the target `index_config`.
pub fn index_config() -> Vec<Vec<u8>> {
    let mut seeds = [family_folders(), packed_folders()].concat();
    for family in FAMILIES {
        // Layers cost time with every input made of them: one family has two, to be held against each other.
        let sizes = if family == "qwen3" { TINY } else { Sizes { layers: 1, ..TINY } };
        let all = tensors(family, sizes, Dialect::Hf, DType::BF16, DType::BF16);
        seeds.extend(single_files(family, sizes, &all));
        seeds.extend(shards(family, sizes, &all));
        seeds.extend(split_gguf(family, sizes));
    }
    seeds
}

/// A config and one weight file.
fn single_files(family: &str, sizes: Sizes, all: &[Tensor]) -> Vec<Vec<u8>> {
    let plain = config(family, sizes, "");
    let model = |config: &str, tensors: &[Tensor]| {
        join(&[(CONFIG, config.as_bytes()), (SINGLE, &file(tensors, &[("format", "pt")]))])
    };
    let change = |change: &dyn Fn(&Tensor) -> Tensor| -> Vec<Tensor> { all.iter().map(change).collect() };
    let tied: Vec<Tensor> = all.iter().filter(|t| t.0 != "lm_head.weight").cloned().collect();
    let types = [DType::F32, DType::F16, DType::F8_E4M3, DType::F4, DType::I32, DType::F64];
    let mixed = all.iter().zip(types.iter().cycle());
    let mixed: Vec<Tensor> = mixed.map(|((n, _, s), d)| (n.clone(), *d, s.clone())).collect();
    let retyped = change(&|(name, dtype, shape)| {
        let dtype = if name == "lm_head.weight" { DType::F32 } else { *dtype };
        (name.clone(), dtype, shape.clone())
    });
    let prefixed = change(&|(name, dtype, shape)| (format!("language_model.{name}"), *dtype, shape.clone()));
    let packed = change(&|(name, _, shape)| (name.replace(".weight", ".qweight"), DType::I32, shape.clone()));
    let old = ("model.layers.0.self_attn.rotary_emb.inv_freq".to_owned(), DType::F32, vec![2]);
    let other = if family == "qwen2" { "llama" } else { "qwen2" };
    vec![
        model(&plain, all),
        join(&[(SINGLE, &file(&tied, &[]))]),
        model(&format!(r#"{{"model_type":"a","text_config":{plain}}}"#), &tied),
        model(&config(family, sizes, text::QUANTIZATION), &mixed),
        model(&config(family, sizes, text::QUANTIZATION), all),
        model(&plain, &mixed),
        model(&plain, &retyped),
        model(&plain, &prefixed),
        model(&plain, &packed),
        model(&plain, &[all, &[old]].concat()),
        model(&config(other, sizes, ""), all),
        model(&config(family, sizes, text::TWO_BASES), all),
        model(&config(family, sizes, text::ROPE_PARAMETERS), all),
        model(&config(family, sizes, text::ROPE_SCALING), all),
    ]
}

/// A config and two weight files, with and without what should lie beside them.
fn shards(family: &str, sizes: Sizes, all: &[Tensor]) -> Vec<Vec<u8>> {
    let config = config(family, sizes, "");
    let config = (CONFIG, config.as_bytes());
    let names: Vec<&str> = all.iter().map(|(name, _, _)| name.as_str()).collect();
    let (first, second) = all.split_at(all.len() / 2);
    let (map_1, map_2) = names.split_at(names.len() / 2);
    let (first, second) = (file(first, &[("format", "pt")]), file(second, &[("format", "pt")]));
    let (first, second) = ((SHARD_1, first.as_slice()), (SHARD_2, second.as_slice()));
    let map = index(map_1, map_2);
    let map = (INDEX, map.as_bytes());
    let swapped = index(map_2, map_1);
    let swapped = (INDEX, swapped.as_bytes());
    let whole = file(all, &[]);
    vec![
        join(&[config, map, first, second]),
        join(&[config, map, first]),
        join(&[config, (INDEX, br#"{"weight_map":{"a":"../a.safetensors","b":"b"}}"#), first]),
        join(&[config, swapped, first, second]),
        join(&[config, first, second]),
        join(&[config, second]),
        join(&[config, map, first, second, (SINGLE, &whole)]),
        join(&[config, map, (SHARD_1, &whole), (SHARD_2, &whole)]),
        join(&[config, first, ("tokenizer.json", text::BPE.as_bytes()), second]),
    ]
}

/// Two parts of a GGUF model.
fn split_gguf(family: &str, sizes: Sizes) -> Vec<Vec<u8>> {
    let all = tensors(family, sizes, Dialect::Gguf, DType::F16, DType::F32);
    let (one, two) = all.split_at(all.len() / 2);
    let split = |file: Gguf, no: u16, tensors: usize| {
        let file = file.u16("split.no", no).u16("split.count", 2);
        file.i32("split.tensors.count", tensors as i32)
    };
    let one = split(byte_pairs(gguf_of(family, sizes, Gguf::new())), 0, all.len()).file(one);
    let miscounted = split(Gguf::new(), 1, 99).file(two);
    let two = split(Gguf::new(), 1, all.len()).file(two);
    let (first, second) = ("m-00001-of-00002.gguf", "m-00002-of-00002.gguf");
    vec![
        join(&[(first, &one), (second, &two)]),
        join(&[(first, &one), (second, &miscounted)]),
        join(&[(first, &one)]),
        join(&[(second, &one), (first, &two)]),
        join(&[(first, &one), (second, b"GGUF")]),
    ]
}
