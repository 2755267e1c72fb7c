//! Products of small integers with NEON.
//!
//! All that is built on one step: a 32-bit sum and the products of four neighbouring bytes, exactly. Newer processors
//! have an instruction for it (`sdot`, [`Sdot`]); older ones multiply to 16 bits and add neighbours twice ([`Long`]).
//! Still newer ones multiply two rows of eight bytes with two others as matrices ([`Smmla`]), which is twice as much at
//! a time, where there are many rows of activations. Both sides have signs: codes without one stay below 128.

use super::neon::Neon;
use super::neon_squares::{eights, squares};
use crate::int8::dot8::{Dot8, OUTPUTS, Task, one_by_one, quads};
use std::arch::aarch64::*;
use std::arch::{asm, is_aarch64_feature_detected};

/// One way to multiply bytes and add four neighbours. A value proves that the processor has the instructions.
pub(crate) trait Step: Copy + Send + Sync + 'static {
    /// Runs a loop with the instructions switched on.
    fn run<T: Task>(s: Fours<Self>, task: T) -> T::Out;
    /// `sums + Σ a · b` over the four bytes of each lane.
    fn add(self, sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t;
    /// Whether there is [`add_square`](Self::add_square). Panels then hold eight bytes of each output after the other.
    const SQUARES: bool = false;
    /// `sums + Σ a · b` over the eight bytes of halves: the first ones, the first of `a` with the second of `b`, the
    /// second of `a` with the first of `b`, the second ones.
    #[inline(always)]
    fn add_square(self, _sums: int32x4_t, _a: int8x16_t, _b: int8x16_t) -> int32x4_t {
        unreachable!("only with SQUARES")
    }
}

/// Calls an intrinsic. The one reason for all of them: values of `Smmla`, `Sdot` and `Long` exist only where a detector found
/// NEON.
macro_rules! neon {
    ($call:expr) => {{
        // SAFETY: registers only, and the caller's `self` proves that the processor has the instruction.
        unsafe { $call }
    }};
}

/// With the extension for dot products.
#[derive(Clone, Copy)]
pub(crate) struct Sdot(());

impl Sdot {
    /// The proof, or what is missing.
    pub(crate) fn detect() -> Result<Sdot, String> {
        Neon::detect()?;
        if is_aarch64_feature_detected!("dotprod") {
            Ok(Sdot(()))
        } else {
            Err("the processor lacks dotprod".to_owned())
        }
    }
}

/// The intrinsic is not stable yet.
#[inline]
#[target_feature(enable = "neon,dotprod")]
fn sdot(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: an instruction on registers, which is switched on for this function.
    unsafe {
        asm!("sdot {sums:v}.4s, {a:v}.16b, {b:v}.16b", sums = inout(vreg) sums, a = in(vreg) a, b = in(vreg) b,
             options(pure, nomem, nostack, preserves_flags));
    }
    sums
}

impl Step for Sdot {
    #[inline(always)]
    fn run<T: Task>(s: Fours<Sdot>, task: T) -> T::Out {
        #[target_feature(enable = "neon,dotprod")]
        fn inner<T: Task>(s: Fours<Sdot>, task: T) -> T::Out {
            task.call(s)
        }
        // SAFETY: `s` proves that the processor has the instructions.
        unsafe { inner(s, task) }
    }

    #[inline(always)]
    fn add(self, sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        neon!(sdot(sums, a, b))
    }
}

/// With the extension for products of matrices, beside that for dot products.
#[derive(Clone, Copy)]
pub(crate) struct Smmla(pub(super) Sdot);

impl Smmla {
    /// The proof, or what is missing.
    pub(crate) fn detect() -> Result<Smmla, String> {
        let sdot = Sdot::detect()?;
        if is_aarch64_feature_detected!("i8mm") {
            Ok(Smmla(sdot))
        } else {
            Err("the processor lacks i8mm".to_owned())
        }
    }
}

/// The intrinsic is not stable yet.
#[inline]
#[target_feature(enable = "neon,i8mm")]
fn smmla(mut sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
    // SAFETY: an instruction on registers, which is switched on for this function.
    unsafe {
        asm!("smmla {sums:v}.4s, {a:v}.16b, {b:v}.16b", sums = inout(vreg) sums, a = in(vreg) a, b = in(vreg) b,
             options(pure, nomem, nostack, preserves_flags));
    }
    sums
}

