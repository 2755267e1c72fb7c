//! Models to plant faults in: read whole, changed, written again.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]

use crate::models::{self, format, registry};
use scantling_core::convert::Converted;
use scantling_core::dtype::DType;
use scantling_core::metadata::Metadata;
use scantling_core::source::{Dialect, TensorSpec};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// A tensor as it is stored.
#[derive(Clone)]
pub struct Stored {
    pub dtype: DType,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

/// A model to plant faults in.
#[derive(Clone)]
pub struct Planted {
    pub format: &'static str,
    pub metadata: Metadata,
    pub config: Option<Vec<u8>>,
    pub tensors: BTreeMap<String, Stored>,
}

impl Planted {
    /// A file of tensors without a config.
    pub fn of_file(path: &Path) -> Planted {
        let source = registry().open(path).unwrap();
        let tensors = source.tensors().tensors().iter().map(|t| {
            let bytes = source.bytes(t).unwrap().into_owned();
            (t.name.clone(), Stored { dtype: t.dtype.known().unwrap(), shape: t.shape.clone(), bytes })
        });
        let config = Some(b"{}".to_vec());
        Planted { format: "safetensors", metadata: Metadata::default(), config, tensors: tensors.collect() }
    }

    /// All of a model.
    pub fn of(path: &Path) -> Planted {
        let source = registry().open(path).unwrap();
        let tensors = source.tensors().tensors().iter().map(|t| {
            let bytes = source.bytes(t).unwrap().into_owned();
            (t.name.clone(), Stored { dtype: t.dtype.known().unwrap(), shape: t.shape.clone(), bytes })
        });
        let hf = source.dialect() == Dialect::Hf;
        Planted {
            format: if hf { "safetensors" } else { "gguf" },
            metadata: if hf { Metadata::default() } else { source.metadata().clone() },
            config: hf.then(|| fs::read(path.join("config.json")).unwrap()),
            tensors: tensors.collect(),
        }
    }

    /// A model of the Hugging Face world in the form of GGUF, all numbers as F32.
    pub fn converted(folder: &Path, kind: &str) -> Planted {
        let checked = models::run(folder, &models::request());
        let kernel = registry().leaf("scalar", &Default::default()).unwrap();
        let table = checked.architecture.as_ref().unwrap().tensors();
        let mut tensors = BTreeMap::new();
        for (i, row) in table.rows().iter().enumerate() {
            let Some(numbers) = Converted::of(table, i, checked.source.as_ref(), &*kernel).unwrap() else {
                continue;
            };
            let mut values = vec![0.0; numbers.len()];
            numbers.read(&*kernel, 0, &mut values);
            let bytes = values.iter().flat_map(|v| v.to_le_bytes()).collect();
            let shape = numbers.shape().to_vec();
            tensors.insert(table.name(row, Dialect::Gguf), Stored { dtype: DType::F32, shape, bytes });
        }
        let mut metadata = Metadata::default();
        models::make::push(
            &mut metadata,
            "general.architecture",
            "string",
            scantling_core::metadata::Value::Text(kind.to_owned()),
        );
        Planted { format: "gguf", metadata, config: None, tensors }
    }

    /// Writes it, and tells where it is.
    pub fn write(&self, folder: &Path) -> PathBuf {
        let specs: Vec<TensorSpec> = self
            .tensors
            .iter()
            .map(|(name, t)| TensorSpec { name: name.clone(), dtype: t.dtype, shape: t.shape.clone() })
            .collect();
        let plan = (format(self.format).plan.unwrap())(&self.metadata, &specs).unwrap();
        let mut file = vec![0; usize::try_from(plan.len).unwrap()];
        file[..plan.header.len()].copy_from_slice(&plan.header);
        for (at, tensor) in plan.offsets.iter().zip(self.tensors.values()) {
            file[usize::try_from(*at).unwrap()..][..tensor.bytes.len()].copy_from_slice(&tensor.bytes);
        }
        fs::create_dir_all(folder).unwrap();
        match &self.config {
            Some(config) => {
                fs::write(folder.join("config.json"), config).unwrap();
                fs::write(folder.join("model.safetensors"), file).unwrap();
                folder.to_owned()
            }
            None => {
                let path = folder.join("model.gguf");
                fs::write(&path, file).unwrap();
                path
            }
        }
    }

    pub fn tensor(&mut self, name: &str) -> &mut Stored {
        self.tensors.get_mut(name).unwrap_or_else(|| panic!("no tensor {name}"))
    }

    pub fn swap(&mut self, a: &str, b: &str) {
        let (one, other) = (self.tensor(a).bytes.clone(), self.tensor(b).bytes.clone());
        self.tensor(a).bytes = other;
        self.tensor(b).bytes = one;
    }
}

impl Stored {
    pub fn values(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.bytes.len() / self.dtype.block_bytes() * self.dtype.block_values()];
        scantling_core::quant::decode(self.dtype, &self.bytes, &mut values).unwrap();
        values
    }

    /// The numbers changed one by one, rounded to the type again.
    pub fn each(&mut self, mut change: impl FnMut(usize, f32) -> f32) {
        let values: Vec<f32> = self.values().into_iter().enumerate().map(|(i, v)| change(i, v)).collect();
        self.put(&values);
    }

    pub fn put(&mut self, values: &[f32]) {
        self.bytes = match self.dtype {
            DType::F32 => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
            DType::BF16 => values.iter().flat_map(|v| half::bf16::from_f32(*v).to_le_bytes()).collect(),
            DType::F16 => values.iter().flat_map(|v| half::f16::from_f32(*v).to_le_bytes()).collect(),
            other => panic!("no {other} is written here"),
        };
    }

    /// Rows in another order: the one in place `i` is the one that was in place `from(i)`.
    pub fn rows(&mut self, from: impl Fn(usize) -> usize) {
        let rows = self.shape[0];
        let width = self.bytes.len() / rows;
        let old = self.bytes.clone();
        for i in 0..rows {
            self.bytes[i * width..][..width].copy_from_slice(&old[from(i) * width..][..width]);
        }
    }
}

/// Numbers around zero that are the same in every run.
pub fn noise(seed: u64) -> impl FnMut() -> f32 {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    move || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f32 / (1u64 << 23) as f32 - 1.0
    }
}
