//! How long the program takes, and how much memory, as whole processes on models of true size:
//!
//! ```sh
//! cargo bench -p scantling-cli --bench inspect
//! ```
//!
//! The models are made first, in a temporary folder or in the one that `SCANTLING_BENCH_DIR` names, which is kept.
//! The peer is gguf-py's `gguf-dump`, where `python3` (or the program that `SCANTLING_BENCH_PYTHON` names) has it.
//!
//! Times are medians over runs whose output is thrown away. Memory is measured in runs of its own: a process is
//! watched through `/proc` until it ends. The peak that the system keeps (`VmHWM`) only grows, so the last reading
//! misses no more than the last microseconds, and no dependency and no unsafe code are needed.

#![allow(clippy::print_stdout, reason = "a program that talks to a person")]
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "it makes files and reads /proc")]

#[allow(dead_code, reason = "the generator makes more than is wanted here")]
#[path = "../examples/make-model/make/mod.rs"]
mod make;

use make::fill::Fill;
use make::gguf_keys::{self, Vocabulary};
use make::{Head, Model, write};
use rayon::prelude::*;
use scantling_cli as _;
use scantling_core::check::{Request, Silent, examine};
use scantling_core::config::Config;
use scantling_core::dtype::DType;
use scantling_core::finding::{Part, Severity};
use scantling_core::registry::Registry;
use scantling_core::source::{Dialect, FormatPlugin, WeightSource};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

const MB: f64 = 1e6;
const TOKENS: usize = 151_936;

fn main() {
    // `cargo test --benches` runs benches too, without this argument.
    if !std::env::args().any(|a| a == "--bench") {
        println!("skipped: run it with cargo bench");
        return;
    }
    let temporary = tempfile::tempdir().unwrap();
    let folder = std::env::var_os("SCANTLING_BENCH_DIR").map(PathBuf::from);
    let inputs = Inputs::make(folder.as_deref().unwrap_or(temporary.path()));

    println!("{:<52} {:>9} {:>9} {:>9}   target", "", "median", "least", "peak");
    processes(&inputs);
    identity(&inputs.safetensors);
    peer(&inputs.gguf);
}

/// The models.
struct Inputs {
    /// Qwen3-0.6B with a vocabulary; tensor data are holes.
    gguf: PathBuf,
    /// Qwen3-0.6B with a stored head, filled.
    safetensors: PathBuf,
    /// Qwen3-32B in F32: 131 GB of holes.
    huge: PathBuf,
    /// 100,000 tensors in 200 files.
    many: PathBuf,
}

impl Inputs {
    fn make(folder: &Path) -> Inputs {
        let registry = Registry::linked().unwrap();
        let format = |name: &str| registry.formats().iter().copied().find(|f| f.name == name).unwrap();
        let safetensors = format("safetensors");
        let inputs = Inputs {
            gguf: folder.join("qwen3-0.6b.gguf"),
            safetensors: folder.join("qwen3-0.6b"),
            huge: folder.join("qwen3-32b"),
            many: folder.join("many"),
        };
        if !inputs.gguf.exists() {
            let config = config("qwen3-0.6b");
            let family = make::family(&registry, &config).unwrap();
            let vocabulary = Vocabulary::made_up(TOKENS);
            let metadata = gguf_keys::metadata(&config, &family, DType::BF16, &vocabulary);
            let tensors = make::tensors(&family, Dialect::Gguf, DType::BF16, Head::AsConfigured);
            write::one(format("gguf"), &inputs.gguf, &Model { metadata, tensors }, Fill::Zero).unwrap();
        }
        let filled = Fill::Random { seed: 1 };
        folder_of(&registry, safetensors, &inputs.safetensors, "qwen3-0.6b", DType::BF16, filled);
        folder_of(&registry, safetensors, &inputs.huge, "qwen3-32b", DType::F32, Fill::Zero);
        if !inputs.many.exists() {
            fs::create_dir_all(&inputs.many).unwrap();
            let model = make::small_tensors(100_000, DType::BF16);
            write::several(safetensors, &inputs.many, &model, 200, Fill::Zero).unwrap();
            fs::write(inputs.many.join("config.json"), "{\"model_type\": \"synthetic\"}").unwrap();
        }
        inputs
    }
}

