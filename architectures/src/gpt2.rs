//! GPT-2: learned positions instead of a rotation, layer norms with biases, q, k and v in one matrix, an FFN without a
//! gate. Hugging Face stores its matrices transposed, [in, out].

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::axis::Axis;
use scantling_core::block;
use scantling_core::cache::LayerCache;
use scantling_core::config::{Bound, Config, Key};
use scantling_core::decoder;
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::matrix::RowsBuf;
use scantling_core::ops::Activation;
use scantling_core::pass::{Finish, Heads, Pass};
use scantling_core::table::{Conversion, LinearId, TensorId, TensorTable};

/// The family.
pub const GPT2: ArchitecturePlugin = ArchitecturePlugin {
    name: "gpt2",
    summary: "GPT-2: learned positions, layer norms, fused qkv, transposed weights in Hugging Face files",
    model_types: &["gpt2"],
    classes: &["GPT2LMHeadModel", "GPT2Model"],
    gguf: &["gpt2"],
    when: None,
    build,
};

/// The names of a weight and of its bias.
macro_rules! both {
    ($name:literal) => {
        [concat!($name, ".weight"), concat!($name, ".bias")]
    };
}

inventory::submit! { GPT2 }

macro_rules! keys {
    ($($name:ident: $hf:literal | $gguf:literal, $symbol:literal $meaning:literal;)+) => {$(
        static $name: Key = Key { hf: &[$hf], gguf: $gguf, symbol: $symbol, meaning: $meaning };
    )+};
}

keys! {
    WIDTH: "n_embd" | "embedding_length", "H" "residual-stream width";
    LAYERS: "n_layer" | "block_count", "L" "transformer blocks";
    HEADS: "n_head" | "attention.head_count", "" "query heads";
    POSITIONS: "n_positions" | "context_length", "" "longest sequence";
    INNER: "n_inner" | "feed_forward_length", "I" "FFN inner width";
    EPS: "layer_norm_epsilon" | "attention.layer_norm_epsilon", "" "epsilon of the norms";
    ACTIVATION: "activation_function" | "", "" "activation";
    CROSS: "add_cross_attention" | "", "" "attention to another model's output";
    SCALED: "scale_attn_weights" | "", "" "scores are divided by the root of the head's width";
    SCALED_BY_LAYER: "scale_attn_by_inverse_layer_idx" | "", "" "scores are divided by the layer's number too";
}

struct Gpt2 {
    tensors: TensorTable,
    heads: Heads,
    eps: f32,
    embedding: TensorId,
    positions: TensorId,
    /// How many of those there are.
    most: usize,
    layers: Vec<Layer>,
    final_norm: [TensorId; 2],
    head: LinearId,
}

struct Layer {
    heads: Heads,
    input_norm: [TensorId; 2],
    qkv: [LinearId; 3],
    output: LinearId,
    ffn_norm: [TensorId; 2],
    up: LinearId,
    down: LinearId,
}

impl Architecture for Gpt2 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        Ok(self)
    }
}

impl Decoder for Gpt2 {
    fn cache(&self) -> Vec<LayerCache> {
        vec![self.heads.cache(); self.layers.len()]
    }

    fn embedding(&self) -> TensorId {
        self.embedding
    }

    fn positions(&self) -> Option<usize> {
        Some(self.most)
    }

