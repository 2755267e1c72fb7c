//! Which kernel computes, and the arguments of `kernels`.

use super::ListArgs;
use clap::{ArgAction, Args, Subcommand, ValueEnum};
use scantling_core::dtype::DType;
use std::path::PathBuf;

const CHECK_EXAMPLES: &str = "\
Examples:
  scantling kernels check
  scantling kernels check Qwen3-0.6B/ --kernel avx2,rayon+avx2
  scantling kernels check model.gguf --json | jq '.rows[] | select(.pass | not)'

A row is one kernel, op, element type and shape. The bound is on the absolute error of its worst element; kernels
that round activations to 8 bits have a wider one (see `kernels list`).";

const BENCH_EXAMPLES: &str = "\
Examples:
  scantling kernels bench --quick
  scantling kernels bench model.gguf --kernel scalar,fast --op matmul
  scantling kernels bench --kernel avx2 --type Q4_K,Q6_K --threads 1,2
  scantling kernels bench --json > before.json
  scantling kernels bench --baseline before.json

Each time is the median of interleaved repetitions, +/- half of the interquartile range. GB/s count stored weight bytes.
The share is of the limit measured in the same rounds over the same memory: reading for few rows, multiply-adds for
many (whichever takes longer), copying for decode. --baseline fails on a row whose time per unit of work has grown by
more than the interquartile ranges of both runs together, and by more than 5 %; what looks slower is measured up to
twice again first. --csv writes rows alone; what else there is to say goes to standard error.";

/// Which kernels compute, on how many threads.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Kernels")]
pub struct KernelArgs {
    /// The kernels: auto, exact, fast, a name of `kernels list`, or wrappers and a name: rayon+avx2, verify+fast
    /// [default: all that run here, each alone; check: also spread over threads, bench: also the best spread]
    #[arg(long, value_name = "SPEC,...", value_delimiter = ',', env = "SCANTLING_KERNEL")]
    pub kernel: Vec<String>,
    /// Threads of kernels that use several; 0 for one to a core
    #[arg(long, value_name = "N,...", value_delimiter = ',', env = "SCANTLING_THREADS", default_value = "0",
          value_parser = threads)]
    pub threads: Vec<usize>,
}

/// A number of threads; an environment variable that is set to nothing asks for all cores. Of those that are asked for no
/// more are started than the machine's cores have a use for.
pub(super) fn threads(text: &str) -> Result<usize, String> {
    match text.parse() {
        _ if text.is_empty() => Ok(0),
        Ok(count) if count <= MOST_THREADS => Ok(count),
        _ => Err(format!("expected a whole number from 0 to {MOST_THREADS}")),
    }
}

/// More threads than any machine this is made for has cores.
const MOST_THREADS: usize = 1024;

fn dtype(text: &str) -> Result<DType, String> {
    let known = || DType::all().map(DType::name).collect::<Vec<_>>().join(", ");
    DType::all()
        .find(|d| d.name().eq_ignore_ascii_case(text))
        .ok_or_else(|| format!("no element type of that name; known: {}", known()))
}

/// What about kernels.
#[derive(Debug, Subcommand)]
pub enum KernelsCommand {
    /// List the kernels, whether this machine runs them, and which are chosen
    List(ListArgs),
    /// Hold kernels against the definition of every op, computed in f64
    Check(KernelsCheckArgs),
    /// Measure kernels against each other and against what the machine can do
    Bench(KernelsBenchArgs),
}

/// Arguments of `kernels check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct KernelsCheckArgs {
    /// A model whose tensors to check with [default: they are made up]
    pub model: Option<PathBuf>,
    /// Without any, all kernels that run here, each alone and spread over threads.
    #[command(flatten)]
    pub kernels: KernelArgs,
    /// Fewer shapes: some seconds in place of a minute
    #[arg(long)]
    pub quick: bool,
    /// Show each element type apart, and every miss
    #[arg(long)]
    pub full: bool,
    /// Form of the output.
    #[command(flatten)]
    pub list: ListArgs,
}

