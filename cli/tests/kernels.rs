//! `kernels`: what is listed, what a check says and how it exits, what a bench measures and compares.
#![allow(clippy::disallowed_methods)] // tests write the files they look at

mod common;

use common::{CONFIG, Run, Tensor, folder, model, program, qwen3, run_in, valid};
use serde_json::Value;
use std::path::Path;

fn here(args: &[&str]) -> Run {
    run_in(Path::new("."), &[&["kernels"], args].concat())
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
    let plugins = valid(&run_in(Path::new("."), &["plugins", "--json"]));
    assert_eq!(plugins["kernels"], document["kernels"], "the same facts");

    let text = here(&["list"]).out;
    for name in kernels.iter().map(|k| k["name"].as_str().unwrap()) {
        assert!(text.lines().any(|l| l.starts_with(name)), "{name} is not in\n{text}");
    }
}

#[test]
fn what_cannot_be_run_is_refused_with_what_can() {
    let cases: [(&[&str], &str); 13] = [
        (&["check", "--kernel", "avx9"], "unknown kernel \"avx9\"; known: auto, exact, fast, "),
        (&["check", "--kernel", "scalar+scalar"], "is no wrapper"),
        (&["bench", "--kernel", "rayon"], "rayon+LEAF"),
        (&["bench", "--kernel", "rayon+"], "write rayon+LEAF, such as rayon+exact"),
        (
            &["bench", "--kernel", "auto+scalar"],
            "auto is a whole kernel and can only stand last: write scalar or auto alone",
        ),
        (&["check", "--kernel", "rayon+rayon+scalar"], "write rayon+scalar"),
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
    let usable = valid(&here(&["list", "--json"]));
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
        serde_json::json!({
            "tried": 25, "sampled": 25, "narrowed": 0, "usable": 25, "all": 25, "unreadable": []
        })
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

    let refused = |name: &str, told: &str| {
        let run = against(name);
        assert_eq!((run.code, run.out.as_str()), (2, ""), "{}", run.err);
        assert!(run.err.contains(told), "{}", run.err);
    };
    document["model"] = serde_json::json!({"path": "a.gguf", "bytes": 7});
    write("model.json", &document);
    refused("model.json", "measured with a.gguf of 7 bytes, this run is with made-up weights");
    document["model"] = Value::Null;
    document["bench"][0]["op"] = "matmul".into();
    write("other.json", &document);
    refused("other.json", "no row in common");
    document["schema_version"] = 2.into();
    write("later.json", &document);
    refused("later.json", "has schema_version 2, but this program compares 1");
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
fn csv_leaves_what_there_is_to_say_to_standard_error() {
    let folder = folder();
    let file = folder.path().join("before.json");
    let moment = |form: &'static str| -> Vec<&str> {
        let rest = MOMENT.iter().copied().filter(|a| *a != "--json" && *a != "--kernel=scalar");
        rest.chain(["--kernel=profile+scalar", form]).collect()
    };
    std::fs::write(&file, here(&moment("--json")).out).unwrap();
    let run = here(&[&moment("--csv")[..], &["--baseline", file.to_str().unwrap()]].concat());
    assert_eq!(run.out.lines().count(), 2, "{}", run.out);
    assert!(run.err.contains("profile: decode Q8_0"), "{}", run.err);
    assert!(run.err.contains("baseline: 1 row compared, "), "{}", run.err);
}

#[test]
fn kernels_that_watch_name_the_tensors() {
    let folder = folder();
    for args in [["check", "good"], ["bench", "good"]] {
        let rest = ["--quick", "--kernel=profile+scalar", "--json"];
        let run = run_in(folder.path(), &[&["kernels"], &args[..], &rest].concat());
        let document = valid(&run);
        let report =
            document["checked"][0]["report"].as_array().or(document["reports"][0]["lines"].as_array());
        let lines: Vec<&str> = report.unwrap().iter().map(|line| line.as_str().unwrap()).collect();
        let wanted = "matmul model.layers.*.mlp.down_proj.weight F32 [8, 20]";
        assert!(lines.iter().any(|line| line.contains(wanted)), "{args:?}: {lines:#?}");
    }
}

#[test]
fn weights_that_are_not_finite_are_compared_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = qwen3();
    // In the first row of the first layer's down projection, and beyond f32 once it is summed.
    let at = tensors.iter().position(|t| t.name == "model.layers.0.mlp.down_proj.weight").unwrap();
    tensors[at].bytes[..4].copy_from_slice(&f32::NAN.to_le_bytes());
    tensors[at].bytes[80..84].copy_from_slice(&f32::INFINITY.to_le_bytes());
    for i in 40..60 {
        tensors[at].bytes[4 * i..4 * i + 4].copy_from_slice(&3e38f32.to_le_bytes());
    }
    model(folder.path(), "holes", &tensors, Some(CONFIG));
    let run = run_in(folder.path(), &["kernels", "check", "holes", "--json"]);
    let document = valid(&run);
    assert_eq!((run.code, &document["ok"]), (0, &true.into()), "{:#}", document["misses"]);
    let rows = document["rows"].as_array().unwrap();
    let of = |op: &str| {
        let row = rows.iter().find(|r| r["kernel"] == "scalar" && r["op"] == op && r["type"] == "F32");
        row.unwrap()["not_finite"].as_u64().unwrap()
    };
    // NaN, infinity and overflow in three of eight outputs, for 1 and 8 rows; one NaN and one infinity gathered.
    assert_eq!((of("matmul"), of("embed")), (27, 2), "{rows:#?}");
    let text = run_in(folder.path(), &["kernels", "check", "holes", "--quick", "--kernel", "scalar"]);
    let told = "with the model's weights not finite, such as of model.layers.0.mlp.down_proj.weight";
    assert!(text.code == 0 && text.out.contains(told), "{}", text.out);
}

