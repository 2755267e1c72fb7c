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
    norm(
        &mut t,
        ["bert.embeddings.LayerNorm.weight", "bert.embeddings.LayerNorm.bias"],
        ["token_embd_norm.weight", "token_embd_norm.bias"],
        &hidden,
    );
    for i in 0..count {
        t.layer(i);
        let square = [&hidden, &hidden];
        linear(
            &mut t,
            ["attention.self.query.weight", "attention.self.query.bias"],
            ["attn_q.weight", "attn_q.bias"],
            square,
        );
        linear(
            &mut t,
            ["attention.self.key.weight", "attention.self.key.bias"],
            ["attn_k.weight", "attn_k.bias"],
            square,
        );
        linear(
            &mut t,
            ["attention.self.value.weight", "attention.self.value.bias"],
            ["attn_v.weight", "attn_v.bias"],
            square,
        );
        linear(
            &mut t,
            ["attention.output.dense.weight", "attention.output.dense.bias"],
            ["attn_output.weight", "attn_output.bias"],
            square,
        );
        norm(
            &mut t,
            ["attention.output.LayerNorm.weight", "attention.output.LayerNorm.bias"],
            ["attn_output_norm.weight", "attn_output_norm.bias"],
            &hidden,
        );
        linear(
            &mut t,
            ["intermediate.dense.weight", "intermediate.dense.bias"],
            ["ffn_up.weight", "ffn_up.bias"],
            [&inner, &hidden],
        );
        linear(
            &mut t,
            ["output.dense.weight", "output.dense.bias"],
            ["ffn_down.weight", "ffn_down.bias"],
            [&hidden, &inner],
        );
        norm(
            &mut t,
            ["output.LayerNorm.weight", "output.LayerNorm.bias"],
            ["layer_output_norm.weight", "layer_output_norm.bias"],
            &hidden,
        );
    }
    t.global();
    // Heads come as the class has them; a GGUF file has none.
    let masked = config.classes().iter().any(|c| c == "BertForMaskedLM");
    let first = t.rows().len();
    linear(&mut t, ["bert.pooler.dense.weight", "bert.pooler.dense.bias"], ["", ""], [&hidden, &hidden]);
    t.optional_since(first);
    let first = t.rows().len();
    linear(
        &mut t,
        ["cls.predictions.transform.dense.weight", "cls.predictions.transform.dense.bias"],
        ["", ""],
        [&hidden, &hidden],
    );
    norm(
        &mut t,
        ["cls.predictions.transform.LayerNorm.weight", "cls.predictions.transform.LayerNorm.bias"],
        ["", ""],
        &hidden,
    );
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
