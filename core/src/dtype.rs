//! `DType`: how the numbers of a tensor are stored. One table row per element type says everything about it.

use crate::quant::fields::{self, Layout};
use crate::quant::{Codec, fp4, fp8, iq, k, one_two_bit, plain, q_legacy, ternary};
use std::fmt;

/// An element type: every one of safetensors and every one of ggml. A type that both have is one variant.
///
/// Variants are spelled as the formats spell them. The number in `Q4_K` and its like counts bits per code; the
/// layouts are described in the modules of [`crate::quant`].
#[allow(non_camel_case_types, reason = "the names are the formats' own")]
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[rustfmt::skip]
pub enum DType {
    /// IEEE single precision.
    F32,
    /// IEEE half precision.
    F16,
    /// The upper half of an F32.
    BF16,
    /// IEEE double precision.
    F64,
    /// Signed integer of 8 bits.
    I8,
    /// Signed integer of 16 bits.
    I16,
    /// Signed integer of 32 bits.
    I32,
    /// Signed integer of 64 bits.
    I64,
    /// Unsigned integer of 8 bits.
    U8,
    /// Unsigned integer of 16 bits.
    U16,
    /// Unsigned integer of 32 bits.
    U32,
    /// Unsigned integer of 64 bits.
    U64,
    /// Truth value in a byte.
    BOOL,
    /// Two F32: real and imaginary part.
    C64,
    /// Float of 8 bits: 4 exponent, 3 mantissa, no infinity.
    F8_E4M3,
    /// Float of 8 bits: 5 exponent, 2 mantissa, as IEEE would.
    F8_E5M2,
    /// As F8_E4M3 with another bias; a single NaN in the place of -0.
    F8_E4M3FNUZ,
    /// As F8_E5M2 with another bias; a single NaN in the place of -0, no infinity.
    F8_E5M2FNUZ,
    /// A power of two: the scale of MX blocks.
    F8_E8M0,
    /// Float of 6 bits: 2 exponent, 3 mantissa. Sizes are known, the order of codes within bytes is not.
    F6_E2M3,
    /// Float of 6 bits: 3 exponent, 2 mantissa. Sizes are known, the order of codes within bytes is not.
    F6_E3M2,
    /// Float of 4 bits: 2 exponent, 1 mantissa, two to a byte.
    F4,
    /// 32 codes of 4 bits, a scale.
    Q4_0,
    /// 32 codes of 4 bits, a scale and a minimum.
    Q4_1,
    /// 32 codes of 5 bits, a scale.
    Q5_0,
    /// 32 codes of 5 bits, a scale and a minimum.
    Q5_1,
    /// 32 codes of 8 bits, a scale.
    Q8_0,
    /// 32 codes of 8 bits, a scale and the sum of codes; made while a program runs.
    Q8_1,
    /// 256 codes of 2 bits, 16 scales and minima of 4 bits.
    Q2_K,
    /// 256 codes of 3 bits, 16 scales of 6 bits.
    Q3_K,
    /// 256 codes of 4 bits, 8 scales and minima of 6 bits.
    Q4_K,
    /// 256 codes of 5 bits, 8 scales and minima of 6 bits.
    Q5_K,
    /// 256 codes of 6 bits, 16 scales of 8 bits.
    Q6_K,
    /// 256 codes of 8 bits, a scale and 16 sums of codes; made while a program runs.
    Q8_K,
    /// Codebook of 256 entries of 8 elements.
    IQ2_XXS,
    /// Codebook of 512 entries of 8 elements.
    IQ2_XS,
    /// Codebook of 1,024 entries of 8 elements.
    IQ2_S,
    /// Codebook of 256 entries of 4 elements.
    IQ3_XXS,
    /// Codebook of 512 entries of 4 elements.
    IQ3_S,
    /// Codebook of 2,048 entries of 8 elements, 8 scales of 3 bits.
    IQ1_S,
    /// Codebook of 2,048 entries of 8 elements, 16 scales of 3 bits.
    IQ1_M,
    /// 32 codes of 4 bits for 16 unevenly spaced values.
    IQ4_NL,
    /// 256 codes of 4 bits for 16 unevenly spaced values, 8 scales of 6 bits.
    IQ4_XS,
    /// 256 elements of -1, 0, +1, five to a byte.
    TQ1_0,
    /// 256 elements of -1, 0, +1, four to a byte.
    TQ2_0,
    /// 32 floats of 4 bits, a power of two as scale.
    MXFP4,
    /// 64 floats of 4 bits, 4 scales that are floats of 8 bits.
    NVFP4,
    /// 128 signs, a scale.
    Q1_0,
    /// 64 codes of 2 bits, a scale.
    Q2_0,
}

