//! Sums of four blocks of a K format at a time, in registers from the stored bytes on.
//!
//! Codes of a share are bytes of one half or of a whole vector. `vpsadbw` adds eight of them; `vpmaddubsw` squares them
//! and adds two; `vpmaddwd` multiplies either by their share's factor. What is left of a block, eight words of 32 bits
//! for each kind of sum, is added across the words of four blocks at once.

use super::registers::{load, load_half, x86};
use crate::simd::Four;
use scantling_core::dtype::DType;
use std::arch::x86_64::*;

/// Words of the first four of eight bytes, each four times a half: as sums of eight codes lie after [`packed`].
static FIRST: [u8; 32] = words::<0>([0, 0, 1, 1, 2, 2, 3, 3], [0, 0, 1, 1, 2, 2, 3, 3]);
/// Those of the other four.
static SECOND: [u8; 32] = words::<0>([4, 4, 5, 5, 6, 6, 7, 7], [4, 4, 5, 5, 6, 6, 7, 7]);
/// The same of sixteen bytes, two for each vector of codes.
static FIRST_HALVES: [u8; 32] = words::<1>([0, 0, 2, 2, 4, 4, 6, 6], [1, 1, 3, 3, 5, 5, 7, 7]);
static SECOND_HALVES: [u8; 32] = words::<1>([8, 8, 10, 10, 12, 12, 14, 14], [9, 9, 11, 11, 13, 13, 15, 15]);
/// Bytes to the lower halves of words, or to the upper ones, for a shift that keeps their sign.
const fn words<const UPPER: usize>(low: [u8; 8], high: [u8; 8]) -> [u8; 32] {
    let mut all = [0x80; 32];
    let mut i = 0;
    while i < 8 {
        all[2 * i + UPPER] = low[i];
        all[16 + 2 * i + UPPER] = high[i];
        i += 1;
    }
    all
}

/// Four blocks, if they are of a type that has its sums here.
#[inline(always)]
pub(super) fn of(dtype: DType, raw: &[u8], limits: [f32; 2]) -> Option<Four> {
    Some(match dtype {
        DType::Q4_K => with_minima::<FourBits, 144>(raw.as_chunks().0.first_chunk()?, limits),
        DType::Q5_K => with_minima::<FiveBits, 176>(raw.as_chunks().0.first_chunk()?, limits),
        DType::Q6_K => q6_k(raw.as_chunks().0.first_chunk()?, limits),
        _ => return None,
    })
}

/// How a block's codes are stored of a type that has scales and minima of six bits.
trait Stored<const N: usize> {
    /// The largest code.
    const TOP: f32;
    /// A vector for each share.
    fn codes(block: &[u8; N]) -> [__m256i; 8];
}

/// Q4_K.
struct FourBits;
/// Q5_K.
struct FiveBits;

impl Stored<144> for FourBits {
    const TOP: f32 = 15.0;

    #[inline(always)]
    fn codes(block: &[u8; 144]) -> [__m256i; 8] {
        nibbles(part(block, 16))
    }
}

impl Stored<176> for FiveBits {
    const TOP: f32 = 31.0;

    #[inline(always)]
    fn codes(block: &[u8; 176]) -> [__m256i; 8] {
        let high = load(part::<32>(block, 16));
        let mut codes = nibbles(part(block, 48));
        let bit = x86!(_mm256_set1_epi8(16));
        let tops = [
            x86!(_mm256_slli_epi16::<4>(high)),
            x86!(_mm256_slli_epi16::<3>(high)),
            x86!(_mm256_slli_epi16::<2>(high)),
            x86!(_mm256_slli_epi16::<1>(high)),
            high,
            x86!(_mm256_srli_epi16::<1>(high)),
            x86!(_mm256_srli_epi16::<2>(high)),
            x86!(_mm256_srli_epi16::<3>(high)),
        ];
        for (code, top) in codes.iter_mut().zip(tops) {
            *code = x86!(_mm256_or_si256(*code, _mm256_and_si256(top, bit)));
        }
        codes
    }
}

