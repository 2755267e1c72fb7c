//! Mistral: Llama's tensors, and on every layer a window that attention does not look beyond. A GGUF file calls itself
//! llama and has no place for the window; told the config of the model, it is a Mistral.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{self, Ending, Parts, PreNorm};
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
use scantling_core::source::Dialect;
use scantling_core::table::{TensorId, TensorTable};

/// The family.
pub const MISTRAL: ArchitecturePlugin = ArchitecturePlugin {
    name: "mistral",
    summary: "Mistral: GQA, SwiGLU, one window on all layers",
    model_types: &["mistral"],
    classes: &["MistralForCausalLM", "MistralModel"],
    gguf: &[],
    when: None,
    build,
};

inventory::submit! { MISTRAL }

struct Mistral {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    /// The window of each layer.
    windows: Vec<Option<usize>>,
    eps: f32,
    embedding: TensorId,
    layers: Vec<PreNorm>,
    ending: Ending,
}

impl Architecture for Mistral {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Mistral {
    fn cache(&self) -> Vec<LayerCache> {
        vec![self.heads.cache(); self.layers.len()]
    }

    fn embedding(&self) -> TensorId {
        self.embedding
    }

    fn interleaved(&self, name: &str, dialect: Dialect) -> Option<usize> {
        block::interleaved(name, dialect, self.heads.key)
    }

    fn forward(&self, p: &mut Pass<'_>) -> RowsBuf {
        let mut x = p.embed(self.embedding);
        let pairing = self.layers.first().map_or(Pairing::Halves, |l| l.pairing(p));
        let rotation = p.rotation(&self.rope, pairing, self.heads.key);
        for (i, (layer, window)) in self.layers.iter().zip(&self.windows).enumerate() {
            p.layer = Some(i);
            layer.run(p, &mut x, Some(&rotation), *window, self.eps);
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
    let window = decoder::window(config, Some(4096));
    let slides = decoder::layer_types(config, count).unwrap_or_else(|| vec![true; count]);
    let tied = config.flag_or(&decoder::TIE, false);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let parts = Parts { interleaved: true, ..Parts::default() };
    let mut layers = Vec::with_capacity(count);
    for i in 0..count {
        t.layer(i);
        layers.push(PreNorm::of(&mut t, &widths, [&hidden, &inner], parts, false));
    }
    t.ignore("self_attn.rotary_emb.inv_freq");
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    let windows = slides.into_iter().map(|slides| window.filter(|_| slides)).collect();
    Ok(Box::new(Mistral { tensors: t, heads, rope, windows, eps, embedding, layers, ending }))
}
