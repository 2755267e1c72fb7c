//! OLMo 3: norms behind attention and FFN instead of before them, norms of all queries and all keys together, and a
//! window on all layers but every fourth. Those fourth layers see everything, and rotary scaling is for them alone.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{Ending, Parts, PostNorm};
use scantling_core::cache::LayerCache;
use scantling_core::config::{Bound, Config, Key};
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
pub const OLMO3: ArchitecturePlugin = ArchitecturePlugin {
    name: "olmo3",
    summary: "OLMo 3: norms behind each half, q/k norms of whole projections, a window on three layers of four",
    model_types: &["olmo3"],
    classes: &["Olmo3ForCausalLM"],
    gguf: &["olmo3", "olmo2"],
    when: Some(|config| config.dialect() == Dialect::Hf || config.has(&decoder::SLIDING_WINDOW)),
    build,
};

inventory::submit! { OLMO3 }

static WINDOW_THETA: Key = Key {
    hf: &["rope_parameters.sliding_attention.rope_theta", "rope_parameters.rope_theta", "rope_theta"],
    gguf: "rope.freq_base_swa",
    symbol: "",
    meaning: "rotary base of layers with a window",
};
static WINDOW_ROPE_TYPE: Key = Key {
    hf: &["rope_parameters.sliding_attention.rope_type"],
    gguf: "",
    symbol: "",
    meaning: "rotary scaling of layers with a window",
};

/// Rotary base of a config that is silent.
const THETA: f64 = 500_000.0;

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let widths = decoder::attention(config, &hidden, HeadDim::Shared);
    let inner = config.count(&decoder::INTERMEDIATE_SIZE);
    let eps = decoder::common_with(config, 1e-5);
    let bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let rope = Rope::with_base(config, widths.head_dim.len, THETA);
    let theta = config.number_or(&decoder::ROPE_THETA, Bound::Positive, THETA);
    let window_theta = config.number_or(&WINDOW_THETA, Bound::Positive, theta);
    config.word_or(&WINDOW_ROPE_TYPE, &[("default", ())], "default");
    let window = decoder::window(config, Some(4096));
    let sliding = decoder::sliding(config, count, |i| (i + 1) % 4 != 0, "sliding, every fourth full");
    let tied = config.flag_or(&decoder::TIE, false);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let parts = Parts { bias, output_bias: bias, norms: Some([&widths.q, &widths.kv]), ..Parts::default() };
    let mut layers = Vec::with_capacity(count);
    for (i, sliding) in sliding.into_iter().enumerate() {
        t.layer(i);
        let block = PostNorm::of(&mut t, &widths, [&hidden, &inner], parts);
        layers.push(Layer { sliding, block });
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let window_rope = Rope::plain(window_theta, widths.head_dim.len);
    let heads = widths.heads;
    Ok(Box::new(Olmo3 { tensors: t, heads, rope, window_rope, window, eps, embedding, layers, ending }))
}

struct Olmo3 {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    window_rope: Rope,
    window: Option<usize>,
    eps: f32,
    embedding: TensorId,
    layers: Vec<Layer>,
    ending: Ending,
}

struct Layer {
    sliding: bool,
    block: PostNorm,
}

impl Architecture for Olmo3 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Olmo3 {
    fn cache(&self) -> Vec<LayerCache> {
        vec![self.heads.cache(); self.layers.len()]
    }

    fn embedding(&self) -> TensorId {
        self.embedding
    }

    fn forward(&self, p: &mut Pass<'_>) -> RowsBuf {
        let mut x = p.embed(self.embedding);
        let full = p.rotation(&self.rope, Pairing::Halves, self.heads.key);
        let within = p.rotation(&self.window_rope, Pairing::Halves, self.heads.key);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let (rotation, window) = if layer.sliding { (&within, self.window) } else { (&full, None) };
            layer.block.run(p, &mut x, rotation, window, self.eps);
        }
        self.ending.run(p, &x, self.eps)
    }
}
