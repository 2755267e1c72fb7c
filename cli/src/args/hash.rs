//! The arguments of `hash`.

use super::ListArgs;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  scantling hash Qwen3-0.6B/
  scantling hash Qwen3-0.6B/ --write qwen3.hashes
  scantling hash copy/ --check qwen3.hashes
  scantling hash model-BF16.gguf --semantic --json | jq -r .whole
  scantling hash ~/.cache/huggingface/hub/models--Qwen--Qwen3-0.6B/snapshots/*/ --files

SHA-256 of each tensor's stored bytes, and one of the whole, which depends neither on the order of tensors, nor on how they
are spread over files, nor on the format. --semantic hashes numbers as f32 in the form of GGUF and under its names, so that
a safetensors model and a conversion of it that loses nothing agree; of a family that is not known it takes stored names.
--check hears from the file which of the two it is of. What is hashed, to the byte, and what a manifest looks like:
docs/hash.md. Metadata, config and vocabulary are not hashed.
--files hashes whole weight files and holds them against what was written down when they were fetched: names in the hub's
cache, notes in .cache/huggingface/download, names in the stores of Ollama, NAME.sha256 and SHA256SUMS. No network.
Exit codes: 0 the same, or nothing to hold it against; 1 something differs, is missing, is new or could not be read, no
tensor was left to compare, a record of a file is malformed, or the files have faults; 2 a wrong request; 3 something cannot be read at all.";

/// Arguments of `hash`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct HashArgs {
    /// The model: a folder or a file
    pub model: PathBuf,
    /// Hash numbers as f32 in the form of GGUF, not bytes as they are stored
    #[arg(long)]
    pub semantic: bool,
    /// Write the digests to this file
    #[arg(long, value_name = "FILE")]
    pub write: Option<PathBuf>,
    /// Hold the model against the digests in this file
    #[arg(long, value_name = "FILE")]
    pub check: Option<PathBuf>,
    /// Hash whole files, and hold them against what was written down when they were fetched
    #[arg(long, conflicts_with_all = ["semantic", "write", "check", "include", "exclude"])]
    pub files: bool,
    /// Hash only tensors one of whose names matches; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Leave out tensors one of whose names matches; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Threads; 0 for one to a core
    #[arg(long, value_name = "N", env = "SCANTLING_THREADS", default_value = "0", value_parser = super::threads)]
    pub threads: usize,
    /// Read the tensors by this architecture, whatever the files say (see `scantling plugins`)
    #[arg(long, value_name = "NAME")]
    pub arch: Option<String>,
    /// Take the hyperparameters from this config.json
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Say only what differs, and how it ends
    #[arg(long, short)]
    pub quiet: bool,
    /// Form of the output.
    #[command(flatten)]
    pub list: ListArgs,
}
