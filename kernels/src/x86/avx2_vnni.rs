//! Products of small integers with AVX-VNNI: the instructions of AVX-512 VNNI for processors without AVX-512.
//!
//! `vpdpbusd` multiplies bytes without sign by bytes with sign and adds four neighbours to a 32-bit sum, exactly: two
//! or three instructions of AVX2 in one. All else is done as with AVX2, whose sums are the same numbers. (Where that
//! multiplies 16-bit numbers and adds up the products, the compiler makes one `vpdpwssd` of the two instructions.)

use super::as_avx2::{as_avx2, blocks_as_avx2};
use super::avx2::Avx2;
use super::registers::{load, split, x86};
use crate::int8::dot8::{Dot8, Heads, OUTPUTS, Raised, Task};
use std::arch::x86_64::*;

/// Proof that the processor has AVX-VNNI beside what [`Avx2`] proves.
#[derive(Clone, Copy)]
pub(crate) struct Avx2Vnni(Avx2);

impl Avx2Vnni {
    /// The proof, or the instructions that are missing.
    pub(crate) fn detect() -> Result<Avx2Vnni, String> {
        let avx2 = Avx2::detect()?;
        if is_x86_feature_detected!("avxvnni") {
            Ok(Avx2Vnni(avx2))
        } else {
            Err("the processor lacks avxvnni".to_owned())
        }
    }
}

/// `sums + Σ codes · x` over four neighbours.
#[inline(always)]
fn dot(sums: __m256i, codes: __m256i, x: __m256i) -> __m256i {
    x86!(_mm256_dpbusd_avx_epi32(sums, codes, x))
}

impl Dot8 for Avx2Vnni {
    type Bytes = __m256i;
    type Products = __m256i;
    type Sums = __m256i;
    type Floats = __m256;
    type Factors = __m256i;
    type Eight = __m256;
    type Quads = [__m256i; 2];
    type Runs = [__m256i; 2];
    type Totals = [__m256i; 2];
    type Outputs = [__m256; 2];
    const NARROW: bool = false;
    const PAIRED: bool = true;

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Out {
        #[target_feature(enable = "avx2,fma,f16c,avxvnni")]
        fn inner<T: Task>(s: Avx2Vnni, task: T) -> T::Out {
            task.call(s)
        }
        // SAFETY: `self` proves that the processor has the instructions.
        unsafe { inner(self, task) }
    }

    blocks_as_avx2!();

    as_avx2! {
        fn byte_pairs(a: &[u8; 32], b: &[u8; 32]) -> [__m256i; 2];
        fn nibble_pairs(a: &[u8; 16], b: &[u8; 16]) -> [__m256i; 2];
        fn raised(x: &[i8; 32], by: i8) -> [i16; 16];
        fn factors(scales: [u8; 16]) -> __m256i;
        fn scaled(sums: __m256i, products: __m256i, scales: __m256i, run: usize) -> __m256i;
        fn lowered(scales: __m256i, sums: &[i16; 16], by: i16) -> __m256i;
        fn settled(sums: __m256i) -> __m256i;
        fn multiplied(a: &[f32; 8], b: &[f32; 8]) -> __m256;
        fn products_of_two(codes: [__m256i; 2], x: &[i8; 32]) -> __m256i;
        fn totals_of_two(floats: __m256) -> [f32; 2];
        fn quads(codes: &[u8; 4 * OUTPUTS]) -> [__m256i; 2];
        fn no_totals() -> [__m256i; 2];
        fn add_pairs(totals: [__m256i; 2], a: &[[i16; 2]; OUTPUTS], b: u32) -> [__m256i; 2];
        fn outputs(from: &[f32; OUTPUTS]) -> [__m256; 2];
        fn store_outputs(outputs: [__m256; 2], to: &mut [f32; OUTPUTS]) -> ();
        fn add_totals(
            outputs: [__m256; 2],
            totals: [__m256i; 2],
            by: &[f32; OUTPUTS],
            factor: f32
        ) -> [__m256; 2];
        fn add_scaled(outputs: [__m256; 2], by: &[f32; OUTPUTS], factor: f32) -> [__m256; 2];
        fn transpose(rows: &[[u8; 256]; OUTPUTS], to: &mut [[u8; 4 * OUTPUTS]; 64]) -> ();
    }