/// What the numbers of an element type are.
#[non_exhaustive]
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Class {
    /// Floats, each by itself.
    Float,
    /// Whole numbers, each by itself.
    Integer,
    /// Truth values.
    Bool,
    /// Pairs of floats.
    Complex,
    /// Powers of two that multiply the numbers of another tensor.
    Scale,
    /// Block-quantised: fixed runs of numbers that share scales.
    Quantised,
}

#[derive(Clone, Copy)]
struct Row {
    dtype: DType,
    name: &'static str,
    elements: usize,
    bytes: usize,
    values: usize,
    class: Class,
    ggml: Option<u32>,
    in_safetensors: bool,
    codec: Option<Codec>,
    layout: Option<&'static Layout>,
    rounds: Option<(f64, f64)>,
}

#[rustfmt::skip]
static TABLE: [Row; 49] = {
    use Class::{Bool, Complex, Float, Integer, Quantised, Scale};
    use DType::*;
    [
        //           shown as  elements, bytes
        Row::new(F32,     "F32",      1,   4, Float).decode(plain::f32).ggml(0).safetensors(),
        Row::new(F16,     "F16",      1,   2, Float).decode(plain::f16).ggml(1).safetensors(),
        Row::new(BF16,    "BF16",     1,   2, Float).decode(plain::bf16).ggml(30).safetensors(),
        Row::new(F64,     "F64",      1,   8, Float).decode(plain::f64).ggml(28).safetensors(),
        Row::new(I8,      "I8",       1,   1, Integer).decode(plain::i8).ggml(24).safetensors(),
        Row::new(I16,     "I16",      1,   2, Integer).decode(plain::i16).ggml(25).safetensors(),
        Row::new(I32,     "I32",      1,   4, Integer).decode(plain::i32).ggml(26).safetensors(),
        Row::new(I64,     "I64",      1,   8, Integer).decode(plain::i64).ggml(27).safetensors(),
        Row::new(U8,      "U8",       1,   1, Integer).decode(plain::u8).safetensors(),
        Row::new(U16,     "U16",      1,   2, Integer).decode(plain::u16).safetensors(),
        Row::new(U32,     "U32",      1,   4, Integer).decode(plain::u32).safetensors(),
        Row::new(U64,     "U64",      1,   8, Integer).decode(plain::u64).safetensors(),
        Row::new(BOOL,    "BOOL",     1,   1, Bool).decode(plain::bool).suspect(plain::bool_suspect).safetensors(),
        Row::new(C64,     "C64",      1,   8, Complex).decode(plain::c64).values(2).safetensors(),
        Row::new(F8_E4M3, "F8_E4M3",  1,   1, Float).decode(fp8::e4m3).safetensors(),
        Row::new(F8_E5M2, "F8_E5M2",  1,   1, Float).decode(fp8::e5m2).safetensors(),
        Row::new(F8_E4M3FNUZ, "F8_E4M3FNUZ", 1, 1, Float).decode(fp8::e4m3fnuz).safetensors(),
        Row::new(F8_E5M2FNUZ, "F8_E5M2FNUZ", 1, 1, Float).decode(fp8::e5m2fnuz).safetensors(),
        Row::new(F8_E8M0, "F8_E8M0",  1,   1, Scale).decode(fp8::e8m0).safetensors(),
        Row::new(F6_E2M3, "F6_E2M3",  4,   3, Float).safetensors(),
        Row::new(F6_E3M2, "F6_E3M2",  4,   3, Float).safetensors(),
        Row::new(F4,      "F4",       2,   1, Float).decode(fp4::f4).safetensors(),
        Row::new(Q4_0,    "Q4_0",    32,  18, Quantised).decode(q_legacy::q4_0).rounds(0.1146, 0.992).ggml(2).fields(&fields::Q4_0),
        Row::new(Q4_1,    "Q4_1",    32,  20, Quantised).decode(q_legacy::q4_1).rounds(0.0905, 0.989).ggml(3).fields(&fields::Q4_1),
        Row::new(Q5_0,    "Q5_0",    32,  22, Quantised).decode(q_legacy::q5_0).rounds(0.0575, 0.996).ggml(6).fields(&fields::Q5_0),
        Row::new(Q5_1,    "Q5_1",    32,  24, Quantised).decode(q_legacy::q5_1).rounds(0.0460, 0.998).ggml(7).fields(&fields::Q5_1),
        Row::new(Q8_0,    "Q8_0",    32,  34, Quantised).decode(q_legacy::q8_0).rounds(0.0069, 1.000).ggml(8).fields(&fields::Q8_0),
        Row::new(Q8_1,    "Q8_1",    32,  36, Quantised).decode(q_legacy::q8_1).suspect(q_legacy::q8_1_suspect).ggml(9).fields(&fields::Q8_1),
        Row::new(Q2_K,    "Q2_K",   256,  84, Quantised).decode(k::q2_k).rounds(0.3688, 0.895).ggml(10).fields(&fields::Q2_K),
        Row::new(Q3_K,    "Q3_K",   256, 110, Quantised).decode(k::q3_k).rounds(0.1807, 0.975).ggml(11).fields(&fields::Q3_K),
        Row::new(Q4_K,    "Q4_K",   256, 144, Quantised).decode(k::q4_k).rounds(0.0870, 0.995).ggml(12).fields(&fields::Q4_K),
        Row::new(Q5_K,    "Q5_K",   256, 176, Quantised).decode(k::q5_k).rounds(0.0454, 0.998).ggml(13).fields(&fields::Q5_K),
        Row::new(Q6_K,    "Q6_K",   256, 210, Quantised).decode(k::q6_k).rounds(0.0229, 0.999).ggml(14).fields(&fields::Q6_K),
        Row::new(Q8_K,    "Q8_K",   256, 292, Quantised).decode(k::q8_k).ggml(15).fields(&fields::Q8_K),
        Row::new(IQ2_XXS, "IQ2_XXS", 256,  66, Quantised).decode(iq::iq2_xxs).rounds(0.3944, 0.901).ggml(16).fields(&fields::IQ2_XXS),
        Row::new(IQ2_XS,  "IQ2_XS", 256,  74, Quantised).decode(iq::iq2_xs).rounds(0.3614, 0.897).ggml(17).fields(&fields::IQ2_XS),
        Row::new(IQ2_S,   "IQ2_S",  256,  82, Quantised).decode(iq::iq2_s).rounds(0.3524, 0.855).ggml(22).fields(&fields::IQ2_S),
        Row::new(IQ3_XXS, "IQ3_XXS", 256,  98, Quantised).decode(iq::iq3_xxs).rounds(0.2687, 0.914).ggml(18).fields(&fields::IQ3_XXS),
        Row::new(IQ3_S,   "IQ3_S",  256, 110, Quantised).decode(iq::iq3_s).rounds(0.2035, 0.932).ggml(21).fields(&fields::IQ3_S),
        Row::new(IQ1_S,   "IQ1_S",  256,  50, Quantised).decode(iq::iq1_s).rounds(0.5567, 0.816).ggml(19).fields(&fields::IQ1_S),
        Row::new(IQ1_M,   "IQ1_M",  256,  56, Quantised).decode(iq::iq1_m).rounds(0.6082, 0.723).ggml(29).fields(&fields::IQ1_M),
        Row::new(IQ4_NL,  "IQ4_NL",  32,  18, Quantised).decode(iq::iq4_nl).rounds(0.0932, 0.991).ggml(20).fields(&fields::IQ4_NL),
        Row::new(IQ4_XS,  "IQ4_XS", 256, 136, Quantised).decode(iq::iq4_xs).rounds(0.0936, 0.990).ggml(23).fields(&fields::IQ4_XS),
        Row::new(TQ1_0,   "TQ1_0",  256,  54, Quantised).decode(ternary::tq1_0).rounds(0.8306, 0.635).ggml(34).fields(&fields::TQ1_0),
        Row::new(TQ2_0,   "TQ2_0",  256,  66, Quantised).decode(ternary::tq2_0).rounds(0.8306, 0.635).ggml(35).fields(&fields::TQ2_0),
        Row::new(MXFP4,   "MXFP4",   32,  17, Quantised).decode(fp4::mxfp4).suspect(fp4::mxfp4_suspect).rounds(0.1294, 1.041).ggml(39).fields(&fields::MXFP4),
        Row::new(NVFP4,   "NVFP4",   64,  36, Quantised).decode(fp4::nvfp4).suspect(fp4::nvfp4_suspect).rounds(0.0949, 0.994).ggml(40).fields(&fields::NVFP4),
        Row::new(Q1_0,    "Q1_0",   128,  18, Quantised).decode(one_two_bit::q1_0).rounds(0.7233, 1.000).ggml(41).fields(&fields::Q1_0),
        Row::new(Q2_0,    "Q2_0",    64,  18, Quantised).decode(one_two_bit::q2_0).rounds(0.7141, 0.695).ggml(42).fields(&fields::Q2_0),
    ]
};