fn config(name: &str) -> Config {
    Config::from_json("config.json", &fs::read(config_path(name)).unwrap()).unwrap()
}

fn config_path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("../testdata/configs/{name}.json"))
}

/// A folder with a config and a single file, unless it is there.
fn folder_of(
    registry: &Registry,
    format: &FormatPlugin,
    folder: &Path,
    name: &str,
    dtype: DType,
    fill: Fill,
) {
    if !folder.exists() {
        fs::create_dir_all(folder).unwrap();
        fs::copy(config_path(name), folder.join("config.json")).unwrap();
        let model = make::safetensors_model(registry, &config(name), dtype, Head::Stored).unwrap();
        write::one(format, &folder.join("model.safetensors"), &model, fill).unwrap();
    }
}

/// What whole processes take.
fn processes(inputs: &Inputs) {
    let scantling = |args: &[&str], path: &Path| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scantling"));
        command.args(args).arg(path);
        command
    };
    let row = |what: &str, args: &[&str], path: &Path, target: &str| {
        let measured = Measured::of(&|| scantling(args, path), 25);
        measured.print(what, target);
    };
    row("list the plugins: the floor", &["plugins"], Path::new("--json"), "");
    row("inspect GGUF, 151,936 tokens", &["inspect"], &inputs.gguf, "≤ 20 ms, ≤ 16 MB");
    row("check GGUF, 151,936 tokens", &["check"], &inputs.gguf, "");
    row("inspect safetensors --no-identity", &["inspect", "--no-identity"], &inputs.safetensors, "≤ 10 ms");
    row("inspect safetensors, identity of 2 × 311 MB", &["inspect"], &inputs.safetensors, "");
    row("inspect 131 GB of holes --no-identity", &["inspect", "--no-identity"], &inputs.huge, "≤ 50 ms");
    row("inspect 100,000 tensors in 200 shards", &["inspect"], &inputs.many, "≤ 300 ms");
}

/// What a command took.
struct Measured {
    /// Sorted.
    times: Vec<Duration>,
    /// Peak of resident memory in bytes, where the system tells it.
    peak: Option<u64>,
}

impl Measured {
    fn of(command: &dyn Fn() -> Command, runs: usize) -> Measured {
        let quiet = || command().stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        quiet().wait().unwrap(); // what it reads is in memory from here on
        let timed = || {
            let begun = Instant::now();
            quiet().wait().unwrap();
            begun.elapsed()
        };
        let mut times: Vec<Duration> = (0..runs).map(|_| timed()).collect();
        times.sort();
        // A short run may end between two readings: it is watched more often.
        let short = times[times.len() / 2] < Duration::from_millis(50);
        let watched = if short { 60 } else { runs.min(10) };
        let peak = (0..watched).filter_map(|_| watch(quiet())).max();
        Measured { times, peak }
    }

    fn median(&self) -> Duration {
        self.times[self.times.len() / 2]
    }

    fn print(&self, what: &str, target: &str) {
        let ms = |t: Duration| format!("{:.1} ms", t.as_secs_f64() * 1e3);
        let peak = self.peak.map_or("-".to_owned(), |b| format!("{:.1} MB", b as f64 / MB));
        println!("{what:<52} {:>9} {:>9} {peak:>9}   {target}", ms(self.median()), ms(self.times[0]));
    }
}

/// Reads a process's peak of resident memory until it ends.
fn watch(mut child: Child) -> Option<u64> {
    let status = format!("/proc/{}/status", child.id());
    let mut peak = None;
    while child.try_wait().unwrap().is_none() {
        let text = fs::read_to_string(&status).unwrap_or_default();
        let line = text.lines().find_map(|l| l.strip_prefix("VmHWM:"));
        let kib = line.and_then(|l| l.trim().strip_suffix(" kB")?.parse::<u64>().ok());
        peak = peak.max(kib.map(|kib| kib * 1024));
    }
    peak
}

