//! AVX2 with FMA and F16C: eight f32 at a time, sixteen registers.

#[cfg(target_arch = "x86_64")]
use super::block_sums;
#[cfg(target_arch = "x86_64")]
use super::registers::{half_extent, load, x86};
#[cfg(target_arch = "x86_64")]
use crate::exact::Exact;
#[cfg(target_arch = "x86_64")]
use crate::simd::{Four, Op, Simd};
#[cfg(target_arch = "x86_64")]
use scantling_core::dtype::DType;
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options, Precision};
#[cfg(target_arch = "x86_64")]
use scantling_core::stats::extent::HalfExtent;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64::*;

/// f32 activations with AVX2.
pub const AVX2: KernelPlugin = KernelPlugin {
    name: "avx2",
    summary: "x86-64 with AVX2, FMA and F16C; f32 activations",
    rank: 20,
    precision: Precision::Exact,
    make: Make::Leaf(make),
};

inventory::submit! { AVX2 }

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn make(_options: &Options) -> Result<Box<dyn Kernel>, String> {
    Err("it is made of instructions of x86-64".to_owned())
}

#[cfg(target_arch = "x86_64")]
pub(super) fn make(_options: &Options) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(Exact::new(AVX2.name, Avx2::detect()?)))
}

/// Proof that the processor has AVX2, FMA and F16C.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx2(());

