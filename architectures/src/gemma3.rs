//! Gemma 3, its text model: norms around attention and FFN that multiply by 1 + weight, norms of queries and keys, and
//! five layers with a window, and rotary base of their own, to one without.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{Ending, NormNames, Parts, Sandwich};
use scantling_core::cache::LayerCache;
use scantling_core::config::{Bound, Config, Key};
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
pub const GEMMA3: ArchitecturePlugin = ArchitecturePlugin {
    name: "gemma3",
    summary: "Gemma 3 text: norms of 1 + weight, q/k norms, windows on five of six layers",
    model_types: &["gemma3_text"],
    classes: &["Gemma3ForCausalLM", "Gemma3TextModel"],
    gguf: &["gemma3"],
    when: None,
    build,
};

inventory::submit! { GEMMA3 }

static ACTIVATION: Key = Key { hf: &["hidden_activation"], gguf: "", symbol: "", meaning: "activation" };
static LOCAL_BASE: Key = Key {
    hf: &["rope_parameters.sliding_attention.rope_theta", "rope_local_base_freq"],
    gguf: "rope.freq_base_swa",
    symbol: "",
    meaning: "rotary base of layers with a window",
};
static LOCAL_TYPE: Key = Key {
    hf: &["rope_parameters.sliding_attention.rope_type", "rope_parameters.sliding_attention.type"],
    gguf: "",
    symbol: "",
    meaning: "rotary scaling of layers with a window",
};
static PATTERN: Key = Key {
    hf: &["sliding_window_pattern"],
    gguf: "",
    symbol: "",
    meaning: "period of the layers without a window",
};

/// Norms behind attention, before the FFN, and behind it.
const NORMS: NormNames = [
    "post_attention_layernorm.weight",
    "pre_feedforward_layernorm.weight",
    "post_feedforward_layernorm.weight",
];

struct Gemma3 {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    /// That of layers with a window.
    local: Rope,
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

impl Architecture for Gemma3 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Gemma3 {
    fn cache(&self) -> Vec<LayerCache> {
        vec![self.heads.cache(); self.layers.len()]
    }

    fn embedding(&self) -> TensorId {
        self.embedding
    }

    fn forward(&self, p: &mut Pass<'_>) -> RowsBuf {
        let mut x = p.embed_scaled(self.embedding, self.embedding_factor);
        let everywhere = p.rotation(&self.rope, Pairing::Halves, self.heads.key);
        let nearby = p.rotation(&self.local, Pairing::Halves, self.heads.key);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let (rotation, window) = if layer.slides { (&nearby, self.window) } else { (&everywhere, None) };
            layer.block.run(p, &mut x, rotation, window, self.eps);
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
    let rope = Rope::with_base(config, widths.head_dim.len, 1_000_000.0);
    let local = Rope::plain(config.number_or(&LOCAL_BASE, Bound::Positive, 10_000.0), widths.head_dim.len);
    let per_head = hidden.len.checked_div(widths.heads.heads).unwrap_or(0);
    let assumed = if count == 62 { per_head } else { widths.head_dim.len }; // 62 layers: the 27B
    widths.heads.scale = decoder::score_scale(config, 256.0, assumed);
    let cap = |key| config.has(key).then(|| config.number(key, Bound::Positive) as f32);
    widths.heads.softcap = cap(&decoder::SCORE_CAP);
    let logit_cap = cap(&decoder::LOGIT_CAP);
    decoder::refuse(config, &decoder::BOTH_WAYS, "the pass looks back only");
    if config.has(&LOCAL_TYPE) {
        config.word_or(&LOCAL_TYPE, &[("default", ())], "default");
    }
    let window = decoder::window(config, Some(4096));
    let slides = slides(config, count);
    let bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let tied = config.flag_or(&decoder::TIE, true);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    t.scales_less_one();
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let norms = Some([&widths.head_dim; 2]);
    let parts = Parts { bias, output_bias: bias, norms, ..Parts::default() };
    let mut layers = Vec::with_capacity(count);
    for (i, slides) in slides.into_iter().enumerate() {
        t.layer(i);
        let block = Sandwich::of(&mut t, &widths, [&hidden, &inner], parts, NORMS, false);
        layers.push(Layer { slides, block: block.with(Activation::GeluTanh) });
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let ending = ending.with(logit_cap.map_or(Finish::Nothing, Finish::Softcap));
    let (heads, embedding_factor) = (widths.heads, (hidden.len as f32).sqrt());
    let tensors = t;
    Ok(Box::new(Gemma3 {
        tensors,
        heads,
        rope,
        local,
        window,
        eps,
        embedding_factor,
        embedding,
        layers,
        ending,
    }))
}

/// Which layers have a window: all but the last of every so many, unless the config has a list of them.
fn slides(config: &Config, count: usize) -> Vec<bool> {
    if config.has(&PATTERN) && !config.has(&decoder::LAYER_TYPES) {
        let period = config.whole_or(&PATTERN, 6).max(1);
        return (1..=count).map(|layer| layer % period != 0).collect();
    }
    decoder::sliding(config, count, |layer| (layer + 1) % 6 != 0, "a window on all but every sixth")
}