/// The comparison of a stored head beside a plain sum of the same bytes: same file, same mapping, same threads,
/// taken in turns.
fn identity(model: &Path) {
    let registry = Registry::linked().unwrap();
    let request = Request {
        parts: vec![Part::Ties],
        architecture: None,
        config: None,
        identity: true,
        must_check: true,
    };
    let open = || registry.open(model).unwrap();
    let compare = |source: &dyn WeightSource| {
        let begun = Instant::now();
        let examined = examine(&registry, source, model, &request, &Silent).unwrap();
        let took = begun.elapsed();
        assert!(examined.report.worst().is_none_or(|s| s < Severity::Error));
        took
    };
    let sum = |source: &dyn WeightSource| {
        let begun = Instant::now();
        let both = ["model.embed_tokens.weight", "lm_head.weight"];
        let [a, b] = both.map(|name| source.bytes(source.tensors().get(name).unwrap()).unwrap());
        let sums = sum_words(&a, &b);
        let took = begun.elapsed();
        assert_eq!(sums.0, sums.1);
        took
    };
    let bytes: u64 = 2 * 2 * 151_936 * 1024;
    let kept = open();
    sum(kept.as_ref());
    let mut fresh = (Vec::new(), Vec::new());
    let mut warm = (Vec::new(), Vec::new());
    for _ in 0..15 {
        fresh.0.push(sum(open().as_ref()));
        fresh.1.push(compare(open().as_ref()));
        warm.0.push(sum(kept.as_ref()));
        warm.1.push(compare(kept.as_ref()));
    }
    for (what, (mut sums, mut compared)) in [("mapped anew", fresh), ("mapped before", warm)] {
        sums.sort();
        compared.sort();
        let (sum, compared) =
            (sums[sums.len() / 2].as_secs_f64(), compared[compared.len() / 2].as_secs_f64());
        println!(
            "identity, {what}: {:.1} ms ({:.1} GB/s); plain sum {:.1} ms ({:.1} GB/s): {:.0} %   target ≥ 70 %",
            compared * 1e3,
            bytes as f64 / compared / 1e9,
            sum * 1e3,
            bytes as f64 / sum / 1e9,
            100.0 * sum / compared
        );
    }
}

/// Sums of all words of two runs, read side by side on all cores.
fn sum_words(a: &[u8], b: &[u8]) -> (u64, u64) {
    let word = |w: &[u8]| u64::from_le_bytes(w.try_into().unwrap());
    let add = |x: (u64, u64), y: (u64, u64)| (x.0.wrapping_add(y.0), x.1.wrapping_add(y.1));
    let part = |(a, b): (&[u8], &[u8])| {
        let words = a.chunks_exact(8).zip(b.chunks_exact(8));
        words.fold((0, 0), |sums, (a, b)| add(sums, (word(a), word(b))))
    };
    a.par_chunks(1 << 20).zip(b.par_chunks(1 << 20)).map(part).reduce(|| (0, 0), add)
}

/// The same GGUF file read by gguf-py.
fn peer(gguf: &Path) {
    let python = std::env::var("SCANTLING_BENCH_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has = Command::new(&python).args(["-c", "import gguf"]).stderr(Stdio::null()).status();
    if !has.is_ok_and(|s| s.success()) {
        println!("skipped: gguf-dump ({python} cannot import gguf)");
        return;
    }
    let dump = || {
        let mut command = Command::new(&python);
        command.args(["-m", "gguf.scripts.gguf_dump"]).arg(gguf);
        command
    };
    let theirs = Measured::of(&dump, 3);
    theirs.print("gguf-dump, the same GGUF", "");
    let inspect = || {
        let mut command = Command::new(env!("CARGO_BIN_EXE_scantling"));
        command.arg("inspect").arg(gguf);
        command
    };
    let ours = Measured::of(&inspect, 25);
    let times = theirs.median().as_secs_f64() / ours.median().as_secs_f64();
    let memory = theirs.peak.zip(ours.peak).map_or(f64::NAN, |(a, b)| a as f64 / b as f64);
    println!("scantling takes 1/{times:.0} of its time and 1/{memory:.0} of its memory");
}
