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
  scantling detokenize Qwen3-0.6B/ '[785, 6722, 315]'
  scantling tokenize model.gguf --ids-only 'Hello' | scantling detokenize model.gguf

Ids may have spaces or commas between them, or be a JSON list. Into a file or a pipe goes the exact text; on a terminal
characters that it would obey are escaped.";

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
    /// Whether it is a conversation.
    #[command(flatten)]
    pub chat: ChatArgs,
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
#[command(after_help = DETOKENIZE_EXAMPLES, allow_negative_numbers = true)]
pub struct DetokenizeArgs {
    /// The model, or a tokenizer.json
    pub model: PathBuf,
    /// The ids; without any they are read from standard input
    pub ids: Vec<String>,
    /// Leave special tokens out
    #[arg(long)]
    pub skip_special: bool,
    /// Form of the output.
    #[command(flatten)]
    pub list: ListArgs,
}

/// Ids of one `--ids`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ids(pub Vec<u32>);

impl Ids {
    /// All of them, in the order they were given.
    pub fn all(given: &[Ids]) -> Vec<u32> {
        given.iter().flat_map(|ids| ids.0.iter().copied()).collect()
    }
}

/// The value of `--ids`.
pub fn ids(text: &str) -> Result<Ids, String> {
    match ids_in(text) {
        Ok(ids) if ids.is_empty() => Err("there is no id in it".to_owned()),
        Ok(ids) => Ok(Ids(ids)),
        Err(what) => {
            Err(format!("{what}; expected whole numbers with commas or spaces between, or a JSON list"))
        }
    }
}

/// Ids in a text, or what in it is none.
pub fn ids_in(text: &str) -> Result<Vec<u32>, String> {
    let inner = text.trim();
    let inner = inner.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(inner);
    let words = inner.split(|c: char| c == ',' || c.is_whitespace()).filter(|word| !word.is_empty());
    let id = |(i, word): (usize, &str)| {
        let start = || word.chars().take(24).collect::<String>();
        word.parse().map_err(|_| format!("number {i} of it is {:?}", start()))
    };
    words.enumerate().map(id).collect()
}

/// How a text is put to a model that talks.
#[derive(Debug, Args)]
pub struct ChatArgs {
    /// Put the text through the model's chat template, as what the user says
    #[arg(long)]
    pub chat: bool,
    /// What the system says before the user
    #[arg(long, value_name = "TEXT", requires = "chat")]
    pub system: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_read_however_they_are_listed() {
        for text in ["1,2,3", "1 2 3", "[1, 2, 3]", "[1,2,3]\n", " 1, 2\t3 "] {
            assert_eq!(ids(text), Ok(Ids(vec![1, 2, 3])), "{text}");
        }
        assert!(ids("1,-2").unwrap_err().contains("number 1 of it is \"-2\""));
        assert!(ids("[]").is_err());
    }
}
