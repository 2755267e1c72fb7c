//! x
#![forbid(unsafe_code)]

mod gguf;

pub use gguf::GGUF;
