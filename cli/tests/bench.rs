//! `bench`: what is measured of a whole model, and what cannot be.

mod common;

use common::{Run, run_in, valid};
use std::path::Path;

fn bench(model: &str, args: &[&str]) -> Run {
    let model = Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(model);
    let args = [&["bench", model.to_str().unwrap(), "-r", "2"], args].concat();
    run_in(Path::new("."), &args)
}

#[test]
fn both_formats_are_measured_with_every_kernel_asked_for() {
    for model in ["qwen3-tiny", "qwen3-tiny.gguf", "qwen3-q4_k_m.gguf"] {
        let run = bench(
            model,
            &["-p", "9", "-n", "4", "--kernel", "scalar,fast,profile+exact", "--depth", "3", "--json"],
        );
        assert_eq!(run.code, 0, "{}", run.err);
        let document = valid(&run);
        let runs = document["runs"].as_array().unwrap();
        assert_eq!(runs.len(), 3);
        for measured in runs {
            let tests: Vec<&str> =
                measured["tests"].as_array().unwrap().iter().map(|t| t["test"].as_str().unwrap()).collect();
            assert_eq!(tests, ["pp9@3", "tg4@3"]);
            let first = &measured["tests"][0];
            assert!(first["tokens_per_second"].as_f64().unwrap() > 0.0);
            let read = first["read_gb_per_s"].as_f64().unwrap();
            assert!((0.01..1e4).contains(&read), "{read} GB/s");
        }
        assert_eq!((&runs[0]["kernel"], &runs[0]["kv_type"]), (&"scalar".into(), &"F32".into()));
        let report = runs[2]["report"].as_array().unwrap();
        assert!(report.iter().any(|line| line.as_str().unwrap().contains("matmul")), "{report:?}");
    }
}

#[test]
fn what_cannot_be_measured_is_told() {
    let nothing = bench("qwen3-tiny", &["-p", "0", "-n", "0"]);
    assert!(nothing.code == 2 && nothing.err.contains("-p and -n are both 0"), "{}", nothing.err);
    let huge = bench("qwen3-tiny", &["--depth", "88888888888888"]);
    assert!(huge.code == 2 || huge.code == 3, "{} {}", huge.code, huge.err);
    assert!(huge.err.contains("context of 88"), "{}", huge.err);
    let lost = bench("no-such-model", &[]);
    assert_eq!(lost.code, 3, "{}", lost.err);
}
