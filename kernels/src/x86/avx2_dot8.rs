//! Products of small integers with AVX2.
//!
//! `vpmaddubsw` multiplies bytes without sign by bytes with sign and adds neighbours in 16 bits, saturating at
//! ±32767: which never happens here, as the one side is at most 128 and the other at most 127.

use super::avx2::Avx2;
use super::avx2_places::{BITS, BYTES, SPREAD, transposed};
use super::registers::{both, broadcast, load, load_floats, load_half, split, x86};
use crate::int8::dot8::{Dot8, Heads, OUTPUTS, Raised, Task};
use std::arch::x86_64::*;

impl Dot8 for Avx2 {
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
    const NARROW: bool = true;
    const PAIRED: bool = true;

    #[inline(always)]
    fn run<T: Task>(self, task: T) -> T::Out {
        #[target_feature(enable = "avx2,fma,f16c")]
        fn inner<T: Task>(s: Avx2, task: T) -> T::Out {
            task.call(s)
        }
        // SAFETY: `self` proves that the processor has the instructions.
        unsafe { inner(self, task) }
    }

    #[inline(always)]
    fn by_halves(self, bytes: &[u8; 16]) -> [u8; 16] {
        let all = load_half(bytes);
        let places = x86!(_mm_setr_epi8(0, 2, 4, 6, 8, 10, 12, 14, 1, 3, 5, 7, 9, 11, 13, 15));
        let ordered = x86!(_mm_shuffle_epi8(all, places));
        let mut out = [0; 16];
        // SAFETY: writes the 16 bytes that `out` is; needs no alignment.
        unsafe { _mm_storeu_si128(out.as_mut_ptr().cast(), ordered) };
        out
    }

    /// Words 1, 2 and 3 are rearranged as the low bits of four scales, four more, and so for minima.
    #[inline(always)]
    fn six_bits(self, bytes: &[u8; 16]) -> [[u8; 16]; 2] {
        let all = load_half(bytes);
        let first = x86!(_mm_shuffle_epi32::<0b10_10_01_01>(all));
        let first = x86!(_mm_srlv_epi32(first, _mm_setr_epi32(0, 2, 0, 2)));
        let kept = x86!(_mm_setr_epi32(0x3f3f_3f3f, 0x3030_3030, 0x3f3f_3f3f, 0x3030_3030));
        let first = x86!(_mm_and_si128(first, kept));
        let last = x86!(_mm_shuffle_epi32::<0b11_11_11_11>(all));
        let last = x86!(_mm_srlv_epi32(last, _mm_setr_epi32(0, 0, 0, 4)));
        let nibbles = x86!(_mm_setr_epi32(0, 0x0f0f_0f0f, 0, 0x0f0f_0f0f));
        let last = x86!(_mm_and_si128(last, nibbles));
        let bytes = x86!(_mm_or_si128(first, last));
        let (scales, minima) =
            (x86!(_mm_unpacklo_epi64(bytes, bytes)), x86!(_mm_unpackhi_epi64(bytes, bytes)));
        let mut out = [[0; 16]; 2];
        // SAFETY: writes the 16 bytes that this is; needs no alignment.
        unsafe { _mm_storeu_si128(out[0].as_mut_ptr().cast(), scales) };
        // SAFETY: writes the 16 bytes that this is; needs no alignment.
        unsafe { _mm_storeu_si128(out[1].as_mut_ptr().cast(), minima) };
        out
    }

    #[inline(always)]
    fn halves(self, bits: [u16; 8]) -> [f32; 8] {
        let bits = load_half(&bits);
        let wide = x86!(_mm256_cvtph_ps(bits));
        let mut out = [0.0; 8];
        // SAFETY: writes the 32 bytes that `out` is; needs no alignment.
        unsafe { _mm256_storeu_ps(out.as_mut_ptr(), wide) };
        out
    }

    #[inline(always)]
    fn load(self, codes: &[u8; 32]) -> __m256i {
        load(codes)
    }

    #[inline(always)]
    fn byte_pairs(self, a: &[u8; 32], b: &[u8; 32]) -> [__m256i; 2] {
        let ([a, c], [b, d]) = (split::<u8, 16>(a), split::<u8, 16>(b));
        [both(a, b), both(c, d)]
    }

