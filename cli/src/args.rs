//! The arguments: definitions and help texts, nothing else.

mod compute;
mod diff;
mod generate;
mod hash;
mod kernels;
mod memory;
mod run;
mod show;
mod stats;

pub use compute::*;
pub use diff::*;
pub use generate::*;
pub use hash::*;
pub use kernels::*;
pub use memory::*;
pub use run::*;
pub use show::*;
pub use stats::*;
mod tokens;

pub use tokens::*;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{Args, Parser, Subcommand, ValueEnum};
use scantling_core::finding::{Part, Severity};
use std::path::PathBuf;

const EXIT_CODES: &str = "\
Exit codes:
  0  clean
  1  something was found (for check: of the severity of --fail-on, or above), or what a model gives is no number
  2  the request is wrong: an unknown option or plugin, a folder with several models
  3  no tensor list can be made: unreadable, damaged, not a model
With several models it is the largest of theirs.";

const INSPECT_EXAMPLES: &str = "\
Examples:
  scantling inspect Qwen3-0.6B/
  scantling inspect model.gguf --metadata
  scantling inspect model.safetensors --config config.json --arch qwen3
  scantling inspect Qwen3-0.6B/ --tensors --include '*.layers.0.*'
  scantling inspect Qwen3-0.6B/ --html report.html
  scantling inspect model.gguf --json | jq .model.counts";

