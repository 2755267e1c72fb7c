//! Qwen2 and Qwen2.5: pre-norm decoder with grouped-query attention, biases on q, k and v, and SwiGLU.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{Ending, Parts, PreNorm};
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
    ending: Ending,
}

struct Layer {
    window: Option<usize>,
    block: PreNorm,
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
            layer.block.run(p, &mut x, Some(&rotation), layer.window, self.eps);
        }
        self.ending.run(p, &x, self.eps)
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let widths = decoder::attention(config, &hidden, HeadDim::Shared);
    let inner = config.count(&decoder::INTERMEDIATE_SIZE);
    let eps = decoder::common(config);
    let rope = Rope::of(config, widths.head_dim.len);
    let tied = config.flag_or(&decoder::TIE, false);
    let windows = decoder::late_windows(config, count);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let parts = Parts { bias: true, ..Parts::default() };
    let mut layers = Vec::with_capacity(windows.len());
    for (i, window) in windows.into_iter().enumerate() {
        t.layer(i);
        let block = PreNorm::of(&mut t, &widths, [&hidden, &inner], parts, false);
        layers.push(Layer { window, block });
    }
    t.ignore("self_attn.rotary_emb.inv_freq");
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    Ok(Box::new(Qwen2 { tensors: t, heads, rope, eps, embedding, layers, ending }))
}
