//! `kernels`: what is listed, what a check says and how it exits, what a bench measures and compares.
#![allow(clippy::disallowed_methods)] // tests write the files they look at

mod common;

use common::{Run, folder, program, run_in};
use serde_json::Value;
use std::path::Path;

fn here(args: &[&str]) -> Run {
    run_in(Path::new("."), &[&["kernels"], args].concat())
}

fn parsed(run: &Run) -> Value {
    serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}\n{}\n{}", run.out, run.err))
}

/// The document, held to the schema.
fn valid(run: &Run) -> Value {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    let schema = jsonschema::draft202012::new(&schema).unwrap();
    let document = parsed(run);
    let faults: Vec<String> =
        schema.iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:?}\n{document:#}");
    document
}

/// A bench that takes a moment: one kernel, one element type, one op.
const MOMENT: [&str; 7] =
    ["bench", "--quick", "--kernel=scalar", "--type=Q8_0", "--op=decode", "--json", "--color=never"];

#[test]
fn the_list_says_what_each_kernel_is() {
    let document = valid(&here(&["list", "--json"]));
    let kernels = document["kernels"].as_array().unwrap();
    let scalar = kernels.iter().find(|k| k["name"] == "scalar").unwrap();
    assert_eq!((&scalar["usable"], &scalar["kind"]), (&true.into(), &"leaf".into()));
    for work in ["exact", "fast"] {
        let is = |k: &&Value| k["auto"].as_array().unwrap().iter().any(|w| w == work);
        let chosen: Vec<&Value> = kernels.iter().filter(is).collect();
        assert_eq!(chosen.len(), 1, "auto is one kernel for {work}");
        let better = |k: &&Value| k["usable"] == true && k["rank"].as_u64() > chosen[0]["rank"].as_u64();
        let better = kernels.iter().filter(better).filter(|k| work == "fast" || k["activations"] == "f32");
        assert_eq!(better.count(), 0, "{work}");
    }
    let plugins = parsed(&run_in(Path::new("."), &["plugins", "--json"]));
    assert_eq!(plugins["kernels"], document["kernels"], "the same facts");

    let text = here(&["list"]).out;
    for name in kernels.iter().map(|k| k["name"].as_str().unwrap()) {
        assert!(text.lines().any(|l| l.starts_with(name)), "{name} is not in\n{text}");
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_what_can() {
    let cases: [(&[&str], &str); 10] = [
        (&["check", "--kernel", "avx9"], "unknown kernel \"avx9\"; known: auto, exact, fast, "),
        (&["check", "--kernel", "scalar+scalar"], "is no wrapper"),
        (&["bench", "--kernel", "rayon"], "rayon+LEAF"),
        (&["bench", "--against", "avx9"], "unknown kernel \"avx9\""),
        (&["bench", "--type", "Q4"], "no element type of that name; known: F32, F16"),
        (&["bench", "--op", "matmull"], "matmul"),
        (&["bench", "--type", "F6_E2M3", "--op", "matmul"], "nothing to measure"),
        (&["bench", "--threads", "many"], "expected a whole number from 0 to 1024"),
        (&["bench", "--threads", "1025"], "expected a whole number from 0 to 1024"),
        (&["nonesuch"], "unrecognized subcommand"),
    ];
    for (args, told) in cases {
        let run = here(args);
        assert_eq!(run.code, 2, "{args:?}\n{}", run.err);
        assert!(run.err.contains(told), "{args:?}\n{}", run.err);
    }
    let absent = here(&["bench", "--baseline", "absent.json"]);
    assert_eq!(absent.code, 3, "{}", absent.err);
    let env =
        program().args(["kernels", "check", "--quick"]).env("SCANTLING_KERNEL", "avx9").output().unwrap();
    assert_eq!(env.status.code(), Some(2));
}

#[test]
fn every_kernel_is_right_on_made_up_tensors() {
    let run = here(&["check", "--quick", "--json"]);
    let document = valid(&run);
    assert_eq!((run.code, &document["ok"]), (0, &true.into()), "{:#}", document["misses"]);
    let rows = document["rows"].as_array().unwrap();
    let has = |op: &str, dtype: &str| rows.iter().any(|r| r["op"] == op && r["type"] == dtype);
    assert!(has("matmul", "Q4_K") && has("decode", "IQ1_M") && has("embed", "BF16"));
    let usable = parsed(&here(&["list", "--json"]));
    let leaves =
        usable["kernels"].as_array().unwrap().iter().filter(|k| k["usable"] == true && k["kind"] == "leaf");
    for leaf in leaves.map(|k| k["name"].as_str().unwrap()) {
        for name in [leaf.to_owned(), format!("rayon+{leaf}")] {
            assert!(rows.iter().any(|r| r["kernel"] == name.as_str()), "{name} was not checked");
        }
    }
}

#[test]
fn a_model_is_checked_on_its_own_tensors() {
    let folder = folder();
    let run = run_in(folder.path(), &["kernels", "check", "good", "--quick", "--kernel", "auto", "--json"]);
    let document = valid(&run);
    assert_eq!(run.code, 0, "{document:#}");
    // 14 roles, of which those within the two layers come twice.
    assert_eq!(
        document["tensors"],
        serde_json::json!({"tried": 25, "usable": 25, "all": 25, "unreadable": []})
    );
    assert!(document["model"]["bytes"].as_u64().unwrap() > 2432 * 4);
    let text = run_in(folder.path(), &["kernels", "check", "good", "--quick", "--kernel", "scalar"]).out;
    assert!(text.starts_with("mapped "), "{text}");
    assert!(
        text.contains("✓ scalar") && text.contains("nothing missed with this model's types and shapes"),
        "{text}"
    );
    let absent = run_in(folder.path(), &["kernels", "check", "absent"]);
    assert!(absent.code == 3 && absent.err.contains("absent"), "{}", absent.err);
}

#[test]
fn a_model_that_cannot_be_read_whole_does_not_pass() {
    let folder = tempfile::tempdir().unwrap();
    let whole =
        std::fs::read(Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/llama-tiny.gguf")).unwrap();
    let cut = folder.path().join("cut.gguf");
    std::fs::write(&cut, &whole[..whole.len() * 3 / 4]).unwrap();
    let file = cut.to_str().unwrap();
    let args = ["check", file, "--quick", "--kernel", "scalar"];
    let document = valid(&here(&[&args[..], &["--json"]].concat()));
    assert!(!document["tensors"]["unreadable"].as_array().unwrap().is_empty(), "{document:#}");
    assert_eq!(document["ok"], false);
    let run = here(&args);
    assert_eq!(run.code, 1, "{}", run.out);
    assert!(
        run.out.contains("the files do not hold") && run.out.contains("the model is damaged"),
        "{}",
        run.out
    );
}

#[test]
fn a_bench_says_how_fast_and_against_what() {
    let document = valid(&here(&MOMENT));
    let [row] = document["bench"].as_array().unwrap().as_slice() else { panic!("{document:#}") };
    assert_eq!(
        (&row["kernel"], &row["op"], &row["type"]),
        (&"scalar".into(), &"decode".into(), &"Q8_0".into())
    );
    assert_eq!((&row["ratio"], &row["limit"]), (&1.0.into(), &"copy".into()));
    let number = |value: &Value| value.as_f64().unwrap_or_else(|| panic!("{value}"));
    let time = &row["seconds"];
    assert!(number(&time["first_quartile"]) <= number(&time["median"]));
    assert!(number(&time["median"]) <= number(&time["third_quartile"]));
    assert!(time["repetitions"].as_u64().unwrap() >= 5);
    // What is told follows from what was measured.
    let gb = number(&row["bytes"]) / number(&time["median"]) / 1e9;
    assert!((number(&row["gb_per_s"]) / gb - 1.0).abs() < 1e-9);
    // A copy reads as much as it writes.
    let moved = (number(&row["bytes"]) + 4.0 * 4096.0 * 4096.0) / 2.0;
    let limit = moved / (number(&row["copy_gb_per_s"]) * 1e9);
    assert!((number(&row["share"]) - limit / number(&time["median"])).abs() < 1e-9);
}

#[test]
fn products_are_measured_at_the_shapes_of_a_model() {
    let folder = folder();
    let args = ["kernels", "bench", "good", "--quick", "--kernel=scalar", "--op=matmul", "--json"];
    let document = valid(&run_in(folder.path(), &args));
    let rows = document["bench"].as_array().unwrap();
    let shape = |r: &Value| [&r["outputs"], &r["inputs"], &r["rows"]].map(|n| n.as_u64().unwrap());
    let mut shapes: Vec<_> = rows.iter().map(shape).collect();
    shapes.sort_unstable();
    let wanted = [[8, 20], [8, 24], [12, 8], [16, 8], [20, 8], [24, 8]];
    let wanted: Vec<[u64; 3]> = wanted.iter().flat_map(|[o, i]| [[*o, *i, 1], [*o, *i, 512]]).collect();
    assert_eq!(shapes, wanted);
}

#[test]
fn a_slowdown_beyond_noise_fails() {
    let folder = folder();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let mut document = valid(&here(&MOMENT));
    let write = |name: &str, document: &Value| std::fs::write(path(name), document.to_string()).unwrap();
    let against = |name: &str| {
        let file = path(name);
        here(&[&MOMENT[..], &["--baseline", &file]].concat())
    };
    let scale = |document: &mut Value, factor: f64| {
        for key in ["median", "first_quartile", "third_quartile"] {
            let time = &mut document["bench"][0]["seconds"][key];
            *time = (time.as_f64().unwrap() * factor).into();
        }
    };
    // Far more than what differs from run to run, on the busiest of machines.
    scale(&mut document, 1e-3);
    write("fast.json", &document);
    let run = against("fast.json");
    let told = valid(&run);
    assert_eq!((run.code, told["baseline"]["slower"].as_array().unwrap().len()), (1, 1), "{told:#}");
    assert!(told["baseline"]["slower"][0]["factor"].as_f64().unwrap() > 10.0);

    scale(&mut document, 1e6);
    write("slow.json", &document);
    let run = against("slow.json");
    let told = valid(&run);
    assert_eq!((run.code, &told["baseline"]["faster"]), (0, &1.into()), "{told:#}");

    // As much as the spread of the earlier run allows is no slowdown.
    scale(&mut document, 1e-6);
    document["bench"][0]["seconds"]["third_quartile"] = 1e5.into();
    write("noisy.json", &document);
    assert_eq!(against("noisy.json").code, 0);

    document["bench"][0]["op"] = "matmul".into();
    write("other.json", &document);
    let run = against("other.json");
    assert_eq!(run.code, 2, "{}", run.out);
    assert!(run.err.contains("no row in common"), "{}", run.err);
    std::fs::write(path("list.json"), here(&["list", "--json"]).out).unwrap();
    for (key, value) in
        [("third_quartile", 1e300), ("median", 0.0), ("median", 5e-324), ("first_quartile", -1.0)]
    {
        let mut hostile = valid(&here(&MOMENT));
        hostile["bench"][0]["seconds"][key] = value.into();
        write("hostile.json", &hostile);
        let run = against("hostile.json");
        assert!(run.code == 2 && run.err.contains("bench[0]"), "{key} {value}: {}", run.err);
    }
    let run = against("list.json");
    assert!(run.code == 2 && run.err.contains("no output of kernels bench --json"), "{}", run.err);
}

#[test]
fn what_is_named_twice_is_measured_once() {
    let document = valid(&here(&[&MOMENT[..], &["--type=Q8_0"]].concat()));
    assert_eq!(document["bench"].as_array().unwrap().len(), 1, "{document:#}");
}

#[test]
fn csv_has_a_name_for_each_column() {
    let args: Vec<&str> = MOMENT.iter().copied().filter(|a| *a != "--json").chain(["--csv"]).collect();
    let run = here(&args);
    let lines: Vec<Vec<&str>> = run.out.lines().map(|l| l.split(',').collect()).collect();
    assert_eq!(lines.len(), 2, "{}", run.out);
    assert_eq!(lines[0][..7], ["op", "type", "rows", "inputs", "outputs", "kernel", "threads"]);
    assert_eq!(lines[0].len(), lines[1].len());
    assert_eq!(lines[1][..7], ["decode", "Q8_0", "4096", "4096", "4096", "scalar", "1"]);
    let at = |name: &str| lines[1][lines[0].iter().position(|c| *c == name).unwrap()];
    assert!(at("median_s").parse::<f64>().unwrap() > 0.0 && at("gb_per_s").parse::<f64>().unwrap() > 0.0);
}

#[test]
fn tables_put_ratios_first() {
    let args: Vec<&str> = MOMENT.iter().copied().filter(|a| *a != "--json").collect();
    let run = here(&args);
    assert_eq!(run.code, 0, "{}", run.err);
    let heads = run.out.lines().find(|l| l.contains("RATIO")).unwrap();
    assert!(heads.trim_start().starts_with("RATIO  SHARE"), "{heads}");
    assert!(run.out.contains("made-up weights") || !cfg!(target_os = "linux"), "{}", run.out);
    let row = run.out.lines().find(|l| l.contains("1.00×")).unwrap();
    assert!(row.contains("Q8_0") && row.contains("scalar"), "{row}");
}

#[test]
fn what_a_kernel_has_to_say_is_shown() {
    let run = here(&["check", "--quick", "--kernel", "profile+scalar", "--json"]);
    let document = valid(&run);
    let report = document["checked"][0]["report"].as_array().unwrap();
    assert!(report.iter().any(|line| line.as_str().unwrap().contains("matmul")), "{report:?}");
}

#[test]
fn help_tells_of_every_option() {
    for command in ["check", "bench"] {
        let help = here(&[command, "--help"]).out;
        for word in ["--kernel", "SCANTLING_KERNEL", "--threads", "SCANTLING_THREADS", "--json", "Examples:"]
        {
            assert!(help.contains(word), "{command}: {word}\n{help}");
        }
    }
    let help = here(&["bench", "--help"]).out;
    for word in ["--baseline", "--against", "--op", "--type", "--csv", "--quick", "interquartile"] {
        assert!(help.contains(word), "{word}\n{help}");
    }
}