impl Step for Smmla {
    const SQUARES: bool = true;

    #[inline(always)]
    fn run<T: Task>(s: Fours<Smmla>, task: T) -> T::Out {
        #[target_feature(enable = "neon,dotprod,i8mm")]
        fn inner<T: Task>(s: Fours<Smmla>, task: T) -> T::Out {
            task.call(s)
        }
        // SAFETY: `s` proves that the processor has the instructions.
        unsafe { inner(s, task) }
    }

    #[inline(always)]
    fn add(self, sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        self.0.add(sums, a, b)
    }

    #[inline(always)]
    fn add_square(self, sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        neon!(smmla(sums, a, b))
    }
}

/// With what every processor has.
#[derive(Clone, Copy)]
pub(crate) struct Long(());

impl Long {
    /// The proof, or what is missing.
    pub(crate) fn detect() -> Result<Long, String> {
        Neon::detect()?;
        Ok(Long(()))
    }
}

impl Step for Long {
    #[inline(always)]
    fn run<T: Task>(s: Fours<Long>, task: T) -> T::Out {
        #[target_feature(enable = "neon")]
        fn inner<T: Task>(s: Fours<Long>, task: T) -> T::Out {
            task.call(s)
        }
        // SAFETY: `s` proves that the processor has the instructions.
        unsafe { inner(s, task) }
    }

    #[inline(always)]
    fn add(self, sums: int32x4_t, a: int8x16_t, b: int8x16_t) -> int32x4_t {
        let low = neon!(vmull_s8(vget_low_s8(a), vget_low_s8(b)));
        let high = neon!(vmull_high_s8(a, b));
        let (low, high) = (neon!(vpaddlq_s16(low)), neon!(vpaddlq_s16(high)));
        neon!(vaddq_s32(sums, vpaddq_s32(low, high)))
    }
}

/// Everything else, on top of one of the three.
#[derive(Clone, Copy)]
pub(crate) struct Fours<Q>(pub(crate) Q);

#[inline(always)]
fn load_bytes(from: &[u8; 16]) -> uint8x16_t {
    // SAFETY: reads the 16 bytes that `from` is. Callers have a proof of NEON.
    unsafe { vld1q_u8(from.as_ptr()) }
}

#[inline(always)]
fn load_signed(from: &[i8; 16]) -> int8x16_t {
    // SAFETY: reads the 16 bytes that `from` is. Callers have a proof of NEON.
    unsafe { vld1q_s8(from.as_ptr()) }
}

#[inline(always)]
fn load_shorts(from: &[i16; 8]) -> int16x8_t {
    // SAFETY: reads the eight numbers that `from` is. Callers have a proof of NEON.
    unsafe { vld1q_s16(from.as_ptr()) }
}

#[inline(always)]
fn load_floats(from: &[f32; 4]) -> float32x4_t {
    // SAFETY: reads the four f32 that `from` is. Callers have a proof of NEON.
    unsafe { vld1q_f32(from.as_ptr()) }
}

#[inline(always)]
fn store_bytes(bytes: uint8x16_t, to: &mut [u8; 16]) {
    // SAFETY: writes the 16 bytes that `to` is. Callers have a proof of NEON.
    unsafe { vst1q_u8(to.as_mut_ptr(), bytes) }
}

#[inline(always)]
fn store_floats(floats: float32x4_t, to: &mut [f32; 4]) {
    // SAFETY: writes the four f32 that `to` is. Callers have a proof of NEON.
    unsafe { vst1q_f32(to.as_mut_ptr(), floats) }
}

/// The first and the second number of each of four pairs, widened.
#[inline(always)]
fn pairs(from: &[[i16; 2]]) -> [int32x4_t; 2] {
    let from = load_shorts(from.as_flattened().first_chunk().expect("four pairs"));
    let wide = neon!(vreinterpretq_s32_s16(from));
    let first = neon!(vshrq_n_s32::<16>(vshlq_n_s32::<16>(wide)));
    [first, neon!(vshrq_n_s32::<16>(wide))]
}

