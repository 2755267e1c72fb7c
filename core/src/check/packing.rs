//! Hugging Face checkpoints whose weights are packed with scales stored beside them.

use crate::codes;
use crate::config::Config;
use crate::dtype::Class;
use crate::finding::Finding;
use crate::index::TensorInfo;
use crate::metadata::Value;
use crate::source::{Dialect, WeightSource};

codes! {
    pub static PACKED = Error, Names, "weights-packed",
        "the weights are packed in a scheme that is not unpacked here",
        "The config names a quantisation scheme in which several stored tensors make up one weight. The stored tensors \
         are listed as they are; they are not held against the architecture, and nothing is guessed about them.";
    pub static PACKING_DENIED = Error, Config, "packing-denied",
        "the config says that the weights are packed, and they are plain",
        "quantization_config describes packed weights, but no tensor of the files is packed. A reader that follows the \
         config would look for tensors that are not there. The config belongs to another version of the model.";
    pub static PACKING_UNSAID = Error, Config, "packing-unsaid",
        "the weights are packed, and the config does not say how",
        "The names of the tensors are those of a quantisation scheme, but there is no quantization_config. Fetch the \
         config that belongs to these weights.";
}

/// Whether and how the weights are packed.
pub(super) struct Packing {
    /// The scheme in words: "gptq, 4 bits".
    pub scheme: Option<String>,
    /// Whether the files hold tensors that are packed in a way that is not read here.
    pub packed: bool,
    pub findings: Vec<Finding>,
}

/// Ends of names that only packed weights have, with the scheme that they belong to.
const MARKS: [(&str, &str); 14] = [
    (".g_idx", "gptq"),
    (".qzeros", "gptq or awq"),
    (".qweight", "gptq or awq"),
    (".weight_packed", "compressed-tensors"),
    (".weight_scale_inv", "fp8"),
    (".weight_scale_2", "nvfp4"),
    (".weight_scale", "fp8 or int8 with scales"),
    (".qscale_weight", "fp8"),
    (".absmax", "bitsandbytes"),
    (".quant_map", "bitsandbytes"),
    (".SCB", "bitsandbytes, 8 bits"),
    ("_blocks", "mxfp4"),
    (".scales", "mlx or gptq"),
    (".biases", "mlx"),
];

/// Looks at what the config says and at what the names show.
pub(super) fn of(config: &Config, source: &dyn WeightSource) -> Packing {
    if source.dialect() == Dialect::Gguf {
        return Packing { scheme: None, packed: false, findings: Vec::new() }; // Its types say it all.
    }
    let tensors = source.tensors();
    let said = said(config);
    if tensors.tensors().iter().any(TensorInfo::is_packed) {
        return Packing { scheme: said, packed: false, findings: Vec::new() }; // Read as what it is.
    }
    let mark =
        |t: &TensorInfo| MARKS.iter().find(|(end, _)| t.name.ends_with(end)).map(|(_, scheme)| *scheme);
    let shown = tensors.tensors().iter().find_map(mark);
    let plain = tensors.tensors().iter().all(is_plain) && shown.is_none();
    let mut packing = Packing { scheme: said.clone(), packed: false, findings: Vec::new() };
    match (said, shown) {
        (Some(scheme), None) if plain && !tensors.is_empty() => {
            let message =
                format!("the config says that the weights are packed ({scheme}), but all tensors are plain");
            let f = Finding::new(&PACKING_DENIED, message).file(config.file()).field("quantization_config");
            packing.findings.push(f.advice("fetch the config that belongs to these weights"));
        }
        (Some(_), _) => packing.packed = true,
        (None, Some(scheme)) => {
            let message = format!(
                "the tensors are named as packed weights are ({scheme}), but the config has no quantization_config"
            );
            let f = Finding::new(&PACKING_UNSAID, message).file(config.file());
            packing.findings.push(f.advice("fetch the config that belongs to these weights"));
            packing.scheme = Some(scheme.to_owned());
            packing.packed = true;
        }
        (None, None) => {}
    }
    packing
}

fn is_plain(tensor: &TensorInfo) -> bool {
    let wide = |d: crate::dtype::DType| d.class() == Class::Float && d.bits_per_weight() >= 16.0;
    tensor.dtype.known().is_some_and(|d| wide(d) || d.is_quantised())
}

/// What the config says of packing, in words.
fn said(config: &Config) -> Option<String> {
    let entries = config.entries();
    let begins = ["quantization_config.", "quantization.", "text_config.quantization_config."];
    if let Some(value) = entries.get("quantization_config").filter(|v| !matches!(v, Value::Null)) {
        return Some(format!("{value}, which is no description of a scheme"));
    }
    let prefix = begins.iter().find(|p| entries.entries().iter().any(|e| e.key.starts_with(**p)))?;
    let value = |name: &str| entries.get(&format!("{prefix}{name}"));
    let text = |name: &str| match value(name) {
        Some(Value::Text(text)) => Some(text.clone()),
        _ => None,
    };
    let method = text("quant_method")
        .unwrap_or_else(|| if *prefix == "quantization." { "mlx" } else { "unnamed" }.to_owned());
    let bits = match value("bits") {
        Some(Value::Unsigned(bits)) => format!(", {bits} bits"),
        _ => String::new(),
    };
    let format = text("format").map(|f| format!(", {f}")).unwrap_or_default();
    Some(format!("{method}{bits}{format}"))
}
