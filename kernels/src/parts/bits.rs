//! Bytes and bits, many at a time.

use super::Parts;

/// One in every byte.
pub(super) const ONES: u64 = 0x0101_0101_0101_0101;

/// Byte `k` of entry `b` has all bits set where bit `k` of `b` is set, and none elsewhere.
pub(super) static SPREAD: [u64; 256] = {
    let mut words = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut k = 0;
        while k < 8 {
            if byte >> k & 1 == 1 {
                words[byte] |= 0xff << (8 * k);
            }
            k += 1;
        }
        byte += 1;
    }
    words
};

/// `N` bytes from byte `at` on.
#[inline(always)]
pub(super) fn bytes<const N: usize>(block: &[u8], at: usize) -> &[u8; N] {
    block[at..].first_chunk().expect("a field lies inside its block")
}

#[inline(always)]
pub(super) fn u16_at(block: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(*bytes(block, at))
}

#[inline(always)]
pub(super) fn u32_at(block: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(*bytes(block, at))
}

/// Nibble `i` of a run of bytes, the low nibble of a byte before its high one.
#[inline(always)]
pub(super) fn nibble(bytes: &[u8], i: usize) -> u8 {
    (bytes[i / 2] >> (4 * (i % 2))) & 15
}

/// Sixteen bytes as 32 nibbles, the low ones first.
#[inline(always)]
pub(super) fn nibbles(bytes: &[u8; 16]) -> [u8; 32] {
    let mut codes = [0; 32];
    for (l, byte) in bytes.iter().enumerate() {
        codes[l] = byte & 15;
        codes[16 + l] = byte >> 4;
    }
    codes
}

/// 64 bytes as codes of two bits, less `LESS`. Each half of 32 bytes holds 128 elements, in four planes.
#[inline(always)]
pub(super) fn two_bit_planes<const LESS: i8>(bytes: &[u8; 64], p: &mut Parts) {
    for (half, bytes) in bytes.as_chunks().0.iter().enumerate() {
        plane::<0, LESS>(bytes, p.run(128 * half));
        plane::<2, LESS>(bytes, p.run(128 * half + 32));
        plane::<4, LESS>(bytes, p.run(128 * half + 64));
        plane::<6, LESS>(bytes, p.run(128 * half + 96));
    }
}

#[inline(always)]
fn plane<const SHIFT: u32, const LESS: i8>(bytes: &[u8; 32], to: &mut [i8; 32]) {
    for l in 0..32 {
        to[l] = (bytes[l] >> SHIFT & 3) as i8 - LESS;
    }
}

/// Bytes that are codes as they stand.
#[inline(always)]
pub(super) fn copy<const N: usize>(bytes: &[u8; N], to: &mut [i8; N]) {
    for l in 0..N {
        to[l] = bytes[l] as i8;
    }
}

impl Parts {
    /// The codes of `N` elements from element `at` on.
    #[inline(always)]
    pub(super) fn run<const N: usize>(&mut self, at: usize) -> &mut [i8; N] {
        self.codes[at..].first_chunk_mut().expect("a block has at most 256 elements")
    }

    /// Codes of the eight elements `8i..`, the first in the lowest byte.
    #[inline(always)]
    pub(super) fn eight(&mut self, i: usize, codes: u64) {
        *self.run(8 * i) = codes.to_le_bytes().map(|code| code as i8);
    }
}
