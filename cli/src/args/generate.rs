//! The arguments of `generate`.

use super::{ChatArgs, KvWish, RunArgs};
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  scantling generate model.gguf --prompt 'The capital of France is' -n 24
  scantling generate Qwen3-0.6B/ --chat --prompt 'What is the capital of France?'
  scantling generate Qwen3-0.6B/ --chat --system 'Be brief.'
  printf '%s\\n' 'My name is Ada.' 'Who am I?' | scantling generate model.gguf --chat --json | jq -r '.turns[].text'
  scantling generate model.gguf --prompt-file prompt.txt --temperature 0.7 --top-p 0.9 --seed 1
  scantling generate model.gguf --prompt 'Once' --stop '. ' --json | jq -r .text

Without --temperature the likeliest token is taken each time, so that two runs can be compared; --top-k, --top-p,
--min-p and --seed then have no effect. Text goes to standard
output as it comes; which kernel ran, how fast, and in how much memory to standard error.
With --chat and no text each line of standard input is a turn of one conversation; the end of input ends it. On a
terminal an interrupt ends the answer under way, and at the prompt the conversation. -n bounds each answer.
Exit codes: 0 done, 1 the model gives no numbers, 2 a wrong request, 3 something cannot be read, 130 interrupted.";

/// Arguments of `generate`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES, allow_negative_numbers = true)]
pub struct GenerateArgs {
    /// The model: a folder or a file
    pub model: PathBuf,
    /// The text to go on from; without one it is read from standard input, with --chat a turn from each line
    #[arg(long, value_name = "TEXT")]
    pub prompt: Option<String>,
    /// Take the text from this file
    #[arg(long, value_name = "FILE", conflicts_with = "prompt")]
    pub prompt_file: Option<PathBuf>,
    /// Whether it is a conversation.
    #[command(flatten)]
    pub chat: ChatArgs,
    /// Tokens to write at most
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128)]
    pub new_tokens: usize,
    /// Tokens that there is room for [default: prompt and new tokens; for several turns 4096, or what the model was
    /// made for if that is less]
    #[arg(long, value_name = "N")]
    pub context: Option<usize>,
    /// How keys and values are stored [default: f32 for exact kernels, f16 for others]
    #[arg(long, value_enum, value_name = "TYPE")]
    pub kv_type: Option<KvWish>,
    /// Stop before this text; may be given several times
    #[arg(long, value_name = "TEXT")]
    pub stop: Vec<String>,
    /// Go on after a token that ends a turn
    #[arg(long)]
    pub ignore_eos: bool,
    /// What commands that run a model share; `auto` is `fast` here.
    #[command(flatten)]
    pub run: RunArgs,
    /// How the next token is chosen.
    #[command(flatten)]
    pub sampling: SamplingArgs,
}

/// How the next token is chosen.
#[derive(Debug, Args)]
#[command(next_help_heading = "Choice of tokens")]
pub struct SamplingArgs {
    /// Logits are divided by it; 0 takes the likeliest
    #[arg(long, value_name = "T", default_value_t = 0.0, value_parser = not_negative)]
    pub temperature: f32,
    /// Only so many of the likeliest; 0 for all
    #[arg(long, value_name = "K", default_value_t = 0)]
    pub top_k: usize,
    /// Only the likeliest whose probabilities reach this together
    #[arg(long, value_name = "P", default_value_t = 1.0, value_parser = share)]
    pub top_p: f32,
    /// Only those at least so likely as this share of the likeliest
    #[arg(long, value_name = "P", default_value_t = 0.0, value_parser = share)]
    pub min_p: f32,
    /// Make tokens of the last 64 less likely by this factor; 1 for none
    #[arg(long, value_name = "R", default_value_t = 1.0, value_parser = positive)]
    pub repeat_penalty: f32,
    /// Seed of the choice
    #[arg(long, value_name = "N", default_value_t = 0)]
    pub seed: u64,
}

fn not_negative(text: &str) -> Result<f32, String> {
    let number = text.parse().ok().filter(|x: &f32| x.is_finite() && *x >= 0.0);
    number.ok_or_else(|| "expected a number of at least 0".to_owned())
}

fn share(text: &str) -> Result<f32, String> {
    not_negative(text).ok().filter(|x| *x <= 1.0).ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

fn positive(text: &str) -> Result<f32, String> {
    not_negative(text).ok().filter(|x| *x > 0.0).ok_or_else(|| "expected a number above 0".to_owned())
}

impl SamplingArgs {
    /// The options that were given and have no effect, since the likeliest token is taken anyway.
    pub fn idle(&self) -> Vec<&'static str> {
        let changed = [
            (self.top_k != 0, "--top-k"),
            (self.top_p != 1.0, "--top-p"),
            (self.min_p != 0.0, "--min-p"),
            (self.seed != 0, "--seed"),
        ];
        let idle = changed.into_iter().filter(|(changed, _)| *changed && self.temperature == 0.0);
        idle.map(|(_, name)| name).collect()
    }
}
