//! Llama 1 to 3: pre-norm decoder with grouped-query attention and SwiGLU, biases only where the config asks
//! for them. In GGUF the rows of q and k are permuted within each head, and Llama 3's rope scaling stands in
//! a helper tensor.

use scantling_core::architecture::{Architecture, ArchitecturePlugin};
use scantling_core::axis::Axis;
use scantling_core::config::{Config, Key};
use scantling_core::decoder::{self, HeadDim};
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::table::TensorTable;

/// The family. GGUF files of Mistral carry its name too, and its tensors.
pub const LLAMA: ArchitecturePlugin = ArchitecturePlugin {
    name: "llama",
    summary: "Llama 1 to 3, dense: GQA, SwiGLU, optional biases, llama3 rope scaling",
    model_types: &["llama"],
    classes: &["LlamaForCausalLM", "LlamaModel"],
    gguf: &["llama"],
    when: Some(|config| !config.has(&EXPERTS)),
    build,
};

inventory::submit! { LLAMA }

static EXPERTS: Key =
    Key { hf: &["num_local_experts"], gguf: "expert_count", symbol: "", meaning: "experts" };

struct Llama {
    tensors: TensorTable,
}

impl Architecture for Llama {
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
    let attention_bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let mlp_bias = decoder::bias(config, &decoder::MLP_BIAS, tensors, "blk.0.ffn_gate.bias");
    let tied = config.flag_or(&decoder::TIE, false);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    t.gguf_helper("rope_freqs.weight", &Axis::new(attention.head_dim.len / 2, "half of the head's width"));
    for layer in 0..layers {
        t.layer(layer);
        t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        t.matrix("self_attn.q_proj.weight", "attn_q.weight", [&attention.q, &hidden]);
        t.matrix("self_attn.k_proj.weight", "attn_k.weight", [&attention.kv, &hidden]);
        t.matrix("self_attn.v_proj.weight", "attn_v.weight", [&attention.kv, &hidden]);
        t.matrix("self_attn.o_proj.weight", "attn_output.weight", [&hidden, &attention.q]);
        if attention_bias {
            t.bias("self_attn.q_proj.bias", "attn_q.bias", &attention.q);
            t.bias("self_attn.k_proj.bias", "attn_k.bias", &attention.kv);
            t.bias("self_attn.v_proj.bias", "attn_v.bias", &attention.kv);
            t.bias("self_attn.o_proj.bias", "attn_output.bias", &hidden);
        }
        t.scale("post_attention_layernorm.weight", "ffn_norm.weight", &hidden);
        t.matrix("mlp.gate_proj.weight", "ffn_gate.weight", [&inner, &hidden]);
        t.matrix("mlp.up_proj.weight", "ffn_up.weight", [&inner, &hidden]);
        t.matrix("mlp.down_proj.weight", "ffn_down.weight", [&hidden, &inner]);
        if mlp_bias {
            t.bias("mlp.gate_proj.bias", "ffn_gate.bias", &inner);
            t.bias("mlp.up_proj.bias", "ffn_up.bias", &inner);
            t.bias("mlp.down_proj.bias", "ffn_down.bias", &hidden);
        }
    }
    t.ignore("self_attn.rotary_emb.inv_freq");
    t.global();
    t.scale("model.norm.weight", "output_norm.weight", &hidden);
    let head = t.matrix("lm_head.weight", "output.weight", [&vocab, &hidden]);
    decoder::tie_head(config, &mut t, head, embedding, tied);
    Ok(Box::new(Llama { tensors: t }))
}
