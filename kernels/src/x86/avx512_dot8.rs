//! Products of small integers with AVX-512 VNNI.
//!
//! `vpdpbusd` multiplies bytes without sign by bytes with sign and adds four neighbours to a 32-bit sum, exactly.
//! Codes come out of stored blocks with the instructions of AVX2, which every such processor has; along a row, runs
//! are 32 bytes long, so vectors stay that short, and across 16 outputs they have their full length.

use super::avx2::Avx2;
use super::avx512::Avx512;
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

/// Calls an intrinsic. The one reason for all of them: a value of type `Vnni` exists only where its detector found
/// the instructions.
macro_rules! vnni {
    ($call:expr) => {{
        // SAFETY: registers only, and the caller's `self` proves that the processor has the instruction.
        unsafe { $call }
    }};
}

/// The 64 bytes of an array of numbers.
#[inline(always)]
fn load<T: Plain>(from: &T) -> __m512i {
    const { assert!(size_of::<T>() == 64) };
    // SAFETY: reads the 64 bytes that `from` is, all of them initialised; needs no alignment. Callers have a proof
    // of AVX-512.
    unsafe { _mm512_loadu_si512(std::ptr::from_ref(from).cast()) }
}

/// Arrays of numbers: no padding, every byte pattern allowed.
trait Plain {}
impl Plain for [u8; 4 * OUTPUTS] {}
impl Plain for [[i16; 2]; OUTPUTS] {}

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

