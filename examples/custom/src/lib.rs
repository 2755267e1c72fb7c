//! Plugins from outside scantling's tree, one module each.
//!
//! A program gets them by naming this crate (`use custom as _;`): each registers itself, but the linker drops a
//! crate that no code names.

mod toymlp;
mod toytensors;
mod widedot;

pub use toymlp::TOYMLP;
pub use toytensors::TOYTENSORS;
pub use widedot::WIDEDOT;