/// Arguments of `kernels bench`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_EXAMPLES)]
pub struct KernelsBenchArgs {
    /// A model whose shapes and tensors to measure with [default: they are made up]
    pub model: Option<PathBuf>,
    /// Without any, all kernels that run here, and the best spread over threads.
    #[command(flatten)]
    pub kernels: KernelArgs,
    /// The kernel that ratios are to [default: scalar where it is measured, else the first]
    #[arg(long, value_name = "SPEC")]
    pub against: Option<String>,
    /// These ops only [default: all; with --quick matmul and decode]
    #[arg(long, value_enum, value_name = "OP,...", value_delimiter = ',')]
    pub op: Vec<BenchOp>,
    /// These element types only [default: those of the model; without one seven usual ones, with --quick three]
    #[arg(long = "type", value_name = "TYPE,...", value_delimiter = ',', value_parser = dtype)]
    pub dtype: Vec<DType>,
    /// Fewer shapes and shorter: some seconds in place of about a minute
    #[arg(long)]
    pub quick: bool,
    /// An earlier --json output; fail if a row has become slower beyond noise [default: none]
    #[arg(long, value_name = "FILE")]
    pub baseline: Option<PathBuf>,
    /// Form of the output
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    pub format: BenchForm,
    /// The same as --format json
    #[arg(long, conflicts_with = "format", action = ArgAction::SetTrue)]
    pub json: bool,
    /// The same as --format csv
    #[arg(long, conflicts_with_all = ["format", "json"], action = ArgAction::SetTrue)]
    pub csv: bool,
}

impl KernelsBenchArgs {
    /// The form that was asked for in either way.
    pub fn form(&self) -> BenchForm {
        match (self.json, self.csv) {
            (true, _) => BenchForm::Json,
            (_, true) => BenchForm::Csv,
            _ => self.format,
        }
    }
}

/// Forms of measurements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchForm {
    /// For people
    Text,
    /// For programs, and for --baseline; see docs/report.schema.json
    Json,
    /// For spreadsheets
    Csv,
}

/// Ops that can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub enum BenchOp {
    /// A product with a stored matrix
    Matmul,
    /// Stored blocks to f32
    Decode,
    /// Attention over a cache of keys and values
    Attention,
    /// RMS norm
    #[value(alias = "rms_norm")]
    RmsNorm,
    /// Rotary positions
    Rope,
    /// SiLU
    Activate,
    /// SiLU times a second input
    Gate,
}

impl BenchOp {
    /// All of them, in the order they are shown.
    pub const ALL: [BenchOp; 7] = [
        BenchOp::Matmul,
        BenchOp::Decode,
        BenchOp::Attention,
        BenchOp::RmsNorm,
        BenchOp::Rope,
        BenchOp::Activate,
        BenchOp::Gate,
    ];

    /// As the trait `Kernel` spells it.
    pub fn word(self) -> &'static str {
        match self {
            BenchOp::Matmul => "matmul",
            BenchOp::Decode => "decode",
            BenchOp::Attention => "attention",
            BenchOp::RmsNorm => "rms_norm",
            BenchOp::Rope => "rope",
            BenchOp::Activate => "activate",
            BenchOp::Gate => "gate",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Cli, Command};
    use clap::{CommandFactory, Parser};

    #[test]
    fn types_are_known_in_either_case() {
        let parse = |text| Cli::try_parse_from(["scantling", "kernels", "bench", "--type", text]);
        let Command::Kernels { command: KernelsCommand::Bench(bench) } = parse("q4_k,F32").unwrap().command
        else {
            panic!("not a bench")
        };
        assert_eq!(bench.dtype, [DType::Q4_K, DType::F32]);
        assert!(parse("Q4").unwrap_err().to_string().contains("Q4_0, Q4_1"));
    }
    #[test]
    fn help_is_ascii_and_every_option_with_a_value_tells_its_default() {
        let mut cli = Cli::command();
        cli.build();
        let kernels = cli.find_subcommand_mut("kernels").unwrap();
        for command in kernels.get_subcommands_mut() {
            let help = command.render_long_help().to_string();
            assert!(help.is_ascii(), "{help}");
            for arg in command.get_arguments().filter(|arg| arg.get_action().takes_values()) {
                let told = arg.get_help().is_some_and(|help| help.to_string().contains("[default: "));
                assert!(told || !arg.get_default_values().is_empty(), "{}: {arg}", command.get_name());
            }
        }
    }
}
