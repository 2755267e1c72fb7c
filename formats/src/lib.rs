//! Readers of weight files. Each submits itself as a format plugin; the statics are for programs that make
//! their registry by hand.

#![forbid(unsafe_code)]

mod gguf;
mod safetensors;

pub use gguf::GGUF;
pub use safetensors::SAFETENSORS;
