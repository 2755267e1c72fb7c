//! Makes model files: the tensors that an architecture's table asks for, laid out by a format's plan.
//!
//! Tests and benchmarks use this module too.

pub mod fill;
pub mod gguf_keys;
pub mod write;

use scantling_core::architecture::{Architecture, ArchitecturePlugin};
use scantling_core::config::Config;
use scantling_core::decoder;
use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::index::TensorIndex;
use scantling_core::metadata::{Entry, Metadata, Value};
use scantling_core::registry::Registry;
use scantling_core::source::{Dialect, TensorSpec};
use scantling_core::table::{Absence, Expected, Use};

/// A tensor to be made.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// Name, type and shape.
    pub spec: TensorSpec,
    /// What its numbers are for, which says what is sane for them.
    pub usage: Use,
    /// The tensor that it is a copy of, byte for byte.
    pub same_as: Option<String>,
}

/// A model to be made.
#[derive(Clone, Debug, Default)]
pub struct Model {
    /// What its files say of themselves.
    pub metadata: Metadata,
    /// In the order of a forward pass.
    pub tensors: Vec<Tensor>,
}

/// What becomes of the output head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Stored unless the config ties it to the embedding.
    AsConfigured,
    /// Stored, as a copy of the embedding if it is tied.
    Stored,
    /// Left out, even if the model then lacks it.
    Omitted,
}

/// The family of a config, with its numbers filled in.
pub struct Family {
    /// Its plugin.
    pub plugin: &'static ArchitecturePlugin,
    /// Its table.
    pub architecture: Box<dyn Architecture>,
    /// Whether its rotation is scaled as Llama 3's is, which GGUF tells by a tensor.
    llama3_rope: bool,
}

/// Reads a `config.json` and derives what its family asks for.
pub fn family(registry: &Registry, config: &Config) -> Result<Family> {
    let unknown = || {
        let known: Vec<&str> = registry.architectures().iter().map(|a| a.name).collect();
        let family = config.family().unwrap_or("none");
        Error::Usage(format!(
            "{}: unknown model_type \"{family}\"; known: {}",
            config.file(),
            known.join(", ")
        ))
    };
    let plugin = registry.architecture_of(config).ok_or_else(unknown)?;
    let architecture = (plugin.build)(config, &TensorIndex::default())?;
    let rope = config.facts().into_iter().find(|f| f.meaning == decoder::ROPE_TYPE.meaning);
    let llama3_rope = rope.is_some_and(|f| matches!(f.value, Value::Text(kind) if kind == "llama3"));
    Ok(Family { plugin, architecture, llama3_rope })
}

/// The tensors of a family under the names of a dialect. Matrices are of the type given where their rows are
/// whole blocks of it; vectors are F32 in GGUF, as its converters have them.
pub fn tensors(family: &Family, dialect: Dialect, dtype: DType, head: Head) -> Vec<Tensor> {
    let table = family.architecture.tensors();
    let mut tensors = Vec::new();
    for stored in table.named(dialect) {
        let shape = stored.lens();
        let (name, row) = (stored.name, stored.row);
        let same_as = match row.absence {
            Absence::Fault => None,
            Absence::Fine if row.usage == Use::Helper && family.llama3_rope => None,
            Absence::Fine => continue,
            Absence::StandIn { by, .. } => table.rows().get(by).map(|by| table.name(by, dialect)),
        };
        let stored = match head {
            Head::Omitted => row.hf != "lm_head.weight",
            Head::AsConfigured => same_as.is_none(),
            Head::Stored => true,
        };
        if stored {
            let spec = TensorSpec { name, dtype: element_type(row, &shape, dialect, dtype), shape };
            tensors.push(Tensor { spec, usage: row.usage, same_as });
        }
    }
    tensors
}

/// Gives the matrices of a GGUF model the types of llama.cpp's mix Q4_K_M, if they are Q4_K: Q6_K for the head, or for
/// the embedding that stands in for it, and for the v and down projections of half of the layers: the first and last
/// eighth, and every third of the others.
pub fn mix_q4_k_m(tensors: &mut [Tensor]) {
    let layer = |name: &str| -> Option<usize> { name.strip_prefix("blk.")?.split('.').next()?.parse().ok() };
    let layers = tensors.iter().filter_map(|t| layer(&t.spec.name)).max().map_or(0, |last| last + 1);
    let more = |i: usize| i < layers / 8 || i >= 7 * layers / 8 || (i - layers / 8) % 3 == 2;
    let own_head = tensors.iter().any(|t| t.spec.name == "output.weight" && t.same_as.is_none());
    let head = if own_head { "output.weight" } else { "token_embd.weight" };
    for Tensor { spec: TensorSpec { name, dtype, .. }, .. } in tensors {
        let fine = ["attn_v.weight", "ffn_down.weight"].iter().any(|end| name.ends_with(end));
        if *dtype == DType::Q4_K && (name == head || fine && layer(name).is_some_and(more)) {
            *dtype = DType::Q6_K;
        }
    }
}

fn element_type(row: &Expected, shape: &[usize], dialect: Dialect, dtype: DType) -> DType {
    if dialect == Dialect::Hf {
        return dtype;
    }
    match row.usage {
        Use::Scale | Use::Bias | Use::Helper => DType::F32,
        // Rows that are not whole blocks fall back, as llama.cpp's converter does.
        Use::Embedding | Use::Matrix if dtype.byte_len(shape).is_ok() => dtype,
        Use::Embedding | Use::Matrix => DType::F16,
    }
}

/// A model of a family as it is stored in safetensors.
pub fn safetensors_model(registry: &Registry, config: &Config, dtype: DType, head: Head) -> Result<Model> {
    let family = family(registry, config)?;
    let tensors = tensors(&family, Dialect::Hf, dtype, head);
    Ok(Model { metadata: safetensors_metadata(), tensors })
}

/// What PyTorch's writer says of a file.
pub fn safetensors_metadata() -> Metadata {
    let mut metadata = Metadata::default();
    push(&mut metadata, "format", "string", Value::Text("pt".to_owned()));
    metadata
}

/// A checkpoint of no known family: many small tensors.
pub fn small_tensors(count: usize, dtype: DType) -> Model {
    let block = dtype.block_elements();
    let tensor = |i: usize| Tensor {
        spec: TensorSpec {
            name: format!("layers.{}.part_{}.weight", i / 10, i % 10),
            dtype,
            shape: vec![2, block],
        },
        usage: Use::Matrix,
        same_as: None,
    };
    Model { metadata: Metadata::default(), tensors: (0..count).map(tensor).collect() }
}

/// Adds an entry whose key is new.
pub fn push(metadata: &mut Metadata, key: &str, kind: &str, value: Value) {
    let entry = Entry { key: key.to_owned(), value, kind: kind.to_owned(), at: None };
    metadata.push(entry).expect("keys are unique");
}
