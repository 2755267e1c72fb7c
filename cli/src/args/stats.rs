//! Arguments of `stats`.

use super::threads;
use clap::{Args, ValueEnum};
use std::path::PathBuf;

const STATS_EXAMPLES: &str = "\
Examples:
  scantling stats Qwen3-0.6B/
  scantling stats model.gguf --sort std --exclude '*norm*'
  scantling stats model.gguf --include 'blk.0.attn_q.weight' --histogram
  scantling stats Qwen3-0.6B/ --format csv > stats.csv
  scantling stats Qwen3-0.6B/ --html stats.html
  scantling stats model.gguf --json | jq '.tensors[] | select(.dead_rows.count > 0) | .name'

Figures are of the finite numbers: as f32 where a type decodes to it, F64 and whole numbers of 32 bits and more as f64;
the mean is summed in f64, the standard deviation is that of a whole population. Subnormal is what is smaller than the
smallest normal number of the stored type. Two runs give the same bits, whatever the number of threads. Histograms and
the use of codes take a second pass: they are counted where they are asked for, or at most four tensors are chosen by
--include. JSON has what does not fit into text.
Exit codes: 0 all numbers are finite, 1 some are not or cannot be read, or no tensor matches, 2 a wrong request, 3 no tensor
list can be made.";

/// Arguments of `stats`.
#[derive(Debug, Args)]
#[command(after_help = STATS_EXAMPLES)]
pub struct StatsArgs {
    /// The model: a folder or a file
    pub model: PathBuf,
    /// Order of the list; by a figure, the largest first
    #[arg(long, value_enum, value_name = "KEY", default_value = "name")]
    pub sort: StatsKey,
    /// Look at tensors only whose names match; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Leave out tensors whose names match; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Count a histogram of each tensor, and how often each code of a block type is used
    #[arg(long)]
    pub histogram: bool,
    /// Show all notes, however many are alike
    #[arg(long)]
    pub full: bool,
    /// Show no progress
    #[arg(long, short)]
    pub quiet: bool,
    /// Write a page for a browser too, with a histogram of each tensor and pictures of the layers
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Threads; 0 for one to a core
    #[arg(long, value_name = "N", env = "SCANTLING_THREADS", default_value = "0", value_parser = threads)]
    pub threads: usize,
    /// Form of the output
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    pub format: StatsForm,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// Orders of the list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatsKey {
    /// By name, numbers by their value: layer 2 before layer 10
    Name,
    /// As they lie in the files
    File,
    /// By element type
    Dtype,
    /// Bytes
    Size,
    /// The smallest number
    Min,
    /// The largest number
    Max,
    /// The mean
    Mean,
    /// The standard deviation
    Std,
    /// The root mean square
    Rms,
    /// The largest magnitude
    Absmax,
    /// The largest magnitude in root mean squares: outliers first
    Peak,
    /// The share of zeros
    Zeros,
    /// Numbers that are NaN or infinite
    Nonfinite,
}

/// Forms of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum StatsForm {
    /// For people
    Text,
    /// For programs; see docs/report.schema.json
    Json,
    /// For spreadsheets: a row for each tensor under a line of headings
    Csv,
}

impl StatsArgs {
    /// The form that was asked for in either way.
    pub fn form(&self) -> StatsForm {
        if self.json { StatsForm::Json } else { self.format }
    }
}
