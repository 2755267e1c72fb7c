//! What stored bytes mean as numbers: one file per family of element types, layout first, then the plain loop
//! that decodes it.
//!
//! These loops are the definition. Every operation is an f32 operation in the order written, multiplication and
//! addition are never fused, and f16 scales are widened before they are used; so the results are the same bits
//! on every machine, and a kernel that is faster has something to be compared with.
//!
//! Less depends on that order than it seems: a finite f16 scale times the small integers of any type here takes at
//! most 23 bits, so these products are exact. A block's value is rounded at most once: where a minimum is added or
//! taken away, and in Q8_K, whose scale is an f32.
//!
//! Words used below: a *code* is the small integer stored for one element, a *scale* what it is multiplied by, a
//! *minimum* what is added or taken away, a *sub-block* the part of a block that shares one scale. All fields of
//! several bytes are little-endian, and the pictures give the offset in bytes above each field.

pub mod codebooks;
pub mod fields;
pub(crate) mod fp4;
pub(crate) mod fp8;
pub(crate) mod iq;
pub(crate) mod k;
pub(crate) mod one_two_bit;
pub mod parts;
pub(crate) mod plain;
pub(crate) mod q_legacy;
pub mod rounding;
pub(crate) mod ternary;

pub use fp4::{half_e8m0, half_ue4m3};

use crate::dtype::DType;
use half::f16;

/// How the blocks of one element type are read.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub struct Codec {
    /// Decodes whole blocks. Bytes or places beyond the last block that has both are left alone; [`decode`] is the
    /// same with the lengths checked.
    pub decode: fn(&[u8], &mut [f32]),
    /// Tells whether one block holds something that should not be there and that its decoded values do not show
    /// as NaN or infinite. `None` where the values show all there is to see.
    pub suspect: Option<fn(&[u8]) -> bool>,
}

/// Why bytes could not be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DecodeError {
    /// The element type has sizes but no defined order of its codes within bytes.
    #[error("{0} cannot be decoded: no specification says in which order its codes are packed into bytes")]
    NoCodec(DType),
    /// The bytes are not a whole number of blocks.
    #[error("{bytes} bytes are not a whole number of {dtype} blocks of {block} bytes")]
    PartialBlock {
        /// The element type.
        dtype: DType,
        /// How many bytes were given.
        bytes: usize,
        /// How many bytes make a block.
        block: usize,
    },
    /// The output does not hold as many values as the bytes decode to.
    #[error("{dtype} blocks decode to {expected} values, but there is room for {found}")]
    WrongLength {
        /// The element type.
        dtype: DType,
        /// How many values the bytes decode to; `usize::MAX` if that is beyond counting.
        expected: usize,
        /// How many the output holds.
        found: usize,
    },
}

/// Decodes `raw`, whole blocks of `dtype`, into `out`, which must hold exactly their values.
pub fn decode(dtype: DType, raw: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
    let codec = check(dtype, raw, out)?;
    (codec.decode)(raw, out);
    Ok(())
}

/// Whether `raw` are whole blocks that can be decoded and `out` holds exactly their values.
pub fn check(dtype: DType, raw: &[u8], out: &[f32]) -> Result<Codec, DecodeError> {
    let codec = dtype.codec().ok_or(DecodeError::NoCodec(dtype))?;
    let block = dtype.block_bytes();
    if !raw.len().is_multiple_of(block) {
        return Err(DecodeError::PartialBlock { dtype, bytes: raw.len(), block });
    }
    let expected = (raw.len() / block).saturating_mul(dtype.block_values());
    if out.len() != expected {
        return Err(DecodeError::WrongLength { dtype, expected, found: out.len() });
    }
    Ok(codec)
}

/// The same, without a look at the lengths: whole blocks that have room are decoded. The loops of the types named here
/// become part of the caller, and so are compiled for the instructions that are switched on there; others are decoded
/// by instructions that every machine has.
#[inline(always)]
pub fn decode_inlined(dtype: DType, raw: &[u8], out: &mut [f32]) {
    match dtype {
        DType::F32 => plain::f32(raw, out),
        DType::BF16 => plain::bf16(raw, out),
        DType::F64 => plain::f64(raw, out),
        _ => {
            if let Some(codec) = dtype.codec() {
                (codec.decode)(raw, out);
            }
        }
    }
}

/// Calls `decode` for every block of `BYTES` bytes and the `VALUES` values it becomes.
fn each_block<const BYTES: usize, const VALUES: usize>(
    raw: &[u8],
    out: &mut [f32],
    decode: impl Fn(&[u8; BYTES], &mut [f32; VALUES]),
) {
    let (blocks, _) = raw.as_chunks();
    let (values, _) = out.as_chunks_mut();
    for (block, values) in blocks.iter().zip(values) {
        decode(block, values);
    }
}

/// The f16 that starts at byte `at`, widened.
fn f16_at(bytes: &[u8], at: usize) -> f32 {
    f16::from_bits(u16_at(bytes, at)).to_f32()
}

fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// Nibble `i` of a run of bytes, the low nibble of a byte before its high one.
fn nibble(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 2] >> (4 * (i % 2))) & 15
}

/// Splits bytes into codes the way most types store them: the low nibbles become the first half, the high nibbles
/// the second. `codes` is twice as long as `bytes`.
fn nibble_halves(bytes: &[u8], codes: &mut [u8]) {
    let (low, high) = codes.split_at_mut(bytes.len());
    for ((&byte, low), high) in bytes.iter().zip(low).zip(high) {
        *low = byte & 15;
        *high = byte >> 4;
    }
}

