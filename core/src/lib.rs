//! Contracts, definitions and checks for model weight files.
//!
//! - What files say: [`source`], [`bundle`], [`index`], [`metadata`], [`config`], [`dtype`], [`quant`].
//! - What a model expects: [`architecture`], [`table`], [`axis`], [`decoder`], [`derived`].
//! - What computes: [`kernel`], [`ops`], [`matrix`]; how far it may be off: [`tolerance`]; on what: [`machine`],
//!   [`paging`], [`parallel`].
//! - What runs: [`model`] (opened and fed), [`pass`] (one forward pass), [`weights`], [`cache`], [`rope`],
//!   [`sample`].
//! - Text and ids, with the feature `tokenizer`: the module of that name.
//! - What one asks of a model: [`show`] (its numbers), [`stats`] (what they come to), [`hash`] (digests of them).
//! - What one asks of a run: [`logits`], [`trace`], [`perplexity`], and before it, what it takes: [`memory`].
//! - What one asks of two models: [`diff`], after bringing both into one form ([`convert`]).
//! - What plugs in: [`registry`]; how a path is opened: [`open`]; why not: [`error`], [`finding`], [`foreign`].

#![deny(unsafe_code)]

pub mod architecture;
pub mod axis;
pub mod block;
pub mod bundle;
pub mod cache;
pub mod check;
pub mod config;
#[cfg(feature = "conformance")]
pub mod conformance;
pub mod convert;
pub mod decoder;
pub mod derived;
pub mod diff;
pub mod distance;
pub mod dtype;
pub mod error;
pub mod finding;
pub mod foreign;
#[cfg(feature = "tokenizer")]
pub mod generate;
pub mod hash;
pub mod index;
pub mod json;
pub mod kernel;
pub mod ledger;
pub mod logits;
pub mod machine;
pub mod matrix;
pub mod memory;
pub mod metadata;
pub mod model;
pub mod names;
pub mod npy;
pub mod open;
pub mod ops;
pub mod packed;
pub mod paging;
pub mod parallel;
pub mod pass;
pub mod perplexity;
pub mod quant;
pub mod registry;
pub mod report;
pub mod rope;
pub mod sample;
pub mod show;
pub mod source;
pub mod stats;
pub mod table;
#[cfg(feature = "tokenizer")]
pub mod tokenizer;
pub mod tolerance;
pub mod trace;
pub mod vocabulary_names;
pub mod weights;
mod wrapped;

pub use inventory;
