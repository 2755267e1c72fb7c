//! GGUF files beside the config.json of the model that they were made from: what a file cannot say is assumed, shown as
//! assumed, and supplied by the config; what it can say comes out the same.

#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests read and write files")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

use scantling_architectures as _;
use scantling_core::cache::KvType;
use scantling_core::check::{self, Request, Silent};
use scantling_core::config::Origin;
use scantling_core::finding::Severity;
use scantling_core::kernel::Options as KernelOptions;
use scantling_core::model::{BATCH, Model, Options, Session};
use scantling_core::registry::{Registry, Work};
use scantling_formats as _;
use scantling_kernels as _;
use serde_json::Value as Json;
use std::fs;
use std::path::{Path, PathBuf};

/// How far logits may be from those of the reference implementation.
const LIMIT: f64 = 3e-5;

fn registry() -> Registry {
    Registry::linked().unwrap()
}

/// The folder of the whole set of goldens; says so if there is none.
fn goldens() -> Option<PathBuf> {
    let folder = std::env::var_os("SCANTLING_SHARED").map(|shared| PathBuf::from(shared).join("golden"));
    if folder.is_none() {
        println!("skipped: SCANTLING_SHARED is not set");
    }
    folder
}

fn json(path: &Path) -> Json {
    serde_json::from_slice(&fs::read(path).unwrap()).unwrap()
}

/// Every GGUF file of the goldens with its facts and the folder of the model that it was made from.
fn files(golden: &Path) -> Vec<(PathBuf, Json, PathBuf)> {
    let files = fs::read_dir(golden.join("gguf")).unwrap().map(|entry| entry.unwrap().path());
    let mut files: Vec<PathBuf> = files.filter(|f| f.extension().is_some_and(|e| e == "gguf")).collect();
    files.sort();
    let with_facts = |file: PathBuf| {
        let facts = json(&file.with_extension("json"));
        let source = golden.join("models").join(facts["source_model"].as_str().unwrap());
        (file, facts, source)
    };
    // Of some the model itself is not in the set.
    files.into_iter().map(with_facts).filter(|(_, _, source)| source.join("config.json").exists()).collect()
}

fn lost(facts: &Json) -> Vec<&Json> {
    facts["lost"].as_array().into_iter().flatten().collect()
}

/// Told what the config of the source says, or nothing.
fn request(source: Option<&Path>) -> Request {
    Request { config: source.map(|folder| folder.join("config.json")), ..Request::default() }
}

/// The largest distance of the last logits of a prompt from those expected, and where greedy continuations part.
fn off(model: &Model, prompts: &Json) -> (f64, usize) {
    let kernel = registry().kernel("scalar", Work::Exact, &KernelOptions::default()).unwrap();
    let (mut farthest, mut parted) = (0.0f64, 0);
    for prompt in prompts.as_array().unwrap() {
        let ids = |of: &str| -> Vec<u32> {
            prompt[of].as_array().unwrap().iter().map(|x| x.as_u64().unwrap() as u32).collect()
        };
        let (read, greedy) = (ids("ids"), ids("greedy_ids"));
        let options = Options { context: read.len() + greedy.len(), kv: KvType::F32, batch: BATCH };
        let mut session = Session::new(model, &*kernel, options).unwrap();
        let mut last = session.feed(&read, 1, None).unwrap();
        let exact = prompt.get("last_logits_f64").unwrap_or(&prompt["last_logits"]).as_array().unwrap();
        for (found, expected) in last.data().iter().zip(exact) {
            farthest = farthest.max((f64::from(*found) - expected.as_f64().unwrap()).abs());
        }
        for id in greedy {
            let row = last.data();
            let best = (0..row.len()).reduce(|best, i| if row[i] > row[best] { i } else { best });
            parted += usize::from(best != Some(id as usize));
            last = session.feed(&[id], 1, None).unwrap();
        }
    }
    (farthest, parted)
}

