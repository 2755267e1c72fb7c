//! AVX-512 (F, BW, VL, DQ): sixteen f32 at a time, thirty-two registers.

#[cfg(target_arch = "x86_64")]
use super::block_sums;
#[cfg(target_arch = "x86_64")]
use super::registers::{half_extent, load_half, x86};
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

/// f32 activations with AVX-512.
pub const AVX512: KernelPlugin = KernelPlugin {
    name: "avx512",
    summary: "x86-64 with AVX-512 F, BW, VL and DQ; f32 activations",
    rank: 30,
    precision: Precision::Exact,
    make: Make::Leaf(make),
};

inventory::submit! { AVX512 }

#[cfg(not(target_arch = "x86_64"))]
pub(super) fn make(_options: &Options) -> Result<Box<dyn Kernel>, String> {
    Err("it is made of instructions of x86-64".to_owned())
}

#[cfg(target_arch = "x86_64")]
pub(super) fn make(_options: &Options) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(Exact::new(AVX512.name, Avx512::detect()?)))
}

/// Proof that the processor has the parts of AVX-512 that every server and desktop core since Skylake-X has which has
/// any.
#[cfg(target_arch = "x86_64")]
#[derive(Clone, Copy)]
pub(crate) struct Avx512(());

#[cfg(target_arch = "x86_64")]
impl Avx512 {
    /// The proof, or the instructions that are missing.
    pub(crate) fn detect() -> Result<Avx512, String> {
        let found = [
            ("avx512f", is_x86_feature_detected!("avx512f")),
            ("avx512bw", is_x86_feature_detected!("avx512bw")),
            ("avx512vl", is_x86_feature_detected!("avx512vl")),
            ("avx512dq", is_x86_feature_detected!("avx512dq")),
        ];
        let missing: Vec<&str> = found.iter().filter(|(_, has)| !has).map(|(name, _)| *name).collect();
        if missing.is_empty() {
            Ok(Avx512(()))
        } else {
            Err(format!("the processor lacks {}", missing.join(", ")))
        }
    }
}

#[cfg(target_arch = "x86_64")]
impl Simd for Avx512 {
    type F = __m512;
    type Floats = [f32; 16];
    type Quads = [u8; 64];
    type Pairs = [u8; 32];
    type Eight = __m256;
    type Wide = __m512d;
    const LANES: usize = 16;

    #[inline(always)]
    fn run<O: Op>(self, op: O) -> O::Out {
        #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512dq")]
        fn inner<O: Op>(s: Avx512, op: O) -> O::Out {
            op.call(s)
        }
        // SAFETY: `self` proves that the processor has the instructions.
        unsafe { inner(self, op) }
    }

    #[inline(always)]
    fn floats(x: &[f32]) -> (&[[f32; 16]], &[f32]) {
        x.as_chunks()
    }

    #[inline(always)]
    fn floats_mut(x: &mut [f32]) -> (&mut [[f32; 16]], &mut [f32]) {
        x.as_chunks_mut()
    }

    #[inline(always)]
    fn quads(raw: &[u8]) -> &[[u8; 64]] {
        raw.as_chunks().0
    }

    #[inline(always)]
    fn pairs(raw: &[u8]) -> &[[u8; 32]] {
        raw.as_chunks().0
    }

    #[inline(always)]
    fn splat(self, x: f32) -> __m512 {
        x86!(_mm512_set1_ps(x))
    }

