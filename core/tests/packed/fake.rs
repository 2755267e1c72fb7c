//! A checkpoint in memory, made of single tensors.

use scantling_core::bundle::File;
use scantling_core::config::Config;
use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Finding, Findings, Severity};
use scantling_core::index::{Declared, ElementType, Rules, Shard, TensorIndex, TensorInfo};
use scantling_core::metadata::Metadata;
use scantling_core::packed::unpack;
use scantling_core::source::{Dialect, WeightSource};
use std::borrow::Cow;
use std::sync::Arc;

/// A stored tensor.
#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    pub dtype: DType,
    pub shape: Vec<u64>,
    pub bytes: Vec<u8>,
}

/// Tensors and the `quantization_config` beside them.
#[derive(Clone, Default)]
pub struct Checkpoint {
    pub said: String,
    pub tensors: Vec<Tensor>,
}

impl Checkpoint {
    pub fn new(said: &str) -> Checkpoint {
        Checkpoint { said: said.to_owned(), tensors: Vec::new() }
    }

    pub fn with(mut self, name: &str, dtype: DType, shape: &[usize], bytes: Vec<u8>) -> Checkpoint {
        let shape = shape.iter().map(|d| *d as u64).collect();
        self.tensors.push(Tensor { name: name.to_owned(), dtype, shape, bytes });
        self
    }

    pub fn without(mut self, name: &str) -> Checkpoint {
        self.tensors.retain(|t| t.name != name);
        self
    }

    /// Changes one tensor.
    pub fn edit(mut self, name: &str, change: impl FnOnce(&mut Tensor)) -> Checkpoint {
        change(self.tensors.iter_mut().find(|t| t.name == name).unwrap());
        self
    }

    /// Another description.
    pub fn saying(mut self, said: &str) -> Checkpoint {
        self.said = said.to_owned();
        self
    }

    /// As a program sees it.
    pub fn open(&self) -> Box<dyn WeightSource> {
        let mut data = Vec::new();
        let mut declared = Vec::new();
        for tensor in &self.tensors {
            let start = data.len() as u64;
            data.extend_from_slice(&tensor.bytes);
            declared.push(Declared {
                name: tensor.name.clone(),
                dtype: ElementType::Known(tensor.dtype),
                shape: tensor.shape.clone(),
                start,
                end: Some(data.len() as u64),
                shard: 0,
                entry_at: 0,
            });
        }
        let file = Arc::new(File::from_bytes("made.safetensors", data));
        let mut findings = Findings::new();
        let rules = Rules { gap: Severity::Error, trailing: Severity::Error, alignment: 1 };
        let shards = [Shard { file: file.clone(), data_start: 0 }];
        let index = TensorIndex::new(&shards, declared, &rules, &mut findings);
        let config = format!("{{\"model_type\": \"none\", \"quantization_config\": {}}}", self.said);
        unpack(Box::new(Source {
            files: vec![file],
            index,
            config,
            metadata: Metadata::default(),
            findings: findings.into_vec(),
        }))
    }

    /// The whole of a weight.
    #[track_caller]
    pub fn decoded(&self, name: &str) -> Vec<f32> {
        let source = self.open();
        let info = source.tensors().get(name).unwrap_or_else(|| panic!("{name} is not listed"));
        let packed = source.packed(info).unwrap().unwrap_or_else(|| panic!("{name} is not packed"));
        assert_eq!(info.elements() as usize, packed.rows() * packed.cols());
        let mut out = vec![f32::NAN; packed.rows() * packed.cols()];
        packed.widen(0, &mut out);
        // Any window of rows is the same numbers.
        for first in 0..packed.rows() {
            for count in 1..=(packed.rows() - first).min(3) {
                let mut some = vec![f32::NAN; count * packed.cols()];
                packed.widen(first, &mut some);
                let whole = &out[first * packed.cols()..][..some.len()];
                assert!(
                    some.iter().zip(whole).all(|(a, b)| a.to_bits() == b.to_bits()),
                    "rows {first}+{count}"
                );
            }
        }
        out
    }

    /// Everything that is wrong with a weight.
    pub fn faults(&self, name: &str) -> Vec<Finding> {
        let source = self.open();
        let info = source.tensors().get(name).unwrap_or_else(|| panic!("{name} is not listed"));
        match source.packed(info) {
            Ok(Some(_)) => Vec::new(),
            Ok(None) => panic!("{name} is not packed"),
            Err(Error::Malformed { findings }) => findings,
            Err(other) => panic!("{other}"),
        }
    }
}

struct Source {
    files: Vec<Arc<File>>,
    index: TensorIndex,
    config: String,
    metadata: Metadata,
    findings: Vec<Finding>,
}

impl WeightSource for Source {
    fn format(&self) -> String {
        "made up".into()
    }

    fn dialect(&self) -> Dialect {
        Dialect::Hf
    }

    fn files(&self) -> &[Arc<File>] {
        &self.files
    }

    fn tensors(&self) -> &TensorIndex {
        &self.index
    }

    fn bytes(&self, tensor: &TensorInfo) -> Result<Cow<'_, [u8]>> {
        match tensor.bytes.clone() {
            Some(range) => self.files[tensor.shard].bytes(range).map(Cow::Borrowed),
            None => Err(Error::Usage("its bytes are not there".into())),
        }
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn config(&self) -> Result<Option<Config>> {
        Config::from_json("config.json", self.config.as_bytes()).map(Some)
    }

    fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn beside(&self, _: &str) -> Result<Option<File>> {
        Ok(None)
    }
}

/// Numbers that look random and are the same everywhere.
pub struct Numbers(pub u64);

impl Numbers {
    pub fn draw(&mut self) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() % n as u64) as usize
    }

    pub fn bytes(&mut self, n: usize) -> Vec<u8> {
        (0..n).map(|_| self.draw() as u8).collect()
    }

    /// Between -2 and 2, of few enough bits for an f16.
    pub fn float(&mut self) -> f32 {
        (self.below(4001) as f32 - 2000.0) / 1024.0
    }

    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| self.float()).collect()
    }
}

pub fn f32s(values: &[f32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

pub fn words(values: &[u32]) -> Vec<u8> {
    values.iter().flat_map(|x| x.to_le_bytes()).collect()
}

/// What the numbers are, computed in f64 and rounded once where an f32 would.
#[track_caller]
pub fn same(found: &[f32], expected: impl Fn(usize) -> f64) {
    for (i, x) in found.iter().enumerate() {
        let wanted = expected(i) as f32;
        assert!(*x == wanted || x.is_nan() && wanted.is_nan(), "element {i}: {x} instead of {wanted}");
    }
}
