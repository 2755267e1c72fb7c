//! Phi-3 and Phi-4: q, k and v in one matrix, gate and up in another, a rotation of the first part of each head, and
//! one set of factors on its frequencies for short and one for long sequences.

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
use scantling_core::rope::{LongPlan, LongRope};
use scantling_core::table::{TensorId, TensorTable};

/// The family.
pub const PHI3: ArchitecturePlugin = ArchitecturePlugin {
    name: "phi3",
    summary: "Phi-3 and Phi-4 dense: fused projections, partial rotation, longrope",
    model_types: &["phi3"],
    classes: &["Phi3ForCausalLM", "Phi3Model"],
    gguf: &["phi3"],
    when: None,
    build,
};

inventory::submit! { PHI3 }

struct Phi3 {
    tensors: TensorTable,
    heads: Heads,
    rope: LongRope,
    window: Option<usize>,
    eps: f32,
    embedding: TensorId,
    layers: Vec<Layer>,
    ending: Ending,
}

struct Layer {
    input_norm: TensorId,
    attention: SelfAttention,
    ffn_norm: TensorId,
    ffn: Gated,
}

impl Architecture for Phi3 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Phi3 {
    fn cache(&self) -> Vec<LayerCache> {
        vec![self.heads.cache(); self.layers.len()]
    }

    fn embedding(&self) -> TensorId {
        self.embedding
    }

    fn forward(&self, p: &mut Pass<'_>) -> RowsBuf {
        let mut x = p.embed(self.embedding);
        let rope = self.rope.of(p);
        let rotation = p.rotation(&rope, Pairing::Halves, self.heads.key);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let y = p.rms_norm("input_norm", &x, layer.input_norm, self.eps);
            let attention = layer.attention.run(p, &y, Some(&rotation), self.window, self.eps);
            p.add("residual", &mut x, &attention);
            let y = p.rms_norm("ffn_norm", &x, layer.ffn_norm, self.eps);
            let ffn = layer.ffn.run(p, &y);
            p.add("output", &mut x, &ffn);
        }
        self.ending.run(p, &x, self.eps)
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let (widths, turned) = decoder::attention_in_part(config, &hidden, HeadDim::Shared, 1.0);
    let inner = config.count(&decoder::INTERMEDIATE_SIZE);
    let eps = decoder::common_with(config, 1e-5);
    let window = decoder::window(config, None);
    let tied = config.flag_or(&decoder::TIE, false);
    let plan = LongPlan::of(config, turned);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let rope = plan.declare(&mut t, turned, tensors);
    let parts = Parts { fused: true, ..Parts::default() };
    let mut layers = Vec::with_capacity(count);
    for i in 0..count {
        t.layer(i);
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        let attention = SelfAttention::of(&mut t, &widths, &hidden, parts);
        let ffn_norm = t.scale("post_attention_layernorm.weight", "ffn_norm.weight", &hidden);
        let ffn = Gated::fused(&mut t, &hidden, &inner);
        layers.push(Layer { input_norm, attention, ffn_norm, ffn });
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    Ok(Box::new(Phi3 { tensors: t, heads, rope, window, eps, embedding, layers, ending }))
}