impl<Q: Step> Dot8 for Fours<Q> {
    type Bytes = [uint8x16_t; 2];
    type Products = [int32x4_t; 2];
    type Sums = int32x4_t;
    type Floats = float32x4_t;
    type Factors = [i16; 16];
    type Eight = [f32; 8];
    type Quads = [int8x16_t; 4];
    type Runs = [int32x4_t; 4];
    type Totals = [int32x4_t; 4];
    type Outputs = [float32x4_t; 4];
    const NARROW: bool = false;
    const SQUARES: bool = Q::SQUARES;

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Out {
        Q::run(self, task)
    }

    #[inline(always)]
    fn by_halves(self, bytes: &[u8; 16]) -> [u8; 16] {
        let all = load_bytes(bytes);
        let mut out = [0; 16];
        store_bytes(
            neon!(vcombine_u8(vget_low_u8(vuzp1q_u8(all, all)), vget_low_u8(vuzp2q_u8(all, all)))),
            &mut out,
        );
        out
    }

    #[inline(always)]
    fn halves(self, bits: [u16; 8]) -> [f32; 8] {
        let mut out = [0.0; 8];
        for (bits, out) in bits.as_chunks::<4>().0.iter().zip(out.as_chunks_mut().0) {
            // SAFETY: reads the four numbers that `bits` is.
            let half = unsafe { vld1_u16(bits.as_ptr()) };
            let half = neon!(vreinterpret_f16_u16(half));
            store_floats(neon!(vcvt_f32_f16(half)), out);
        }
        out
    }

    #[inline(always)]
    fn greatest(self, x: &[f32; 32]) -> u32 {
        let mut most = neon!(vdupq_n_u32(0));
        for x in x.as_chunks::<4>().0 {
            let bits = neon!(vreinterpretq_u32_f32(vabsq_f32(load_floats(x))));
            most = neon!(vmaxq_u32(most, bits));
        }
        neon!(vmaxvq_u32(most))
    }

    #[inline(always)]
    fn rounded(self, x: &[f32; 32], by: f32) -> [i8; 32] {
        let mut out = [0; 32];
        for (x, out) in x.as_chunks::<8>().0.iter().zip(out.as_chunks_mut::<8>().0) {
            let mut whole = [self.no_sums(); 2];
            for (whole, x) in whole.iter_mut().zip(x.as_chunks::<4>().0) {
                let product = neon!(vmulq_n_f32(load_floats(x), by));
                *whole = neon!(vcvtnq_s32_f32(product));
            }
            let shorts = neon!(vcombine_s16(vqmovn_s32(whole[0]), vqmovn_s32(whole[1])));
            // SAFETY: writes the eight bytes that `out` is. `self` proves NEON.
            unsafe { vst1_s8(out.as_mut_ptr(), vqmovn_s16(shorts)) };
        }
        out
    }

    #[inline(always)]
    fn pair_sums(self, x: &[i8; 32]) -> [[i16; 2]; 2] {
        let mut out = [[0; 2]; 2];
        for (out, x) in out.iter_mut().zip(x.as_chunks::<16>().0) {
            let pairs = neon!(vpaddlq_s8(load_signed(x)));
            // Pairs in turn belong to the first two places of four and to the last two.
            let first = neon!(vuzp1q_s16(pairs, pairs));
            let last = neon!(vuzp2q_s16(pairs, pairs));
            *out = [neon!(vaddv_s16(vget_low_s16(first))), neon!(vaddv_s16(vget_low_s16(last)))];
        }
        out
    }

    #[inline(always)]
    fn load(self, codes: &[u8; 32]) -> [uint8x16_t; 2] {
        let halves = codes.as_chunks().0;
        [load_bytes(&halves[0]), load_bytes(&halves[1])]
    }

    #[inline(always)]
    fn store(self, codes: [uint8x16_t; 2], to: &mut [u8; 32]) {
        for (codes, to) in codes.into_iter().zip(to.as_chunks_mut().0) {
            store_bytes(codes, to);
        }
    }

    #[inline(always)]
    fn nibbles(self, bytes: &[u8; 16]) -> [uint8x16_t; 2] {
        let bytes = load_bytes(bytes);
        let fifteen = neon!(vdupq_n_u8(15));
        [neon!(vandq_u8(bytes, fifteen)), neon!(vshrq_n_u8::<4>(bytes))]
    }

