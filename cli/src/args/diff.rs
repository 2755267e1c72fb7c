//! The arguments of `diff`.

use super::{FailOn, ListArgs};
use clap::{Args, ValueEnum};
use std::path::PathBuf;

const DIFF_EXAMPLES: &str = "\
Examples:
  scantling diff Qwen3-0.6B/ Qwen3-0.6B-BF16.gguf
  scantling diff Qwen3-0.6B/ Qwen3-0.6B-Q4_K_M.gguf --allow quantised
  scantling diff Qwen3-0.6B/ Qwen3-0.6B-Q4_K_M.gguf --allow quantised --fail-on warning
  scantling diff base/ finetune/ --worst 20
  scantling diff a.gguf b.gguf --tensors --only-different
  scantling diff Qwen3-0.6B/ Qwen3-0.6B-Q4_K_M.gguf --html diff.html
  scantling diff a.gguf b.gguf --json | jq .verdict

The two may be of different formats: tensors are paired by what they are to the architecture, and what converters do to
them (rows interleaved, 1 added to norms, experts stacked, fused projections cut) is undone and named. Each pair is
  identical    the same bytes
  equal        the same numbers in another element type
  transformed  the same numbers, once a converter's known change is undone
  quantised    as far apart as the coarser type accounts for: one step per element for Q4_0 to Q8_0 and floats, for
               other types 1.5 times the relative RMS that ggml's quantiser shows (docs/diff.md)
  beyond       alike, but farther apart than that
  different    other numbers
  uncompared   not compared, and why
Vocabularies are compared too, where both have one: ids, the tokens that begin and end a text, how a text is split.
Exit codes: 0 all are identical, equal or transformed (or allowed), no hyperparameter has another value and no id is
another token; 1 not so; 2 a wrong request; 3 one of the two cannot be read.";

/// Arguments of `diff`.
#[derive(Debug, Args)]
#[command(after_help = DIFF_EXAMPLES)]
pub struct DiffArgs {
    /// The first model, which the second is held against: a folder or a file
    #[arg(value_name = "A")]
    pub a: PathBuf,
    /// The second model: a folder or a file, of any format
    #[arg(value_name = "B")]
    pub b: PathBuf,
    /// What is admitted besides equal numbers
    #[arg(long, value_enum, value_name = "WHAT,...", value_delimiter = ',')]
    pub allow: Vec<Allow>,
    /// The severity of findings from which on the exit code is 1: warning also counts hyperparameters that the second
    /// model's readers take for another value, and a vocabulary that is not there
    #[arg(long, value_enum, value_name = "SEVERITY", default_value = "error")]
    pub fail_on: FailOn,
    /// Take both for this architecture, whatever the files say (see `scantling plugins`)
    #[arg(long, value_name = "NAME")]
    pub arch: Option<String>,
    /// Take the first model's hyperparameters from this config.json
    #[arg(long, value_name = "FILE")]
    pub config_a: Option<PathBuf>,
    /// Take the second model's hyperparameters from this config.json
    #[arg(long, value_name = "FILE")]
    pub config_b: Option<PathBuf>,
    /// Compare only tensors one of whose names matches; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Leave out tensors one of whose names matches; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// How many of the tensors that are farthest apart to show
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub worst: usize,
    /// List each pair of tensors
    #[arg(long)]
    pub tensors: bool,
    /// List only the pairs that are not admitted
    #[arg(long)]
    pub only_different: bool,
    /// Write a page for a browser too, with a list of every pair and a picture of how far apart layers are
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Threads; 0 for one to a core
    #[arg(long, value_name = "N", env = "SCANTLING_THREADS", default_value = "0", value_parser = super::threads)]
    pub threads: usize,
    /// Show all findings, however many are alike
    #[arg(long)]
    pub full: bool,
    /// Print the verdict alone
    #[arg(long, short)]
    pub quiet: bool,
    /// Form of the output.
    #[command(flatten)]
    pub list: ListArgs,
}

/// What may be admitted besides equal numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Allow {
    /// What rounding to the coarser element type accounts for
    Quantised,
    /// Tensors that could not be compared
    Uncompared,
}
