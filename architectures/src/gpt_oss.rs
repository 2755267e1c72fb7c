//! GPT-OSS: experts with biases whose gates are clamped, a sink in the softmax of each head, and a window on every second
//! layer. Hugging Face fuses gate and up, alternating; in plain types it also stores the experts transposed.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::axis::Axis;
use scantling_core::block::{Choice, Ending, Experts, GateUp, Parts, SelfAttention};
use scantling_core::cache::LayerCache;
use scantling_core::config::{Bound, Config, Key};
use scantling_core::decoder::{self, HeadDim};
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::matrix::RowsBuf;
use scantling_core::ops::{Activation, Pairing, Scoring};
use scantling_core::pass::{Heads, Pass, Sight};
use scantling_core::rope::Rope;
use scantling_core::source::Dialect;
use scantling_core::table::{Conversion, LinearId, Split, TensorId, TensorTable};

/// The family.
pub const GPT_OSS: ArchitecturePlugin = ArchitecturePlugin {
    name: "gpt_oss",
    summary: "GPT-OSS: experts with biases and clamped gates, attention sinks, yarn",
    model_types: &["gpt_oss"],
    classes: &["GptOssForCausalLM", "GptOssModel"],
    gguf: &["gpt-oss"],
    when: None,
    build,
};

inventory::submit! { GPT_OSS }

static ALPHA: Key =
    Key { hf: &["swiglu_alpha"], gguf: "", symbol: "", meaning: "factor in the sigmoid of the gates" };
static LIMIT: Key = Key { hf: &["swiglu_limit"], gguf: "", symbol: "", meaning: "bound of the gates" };

struct GptOss {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    window: Option<usize>,
    eps: f32,
    embedding: TensorId,
    layers: Vec<Layer>,
    ending: Ending,
}

struct Layer {
    slides: bool,
    input_norm: TensorId,
    attention: SelfAttention,
    sinks: TensorId,
    ffn_norm: TensorId,
    experts: Experts,
    fused: LinearId,
}

impl Architecture for GptOss {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for GptOss {
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
            let sight = Sight { window: self.window.filter(|_| layer.slides), sinks: Some(layer.sinks) };
            let attention = layer.attention.run(p, &y, Some(&rotation), sight, self.eps);
            p.add("residual", &mut x, &attention);
            let y = p.rms_norm("ffn_norm", &x, layer.ffn_norm, self.eps);
            let fused = p.weights.has(layer.fused.weight);
            let gate_up = if fused { GateUp::Alternating(layer.fused) } else { layer.experts.gate_up };
            let ffn = Experts { gate_up, ..layer.experts }.run(p, &y);
            p.add("output", &mut x, &ffn);
        }
        self.ending.run(p, &x, self.eps)
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let widths = decoder::attention(config, &hidden, HeadDim::Fixed(64));
    let inner = match config.dialect() {
        Dialect::Hf => config.count(&decoder::INTERMEDIATE_SIZE),
        Dialect::Gguf => config.count(&decoder::EXPERT_SIZE),
    };
    let eps = decoder::common_with(config, 1e-5);
    let mut rope = Rope::with_base(config, widths.head_dim.len, 150_000.0);
    if config.dialect() == Dialect::Hf && !config.has(&decoder::ROPE_TYPE) {
        let why = "its config does not say how the rotation is scaled, for which its class has numbers of its own";
        rope.unsupported = Some(why);
    }
    let bias = match config.stored() {
        Dialect::Hf => config.flag_or(&decoder::ATTENTION_BIAS, true),
        Dialect::Gguf => tensors.get("blk.0.attn_q.bias").is_some(),
    };
    let window = decoder::window(config, Some(128));
    let slides =
        decoder::sliding(config, count, |layer| layer % 2 == 0, "a window on every second, from the first");
    let experts = config.count(&decoder::EXPERTS);
    let used = decoder::experts_used(config, &experts);
    let alpha = config.number_or(&ALPHA, Bound::Positive, 1.702) as f32;
    let limit = config.number_or(&LIMIT, Bound::Positive, 7.0) as f32;
    let tied = config.flag_or(&decoder::TIE, false);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let parts = Parts { bias, output_bias: bias, ..Parts::default() };
    let choice = Choice { scoring: Scoring::SoftmaxOfChosen, ..Choice::likeliest(used, false) };
    let activation = Activation::Clamped { alpha, limit };
    let (wide, narrow) = ([&experts, &inner, &hidden], [&experts, &hidden, &inner]);
    let both = 2 * &inner;
    let mut layers = Vec::with_capacity(count);
    for (i, slides) in slides.into_iter().enumerate() {
        t.layer(i);
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        let attention = SelfAttention::of(&mut t, &widths, &hidden, parts);
        let heads = Axis::new(widths.heads.heads, config.name_of(&decoder::HEADS));
        let sinks = t.bias("self_attn.sinks", "attn_sinks.weight", &heads);
        let ffn_norm = t.scale("post_attention_layernorm.weight", "post_attention_norm.weight", &hidden);
        let router = t.matrix("mlp.router.weight", "ffn_gate_inp.weight", [&experts, &hidden]);
        let router = router.with(Some(t.bias("mlp.router.bias", "ffn_gate_inp.bias", &experts)));
        let fused = t.experts("mlp.experts.gate_up_proj", "", [&experts, &both, &hidden], used);
        let fused_bias = t.expert_biases("mlp.experts.gate_up_proj_bias", "", [&experts, &both]);
        let [gate, up] = ["ffn_gate_exps.weight", "ffn_up_exps.weight"].map(|n| t.experts("", n, wide, used));
        let biases = ["ffn_gate_exps.bias", "ffn_up_exps.bias"]
            .map(|name| t.expert_biases("", name, [&experts, &inner]));
        t.split(fused, Split::Alternating, [gate, up]);
        t.split(fused_bias, Split::Alternating, biases);
        let gate_up = GateUp::Apart([gate.with(Some(biases[0])), up.with(Some(biases[1]))]);
        let down = t.experts("mlp.experts.down_proj", "ffn_down_exps.weight", narrow, used);
        let down_bias =
            t.expert_biases("mlp.experts.down_proj_bias", "ffn_down_exps.bias", [&experts, &hidden]);
        t.convert(fused, Conversion::Transposed);
        t.convert(down, Conversion::Transposed);
        let (fused, down) = (fused.with(Some(fused_bias)), down.with(Some(down_bias)));
        let experts = Experts { router, choice, gate_up, down, activation };
        layers.push(Layer { slides, input_norm, attention, sinks, ffn_norm, experts, fused });
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    Ok(Box::new(GptOss { tensors: t, heads, rope, window, eps, embedding, layers, ending }))
}