    #[inline(always)]
    fn bits(self, bits: u32) -> [uint8x16_t; 2] {
        let single = load_bytes(&[1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128]);
        let one = neon!(vdupq_n_u8(1));
        let mut out = [one; 2];
        for (out, bytes) in out.iter_mut().zip(bits.to_le_bytes().as_chunks::<2>().0) {
            let spread = neon!(vcombine_u8(vdup_n_u8(bytes[0]), vdup_n_u8(bytes[1])));
            let set = neon!(vtstq_u8(spread, single));
            *out = neon!(vandq_u8(set, one));
        }
        out
    }

    #[inline(always)]
    fn field<const SHIFT: i32>(self, bytes: [uint8x16_t; 2], mask: u8) -> [uint8x16_t; 2] {
        // By a register: the instruction with a constant has none for 0.
        let (right, mask) = (neon!(vdupq_n_s8(-SHIFT as i8)), neon!(vdupq_n_u8(mask)));
        let shifted = [neon!(vshlq_u8(bytes[0], right)), neon!(vshlq_u8(bytes[1], right))];
        [neon!(vandq_u8(shifted[0], mask)), neon!(vandq_u8(shifted[1], mask))]
    }

    #[inline(always)]
    fn join<const SHIFT: i32>(self, low: [uint8x16_t; 2], high: [uint8x16_t; 2]) -> [uint8x16_t; 2] {
        let left = neon!(vdupq_n_s8(SHIFT as i8));
        let high = [neon!(vshlq_u8(high[0], left)), neon!(vshlq_u8(high[1], left))];
        [neon!(vorrq_u8(low[0], high[0])), neon!(vorrq_u8(low[1], high[1]))]
    }

    #[inline(always)]
    fn offset(self, bytes: [uint8x16_t; 2], by: i8) -> [uint8x16_t; 2] {
        let by = neon!(vdupq_n_u8(by as u8));
        [neon!(vaddq_u8(bytes[0], by)), neon!(vaddq_u8(bytes[1], by))]
    }

    #[inline(always)]
    fn lookup(self, table: &[i8; 16], codes: [uint8x16_t; 2]) -> [uint8x16_t; 2] {
        let table = neon!(vreinterpretq_u8_s8(load_signed(table)));
        [neon!(vqtbl1q_u8(table, codes[0])), neon!(vqtbl1q_u8(table, codes[1]))]
    }

    #[inline(always)]
    fn products<const SIGNED: bool>(self, codes: [uint8x16_t; 2], x: &[i8; 32]) -> [int32x4_t; 2] {
        let mut out = [self.no_sums(); 2];
        for ((out, codes), x) in out.iter_mut().zip(codes).zip(x.as_chunks().0) {
            *out = self.0.add(*out, neon!(vreinterpretq_s8_u8(codes)), load_signed(x));
        }
        out
    }

    #[inline(always)]
    fn factors(self, scales: [u8; 16]) -> [i16; 16] {
        let bytes = neon!(vreinterpretq_s8_u8(load_bytes(&scales)));
        let mut out = [0; 16];
        let [low, high] = out.as_chunks_mut::<8>().0 else { unreachable!("twice eight") };
        // SAFETY: writes the eight numbers that `low` is. `self` proves NEON.
        unsafe { vst1q_s16(low.as_mut_ptr(), vmovl_s8(vget_low_s8(bytes))) };
        // SAFETY: writes the eight numbers that `high` is. `self` proves NEON.
        unsafe { vst1q_s16(high.as_mut_ptr(), vmovl_high_s8(bytes)) };
        out
    }

    #[inline(always)]
    fn lowered(self, scales: [i16; 16], sums: &[i16; 16], by: i16) -> int32x4_t {
        let mut total = self.no_sums();
        for (scales, sums) in scales.as_chunks().0.iter().zip(sums.as_chunks().0) {
            let (scales, sums) = (neon!(vmulq_n_s16(load_shorts(scales), -by)), load_shorts(sums));
            total = neon!(vmlal_s16(total, vget_low_s16(scales), vget_low_s16(sums)));
            total = neon!(vmlal_high_s16(total, scales, sums));
        }
        total
    }

