//! Numeric backends of scantling. Each module registers its own kernel and exports nothing else.
//!
//! A program that links this crate must name it (`use scantling_kernels as _;`), or the linker drops it.

#![forbid(unsafe_code)]

mod scalar;

pub use scalar::SCALAR;