/// Q4_K and Q5_K.
#[inline(always)]
fn with_minima<C: Stored<N>, const N: usize>(blocks: &[[u8; N]; 4], limits: [f32; 2]) -> Four {
    let heads = [heads([&blocks[0], &blocks[2]]), heads([&blocks[1], &blocks[3]])];
    let factors = x86!(_mm256_unpacklo_epi32(heads[0], heads[1]));
    let factors = x86!(_mm256_castsi256_si128(_mm256_permute4x64_epi64::<0b10_00>(factors)));
    let scales = halves(x86!(_mm_and_si128(factors, _mm_set1_epi32(0xffff))));
    let minima = halves(x86!(_mm_srli_epi32::<16>(factors)));
    let by = [spread(scales), spread(minima)];
    let pairs = [six_bits(heads[0]), six_bits(heads[1])];
    let shares = [
        x86!(_mm256_permute2x128_si256::<0x00>(pairs[0], pairs[0])),
        x86!(_mm256_permute2x128_si256::<0x00>(pairs[1], pairs[1])),
        x86!(_mm256_permute2x128_si256::<0x11>(pairs[0], pairs[0])),
        x86!(_mm256_permute2x128_si256::<0x11>(pairs[1], pairs[1])),
    ];
    let mut limits = Limits::new(limits);
    let all = [
        one_with_minima::<C, N>(&blocks[0], shares[0], [by[0][0], by[1][0]], &mut limits),
        one_with_minima::<C, N>(&blocks[1], shares[1], [by[0][1], by[1][1]], &mut limits),
        one_with_minima::<C, N>(&blocks[2], shares[2], [by[0][2], by[1][2]], &mut limits),
        one_with_minima::<C, N>(&blocks[3], shares[3], [by[0][3], by[1][3]], &mut limits),
    ];
    let [a, b, c, d] = all;
    let first = across([a.first, b.first, c.first, d.first]);
    let second = across([a.second, b.second, c.second, d.second]);
    let cross = across([a.cross, b.cross, c.cross, d.cross]);
    let odd = u32::from(a.odd) | u32::from(b.odd) << 1 | u32::from(c.odd) << 2 | u32::from(d.odd) << 3;

    // Those of two blocks in each half.
    let none = x86!(_mm256_setzero_si256());
    let all = x86!(_mm256_unpackhi_epi64(pairs[0], pairs[1]));
    let minima_sums = lower(x86!(_mm256_sad_epu8(all, none)));
    let (a, b) = (x86!(_mm256_unpacklo_epi8(all, none)), x86!(_mm256_unpackhi_epi8(all, none)));
    let twos = x86!(_mm256_hadd_epi32(_mm256_madd_epi16(a, a), _mm256_madd_epi16(b, b)));
    let minima_squares = lower(x86!(_mm256_unpacklo_epi32(_mm256_hadd_epi32(twos, twos), none)));

    // Σ (s q − m) = s Σ q − 32 m, Σ (s q − m)² = s² Σ q² + 32 m² − 2 s m Σ q: in this order nothing is rounded.
    let (scale, minimum) = (x86!(_mm256_cvtps_pd(scales)), x86!(_mm256_cvtps_pd(minima)));
    let count = x86!(_mm256_set1_pd(32.0));
    let less = product(minimum, product(count, signed(minima_sums)));
    let sums = x86!(_mm256_sub_pd(product(scale, signed(first)), less));
    let of_minima = product(product(minimum, minimum), product(count, signed(minima_squares)));
    let squares = x86!(_mm256_add_pd(product(product(scale, scale), without_sign(second)), of_minima));
    let cross = product(product(scale, minimum), product(x86!(_mm256_set1_pd(2.0)), signed(cross)));
    let squares = x86!(_mm256_sub_pd(squares, cross));
    Four {
        sums: stored(sums),
        squares: stored(squares),
        whole: true,
        zeros: [0; 4],
        odd,
        limits: limits.known,
    }
}

/// Whole numbers of a block, and whether there may be zeros in it.
struct One {
    first: __m256i,
    second: __m256i,
    cross: __m256i,
    odd: bool,
}

