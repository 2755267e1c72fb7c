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

/// Writes a weight file and its config into a folder.
pub fn write(folder: &Path, name: &str, weights: &[u8]) {
    let config = format!(
        r#"{{"model_type": "toymlp", "vocab_size": {VOCAB}, "hidden_size": {HIDDEN}, "num_hidden_layers": {LAYERS}}}"#
    );
    fs::write(folder.join("config.json"), config).unwrap();
    fs::write(folder.join(name), weights).unwrap();
}
