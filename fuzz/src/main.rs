//! Runs the targets on mutated inputs, on a stable compiler and in one process.
//!
//! An input that panics, takes more than a second or more than 256 MiB is made as small as can be and written
//! to `crashes`; the program then ends with code 1.

#![deny(unsafe_code)]

mod allocations;
mod caught;
mod run;

use clap::Parser;
use run::{Limits, Summary};
use scantling_fuzz::mutate::WORDS;
use scantling_fuzz::targets::{self, TARGETS, Target};
use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

#[global_allocator]
static ALLOCATOR: allocations::Counting = allocations::Counting;

/// Runs scantling's readers on mutated inputs.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    /// Target to run: safetensors, gguf, gguf_model, index_config, index_text, rewrite, tokenizer, or all.
    #[arg(long, default_value = "all")]
    target: String,
    /// Seconds for each target.
    #[arg(long)]
    seconds: Option<u64>,
    /// Inputs for each target, over all threads; without this and --seconds, ten seconds are run.
    #[arg(long)]
    inputs: Option<u64>,
    /// Where the random numbers begin; the same seed and threads give the same inputs.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Threads.
    #[arg(long, default_value_t = 1)]
    threads: u64,
    /// Folder for inputs that were caught.
    #[arg(long, default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/crashes"))]
    crashes: PathBuf,
    /// Write each input down before it is run. Slow; for failures that end the process, such as a full stack.
    #[arg(long)]
    record: bool,
    /// Run this one file instead, and say what it leads to.
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// Write the seeds to FOLDER/TARGET and the dictionary to FOLDER/words.dict instead, for libFuzzer.
    #[arg(long, value_name = "FOLDER")]
    export: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments = Arguments::parse();
    let chosen: Vec<&'static Target> = match arguments.target.as_str() {
        "all" => TARGETS.iter().collect(),
        name => targets::target(name).into_iter().collect(),
    };
    if chosen.is_empty() {
        let names: Vec<&str> = TARGETS.iter().map(|t| t.name).collect();
        eprintln!("unknown target \"{}\"; known: all, {}", arguments.target, names.join(", "));
        return ExitCode::from(2);
    }
    caught::install();
    if let Some(file) = &arguments.replay {
        return replay(&chosen, file);
    }
    if let Some(folder) = &arguments.export {
        return export(&chosen, folder).map_or_else(|e| refuse(folder, &e), |()| ExitCode::SUCCESS);
    }
    let seconds = arguments.seconds.or(if arguments.inputs.is_some() { None } else { Some(10) });
    let limits = Limits {
        time: seconds.map(Duration::from_secs),
        inputs: arguments.inputs,
        seed: arguments.seed,
        threads: arguments.threads.max(1),
        crashes: arguments.crashes,
        record: arguments.record,
    };
    let mut failed = false;
    let mut codes = BTreeSet::new();
    for target in &chosen {
        let summary = match run::run(target, &limits) {
            Ok(summary) => summary,
            Err(e) => return refuse(&limits.crashes, &e),
        };
        print(target, &summary);
        failed |= !summary.caught.is_empty();
        codes.extend(summary.codes);
    }
    if chosen.len() > 1 {
        let all = targets::registry().codes();
        let unmet: Vec<&str> = all.iter().map(|code| code.id).filter(|id| !codes.contains(id)).collect();
        println!("codes met    {} of {}; not met: {}", codes.len(), all.len(), unmet.join(", "));
    }
    ExitCode::from(u8::from(failed))
}

fn print(target: &Target, summary: &Summary) {
    let Summary { inputs, seconds, outcomes, kept, caught, codes } = summary;
    println!(
        "{:<12} {inputs:>10} inputs  {:>8.0}/s  {outcomes:>7} outcomes  {:>3} codes  {kept:>5} kept  {} caught",
        target.name,
        *inputs as f64 / seconds.max(1e-9),
        codes.len(),
        caught.len()
    );
    for caught in caught {
        println!("  {}\n    {} bytes in {}", caught.what, caught.input.len(), caught.file.display());
    }
}

fn refuse(path: &Path, why: &io::Error) -> ExitCode {
    eprintln!("{}: {why}", path.display());
    ExitCode::from(2)
}

fn export(chosen: &[&'static Target], folder: &Path) -> io::Result<()> {
    for target in chosen {
        let into = folder.join(target.name);
        fs::create_dir_all(&into)?;
        for (i, seed) in (target.seeds)().iter().enumerate() {
            fs::write(into.join(format!("seed-{i:03}")), seed)?;
        }
    }
    let words: String = WORDS.iter().map(|word| format!("\"{}\"\n", word.escape_default())).collect();
    fs::write(folder.join("words.dict"), words)
}

fn replay(chosen: &[&'static Target], file: &Path) -> ExitCode {
    let input = match fs::read(file) {
        Ok(input) => input,
        Err(e) => return refuse(file, &e),
    };
    let mut failed = false;
    for target in chosen {
        let seen = caught::observe(target, &input);
        failed |= seen.caught.is_some();
        let what = seen.caught.unwrap_or_else(|| format!("{} features", seen.outcome.features().len()));
        println!("{:<12} {:?}  {} bytes at most  {what}", target.name, seen.time, seen.memory);
    }
    ExitCode::from(u8::from(failed))
}
