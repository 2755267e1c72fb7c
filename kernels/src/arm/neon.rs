//! NEON with conversions from f16: four f32 at a time, thirty-two registers.

#[cfg(target_arch = "aarch64")]
use crate::exact::Exact;
#[cfg(target_arch = "aarch64")]
use crate::simd::{Op, Simd};
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options, Precision};
#[cfg(target_arch = "aarch64")]
use std::arch::{aarch64::*, is_aarch64_feature_detected};

/// f32 activations with NEON.
pub const NEON: KernelPlugin = KernelPlugin {
    name: "neon",
    summary: "AArch64 with NEON; f32 activations",
    rank: 20,
    precision: Precision::Exact,
    make: Make::Leaf(make),
};

inventory::submit! { NEON }

#[cfg(not(target_arch = "aarch64"))]
pub(super) fn make(_options: &Options) -> Result<Box<dyn Kernel>, String> {
    Err("it is made of instructions of AArch64".to_owned())
}

#[cfg(target_arch = "aarch64")]
pub(super) fn make(_options: &Options) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(Exact::new(NEON.name, Neon::detect()?)))
}

/// Proof that the processor has NEON.
#[cfg(target_arch = "aarch64")]
#[derive(Clone, Copy)]
pub(crate) struct Neon(());

#[cfg(target_arch = "aarch64")]
impl Neon {
    /// The proof, or what is missing.
    pub(crate) fn detect() -> Result<Neon, String> {
        if is_aarch64_feature_detected!("neon") {
            Ok(Neon(()))
        } else {
            Err("the processor lacks neon".to_owned())
        }
    }
}

/// Calls an intrinsic. The one reason for all of them: a value of type `Neon` exists only where its detector found
/// the instructions.
#[cfg(target_arch = "aarch64")]
macro_rules! neon {
    ($call:expr) => {{
        // SAFETY: registers only, and a `Neon` proves that the processor has the instruction.
        unsafe { $call }
    }};
}

#[cfg(target_arch = "aarch64")]
impl Simd for Neon {
    type F = float32x4_t;
    type Floats = [f32; 4];
    type Quads = [u8; 16];
    type Pairs = [u8; 8];
    type Eight = [float32x4_t; 2];
    type Wide = [float64x2_t; 4];
    const LANES: usize = 4;

    #[inline(always)]
    fn run<O: Op>(self, op: O) -> O::Out {
        #[target_feature(enable = "neon")]
        fn inner<O: Op>(s: Neon, op: O) -> O::Out {
            op.call(s)
        }
        // SAFETY: `self` proves that the processor has the instructions.
        unsafe { inner(self, op) }
    }

    #[inline(always)]
    fn floats(x: &[f32]) -> (&[[f32; 4]], &[f32]) {
        x.as_chunks()
    }

    #[inline(always)]
    fn floats_mut(x: &mut [f32]) -> (&mut [[f32; 4]], &mut [f32]) {
        x.as_chunks_mut()
    }

    #[inline(always)]
    fn quads(raw: &[u8]) -> &[[u8; 16]] {
        raw.as_chunks().0
    }

    #[inline(always)]
    fn pairs(raw: &[u8]) -> &[[u8; 8]] {
        raw.as_chunks().0
    }

    #[inline(always)]
    fn splat(self, x: f32) -> float32x4_t {
        neon!(vdupq_n_f32(x))
    }

    #[inline(always)]
    fn load(self, x: &[f32; 4]) -> float32x4_t {
        // SAFETY: reads the four f32 that `x` is.
        unsafe { vld1q_f32(x.as_ptr()) }
    }

    #[inline(always)]
    fn store(self, x: float32x4_t, to: &mut [f32; 4]) {
        // SAFETY: writes the four f32 that `to` is.
        unsafe { vst1q_f32(to.as_mut_ptr(), x) }
    }

    /// Read as bytes, which may lie anywhere; the same register holds them as f32.
    #[inline(always)]
    fn load_f32(self, raw: &[u8; 16]) -> float32x4_t {
        // SAFETY: reads the 16 bytes that `raw` is.
        let stored = unsafe { vld1q_u8(raw.as_ptr()) };
        neon!(vreinterpretq_f32_u8(stored))
    }

    #[inline(always)]
    fn load_f16(self, raw: &[u8; 8]) -> float32x4_t {
        // SAFETY: reads the 8 bytes that `raw` is.
        let stored = unsafe { vld1_u8(raw.as_ptr()) };
        let half = neon!(vreinterpret_f16_u8(stored));
        neon!(vcvt_f32_f16(half))
    }

    #[inline(always)]
    fn load_bf16(self, raw: &[u8; 8]) -> float32x4_t {
        // SAFETY: reads the 8 bytes that `raw` is.
        let stored = unsafe { vld1_u8(raw.as_ptr()) };
        let short = neon!(vreinterpret_u16_u8(stored));
        let upper = neon!(vshll_n_u16::<16>(short));
        neon!(vreinterpretq_f32_u32(upper))
    }

    #[inline(always)]
    fn eight(self, x: &[f32; 8]) -> [float32x4_t; 2] {
        let (four, _) = x.as_chunks();
        [self.load(&four[0]), self.load(&four[1])]
    }

    #[inline(always)]
    fn eight_f16(self, raw: &[u8; 16]) -> [float32x4_t; 2] {
        let (four, _) = raw.as_chunks();
        [self.load_f16(&four[0]), self.load_f16(&four[1])]
    }

    #[inline(always)]
    fn eight_bf16(self, raw: &[u8; 16]) -> [float32x4_t; 2] {
        let (four, _) = raw.as_chunks();
        [self.load_bf16(&four[0]), self.load_bf16(&four[1])]
    }

