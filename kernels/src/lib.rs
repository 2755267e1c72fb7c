//! Numeric backends of scantling. Each module registers its own kernel and exports nothing else.
//!
//! A program that links this crate must name it (`use scantling_kernels as _;`), or the linker drops it.

mod arm;
mod awake;
mod exact;
mod int8;
mod labels;
mod parts;
mod profile;
mod rayon;
mod scalar;
mod simd;
#[cfg(test)]
mod tests;
mod verify;
mod x86;

pub use arm::neon::NEON;
pub use arm::neon_int8::NEON_INT8;
pub use profile::PROFILE;
pub use rayon::RAYON;
pub use scalar::SCALAR;
pub use verify::VERIFY;
pub use x86::avx2::AVX2;
pub use x86::avx2_int8::AVX2_INT8;
pub use x86::avx512::AVX512;
pub use x86::avx512_int8::AVX512_INT8;