    #[inline(always)]
    fn store(self, codes: __m256i, to: &mut [u8; 32]) {
        // SAFETY: writes the 32 bytes that `to` is; needs no alignment.
        unsafe { _mm256_storeu_si256(to.as_mut_ptr().cast(), codes) }
    }

    #[inline(always)]
    fn nibbles(self, bytes: &[u8; 16]) -> __m256i {
        let low = load_half(bytes);
        let high = x86!(_mm_srli_epi16::<4>(low));
        let both = x86!(_mm256_set_m128i(high, low));
        self.field::<0>(both, 15)
    }

    #[inline(always)]
    fn nibble_pairs(self, a: &[u8; 16], b: &[u8; 16]) -> [__m256i; 2] {
        let both = both(a, b);
        [self.field::<0>(both, 15), self.field::<4>(both, 15)]
    }

    #[inline(always)]
    fn bits(self, bits: u32) -> __m256i {
        let all = x86!(_mm256_set1_epi32(bits as i32));
        // Byte e / 8 of the word to place e, then the bit e % 8 alone.
        let spread = x86!(_mm256_shuffle_epi8(all, load(&BYTES)));
        let single = x86!(_mm256_and_si256(spread, load(&BITS)));
        let set = x86!(_mm256_cmpeq_epi8(single, load(&BITS)));
        self.field::<0>(set, 1)
    }

    #[inline(always)]
    fn field<const SHIFT: i32>(self, bytes: __m256i, mask: u8) -> __m256i {
        let shifted = x86!(_mm256_srli_epi16::<SHIFT>(bytes));
        let mask = x86!(_mm256_set1_epi8(mask as i8));
        x86!(_mm256_and_si256(shifted, mask))
    }

    #[inline(always)]
    fn join<const SHIFT: i32>(self, low: __m256i, high: __m256i) -> __m256i {
        let high = x86!(_mm256_slli_epi16::<SHIFT>(high));
        x86!(_mm256_or_si256(low, high))
    }

    #[inline(always)]
    fn offset(self, bytes: __m256i, by: i8) -> __m256i {
        let by = x86!(_mm256_set1_epi8(by));
        x86!(_mm256_add_epi8(bytes, by))
    }

    #[inline(always)]
    fn lookup(self, table: &[i8; 16], codes: __m256i) -> __m256i {
        let table = load_half(table);
        let table = x86!(_mm256_broadcastsi128_si256(table));
        x86!(_mm256_shuffle_epi8(table, codes))
    }

    #[inline(always)]
    fn greatest(self, x: &[f32; 32]) -> u32 {
        let unsigned = x86!(_mm256_set1_ps(f32::from_bits(0x7fff_ffff)));
        let mut most = self.no_sums();
        for x in x.as_chunks::<8>().0 {
            let magnitude = x86!(_mm256_and_ps(unsigned, load_floats(x)));
            let bits = x86!(_mm256_castps_si256(magnitude));
            most = x86!(_mm256_max_epu32(most, bits));
        }
        let (low, high) = (x86!(_mm256_castsi256_si128(most)), x86!(_mm256_extracti128_si256::<1>(most)));
        let four = x86!(_mm_max_epu32(low, high));
        let upper = x86!(_mm_shuffle_epi32::<0b11_10_11_10>(four));
        let two = x86!(_mm_max_epu32(four, upper));
        let second = x86!(_mm_shuffle_epi32::<0b01_01_01_01>(two));
        let one = x86!(_mm_max_epu32(two, second));
        x86!(_mm_cvtsi128_si32(one)) as u32
    }

    #[inline(always)]
    fn rounded(self, x: &[f32; 32], by: f32) -> [i8; 32] {
        let by = x86!(_mm256_set1_ps(by));
        let mut whole = [self.no_sums(); 4];
        for (whole, x) in whole.iter_mut().zip(x.as_chunks::<8>().0) {
            let product = x86!(_mm256_mul_ps(load_floats(x), by));
            *whole = x86!(_mm256_cvtps_epi32(product));
        }
        let first = x86!(_mm256_packs_epi32(whole[0], whole[1]));
        let second = x86!(_mm256_packs_epi32(whole[2], whole[3]));
        // Packing works in halves, so that fours come in the order 0 2 4 6 1 3 5 7.
        let bytes = x86!(_mm256_packs_epi16(first, second));
        let ordered = x86!(_mm256_permutevar8x32_epi32(bytes, load(&[0u32, 4, 1, 5, 2, 6, 3, 7])));
        let mut out = [0; 32];
        // SAFETY: writes the 32 bytes that `out` is; needs no alignment.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), ordered) };
        out
    }

