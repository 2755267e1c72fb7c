//! A hyperparameter's names, and what is known of it once it was read.

use crate::metadata::Value;

/// One hyperparameter under both of its names.
#[derive(Debug, PartialEq, Eq)]
pub struct Key {
    /// Names in `config.json`, the preferred place first; dots lead into nested objects.
    pub hf: &'static [&'static str],
    /// Name in GGUF, after the family prefix; names that begin with `general.` or `tokenizer.` stand alone.
    /// Empty if GGUF has no such key.
    pub gguf: &'static str,
    /// Letter used for it in formulas, or empty.
    pub symbol: &'static str,
    /// What it is, in a few words.
    pub meaning: &'static str,
}

/// Where a value came from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Origin {
    /// The file says so.
    File,
    /// The file is silent and the reference class of the family fixes the value.
    Default,
    /// The file is silent and the value follows from others, as told.
    Derived(String),
    /// The format of the file has no place for it, and it is what readers of the format take it for.
    Assumed,
}

/// A hyperparameter as it was read.
#[derive(Clone, Debug)]
pub struct Fact {
    /// Under which names it is asked for.
    pub key: &'static Key,
    /// The key's name in its own file.
    pub name: String,
    /// Letter for formulas, or empty.
    pub symbol: &'static str,
    /// What it is.
    pub meaning: &'static str,
    /// The value.
    pub value: Value,
    /// Where it came from.
    pub origin: Origin,
    /// Whether it is a size or count (as opposed to a setting).
    pub dimension: bool,
    /// What follows from it, for display.
    pub note: Option<String>,
}

/// What is allowed of a number with a fraction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bound {
    /// Finite.
    Finite,
    /// Finite and above zero.
    Positive,
}