#[test]
fn widths_of_a_hostile_config_are_refused_with_what_they_take() {
    let folder = tempfile::tempdir().unwrap();
    let config = CONFIG.replace("\"head_dim\": 6", "\"head_dim\": 9007199254740993");
    let config = config.replace("\"hidden_size\": 8", "\"hidden_size\": 1152921504606846976");
    model(folder.path(), "wide", &qwen3(), Some(&config));
    let bench = |op: &str| {
        run_in(folder.path(), &["kernels", "bench", "wide", "--quick", "--kernel=scalar", "--json", op])
    };
    for op in ["--op=rms-norm", "--op=rope", "--op=attention"] {
        let run = bench(op);
        assert_eq!(run.code, 2, "{op}: {}", run.err);
        for told in ["takes ", "widths of the config", "half of the free memory is ", "--op"] {
            assert!(run.err.contains(told), "{op}: {}", run.err);
        }
    }
    let document = valid(&bench("--op=matmul,rope"));
    assert_eq!(document["left_out"].as_array().unwrap().len(), 2, "{document:#}");
    assert_eq!(document["bench"].as_array().unwrap().len(), 12);
}

#[test]
fn a_model_of_very_many_tensors_takes_no_longer_than_others() {
    let folder = tempfile::tempdir().unwrap();
    let many: Vec<Tensor> = (0..20_000).map(|i| Tensor::new(&format!("t{i}x"), &[2, 1 + i % 300])).collect();
    model(folder.path(), "many", &many, None);
    let run = run_in(folder.path(), &["kernels", "check", "many", "--quick", "--kernel=scalar", "--json"]);
    let tensors = &valid(&run)["tensors"];
    assert_eq!((&tensors["tried"], &tensors["sampled"]), (&256.into(), &20_000.into()), "{}", run.err);
    let args = ["kernels", "bench", "many", "--quick", "--kernel=scalar", "--op=decode", "--json"];
    let document = valid(&run_in(folder.path(), &args));
    assert_eq!(document["bench"].as_array().unwrap().len(), 24);
    let told = "276 of the model's 300 shapes: the 24 with most bytes are measured (--type names others)";
    assert_eq!(document["left_out"], serde_json::json!([told]));
}

#[test]
fn ascii_is_ascii() {
    let bench: Vec<&str> = MOMENT.iter().copied().filter(|a| *a != "--json").chain(["--ascii"]).collect();
    let profile = ["check", "--quick", "--kernel=profile+scalar", "--full", "--ascii"];
    let all: [&[&str]; 5] =
        [&bench, &profile, &["list", "--ascii"], &["bench", "--help"], &["check", "--ascii", "--help"]];
    for args in all {
        let run = here(args);
        assert_eq!(run.code, 0, "{args:?}: {}", run.err);
        assert!(run.out.is_ascii() && !run.out.contains("\\u{"), "{args:?}: {}", run.out);
    }
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