    #[inline(always)]
    fn pair_sums(self, x: &[i8; 32]) -> [[i16; 2]; 2] {
        let ones = x86!(_mm256_set1_epi8(1));
        let pairs = x86!(_mm256_maddubs_epi16(ones, load(x)));
        // Each half holds four times two sums: the upper two are added to the lower, then the second to the first.
        let upper = x86!(_mm256_shuffle_epi32::<0b11_10_11_10>(pairs));
        let two = x86!(_mm256_add_epi16(pairs, upper));
        let second = x86!(_mm256_shuffle_epi32::<0b01_01_01_01>(two));
        let one = x86!(_mm256_add_epi16(two, second));
        let (a, b) = (x86!(_mm256_extract_epi32::<0>(one)), x86!(_mm256_extract_epi32::<4>(one)));
        [[a as i16, (a >> 16) as i16], [b as i16, (b >> 16) as i16]]
    }

    #[inline(always)]
    fn products<const SIGNED: bool>(self, codes: __m256i, x: &[i8; 32]) -> __m256i {
        let x = load(x);
        if SIGNED { signed_products(codes, x) } else { x86!(_mm256_maddubs_epi16(codes, x)) }
    }

    /// Of neighbours, `by` times the sum: what codes that are too large by `by` make too much.
    #[inline(always)]
    fn raised(self, x: &[i8; 32], by: i8) -> [i16; 16] {
        let excess = x86!(_mm256_maddubs_epi16(_mm256_set1_epi8(by), load(x)));
        let mut out = [0; 16];
        // SAFETY: writes the 32 bytes that `out` is; needs no alignment.
        unsafe { _mm256_storeu_si256(out.as_mut_ptr().cast(), excess) };
        out
    }

    #[inline(always)]
    fn factors(self, scales: [u8; 16]) -> __m256i {
        let bytes = load_half(&scales);
        x86!(_mm256_cvtepi8_epi16(bytes))
    }

    #[inline(always)]
    fn scaled(self, sums: __m256i, products: __m256i, scales: __m256i, run: usize) -> __m256i {
        let scales = x86!(_mm256_shuffle_epi8(scales, load(&unknown(&SPREAD)[run])));
        let scaled = x86!(_mm256_madd_epi16(products, scales));
        x86!(_mm256_add_epi32(sums, scaled))
    }

    #[inline(always)]
    fn lowered(self, scales: __m256i, sums: &[i16; 16], by: i16) -> __m256i {
        let scales = x86!(_mm256_mullo_epi16(scales, _mm256_set1_epi16(-by)));
        x86!(_mm256_madd_epi16(scales, load(sums)))
    }

    #[inline(always)]
    fn settled(self, sums: __m256i) -> __m256i {
        x86!(opaque(sums))
    }

    #[inline(always)]
    fn minima(self, minima: [u8; 16], sums: &[i16; 16]) -> __m256i {
        let minima = load_half(&minima);
        let wide = x86!(_mm256_cvtepu8_epi16(minima));
        x86!(_mm256_madd_epi16(wide, load(sums)))
    }

    #[inline(always)]
    fn no_sums(self) -> __m256i {
        x86!(_mm256_setzero_si256())
    }

    #[inline(always)]
    fn no_floats(self) -> __m256 {
        x86!(_mm256_setzero_ps())
    }

    #[inline(always)]
    fn add_sums(self, floats: __m256, sums: __m256i, by: f32) -> __m256 {
        let sums = x86!(_mm256_cvtepi32_ps(sums));
        let by = x86!(_mm256_set1_ps(by));
        x86!(_mm256_fmadd_ps(sums, by, floats))
    }

    #[inline(always)]
    fn add_pair<const WIDE: bool>(
        self,
        floats: __m256,
        codes: [__m256i; 2],
        x: [&[i8; 32]; 2],
        by: __m256,
        pair: usize,
    ) -> __m256 {
        let (a, b) = (self.products::<WIDE>(codes[0], x[0]), self.products::<WIDE>(codes[1], x[1]));
        let sums = if WIDE {
            x86!(_mm256_add_epi32(widened(a), widened(b)))
        } else {
            widened(x86!(_mm256_add_epi16(a, b)))
        };
        self.add_pair_sums(floats, sums, by, pair)
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
        let (a, b) = (self.products::<false>(codes[0], x[0]), self.products::<false>(codes[1], x[1]));
        let a = x86!(_mm256_sub_epi16(a, load(raised.products)));
        self.add_pair_sums(floats, widened(x86!(_mm256_add_epi16(a, b))), by, pair)
    }

