//! Numeric backends of scantling. Each module registers its own kernel and exports nothing else.
//!
//! A program that links this crate must name it (`use scantling_kernels as _;`), or the linker drops it.

mod exact;
mod int8;
mod scalar;
mod simd;
mod x86;

pub use scalar::SCALAR;
pub use x86::avx2::AVX2;
pub use x86::avx2_int8::AVX2_INT8;
