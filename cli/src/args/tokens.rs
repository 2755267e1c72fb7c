//! Arguments of `tokenize` and `detokenize`.

use super::ListArgs;
use clap::Args;
use std::path::PathBuf;

const TOKENIZE_EXAMPLES: &str = "\
Examples:
  scantling tokenize Qwen3-0.6B/ 'The capital of France is'
  scantling tokenize model.gguf --chat --system 'Be brief.' 'Hello'
  scantling tokenize tokenizer.json --prompt-file prompt.txt --ids-only
  scantling tokenize model.gguf --json < prompt.txt | jq -c '[.tokens[].id]'

Bytes are places in the text (with --chat, in the text that the template made of it). A token that was added at an
edge stands for none. Where a character is split, each of its tokens gives the whole character.";

const DETOKENIZE_EXAMPLES: &str = "\
Examples:
  scantling detokenize Qwen3-0.6B/ 785 6722 315 9625 374
  scantling tokenize model.gguf --ids-only 'Hello' | scantling detokenize model.gguf";

/// Arguments of `tokenize`.
#[derive(Debug, Args)]
#[command(after_help = TOKENIZE_EXAMPLES)]
pub struct TokenizeArgs {
    /// The model, or a tokenizer.json
    pub model: PathBuf,
    /// The text; without one it is read from standard input
    pub text: Option<String>,
    /// Take the text from this file
    #[arg(long, value_name = "FILE", conflicts_with = "text")]
    pub prompt_file: Option<PathBuf>,
    /// Put the text through the model's chat template, as what the user says
    #[arg(long)]
    pub chat: bool,
    /// What the system says before the user
    #[arg(long, value_name = "TEXT", requires = "chat")]
    pub system: Option<String>,
    /// Add no token at the edges, and take special tokens in the text as plain text
    #[arg(long, conflicts_with = "chat")]
    pub no_special: bool,
    /// Print the ids alone, on one line
    #[arg(long, conflicts_with_all = ["format", "json"])]
    pub ids_only: bool,
    /// Form of the output.
    #[command(flatten)]
    pub list: ListArgs,
}

/// Arguments of `detokenize`.
#[derive(Debug, Args)]
#[command(after_help = DETOKENIZE_EXAMPLES)]
pub struct DetokenizeArgs {
    /// The model, or a tokenizer.json
    pub model: PathBuf,
    /// The ids; without any they are read from standard input
    pub ids: Vec<u32>,
    /// Leave special tokens out
    #[arg(long)]
    pub skip_special: bool,
    /// Form of the output.
    #[command(flatten)]
    pub list: ListArgs,
}
