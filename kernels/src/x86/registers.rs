//! How intrinsics are called, and how arrays of numbers come into registers.

use scantling_core::stats::extent::HalfExtent;
use std::arch::x86_64::*;

/// Calls an intrinsic. The one reason for all of them: whoever calls holds a value that only a detector makes, or is
/// inlined into someone who does.
macro_rules! x86 {
    ($call:expr) => {{
        // SAFETY: registers only, and a proof that the processor has the instruction is at hand.
        unsafe { $call }
    }};
}

pub(super) use x86;

/// Arrays of numbers: no padding, every byte pattern allowed.
pub(super) trait Plain {}
impl Plain for u8 {}
impl Plain for i8 {}
impl Plain for i16 {}
impl Plain for u16 {}
impl Plain for u32 {}
impl<T: Plain, const N: usize> Plain for [T; N] {}

/// 16 bytes of anything plain.
#[inline(always)]
pub(super) fn load_half<T: Plain>(from: &T) -> __m128i {
    const { assert!(size_of::<T>() == 16) };
    // SAFETY: reads the 16 bytes that `from` is, all of them initialised; needs no alignment.
    unsafe { _mm_loadu_si128(std::ptr::from_ref(from).cast()) }
}

/// 32 bytes of anything plain.
#[inline(always)]
pub(super) fn load<T: Plain>(from: &T) -> __m256i {
    const { assert!(size_of::<T>() == 32) };
    // SAFETY: reads the 32 bytes that `from` is, all of them initialised; needs no alignment. Callers have a proof
    // of AVX2.
    unsafe { _mm256_loadu_si256(std::ptr::from_ref(from).cast()) }
}

/// 64 bytes of anything plain.
#[inline(always)]
pub(super) fn load_long<T: Plain>(from: &T) -> __m512i {
    const { assert!(size_of::<T>() == 64) };
    // SAFETY: reads the 64 bytes that `from` is, all of them initialised; needs no alignment. Callers have a proof
    // of AVX-512.
    unsafe { _mm512_loadu_si512(std::ptr::from_ref(from).cast()) }
}

/// Sixteen bytes in both halves.
#[inline(always)]
pub(super) fn broadcast<T: Plain>(from: &T) -> __m256i {
    x86!(_mm256_broadcastsi128_si256(load_half(from)))
}

/// Sixteen bytes, and sixteen others.
#[inline(always)]
pub(super) fn both(a: &[u8; 16], b: &[u8; 16]) -> __m256i {
    x86!(_mm256_set_m128i(load_half(b), load_half(a)))
}

/// Eight f32.
#[inline(always)]
pub(super) fn load_floats(from: &[f32; 8]) -> __m256 {
    // SAFETY: reads the eight f32 that `from` is; needs no alignment. Callers have a proof of AVX2.
    unsafe { _mm256_loadu_ps(from.as_ptr()) }
}

/// Two vectors' worth of an array.
#[inline(always)]
pub(super) fn split<T, const N: usize>(both: &[T]) -> [&[T; N]; 2] {
    let (first, second) = both.split_at(N);
    [first.first_chunk().expect("N of 2 N"), second.first_chunk().expect("the other N")]
}

/// Limits of F16 or BF16. Callers have a proof of AVX2.
#[inline(always)]
pub(super) fn half_extent(words: &[[u8; 2]]) -> HalfExtent {
    let magnitude = x86!(_mm256_set1_epi16(i16::MAX));
    let (mut top, mut bottom, mut low) =
        (x86!(_mm256_set1_epi16(i16::MIN)), x86!(_mm256_setzero_si256()), magnitude);
    let (whole, rest) = words.as_chunks::<16>();
    for words in whole {
        let bits = load(words);
        top = x86!(_mm256_max_epi16(top, bits));
        bottom = x86!(_mm256_max_epu16(bottom, bits));
        low = x86!(_mm256_min_epu16(low, _mm256_and_si256(bits, magnitude)));
    }
    let mut extent = HalfExtent::of(rest);
    let (top, bottom, low) = (lanes(top), lanes(bottom), lanes(low));
    for i in 0..16 {
        extent.take(top[i] as i16, bottom[i], low[i]);
    }
    extent
}

#[inline(always)]
fn lanes(x: __m256i) -> [u16; 16] {
    let mut lanes = [0; 16];
    // SAFETY: writes the 32 bytes that `lanes` is; needs no alignment.
    unsafe { _mm256_storeu_si256(lanes.as_mut_ptr().cast(), x) }
    lanes
}
