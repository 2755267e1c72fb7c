//! JSON files of small models.

use super::{SHARD_1, SHARD_2, Sizes};

/// Rotary settings as newer configs have them, to be put into a config.
pub const ROPE_PARAMETERS: &str = r#""rope_parameters":{"rope_theta":500000.0,"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,"original_max_position_embeddings":32},"#;

/// Rotary settings as older configs have them.
pub const ROPE_SCALING: &str = r#""rope_theta":10000.0,"rope_scaling":{"type":"yarn","factor":4,"original_max_position_embeddings":16},"#;

/// Two bases for the rotary frequencies.
pub const TWO_BASES: &str = r#""rope_theta":10000.0,"rope_parameters":{"rope_theta":500000.0},"#;

/// How weights are packed.
pub const QUANTIZATION: &str =
    r#""quantization_config":{"quant_method":"fp8","bits":8,"weight_block_size":[128,128]},"#;

/// A `config.json`, with further members put in the middle.
pub fn config(family: &str, sizes: Sizes, more: &str) -> String {
    let Sizes { vocab, hidden, layers, head, inner } = sizes;
    format!(
        "{{\"architectures\":[\"XForCausalLM\"],\"model_type\":\"{family}\",\"vocab_size\":{vocab},\
         \"hidden_size\":{hidden},\"num_hidden_layers\":{layers},\"num_attention_heads\":2,\
         \"num_key_value_heads\":1,\"head_dim\":{head},{more}\"intermediate_size\":{inner},\
         \"rms_norm_eps\":1e-6,\"max_position_embeddings\":64,\"hidden_act\":\"silu\",\
         \"attention_bias\":false,\"tie_word_embeddings\":true,\"bos_token_id\":null,\
         \"eos_token_id\":[6,7],\"torch_dtype\":\"bfloat16\"}}"
    )
}

/// A `model.safetensors.index.json` that has these tensors in the first and in the second shard.
pub fn index(first: &[&str], second: &[&str]) -> String {
    let entry = |shard: &'static str| move |name: &&str| format!("\"{name}\":\"{shard}\"");
    let map: Vec<String> =
        first.iter().map(entry(SHARD_1)).chain(second.iter().map(entry(SHARD_2))).collect();
    format!("{{\"metadata\":{{\"total_size\":0}},\"weight_map\":{{{}}}}}", map.join(","))
}

/// A `tokenizer.json` of byte pairs.
pub const BPE: &str = r#"{"version":"1.0","added_tokens":[{"id":6,"content":"<e>","special":true}],"model":{"type":"BPE","vocab":{"a":0,"b":1,"c":2,"d":3,"ab":4,"cd":5},"merges":["a b",["c","d"]]}}"#;

/// A `tokenizer.json` of pieces with scores.
pub const UNIGRAM: &str = r#"{"added_tokens":[],"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0.0],["a",-1.5],["b",-2e1]]}}"#;