/// The methods that take codes out of blocks are those of AVX2.
macro_rules! as_avx2 {
    ($(fn $name:ident($($arg:ident: $type:ty),*) -> $out:ty;)*) => {
        $(
            #[inline(always)]
            fn $name(self, $($arg: $type),*) -> $out {
                self.0.$name($($arg),*)
            }
        )*
    };
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

    as_avx2! {
        fn by_halves(bytes: &[u8; 16]) -> [u8; 16];
        fn six_bits(bytes: &[u8; 16]) -> [[u8; 16]; 2];
        fn halves(bits: [u16; 8]) -> [f32; 8];
        fn greatest(x: &[f32; 32]) -> u32;
        fn rounded(x: &[f32; 32], by: f32) -> [i8; 32];
        fn pair_sums(x: &[i8; 32]) -> [[i16; 2]; 2];
        fn load(codes: &[u8; 32]) -> __m256i;
        fn store(codes: __m256i, to: &mut [u8; 32]) -> ();
        fn nibbles(bytes: &[u8; 16]) -> __m256i;
        fn bits(bits: u32) -> __m256i;
        fn offset(bytes: __m256i, by: i8) -> __m256i;
        fn lookup(table: &[i8; 16], codes: __m256i) -> __m256i;
        fn minima(minima: [u8; 16], sums: &[i16; 16]) -> __m256i;
        fn no_sums() -> __m256i;
        fn no_floats() -> __m256;
        fn add_sums(floats: __m256, sums: __m256i, by: f32) -> __m256;
        fn add_products(floats: __m256, a: &[f32; 8], b: &[f32; 8]) -> __m256;
        fn prefetch(from: *const u8) -> ();
        fn join_floats(a: __m256, b: __m256) -> __m256;
        fn total(floats: __m256) -> f32;
    }

    #[inline(always)]
    fn field<const SHIFT: i32>(self, bytes: __m256i, mask: u8) -> __m256i {
        self.0.field::<SHIFT>(bytes, mask)
    }

    #[inline(always)]
    fn join<const SHIFT: i32>(self, low: __m256i, high: __m256i) -> __m256i {
        self.0.join::<SHIFT>(low, high)
    }

    /// Sums of four products. Signed codes are made magnitudes, and activations take over their signs.
    #[inline(always)]
    fn products<const SIGNED: bool>(self, codes: __m256i, x: &[i8; 32]) -> __m256i {
        // SAFETY: reads the 32 bytes that `x` is; needs no alignment.
        let x = unsafe { _mm256_loadu_si256(x.as_ptr().cast()) };
        let none = self.no_sums();
        if SIGNED {
            let magnitudes = vnni!(_mm256_abs_epi8(codes));
            let x = vnni!(_mm256_sign_epi8(x, codes));
            vnni!(_mm256_dpbusd_epi32(none, magnitudes, x))
        } else {
            vnni!(_mm256_dpbusd_epi32(none, codes, x))
        }
    }

    #[inline(always)]
    fn sums(self, products: __m256i) -> __m256i {
        products
    }

    #[inline(always)]
    fn scaled(self, sums: __m256i, products: __m256i, scales: [i16; 16], run: usize) -> __m256i {
        let (first, second) = (i32::from(scales[run]), i32::from(scales[run + 8]));
        let (first, second) = (vnni!(_mm256_set1_epi32(first)), vnni!(_mm256_set1_epi32(second)));
        let scales = vnni!(_mm256_blend_epi32::<0b1111_0000>(first, second));
        let scaled = vnni!(_mm256_mullo_epi32(products, scales));
        vnni!(_mm256_add_epi32(sums, scaled))
    }

    /// From memory, from where a single number is spread over a vector at no cost.
    #[inline(always)]
    fn factors(self, scales: [u8; 16]) -> [i16; 16] {
        stored(self.0.factors(scales))
    }

    #[inline(always)]
    fn lowered(self, scales: [i16; 16], sums: &[i16; 16], by: i16) -> __m256i {
        // SAFETY: reads the 32 bytes that `scales` is; needs no alignment.
        let scales = unsafe { _mm256_loadu_si256(scales.as_ptr().cast()) };
        self.0.lowered(scales, sums, by)
    }

    #[inline(always)]
    fn add_pair<const WIDE: bool>(
        self,
        floats: __m256,
        [first, second]: [__m256i; 2],
        by: [f32; 8],
        pair: usize,
    ) -> __m256 {
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
        load(codes)
    }

    /// Both halves of the pair belong to the one sum that a quad has here.
    #[inline(always)]
    fn start<const SHIFT: i32>(self, pair: u32) -> __m512i {
        let sum = i32::from(pair as i16) + i32::from((pair >> 16) as i16);
        vnni!(_mm512_set1_epi32(sum << SHIFT))
    }

    #[inline(always)]
    fn multiply(self, runs: __m512i, codes: __m512i, x: u32) -> __m512i {
        let x = vnni!(_mm512_set1_epi32(x as i32));
        vnni!(_mm512_dpbusd_epi32(runs, codes, x))
    }

    #[inline(always)]
    fn no_totals(self) -> __m512i {
        vnni!(_mm512_setzero_si512())
    }

    #[inline(always)]
    fn add_runs(self, totals: __m512i, runs: __m512i, scales: &[[i16; 2]; OUTPUTS]) -> __m512i {
        // Of the two equal scales, the upper one with its sign.
        let scales = vnni!(_mm512_srai_epi32::<16>(load(scales)));
        let scaled = vnni!(_mm512_mullo_epi32(runs, scales));
        vnni!(_mm512_add_epi32(totals, scaled))
    }

    #[inline(always)]
    fn multiply_wide(self, totals: __m512i, codes: __m512i, x: u32, scales: &[[i16; 2]; OUTPUTS]) -> __m512i {
        let x = vnni!(_mm512_set1_epi32(x as i32));
        let magnitudes = vnni!(_mm512_abs_epi8(codes));
        let negative = vnni!(_mm512_movepi8_mask(codes));
        let x = vnni!(_mm512_mask_sub_epi8(x, negative, _mm512_setzero_si512(), x));
        let products = vnni!(_mm512_dpbusd_epi32(_mm512_setzero_si512(), magnitudes, x));
        self.add_runs(totals, products, scales)
    }

    #[inline(always)]
    fn add_pairs(self, totals: __m512i, a: &[[i16; 2]; OUTPUTS], b: u32) -> __m512i {
        let b = vnni!(_mm512_set1_epi32(b as i32));
        vnni!(_mm512_dpwssd_epi32(totals, load(a), b))
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
        let by = vnni!(_mm512_mul_ps(load_floats(by), _mm512_set1_ps(factor)));
        let totals = vnni!(_mm512_cvtepi32_ps(totals));
        vnni!(_mm512_fmadd_ps(totals, by, outputs))
    }

    #[inline(always)]
    fn add_scaled(self, outputs: __m512, by: &[f32; OUTPUTS], factor: f32) -> __m512 {
        let factor = vnni!(_mm512_set1_ps(factor));
        vnni!(_mm512_fmadd_ps(load_floats(by), factor, outputs))
    }
}