    fn forward(&self, p: &mut Pass<'_>) -> RowsBuf {
        let mut x = p.embed_with_positions(self.embedding, self.positions);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let y = p.layer_norm("input_norm", &x, layer.input_norm, self.eps);
            let [q, k, v] = p.project(["q", "k", "v"], layer.qkv, &y);
            let heads = p.attend("heads", [&q, &k, &v], layer.heads, None);
            let [attention] = p.project(["attention"], [layer.output], &heads);
            p.add("residual", &mut x, &attention);
            let y = p.layer_norm("ffn_norm", &x, layer.ffn_norm, self.eps);
            let [mut up] = p.project(["up"], [layer.up], &y);
            p.activate("activated", Activation::GeluTanh, &mut up);
            let [ffn] = p.project(["ffn"], [layer.down], &up);
            p.add("output", &mut x, &ffn);
        }
        let last = p.wanted(&x);
        let last = p.layer_norm("final_norm", &last, self.final_norm, self.eps);
        p.logits(&last, self.head, Finish::Nothing)
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&WIDTH);
    let count = config.layers(&LAYERS, tensors);
    let positions = config.count(&POSITIONS);
    let n = config.count(&HEADS);
    let inner =
        config.count_or_derived(&INNER, Some(hidden.len.saturating_mul(4)), &format!("4 × {}", hidden.why()));
    let eps = config.number_or(&EPS, Bound::Positive, 1e-5) as f32;
    config.word_or(&ACTIVATION, &[("gelu_new", ()), ("gelu_pytorch_tanh", ())], "gelu_new");
    let scaled = config.flag_or(&SCALED, true);
    let by_layer = config.flag_or(&SCALED_BY_LAYER, false);
    let tied = config.flag_or(&decoder::TIE, true);
    decoder::refuse(config, &CROSS, "attention to another model's output is not known");
    let divides = hidden.len.checked_rem(n.len) == Some(0);
    config.require(divides, &[&WIDTH, &HEADS], "the heads must divide the hidden width");
    config.settle()?;
    let mut heads = Heads::grouped(n.len, n.len, hidden.len / n.len.max(1));
    heads.scale = if scaled { heads.scale } else { 1.0 };

    let mut t = TensorTable::new("transformer.h", "blk");
    if tensors.get("wte.weight").is_some() {
        t.rename_hf("transformer.", ""); // A bare base model.
    }
    let embedding = t.embedding("transformer.wte.weight", "token_embd.weight", [&vocab, &hidden]);
    let places = t.embedding("transformer.wpe.weight", "position_embd.weight", [&positions, &hidden]);
    let mut layers = Vec::with_capacity(count);
    for i in 0..count {
        t.layer(i);
        let input_norm = norm(&mut t, both!("ln_1"), both!("attn_norm"), &hidden);
        let all = linear(&mut t, both!("attn.c_attn"), both!("attn_qkv"), [&(3 * &hidden), &hidden]);
        let output = linear(&mut t, both!("attn.c_proj"), both!("attn_output"), [&hidden, &hidden]);
        let ffn_norm = norm(&mut t, both!("ln_2"), both!("ffn_norm"), &hidden);
        let up = linear(&mut t, both!("mlp.c_fc"), both!("ffn_up"), [&inner, &hidden]);
        let down = linear(&mut t, both!("mlp.c_proj"), both!("ffn_down"), [&hidden, &inner]);
        let heads =
            Heads { scale: if by_layer { heads.scale / (i as f32 + 1.0) } else { heads.scale }, ..heads };
        let qkv = block::cut(all, [hidden.len; 3]);
        layers.push(Layer { heads, input_norm, qkv, output, ffn_norm, up, down });
    }
    t.ignore("attn.bias");
    t.ignore("attn.masked_bias");
    t.global();
    let ends = both!("transformer.ln_f");
    let final_norm = norm(&mut t, ends, both!("output_norm"), &hidden);
    let head = t.matrix("lm_head.weight", "output.weight", [&vocab, &hidden]);
    decoder::tie_head(config, &mut t, head, embedding, tied);
    let (head, positions, most) = (head.plain(), places, positions.len);
    Ok(Box::new(Gpt2 { tensors: t, heads, eps, embedding, positions, most, layers, final_norm, head }))
}

/// The weight and the bias of a layer norm.
fn norm(t: &mut TensorTable, hf: [&'static str; 2], gguf: [&'static str; 2], len: &Axis) -> [TensorId; 2] {
    [t.scale(hf[0], gguf[0], len), t.bias(hf[1], gguf[1], len)]
}

/// A matrix that Hugging Face stores [in, out], and its bias.
fn linear(
    t: &mut TensorTable,
    hf: [&'static str; 2],
    gguf: [&'static str; 2],
    shape: [&Axis; 2],
) -> LinearId {
    let weight = t.matrix(hf[0], gguf[0], shape);
    t.convert(weight, Conversion::Transposed);
    weight.with(Some(t.bias(hf[1], gguf[1], shape[0])))
}
