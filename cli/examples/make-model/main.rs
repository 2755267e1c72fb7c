//! Makes model files for tests, benchmarks and trying things out: every tensor that an architecture asks for,
//! at its true size, filled with random numbers or left as holes.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a program that talks to a person")]

mod make;

use clap::{Args, Parser, Subcommand, ValueEnum};
use make::fill::Fill;
use make::gguf_keys::Vocabulary;
use make::{Head, Model, gguf_keys, write};
use scantling_architectures as _;
use scantling_core::bundle::File;
use scantling_core::config::{Config, MAX_CONFIG_BYTES};
use scantling_core::decoder;
use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::index::TensorIndex;
use scantling_core::registry::Registry;
use scantling_core::source::{Dialect, FormatPlugin};
use scantling_formats as _;
use scantling_kernels as _;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

/// Make a model file of the true dimensions of a config.json, or one of many small tensors
#[derive(Parser)]
#[command(name = "make-model", args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    model: ModelArgs,
}

#[derive(Subcommand)]
enum Command {
    /// A checkpoint of no known family: many small tensors
    Tensors(TensorsArgs),
}

#[derive(Args)]
struct ModelArgs {
    // Not asked for by a subcommand, hence the option.
    /// The config.json of the model
    #[arg(required = true)]
    config: Option<PathBuf>,
    #[command(flatten)]
    output: Output,
    /// Leave the output head out, even if the model then lacks it
    #[arg(long, conflicts_with = "store_head")]
    omit_head: bool,
    /// Store the output head, as a copy of the embedding if it is tied
    #[arg(long)]
    store_head: bool,
    /// GGUF: number of made-up tokens [default: vocab_size]
    #[arg(long, value_name = "N")]
    tokens: Option<usize>,
    /// GGUF: take the tokens from this tokenizer.json; safetensors: put it beside the model
    #[arg(long, value_name = "FILE", conflicts_with = "tokens")]
    tokens_from: Option<PathBuf>,
}

#[derive(Args)]
struct TensorsArgs {
    /// Number of tensors
    #[arg(long, default_value_t = 1000)]
    count: usize,
    #[command(flatten)]
    output: Output,
}

#[derive(Args)]
struct Output {
    /// File format
    #[arg(long, default_value = "safetensors", value_name = "safetensors|gguf")]
    format: String,
    /// Element type of the matrices: BF16, F32, Q8_0, Q4_K, …
    #[arg(long, default_value = "BF16", value_parser = dtype)]
    dtype: DType,
    /// GGUF: Q6_K instead of Q4_K where llama.cpp's mix Q4_K_M has it; implies --dtype Q4_K
    #[arg(long, conflicts_with = "dtype")]
    q4_k_m: bool,
    /// A file, by the format's suffix, or a folder
    #[arg(long, short, required = true)]
    out: Option<PathBuf>,
    /// What the tensors are filled with
    #[arg(long, value_enum, default_value_t = FillKind::Random)]
    fill: FillKind,
    /// The same as --fill zero: holes, which take no room on disk
    #[arg(long, conflicts_with = "fill")]
    sparse: bool,
    /// Seed of the random numbers
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Write so many files and what ties them together
    #[arg(long, default_value_t = 1)]
    shards: usize,
}

#[derive(Clone, Copy, ValueEnum)]
enum FillKind {
    /// Holes that read as zeros
    Zero,
    /// Repeatable random numbers of a usual size
    Random,
}

fn dtype(name: &str) -> std::result::Result<DType, String> {
    let known = || DType::all().map(DType::name).collect::<Vec<_>>().join(", ");
    DType::all().find(|d| d.name() == name).ok_or_else(|| format!("known: {}", known()))
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let done = Registry::linked().and_then(|registry| match cli.command {
        Some(Command::Tensors(args)) => small_tensors(&registry, &args),
        None => model(&registry, &cli.model),
    });
    match done {
        Ok(path) => {
            println!("{}", path.display());
            ExitCode::SUCCESS
        }
        Err(e) => {
            eprintln!("make-model: {e}");
            ExitCode::from(2)
        }
    }
}

