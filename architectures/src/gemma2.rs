//! Gemma 2: norms around attention and FFN that multiply by 1 + weight, scores and logits that are capped, a window on
//! every second layer, and a scale of the scores of its own.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{Ending, NormNames, Parts, Sandwich};
use scantling_core::cache::LayerCache;
use scantling_core::config::{Config, Key};
use scantling_core::decoder::{self, HeadDim};
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::matrix::RowsBuf;
use scantling_core::ops::{Activation, Pairing};
use scantling_core::pass::{Finish, Heads, Pass};
use scantling_core::rope::Rope;
use scantling_core::table::{TensorId, TensorTable};

/// The family.
pub const GEMMA2: ArchitecturePlugin = ArchitecturePlugin {
    name: "gemma2",
    summary: "Gemma 2: norms of 1 + weight, soft caps, a window on every second layer",
    model_types: &["gemma2"],
    classes: &["Gemma2ForCausalLM", "Gemma2Model"],
    gguf: &["gemma2"],
    when: None,
    build,
};

inventory::submit! { GEMMA2 }

static ACTIVATION: Key = Key { hf: &["hidden_activation"], gguf: "", symbol: "", meaning: "activation" };
/// Norms behind attention, before the FFN, and behind it.
const NORMS: NormNames = [
    "post_attention_layernorm.weight",
    "pre_feedforward_layernorm.weight",
    "post_feedforward_layernorm.weight",
];

struct Gemma2 {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    window: Option<usize>,
    eps: f32,
    embedding_factor: f32,
    embedding: TensorId,
    layers: Vec<Layer>,
    ending: Ending,
}

struct Layer {
    slides: bool,
    block: Sandwich,
}

impl Architecture for Gemma2 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Gemma2 {
    fn cache(&self) -> Vec<LayerCache> {
        vec![self.heads.cache(); self.layers.len()]
    }

    fn embedding(&self) -> TensorId {
        self.embedding
    }

    fn forward(&self, p: &mut Pass<'_>) -> RowsBuf {
        let mut x = p.embed_scaled(self.embedding, self.embedding_factor);
        let rotation = p.rotation(&self.rope, Pairing::Halves, self.heads.key);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let window = self.window.filter(|_| layer.slides);
            layer.block.run(p, &mut x, &rotation, window, self.eps);
        }
        self.ending.run(p, &x, self.eps)
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let mut widths = decoder::attention(config, &hidden, HeadDim::Fixed(256));
    let inner = config.count(&decoder::INTERMEDIATE_SIZE);
    config.word_or(&ACTIVATION, &[("gelu_pytorch_tanh", ())], "gelu_pytorch_tanh");
    let eps = decoder::norms(config, 1e-6);
    let rope = Rope::of(config, widths.head_dim.len);
    let per_head = hidden.len.checked_div(widths.heads.heads).unwrap_or(0);
    let assumed = if count == 46 { per_head } else { widths.head_dim.len }; // 46 layers: the 27B
    widths.heads.scale = decoder::score_scale(config, 256.0, assumed);
    widths.heads.softcap = decoder::cap(config, &decoder::SCORE_CAP, 50.0);
    let cap = decoder::cap(config, &decoder::LOGIT_CAP, 30.0);
    let window = decoder::window(config, Some(4096));
    let slides =
        decoder::sliding(config, count, |layer| layer % 2 == 0, "a window on every second, from the first");
    let bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let tied = config.flag_or(&decoder::TIE, true);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    t.scales_less_one();
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let parts = Parts { bias, output_bias: bias, ..Parts::default() };
    let mut layers = Vec::with_capacity(count);
    for (i, slides) in slides.into_iter().enumerate() {
        t.layer(i);
        let block = Sandwich::of(&mut t, &widths, [&hidden, &inner], parts, NORMS, false);
        layers.push(Layer { slides, block: block.with(Activation::GeluTanh) });
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let ending = ending.with(cap.map_or(Finish::Nothing, Finish::Softcap));
    let (heads, embedding_factor) = (widths.heads, (hidden.len as f32).sqrt());
    let tensors = t;
    Ok(Box::new(Gemma2 { tensors, heads, rope, window, eps, embedding_factor, embedding, layers, ending }))
}
