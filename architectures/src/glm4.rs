//! GLM-4: four norms to a layer, gate and up in one matrix, and a rotation of neighbouring elements in the first part of
//! each head, in both formats.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{Ending, Gated, Parts, SelfAttention};
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
use scantling_core::table::{TensorId, TensorTable};

/// The family.
pub const GLM4: ArchitecturePlugin = ArchitecturePlugin {
    name: "glm4",
    summary: "GLM-4 dense: norms around attention and FFN, fused gate and up, half of each head rotated",
    model_types: &["glm4"],
    classes: &["Glm4ForCausalLM", "Glm4Model"],
    gguf: &["glm4"],
    when: None,
    build,
};

inventory::submit! { GLM4 }

struct Glm4 {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    eps: f32,
    embedding: TensorId,
    layers: Vec<Layer>,
    ending: Ending,
}

struct Layer {
    input_norm: TensorId,
    attention: SelfAttention,
    attention_norm: TensorId,
    ffn_norm: TensorId,
    ffn: Gated,
    output_norm: TensorId,
}

impl Architecture for Glm4 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Glm4 {
    fn cache(&self) -> Vec<LayerCache> {
        vec![self.heads.cache(); self.layers.len()]
    }

    fn embedding(&self) -> TensorId {
        self.embedding
    }

    fn forward(&self, p: &mut Pass<'_>) -> RowsBuf {
        let mut x = p.embed(self.embedding);
        let rotation = p.rotation(&self.rope, Pairing::Neighbours, self.heads.key);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let y = p.rms_norm("input_norm", &x, layer.input_norm, self.eps);
            let attention = layer.attention.run(p, &y, Some(&rotation), None, self.eps);
            let attention = p.rms_norm("attention_norm", &attention, layer.attention_norm, self.eps);
            p.add("residual", &mut x, &attention);
            let y = p.rms_norm("ffn_norm", &x, layer.ffn_norm, self.eps);
            let ffn = layer.ffn.run(p, &y);
            let ffn = p.rms_norm("output_norm", &ffn, layer.output_norm, self.eps);
            p.add("output", &mut x, &ffn);
        }
        self.ending.run(p, &x, self.eps)
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let (widths, turned) = decoder::attention_in_part(config, &hidden, HeadDim::Fixed(128), 0.5);
    let inner = config.count(&decoder::INTERMEDIATE_SIZE);
    let eps = decoder::common_with(config, 1.5625e-7);
    let rope = Rope::of(config, turned);
    let bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let tied = config.flag_or(&decoder::TIE, false);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let parts = Parts { bias, ..Parts::default() };
    let mut layers = Vec::with_capacity(count);
    for i in 0..count {
        t.layer(i);
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        let attention = SelfAttention::of(&mut t, &widths, &hidden, parts);
        let attention_norm =
            t.scale("post_self_attn_layernorm.weight", "post_attention_norm.weight", &hidden);
        let ffn_norm = t.scale("post_attention_layernorm.weight", "ffn_norm.weight", &hidden);
        let ffn = Gated::fused(&mut t, &hidden, &inner);
        let output_norm = t.scale("post_mlp_layernorm.weight", "post_ffw_norm.weight", &hidden);
        layers.push(Layer { input_norm, attention, attention_norm, ffn_norm, ffn, output_norm });
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    Ok(Box::new(Glm4 { tensors: t, heads, rope, eps, embedding, layers, ending }))
}
