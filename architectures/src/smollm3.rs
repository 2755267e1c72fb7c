//! SmolLM3: Llama's tensors, with no rotation at all on some layers.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::block::{self, Ending, Parts, PreNorm};
use scantling_core::cache::LayerCache;
use scantling_core::config::{Config, Key};
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

/// The family.
pub const SMOLLM3: ArchitecturePlugin = ArchitecturePlugin {
    name: "smollm3",
    summary: "SmolLM3: GQA, SwiGLU, every fourth layer without rotation",
    model_types: &["smollm3"],
    classes: &["SmolLM3ForCausalLM", "SmolLM3Model"],
    gguf: &["smollm3"],
    when: None,
    build,
};

inventory::submit! { SMOLLM3 }

static NO_ROPE_LAYERS: Key =
    Key { hf: &["no_rope_layers"], gguf: "", symbol: "", meaning: "rotation of each layer (0: none)" };
static NO_ROPE_INTERVAL: Key = Key {
    hf: &["no_rope_layer_interval"],
    gguf: "",
    symbol: "",
    meaning: "period of the layers without rotation",
};

struct SmolLm3 {
    tensors: TensorTable,
    heads: Heads,
    rope: Rope,
    eps: f32,
    embedding: TensorId,
    layers: Vec<Layer>,
    ending: Ending,
}

struct Layer {
    turned: bool,
    window: Option<usize>,
    block: PreNorm,
}

impl Architecture for SmolLm3 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for SmolLm3 {
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
        let pairing = self.layers.first().map_or(Pairing::Halves, |l| l.block.pairing(p));
        let rotation = p.rotation(&self.rope, pairing, self.heads.key);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let rotation = layer.turned.then_some(&rotation);
            layer.block.run(p, &mut x, rotation, layer.window, self.eps);
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
    let rope = Rope::with_base(config, widths.head_dim.len, 2_000_000.0);
    let bias = decoder::bias(config, &decoder::ATTENTION_BIAS, tensors, "blk.0.attn_q.bias");
    let ffn_bias = decoder::bias(config, &decoder::MLP_BIAS, tensors, "blk.0.ffn_gate.bias");
    let tied = config.flag_or(&decoder::TIE, true);
    let mut windows = decoder::late_windows(config, count);
    let turned = turned(config, count);
    if !config.has(&decoder::LAYER_TYPES) && config.dialect() == Dialect::Hf {
        // The class gives a window to the layers that do not turn.
        let on = config.flag_or(&decoder::USE_SLIDING_WINDOW, false);
        let window = if on { decoder::window(config, None) } else { None };
        windows = turned.iter().map(|turned| window.filter(|_| !turned)).collect();
    }
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let parts = Parts { bias, output_bias: bias, interleaved: true, ..Parts::default() };
    let mut layers = Vec::with_capacity(count);
    for (i, (turned, window)) in turned.into_iter().zip(windows).enumerate() {
        t.layer(i);
        let block = PreNorm::of(&mut t, &widths, [&hidden, &inner], parts, ffn_bias);
        layers.push(Layer { turned, window, block });
    }
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let heads = widths.heads;
    Ok(Box::new(SmolLm3 { tensors: t, heads, rope, eps, embedding, layers, ending }))
}

/// Which layers turn their queries and keys: as the list says, or all but every fourth.
fn turned(config: &Config, count: usize) -> Vec<bool> {
    let Some(said) = config.numbers(&NO_ROPE_LAYERS) else {
        config.take_for(&NO_ROPE_LAYERS, Value::Text("every fourth has none".into()));
        let interval = config.whole_or(&NO_ROPE_INTERVAL, 4).max(1);
        return (1..=count).map(|layer| layer % interval != 0).collect();
    };
    config.require(
        said.len() == count,
        &[&NO_ROPE_LAYERS, &decoder::LAYERS],
        "no_rope_layers needs an element for each layer",
    );
    said.into_iter().map(|turned| turned != 0.0).collect()
}
