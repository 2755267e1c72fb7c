//! Weights that several stored tensors make up together: codes in one, scales in another.
//!
//! Hugging Face checkpoints are quantised so. Which way stands in `quantization_config`; which modules are, only the
//! stored tensors tell. [`unpack`] puts a source around one whose scheme is known here: it lists the *logical* tensor
//! `X.weight`, `[out, in]`, in the place of its parts, and makes rows of it when they are asked for.
//!
//! One file for each family of schemes, with one loop that decodes. As in [`crate::quant`], every operation is one in
//! f32 in the order written, and nothing is fused.

mod awq;
mod bitsandbytes;
mod compressed;
mod fp8;
mod gptq;
mod grid;
mod group;
mod grouped;
mod mxfp4;
mod packed_words;
mod quant_state;
mod said;
mod scheme;
mod source;
mod weight_args;

pub use source::unpack;

use crate::codes;
use crate::dtype::DType;

codes! {
    pub static PART_MISSING = Error, Names, "packed-part-missing",
        "part of a packed weight is not there",
        "quantization_config names a scheme in which several stored tensors make up one weight, and one of them is not \
         in the files: without scales, say, codes are no numbers. A shard may be absent, or the config be that of \
         another version of the model.";
    pub static PART_MISSHAPEN = Error, Shapes, "packed-part-misshapen",
        "part of a packed weight does not fit the other parts",
        "The parts of one weight imply each other's shapes: with so many inputs and groups of so many there are so many \
         rows of scales. Scales of another shape mean that group_size (or the block size) in quantization_config is not \
         the one that the weights were made with, or that the part was cut.";
    pub static PART_TYPE = Error, Types, "packed-part-type",
        "part of a packed weight is of an element type that the scheme does not have",
        "Codes are stored as whole numbers or as small floats, scales as floats, each scheme in types of its own. Another \
         type means that the tensor was converted by a tool that took it for a plain weight, or is not packed at all.";
    pub static PART_VALUE = Error, Shapes, "packed-part-value",
        "part of a packed weight says what cannot be",
        "Some parts say how others are to be read: which group an input belongs to, what shape the weight has. A number \
         there that points outside, or a text that is none, makes the weight unreadable.";
    pub static PART_UNREADABLE = Error, Container, "packed-part-unreadable",
        "part of a packed weight could not be read",
        "The system failed to read the bytes, or they are not in the file.";
    pub static STORED_TWICE = Error, Names, "packed-stored-twice",
        "a weight is stored both plain and packed",
        "The files hold the weight itself and the parts that make it up. Readers differ in which of the two they take.";
    pub static LEFT_ALONE = Warning, Config, "packed-left-alone",
        "a module is packed that the config says was left alone",
        "quantization_config lists modules that were not quantised, and one of them is stored packed all the same. It is \
         read as it is stored; a reader that follows the list would look for a plain weight.";
}

/// The error of whole codes of so many bits with a scale for each group, taken to be that of ggml's type which is nearest.
fn error_of_bits(bits: usize) -> f64 {
    let like = match bits {
        0..=2 => DType::Q2_K,
        3 => DType::Q3_K,
        4 => DType::Q4_0,
        _ => DType::Q8_0,
    };
    like.quantisation_error().unwrap_or_default()
}

/// A matrix that is made out of several stored tensors, rows of it when they are needed.
pub trait Packed: Send + Sync {
    /// Number of rows, the outputs of a product.
    fn rows(&self) -> usize;

    /// Number of columns, the inputs of a product.
    fn cols(&self) -> usize;

    /// Bytes of the tensors it is made of.
    fn bytes(&self) -> u64;

    /// How far rounding to the scheme moves numbers, as a share of their root mean square: what
    /// [`DType::quantisation_error`] is of a block type.
    fn quantisation_error(&self) -> f64;

    /// Rows from `first` on as f32, as many as `out` has room for, `[rows, cols]`. Panics past the last.
    fn widen(&self, first: usize, out: &mut [f32]);

    /// What is stored that readers take differently, in words; looks at all of it.
    fn disputed(&self) -> Option<String> {
        None
    }
}
