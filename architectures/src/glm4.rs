//! GLM-4: four norms to a layer, gate and up in one matrix, and a rotation of neighbouring elements in the first part of
//! each head, in both formats.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{Ending, NormNames, Parts, Sandwich};
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

/// Norms behind attention, before the FFN, and behind it.
const NORMS: NormNames =
    ["post_self_attn_layernorm.weight", "post_attention_layernorm.weight", "post_mlp_layernorm.weight"];

struct Glm4 {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    eps: f32,
    embedding: TensorId,
    layers: Vec<Sandwich>,
    ending: Ending,
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
            layer.run(p, &mut x, &rotation, None, self.eps);
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
        layers.push(Sandwich::of(&mut t, &widths, [&hidden, &inner], parts, NORMS, true));
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    Ok(Box::new(Glm4 { tensors: t, heads, rope, eps, embedding, layers, ending }))
}
