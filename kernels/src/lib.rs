//! Numeric backends of scantling. Each module registers its own kernel and exports nothing else.
//!
//! A program that links this crate must name it (`use scantling_kernels as _;`), or the linker drops it.

mod exact;
mod parts;
mod profile;
mod rayon;
mod scalar;
mod simd;
mod verify;
mod x86;

pub use profile::PROFILE;
pub use rayon::RAYON;
pub use scalar::SCALAR;
pub use verify::VERIFY;
pub use x86::avx2::AVX2;