#[inline(always)]
fn one_with_minima<C: Stored<N>, const N: usize>(
    block: &[u8; N],
    share: __m256i,
    factors: [f32; 2],
    limits: &mut Limits,
) -> One {
    let rest = x86!(_mm256_bsrli_epi128::<8>(share));
    let by = [unsigned(share, &FIRST), unsigned(share, &SECOND)];
    let less = [unsigned(rest, &FIRST), unsigned(rest, &SECOND)];
    let codes = C::codes(block);
    let sums = eights(&codes);
    let scale = x86!(_mm256_mul_ps(floats(share), _mm256_set1_ps(factors[0])));
    let minimum = x86!(_mm256_mul_ps(floats(rest), _mm256_set1_ps(factors[1])));
    let top = x86!(_mm256_mul_ps(scale, _mm256_set1_ps(C::TOP)));
    let low = x86!(_mm256_sub_ps(_mm256_setzero_ps(), minimum));
    let beyond = limits.beyond(low, x86!(_mm256_sub_ps(top, minimum)));
    if beyond != 0 {
        let mut shares = [[0.0; 16]; 2];
        store_floats(scale, &mut shares[0]);
        store_floats(minimum, &mut shares[1]);
        limits.look::<32>(beyond, &codes, 0.0, &shares);
    }
    One {
        first: dot(sums, by),
        second: squares(&codes, [multiplied(by[0], by[0]), multiplied(by[1], by[1])]),
        cross: dot(sums, [multiplied(by[0], less[0]), multiplied(by[1], less[1])]),
        odd: may_be_zero(scale, minimum),
    }
}

/// Q6_K.
#[inline(always)]
fn q6_k(blocks: &[[u8; 210]; 4], limits: [f32; 2]) -> Four {
    let mut factors = [0; 4];
    for (to, block) in factors.iter_mut().zip(blocks) {
        *to = u32::from(u16::from_le_bytes(*part(block, 208)));
    }
    let own = halves(load_half(&factors));
    let scales = spread(own);
    let mut limits = Limits::new(limits);
    let none = x86!(_mm256_setzero_si256());
    let (mut first, mut second, mut zeros) = ([none; 4], [none; 4], [none; 4]);
    let mut odd = 0;
    for (i, block) in blocks.iter().enumerate() {
        let share = load_half(part::<16>(block, 192));
        let both = x86!(_mm256_broadcastsi128_si256(share));
        let by = [with_sign(both, &FIRST_HALVES), with_sign(both, &SECOND_HALVES)];
        let codes = six_bit_codes(block);
        let sums = eights(&codes);
        first[i] = dot([lessened(sums[0], 256), lessened(sums[1], 256)], by);
        // Σ (q − 32)² = Σ q² − 64 Σ q + 1024 n, of eight codes that is 64 (Σ q − 128) taken away. What overflows on
        // the way comes back.
        let by = [multiplied(by[0], by[0]), multiplied(by[1], by[1])];
        let less = dot([lessened(sums[0], 128), lessened(sums[1], 128)], by);
        second[i] = x86!(_mm256_sub_epi32(squares(&codes, by), _mm256_slli_epi32::<6>(less)));
        let mut count = none;
        for code in codes {
            let hit = x86!(_mm256_cmpeq_epi8(code, _mm256_set1_epi8(32)));
            count = x86!(_mm256_sub_epi8(count, hit));
        }
        zeros[i] = x86!(_mm256_sad_epu8(count, none));

        odd |= u32::from(x86!(_mm_movemask_epi8(_mm_cmpeq_epi8(share, _mm_setzero_si128()))) != 0) << i;
        let scale = x86!(_mm256_set1_ps(scales[i]));
        let mut shares = [[0.0; 16]; 2];
        let mut beyond = 0;
        for (j, eight) in [share, x86!(_mm_bsrli_si128::<8>(share))].into_iter().enumerate() {
            let whole = x86!(_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(eight)));
            let scale = x86!(_mm256_mul_ps(whole, scale));
            let a = x86!(_mm256_mul_ps(scale, _mm256_set1_ps(-32.0)));
            let b = x86!(_mm256_mul_ps(scale, _mm256_set1_ps(31.0)));
            store_floats(scale, &mut shares[0][8 * j..]);
            beyond |= limits.beyond(x86!(_mm256_min_ps(a, b)), x86!(_mm256_max_ps(a, b))) << (8 * j);
        }
        if beyond != 0 {
            limits.look::<16>(beyond, &codes, 32.0, &shares);
        }
    }
    for (i, scale) in scales.iter().enumerate() {
        odd |= u32::from(*scale == 0.0) << i;
    }
    let mut counts = [0; 4];
    // SAFETY: writes the sixteen bytes that `counts` is; needs no alignment.
    unsafe { _mm_storeu_si128(counts.as_mut_ptr().cast(), across(zeros)) }
    let (first, second) = (across(first), across(second));
    // Only the largest scales and codes make 2³², which is lost.
    let lost = x86!(_mm_cmpeq_epi32(second, _mm_setzero_si128()));
    let lost = x86!(_mm_andnot_si128(_mm_cmpeq_epi32(first, _mm_setzero_si128()), lost));
    let scale = x86!(_mm256_cvtps_pd(own));
    Four {
        sums: stored(product(scale, signed(first))),
        squares: stored(product(product(scale, scale), without_sign(second))),
        whole: x86!(_mm_movemask_epi8(lost)) == 0,
        zeros: counts,
        odd,
        limits: limits.known,
    }
}

