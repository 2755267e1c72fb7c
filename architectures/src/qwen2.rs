//! Qwen2 and Qwen2.5: pre-norm decoder with grouped-query attention, biases on q, k and v, and SwiGLU.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::cache::LayerCache;
use scantling_core::config::Config;
use scantling_core::decoder::{self, HeadDim};
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::matrix::RowsBuf;
use scantling_core::ops::{Activation, Pairing};
use scantling_core::pass::{Heads, Pass};
use scantling_core::rope::Rope;
use scantling_core::table::{LinearId, TensorId, TensorTable};

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
    heads: Heads,
    rope: Rope,
    eps: f32,
    embedding: TensorId,
    layers: Vec<Layer>,
    norm: TensorId,
    head: LinearId,
}

struct Layer {
    window: Option<usize>,
    input_norm: TensorId,
    qkv: [LinearId; 3],
    o: LinearId,
    ffn_norm: TensorId,
    gate_up: [LinearId; 2],
    down: LinearId,
}

impl Architecture for Qwen2 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Qwen2 {
    fn cache(&self) -> Vec<LayerCache> {
        vec![self.heads.cache(); self.layers.len()]
    }

    fn embedding(&self) -> TensorId {
        self.embedding
    }

    fn forward(&self, p: &mut Pass<'_>) -> RowsBuf {
        let mut x = p.embed(self.embedding);
        let rotation = p.rotation(&self.rope, Pairing::Halves, self.heads.key);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let y = p.rms_norm("input_norm", &x, layer.input_norm, self.eps);
            let [mut q, mut k, v] = p.project(["q", "k", "v"], layer.qkv, &y);
            p.rope("q_rope", &mut q, &rotation);
            p.rope("k_rope", &mut k, &rotation);
            let heads = p.attend("heads", [&q, &k, &v], self.heads, layer.window);
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
    let tied = config.flag_or(&decoder::TIE, false);
    let windows = decoder::late_windows(config, count);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let mut layers = Vec::with_capacity(windows.len());
    for (i, window) in windows.into_iter().enumerate() {
        t.layer(i);
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        let q = t.matrix("self_attn.q_proj.weight", "attn_q.weight", [&attention.q, &hidden]);
        let q = q.with(Some(t.bias("self_attn.q_proj.bias", "attn_q.bias", &attention.q)));
        let k = t.matrix("self_attn.k_proj.weight", "attn_k.weight", [&attention.kv, &hidden]);
        let k = k.with(Some(t.bias("self_attn.k_proj.bias", "attn_k.bias", &attention.kv)));
        let v = t.matrix("self_attn.v_proj.weight", "attn_v.weight", [&attention.kv, &hidden]);
        let v = v.with(Some(t.bias("self_attn.v_proj.bias", "attn_v.bias", &attention.kv)));
        let o = t.matrix("self_attn.o_proj.weight", "attn_output.weight", [&hidden, &attention.q]).plain();
        let ffn_norm = t.scale("post_attention_layernorm.weight", "ffn_norm.weight", &hidden);
        let gate = t.matrix("mlp.gate_proj.weight", "ffn_gate.weight", [&inner, &hidden]).plain();
        let up = t.matrix("mlp.up_proj.weight", "ffn_up.weight", [&inner, &hidden]).plain();
        let down = t.matrix("mlp.down_proj.weight", "ffn_down.weight", [&hidden, &inner]).plain();
        let (qkv, gate_up) = ([q, k, v], [gate, up]);
        layers.push(Layer { window, input_norm, qkv, o, ffn_norm, gate_up, down });
    }
    t.ignore("self_attn.rotary_emb.inv_freq");
    t.global();
    let norm = t.scale("model.norm.weight", "output_norm.weight", &hidden);
    let head = t.matrix("lm_head.weight", "output.weight", [&vocab, &hidden]);
    decoder::tie_head(config, &mut t, head, embedding, tied);
    let heads = attention.heads;
    Ok(Box::new(Qwen2 { tensors: t, heads, rope, eps, embedding, layers, norm, head: head.plain() }))
}
