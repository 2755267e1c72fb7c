//! The kernel: chosen by name, listed, right by the same suite as scantling's own, and measured.

use crate::model;
use scantling_core::dtype::DType;
use scantling_core::kernel::{Kernel, Options};
use scantling_core::matrix::{Matrix, Rows, RowsBuf};
use scantling_core::ops::Linear;
use scantling_core::registry::{Registry, Work};
use std::process::Command;

/// What the program prints, and its exit code.
fn custom(arguments: &[&str]) -> (String, i32) {
    let output = Command::new(env!("CARGO_BIN_EXE_custom")).args(arguments).output().unwrap();
    let printed = [output.stdout, output.stderr].concat();
    (String::from_utf8(printed).unwrap(), output.status.code().unwrap())
}

fn kernel(name: &str) -> Box<dyn Kernel> {
    Registry::linked().unwrap().kernel(name, Work::Exact, &Options::default()).unwrap()
}

#[test]
fn it_is_listed() {
    let (printed, code) = custom(&["kernels", "list"]);
    assert_eq!(code, 0, "{printed}");
    assert!(printed.lines().any(|l| l.starts_with("widedot") && l.contains("yes")), "{printed}");
}

/// The sums of `dot` differ from scalar's in their last bits; a product has those of `dot`.
#[test]
fn a_matmul_is_made_of_its_dots() {
    let (rows, cols) = (7, 403);
    let number = |i: usize| ((i * 7919 % 2003) as f32 / 1000.0 - 1.0) * 1.1;
    let raw: Vec<u8> = (0..rows * cols).flat_map(|i| number(i).to_le_bytes()).collect();
    let x: Vec<f32> = (0..2 * cols).map(|i| number(3 * i + 1)).collect();
    let (w, x) = (Matrix::new(DType::F32, rows, cols, &raw).unwrap(), Rows::new(&x, 2, cols));
    let [widedot, scalar] = ["widedot", "scalar"].map(kernel);
    let product = |kernel: &dyn Kernel| {
        let mut out = RowsBuf::zeros(2, rows);
        kernel.matmul(Linear::plain(w), x, out.view_mut());
        out.data().to_vec()
    };
    let dots: Vec<f32> = x
        .iter()
        .flat_map(|x| (0..rows).map(|o| widedot.dot(DType::F32, w.row(o), x)).collect::<Vec<_>>())
        .collect();
    assert_eq!(product(&*widedot), dots);
    assert_ne!(product(&*scalar), dots, "another order of summing gives other bits somewhere");
}

#[test]
fn it_is_right() {
    let (printed, code) = custom(&["kernels", "check", "--quick", "--kernel", "widedot,rayon+widedot"]);
    assert_eq!(code, 0, "{printed}");
    for name in ["✓ widedot", "✓ rayon+widedot", "every kernel computes what the ops mean"] {
        assert!(printed.contains(name), "{name}\n{printed}");
    }
}

#[test]
fn it_is_measured_on_a_model() {
    let folder = tempfile::tempdir().unwrap();
    let tensors = vec![("wide.weight".to_owned(), vec![512, 2048])];
    model::write(folder.path(), "model.safetensors", &model::safetensors(&tensors));
    let at = folder.path().to_str().unwrap();
    let (printed, code) =
        custom(&["kernels", "bench", at, "--quick", "--kernel=scalar,widedot", "--op=matmul", "--csv"]);
    assert_eq!(code, 0, "{printed}");
    let lines: Vec<Vec<&str>> = printed.lines().map(|l| l.split(',').collect()).collect();
    let column = |name: &str| lines[0].iter().position(|c| *c == name).unwrap();
    let rows: Vec<_> = lines.iter().filter(|l| l[column("kernel")] == "widedot").collect();
    assert_eq!(rows.len(), 2, "one row and 512\n{printed}");
    for row in rows {
        let ratio: f64 = row[column("ratio")].parse().unwrap();
        assert!(ratio > 0.0);
        println!("widedot is {ratio:.2} times as fast as scalar at {} rows", row[column("rows")]);
    }
}
