//! Where bytes and words go: masks for shuffles, and the transposition of a square.

use super::registers::x86;
use std::arch::x86_64::*;

/// For each run, its bytes of eight 16-bit scales in all places.
pub(super) static SPREAD: [[u8; 32]; 8] = {
    let mut all = [[0; 32]; 8];
    let mut i = 0;
    while i < 256 {
        all[i / 32][i % 32] = (i / 32 * 2 + i % 2) as u8;
        i += 1;
    }
    all
};

/// For each bit of a word, the byte that it is in.
pub(super) const BYTES: [u8; 32] = {
    let mut all = [0; 32];
    let mut e = 0;
    while e < 32 {
        all[e] = (e / 8) as u8;
        e += 1;
    }
    all
};

/// For each bit of a word, that bit of its byte alone.
pub(super) const BITS: [u8; 32] = {
    let mut all = [0; 32];
    let mut e = 0;
    while e < 32 {
        all[e] = 1 << (e % 8);
        e += 1;
    }
    all
};

/// The 8 × 8 words of eight vectors, rows for columns.
#[inline(always)]
pub(super) fn transposed(rows: [__m256i; 8]) -> [__m256i; 8] {
    let [a, b, c, d, e, f, g, h] = rows;
    // Words of two neighbouring rows, then of four, in both halves; then the halves of all eight.
    let (ab, ab2) = (x86!(_mm256_unpacklo_epi32(a, b)), x86!(_mm256_unpackhi_epi32(a, b)));
    let (cd, cd2) = (x86!(_mm256_unpacklo_epi32(c, d)), x86!(_mm256_unpackhi_epi32(c, d)));
    let (ef, ef2) = (x86!(_mm256_unpacklo_epi32(e, f)), x86!(_mm256_unpackhi_epi32(e, f)));
    let (gh, gh2) = (x86!(_mm256_unpacklo_epi32(g, h)), x86!(_mm256_unpackhi_epi32(g, h)));
    let (abcd, abcd1) = (x86!(_mm256_unpacklo_epi64(ab, cd)), x86!(_mm256_unpackhi_epi64(ab, cd)));
    let (abcd2, abcd3) = (x86!(_mm256_unpacklo_epi64(ab2, cd2)), x86!(_mm256_unpackhi_epi64(ab2, cd2)));
    let (efgh, efgh1) = (x86!(_mm256_unpacklo_epi64(ef, gh)), x86!(_mm256_unpackhi_epi64(ef, gh)));
    let (efgh2, efgh3) = (x86!(_mm256_unpacklo_epi64(ef2, gh2)), x86!(_mm256_unpackhi_epi64(ef2, gh2)));
    [
        x86!(_mm256_permute2x128_si256::<0x20>(abcd, efgh)),
        x86!(_mm256_permute2x128_si256::<0x20>(abcd1, efgh1)),
        x86!(_mm256_permute2x128_si256::<0x20>(abcd2, efgh2)),
        x86!(_mm256_permute2x128_si256::<0x20>(abcd3, efgh3)),
        x86!(_mm256_permute2x128_si256::<0x31>(abcd, efgh)),
        x86!(_mm256_permute2x128_si256::<0x31>(abcd1, efgh1)),
        x86!(_mm256_permute2x128_si256::<0x31>(abcd2, efgh2)),
        x86!(_mm256_permute2x128_si256::<0x31>(abcd3, efgh3)),
    ]
}
