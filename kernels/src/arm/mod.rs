//! AArch64. On other processors the leaves are registered all the same, and say why they cannot run.

pub(crate) mod neon;