/// Removed ggml types: their numbers are never given to another type.
static REMOVED: [(u32, &str); 8] = [
    (4, "Q4_2"),
    (5, "Q4_3"),
    (31, "Q4_0_4_4"),
    (32, "Q4_0_4_8"),
    (33, "Q4_0_8_8"),
    (36, "IQ4_NL_4_4"),
    (37, "IQ4_NL_4_8"),
    (38, "IQ4_NL_8_8"),
];

impl Row {
    const fn new(dtype: DType, name: &'static str, elements: usize, bytes: usize, class: Class) -> Self {
        let (ggml, in_safetensors, codec, rounds, layout) = (None, false, None, None, None);
        Row {
            dtype,
            name,
            elements,
            bytes,
            values: elements,
            class,
            ggml,
            in_safetensors,
            codec,
            rounds,
            layout,
        }
    }

    const fn decode(self, decode: fn(&[u8], &mut [f32])) -> Self {
        Row { codec: Some(Codec { decode, suspect: None }), ..self }
    }

    /// To be called after `decode`.
    const fn suspect(self, suspect: fn(&[u8]) -> bool) -> Self {
        match self.codec {
            Some(codec) => Row { codec: Some(Codec { suspect: Some(suspect), ..codec }), ..self },
            None => self,
        }
    }

