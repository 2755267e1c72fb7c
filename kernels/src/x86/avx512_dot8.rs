//! Products of small integers with AVX-512 VNNI.
//!
//! `vpdpbusd` multiplies bytes without sign by bytes with sign and adds four neighbours to a 32-bit sum, exactly.
//! Codes come out of stored blocks with the instructions of AVX2, which every such processor has; along a row, runs
//! are 32 bytes long, so vectors stay that short, and across 16 outputs they have their full length.

use super::as_avx2::blocks_as_avx2;
use super::avx2::Avx2;
use super::avx512::Avx512;
use super::registers::{load, load_long, x86};
use crate::int8::dot8::{Dot8, OUTPUTS, Task};
use std::arch::x86_64::*;

/// Proof that the processor has VNNI beside what [`Avx512`] proves.
#[derive(Clone, Copy)]
pub(crate) struct Vnni(Avx2);

impl Vnni {
    /// The proof, or the instructions that are missing.
    pub(crate) fn detect() -> Result<Vnni, String> {
        Avx512::detect()?;
        if is_x86_feature_detected!("avx512vnni") {
            Ok(Vnni(Avx2::detect()?))
        } else {
            Err("the processor lacks avx512vnni".to_owned())
        }
    }
}

/// Sixteen f32.
#[inline(always)]
fn load_floats(from: &[f32; OUTPUTS]) -> __m512 {
    // SAFETY: reads the sixteen f32 that `from` is; needs no alignment. Callers have a proof of AVX-512.
    unsafe { _mm512_loadu_ps(from.as_ptr()) }
}

/// Sixteen numbers, in memory.
#[inline(always)]
fn stored(numbers: __m256i) -> [i16; 16] {
    let mut out = [0; 16];
    // SAFETY: writes the 32 bytes that `out` is; needs no alignment. Callers have a proof of AVX-512.
    unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), numbers) };
    out
}

impl Dot8 for Vnni {
    type Bytes = __m256i;
    type Products = __m256i;
    type Sums = __m256i;
    type Floats = __m256;
    type Factors = [i16; 16];
    type Eight = [f32; 8];
    type Quads = __m512i;
    type Runs = __m512i;
    type Totals = __m512i;
    type Outputs = __m512;
    const NARROW: bool = false;

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Out {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq,avx512vnni")]
        fn inner<T: Task>(s: Vnni, task: T) -> T::Out {
            task.call(s)
        }
        // SAFETY: `self` proves that the processor has the instructions.
        unsafe { inner(self, task) }
    }

    blocks_as_avx2!();

    /// Sums of four products. Signed codes are made magnitudes, and activations take over their signs.
    #[inline(always)]
    fn products<const SIGNED: bool>(self, codes: __m256i, x: &[i8; 32]) -> __m256i {
        let x = load(x);
        let none = self.no_sums();
        if SIGNED {
            let magnitudes = x86!(_mm256_abs_epi8(codes));
            let x = x86!(_mm256_sign_epi8(x, codes));
            x86!(_mm256_dpbusd_epi32(none, magnitudes, x))
        } else {
            x86!(_mm256_dpbusd_epi32(none, codes, x))
        }
    }

    #[inline(always)]
    fn scaled(self, sums: __m256i, products: __m256i, scales: [i16; 16], run: usize) -> __m256i {
        let (first, second) = (i32::from(scales[run]), i32::from(scales[run + 8]));
        let (first, second) = (x86!(_mm256_set1_epi32(first)), x86!(_mm256_set1_epi32(second)));
        let scales = x86!(_mm256_blend_epi32::<0b1111_0000>(first, second));
        let scaled = x86!(_mm256_mullo_epi32(products, scales));
        x86!(_mm256_add_epi32(sums, scaled))
    }

    /// From memory, from where a single number is spread over a vector at no cost.
    #[inline(always)]
    fn factors(self, scales: [u8; 16]) -> [i16; 16] {
        stored(self.0.factors(scales))
    }