/// The smallest and the largest number so far.
struct Limits {
    known: [f32; 2],
    low: __m256,
    high: __m256,
}

impl Limits {
    #[inline(always)]
    fn new(known: [f32; 2]) -> Limits {
        Limits { known, low: x86!(_mm256_set1_ps(known[0])), high: x86!(_mm256_set1_ps(known[1])) }
    }

    /// A bit for each of eight shares whose numbers may be beyond.
    #[inline(always)]
    fn beyond(&self, low: __m256, high: __m256) -> u32 {
        let low = x86!(_mm256_cmp_ps::<_CMP_LT_OQ>(low, self.low));
        let high = x86!(_mm256_cmp_ps::<_CMP_GT_OQ>(high, self.high));
        x86!(_mm256_movemask_ps(_mm256_or_ps(low, high))) as u32
    }

    /// Looks at the codes, less `zero`, of shares of a length, each with a scale and a minimum.
    #[inline(always)]
    fn look<const LEN: usize>(
        &mut self,
        which: u32,
        codes: &[__m256i; 8],
        zero: f32,
        shares: &[[f32; 16]; 2],
    ) {
        let mut bytes = [[0; 32]; 8];
        for (to, codes) in bytes.iter_mut().zip(codes) {
            // SAFETY: writes the 32 bytes that `to` is; needs no alignment.
            unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), *codes) }
        }
        let bytes = bytes.as_flattened();
        let [mut min, mut max] = self.known;
        let mut left = which;
        while left != 0 {
            let j = left.trailing_zeros() as usize % 16;
            left &= left - 1;
            for code in extremes(part::<16>(bytes, LEN * j), part::<16>(bytes, LEN * j + LEN - 16)) {
                let value = shares[0][j] * (f32::from(code) - zero) - shares[1][j];
                min = if value < min { value } else { min };
                max = if value > max { value } else { max };
            }
        }
        *self = Limits::new([min, max]);
    }
}

/// The smallest and the largest of 32 bytes.
#[inline(always)]
fn extremes(a: &[u8; 16], b: &[u8; 16]) -> [u8; 2] {
    let (a, b) = (load_half(a), load_half(b));
    let (low, high) = (x86!(_mm_min_epu8(a, b)), x86!(_mm_max_epu8(a, b)));
    [least(low), !least(x86!(_mm_xor_si128(high, _mm_set1_epi8(-1))))]
}

#[inline(always)]
fn least(bytes: __m128i) -> u8 {
    let words = x86!(_mm_min_epu8(bytes, _mm_srli_epi16::<8>(bytes)));
    x86!(_mm_cvtsi128_si32(_mm_minpos_epu16(words))) as u8
}

#[inline(always)]
fn store_floats(x: __m256, to: &mut [f32]) {
    let to: &mut [f32; 8] = to.first_chunk_mut().expect("eight of sixteen");
    // SAFETY: writes the eight f32 that `to` is; needs no alignment.
    unsafe { _mm256_storeu_ps(to.as_mut_ptr(), x) }
}

/// Whether there is a code for which scale · code is the minimum in any of eight shares.
#[inline(always)]
fn may_be_zero(scale: __m256, minimum: __m256) -> bool {
    let code = x86!(_mm256_div_ps(minimum, scale));
    let code = x86!(_mm256_round_ps::<{ _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC }>(code));
    let exact = x86!(_mm256_cmp_ps::<_CMP_EQ_OQ>(_mm256_mul_ps(code, scale), minimum));
    let none = x86!(_mm256_cmp_ps::<_CMP_EQ_OQ>(scale, _mm256_setzero_ps()));
    x86!(_mm256_movemask_ps(_mm256_or_ps(exact, none))) != 0
}

/// Part of a block.
#[inline(always)]
fn part<const N: usize>(block: &[u8], at: usize) -> &[u8; N] {
    block[at..].first_chunk().expect("parts lie within a block")
}