    const fn rounds(self, error: f64, nearest: f64) -> Self {
        Row { rounds: Some((error, nearest)), ..self }
    }

    const fn values(self, values: usize) -> Self {
        Row { values, ..self }
    }

    const fn fields(self, layout: &'static Layout) -> Self {
        Row { layout: Some(layout), ..self }
    }

    const fn ggml(self, id: u32) -> Self {
        Row { ggml: Some(id), ..self }
    }

    const fn safetensors(self) -> Self {
        Row { in_safetensors: true, ..self }
    }
}

/// Why a ggml type number names no element type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum GgmlTypeError {
    /// The number belonged to a type that ggml has given up.
    #[error("ggml type {id} was {was}, which has been removed{}", and_now(*.id))]
    Removed {
        /// The number found.
        id: u32,
        /// The type's name when there was one.
        was: &'static str,
    },
    /// No type of ggml's has had this number; a fork's may have. Its size cannot be known.
    #[error("unknown ggml type {0}")]
    Unknown(u32),
}

fn and_now(id: u32) -> &'static str {
    match id {
        36 => " (ik_llama.cpp, a fork, writes its own I2_S under this number)",
        _ => "",
    }
}

/// Why a shape has no size in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SizeError {
    /// The elements or the bytes are more than can be counted in 64 bits.
    #[error("the size of the tensor does not fit in 64 bits")]
    Overflow,
    /// A block-quantised row ends inside a block.
    #[error("rows of {row} elements are not whole blocks of {block}")]
    PartialRow {
        /// Length of the innermost axis.
        row: usize,
        /// How many elements make a block.
        block: usize,
    },
    /// The elements, of fewer bits than a byte has, end inside a byte.
    #[error("{elements} elements of {bits} bits are not a whole number of bytes")]
    PartialByte {
        /// How many elements the shape has.
        elements: u64,
        /// How many bits each takes.
        bits: u32,
    },
}

