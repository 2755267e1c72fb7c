//! Plugins from outside scantling's tree, one module each.
//!
//! A program gets them by naming this crate (`use custom as _;`): each registers itself, but the linker drops a
//! crate that no code names.

#![warn(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]

mod toymlp;
mod toytensors;

pub use toymlp::TOYMLP;
pub use toytensors::TOYTENSORS;