/// The lower and the upper four bits of each byte, a vector of the ones after one of the others.
#[inline(always)]
fn nibbles(stored: &[u8; 128]) -> [__m256i; 8] {
    let mask = x86!(_mm256_set1_epi8(15));
    let mut codes = [mask; 8];
    for (codes, bytes) in codes.as_chunks_mut::<2>().0.iter_mut().zip(stored.as_chunks::<32>().0) {
        let bytes = load(bytes);
        codes[0] = x86!(_mm256_and_si256(bytes, mask));
        codes[1] = x86!(_mm256_and_si256(_mm256_srli_epi16::<4>(bytes), mask));
    }
    codes
}

/// Codes of Q6_K, from 0 to 63.
#[inline(always)]
fn six_bit_codes(block: &[u8; 210]) -> [__m256i; 8] {
    let four = nibbles(part(block, 0));
    let bits = x86!(_mm256_set1_epi8(0x30));
    let mut codes = four;
    for half in 0..2 {
        let high = load(part::<32>(block, 128 + 32 * half));
        let [a, b, c, d] = [four[4 * half], four[4 * half + 2], four[4 * half + 1], four[4 * half + 3]];
        let tops = [
            x86!(_mm256_slli_epi16::<4>(high)),
            x86!(_mm256_slli_epi16::<2>(high)),
            high,
            x86!(_mm256_srli_epi16::<2>(high)),
        ];
        for (to, (low, top)) in codes[4 * half..].iter_mut().zip([a, b, c, d].into_iter().zip(tops)) {
            *to = x86!(_mm256_or_si256(low, _mm256_and_si256(top, bits)));
        }
    }
    codes
}

/// The first sixteen bytes of two blocks.
#[inline(always)]
fn heads<const N: usize>(blocks: [&[u8; N]; 2]) -> __m256i {
    let [a, b] = [load_half(part::<16>(blocks[0], 0)), load_half(part::<16>(blocks[1], 0))];
    x86!(_mm256_set_m128i(b, a))
}

/// Of each half the eight scales and the eight minima in six bits, which stand behind its first four bytes.
#[inline(always)]
fn six_bits(heads: __m256i) -> __m256i {
    let own = x86!(_mm256_shuffle_epi32::<0b10_10_01_01>(heads));
    let rest = x86!(_mm256_shuffle_epi32::<0b11_11_11_11>(heads));
    let rest = x86!(_mm256_srlv_epi32(rest, _mm256_setr_epi32(0, 0, 0, 4, 0, 0, 0, 4)));
    let top = x86!(_mm256_and_si256(_mm256_srli_epi32::<2>(own), _mm256_set1_epi8(0x30)));
    let joined = x86!(_mm256_or_si256(_mm256_and_si256(rest, _mm256_set1_epi8(15)), top));
    let low = x86!(_mm256_and_si256(own, _mm256_set1_epi8(0x3f)));
    x86!(_mm256_blend_epi32::<0b1010_1010>(low, joined))
}

/// Four f16, each in the lower half of 32 bits.
#[inline(always)]
fn halves(stored: __m128i) -> __m128 {
    x86!(_mm_cvtph_ps(_mm_packus_epi32(stored, stored)))
}

#[inline(always)]
fn spread(x: __m128) -> [f32; 4] {
    let mut out = [0.0; 4];
    // SAFETY: writes the four f32 that `out` is; needs no alignment.
    unsafe { _mm_storeu_ps(out.as_mut_ptr(), x) }
    out
}

/// Words of bytes without a sign.
#[inline(always)]
fn unsigned(bytes: __m256i, places: &[u8; 32]) -> __m256i {
    x86!(_mm256_shuffle_epi8(bytes, load(places)))
}

/// Words of bytes with a sign.
#[inline(always)]
fn with_sign(bytes: __m256i, places: &[u8; 32]) -> __m256i {
    x86!(_mm256_srai_epi16::<8>(_mm256_shuffle_epi8(bytes, load(places))))
}

/// The first eight bytes of the lower half, which are those of the upper half too, as f32.
#[inline(always)]
fn floats(bytes: __m256i) -> __m256 {
    x86!(_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm256_castsi256_si128(bytes))))
}

/// Products of words.
#[inline(always)]
fn multiplied(a: __m256i, b: __m256i) -> __m256i {
    x86!(_mm256_mullo_epi16(a, b))
}

/// Words less a number.
#[inline(always)]
fn lessened(a: __m256i, by: i16) -> __m256i {
    x86!(_mm256_sub_epi16(a, _mm256_set1_epi16(by)))
}

