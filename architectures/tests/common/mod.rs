//! What the tests of forward passes share.

#![allow(dead_code, reason = "each test program uses some of it")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

use scantling_architectures as _;
use scantling_core::cache::KvType;
use scantling_core::check::Request;
use scantling_core::kernel::{Kernel, Options as KernelOptions};
use scantling_core::model::{Model, Options, Session};
use scantling_core::registry::{Registry, Work};
use scantling_formats as _;
use scantling_kernels as _;
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

/// How far an exact kernel may be from logits that were computed in f64.
pub const EXACT: f64 = 2e-5;

pub fn registry() -> Registry {
    Registry::linked().unwrap()
}

/// A file or folder of the repository's test data.
pub fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(name)
}

/// The folder of the whole set of goldens; says so if there is none.
pub fn goldens() -> Option<PathBuf> {
    let folder = std::env::var_os("SCANTLING_SHARED").map(|shared| PathBuf::from(shared).join("golden"));
    if folder.is_none() {
        println!("skipped: SCANTLING_SHARED is not set");
    }
    folder
}

pub fn json(path: &Path) -> Json {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

pub fn load(path: &Path) -> Model {
    Model::load(&registry(), path, &Request::default()).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

pub fn session<'m>(model: &'m Model, kernel: &'m dyn Kernel, context: usize, batch: usize) -> Session<'m> {
    Session::new(model, kernel, Options { context, kv: KvType::F32, batch }).unwrap()
}

/// Every exact leaf that runs here, alone and spread over three threads.
pub fn kernels() -> Vec<Box<dyn Kernel>> {
    let registry = registry();
    let exact = registry.usable_leaves().filter(|k| k.precision == scantling_core::kernel::Precision::Exact);
    let specs: Vec<String> = exact.flat_map(|k| [k.name.to_owned(), format!("rayon+{}", k.name)]).collect();
    let make = |spec: &String| registry.kernel(spec, Work::Exact, &KernelOptions { threads: 3 }).unwrap();
    specs.iter().map(make).collect()
}

pub fn numbers(json: &Json) -> Vec<f64> {
    json.as_array().unwrap().iter().map(|x| x.as_f64().unwrap()).collect()
}

pub fn ids(json: &Json) -> Vec<u32> {
    json.as_array().unwrap().iter().map(|x| u32::try_from(x.as_u64().unwrap()).unwrap()).collect()
}

pub fn argmax(row: &[f32]) -> u32 {
    let best = (0..row.len()).reduce(|best, i| if row[i] > row[best] { i } else { best });
    u32::try_from(best.unwrap()).unwrap()
}

pub fn logsumexp(row: &[f32]) -> f64 {
    let top = row.iter().copied().fold(f32::MIN, f32::max);
    let sum: f64 = row.iter().map(|x| f64::from(x - top).exp()).sum();
    f64::from(top) + sum.ln()
}

/// The largest distance, and where.
pub fn farthest(found: &[f32], expected: &[f64]) -> (f64, usize) {
    assert_eq!(found.len(), expected.len());
    let distances = found.iter().zip(expected).map(|(a, b)| (f64::from(*a) - b).abs());
    let distance = |(i, d): (usize, f64)| (if d.is_nan() { f64::INFINITY } else { d }, i);
    distances.enumerate().map(distance).fold((0.0, 0), |a, b| if b.0 > a.0 { b } else { a })
}