const CHECK_EXAMPLES: &str = "\
Examples:
  scantling check models/*.gguf
  scantling check Qwen3-0.6B/ --data
  scantling check Qwen3-0.6B/ --only container,shards
  scantling check Qwen3-0.6B/ --format sarif > findings.sarif";

const ARCH_EXAMPLES: &str = "\
Examples:
  scantling plugins arch
  scantling plugins arch llama --config config.json
  scantling plugins arch --config Qwen3-0.6B/config.json --json | jq .totals

No weights are needed. A name that stands in one world only is — in the other; layers that are alike share a row.
Exit codes: 0 the config is sound, 1 something is wrong with it, 2 it cannot be read, or no family is known for it.";

/// Inspect model weight files, check them against their architecture, and run them.
///
/// MODEL is a folder, a .safetensors or .gguf file, a model.safetensors.index.json, or any part of a split
/// set. What a file is is told by its content, not by its name.
#[derive(Debug, Parser)]
#[command(name = "scantling", version, after_help = EXIT_CODES)]
pub struct Cli {
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
    /// How output looks.
    #[command(flatten)]
    pub look: LookArgs,
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show what a model is: its dimensions, its tensors, and whether they fit
    Inspect(InspectArgs),
    /// Check one model or many, and say what is wrong with them
    Check(CheckArgs),
    /// Tell whether a model is another one, across formats, and in what it is not
    Diff(DiffArgs),
    /// Show the numbers of a tensor, its bytes, or a block of it field by field
    Show(ShowArgs),
    /// Give digests of tensors and of the whole, and hold a model against those that were kept
    Hash(HashArgs),
    /// Show the numbers of each tensor: limits, mean, spread, what is odd
    Stats(StatsArgs),
    /// List the formats, architectures and kernels in this program
    Plugins(PluginsArgs),
    /// Show which tokens a model finds likely next
    Logits(LogitsArgs),
    /// Write every intermediate of a forward pass, or find where two runs first differ
    Trace(TraceArgs),
    /// Tell how well a model foretells a text, and how far it is from another
    Perplexity(PerplexityArgs),
    /// Let a model write on from a text
    Generate(GenerateArgs),
    /// Tell what a run would take in memory: weights, keys and values, and what is worked with
    Memory(MemoryArgs),
    /// Measure how fast a model reads prompts and writes tokens
    Bench(BenchArgs),
    /// List, check and measure the kernels that compute
    Kernels {
        /// What about them.
        #[command(subcommand)]
        command: KernelsCommand,
    },
    /// Show a text as the model's tokens: ids, pieces, and the bytes they stand for
    Tokenize(TokenizeArgs),
    /// Show the text of ids
    Detokenize(DetokenizeArgs),
    /// Explain a finding by its code; without a code, list them all
    Explain(ExplainArgs),
    /// Print a completion script for a shell
    Completions {
        /// The shell
        shell: clap_complete::Shell,
    },
    /// Print the manual page
    Man {
        /// The command it is about; without one, the page of the program
        command: Option<String>,
    },
}

/// How output looks, whatever the command.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Appearance")]
pub struct LookArgs {
    /// When to use colours
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        env = "SCANTLING_COLOR"
    )]
    pub color: ColourWish,
    /// Write only ASCII
    #[arg(long, global = true, env = "SCANTLING_ASCII", value_parser = clap::builder::FalseyValueParser::new())]
    pub ascii: bool,
    /// Columns to fit text into [default: as many as the terminal has]
    #[arg(long, global = true, value_name = "COLUMNS", env = "SCANTLING_WIDTH", value_parser = columns)]
    pub width: Option<Columns>,
}

/// A width; `None` for the terminal's own, which an empty environment variable asks for.
pub type Columns = Option<usize>;

fn columns(text: &str) -> Result<Columns, std::num::ParseIntError> {
    if text.is_empty() { Ok(None) } else { text.parse().map(Some) }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ColourWish {
    /// On a terminal, unless NO_COLOR is set
    #[value(alias = "")]
    Auto,
    /// Always
    Always,
    /// Never
    Never,
}

/// What takes the place of what the files say.
#[derive(Debug, Args)]
pub struct OverrideArgs {
    /// Check against this architecture, whatever the files say (see `scantling plugins`)
    #[arg(long, value_name = "NAME")]
    pub arch: Option<String>,
    /// Take the hyperparameters from this config.json
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Do not compare tied tensors byte by byte
    #[arg(long)]
    pub no_identity: bool,
}

/// Arguments of `inspect`.
#[derive(Debug, Args)]
#[command(after_help = INSPECT_EXAMPLES)]
pub struct InspectArgs {
    /// The model: a folder or a file
    pub model: PathBuf,
    /// What takes the place of what the files say.
    #[command(flatten)]
    pub overrides: OverrideArgs,
    /// List each tensor instead of one row for each kind
    #[arg(long)]
    pub tensors: bool,
    /// Order of the list
    #[arg(long, value_enum, value_name = "KEY", default_value = "name", requires = "tensors")]
    pub sort: SortKey,
    /// List only tensors whose names match; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub include: Vec<String>,
    /// Leave out tensors whose names match; may be repeated
    #[arg(long, value_name = "GLOB")]
    pub exclude: Vec<String>,
    /// Show the metadata of the weight file, long values cut
    #[arg(long)]
    pub metadata: bool,
    /// Cut nothing: long metadata whole, all findings
    #[arg(long)]
    pub full: bool,
    /// Print the verdict alone
    #[arg(long, short)]
    pub quiet: bool,
    /// Write the report as a page for a browser too, with pictures and a list of every tensor
    #[arg(long, value_name = "FILE")]
    pub html: Option<PathBuf>,
    /// Form of the output
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    pub format: ListForm,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// Arguments of `check`.
#[derive(Debug, Args)]
#[command(after_help = CHECK_EXAMPLES)]
pub struct CheckArgs {
    /// The models: folders or files
    #[arg(required = true)]
    pub models: Vec<PathBuf>,
    /// What takes the place of what the files say.
    #[command(flatten)]
    pub overrides: OverrideArgs,
    /// Look at these parts only
    #[arg(long, value_name = "PART,...", value_delimiter = ',', value_parser = part_parser())]
    pub only: Option<Vec<Part>>,
    /// Read every value too, and look for NaN and infinity
    #[arg(long)]
    pub data: bool,
    /// The severity from which on the exit code is 1
    #[arg(long, value_enum, value_name = "SEVERITY", default_value = "error")]
    pub fail_on: FailOn,
    /// Show all findings, however many are alike
    #[arg(long)]
    pub full: bool,
    /// Name the models that fail, and nothing else
    #[arg(long, short)]
    pub quiet: bool,
    /// Form of the output
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    pub format: CheckForm,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// Arguments of commands that list.
#[derive(Debug, Args)]
pub struct ListArgs {
    /// Form of the output
    #[arg(long, value_enum, value_name = "FORM", default_value = "text")]
    pub format: ListForm,
    /// The same as --format json
    #[arg(long, conflicts_with = "format")]
    pub json: bool,
}

/// Arguments of `plugins`.
#[derive(Debug, Args)]
#[command(args_conflicts_with_subcommands = true)]
pub struct PluginsArgs {
    /// What about them.
    #[command(subcommand)]
    pub command: Option<PluginsCommand>,
    /// Form of the output.
    #[command(flatten)]
    pub list: ListArgs,
}

/// What about the plugins.
#[derive(Debug, Subcommand)]
pub enum PluginsCommand {
    /// List the architectures, or show every tensor that one must have by a config.json
    Arch(ArchArgs),
}

/// Arguments of `plugins arch`.
#[derive(Debug, Args)]
#[command(after_help = ARCH_EXAMPLES)]
pub struct ArchArgs {
    /// The architecture; without it, all are listed, or the one is taken that the config names
    pub name: Option<String>,
    /// The config.json whose tensors to show
    #[arg(long, value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Form of the output.
    #[command(flatten)]
    pub list: ListArgs,
}

/// Arguments of `explain`.
#[derive(Debug, Args)]
pub struct ExplainArgs {
    /// The code, as it stands in brackets before a finding
    pub code: Option<String>,
    /// Form of the output.
    #[command(flatten)]
    pub list: ListArgs,
}

/// Orders of the tensor list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// By name, numbers by their value: layer 2 before layer 10
    Name,
    /// The largest first
    Size,
    /// By element type
    Dtype,
    /// As they lie in the files
    File,
}

/// Severities that a check can fail on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum FailOn {
    /// Errors
    Error,
    /// Warnings and errors
    Warning,
    /// Nothing: only what cannot be read at all fails
    Never,
}

impl FailOn {
    /// The least severity that counts, if any does.
    pub fn severity(self) -> Option<Severity> {
        match self {
            FailOn::Error => Some(Severity::Error),
            FailOn::Warning => Some(Severity::Warning),
            FailOn::Never => None,
        }
    }
}

/// Forms of what is listed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ListForm {
    /// For people
    Text,
    /// For programs; see docs/report.schema.json
    Json,
}

/// Forms of a check's report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum CheckForm {
    /// For people
    Text,
    /// For programs; see docs/report.schema.json
    Json,
    /// A table for each model, for pull requests and job summaries
    Markdown,
    /// SARIF 2.1.0, for code scanning
    Sarif,
}

impl InspectArgs {
    /// The form that was asked for in either way.
    pub fn form(&self) -> ListForm {
        if self.json { ListForm::Json } else { self.format }
    }
}

impl CheckArgs {
    /// The form that was asked for in either way.
    pub fn form(&self) -> CheckForm {
        if self.json { CheckForm::Json } else { self.format }
    }
}

impl ListArgs {
    /// Whether JSON was asked for in either way.
    pub fn wants_json(&self) -> bool {
        self.json || self.format == ListForm::Json
    }
}

/// Parts by their words; clap names the known ones when there is another.
fn part_parser() -> impl TypedValueParser<Value = Part> {
    PossibleValuesParser::new(Part::ALL.map(Part::word))
        .map(|word| Part::ALL.into_iter().find(|p| p.word() == word).unwrap_or(Part::Container))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_definitions_hold_together() {
        Cli::command().debug_assert();
    }

    #[test]
    fn every_part_has_its_word() {
        for part in Part::ALL {
            let cli = Cli::try_parse_from(["scantling", "check", "x", "--only", part.word()]).unwrap();
            let Command::Check(check) = cli.command else { panic!("not a check") };
            assert_eq!(check.only, Some(vec![part]));
        }
    }
}