#[cfg(target_arch = "x86_64")]
impl Avx2 {
    /// The proof, or the instructions that are missing.
    pub(crate) fn detect() -> Result<Avx2, String> {
        let found = [
            ("avx2", is_x86_feature_detected!("avx2")),
            ("fma", is_x86_feature_detected!("fma")),
            ("f16c", is_x86_feature_detected!("f16c")),
        ];
        let missing: Vec<&str> = found.iter().filter(|(_, has)| !has).map(|(name, _)| *name).collect();
        if missing.is_empty() {
            Ok(Avx2(()))
        } else {
            Err(format!("the processor lacks {}", missing.join(", ")))
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx2 {
    type F = __m256;
    type Floats = [f32; 8];
    type Quads = [u8; 32];
    type Pairs = [u8; 16];
    type Eight = __m256;
    type Wide = [__m256d; 2];
    const LANES: usize = 8;

    #[inline(always)]
    fn run<O: Op>(self, op: O) -> O::Out {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn inner<O: Op>(s: Avx2, op: O) -> O::Out {
            op.call(s)
        }
        // SAFETY: `self` proves that the processor has the instructions.
        unsafe { inner(self, op) }
    }

    #[inline(always)]
    fn floats(x: &[f32]) -> (&[[f32; 8]], &[f32]) {
        x.as_chunks()
    }

    #[inline(always)]
    fn floats_mut(x: &mut [f32]) -> (&mut [[f32; 8]], &mut [f32]) {
        x.as_chunks_mut()
    }

    #[inline(always)]
    fn quads(raw: &[u8]) -> &[[u8; 32]] {
        raw.as_chunks().0
    }

    #[inline(always)]
    fn pairs(raw: &[u8]) -> &[[u8; 16]] {
        raw.as_chunks().0
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m256 {
        x86!(_mm256_set1_ps(x))
    }

    #[inline(always)]
    fn load(self, x: &[f32; 8]) -> __m256 {
        // SAFETY: reads the eight f32 that `x` is; needs no alignment.
        unsafe { _mm256_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, x: __m256, to: &mut [f32; 8]) {
        // SAFETY: writes the eight f32 that `to` is; needs no alignment.
        unsafe { _mm256_storeu_ps(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn load_f32(self, raw: &[u8; 32]) -> __m256 {
        // SAFETY: reads the 32 bytes that `raw` is; needs no alignment.
        unsafe { _mm256_loadu_ps(raw.as_ptr().cast()) }
    }

    #[inline(always)]
    fn eight(self, x: &[f32; 8]) -> __m256 {
        self.load(x)
    }

    #[inline(always)]
    fn eight_f16(self, raw: &[u8; 16]) -> __m256 {
        self.load_f16(raw)
    }

    #[inline(always)]
    fn eight_bf16(self, raw: &[u8; 16]) -> __m256 {
        self.load_bf16(raw)
    }

    #[inline(always)]
    fn eight_apart(self, a: __m256, b: __m256) -> __m256 {
        self.sub(a, b)
    }

    #[inline(always)]
    fn widened(self, x: __m256) -> [__m256d; 2] {
        let upper = x86!(_mm256_extractf128_ps::<1>(x));
        [x86!(_mm256_cvtps_pd(_mm256_castps256_ps128(x))), x86!(_mm256_cvtps_pd(upper))]
    }

    #[inline(always)]
    fn no_wide(self) -> [__m256d; 2] {
        [x86!(_mm256_setzero_pd()); 2]
    }

    #[inline(always)]
    fn add_wide(self, a: [__m256d; 2], b: [__m256d; 2]) -> [__m256d; 2] {
        [x86!(_mm256_add_pd(a[0], b[0])), x86!(_mm256_add_pd(a[1], b[1]))]
    }

    #[inline(always)]
    fn add_product(self, a: [__m256d; 2], b: [__m256d; 2], to: [__m256d; 2]) -> [__m256d; 2] {
        [x86!(_mm256_fmadd_pd(a[0], b[0], to[0])), x86!(_mm256_fmadd_pd(a[1], b[1], to[1]))]
    }

    #[inline(always)]
    fn wide_lanes(self, x: [__m256d; 2]) -> [f64; 8] {
        let mut lanes = [0.0; 8];
        for (lanes, x) in lanes.as_chunks_mut::<4>().0.iter_mut().zip(x) {
            // SAFETY: writes the four f64 that `lanes` is; needs no alignment.
            unsafe { _mm256_storeu_pd(lanes.as_mut_ptr(), x) }
        }
        lanes
    }

    #[inline(always)]
    fn half_extent(self, words: &[[u8; 2]]) -> HalfExtent {
        half_extent(words)
    }

    #[inline(always)]
    fn prefetch_at(self, at: *const u8) {
        x86!(_mm_prefetch::<_MM_HINT_T0>(at.cast()));
    }

    #[inline(always)]
    fn load_f16(self, raw: &[u8; 16]) -> __m256 {
        // SAFETY: reads the 16 bytes that `raw` is; needs no alignment.
        let stored = unsafe { _mm_loadu_si128(raw.as_ptr().cast()) };
        x86!(_mm256_cvtph_ps(stored))
    }

    #[inline(always)]
    fn load_bf16(self, raw: &[u8; 16]) -> __m256 {
        // SAFETY: reads the 16 bytes that `raw` is; needs no alignment.
        let stored = unsafe { _mm_loadu_si128(raw.as_ptr().cast()) };
        let wide = x86!(_mm256_cvtepu16_epi32(stored));
        let upper = x86!(_mm256_slli_epi32::<16>(wide));
        x86!(_mm256_castsi256_ps(upper))
    }

    #[inline(always)]
    fn f16(self, bits: u16) -> f32 {
        let stored = x86!(_mm_cvtsi32_si128(i32::from(bits)));
        let wide = x86!(_mm_cvtph_ps(stored));
        x86!(_mm_cvtss_f32(wide))
    }

    #[inline(always)]
    fn scaled(self, codes: &[i8; 16], scale: f32, minimum: Option<f32>, to: &mut [f32; 16]) {
        let scale = self.splat(scale);
        for (codes, to) in codes.as_chunks::<8>().0.iter().zip(to.as_chunks_mut().0) {
            // SAFETY: reads the eight bytes that `codes` is; needs no alignment.
            let eight = unsafe { _mm_loadl_epi64(codes.as_ptr().cast()) };
            let whole = x86!(_mm256_cvtepi8_epi32(eight));
            let product = self.mul(scale, x86!(_mm256_cvtepi32_ps(whole)));
            let value = minimum.map_or(product, |minimum| self.sub(product, self.splat(minimum)));
            self.store(value, to);
        }
    }

    #[inline(always)]
    fn look_up(self, table: &[i8; 16], indices: &[u8; 16]) -> [i8; 16] {
        // SAFETY: reads the sixteen bytes that `table` is; needs no alignment.
        let table = unsafe { _mm_loadu_si128(table.as_ptr().cast()) };
        // SAFETY: reads the sixteen bytes that `indices` is; needs no alignment.
        let indices = unsafe { _mm_loadu_si128(indices.as_ptr().cast()) };
        let entries = x86!(_mm_shuffle_epi8(table, indices));
        let mut out = [0; 16];
        // SAFETY: writes the sixteen bytes that `out` is; needs no alignment.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), entries) }
        out
    }

    #[inline(always)]
    fn code_sums(self, codes: &[i8; 256], sums: &mut [i32; 16], squares: &mut [i32; 16]) {
        let (sums, squares) = (sums.as_chunks_mut::<8>().0, squares.as_chunks_mut::<8>().0);
        for (codes, (sums, squares)) in codes.as_chunks::<128>().0.iter().zip(sums.iter_mut().zip(squares)) {
            // Each holds two runs, one in each half.
            let pairs = codes.as_chunks::<32>().0;
            let (a, b, c, d) = (load(&pairs[0]), load(&pairs[1]), load(&pairs[2]), load(&pairs[3]));
            eight_sums([a, b, c, d], sums);
            eight_squares([a, b, c, d], squares);
        }
    }

    #[inline(always)]
    fn four_blocks(self, dtype: DType, raw: &[u8], limits: [f32; 2]) -> Option<Four> {
        block_sums::of(dtype, raw, limits)
    }

    #[inline(always)]
    fn add(self, a: __m256, b: __m256) -> __m256 {
        x86!(_mm256_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m256, b: __m256) -> __m256 {
        x86!(_mm256_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m256, b: __m256) -> __m256 {
        x86!(_mm256_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m256, b: __m256) -> __m256 {
        x86!(_mm256_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: __m256, b: __m256, c: __m256) -> __m256 {
        x86!(_mm256_fmadd_ps(a, b, c))
    }

    /// The instructions return their second operand if one is NaN, so `x` stands second in both.
    #[inline(always)]
    fn clamp(self, x: __m256, low: __m256, high: __m256) -> __m256 {
        let below = x86!(_mm256_min_ps(high, x));
        x86!(_mm256_max_ps(low, below))
    }

    #[inline(always)]
    fn max(self, a: __m256, b: __m256) -> __m256 {
        x86!(_mm256_max_ps(a, b))
    }

    #[inline(always)]
    fn abs(self, x: __m256) -> __m256 {
        x86!(_mm256_andnot_ps(self.splat(-0.0), x))
    }

    #[inline(always)]
    fn with_sign(self, x: __m256, sign: __m256) -> __m256 {
        let sign = x86!(_mm256_and_ps(self.splat(-0.0), sign));
        x86!(_mm256_or_ps(self.abs(x), sign))
    }

    #[inline(always)]
    fn if_less(self, a: __m256, b: __m256, yes: __m256, no: __m256) -> __m256 {
        let less = x86!(_mm256_cmp_ps::<_CMP_LT_OQ>(a, b));
        x86!(_mm256_blendv_ps(no, yes, less))
    }

    #[inline(always)]
    fn round(self, x: __m256) -> __m256 {
        x86!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x))
    }

    #[inline(always)]
    fn power_of_two(self, n: __m256) -> __m256 {
        let whole = x86!(_mm256_cvtps_epi32(n));
        let exponent = x86!(_mm256_add_epi32(whole, _mm256_set1_epi32(127)));
        let bits = x86!(_mm256_slli_epi32::<23>(exponent));
        x86!(_mm256_castsi256_ps(bits))
    }

    #[inline(always)]
    fn sum(self, x: __m256) -> f32 {
        let upper = x86!(_mm256_extractf128_ps::<1>(x));
        let four = x86!(_mm_add_ps(_mm256_castps256_ps128(x), upper));
        let two = x86!(_mm_add_ps(four, _mm_movehl_ps(four, four)));
        let one = x86!(_mm_add_ss(two, _mm_movehdup_ps(two)));
        x86!(_mm_cvtss_f32(one))
    }

    #[inline(always)]
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize) {
        let row = |r: usize| self.load(from[r * from_stride..].first_chunk().expect("eight rows of eight"));
        let rows: [__m256; 8] = std::array::from_fn(row);
        // Pairs of rows, then of pairs, then of halves.
        let pairs: [__m256; 8] = std::array::from_fn(|i| {
            let (a, b) = (rows[i / 2 * 2], rows[i / 2 * 2 + 1]);
            if i % 2 == 0 { x86!(_mm256_unpacklo_ps(a, b)) } else { x86!(_mm256_unpackhi_ps(a, b)) }
        });
        let fours: [__m256; 8] = std::array::from_fn(|i| {
            let (a, b) = (pairs[i / 4 * 4 + i % 4 / 2], pairs[i / 4 * 4 + i % 4 / 2 + 2]);
            if i % 2 == 0 {
                x86!(_mm256_shuffle_ps::<0b01_00_01_00>(a, b))
            } else {
                x86!(_mm256_shuffle_ps::<0b11_10_11_10>(a, b))
            }
        });
        for c in 0..8 {
            let (a, b) = (fours[c % 4], fours[c % 4 + 4]);
            let column = if c < 4 {
                x86!(_mm256_permute2f128_ps::<0x20>(a, b))
            } else {
                x86!(_mm256_permute2f128_ps::<0x31>(a, b))
            };
            self.store(column, to[c * to_stride..].first_chunk_mut().expect("eight columns of eight"));
        }
    }
}

/// Sums of eight runs of codes: those of eight bytes are of one instruction, the four vectors' are put side by side.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn eight_sums(v: [__m256i; 4], to: &mut [i32; 8]) {
    let [a, b, c, d] = [byte_sums(v[0]), byte_sums(v[1]), byte_sums(v[2]), byte_sums(v[3])];
    let ab = x86!(_mm256_or_si256(a, _mm256_slli_epi64::<16>(b)));
    let cd = x86!(_mm256_or_si256(c, _mm256_slli_epi64::<16>(d)));
    let all = x86!(_mm256_or_si256(ab, _mm256_slli_epi64::<32>(cd)));
    let both = x86!(_mm256_add_epi16(all, _mm256_shuffle_epi32::<0b01_00_11_10>(all)));
    let biased = x86!(_mm_set1_epi32(16 * 128));
    let even = x86!(_mm_cvtepu16_epi32(_mm256_castsi256_si128(both)));
    let odd = x86!(_mm_cvtepu16_epi32(_mm256_extracti128_si256::<1>(both)));
    in_turn(x86!(_mm_sub_epi32(even, biased)), x86!(_mm_sub_epi32(odd, biased)), to);
}

/// Sums of eight codes each, 128 added to each code.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn byte_sums(v: __m256i) -> __m256i {
    let biased = x86!(_mm256_xor_si256(v, _mm256_set1_epi8(-128)));
    x86!(_mm256_sad_epu8(biased, _mm256_setzero_si256()))
}

/// Sums of the squares of four codes each.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn four_squares(v: __m256i) -> __m256i {
    let size = x86!(_mm256_abs_epi8(v));
    let pairs = x86!(_mm256_maddubs_epi16(size, size));
    x86!(_mm256_madd_epi16(pairs, _mm256_set1_epi16(1)))
}

/// Sums of the squares of eight runs of codes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn eight_squares(v: [__m256i; 4], to: &mut [i32; 8]) {
    let [a, b, c, d] = [four_squares(v[0]), four_squares(v[1]), four_squares(v[2]), four_squares(v[3])];
    let (ab, cd) = (x86!(_mm256_hadd_epi32(a, b)), x86!(_mm256_hadd_epi32(c, d)));
    let all = x86!(_mm256_hadd_epi32(ab, cd));
    in_turn(x86!(_mm256_castsi256_si128(all)), x86!(_mm256_extracti128_si256::<1>(all)), to);
}

/// Numbers of the one and the other by turns.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn in_turn(even: __m128i, odd: __m128i, to: &mut [i32; 8]) {
    let low = x86!(_mm_unpacklo_epi32(even, odd));
    let high = x86!(_mm_unpackhi_epi32(even, odd));
    let (first, second) = to.split_at_mut(4);
    // SAFETY: writes four i32; needs no alignment.
    unsafe { _mm_storeu_si128(first.as_mut_ptr().cast(), low) }
    // SAFETY: writes four i32; needs no alignment.
    unsafe { _mm_storeu_si128(second.as_mut_ptr().cast(), high) }
}