    #[inline(always)]
    fn scaled(self, sums: int32x4_t, products: [int32x4_t; 2], scales: [i16; 16], run: usize) -> int32x4_t {
        let (first, second) = (i32::from(scales[run]), i32::from(scales[run + 8]));
        let sums = neon!(vmlaq_n_s32(sums, products[0], first));
        neon!(vmlaq_n_s32(sums, products[1], second))
    }

    #[inline(always)]
    fn minima(self, minima: [u8; 16], sums: &[i16; 16]) -> int32x4_t {
        let bytes = load_bytes(&minima);
        let wide = [neon!(vmovl_u8(vget_low_u8(bytes))), neon!(vmovl_high_u8(bytes))];
        let mut total = self.no_sums();
        for (minima, sums) in wide.into_iter().zip(sums.as_chunks().0) {
            let (minima, sums) = (neon!(vreinterpretq_s16_u16(minima)), load_shorts(sums));
            total = neon!(vmlal_s16(total, vget_low_s16(minima), vget_low_s16(sums)));
            total = neon!(vmlal_high_s16(total, minima, sums));
        }
        total
    }

    #[inline(always)]
    fn no_sums(self) -> int32x4_t {
        neon!(vdupq_n_s32(0))
    }

    #[inline(always)]
    fn no_floats(self) -> float32x4_t {
        neon!(vdupq_n_f32(0.0))
    }

    #[inline(always)]
    fn add_sums(self, floats: float32x4_t, sums: int32x4_t, by: f32) -> float32x4_t {
        neon!(vfmaq_n_f32(floats, vcvtq_f32_s32(sums), by))
    }

    #[inline(always)]
    fn add_pair<const WIDE: bool>(
        self,
        floats: float32x4_t,
        codes: [[uint8x16_t; 2]; 2],
        x: [&[i8; 32]; 2],
        by: [f32; 8],
        pair: usize,
    ) -> float32x4_t {
        let (a, b) = (self.products::<WIDE>(codes[0], x[0]), self.products::<WIDE>(codes[1], x[1]));
        let floats = self.add_sums(floats, neon!(vaddq_s32(a[0], a[1])), by[pair]);
        self.add_sums(floats, neon!(vaddq_s32(b[0], b[1])), by[pair + 4])
    }

    #[inline(always)]
    fn multiplied(self, a: &[f32; 8], b: &[f32; 8]) -> [f32; 8] {
        let mut out = [0.0; 8];
        for ((a, b), out) in a.as_chunks().0.iter().zip(b.as_chunks().0).zip(out.as_chunks_mut().0) {
            store_floats(neon!(vmulq_f32(load_floats(a), load_floats(b))), out);
        }
        out
    }

    #[inline(always)]
    fn add_products(self, floats: float32x4_t, a: &[f32; 8], b: &[f32; 8]) -> float32x4_t {
        let mut sum = floats;
        for (a, b) in a.as_chunks().0.iter().zip(b.as_chunks().0) {
            sum = neon!(vfmaq_f32(sum, load_floats(a), load_floats(b)));
        }
        sum
    }

    #[inline(always)]
    fn join_floats(self, a: float32x4_t, b: float32x4_t) -> float32x4_t {
        neon!(vaddq_f32(a, b))
    }

    #[inline(always)]
    fn total(self, floats: float32x4_t) -> f32 {
        let pairs = neon!(vpaddq_f32(floats, floats));
        neon!(vpadds_f32(vget_low_f32(pairs)))
    }

    #[inline(always)]
    fn quads(self, codes: &[u8; 4 * OUTPUTS]) -> [int8x16_t; 4] {
        let mut out = [neon!(vdupq_n_s8(0)); 4];
        for (out, codes) in out.iter_mut().zip(codes.as_chunks().0) {
            *out = neon!(vreinterpretq_s8_u8(load_bytes(codes)));
        }
        out
    }

    /// Both halves of the pair belong to the one sum that a quad has here.
    #[inline(always)]
    fn start<const SHIFT: i32>(self, pair: u32) -> [int32x4_t; 4] {
        let sum = i32::from(pair as i16) + i32::from((pair >> 16) as i16);
        [neon!(vdupq_n_s32(sum << SHIFT)); 4]
    }

