//! Qwen3 with a mixture of experts: Qwen3's attention, and on all layers but those that the config excepts experts for an
//! FFN, of which each token uses some.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{Choice, Ending, Experts, Gated, Parts, SelfAttention};
use scantling_core::cache::LayerCache;
use scantling_core::config::{Config, Key};
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
pub const QWEN3_MOE: ArchitecturePlugin = ArchitecturePlugin {
    name: "qwen3_moe",
    summary: "Qwen3 mixtures: Qwen3's attention, experts on most layers",
    model_types: &["qwen3_moe"],
    classes: &["Qwen3MoeForCausalLM", "Qwen3MoeModel"],
    gguf: &["qwen3moe"],
    when: None,
    build,
};

inventory::submit! { QWEN3_MOE }

static DENSE_LAYERS: Key =
    Key { hf: &["mlp_only_layers"], gguf: "", symbol: "", meaning: "layers without experts" };
static SPARSE_STEP: Key =
    Key { hf: &["decoder_sparse_step"], gguf: "", symbol: "", meaning: "period of the layers with experts" };

/// What follows attention.
enum Ffn {
    Dense(Gated),
    Sparse(Experts),
}

struct Qwen3Moe {
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
    input_norm: TensorId,
    attention: SelfAttention,
    ffn_norm: TensorId,
    ffn: Ffn,
}

impl Architecture for Qwen3Moe {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Qwen3Moe {
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
            let y = p.rms_norm("input_norm", &x, layer.input_norm, self.eps);
            let attention = layer.attention.run(p, &y, Some(&rotation), layer.window, self.eps);
            p.add("residual", &mut x, &attention);
            let y = p.rms_norm("ffn_norm", &x, layer.ffn_norm, self.eps);
            let ffn = match &layer.ffn {
                Ffn::Dense(ffn) => ffn.run(p, &y),
                Ffn::Sparse(experts) => experts.run(p, &y),
            };
            p.add("output", &mut x, &ffn);
        }
        self.ending.run(p, &x, self.eps)
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let widths = decoder::attention(config, &hidden, HeadDim::Fixed(128));
    let eps = decoder::common(config);
    let rope = Rope::of(config, widths.head_dim.len);
    let bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let sparse = sparse(config, count);
    let sparse_count = sparse.iter().filter(|s| **s).count();
    let inner = (sparse_count < count).then(|| config.count(&decoder::INTERMEDIATE_SIZE));
    let experts = config.experts(&decoder::EXPERTS, sparse_count, tensors);
    let used = decoder::experts_used(config, &experts);
    let width = config.count(&decoder::EXPERT_SIZE);
    let normalise = config.flag_or_assumed(&decoder::NORM_TOPK, false, true);
    let window = decoder::switched_window(config);
    let tied = config.flag_or(&decoder::TIE, false);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let norms = Some([&widths.head_dim; 2]);
    let parts = Parts { bias, output_bias: bias, norms, ..Parts::default() };
    let choice = Choice::likeliest(used, normalise);
    let mut layers = Vec::with_capacity(count);
    for (i, sparse) in sparse.into_iter().enumerate() {
        t.layer(i);
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        let attention = SelfAttention::of(&mut t, &widths, &hidden, parts);
        let ffn_norm = t.scale("post_attention_layernorm.weight", "ffn_norm.weight", &hidden);
        let ffn = match &inner {
            Some(inner) if !sparse => Ffn::Dense(Gated::of(&mut t, &hidden, inner, false)),
            _ => Ffn::Sparse(Experts::of(&mut t, [&experts, &width, &hidden], choice)),
        };
        layers.push(Layer { window, input_norm, attention, ffn_norm, ffn });
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    Ok(Box::new(Qwen3Moe { tensors: t, heads, rope, eps, embedding, layers, ending }))
}

/// Which layers have experts: the last of every `decoder_sparse_step`, but those in `mlp_only_layers`.
fn sparse(config: &Config, count: usize) -> Vec<bool> {
    let dense = config.numbers(&DENSE_LAYERS).unwrap_or_default();
    let step = config.whole_or(&SPARSE_STEP, 1);
    let sparse =
        |layer: usize| step > 0 && (layer + 1).is_multiple_of(step) && !dense.contains(&(layer as f64));
    (0..count).map(sparse).collect()
}
