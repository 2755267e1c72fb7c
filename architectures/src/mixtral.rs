//! Mixtral: Mistral with a mixture of experts for its FFN, of which each token uses some. A GGUF file calls itself llama,
//! and says that it has experts.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{self, Choice, Ending, Experts, GateUp, Parts, SelfAttention};
use scantling_core::cache::LayerCache;
use scantling_core::config::Config;
use scantling_core::decoder::{self, HeadDim};
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::matrix::RowsBuf;
use scantling_core::ops::{Activation, Pairing};
use scantling_core::pass::{Heads, Pass};
use scantling_core::rope::Rope;
use scantling_core::source::Dialect;
use scantling_core::table::{TensorId, TensorTable};

/// The family.
pub const MIXTRAL: ArchitecturePlugin = ArchitecturePlugin {
    name: "mixtral",
    summary: "Mixtral: GQA, experts chosen by a softmax over all",
    model_types: &["mixtral"],
    classes: &["MixtralForCausalLM", "MixtralModel"],
    gguf: &["llama"],
    when: Some(|config| config.dialect() == Dialect::Hf || decoder::has_experts(config)),
    build,
};

inventory::submit! { MIXTRAL }

struct Mixtral {
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
    input_norm: TensorId,
    attention: SelfAttention,
    ffn_norm: TensorId,
    experts: Experts,
}

impl Architecture for Mixtral {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for Mixtral {
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
        let pairing = self.layers.first().map_or(Pairing::Halves, |l| l.attention.pairing(p));
        let rotation = p.rotation(&self.rope, pairing, self.heads.key);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let y = p.rms_norm("input_norm", &x, layer.input_norm, self.eps);
            let attention = layer.attention.run(p, &y, Some(&rotation), self.window, self.eps);
            p.add("residual", &mut x, &attention);
            let y = p.rms_norm("ffn_norm", &x, layer.ffn_norm, self.eps);
            let ffn = layer.experts.run(p, &y);
            p.add("output", &mut x, &ffn);
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
    let rope = Rope::with_base(config, widths.head_dim.len, 1_000_000.0);
    let window = decoder::window(config, None);
    let experts = config.experts(&decoder::EXPERTS, count, tensors);
    let used = decoder::experts_used(config, &experts);
    let tied = config.flag_or(&decoder::TIE, false);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let parts = Parts { interleaved: true, ..Parts::default() };
    let mut layers = Vec::with_capacity(count);
    for i in 0..count {
        t.layer(i);
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        let attention = SelfAttention::of(&mut t, &widths, &hidden, parts);
        let ffn_norm = t.scale("post_attention_layernorm.weight", "ffn_norm.weight", &hidden);
        let router = t.matrix("block_sparse_moe.gate.weight", "ffn_gate_inp.weight", [&experts, &hidden]);
        let (wide, narrow) = ([&experts, &inner, &hidden], [&experts, &hidden, &inner]);
        let gate = t.experts("block_sparse_moe.experts.*.w1.weight", "ffn_gate_exps.weight", wide, used);
        let up = t.experts("block_sparse_moe.experts.*.w3.weight", "ffn_up_exps.weight", wide, used);
        let down = t.experts("block_sparse_moe.experts.*.w2.weight", "ffn_down_exps.weight", narrow, used);
        let experts = Experts {
            router: router.plain(),
            choice: Choice::likeliest(used, true),
            gate_up: GateUp::Apart([gate.plain(), up.plain()]),
            down: down.plain(),
            activation: Activation::Silu,
        };
        layers.push(Layer { input_norm, attention, ffn_norm, experts });
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    Ok(Box::new(Mixtral { tensors: t, heads, rope, window, eps, embedding, layers, ending }))
}
