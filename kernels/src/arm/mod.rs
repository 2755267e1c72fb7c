//! AArch64. On other processors the leaves are registered all the same, and say why they cannot run.

pub(crate) mod neon;
#[cfg(target_arch = "aarch64")]
mod neon_dot8;
pub(crate) mod neon_int8;
#[cfg(target_arch = "aarch64")]
mod neon_squares;
