//! The arguments of `show`.

use super::ListArgs;
use clap::Args;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  scantling show Qwen3-0.6B/ model.norm.weight
  scantling show Qwen3-0.6B/ 'model.embed_tokens.weight[0, :8]'
  scantling show model.gguf 'blk.0.attn_q.weight[-1]' --hex
  scantling show model.gguf blk.0.ffn_down.weight --block 5,0
  scantling show model.gguf 'blk.0.attn_q.weight[:64]' --npy q.npy

Ranges are those of Python: [10:20, 3], [-1], [::2], [..., 0]; axes that are not named are taken whole, the outermost axis
comes first. The whole argument is tried as a name first, since names may hold brackets. A name that the tensor has in
the other world (Hugging Face's in a GGUF file, GGUF's in a folder) is understood where the family is known.
Numbers are written so that they read back as they are. --npy holds F32, F64, integers and truth values as they are, and
all else as f32. --raw holds stored bytes, of whole blocks alone. Of a packed weight --hex and --raw take the stored tensor
that is named, also where the matrix that it is a part of has its name.
Exit codes: 0 shown, 2 no such tensor or element, 3 something cannot be read.";

/// Arguments of `show`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct ShowArgs {
    /// The model: a folder or a file
    pub model: PathBuf,
    /// The tensor, and which of its elements: NAME or NAME[RANGES]
    #[arg(value_name = "TENSOR[RANGES]")]
    pub tensor: String,
    /// Show every number, not those at the edges alone
    #[arg(long)]
    pub full: bool,
    /// Show the bytes as they are stored
    #[arg(long, conflicts_with = "block")]
    pub hex: bool,
    /// Take one block of a block-quantised tensor apart: the I-th of all, or of a row
    #[arg(long, value_name = "[ROW,]I", value_parser = place, conflicts_with_all = ["npy", "raw"])]
    pub block: Option<Place>,
    /// Write the numbers to this file, for numpy
    #[arg(long, value_name = "FILE")]
    pub npy: Option<PathBuf>,
    /// Write the bytes as they are stored to this file
    #[arg(long, value_name = "FILE")]
    pub raw: Option<PathBuf>,
    /// Read the tensors by this architecture, whatever the files say (see `scantling plugins`)
    #[arg(long, value_name = "NAME")]
    pub arch: Option<String>,
    /// Take the hyperparameters from this config.json
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Form of the output.
    #[command(flatten)]
    pub list: ListArgs,
}

/// Where a block is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The row whose blocks are counted; `None` where those of the tensor are.
    pub row: Option<usize>,
    /// Its number.
    pub number: usize,
}

fn place(text: &str) -> Result<Place, String> {
    let number = |text: &str| {
        text.trim().parse().map_err(|_| "expected I or ROW,I: whole numbers from 0 on".to_owned())
    };
    match text.split_once(',') {
        Some((row, block)) => Ok(Place { row: Some(number(row)?), number: number(block)? }),
        None => Ok(Place { row: None, number: number(text)? }),
    }
}
