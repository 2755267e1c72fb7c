//! Numeric backends of scantling. Each module registers its own kernel and exports nothing else.
//!
//! A program that links this crate must name it (`use scantling_kernels as _;`), or the linker drops it.

#![forbid(unsafe_code)]

mod profile;
mod rayon;
mod scalar;
mod verify;

pub use profile::PROFILE;
pub use rayon::RAYON;
pub use scalar::SCALAR;
pub use verify::VERIFY;