    #[inline(always)]
    fn multiply<const WIDE: bool>(
        self,
        runs: [int32x4_t; 4],
        codes: [int8x16_t; 4],
        x: u32,
    ) -> [int32x4_t; 4] {
        let x = neon!(vreinterpretq_s8_u32(vdupq_n_u32(x)));
        let mut out = runs;
        for (out, codes) in out.iter_mut().zip(codes) {
            *out = self.0.add(*out, codes, x);
        }
        out
    }

    #[inline(always)]
    fn multiply_rows<const WIDE: bool, const R: usize>(
        self,
        runs: [[int32x4_t; 4]; R],
        codes: &[[u8; 4 * OUTPUTS]],
        x: &[[u32; R]],
    ) -> [[int32x4_t; 4]; R] {
        if Q::SQUARES {
            squares(self.0, runs, codes.as_chunks().0, x.as_chunks().0)
        } else {
            one_by_one::<WIDE, R, Self>(self, runs, codes, x)
        }
    }

    #[inline(always)]
    fn transpose(self, rows: &[[u8; 256]; OUTPUTS], to: &mut [[u8; 4 * OUTPUTS]; 64]) {
        if Q::SQUARES {
            eights(rows, to.as_chunks_mut().0);
        } else {
            quads(rows, to);
        }
    }

    #[inline(always)]
    fn no_totals(self) -> [int32x4_t; 4] {
        [self.no_sums(); 4]
    }

    #[inline(always)]
    fn add_runs(
        self,
        totals: [int32x4_t; 4],
        runs: [int32x4_t; 4],
        scales: &[[i16; 2]; OUTPUTS],
    ) -> [int32x4_t; 4] {
        let mut out = totals;
        for ((out, runs), scales) in out.iter_mut().zip(runs).zip(scales.chunks_exact(4)) {
            *out = neon!(vmlaq_s32(*out, runs, pairs(scales)[1]));
        }
        out
    }

    #[inline(always)]
    fn add_pairs(self, totals: [int32x4_t; 4], a: &[[i16; 2]; OUTPUTS], b: u32) -> [int32x4_t; 4] {
        let b = [i32::from(b as i16), i32::from((b >> 16) as i16)];
        let mut out = totals;
        for (out, a) in out.iter_mut().zip(a.chunks_exact(4)) {
            let a = pairs(a);
            *out = neon!(vmlaq_n_s32(*out, a[0], b[0]));
            *out = neon!(vmlaq_n_s32(*out, a[1], b[1]));
        }
        out
    }

    #[inline(always)]
    fn outputs(self, from: &[f32; OUTPUTS]) -> [float32x4_t; 4] {
        let mut out = [self.no_floats(); 4];
        for (out, from) in out.iter_mut().zip(from.as_chunks().0) {
            *out = load_floats(from);
        }
        out
    }

    #[inline(always)]
    fn store_outputs(self, outputs: [float32x4_t; 4], to: &mut [f32; OUTPUTS]) {
        for (outputs, to) in outputs.into_iter().zip(to.as_chunks_mut().0) {
            store_floats(outputs, to);
        }
    }

    #[inline(always)]
    fn add_totals(
        self,
        outputs: [float32x4_t; 4],
        totals: [int32x4_t; 4],
        by: &[f32; OUTPUTS],
        factor: f32,
    ) -> [float32x4_t; 4] {
        let mut out = outputs;
        for ((out, totals), by) in out.iter_mut().zip(totals).zip(by.as_chunks().0) {
            let by = neon!(vmulq_n_f32(load_floats(by), factor));
            *out = neon!(vfmaq_f32(*out, vcvtq_f32_s32(totals), by));
        }
        out
    }

    #[inline(always)]
    fn add_scaled(self, outputs: [float32x4_t; 4], by: &[f32; OUTPUTS], factor: f32) -> [float32x4_t; 4] {
        let mut out = outputs;
        for (out, by) in out.iter_mut().zip(by.as_chunks().0) {
            *out = neon!(vfmaq_n_f32(*out, load_floats(by), factor));
        }
        out
    }
}