/// Sums of products of words.
#[inline(always)]
fn dot(a: [__m256i; 2], b: [__m256i; 2]) -> __m256i {
    let (first, second) = (x86!(_mm256_madd_epi16(a[0], b[0])), x86!(_mm256_madd_epi16(a[1], b[1])));
    x86!(_mm256_add_epi32(first, second))
}

/// Sums of eight bytes each, as words: of four vectors in one, two of each by turns, halves apart.
#[inline(always)]
fn eights(codes: &[__m256i; 8]) -> [__m256i; 2] {
    let none = x86!(_mm256_setzero_si256());
    let mut sums = *codes;
    for sum in &mut sums {
        *sum = x86!(_mm256_sad_epu8(*sum, none));
    }
    let [a, b, c, d, e, f, g, h] = sums;
    [packed([a, b, c, d]), packed([e, f, g, h])]
}

/// The lowest words of 64 bits of four vectors in one.
#[inline(always)]
fn packed(v: [__m256i; 4]) -> __m256i {
    let (a, b) = (x86!(_mm256_packus_epi32(v[0], v[1])), x86!(_mm256_packus_epi32(v[2], v[3])));
    x86!(_mm256_packus_epi32(a, b))
}

/// Sums of the squares of codes times the factors of their shares.
#[inline(always)]
fn squares(codes: &[__m256i; 8], by: [__m256i; 2]) -> __m256i {
    let mut pairs = *codes;
    for pair in &mut pairs {
        *pair = x86!(_mm256_maddubs_epi16(*pair, *pair));
    }
    let [a, b, c, d, e, f, g, h] = pairs;
    let (first, second) = (four_squares([a, b, c, d], by[0]), four_squares([e, f, g, h], by[1]));
    x86!(_mm256_add_epi32(first, second))
}

#[inline(always)]
fn four_squares(pairs: [__m256i; 4], by: __m256i) -> __m256i {
    let a = x86!(_mm256_madd_epi16(pairs[0], _mm256_shuffle_epi32::<0b00_00_00_00>(by)));
    let b = x86!(_mm256_madd_epi16(pairs[1], _mm256_shuffle_epi32::<0b01_01_01_01>(by)));
    let c = x86!(_mm256_madd_epi16(pairs[2], _mm256_shuffle_epi32::<0b10_10_10_10>(by)));
    let d = x86!(_mm256_madd_epi16(pairs[3], _mm256_shuffle_epi32::<0b11_11_11_11>(by)));
    x86!(_mm256_add_epi32(_mm256_add_epi32(a, b), _mm256_add_epi32(c, d)))
}

/// The sum of each of four vectors' words.
#[inline(always)]
fn across(v: [__m256i; 4]) -> __m128i {
    let (a, b) = (x86!(_mm256_hadd_epi32(v[0], v[1])), x86!(_mm256_hadd_epi32(v[2], v[3])));
    let all = x86!(_mm256_hadd_epi32(a, b));
    x86!(_mm_add_epi32(_mm256_castsi256_si128(all), _mm256_extracti128_si256::<1>(all)))
}

/// The lower halves of four words of 64 bits.
#[inline(always)]
fn lower(sums: __m256i) -> __m128i {
    let (low, high) = (x86!(_mm256_castsi256_si128(sums)), x86!(_mm256_extracti128_si256::<1>(sums)));
    let low = x86!(_mm_shuffle_epi32::<0b10_00>(low));
    x86!(_mm_unpacklo_epi64(low, _mm_shuffle_epi32::<0b10_00>(high)))
}

/// Whole numbers with a sign as f64.
#[inline(always)]
fn signed(x: __m128i) -> __m256d {
    x86!(_mm256_cvtepi32_pd(x))
}

/// Whole numbers without a sign as f64: the lowest bits of 2⁵² plus them.
#[inline(always)]
fn without_sign(x: __m128i) -> __m256d {
    let base = x86!(_mm256_set1_pd(f64::from_bits(0x433 << 52)));
    let bits = x86!(_mm256_or_si256(_mm256_cvtepu32_epi64(x), _mm256_castpd_si256(base)));
    x86!(_mm256_sub_pd(_mm256_castsi256_pd(bits), base))
}

#[inline(always)]
fn product(a: __m256d, b: __m256d) -> __m256d {
    x86!(_mm256_mul_pd(a, b))
}

#[inline(always)]
fn stored(x: __m256d) -> [f64; 4] {
    let mut out = [0.0; 4];
    // SAFETY: writes the four f64 that `out` is; needs no alignment.
    unsafe { _mm256_storeu_pd(out.as_mut_ptr(), x) }
    out
}
