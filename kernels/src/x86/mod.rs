//! x86-64. On other processors the leaves are registered all the same, and say why they cannot run.

#[cfg(target_arch = "x86_64")]
mod as_avx2;
pub(crate) mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx2_dot8;
pub(crate) mod avx2_int8;
#[cfg(target_arch = "x86_64")]
mod avx2_places;
#[cfg(target_arch = "x86_64")]
mod avx2_vnni;
pub(crate) mod avx512;
#[cfg(target_arch = "x86_64")]
mod avx512_dot8;
pub(crate) mod avx512_int8;
#[cfg(target_arch = "x86_64")]
mod block_sums;
#[cfg(target_arch = "x86_64")]
mod registers;
