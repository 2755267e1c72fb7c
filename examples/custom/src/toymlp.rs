//! An embedding, blocks of two matrices with a residual, and a head: the smallest family with layers.
//!
//! Nothing here knows of a file format. Each tensor is declared once, under its Hugging Face and its GGUF name,
//! and every format that speaks one of the two dialects can be checked against it.

use scantling_core::architecture::{Architecture, ArchitecturePlugin};
use scantling_core::config::Config;
use scantling_core::decoder;
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::table::TensorTable;

/// The family.
pub const TOYMLP: ArchitecturePlugin = ArchitecturePlugin {
    name: "toymlp",
    summary: "toy: embedding, residual blocks of two matrices, head",
    model_types: &["toymlp"],
    classes: &["ToyMlpForCausalLM"],
    gguf: &["toymlp"],
    when: None,
    build,
};

inventory::submit! { TOYMLP }

struct ToyMlp {
    tensors: TensorTable,
}

impl Architecture for ToyMlp {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let layers = config.layers(&decoder::LAYERS, tensors);
    config.settle()?;

    let inner = 4 * &hidden;
    let mut t = TensorTable::new("layers", "blk");
    t.embedding("embed.weight", "token_embd.weight", [&vocab, &hidden]);
    for layer in 0..layers {
        t.layer(layer);
        t.matrix("up.weight", "ffn_up.weight", [&inner, &hidden]);
        t.matrix("down.weight", "ffn_down.weight", [&hidden, &inner]);
    }
    t.global();
    t.matrix("head.weight", "output.weight", [&vocab, &hidden]);
    Ok(Box::new(ToyMlp { tensors: t }))
}
