//! What is done to scantling's readers with arbitrary bytes.
//!
//! - [`targets`]: one function of bytes for each way in. None may panic, whatever the bytes.
//! - [`seeds`]: small good files, built here, and whatever lies in `testdata`.
//! - [`folder`]: several files as one run of bytes.
//! - [`mutate`]: how inputs are made of them.
//! - [`outcome`]: what an input led to, so that inputs with new outcomes can be told and kept.
//!
//! The binary of this package runs the targets by itself on a stable compiler. cargo-fuzz runs the same
//! functions by way of `fuzz_targets`.

#![forbid(unsafe_code)]

pub mod folder;
mod kernel;
pub mod mutate;
pub mod outcome;
pub mod seeds;
pub mod targets;
