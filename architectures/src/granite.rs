//! Granite 3: Llama's tensors, with factors on the embedding, the scores, what is added to the residual stream, and the
//! logits.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{self, Ending, Gated, Parts, SelfAttention};
use scantling_core::cache::LayerCache;
use scantling_core::config::{Bound, Config, Key};
use scantling_core::decoder::{self, HeadDim};
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::matrix::RowsBuf;
use scantling_core::ops::Pairing;
use scantling_core::pass::{Finish, Heads, Pass};
use scantling_core::rope::Rope;
use scantling_core::source::Dialect;
use scantling_core::table::{TensorId, TensorTable};

/// The family.
pub const GRANITE: ArchitecturePlugin = ArchitecturePlugin {
    name: "granite",
    summary: "Granite 3 dense: Llama with factors on embedding, scores, residuals and logits",
    model_types: &["granite"],
    classes: &["GraniteForCausalLM", "GraniteModel"],
    gguf: &["granite"],
    when: None,
    build,
};

inventory::submit! { GRANITE }

static EMBEDDING: Key = Key {
    hf: &["embedding_multiplier"],
    gguf: "embedding_scale",
    symbol: "",
    meaning: "factor on the embedding",
};
static RESIDUAL: Key = Key {
    hf: &["residual_multiplier"],
    gguf: "residual_scale",
    symbol: "",
    meaning: "factor on what is added to the residual stream",
};
static ATTENTION: Key = Key {
    hf: &["attention_multiplier"],
    gguf: "attention.scale",
    symbol: "",
    meaning: "factor on the scores",
};
static LOGITS: Key = Key {
    hf: &["logits_scaling"],
    gguf: "logit_scale",
    symbol: "",
    meaning: "what the logits are divided by",
};

struct Granite {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    eps: f32,
    /// Factors on the embedding, and on what is added to the residual stream.
    embedding_factor: f32,
    residual_factor: f32,
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

impl Architecture for Granite {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Granite {
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
        let mut x = p.embed_scaled(self.embedding, self.embedding_factor);
        let pairing = self.layers.first().map_or(Pairing::Halves, |l| l.attention.pairing(p));
        let rotation = p.rotation(&self.rope, pairing, self.heads.key);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let y = p.rms_norm("input_norm", &x, layer.input_norm, self.eps);
            let attention = layer.attention.run(p, &y, Some(&rotation), None, self.eps);
            p.add_scaled("residual", &mut x, &attention, self.residual_factor);
            let y = p.rms_norm("ffn_norm", &x, layer.ffn_norm, self.eps);
            let ffn = layer.ffn.run(p, &y);
            p.add_scaled("output", &mut x, &ffn, self.residual_factor);
        }
        self.ending.run(p, &x, self.eps)
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let mut widths = decoder::attention(config, &hidden, HeadDim::Shared);
    let inner = config.count(&decoder::INTERMEDIATE_SIZE);
    let eps = decoder::common(config);
    let rope = Rope::of(config, widths.head_dim.len);
    let bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let ffn_bias = decoder::bias(config, &decoder::MLP_BIAS, tensors, "blk.0.ffn_gate.bias");
    let factor = |key, unsaid| config.number_or(key, Bound::Positive, unsaid) as f32;
    let (embedding_factor, residual_factor) = (factor(&EMBEDDING, 1.0), factor(&RESIDUAL, 1.0));
    widths.heads.scale = factor(&ATTENTION, 1.0);
    let divisor = factor(&LOGITS, 1.0);
    let tied = config.flag_or(&decoder::TIE, false);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let parts = Parts { bias, output_bias: bias, interleaved: true, ..Parts::default() };
    let mut layers = Vec::with_capacity(count);
    for i in 0..count {
        t.layer(i);
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        let attention = SelfAttention::of(&mut t, &widths, &hidden, parts);
        let ffn_norm = t.scale("post_attention_layernorm.weight", "ffn_norm.weight", &hidden);
        let ffn = Gated::of(&mut t, &hidden, &inner, ffn_bias);
        layers.push(Layer { input_norm, attention, ffn_norm, ffn });
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let ending = ending.with(Finish::Times(1.0 / divisor));
    let heads = widths.heads;
    let tensors = t;
    Ok(Box::new(Granite {
        tensors,
        heads,
        rope,
        eps,
        embedding_factor,
        residual_factor,
        embedding,
        layers,
        ending,
    }))
}
