//! A small toymlp model, written as bytes and not by the code under test.

use std::fs;
use std::path::Path;

/// Distinct tokens.
pub const VOCAB: usize = 5;
/// Width of the residual stream.
pub const HIDDEN: usize = 4;
/// Blocks.
pub const LAYERS: usize = 2;

/// A tensor's name and shape.
pub type Named = (String, Vec<usize>);

/// Every tensor of the model.
pub fn tensors() -> Vec<Named> {
    let mut all = vec![("embed.weight".to_owned(), vec![VOCAB, HIDDEN])];
    for layer in 0..LAYERS {
        all.push((format!("layers.{layer}.up.weight"), vec![4 * HIDDEN, HIDDEN]));
        all.push((format!("layers.{layer}.down.weight"), vec![HIDDEN, 4 * HIDDEN]));
    }
    all.push(("head.weight".to_owned(), vec![VOCAB, HIDDEN]));
    all
}

/// As many F32 as a shape holds.
fn data(shape: &[usize]) -> Vec<u8> {
    (0..shape.iter().product()).flat_map(|i| (i as f32 / 8.0).to_le_bytes()).collect()
}

/// A `.toytensors` file.
pub fn toytensors(tensors: &[Named]) -> Vec<u8> {
    let mut file = b"TOY1".to_vec();
    file.extend((tensors.len() as u32).to_le_bytes());
    let mut all = Vec::new();
    for (name, shape) in tensors {
        file.extend((name.len() as u16).to_le_bytes());
        file.extend(name.as_bytes());
        file.push(shape.len() as u8);
        shape.iter().for_each(|&axis| file.extend((axis as u64).to_le_bytes()));
        file.extend((all.len() as u64).to_le_bytes());
        all.extend(data(shape));
    }
    file.extend(all);
    file
}

/// A `.safetensors` file.
pub fn safetensors(tensors: &[Named]) -> Vec<u8> {
    let mut all = Vec::new();
    let mut entries = Vec::new();
    for (name, shape) in tensors {
        let begin = all.len();
        all.extend(data(shape));
        let offsets = format!("[{begin}, {}]", all.len());
        entries
            .push(format!(r#""{name}": {{"dtype": "F32", "shape": {shape:?}, "data_offsets": {offsets}}}"#));
    }
    let mut header = format!("{{{}}}", entries.join(", ")).into_bytes();
    header.resize(header.len().next_multiple_of(8), b' ');
    [&(header.len() as u64).to_le_bytes()[..], &header, &all].concat()
}

/// A `.gguf` file: the same tensors under that world's names, and the hyperparameters with them.
pub fn gguf(tensors: &[Named]) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    let number =
        |key: &str, n: usize| [&text(key)[..], &4u32.to_le_bytes(), &(n as u32).to_le_bytes()].concat();
    let mut file = b"GGUF".to_vec();
    file.extend(3u32.to_le_bytes());
    file.extend((tensors.len() as u64).to_le_bytes());
    file.extend(4u64.to_le_bytes());
    file.extend([&text("general.architecture")[..], &8u32.to_le_bytes(), &text("toymlp")].concat());
    file.extend(number("toymlp.vocab_size", VOCAB));
    file.extend(number("toymlp.embedding_length", HIDDEN));
    file.extend(number("toymlp.block_count", LAYERS));
    let mut all = Vec::new();
    for (name, shape) in tensors {
        let name =
            name.replace("embed.", "token_embd.").replace("head.", "output.").replace("layers.", "blk.");
        file.extend(text(&name.replace("up.", "ffn_up.").replace("down.", "ffn_down.")));
        file.extend((shape.len() as u32).to_le_bytes());
        // Innermost axis first; type 0 is F32.
        shape.iter().rev().for_each(|&axis| file.extend((axis as u64).to_le_bytes()));
        file.extend(0u32.to_le_bytes());
        file.extend((all.len() as u64).to_le_bytes());
        all.extend(data(shape));
        all.resize(all.len().next_multiple_of(32), 0);
    }
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend(all);
    file
}

/// The model in each format: file name and bytes.
pub fn in_every_format(tensors: &[Named]) -> [(&'static str, Vec<u8>); 3] {
    [
        ("model.toytensors", toytensors(tensors)),
        ("model.safetensors", safetensors(tensors)),
        ("model.gguf", gguf(tensors)),
    ]
}

/// Writes a weight file and its config into a folder.
pub fn write(folder: &Path, name: &str, weights: &[u8]) {
    let config = format!(
        r#"{{"model_type": "toymlp", "vocab_size": {VOCAB}, "hidden_size": {HIDDEN}, "num_hidden_layers": {LAYERS}}}"#
    );
    fs::write(folder.join("config.json"), config).unwrap();
    fs::write(folder.join(name), weights).unwrap();
}