    #[inline(always)]
    fn lowered(self, scales: [i16; 16], sums: &[i16; 16], by: i16) -> __m256i {
        self.0.lowered(load(&scales), sums, by)
    }

    #[inline(always)]
    fn add_pair<const WIDE: bool>(
        self,
        floats: __m256,
        codes: [__m256i; 2],
        x: [&[i8; 32]; 2],
        by: [f32; 8],
        pair: usize,
    ) -> __m256 {
        let (first, second) = (self.products::<WIDE>(codes[0], x[0]), self.products::<WIDE>(codes[1], x[1]));
        let floats = self.add_sums(floats, first, by[pair]);
        self.add_sums(floats, second, by[pair + 4])
    }

    #[inline(always)]
    fn multiplied(self, a: &[f32; 8], b: &[f32; 8]) -> [f32; 8] {
        let products = self.0.multiplied(a, b);
        let mut out = [0.0; 8];
        // SAFETY: writes the 32 bytes that `out` is; needs no alignment.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), products) };
        out
    }

    #[inline(always)]
    fn quads(self, codes: &[u8; 4 * OUTPUTS]) -> __m512i {
        load_long(codes)
    }

    /// Both halves of the pair belong to the one sum that a quad has here.
    #[inline(always)]
    fn start<const SHIFT: i32>(self, pair: u32) -> __m512i {
        let sum = i32::from(pair as i16) + i32::from((pair >> 16) as i16);
        x86!(_mm512_set1_epi32(sum << SHIFT))
    }

    #[inline(always)]
    fn start_wide(self, pairs: [u32; 2]) -> __m512i {
        x86!(_mm512_add_epi32(self.start::<7>(pairs[0]), self.start::<7>(pairs[1])))
    }

    #[inline(always)]
    fn multiply<const WIDE: bool>(self, runs: __m512i, mut codes: __m512i, x: u32) -> __m512i {
        if WIDE {
            codes = x86!(_mm512_add_epi8(codes, _mm512_set1_epi8(-128)));
        }
        let x = x86!(_mm512_set1_epi32(x as i32));
        x86!(_mm512_dpbusd_epi32(runs, codes, x))
    }

    #[inline(always)]
    fn no_totals(self) -> __m512i {
        x86!(_mm512_setzero_si512())
    }

    #[inline(always)]
    fn add_runs(self, totals: __m512i, runs: __m512i, scales: &[[i16; 2]; OUTPUTS]) -> __m512i {
        // Of the two equal scales, the upper one with its sign.
        let scales = x86!(_mm512_srai_epi32::<16>(load_long(scales)));
        let scaled = x86!(_mm512_mullo_epi32(runs, scales));
        x86!(_mm512_add_epi32(totals, scaled))
    }

    #[inline(always)]
    fn add_pairs(self, totals: __m512i, a: &[[i16; 2]; OUTPUTS], b: u32) -> __m512i {
        let b = x86!(_mm512_set1_epi32(b as i32));
        x86!(_mm512_dpwssd_epi32(totals, load_long(a), b))
    }

    #[inline(always)]
    fn outputs(self, from: &[f32; OUTPUTS]) -> __m512 {
        load_floats(from)
    }

    #[inline(always)]
    fn store_outputs(self, outputs: __m512, to: &mut [f32; OUTPUTS]) {
        // SAFETY: writes the sixteen f32 that `to` is; needs no alignment.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), outputs) }
    }

    #[inline(always)]
    fn add_totals(self, outputs: __m512, totals: __m512i, by: &[f32; OUTPUTS], factor: f32) -> __m512 {
        let by = x86!(_mm512_mul_ps(load_floats(by), _mm512_set1_ps(factor)));
        let totals = x86!(_mm512_cvtepi32_ps(totals));
        x86!(_mm512_fmadd_ps(totals, by, outputs))
    }

    #[inline(always)]
    fn add_scaled(self, outputs: __m512, by: &[f32; OUTPUTS], factor: f32) -> __m512 {
        let factor = x86!(_mm512_set1_ps(factor));
        x86!(_mm512_fmadd_ps(load_floats(by), factor, outputs))
    }
}