    #[inline(always)]
    fn add_products(self, floats: __m256, a: &[f32; 8], b: &[f32; 8]) -> __m256 {
        x86!(_mm256_fmadd_ps(load_floats(a), load_floats(b), floats))
    }

    #[inline(always)]
    fn multiplied(self, a: &[f32; 8], b: &[f32; 8]) -> __m256 {
        x86!(_mm256_mul_ps(load_floats(a), load_floats(b)))
    }

    /// As [`six_bits`](Dot8::six_bits), in halves of a vector.
    #[inline(always)]
    fn heads_of_two(self, a: &[u8; 16], b: &[u8; 16]) -> Heads<Avx2> {
        let all = both(a, b);
        let first = x86!(_mm256_shuffle_epi32::<0b10_10_01_01>(all));
        let first = x86!(_mm256_srlv_epi32(first, _mm256_setr_epi32(0, 2, 0, 2, 0, 2, 0, 2)));
        let kept = x86!(_mm256_set1_epi64x(0x3030_3030_3f3f_3f3f));
        let first = x86!(_mm256_and_si256(first, kept));
        let last = x86!(_mm256_shuffle_epi32::<0b11_11_11_11>(all));
        let last = x86!(_mm256_srlv_epi32(last, _mm256_setr_epi32(0, 0, 0, 4, 0, 0, 0, 4)));
        let last = x86!(_mm256_and_si256(last, _mm256_set1_epi64x(0x0f0f_0f0f_0000_0000)));
        let bytes = x86!(_mm256_or_si256(first, last));
        let none = self.no_sums();
        let (scales, minima) =
            (x86!(_mm256_unpacklo_epi8(bytes, none)), x86!(_mm256_unpackhi_epi8(bytes, none)));
        // d and m of the one, then of the other; each goes to all places of its half.
        let (one, other) = (x86!(_mm256_castsi256_si128(all)), x86!(_mm256_extracti128_si256::<1>(all)));
        let four = x86!(_mm_cvtph_ps(_mm_unpacklo_epi32(one, other)));
        let four = x86!(_mm_xor_ps(four, _mm_setr_ps(0.0, -0.0, 0.0, -0.0)));
        let four = x86!(_mm256_castps128_ps256(four));
        let d = x86!(_mm256_permutevar8x32_ps(four, _mm256_setr_epi32(0, 0, 0, 0, 2, 2, 2, 2)));
        let m = x86!(_mm256_permutevar8x32_ps(four, _mm256_setr_epi32(1, 1, 1, 1, 3, 3, 3, 3)));
        Heads { scales, minima, d, m }
    }

    #[inline(always)]
    fn products_of_two(self, [first, second]: [__m256i; 2], x: &[i8; 32]) -> __m256i {
        let halves = split::<i8, 16>(x);
        let first = x86!(_mm256_maddubs_epi16(first, broadcast(halves[0])));
        let second = x86!(_mm256_maddubs_epi16(second, broadcast(halves[1])));
        x86!(_mm256_add_epi16(first, second))
    }

    #[inline(always)]
    fn add_two(
        self,
        floats: __m256,
        sums: __m256i,
        heads: &Heads<Avx2>,
        run_sums: &[i16; 8],
        by: f32,
    ) -> __m256 {
        let minima = x86!(_mm256_madd_epi16(heads.minima, broadcast(run_sums)));
        let minima = x86!(_mm256_mul_ps(_mm256_cvtepi32_ps(minima), heads.m));
        let both = x86!(_mm256_fmadd_ps(_mm256_cvtepi32_ps(sums), heads.d, minima));
        x86!(_mm256_fmadd_ps(both, _mm256_set1_ps(by), floats))
    }

