//! Llama 1 to 3: pre-norm decoder with grouped-query attention and SwiGLU, biases only where the config asks
//! for them. In GGUF the rows of q and k are permuted within each head, and Llama 3's rope scaling stands in
//! a helper tensor.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::axis::Axis;
use scantling_core::block::{self, Ending, Parts, PreNorm};
use scantling_core::cache::LayerCache;
use scantling_core::config::Config;
use scantling_core::decoder::{self, HeadDim};
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::matrix::RowsBuf;
use scantling_core::metadata::Value;
use scantling_core::ops::Pairing;
use scantling_core::pass::{Heads, Pass};
use scantling_core::rope::Rope;
use scantling_core::source::Dialect;
use scantling_core::table::{TensorId, TensorTable};

/// The family. GGUF files of Mistral carry its name too, and its tensors.
pub const LLAMA: ArchitecturePlugin = ArchitecturePlugin {
    name: "llama",
    summary: "Llama 1 to 3, dense: GQA, SwiGLU, optional biases, llama3 rope scaling",
    model_types: &["llama"],
    classes: &["LlamaForCausalLM", "LlamaModel"],
    gguf: &["llama"],
    when: Some(|config| !decoder::has_experts(config)),
    build,
};

inventory::submit! { LLAMA }

struct Llama {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    /// What a GGUF file divides the frequencies by, if it does; a config.json says that itself.
    frequencies: Option<TensorId>,
    eps: f32,
    embedding: TensorId,
    layers: Vec<PreNorm>,
    ending: Ending,
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

    fn interleaved(&self, name: &str, dialect: Dialect) -> Option<usize> {
        block::interleaved(name, dialect, self.heads.key)
    }

    fn forward(&self, p: &mut Pass<'_>) -> RowsBuf {
        let mut x = p.embed(self.embedding);
        let rope = match self.frequencies.and_then(|factors| p.weights.optional(factors)) {
            Some(factors) => &self.rope.divided_by_each(factors),
            None => &self.rope,
        };
        let pairing = self.layers.first().map_or(Pairing::Halves, |l| l.pairing(p));
        let rotation = p.rotation(rope, pairing, self.heads.key);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            layer.run(p, &mut x, Some(&rotation), None, self.eps);
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
    let bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let ffn_bias = decoder::bias(config, &decoder::MLP_BIAS, tensors, "blk.0.ffn_gate.bias");
    let tied = config.flag_or(&decoder::TIE, false);
    config.assume(&decoder::SLIDING_WINDOW, Value::Text("none".into()));
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let half = Axis::new(widths.head_dim.len / 2, "half of the head's width");
    let frequencies = t.gguf_helper("rope_freqs.weight", &half);
    let frequencies = (config.dialect() == Dialect::Gguf).then_some(frequencies);
    let parts = Parts { bias, output_bias: bias, interleaved: true, ..Parts::default() };
    let mut layers = Vec::with_capacity(count);
    for i in 0..count {
        t.layer(i);
        layers.push(PreNorm::of(&mut t, &widths, [&hidden, &inner], parts, ffn_bias));
    }
    t.ignore("self_attn.rotary_emb.inv_freq");
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    Ok(Box::new(Llama { tensors: t, heads, rope, frequencies, eps, embedding, layers, ending }))
}
