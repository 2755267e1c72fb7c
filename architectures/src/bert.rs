//! BERT: an encoder that sees both ways. Its tensors are checked; it does not write, so nothing computes with them.

use scantling_core::architecture::{Architecture, ArchitecturePlugin};
use scantling_core::axis::Axis;
use scantling_core::config::{Bound, Config, Key};
use scantling_core::decoder;
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::table::TensorTable;

/// The family.
pub const BERT: ArchitecturePlugin = ArchitecturePlugin {
    name: "bert",
    summary: "BERT, checked only: post-norm encoder with learned positions and token types",
    model_types: &["bert"],
    classes: &["BertForMaskedLM", "BertForPreTraining", "BertModel"],
    gguf: &["bert"],
    when: None,
    build,
};

/// The names of a weight and of its bias.
macro_rules! both {
    ($name:literal) => {
        [concat!($name, ".weight"), concat!($name, ".bias")]
    };
}

inventory::submit! { BERT }

static TYPES: Key =
    Key { hf: &["type_vocab_size"], gguf: "token_type_count", symbol: "", meaning: "token types" };
static POSITIONS: Key =
    Key { hf: &["max_position_embeddings"], gguf: "context_length", symbol: "", meaning: "longest sequence" };
static EPS: Key = Key {
    hf: &["layer_norm_eps"],
    gguf: "attention.layer_norm_epsilon",
    symbol: "",
    meaning: "epsilon of the norms",
};

struct Bert {
    tensors: TensorTable,
}

impl Architecture for Bert {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let heads = config.count(&decoder::HEADS);
    let inner = config.count(&decoder::INTERMEDIATE_SIZE);
    let positions = config.count(&POSITIONS);
    let types = config.count_or(&TYPES, 2);
    config.number_or(&EPS, Bound::Positive, 1e-12);
    let divides = hidden.len.checked_rem(heads.len) == Some(0);
    config.require(
        divides,
        &[&decoder::HIDDEN_SIZE, &decoder::HEADS],
        "the heads must divide the hidden width",
    );
    config.settle()?;

    // A bare encoder has no `bert.` before its names.
    let bare = tensors.get("embeddings.word_embeddings.weight").is_some();
    let mut t = TensorTable::new("bert.encoder.layer", "blk");
    if bare {
        t.rename_hf("bert.", "");
    }
    let embedding = "bert.embeddings.word_embeddings.weight";
    let words = t.embedding(embedding, "token_embd.weight", [&vocab, &hidden]);
    t.embedding("bert.embeddings.position_embeddings.weight", "position_embd.weight", [&positions, &hidden]);
    t.embedding("bert.embeddings.token_type_embeddings.weight", "token_types.weight", [&types, &hidden]);
    norm(&mut t, both!("bert.embeddings.LayerNorm"), both!("token_embd_norm"), &hidden);
    for i in 0..count {
        t.layer(i);
        let square = [&hidden, &hidden];
        linear(&mut t, both!("attention.self.query"), both!("attn_q"), square);
        linear(&mut t, both!("attention.self.key"), both!("attn_k"), square);
        linear(&mut t, both!("attention.self.value"), both!("attn_v"), square);
        linear(&mut t, both!("attention.output.dense"), both!("attn_output"), square);
        norm(&mut t, both!("attention.output.LayerNorm"), both!("attn_output_norm"), &hidden);
        linear(&mut t, both!("intermediate.dense"), both!("ffn_up"), [&inner, &hidden]);
        linear(&mut t, both!("output.dense"), both!("ffn_down"), [&hidden, &inner]);
        norm(&mut t, both!("output.LayerNorm"), both!("layer_output_norm"), &hidden);
    }
    t.global();
    // Heads come as the class has them; a GGUF file has none.
    let masked = config.classes().iter().any(|c| c == "BertForMaskedLM");
    let first = t.rows().len();
    linear(&mut t, both!("bert.pooler.dense"), ["", ""], [&hidden, &hidden]);
    t.optional_since(first);
    let first = t.rows().len();
    linear(&mut t, both!("cls.predictions.transform.dense"), ["", ""], [&hidden, &hidden]);
    norm(&mut t, both!("cls.predictions.transform.LayerNorm"), ["", ""], &hidden);
    t.bias("cls.predictions.bias", "", &vocab);
    if !masked {
        t.optional_since(first);
    }
    let head = t.matrix("cls.predictions.decoder.weight", "", [&vocab, &hidden]);
    t.tie(head, words, false);
    let bias = t.bias("cls.predictions.decoder.bias", "", &vocab);
    t.optional(bias);
    t.ignore("embeddings.position_ids");
    Ok(Box::new(Bert { tensors: t }))
}

fn norm(t: &mut TensorTable, hf: [&'static str; 2], gguf: [&'static str; 2], len: &Axis) {
    t.scale(hf[0], gguf[0], len);
    t.bias(hf[1], gguf[1], len);
}

fn linear(t: &mut TensorTable, hf: [&'static str; 2], gguf: [&'static str; 2], shape: [&Axis; 2]) {
    t.matrix(hf[0], gguf[0], shape);
    t.bias(hf[1], gguf[1], shape[0]);
}
