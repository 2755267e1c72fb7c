//! The suite, over every kernel of this crate that runs here: whoever registers one has it tested.

#![allow(clippy::disallowed_methods)] // Tests read their own files.

mod leaves;

use safetensors::SafeTensors;
use safetensors::tensor::TensorView;
use scantling_core::conformance::{self, Scale};
use scantling_core::dtype::DType;
use scantling_core::kernel::Kernel;
use scantling_core::matrix::Matrix;
use scantling_core::quant;
use scantling_core::tolerance::Judgement;
use std::path::{Path, PathBuf};

/// Under an emulator the quick size, which finds every fault that `tests/mutants` knows.
fn scale() -> Scale {
    match std::env::var_os("SCANTLING_QUICK") {
        Some(_) => Scale::Quick,
        None => Scale::Full,
    }
}

#[test]
fn every_kernel_is_right() {
    let cases = conformance::generated(scale());
    let mut wrong = Vec::new();
    for (_, kernel) in leaves::usable() {
        let start = std::time::Instant::now();
        let rows: Vec<_> = cases.iter().map(|case| conformance::run(case, &*kernel)).collect();
        eprintln!("{}: {} cases in {:.1?}", kernel.name(), rows.len(), start.elapsed());
        wrong.extend(rows.iter().filter(|row| !row.pass).map(|row| format!("{}: {row}", kernel.name())));
    }
    assert!(wrong.is_empty(), "{} cases fail:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}

/// What a plugin says before it is made, and what the kernel says, is one thing.
#[test]
fn plugins_and_kernels_agree_on_name_and_precision() {
    for (plugin, kernel) in leaves::usable() {
        assert_eq!(kernel.name(), plugin.name);
        assert_eq!(
            kernel.precision(),
            plugin.precision,
            "{}: its `impl Kernel` has to override `precision` too",
            plugin.name
        );
    }
}

#[test]
fn given_matrices_are_tried_at_both_ends_under_their_name() {
    /// What the last row starts with: 0.032, as no other does.
    const MARK: [u8; 4] = [1, 2, 3, 61];
    struct Slips;
    impl Kernel for Slips {
        fn name(&self) -> String {
            "slips".into()
        }

        fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
            scantling_core::ops::dot::<f32>(dtype, w, x) + if w[..4] == MARK { 1.0 } else { 0.0 }
        }
    }
    let mut raw = conformance::blocks(DType::F32, 200 * 32, 1);
    raw[199 * 128..][..4].copy_from_slice(&MARK);
    let cases = conformance::given("blk.0.ffn", Matrix::new(DType::F32, 200, 32, &raw).unwrap(), Scale::Full);
    let rows: Vec<_> = cases.iter().map(|case| conformance::run(case, &Slips)).collect();
    let wrong: Vec<_> = rows.iter().filter(|row| !row.pass).collect();
    assert_eq!((rows.len(), wrong.len()), (9, 2));
    for row in wrong {
        assert_eq!(
            (row.op, row.tensor.as_deref(), row.worst.unwrap().col),
            ("matmul", Some("blk.0.ffn"), 47)
        );
        assert!(row.to_string().starts_with("matmul F32 blk.0.ffn "), "{row}");
    }
    let six = Matrix::new(DType::F6_E2M3, 1, 4, &[0; 3]).unwrap();
    assert!(conformance::given("packed", six, Scale::Full).is_empty(), "nothing says how to decode it");
}

/// The golden files: those in the tree, and the whole set where there is one.
fn folders() -> Vec<PathBuf> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/quants");
    let shared = std::env::var_os("SCANTLING_SHARED").map(|shared| Path::new(&shared).join("golden/quants"));
    std::iter::once(tree).chain(shared).collect()
}

/// Decodes from an odd address, and compares bit for bit (any NaN equals any other, and -0 equals 0).
fn decodes(kernel: &dyn Kernel, dtype: DType, raw: &[u8], expected: &[f32]) -> Result<(), String> {
    let mut moved = vec![0];
    moved.extend_from_slice(raw);
    let mut found = vec![12345.0; expected.len()];
    kernel.decode(dtype, &moved[1..], &mut found).map_err(|e| e.to_string())?;
    let judged = Judgement::equal(&found, expected);
    match judged.worst {
        Some(w) if !judged.pass => Err(format!("value {} is {:e}, expected {:e}", w.at, w.found, w.expected)),
        _ => Ok(()),
    }
}

fn values(tensor: &TensorView<'_>) -> Vec<f32> {
    let dtype = dtype(tensor);
    let mut values = vec![0.0; tensor.data().len() / dtype.block_bytes() * dtype.block_values()];
    quant::decode(dtype, tensor.data(), &mut values).unwrap();
    values
}

fn dtype(tensor: &TensorView<'_>) -> DType {
    let name = tensor.dtype().to_string();
    DType::from_safetensors(&name).unwrap_or_else(|| panic!("no element type {name}"))
}

#[test]
fn every_kernel_decodes_the_golden_blocks() {
    let leaves = leaves::usable();
    for folder in folders() {
        let file = std::fs::read(folder.join("dequant.safetensors")).unwrap();
        let file = SafeTensors::deserialize(&file).unwrap();
        let mut kinds = 0;
        for name in file.names() {
            let Some(kind) = name.strip_suffix(".bytes") else { continue };
            let dtype = DType::all().find(|d| Some(d.name()) == kind.split('.').next()).unwrap();
            let expected = values(&file.tensor(&format!("{kind}.f32")).unwrap());
            for (_, kernel) in &leaves {
                let result = decodes(&**kernel, dtype, file.tensor(name).unwrap().data(), &expected);
                result.unwrap_or_else(|e| panic!("{}: {kind}: {e}", kernel.name()));
            }
            kinds += 1;
        }
        assert_eq!(kinds, 3 * DType::all().filter(|d| d.ggml_id().is_some()).count());
    }
}

#[test]
fn every_kernel_decodes_the_golden_tensors() {
    let leaves = leaves::usable();
    for folder in folders() {
        let read = |name: &str| std::fs::read(folder.join(name)).unwrap();
        let (file, expected) = (read("dtypes.safetensors"), read("dtypes.expected.safetensors"));
        let file = SafeTensors::deserialize(&file).unwrap();
        let expected = SafeTensors::deserialize(&expected).unwrap();
        assert!(file.names().len() >= 22);
        for name in file.names() {
            let tensor = file.tensor(name).unwrap();
            let expected = values(&expected.tensor(name).unwrap());
            for (_, kernel) in &leaves {
                let result = decodes(&**kernel, dtype(&tensor), tensor.data(), &expected);
                result.unwrap_or_else(|e| panic!("{}: {name}: {e}", kernel.name()));
            }
        }
    }
}