    #[inline(always)]
    fn totals_of_two(self, floats: __m256) -> [f32; 2] {
        let upper = x86!(_mm256_permute_ps::<0b11_10_11_10>(floats));
        let two = x86!(_mm256_add_ps(floats, upper));
        let second = x86!(_mm256_permute_ps::<0b01_01_01_01>(two));
        let one = x86!(_mm256_add_ps(two, second));
        [x86!(_mm256_cvtss_f32(one)), x86!(_mm_cvtss_f32(_mm256_extractf128_ps::<1>(one)))]
    }

    #[inline(always)]
    fn prefetch(self, from: *const u8) {
        x86!(_mm_prefetch::<_MM_HINT_T0>(from.cast()));
    }

    #[inline(always)]
    fn join_floats(self, a: __m256, b: __m256) -> __m256 {
        x86!(_mm256_add_ps(a, b))
    }

    #[inline(always)]
    fn total(self, floats: __m256) -> f32 {
        let (low, high) = (x86!(_mm256_castps256_ps128(floats)), x86!(_mm256_extractf128_ps::<1>(floats)));
        let four = x86!(_mm_add_ps(low, high));
        let upper = x86!(_mm_movehl_ps(four, four));
        let two = x86!(_mm_add_ps(four, upper));
        let second = x86!(_mm_shuffle_ps::<1>(two, two));
        let one = x86!(_mm_add_ss(two, second));
        x86!(_mm_cvtss_f32(one))
    }

    #[inline(always)]
    fn quads(self, codes: &[u8; 4 * OUTPUTS]) -> [__m256i; 2] {
        let [first, second] = split::<u8, 32>(codes);
        [load(first), load(second)]
    }

    #[inline(always)]
    fn start<const SHIFT: i32>(self, pair: u32) -> [__m256i; 2] {
        let pair = x86!(_mm256_set1_epi32(pair as i32));
        [x86!(_mm256_slli_epi16::<SHIFT>(pair)); 2]
    }

    #[inline(always)]
    fn multiply<const WIDE: bool>(self, runs: [__m256i; 2], codes: [__m256i; 2], x: u32) -> [__m256i; 2] {
        let x = x86!(_mm256_set1_epi32(x as i32));
        let products = if WIDE {
            [signed_products(codes[0], x), signed_products(codes[1], x)]
        } else {
            [x86!(_mm256_maddubs_epi16(codes[0], x)), x86!(_mm256_maddubs_epi16(codes[1], x))]
        };
        [x86!(_mm256_add_epi16(runs[0], products[0])), x86!(_mm256_add_epi16(runs[1], products[1]))]
    }

    #[inline(always)]
    fn no_totals(self) -> [__m256i; 2] {
        [self.no_sums(); 2]
    }

    #[inline(always)]
    fn add_runs(
        self,
        totals: [__m256i; 2],
        runs: [__m256i; 2],
        scales: &[[i16; 2]; OUTPUTS],
    ) -> [__m256i; 2] {
        let scales = split::<_, 8>(scales);
        let first = x86!(_mm256_madd_epi16(runs[0], load(scales[0])));
        let second = x86!(_mm256_madd_epi16(runs[1], load(scales[1])));
        [x86!(_mm256_add_epi32(totals[0], first)), x86!(_mm256_add_epi32(totals[1], second))]
    }

    #[inline(always)]
    fn settled_totals(self, [first, second]: [__m256i; 2]) -> [__m256i; 2] {
        [x86!(opaque(first)), x86!(opaque(second))]
    }

    #[inline(always)]
    fn add_pairs(self, totals: [__m256i; 2], a: &[[i16; 2]; OUTPUTS], b: u32) -> [__m256i; 2] {
        let b = x86!(_mm256_set1_epi32(b as i32));
        self.add_runs(totals, [b; 2], a)
    }

    #[inline(always)]
    fn transpose(self, rows: &[[u8; 256]; OUTPUTS], to: &mut [[u8; 4 * OUTPUTS]; 64]) {
        for half in 0..2 {
            for block in 0..8 {
                let mut eight = [self.no_sums(); 8];
                for (r, row) in eight.iter_mut().enumerate() {
                    *row = load(&rows[8 * half + r].as_chunks::<32>().0[block]);
                }
                let eight = transposed(eight);
                for (g, quads) in eight.iter().enumerate() {
                    self.store(*quads, &mut to[8 * block + g].as_chunks_mut::<32>().0[half]);
                }
            }
        }
    }

