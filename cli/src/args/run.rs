//! The arguments of what runs a model.

use super::{KernelArgs, ListArgs, OverrideArgs};
use clap::{Args, ValueEnum};
use scantling_core::cache::KvType;
use std::path::PathBuf;

const BENCH_EXAMPLES: &str = "\
Examples:
  scantling bench model.gguf
  scantling bench model.gguf -p 512 -n 128 -r 5 --threads 2
  scantling bench model.gguf --kernel exact,fast
  scantling bench model.gguf -n 32 --depth 4096
  scantling bench model.gguf --kernel profile+fast

pp is the reading of a prompt, tg the writing of tokens one by one, each after --depth tokens that are in the cache.
Rates are the median of repetitions, ± half of the interquartile range. The share is of the limit measured in the same
run over the model's own bytes: reading every weight once for each token, or multiplying with each. Above 100 % something else on the machine
disturbed the limit, or what is read over and over stays in the caches, which the limit leaves out.";

/// Arguments of `bench`.
#[derive(Debug, Args)]
#[command(after_help = BENCH_EXAMPLES, allow_negative_numbers = true)]
pub struct BenchArgs {
    /// The model: a folder or a file
    pub model: PathBuf,
    /// Tokens of a prompt; 0 for none
    #[arg(short = 'p', long, value_name = "N", default_value_t = 512)]
    pub prompt_tokens: usize,
    /// Tokens that are written; 0 for none
    #[arg(short = 'n', long, value_name = "N", default_value_t = 128)]
    pub new_tokens: usize,
    /// Repetitions of each
    #[arg(short = 'r', long, value_name = "N", default_value_t = 5,
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1000))]
    pub repetitions: usize,
    /// Tokens that are in the cache before
    #[arg(short = 'd', long, value_name = "N", default_value_t = 0)]
    pub depth: usize,
    /// How keys and values are stored [default: f32 for exact kernels, f16 for others]
    #[arg(long, value_enum, value_name = "TYPE")]
    pub kv_type: Option<KvWish>,
    /// What commands that run a model share; `auto` is `fast` here.
    #[command(flatten)]
    pub run: RunArgs,
}

/// What every command that runs a model takes.
#[derive(Debug, Args)]
#[command(mut_arg("kernel", |arg| arg.help(KERNEL)))]
pub struct RunArgs {
    /// What takes the place of what the files say.
    #[command(flatten)]
    pub overrides: OverrideArgs,
    /// Form of the output.
    #[command(flatten)]
    pub list: ListArgs,
    /// Which kernel computes: last, for its heading would stand over all that follows.
    #[command(flatten)]
    pub kernels: KernelArgs,
}

/// The commands that compare kernels run all of them; those that run a model choose.
const KERNEL: &str = "The kernel: auto, exact, fast, a name of `kernels list`, or wrappers and a name: rayon+avx2, \
    verify+fast; bench takes several [default: auto, which is exact where numbers are looked at, and fast in generate \
    and bench]";

/// How keys and values may be stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum KvWish {
    /// As they are computed
    F32,
    /// In half the memory
    F16,
}

impl KvWish {
    /// As core has it.
    pub fn kind(self) -> KvType {
        match self {
            KvWish::F32 => KvType::F32,
            KvWish::F16 => KvType::F16,
        }
    }
}
