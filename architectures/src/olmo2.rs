//! OLMo 2: norms behind attention and FFN instead of before them, and RMS norms over the whole projections to q and k.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{Ending, Parts, PostNorm};
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
pub const OLMO2: ArchitecturePlugin = ArchitecturePlugin {
    name: "olmo2",
    summary: "OLMo 2 dense: norms behind attention and FFN, q/k norms over whole projections",
    model_types: &["olmo2"],
    classes: &["Olmo2ForCausalLM", "Olmo2Model"],
    gguf: &["olmo2"],
    when: Some(|config| !config.has(&decoder::SLIDING_WINDOW)),
    build,
};

inventory::submit! { OLMO2 }

struct Olmo2 {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    eps: f32,
    embedding: TensorId,
    layers: Vec<PostNorm>,
    ending: Ending,
}

impl Architecture for Olmo2 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Olmo2 {
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
            layer.run(p, &mut x, &rotation, None, self.eps);
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
    let eps = decoder::common_with(config, 1e-5);
    let rope = Rope::of(config, widths.head_dim.len);
    let bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let tied = config.flag_or(&decoder::TIE, false);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let norms = Some([&widths.q, &widths.kv]);
    let parts = Parts { bias, output_bias: bias, norms, ..Parts::default() };
    let mut layers = Vec::with_capacity(count);
    for i in 0..count {
        t.layer(i);
        layers.push(PostNorm::of(&mut t, &widths, [&hidden, &inner], parts));
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    Ok(Box::new(Olmo2 { tensors: t, heads, rope, eps, embedding, layers, ending }))
}
