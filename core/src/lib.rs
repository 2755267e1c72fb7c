//! x
pub mod dtype;
pub mod quant;