impl DType {
    /// Every element type, in the order of the variants.
    pub fn all() -> impl ExactSizeIterator<Item = DType> {
        TABLE.iter().map(|row| row.dtype)
    }

    /// The element type that ggml, and so GGUF, gives this number.
    pub fn from_ggml(id: u32) -> Result<DType, GgmlTypeError> {
        if let Some(row) = TABLE.iter().find(|row| row.ggml == Some(id)) {
            return Ok(row.dtype);
        }
        match REMOVED.iter().find(|(removed, _)| *removed == id) {
            Some(&(id, was)) => Err(GgmlTypeError::Removed { id, was }),
            None => Err(GgmlTypeError::Unknown(id)),
        }
    }

    /// The element type that safetensors gives this name, exactly as written.
    pub fn from_safetensors(name: &str) -> Option<DType> {
        TABLE.iter().find(|row| row.in_safetensors && row.name == name).map(|row| row.dtype)
    }

    /// The name shown, which is the one its format uses: `Q4_K`, `F8_E4M3`.
    pub fn name(self) -> &'static str {
        self.row().name
    }

    /// The number ggml gives the type; `None` if it has no such type.
    pub fn ggml_id(self) -> Option<u32> {
        self.row().ggml
    }

    /// The name safetensors gives the type; `None` if it has no such type.
    pub fn safetensors_name(self) -> Option<&'static str> {
        self.row().in_safetensors.then_some(self.row().name)
    }

    /// What the numbers are.
    pub fn class(self) -> Class {
        self.row().class
    }

    /// Whether numbers are stored in blocks that share scales.
    pub fn is_quantised(self) -> bool {
        self.class() == Class::Quantised
    }

    /// How far ggml's quantiser moves numbers when it rounds them to this block type: the root mean square of the errors
    /// as a share of that of the numbers, for numbers of a normal or of a Laplace distribution, whichever is worse (trained
    /// weights lie between the two), with importance weights only where the type demands them. Measured on these rows of
    /// golden/quants/quant.safetensors. `None` for types that are not quantised to, or not in blocks.
    pub fn quantisation_error(self) -> Option<f64> {
        self.row().rounds.map(|(error, _)| error)
    }

    /// The factor that brings what ggml's quantiser makes of numbers nearest to them, Σxy/Σyy for numbers x and what they
    /// became y: where it is farther from 1, of the two distributions that [`quantisation_error`] is measured on.
    ///
    /// [`quantisation_error`]: DType::quantisation_error
    pub fn quantisation_factor(self) -> Option<f64> {
        self.row().rounds.map(|(_, nearest)| nearest)
    }

    /// Whether each row, not only the whole tensor, has to be a whole number of blocks. So it is for block-quantised
    /// types. Elements of 4 and 6 bits are packed on across the ends of rows.
    pub fn row_bound(self) -> bool {
        self.is_quantised()
    }

    /// The smallest number of elements that take whole bytes and can be decoded by themselves.
    pub fn block_elements(self) -> usize {
        self.row().elements
    }

    /// How many bytes [`block_elements`](Self::block_elements) take.
    pub fn block_bytes(self) -> usize {
        self.row().bytes
    }

    /// How many f32 a block decodes to: as many as it has elements, but two for a complex number.
    pub fn block_values(self) -> usize {
        self.row().values
    }

    /// Bits that an element takes, scales included.
    pub fn bits_per_weight(self) -> f64 {
        (self.block_bytes() * 8) as f64 / self.block_elements() as f64
    }

    /// How blocks are decoded; `None` for the 6-bit floats, whose packing nothing defines.
    pub fn codec(self) -> Option<Codec> {
        self.row().codec
    }

    /// The fields of a block of a block-quantised type; `None` for all others.
    pub fn layout(self) -> Option<&'static Layout> {
        self.row().layout
    }

    /// How many bytes a tensor of this shape (outermost axis first; no axis at all is one element) takes.
    pub fn byte_len(self, shape: &[usize]) -> Result<u64, SizeError> {
        let elements = elements(shape).ok_or(SizeError::Overflow)?;
        if elements == 0 {
            return Ok(0);
        }
        let block = self.block_elements();
        let row = shape.last().copied().unwrap_or(1);
        if self.row_bound() && !row.is_multiple_of(block) {
            return Err(SizeError::PartialRow { row, block });
        }
        if !elements.is_multiple_of(block as u64) {
            let bits = (self.block_bytes() * 8 / block) as u32;
            return Err(SizeError::PartialByte { elements, bits });
        }
        (elements / block as u64).checked_mul(self.block_bytes() as u64).ok_or(SizeError::Overflow)
    }

    fn row(self) -> &'static Row {
        &TABLE[self as usize]
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How many elements a tensor of this shape has: 1 without an axis, 0 if any axis is 0, `None` if 64 bits do not
/// hold the number.
pub fn elements(shape: &[usize]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    shape.iter().try_fold(1u64, |product, &axis| product.checked_mul(u64::try_from(axis).ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_row_sits_at_its_variant_and_is_spelled_like_it() {
        for (at, row) in TABLE.iter().enumerate() {
            assert_eq!(row.dtype as usize, at);
            assert_eq!(row.name, format!("{:?}", row.dtype));
            assert_eq!(row.dtype.row().name, row.name);
        }
        // The last variant has the last row, so there is no variant without one.
        assert_eq!(DType::Q2_0 as usize, TABLE.len() - 1);
        assert_eq!(TABLE.iter().map(|row| row.name).collect::<HashSet<_>>().len(), TABLE.len());
    }

    #[test]
    fn numbers_and_names_lead_back_to_their_types() {
        for dtype in DType::all() {
            assert!(dtype.ggml_id().is_none_or(|id| DType::from_ggml(id) == Ok(dtype)));
            assert!(dtype.safetensors_name().is_none_or(|name| DType::from_safetensors(name) == Some(dtype)));
            assert!(dtype.ggml_id().is_some() || dtype.safetensors_name().is_some());
        }
        assert_eq!(DType::all().len(), 49);
        assert_eq!((0..=u32::from(u16::MAX)).filter(|&id| DType::from_ggml(id).is_ok()).count(), 35);
        assert_eq!(DType::all().filter_map(DType::safetensors_name).count(), 22);
        assert_eq!(["Q4_K", "f32", "F8", ""].map(DType::from_safetensors), [None; 4]);
    }

    #[test]
    fn removed_and_unknown_numbers_are_told_apart() {
        let message = |id| DType::from_ggml(id).unwrap_err().to_string();
        assert_eq!(message(4), "ggml type 4 was Q4_2, which has been removed");
        assert!(message(36).contains("IQ4_NL_4_4") && message(36).contains("ik_llama.cpp"));
        for (id, was) in REMOVED {
            assert_eq!(DType::from_ggml(id), Err(GgmlTypeError::Removed { id, was }));
        }
        for id in [43, 97, u32::MAX] {
            assert_eq!(DType::from_ggml(id), Err(GgmlTypeError::Unknown(id)));
        }
        assert_eq!(message(43), "unknown ggml type 43");
    }

    #[test]
    fn sizes_of_blocks_are_those_of_the_formats() {
        let bits = |dtype: DType| dtype.bits_per_weight();
        assert_eq!([DType::Q4_K, DType::Q6_K, DType::Q8_1].map(bits), [4.5, 6.5625, 9.0]);
        assert_eq!([DType::IQ1_S, DType::IQ4_NL, DType::TQ1_0].map(bits), [1.5625, 4.5, 1.6875]);
        assert_eq!([DType::F4, DType::F6_E2M3, DType::C64, DType::BF16].map(bits), [4.0, 6.0, 64.0, 16.0]);
        for dtype in DType::all() {
            let per_element = if dtype == DType::C64 { 2 } else { 1 };
            assert_eq!(dtype.block_values(), per_element * dtype.block_elements(), "{dtype}");
            assert_eq!(dtype.is_quantised(), dtype.safetensors_name().is_none(), "{dtype}");
        }
    }

    #[test]
    fn names_can_be_padded_in_tables() {
        assert_eq!(format!("{:>6}|{:<6}|", DType::Q4_K, DType::F32), "  Q4_K|F32   |");
    }
}