/// 64 bytes as four-in-a-byte codes of 2 bits. Each half of 32 bytes holds 128 elements, in four planes: the
/// lowest bits of its bytes are the first 32 elements, the next two bits the 32 after them, and so on.
fn two_bit_planes(bytes: &[u8]) -> [u8; 256] {
    let mut codes = [0; 256];
    for (bytes, codes) in bytes.chunks_exact(32).zip(codes.chunks_exact_mut(128)) {
        for (plane, codes) in codes.chunks_exact_mut(32).enumerate() {
            for (code, byte) in codes.iter_mut().zip(bytes) {
                *code = (byte >> (2 * plane)) & 3;
            }
        }
    }
    codes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn lengths_are_checked_before_anything_is_decoded() {
        let partial = decode(DType::Q4_0, &[0; 19], &mut [0.0; 32]).unwrap_err();
        assert_eq!(partial, DecodeError::PartialBlock { dtype: DType::Q4_0, bytes: 19, block: 18 });
        assert_eq!(partial.to_string(), "19 bytes are not a whole number of Q4_0 blocks of 18 bytes");
        let short = decode(DType::C64, &[0; 16], &mut [0.0; 2]).unwrap_err();
        assert_eq!(short, DecodeError::WrongLength { dtype: DType::C64, expected: 4, found: 2 });
        let six = decode(DType::F6_E2M3, &[0; 3], &mut [0.0; 4]).unwrap_err();
        assert_eq!(six, DecodeError::NoCodec(DType::F6_E2M3));
        assert_eq!(decode(DType::Q6_K, &[], &mut []), Ok(()));
    }

    #[test]
    fn every_type_but_six_bit_floats_decodes_a_block_and_only_that_block() {
        for dtype in DType::all().filter(|dtype| dtype.codec().is_some()) {
            let (raw, marker) = (vec![0; dtype.block_bytes()], 12345.0);
            let mut out = vec![marker; dtype.block_values() + 1];
            let (block, rest) = out.split_at_mut(dtype.block_values());
            decode(dtype, &raw, block).unwrap();
            assert!(block.iter().all(|&x| x != marker), "{dtype} leaves a value unwritten");
            assert_eq!(rest, [marker]);
        }
        assert_eq!(DType::all().filter(|dtype| dtype.codec().is_none()).count(), 2);
    }

    #[test]
    fn a_codec_given_odd_lengths_stops_at_the_last_whole_block() {
        for (dtype, codec) in DType::all().filter_map(|dtype| Some((dtype, dtype.codec()?))) {
            for (bytes, values) in
                [(0, 0), (0, 7), (dtype.block_bytes() * 3 - 1, dtype.block_values() * 5), (999, 1)]
            {
                (codec.decode)(&vec![0x5a; bytes], &mut vec![0.0; values]);
            }
            if let Some(suspect) = codec.suspect {
                assert!(!suspect(&[]), "{dtype} suspects nothing at all");
            }
        }
    }

    /// Where the f16 scales and minima of a block are.
    fn f16_fields() -> Vec<(DType, &'static [usize])> {
        use DType::*;
        let first =
            [Q4_0, Q5_0, Q8_0, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, IQ1_S, IQ4_NL, IQ4_XS, Q1_0, Q2_0];
        let two = [Q4_1, Q5_1, Q4_K, Q5_K].map(|dtype| (dtype, &[0, 2][..]));
        let last: [(DType, &[usize]); 5] =
            [(Q2_K, &[80, 82]), (Q3_K, &[108]), (Q6_K, &[208]), (TQ1_0, &[52]), (TQ2_0, &[64])];
        first.map(|dtype| (dtype, &[0][..])).into_iter().chain(two).chain(last).collect()
    }

    proptest! {
        #[test]
        fn a_scale_or_minimum_that_is_not_finite_shows_in_the_values(
            bytes in prop::collection::vec(any::<u8>(), 210),
            mantissa in 0u16..1024,
            negative: bool,
        ) {
            let field = 0x7c00 | mantissa | u16::from(negative) << 15;
            for (dtype, at) in f16_fields().into_iter().flat_map(|(t, places)| places.iter().map(move |&at| (t, at))) {
                let mut raw = bytes[..dtype.block_bytes()].to_vec();
                raw[at..at + 2].copy_from_slice(&field.to_le_bytes());
                let mut out = vec![0.0; dtype.block_values()];
                decode(dtype, &raw, &mut out).unwrap();
                prop_assert!(out.iter().any(|x| !x.is_finite()), "{} hides {:#x} at {}", dtype, field, at);
            }
        }

        #[test]
        fn blocks_are_independent_of_each_other(bytes in prop::collection::vec(any::<u8>(), 3 * 292)) {
            for dtype in DType::all().filter(|dtype| dtype.codec().is_some()) {
                let (block, values) = (dtype.block_bytes(), dtype.block_values());
                let raw = &bytes[..3 * block];
                let mut together = vec![0.0; 3 * values];
                decode(dtype, raw, &mut together).unwrap();
                for (raw, together) in raw.chunks(block).zip(together.chunks(values)) {
                    let mut alone = vec![0.0; values];
                    decode(dtype, raw, &mut alone).unwrap();
                    for (a, b) in alone.iter().zip(together) {
                        prop_assert!(a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan(), "{}: {} {}", dtype, a, b);
                    }
                }
            }
        }
    }
}