fn load(file: &Path, request: &Request) -> Model {
    Model::load(&registry(), file, request).unwrap_or_else(|e| panic!("{}: {e}", file.display()))
}

#[test]
fn what_a_file_cannot_say_is_assumed_and_shown_so() {
    let Some(golden) = goldens() else { return };
    let mut seen = 0;
    for (file, facts, source) in files(&golden) {
        for lost in lost(&facts) {
            let name = lost["fact"].as_str().unwrap();
            let silent = check::run(&registry(), &file, &request(None), &Silent).unwrap().report;
            let fact = silent.facts.iter().find(|f| f.name.ends_with(name)).unwrap();
            assert_eq!(fact.origin, Origin::Assumed, "{}: {name}", file.display());
            let told = check::run(&registry(), &file, &request(Some(&source)), &Silent).unwrap().report;
            let fact = told.facts.iter().find(|f| f.name.ends_with(name)).unwrap();
            assert_eq!(fact.origin, Origin::File, "{}: {name}", file.display());
            assert_eq!(fact.value.to_string(), lost["config"].to_string(), "{}: {name}", file.display());
            assert!(told.facts.iter().all(|f| f.origin != Origin::Assumed));
            seen += 1;
        }
    }
    assert!(seen >= 2, "{seen}");
}

#[test]
fn a_config_supplies_what_the_file_has_lost() {
    let Some(golden) = goldens() else { return };
    let mut seen = 0;
    for (file, facts, source) in files(&golden).into_iter().filter(|(_, facts, _)| !lost(facts).is_empty()) {
        let whole = &json(&source.join("expected.json"))["prompts"];
        let (silent, told) = (load(&file, &request(None)), load(&file, &request(Some(&source))));
        for (model, prompts, what) in [(&silent, &facts["prompts"], "silent"), (&told, whole, "told")] {
            let (off, parted) = off(model, prompts);
            assert!(off <= LIMIT && parted == 0, "{}, {what}: {off:e}, {parted}", file.display());
        }
        // The two are not the same model.
        assert!(off(&silent, whole).0 > LIMIT && off(&told, &facts["prompts"]).0 > LIMIT);
        seen += 1;
    }
    assert!(seen >= 2, "{seen}");
}

#[test]
fn a_config_changes_nothing_where_the_file_has_lost_nothing() {
    let Some(golden) = goldens() else { return };
    let mut seen = 0;
    for (file, facts, source) in files(&golden).into_iter().filter(|(_, facts, _)| lost(facts).is_empty()) {
        let at = file.display();
        let report = check::run(&registry(), &file, &request(Some(&source)), &Silent).unwrap().report;
        let errors: Vec<_> = report.findings.iter().filter(|f| f.severity == Severity::Error).collect();
        assert!(errors.is_empty(), "{at}: {errors:?}");
        let model = load(&file, &request(Some(&source)));
        if model.decoder().is_err() {
            continue;
        }
        let own = json(&source.join("expected.json"));
        let prompts = if facts["prompts"].is_array() { &facts["prompts"] } else { &own["prompts"] };
        let (off, parted) = off(&model, prompts);
        assert!(off <= LIMIT && parted == 0, "{at}: {off:e}, {parted}");
        seen += 1;
    }
    assert!(seen >= 20, "{seen}");
}

#[test]
fn a_config_of_another_model_is_found_to_be_so() {
    let Some(golden) = goldens() else { return };
    let file = golden.join("gguf/mistral_swa.bf16.gguf");
    for other in ["qwen3_tied", "gemma2", "mistral", "mixtral"] {
        let told = request(Some(&golden.join("models").join(other)));
        let report = check::run(&registry(), &file, &told, &Silent).unwrap().report;
        assert_eq!(report.worst(), Some(Severity::Error), "{other}");
        assert!(Model::load(&registry(), &file, &told).is_err(), "{other}");
    }
}
