//! Model families, one file each. Each registers itself.
//!
//! A program that links this crate must name it (`use scantling_architectures as _;`), or the linker drops it.

#![forbid(unsafe_code)]

mod llama;
mod qwen2;
mod qwen3;

pub use llama::LLAMA;
pub use qwen2::QWEN2;
pub use qwen3::QWEN3;
