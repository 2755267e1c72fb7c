//! Qwen3: pre-norm decoder with grouped-query attention, an RMS norm on every query and key head before the
//! rotation, an explicit head width and SwiGLU.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{self, Ending, SwiGlu};
use scantling_core::cache::LayerCache;
use scantling_core::config::Config;
use scantling_core::decoder::{self, HeadDim};
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::matrix::RowsBuf;
use scantling_core::ops::Pairing;
use scantling_core::pass::{Heads, Pass};
use scantling_core::rope::Rope;
use scantling_core::table::{LinearId, TensorId, TensorTable};

/// The family.
pub const QWEN3: ArchitecturePlugin = ArchitecturePlugin {
    name: "qwen3",
    summary: "Qwen3 dense: GQA with q/k norms per head, explicit head_dim, SwiGLU",
    model_types: &["qwen3"],
    classes: &["Qwen3ForCausalLM", "Qwen3Model"],
    gguf: &["qwen3"],
    when: None,
    build,
};

inventory::submit! { QWEN3 }

struct Qwen3 {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    eps: f32,
    embedding: TensorId,
    layers: Vec<Layer>,
    ending: Ending,
}

struct Layer {
    window: Option<usize>,
    input_norm: TensorId,
    qkv: [LinearId; 3],
    q_norm: TensorId,
    k_norm: TensorId,
    o: LinearId,
    ffn: SwiGlu,
}

impl Architecture for Qwen3 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Qwen3 {
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
            p.rms_norm_heads("q_norm", &mut q, layer.q_norm, self.eps);
            p.rms_norm_heads("k_norm", &mut k, layer.k_norm, self.eps);
            p.rope("q_rope", &mut q, &rotation);
            p.rope("k_rope", &mut k, &rotation);
            let heads = p.attend("heads", [&q, &k, &v], self.heads, layer.window);
            let [attention] = p.project(["attention"], [layer.o], &heads);
            p.add("residual", &mut x, &attention);
            layer.ffn.run(p, &mut x, self.eps);
        }
        self.ending.run(p, &x, self.eps)
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let widths = decoder::attention(config, &hidden, HeadDim::Fixed(128));
    let inner = config.count(&decoder::INTERMEDIATE_SIZE);
    let eps = decoder::common(config);
    let rope = Rope::of(config, widths.head_dim.len);
    let bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let tied = config.flag_or(&decoder::TIE, false);
    let windows = decoder::late_windows(config, count);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let mut layers = Vec::with_capacity(windows.len());
    for (i, window) in windows.into_iter().enumerate() {
        t.layer(i);
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        let qkv = block::qkv(&mut t, &widths, &hidden, bias);
        let q_norm = t.scale("self_attn.q_norm.weight", "attn_q_norm.weight", &widths.head_dim);
        let k_norm = t.scale("self_attn.k_norm.weight", "attn_k_norm.weight", &widths.head_dim);
        let o = block::attention_output(&mut t, &widths, &hidden, bias);
        let ffn = SwiGlu::of(&mut t, &hidden, &inner, false);
        layers.push(Layer { window, input_norm, qkv, q_norm, k_norm, o, ffn });
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    Ok(Box::new(Qwen3 { tensors: t, heads, rope, eps, embedding, layers, ending }))
}