    #[inline(always)]
    fn load(self, x: &[f32; 16]) -> __m512 {
        // SAFETY: reads the sixteen f32 that `x` is; needs no alignment.
        unsafe { _mm512_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, x: __m512, to: &mut [f32; 16]) {
        // SAFETY: writes the sixteen f32 that `to` is; needs no alignment.
        unsafe { _mm512_storeu_ps(to.as_mut_ptr(), x) }
    }

    #[inline(always)]
    fn load_f32(self, raw: &[u8; 64]) -> __m512 {
        // SAFETY: reads the 64 bytes that `raw` is; needs no alignment.
        unsafe { _mm512_loadu_ps(raw.as_ptr().cast()) }
    }

    #[inline(always)]
    fn eight(self, x: &[f32; 8]) -> __m256 {
        // SAFETY: reads the eight f32 that `x` is; needs no alignment.
        unsafe { _mm256_loadu_ps(x.as_ptr()) }
    }

    #[inline(always)]
    fn eight_f16(self, raw: &[u8; 16]) -> __m256 {
        x86!(_mm256_cvtph_ps(load_half(raw)))
    }

    #[inline(always)]
    fn eight_bf16(self, raw: &[u8; 16]) -> __m256 {
        let wide = x86!(_mm256_cvtepu16_epi32(load_half(raw)));
        let upper = x86!(_mm256_slli_epi32::<16>(wide));
        x86!(_mm256_castsi256_ps(upper))
    }

    #[inline(always)]
    fn eight_apart(self, a: __m256, b: __m256) -> __m256 {
        x86!(_mm256_sub_ps(a, b))
    }

    #[inline(always)]
    fn widened(self, x: __m256) -> __m512d {
        x86!(_mm512_cvtps_pd(x))
    }

    #[inline(always)]
    fn no_wide(self) -> __m512d {
        x86!(_mm512_setzero_pd())
    }

    #[inline(always)]
    fn add_wide(self, a: __m512d, b: __m512d) -> __m512d {
        x86!(_mm512_add_pd(a, b))
    }

    #[inline(always)]
    fn add_product(self, a: __m512d, b: __m512d, to: __m512d) -> __m512d {
        x86!(_mm512_fmadd_pd(a, b, to))
    }

    #[inline(always)]
    fn wide_lanes(self, x: __m512d) -> [f64; 8] {
        let mut lanes = [0.0; 8];
        // SAFETY: writes the eight f64 that `lanes` is; needs no alignment.
        unsafe { _mm512_storeu_pd(lanes.as_mut_ptr(), x) }
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
    fn load_f16(self, raw: &[u8; 32]) -> __m512 {
        // SAFETY: reads the 32 bytes that `raw` is; needs no alignment.
        let stored = unsafe { _mm256_loadu_si256(raw.as_ptr().cast()) };
        x86!(_mm512_cvtph_ps(stored))
    }

    #[inline(always)]
    fn load_bf16(self, raw: &[u8; 32]) -> __m512 {
        // SAFETY: reads the 32 bytes that `raw` is; needs no alignment.
        let stored = unsafe { _mm256_loadu_si256(raw.as_ptr().cast()) };
        let wide = x86!(_mm512_cvtepu16_epi32(stored));
        let upper = x86!(_mm512_slli_epi32::<16>(wide));
        x86!(_mm512_castsi512_ps(upper))
    }

    #[inline(always)]
    fn scaled(self, codes: &[i8; 16], scale: f32, minimum: Option<f32>, to: &mut [f32; 16]) {
        let whole = x86!(_mm512_cvtepi8_epi32(load_half(codes)));
        let product = self.mul(self.splat(scale), x86!(_mm512_cvtepi32_ps(whole)));
        let value = minimum.map_or(product, |minimum| self.sub(product, self.splat(minimum)));
        self.store(value, to);
    }

    #[inline(always)]
    fn four_blocks(self, dtype: DType, raw: &[u8], limits: [f32; 2]) -> Option<Four> {
        block_sums::of(dtype, raw, limits)
    }

    #[inline(always)]
    fn add(self, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_add_ps(a, b))
    }

    #[inline(always)]
    fn sub(self, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_sub_ps(a, b))
    }

