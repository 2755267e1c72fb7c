//! Llama 1 to 3: pre-norm decoder with grouped-query attention and SwiGLU, biases only where the config asks
//! for them. In GGUF the rows of q and k are permuted within each head, and Llama 3's rope scaling stands in
//! a helper tensor.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::axis::Axis;
use scantling_core::cache::LayerCache;
use scantling_core::config::{Config, Key};
use scantling_core::decoder::{self, HeadDim};
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::matrix::RowsBuf;
use scantling_core::ops::{Activation, Pairing};
use scantling_core::pass::{Heads, Pass};
use scantling_core::rope::Rope;
use scantling_core::source::Dialect;
use scantling_core::table::{LinearId, TensorId, TensorTable};

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
    heads: Heads,
    rope: Rope,
    /// What a GGUF file divides the frequencies by, if it does.
    frequencies: TensorId,
    pairing: Pairing,
    eps: f32,
    embedding: TensorId,
    layers: Vec<Layer>,
    norm: TensorId,
    head: LinearId,
}

struct Layer {
    input_norm: TensorId,
    qkv: [LinearId; 3],
    o: LinearId,
    ffn_norm: TensorId,
    gate_up: [LinearId; 2],
    down: LinearId,
}

impl Architecture for Llama {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Llama {
    fn cache(&self) -> Vec<LayerCache> {
        vec![self.heads.cache(); self.layers.len()]
    }

    fn embedding(&self) -> TensorId {
        self.embedding
    }

    fn interleaved(&self, name: &str) -> Option<usize> {
        let turned = self.pairing == Pairing::Neighbours && ["q", "k", "q_rope", "k_rope"].contains(&name);
        turned.then_some(self.heads.key)
    }

    fn forward(&self, p: &mut Pass<'_>) -> RowsBuf {
        let mut x = p.embed(self.embedding);
        let rope = match p.weights.optional(self.frequencies) {
            Some(factors) => &self.rope.divided_by_each(factors),
            None => &self.rope,
        };
        let rotation = p.rotation(rope, self.pairing, self.heads.key);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let y = p.rms_norm("input_norm", &x, layer.input_norm, self.eps);
            let [mut q, mut k, v] = p.project(["q", "k", "v"], layer.qkv, &y);
            p.rope("q_rope", &mut q, &rotation);
            p.rope("k_rope", &mut k, &rotation);
            let heads = p.attend("heads", [&q, &k, &v], self.heads, None);
            let [attention] = p.project(["attention"], [layer.o], &heads);
            p.add("residual", &mut x, &attention);
            let y = p.rms_norm("ffn_norm", &x, layer.ffn_norm, self.eps);
            let [mut gate, up] = p.project(["gate", "up"], layer.gate_up, &y);
            p.gate("gated", Activation::Silu, &mut gate, &up);
            let [ffn] = p.project(["ffn"], [layer.down], &gate);
            p.add("output", &mut x, &ffn);
        }
        let last = p.wanted(&x);
        let last = p.rms_norm("final_norm", &last, self.norm, self.eps);
        p.logits(&last, self.head)
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let attention = decoder::attention(config, &hidden, HeadDim::Shared);
    let inner = config.count(&decoder::INTERMEDIATE_SIZE);
    let eps = decoder::common(config);
    let rope = Rope::of(config, attention.head_dim.len);
    let bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let ffn_bias = decoder::bias(config, &decoder::MLP_BIAS, tensors, "blk.0.ffn_gate.bias");
    let tied = config.flag_or(&decoder::TIE, false);
    let pairing = match config.dialect() {
        Dialect::Hf => Pairing::Halves,
        Dialect::Gguf => Pairing::Neighbours,
    };
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let half = Axis::new(attention.head_dim.len / 2, "half of the head's width");
    let frequencies = t.gguf_helper("rope_freqs.weight", &half);
    let mut layers = Vec::with_capacity(count);
    for i in 0..count {
        t.layer(i);
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        let q = t.matrix("self_attn.q_proj.weight", "attn_q.weight", [&attention.q, &hidden]);
        let k = t.matrix("self_attn.k_proj.weight", "attn_k.weight", [&attention.kv, &hidden]);
        let v = t.matrix("self_attn.v_proj.weight", "attn_v.weight", [&attention.kv, &hidden]);
        let o = t.matrix("self_attn.o_proj.weight", "attn_output.weight", [&hidden, &attention.q]);
        let q = q.with(bias.then(|| t.bias("self_attn.q_proj.bias", "attn_q.bias", &attention.q)));
        let k = k.with(bias.then(|| t.bias("self_attn.k_proj.bias", "attn_k.bias", &attention.kv)));
        let v = v.with(bias.then(|| t.bias("self_attn.v_proj.bias", "attn_v.bias", &attention.kv)));
        let o = o.with(bias.then(|| t.bias("self_attn.o_proj.bias", "attn_output.bias", &hidden)));
        let ffn_norm = t.scale("post_attention_layernorm.weight", "ffn_norm.weight", &hidden);
        let gate = t.matrix("mlp.gate_proj.weight", "ffn_gate.weight", [&inner, &hidden]);
        let up = t.matrix("mlp.up_proj.weight", "ffn_up.weight", [&inner, &hidden]);
        let down = t.matrix("mlp.down_proj.weight", "ffn_down.weight", [&hidden, &inner]);
        let gate = gate.with(ffn_bias.then(|| t.bias("mlp.gate_proj.bias", "ffn_gate.bias", &inner)));
        let up = up.with(ffn_bias.then(|| t.bias("mlp.up_proj.bias", "ffn_up.bias", &inner)));
        let down = down.with(ffn_bias.then(|| t.bias("mlp.down_proj.bias", "ffn_down.bias", &hidden)));
        layers.push(Layer { input_norm, qkv: [q, k, v], o, ffn_norm, gate_up: [gate, up], down });
    }
    t.ignore("self_attn.rotary_emb.inv_freq");
    t.global();
    let norm = t.scale("model.norm.weight", "output_norm.weight", &hidden);
    let head = t.matrix("lm_head.weight", "output.weight", [&vocab, &hidden]);
    decoder::tie_head(config, &mut t, head, embedding, tied);
    let (heads, head) = (attention.heads, head.plain());
    Ok(Box::new(Llama { tensors: t, heads, rope, frequencies, pairing, eps, embedding, layers, norm, head }))
}