fn small_tensors(registry: &Registry, args: &TensorsArgs) -> Result<PathBuf> {
    let mut model = make::small_tensors(args.count, args.output.dtype);
    let format = args.output.format(registry)?;
    if format.name == "gguf" {
        let value = scantling_core::metadata::Value::Text("synthetic".to_owned());
        make::push(&mut model.metadata, "general.architecture", "string", value);
    }
    args.output.write(format, &model, &[("config.json", b"{\"model_type\": \"synthetic\"}\n".to_vec())])
}

fn model(registry: &Registry, args: &ModelArgs) -> Result<PathBuf> {
    let format = args.output.format(registry)?;
    let (name, json) = read(args.config.as_deref().unwrap_or(Path::new("")))?;
    let config = Config::from_json(name, &json)?;
    let head = match (args.omit_head, args.store_head) {
        (true, _) => Head::Omitted,
        (_, true) => Head::Stored,
        _ => Head::AsConfigured,
    };
    let tokenizer = args.tokens_from.as_deref().map(read).transpose()?;
    if format.name != "gguf" {
        if args.output.q4_k_m {
            return Err(Error::Usage("--q4-k-m is a mix of GGUF's types".to_owned()));
        }
        if args.tokens.is_some() {
            return Err(Error::Usage("--tokens is for GGUF, which holds its vocabulary itself".to_owned()));
        }
        let model = make::safetensors_model(registry, &config, args.output.dtype, head)?;
        let mut beside = vec![("config.json", json)];
        beside.extend(tokenizer.map(|(_, json)| ("tokenizer.json", json)));
        return args.output.write(format, &model, &beside);
    }
    let family = make::family(registry, &config)?;
    let count = args.tokens.or(config.peek(&decoder::VOCAB_SIZE)).unwrap_or(0);
    let dtype = if args.output.q4_k_m { DType::Q4_K } else { args.output.dtype };
    let vocabulary = match tokenizer {
        Some((file, json)) => Vocabulary::from_json(&file, &json, count)?,
        None => Vocabulary::made_up(count),
    };
    let metadata = gguf_keys::metadata(&config, &family, dtype, &vocabulary);
    // A family may need keys that are not known here; a file without them would be no model.
    let read_back = Config::from_gguf("the GGUF file", metadata.clone());
    if let Err(e) = (family.plugin.build)(&read_back, &TensorIndex::default()) {
        let name = family.plugin.name;
        return Err(Error::Usage(format!(
            "{name} cannot be made as GGUF, for want of keys that it needs: {e}"
        )));
    }
    let mut tensors = make::tensors(&family, Dialect::Gguf, dtype, head);
    if args.output.q4_k_m {
        make::mix_q4_k_m(&mut tensors);
    }
    args.output.write(format, &Model { metadata, tensors }, &[])
}

fn read(path: &Path) -> Result<(String, Vec<u8>)> {
    let name = path.display().to_string();
    let bytes = File::on_disk(name.clone(), path)?.read_all(4 * MAX_CONFIG_BYTES)?;
    Ok((name, bytes))
}

impl Output {
    fn format(&self, registry: &Registry) -> Result<&'static FormatPlugin> {
        let found = registry.formats().iter().copied().find(|f| f.name == self.format);
        found.ok_or_else(|| Error::Usage(format!("unknown format \"{}\"", self.format)))
    }

    /// Writes the model, and into a folder the files that belong beside it. Returns what to open it by.
    fn write(&self, format: &FormatPlugin, model: &Model, beside: &[(&str, Vec<u8>)]) -> Result<PathBuf> {
        let fill = match self.fill {
            FillKind::Random if !self.sparse => Fill::Random { seed: self.seed },
            _ => Fill::Zero,
        };
        let out = self.out.as_deref().unwrap_or(Path::new("."));
        if out.extension().is_some_and(|e| e == format.name) {
            if self.shards > 1 {
                return Err(Error::Usage("several shards go into a folder: --out names a file".to_owned()));
            }
            write::one(format, out, model, fill)?;
            return Ok(out.to_owned());
        }
        write::make_folder(out)?;
        if format.name != "gguf" {
            for (name, bytes) in beside {
                write::whole(&out.join(name), |file| file.write_all(bytes))?;
            }
        }
        if self.shards > 1 {
            return write::several(format, out, model, self.shards, fill);
        }
        let path = out.join(format!("model.{}", format.extensions[0]));
        write::one(format, &path, model, fill)?;
        Ok(path)
    }
}
