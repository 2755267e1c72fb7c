//! Blocks taken apart into what they are made of: small signed codes, and for each run of them a scale and perhaps a
//! minimum.
//!
//! Every block type of ggml is `value = scale · code − minimum`, whatever its bits look like: a codebook's entry with
//! its sign is a code, and so is twice an E2M1 number. The codes of all types fit eight bits, and the sum of two
//! products is never asked for, so that the values come out as the bits that core's loops define: scale times code is
//! rounded at most once, and the minimum, where there is one, is taken away afterwards.
//!
//! Core says what a block means, one element after the other. Here the same is done to many elements at once:
//! the same shift or mask for a whole row of bytes, which compilers turn into vectors without fail; eight elements in
//! a word where a table is asked; and one loop, in [`Parts::widen`], for the products of all types.

mod bits;
mod codebook;
mod k;
mod legacy;
mod nibble_table;
mod tiny;

use crate::simd::Simd;
use scantling_core::dtype::DType;

/// A block taken apart. Only as many entries as the block has mean anything: [`Block`] tells the numbers.
#[repr(align(64))]
pub(crate) struct Parts {
    /// A code for each element.
    pub codes: [i8; 256],
    /// A factor for each [`Block::SHARE`] elements.
    pub scales: [f32; 16],
    /// What is taken away from the products of those elements, if the type has [`Block::MINIMA`].
    pub minima: [f32; 16],
}

/// A block type that can be taken apart.
pub(crate) trait Block {
    /// The bytes of a block.
    type Bytes;
    /// Elements of a block.
    const VALUES: usize;
    /// Elements that share a scale: a multiple of 16.
    const SHARE: usize;
    /// Whether there are minima.
    const MINIMA: bool;
    /// Whole blocks; what is left does not show.
    fn blocks(raw: &[u8]) -> &[Self::Bytes];
    /// Takes a block apart.
    fn unpack<S: Simd>(s: S, block: &Self::Bytes, parts: &mut Parts);
}

/// Something to be done with a block type that is known when the program runs.
pub(crate) trait Visit {
    /// What it returns.
    type Out;
    /// Does it. Implementations are `#[inline(always)]`.
    fn visit<B: Block>(self) -> Self::Out;
}

/// One row for each type: bytes, elements, elements that share a scale, whether there are minima, and the function
/// that takes a block apart.
macro_rules! blocks {
    ($($name:ident $bytes:literal $values:literal $share:literal $minima:literal $unpack:path;)*) => {
        $(
            #[allow(non_camel_case_types, reason = "the names are the formats' own")]
            struct $name;

            impl Block for $name {
                type Bytes = [u8; $bytes];
                const VALUES: usize = $values;
                const SHARE: usize = $share;
                const MINIMA: bool = $minima;

                #[inline(always)]
                fn blocks(raw: &[u8]) -> &[[u8; $bytes]] {
                    raw.as_chunks().0
                }

                #[inline(always)]
                fn unpack<S: Simd>(s: S, block: &[u8; $bytes], parts: &mut Parts) {
                    $unpack(s, block, parts);
                }
            }
        )*

        /// Visits the type; none if its elements are stored one by one.
        #[inline(always)]
        pub(crate) fn visit<V: Visit>(dtype: DType, visitor: V) -> Option<V::Out> {
            match dtype {
                $(DType::$name => Some(visitor.visit::<$name>()),)*
                _ => None,
            }
        }
    };
}

blocks! {
    Q4_0     18  32  32 false legacy::q4_0;
    Q4_1     20  32  32 true  legacy::q4_1;
    Q5_0     22  32  32 false legacy::q5_0;
    Q5_1     24  32  32 true  legacy::q5_1;
    Q8_0     34  32  32 false legacy::q8_0;
    Q8_1     36  32  32 false legacy::q8_1;
    Q2_K     84 256  16 true  k::q2_k;
    Q3_K    110 256  16 false k::q3_k;
    Q4_K    144 256  32 true  k::q4_k;
    Q5_K    176 256  32 true  k::q5_k;
    Q6_K    210 256  16 false k::q6_k;
    Q8_K    292 256 256 false k::q8_k;
    IQ2_XXS  66 256  32 false codebook::iq2_xxs;
    IQ2_XS   74 256  16 false codebook::iq2_xs;
    IQ2_S    82 256  16 false codebook::iq2_s;
    IQ3_XXS  98 256  32 false codebook::iq3_xxs;
    IQ3_S   110 256  32 false codebook::iq3_s;
    IQ1_S    50 256  32 false codebook::iq1_s;
    IQ1_M    56 256  16 false codebook::iq1_m;
    IQ4_NL   18  32  32 false nibble_table::iq4_nl;
    IQ4_XS  136 256  32 false nibble_table::iq4_xs;
    MXFP4    17  32  32 false nibble_table::mxfp4;
    NVFP4    36  64  16 false nibble_table::nvfp4;
    TQ1_0    54 256 256 false tiny::tq1_0;
    TQ2_0    66 256 256 false tiny::tq2_0;
    Q1_0     18 128 128 false tiny::q1_0;
    Q2_0     18  64  64 false tiny::q2_0;
}

impl Parts {
    #[inline(always)]
    pub(crate) fn new() -> Parts {
        Parts { codes: [0; 256], scales: [0.0; 16], minima: [0.0; 16] }
    }

    /// The values of the block that was taken apart.
    #[inline(always)]
    pub(crate) fn widen<S: Simd, B: Block>(&self, s: S, values: &mut [f32]) {
        let (codes, _) = self.codes.as_chunks::<16>();
        let (values, _) = values.as_chunks_mut::<16>();
        for (i, (codes, values)) in codes[..B::VALUES / 16].iter().zip(values).enumerate() {
            let share = i / (B::SHARE / 16);
            let minimum = B::MINIMA.then_some(self.minima[share]);
            s.scaled(codes, self.scales[share], minimum, values);
        }
    }
}