    #[inline(always)]
    fn eight_apart(self, a: [float32x4_t; 2], b: [float32x4_t; 2]) -> [float32x4_t; 2] {
        [self.sub(a[0], b[0]), self.sub(a[1], b[1])]
    }

    #[inline(always)]
    fn widened(self, [a, b]: [float32x4_t; 2]) -> [float64x2_t; 4] {
        let (first, third) = (neon!(vcvt_f64_f32(vget_low_f32(a))), neon!(vcvt_f64_f32(vget_low_f32(b))));
        [first, neon!(vcvt_high_f64_f32(a)), third, neon!(vcvt_high_f64_f32(b))]
    }

    #[inline(always)]
    fn no_wide(self) -> [float64x2_t; 4] {
        [neon!(vdupq_n_f64(0.0)); 4]
    }

    #[inline(always)]
    fn add_wide(self, a: [float64x2_t; 4], b: [float64x2_t; 4]) -> [float64x2_t; 4] {
        let mut sums = a;
        for (a, b) in sums.iter_mut().zip(b) {
            *a = neon!(vaddq_f64(*a, b));
        }
        sums
    }

    #[inline(always)]
    fn add_product(self, a: [float64x2_t; 4], b: [float64x2_t; 4], to: [float64x2_t; 4]) -> [float64x2_t; 4] {
        let mut sums = to;
        for (to, (a, b)) in sums.iter_mut().zip(a.into_iter().zip(b)) {
            *to = neon!(vfmaq_f64(*to, a, b));
        }
        sums
    }

    #[inline(always)]
    fn wide_lanes(self, x: [float64x2_t; 4]) -> [f64; 8] {
        let mut lanes = [0.0; 8];
        for (lanes, x) in lanes.as_chunks_mut::<2>().0.iter_mut().zip(x) {
            // SAFETY: writes the two f64 that `lanes` is.
            unsafe { vst1q_f64(lanes.as_mut_ptr(), x) }
        }
        lanes
    }

    #[inline(always)]
    fn add(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        neon!(vaddq_f32(a, b))
    }

    #[inline(always)]
    fn sub(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        neon!(vsubq_f32(a, b))
    }

    #[inline(always)]
    fn mul(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        neon!(vmulq_f32(a, b))
    }

    #[inline(always)]
    fn div(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        neon!(vdivq_f32(a, b))
    }

    #[inline(always)]
    fn fma(self, a: float32x4_t, b: float32x4_t, c: float32x4_t) -> float32x4_t {
        neon!(vfmaq_f32(c, a, b))
    }

    /// Both instructions return NaN if either operand is.
    #[inline(always)]
    fn clamp(self, x: float32x4_t, low: float32x4_t, high: float32x4_t) -> float32x4_t {
        let below = neon!(vminq_f32(x, high));
        neon!(vmaxq_f32(below, low))
    }

    #[inline(always)]
    fn max(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        neon!(vmaxq_f32(a, b))
    }

    #[inline(always)]
    fn abs(self, x: float32x4_t) -> float32x4_t {
        neon!(vabsq_f32(x))
    }

    #[inline(always)]
    fn with_sign(self, x: float32x4_t, sign: float32x4_t) -> float32x4_t {
        let top = neon!(vdupq_n_u32(1 << 31));
        neon!(vbslq_f32(top, sign, x))
    }

    #[inline(always)]
    fn if_less(self, a: float32x4_t, b: float32x4_t, yes: float32x4_t, no: float32x4_t) -> float32x4_t {
        let less = neon!(vcltq_f32(a, b));
        neon!(vbslq_f32(less, yes, no))
    }

    #[inline(always)]
    fn round(self, x: float32x4_t) -> float32x4_t {
        neon!(vrndnq_f32(x))
    }

    #[inline(always)]
    fn power_of_two(self, n: float32x4_t) -> float32x4_t {
        let whole = neon!(vcvtq_s32_f32(n));
        let bias = neon!(vdupq_n_s32(127));
        let exponent = neon!(vaddq_s32(whole, bias));
        let bits = neon!(vshlq_n_s32::<23>(exponent));
        neon!(vreinterpretq_f32_s32(bits))
    }

    /// (x₀ + x₁) + (x₂ + x₃).
    #[inline(always)]
    fn sum(self, x: float32x4_t) -> f32 {
        let pairs = neon!(vpaddq_f32(x, x));
        neon!(vpadds_f32(vget_low_f32(pairs)))
    }

    #[inline(always)]
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize) {
        let mut rows = [self.splat(0.0); 4];
        for (r, row) in rows.iter_mut().enumerate() {
            *row = self.load(from[r * from_stride..].first_chunk().expect("four rows of four"));
        }
        // Two rows at a time: their even columns in turn, and their odd ones.
        let mut pairs = rows;
        for i in [0, 2] {
            pairs[i] = neon!(vtrn1q_f32(rows[i], rows[i + 1]));
            pairs[i + 1] = neon!(vtrn2q_f32(rows[i], rows[i + 1]));
        }
        for c in 0..4 {
            let a = neon!(vreinterpretq_f64_f32(pairs[c % 2]));
            let b = neon!(vreinterpretq_f64_f32(pairs[c % 2 + 2]));
            let column = if c < 2 { neon!(vtrn1q_f64(a, b)) } else { neon!(vtrn2q_f64(a, b)) };
            let column = neon!(vreinterpretq_f32_f64(column));
            self.store(column, to[c * to_stride..].first_chunk_mut().expect("four columns of four"));
        }
    }
}