    #[inline(always)]
    fn outputs(self, from: &[f32; OUTPUTS]) -> [__m256; 2] {
        let [first, second] = split::<f32, 8>(from);
        [load_floats(first), load_floats(second)]
    }

    #[inline(always)]
    fn store_outputs(self, outputs: [__m256; 2], to: &mut [f32; OUTPUTS]) {
        for (floats, to) in outputs.into_iter().zip(to.as_chunks_mut::<8>().0) {
            // SAFETY: writes the eight f32 that `to` is; needs no alignment.
            unsafe { _mm256_storeu_ps(to.as_mut_ptr(), floats) };
        }
    }

    #[inline(always)]
    fn add_totals(
        self,
        outputs: [__m256; 2],
        totals: [__m256i; 2],
        by: &[f32; OUTPUTS],
        factor: f32,
    ) -> [__m256; 2] {
        let factor = x86!(_mm256_set1_ps(factor));
        let [first, second] = split::<f32, 8>(by);
        let by = [
            x86!(_mm256_mul_ps(load_floats(first), factor)),
            x86!(_mm256_mul_ps(load_floats(second), factor)),
        ];
        let totals = [x86!(_mm256_cvtepi32_ps(totals[0])), x86!(_mm256_cvtepi32_ps(totals[1]))];
        [
            x86!(_mm256_fmadd_ps(totals[0], by[0], outputs[0])),
            x86!(_mm256_fmadd_ps(totals[1], by[1], outputs[1])),
        ]
    }

    #[inline(always)]
    fn add_scaled(self, outputs: [__m256; 2], by: &[f32; OUTPUTS], factor: f32) -> [__m256; 2] {
        let factor = x86!(_mm256_set1_ps(factor));
        let [first, second] = split::<f32, 8>(by);
        [
            x86!(_mm256_fmadd_ps(load_floats(first), factor, outputs[0])),
            x86!(_mm256_fmadd_ps(load_floats(second), factor, outputs[1])),
        ]
    }
}

impl Avx2 {
    /// `floats + sums · by` of two runs: the lower half of the sums belongs to the first, the upper one to the second.
    #[inline(always)]
    pub(super) fn add_pair_sums(self, floats: __m256, sums: __m256i, by: __m256, pair: usize) -> __m256 {
        let sums = x86!(_mm256_cvtepi32_ps(sums));
        let by = match pair {
            0 => x86!(_mm256_permute_ps::<0b00_00_00_00>(by)),
            1 => x86!(_mm256_permute_ps::<0b01_01_01_01>(by)),
            2 => x86!(_mm256_permute_ps::<0b10_10_10_10>(by)),
            _ => x86!(_mm256_permute_ps::<0b11_11_11_11>(by)),
        };
        x86!(_mm256_fmadd_ps(sums, by, floats))
    }
}

/// Sums of 16 bits, neighbours added.
#[inline(always)]
fn widened(sums: __m256i) -> __m256i {
    x86!(_mm256_madd_epi16(sums, _mm256_set1_epi16(1)))
}

/// Products of signed bytes, neighbours added: of the codes' magnitudes with activations that have taken over their
/// signs.
#[inline(always)]
fn signed_products(codes: __m256i, x: __m256i) -> __m256i {
    let magnitude = x86!(_mm256_abs_epi8(codes));
    let x = x86!(_mm256_sign_epi8(x, codes));
    x86!(_mm256_maddubs_epi16(magnitude, x))
}

/// The same masks, of which the compiler does not know what they do: it would make two or three shuffles of one.
#[inline(always)]
#[allow(clippy::pointers_in_nomem_asm_block)] // nothing is read through it, nor written
fn unknown<T>(masks: &'static T) -> &'static T {
    let mut at = std::ptr::from_ref(masks);
    // SAFETY: no instruction at all.
    unsafe { std::arch::asm!("/* {0} */", inout(reg) at, options(pure, nomem, nostack, preserves_flags)) };
    // SAFETY: still the address of what lives forever and never changes.
    unsafe { &*at }
}

/// The same value, of which the compiler no longer knows where it comes from.
#[inline]
#[target_feature(enable = "avx2")]
fn opaque(mut value: __m256i) -> __m256i {
    // SAFETY: no instruction at all.
    unsafe { std::arch::asm!("/* {0} */", inout(ymm_reg) value, options(nomem, nostack, preserves_flags)) };
    value
}