    #[inline(always)]
    fn heads_of_two(self, a: &[u8; 16], b: &[u8; 16]) -> Heads<Avx2Vnni> {
        let Heads { scales, minima, d, m } = self.0.heads_of_two(a, b);
        Heads { scales, minima, d, m }
    }

    #[inline(always)]
    fn add_two(
        self,
        floats: __m256,
        sums: __m256i,
        heads: &Heads<Avx2Vnni>,
        run_sums: &[i16; 8],
        by: f32,
    ) -> __m256 {
        let Heads { scales, minima, d, m } = *heads;
        self.0.add_two(floats, sums, &Heads { scales, minima, d, m }, run_sums, by)
    }

    /// Of two neighbours each: in 16 bits they can be multiplied by a scale and added up in one instruction.
    #[inline(always)]
    fn products<const SIGNED: bool>(self, codes: __m256i, x: &[i8; 32]) -> __m256i {
        self.0.products::<SIGNED>(codes, x)
    }

    #[inline(always)]
    fn add_pair<const WIDE: bool>(
        self,
        floats: __m256,
        mut codes: [__m256i; 2],
        x: [&[i8; 32]; 2],
        by: __m256,
        pair: usize,
    ) -> __m256 {
        let mut x = [load(x[0]), load(x[1])];
        if WIDE {
            // Activations take over the signs of codes.
            x = [x86!(_mm256_sign_epi8(x[0], codes[0])), x86!(_mm256_sign_epi8(x[1], codes[1]))];
            codes = [x86!(_mm256_abs_epi8(codes[0])), x86!(_mm256_abs_epi8(codes[1]))];
        }
        let sums = dot(dot(self.no_sums(), codes[0], x[0]), codes[1], x[1]);
        self.0.add_pair_sums(floats, sums, by, pair)
    }

    #[inline(always)]
    fn add_raised_pair(
        self,
        floats: __m256,
        codes: [__m256i; 2],
        raised: Raised<'_>,
        x: [&[i8; 32]; 2],
        by: __m256,
        pair: usize,
    ) -> __m256 {
        let start = x86!(_mm256_madd_epi16(load(raised.products), _mm256_set1_epi16(-1)));
        let sums = dot(dot(start, codes[0], load(x[0])), codes[1], load(x[1]));
        self.0.add_pair_sums(floats, sums, by, pair)
    }

    /// Both halves of the pair belong to the one sum that a quad has here.
    #[inline(always)]
    fn start<const SHIFT: i32>(self, pair: u32) -> [__m256i; 2] {
        let sum = i32::from(pair as i16) + i32::from((pair >> 16) as i16);
        [x86!(_mm256_set1_epi32(sum << SHIFT)); 2]
    }

    #[inline(always)]
    fn start_wide(self, pairs: [u32; 2]) -> [__m256i; 2] {
        let (a, b) = (self.start::<7>(pairs[0]), self.start::<7>(pairs[1]));
        [x86!(_mm256_add_epi32(a[0], b[0])), x86!(_mm256_add_epi32(a[1], b[1]))]
    }

    #[inline(always)]
    fn multiply<const WIDE: bool>(self, runs: [__m256i; 2], mut codes: [__m256i; 2], x: u32) -> [__m256i; 2] {
        if WIDE {
            codes = [self.offset(codes[0], -128), self.offset(codes[1], -128)];
        }
        let x = x86!(_mm256_set1_epi32(x as i32));
        [dot(runs[0], codes[0], x), dot(runs[1], codes[1], x)]
    }

    #[inline(always)]
    fn add_runs(
        self,
        totals: [__m256i; 2],
        runs: [__m256i; 2],
        scales: &[[i16; 2]; OUTPUTS],
    ) -> [__m256i; 2] {
        let [first, second] = split::<_, 8>(scales);
        // Of the two equal scales, the upper one with its sign.
        let first = x86!(_mm256_mullo_epi32(runs[0], _mm256_srai_epi32::<16>(load(first))));
        let second = x86!(_mm256_mullo_epi32(runs[1], _mm256_srai_epi32::<16>(load(second))));
        [x86!(_mm256_add_epi32(totals[0], first)), x86!(_mm256_add_epi32(totals[1], second))]
    }
}