    #[inline(always)]
    fn mul(self, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_mul_ps(a, b))
    }

    #[inline(always)]
    fn div(self, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_div_ps(a, b))
    }

    #[inline(always)]
    fn fma(self, a: __m512, b: __m512, c: __m512) -> __m512 {
        x86!(_mm512_fmadd_ps(a, b, c))
    }

    /// The instructions return their second operand if one is NaN, so `x` stands second in both.
    #[inline(always)]
    fn clamp(self, x: __m512, low: __m512, high: __m512) -> __m512 {
        let below = x86!(_mm512_min_ps(high, x));
        x86!(_mm512_max_ps(low, below))
    }

    #[inline(always)]
    fn max(self, a: __m512, b: __m512) -> __m512 {
        x86!(_mm512_max_ps(a, b))
    }

    #[inline(always)]
    fn abs(self, x: __m512) -> __m512 {
        x86!(_mm512_andnot_ps(self.splat(-0.0), x))
    }

    #[inline(always)]
    fn with_sign(self, x: __m512, sign: __m512) -> __m512 {
        let sign = x86!(_mm512_and_ps(self.splat(-0.0), sign));
        x86!(_mm512_or_ps(self.abs(x), sign))
    }

    #[inline(always)]
    fn if_less(self, a: __m512, b: __m512, yes: __m512, no: __m512) -> __m512 {
        let less = x86!(_mm512_cmp_ps_mask::<_CMP_LT_OQ>(a, b));
        x86!(_mm512_mask_blend_ps(less, no, yes))
    }

    #[inline(always)]
    fn round(self, x: __m512) -> __m512 {
        x86!(_mm512_roundscale_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(x))
    }

    #[inline(always)]
    fn power_of_two(self, n: __m512) -> __m512 {
        x86!(_mm512_scalef_ps(self.splat(1.0), n))
    }

    #[inline(always)]
    fn sum(self, x: __m512) -> f32 {
        let upper = x86!(_mm512_extractf32x8_ps::<1>(x));
        let eight = x86!(_mm256_add_ps(_mm512_castps512_ps256(x), upper));
        let upper = x86!(_mm256_extractf128_ps::<1>(eight));
        let four = x86!(_mm_add_ps(_mm256_castps256_ps128(eight), upper));
        let two = x86!(_mm_add_ps(four, _mm_movehl_ps(four, four)));
        let one = x86!(_mm_add_ss(two, _mm_movehdup_ps(two)));
        x86!(_mm_cvtss_f32(one))
    }

    #[inline(always)]
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize) {
        let mut rows = [self.splat(0.0); 16];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = self.load(from[r * from_stride..].first_chunk().expect("sixteen rows of sixteen"));
        }
        // A register is four quarters of four numbers. First within quarters, by pairs of rows and then by fours:
        // `fours[4 * g + j]` holds column j of each quarter of the rows 4g..4g + 4.
        let (mut pairs, mut fours, mut eights) = (rows, rows, rows);
        for i in (0..16).step_by(2) {
            let (a, b) = (rows[i], rows[i + 1]);
            pairs[i] = x86!(_mm512_unpacklo_ps(a, b));
            pairs[i + 1] = x86!(_mm512_unpackhi_ps(a, b));
        }
        for i in (0..16).step_by(4) {
            for j in 0..2 {
                let (a, b) = (pairs[i + j], pairs[i + j + 2]);
                fours[i + 2 * j] = x86!(_mm512_shuffle_ps::<0b01_00_01_00>(a, b));
                fours[i + 2 * j + 1] = x86!(_mm512_shuffle_ps::<0b11_10_11_10>(a, b));
            }
        }
        // Then whole quarters: `eights[8 * h + 4 * p + j]` holds column j of the quarters 2p and 2p + 1 of the rows
        // 8h..8h + 8, those of the first four rows before those of the others.
        for h in [0, 8] {
            for j in 0..4 {
                let (a, b) = (fours[h + j], fours[h + 4 + j]);
                eights[h + j] = x86!(_mm512_shuffle_f32x4::<0b01_00_01_00>(a, b));
                eights[h + 4 + j] = x86!(_mm512_shuffle_f32x4::<0b11_10_11_10>(a, b));
            }
        }
        for c in 0..16 {
            let at = c / 8 * 4 + c % 4;
            let (a, b) = (eights[at], eights[8 + at]);
            let column = if c % 8 < 4 {
                x86!(_mm512_shuffle_f32x4::<0b10_00_10_00>(a, b))
            } else {
                x86!(_mm512_shuffle_f32x4::<0b11_01_11_01>(a, b))
            };
            self.store(column, to[c * to_stride..].first_chunk_mut().expect("sixteen columns of sixteen"));
        }
    }
}
