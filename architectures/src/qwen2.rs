//! Qwen2 and Qwen2.5: pre-norm decoder with grouped-query attention, biases on q, k and v, and SwiGLU.

use scantling_core::architecture::{Architecture, ArchitecturePlugin};
use scantling_core::config::Config;
use scantling_core::decoder::{self, HeadDim};
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::table::TensorTable;

/// The family.
pub const QWEN2: ArchitecturePlugin = ArchitecturePlugin {
    name: "qwen2",
    summary: "Qwen2 and Qwen2.5 dense: GQA with biases on q, k and v, SwiGLU",
    model_types: &["qwen2"],
    classes: &["Qwen2ForCausalLM", "Qwen2Model"],
    gguf: &["qwen2"],
    when: None,
    build,
};

inventory::submit! { QWEN2 }

struct Qwen2 {
    tensors: TensorTable,
}

impl Architecture for Qwen2 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let layers = config.layers(&decoder::LAYERS, tensors);
    let attention = decoder::attention(config, &hidden, HeadDim::Shared);
    let inner = config.count(&decoder::INTERMEDIATE_SIZE);
    decoder::common(config);
    decoder::rope(config);
    let tied = config.flag_or(&decoder::TIE, false);
    if config.flag_or(&decoder::USE_SLIDING_WINDOW, false) {
        config.limit(&decoder::SLIDING_WINDOW);
    }
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    for layer in 0..layers {
        t.layer(layer);
        t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        t.matrix("self_attn.q_proj.weight", "attn_q.weight", [&attention.q, &hidden]);
        t.bias("self_attn.q_proj.bias", "attn_q.bias", &attention.q);
        t.matrix("self_attn.k_proj.weight", "attn_k.weight", [&attention.kv, &hidden]);
        t.bias("self_attn.k_proj.bias", "attn_k.bias", &attention.kv);
        t.matrix("self_attn.v_proj.weight", "attn_v.weight", [&attention.kv, &hidden]);
        t.bias("self_attn.v_proj.bias", "attn_v.bias", &attention.kv);
        t.matrix("self_attn.o_proj.weight", "attn_output.weight", [&hidden, &attention.q]);
        t.scale("post_attention_layernorm.weight", "ffn_norm.weight", &hidden);
        t.matrix("mlp.gate_proj.weight", "ffn_gate.weight", [&inner, &hidden]);
        t.matrix("mlp.up_proj.weight", "ffn_up.weight", [&inner, &hidden]);
        t.matrix("mlp.down_proj.weight", "ffn_down.weight", [&hidden, &inner]);
    }
    t.ignore("self_attn.rotary_emb.inv_freq");
    t.global();
    t.scale("model.norm.weight", "output_norm.weight", &hidden);
    let head = t.matrix("lm_head.weight", "output.weight", [&vocab, &hidden]);
    decoder::tie_head(config, &mut t, head, embedding, tied);
    Ok(Box::new(Qwen2 { tensors: t }))
}
