//! The arguments of what looks at the numbers of a run: logits, traces, perplexity.

use super::{Ids, RunArgs, ids};
use clap::{ArgGroup, Args};
use std::path::PathBuf;

const LOGITS_EXAMPLES: &str = "\
Examples:
  scantling logits Qwen3-0.6B/ --prompt 'The capital of France is'
  scantling logits Qwen3-0.6B/ --ids 785,6722,315,9625,374
  scantling logits model.gguf --ids 1,2,3 --all-positions --npy logits.npy
  scantling logits model.gguf --ids 1,2,3 --kernel scalar --json | jq '.positions[0].top[0]'

Probabilities are summed in f64. --npy holds f32 [positions, vocabulary]. Without --kernel it is `auto`, which is
`exact` here: activations are not rounded.";

const TRACE_EXAMPLES: &str = "\
Examples:
  scantling trace Qwen3-0.6B/ --prompt 'The capital of' -o trace.safetensors
  scantling trace model.gguf --against trace.safetensors
  scantling trace model-Q4_K.gguf --ids 785,6722 --against Qwen3-0.6B/
  scantling trace model.gguf --ids 785,6722 --against kernel:scalar --kernel fast
  scantling trace model.gguf --ids 785,6722 --against Qwen3-0.6B/ --tolerance 1e-3 --full

--against takes a trace (its tokens are taken where --ids is not given), another model in any format, or kernel:SPEC
for the same model on another kernel; a path that begins with kernel: is written ./kernel:… An element is beyond the
tolerance if it is off by more than that share of the largest entry of its row. Without --tolerance that is 1e-4 where
both sides compute with the same weights in f32; coarser weights on one side, or 8-bit activations, allow more, and
which it is is printed. Names and a recipe for traces of other programs: docs/trace.md.
Exit codes: 0 within the tolerance, 1 beyond it, 2 a wrong request, 3 something cannot be read.";

const PERPLEXITY_EXAMPLES: &str = "\
Examples:
  scantling perplexity model.gguf --text wiki.txt
  scantling perplexity model-Q4_K.gguf --ids-file ids.json --against Qwen3-0.6B/
  scantling perplexity model.gguf --ids-file ids.txt --context 2048 --stride 512 --json

The text is read in windows of --context tokens, each ending --stride tokens behind the last. Each token but the very
first is scored once, with at least context - stride tokens before it except in the first window. Nothing is put before
the text. ± is one standard error, as if tokens were drawn apart from each other. With --against, KL is that of the
model from the one it is held against: sum of p ln(p/q), p the other's.";

/// Arguments of `logits`.
#[derive(Debug, Args)]
#[command(after_help = LOGITS_EXAMPLES, allow_negative_numbers = true)]
pub struct LogitsArgs {
    /// The model: a folder or a file
    pub model: PathBuf,
    /// The tokens
    #[command(flatten)]
    pub prompt: PromptArgs,
    /// How many of the likeliest tokens to show
    #[arg(long, value_name = "K", default_value_t = 10)]
    pub top: usize,
    /// Show what follows every token, not the last alone
    #[arg(long)]
    pub all_positions: bool,
    /// Write the logits to this file, for numpy
    #[arg(long, value_name = "FILE")]
    pub npy: Option<PathBuf>,
    /// What commands that run a model share; `auto` is `exact` here.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What a model is fed.
#[derive(Debug, Args)]
pub struct PromptArgs {
    /// Text, made into tokens by the model's own vocabulary
    #[arg(long, value_name = "TEXT", required_unless_present = "ids", conflicts_with = "ids")]
    pub prompt: Option<String>,
    /// Ids of the tokens, with commas or spaces between, or as a JSON list
    #[arg(long, value_name = "ID,...", value_parser = ids)]
    pub ids: Vec<Ids>,
}

/// Arguments of `trace`.
#[derive(Debug, Args)]
#[command(after_help = TRACE_EXAMPLES, allow_negative_numbers = true,
          group = ArgGroup::new("what").args(["output", "against"]).multiple(true).required(true))]
pub struct TraceArgs {
    /// The model: a folder or a file
    pub model: PathBuf,
    /// Text, made into tokens by the model's own vocabulary
    #[arg(long, value_name = "TEXT", conflicts_with = "ids")]
    pub prompt: Option<String>,
    /// Ids of the tokens; without them or a text, those of the trace that it is held against
    #[arg(long, value_name = "ID,...", value_parser = ids,
          required_unless_present_any = ["against", "prompt"])]
    pub ids: Vec<Ids>,
    /// Write every intermediate to this safetensors file
    #[arg(long, short, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Hold the run against a trace, another model, or another kernel (kernel:SPEC)
    #[arg(long, value_name = "FILE|MODEL|kernel:SPEC")]
    pub against: Option<String>,
    /// How far elements may be apart, as a share of the largest entry of their row [default: derived]
    #[arg(long, value_name = "SHARE", requires = "against", value_parser = share)]
    pub tolerance: Option<f64>,
    /// Show every intermediate, not the last of each layer alone
    #[arg(long, requires = "against")]
    pub full: bool,
    /// What commands that run a model share; `auto` is `exact` here.
    #[command(flatten)]
    pub run: RunArgs,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| share.is_finite() && *share >= 0.0);
    share.ok_or_else(|| "expected a number that is not below 0".to_owned())
}

/// Arguments of `perplexity`.
#[derive(Debug, Args)]
#[command(after_help = PERPLEXITY_EXAMPLES, allow_negative_numbers = true)]
pub struct PerplexityArgs {
    /// The model: a folder or a file
    pub model: PathBuf,
    /// The text, made into tokens by the model's own vocabulary
    #[arg(long, value_name = "FILE", required_unless_present = "ids_file", conflicts_with = "ids_file")]
    pub text: Option<PathBuf>,
    /// The text as ids of tokens: a JSON list, or numbers with spaces or commas between them
    #[arg(long, value_name = "FILE")]
    pub ids_file: Option<PathBuf>,
    /// Another model to hold it against: a folder or a file
    #[arg(long, value_name = "MODEL")]
    pub against: Option<PathBuf>,
    /// Tokens of a window
    #[arg(long, value_name = "N", default_value_t = 512)]
    pub context: usize,
    /// Tokens that each window is behind the last [default: half of the window]
    #[arg(long, value_name = "N")]
    pub stride: Option<usize>,
    /// What commands that run a model share; `auto` is `exact` here.
    #[command(flatten)]
    pub run: RunArgs,
}
