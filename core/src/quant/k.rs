//! The "K" formats: 256 elements, sub-blocks with small integer scales, and one f16 scale of those scales.
//!
//! ```text
//!        0           16                 80    82    84
//! Q2_K   | sc[16]    | 64 bytes, planes | d   | dm  |        16 sub-blocks of 16
//!          scale: low nibble of sc[j]; minimum: high nibble
//!          x = (d * scale) * code - (dm * minimum)           code 0..3
//!
//!        0           32                 96        108  110
//! Q3_K   | mask[32]  | 64 bytes, planes | sc[12]  | d  |     16 sub-blocks of 16
//!          bit k of mask byte l belongs to element 32k + l; where it is clear the code is 4 less
//!          x = (d * scale) * code                            code -4..3, scale -32..31
//!
//!        0     2     4          16                 144
//! Q4_K   | d   | dm  | sc[12]   | 128 bytes, runs  |         8 sub-blocks of 32
//!          x = (d * scale) * code - (dm * minimum)           code 0..15, scale and minimum 0..63
//!
//!        0     2     4          16        48            176
//! Q5_K   | d   | dm  | sc[12]   | qh[32]  | 128, runs   |    8 sub-blocks of 32
//!          bit k of qh byte l is the fifth bit of element 32k + l; x as Q4_K, code 0..31
//!
//!        0           128        192        208   210
//! Q6_K   | ql[128]   | qh[64]   | sc[16]   | d   |           16 sub-blocks of 16, signed byte scales
//!          x = (d * scale) * (code - 32)                     code 0..63
//!
//!        0     4                260             292
//! Q8_K   | d   | 256 signed bytes | 16 sums, i16 |           made while a program runs; d is f32
//!          x = d * code
//! ```
//!
//! *Planes*: see `two_bit_planes`. *Runs*: 128 bytes are four runs of 32; a run's low nibbles are 32 elements, its
//! high nibbles the next 32.

use super::{each_block, f16_at, nibble_halves, two_bit_planes};

pub(crate) fn q2_k(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 84], x: &mut [f32; 256]| {
        let (d, dm) = (f16_at(b, 80), f16_at(b, 82));
        let codes = two_bit_planes(&b[16..80]);
        for (j, (x, codes)) in x.chunks_exact_mut(16).zip(codes.chunks_exact(16)).enumerate() {
            scale_and_minimum(d * f32::from(b[j] & 15), dm * f32::from(b[j] >> 4), codes, x);
        }
    });
}

pub(crate) fn q3_k(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 110], x: &mut [f32; 256]| {
        let d = f16_at(b, 108);
        let mask = bit_planes(&b[..32]);
        let codes = two_bit_planes(&b[32..96]);
        let scales = q3_k_scales(&b[96..108]);
        for (j, x) in x.chunks_exact_mut(16).enumerate() {
            let scale = d * f32::from(scales[j]);
            let elements = 16 * j..16 * j + 16;
            for (x, (&code, &bit)) in x.iter_mut().zip(codes[elements.clone()].iter().zip(&mask[elements])) {
                *x = scale * (f32::from(code + 4 * bit) - 4.0);
            }
        }
    });
}

pub(crate) fn q4_k(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 144], x: &mut [f32; 256]| {
        let codes = nibble_runs(&b[16..]);
        eight_sub_blocks(&b[..16], &codes, x);
    });
}

pub(crate) fn q5_k(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 176], x: &mut [f32; 256]| {
        let mut codes = nibble_runs(&b[48..]);
        for (code, bit) in codes.iter_mut().zip(bit_planes(&b[16..48])) {
            *code |= bit << 4;
        }
        eight_sub_blocks(&b[..16], &codes, x);
    });
}

pub(crate) fn q6_k(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 210], x: &mut [f32; 256]| {
        let d = f16_at(b, 208);
        // The two high bits lie in planes as other types' codes do; the nibbles in two runs of 64 bytes.
        let mut codes = two_bit_planes(&b[128..192]);
        for (codes, low) in codes.chunks_exact_mut(128).zip(b[..128].chunks_exact(64)) {
            let mut nibbles = [0; 128];
            nibble_halves(low, &mut nibbles);
            for (code, nibble) in codes.iter_mut().zip(nibbles) {
                *code = *code << 4 | nibble;
            }
        }
        for (j, (x, codes)) in x.chunks_exact_mut(16).zip(codes.chunks_exact(16)).enumerate() {
            let scale = d * f32::from(b[192 + j] as i8);
            for (x, &code) in x.iter_mut().zip(codes) {
                *x = scale * (f32::from(code) - 32.0);
            }
        }
    });
}

pub(crate) fn q8_k(raw: &[u8], out: &mut [f32]) {
    each_block(raw, out, |b: &[u8; 292], x: &mut [f32; 256]| {
        let d = f32::from_le_bytes([b[0], b[1], b[2], b[3]]);
        for (x, &code) in x.iter_mut().zip(&b[4..260]) {
            *x = d * f32::from(code as i8);
        }
    });
}

/// Q4_K and Q5_K once their codes are whole: `head` is `d`, `dm` and the twelve bytes of scales.
fn eight_sub_blocks(head: &[u8], codes: &[u8; 256], x: &mut [f32; 256]) {
    let (d, dm) = (f16_at(head, 0), f16_at(head, 2));
    for (j, (x, codes)) in x.chunks_exact_mut(32).zip(codes.chunks_exact(32)).enumerate() {
        let (scale, minimum) = scale_pair(&head[4..], j);
        scale_and_minimum(d * f32::from(scale), dm * f32::from(minimum), codes, x);
    }
}

fn scale_and_minimum(scale: f32, minimum: f32, codes: &[u8], x: &mut [f32]) {
    for (x, &code) in x.iter_mut().zip(codes) {
        *x = scale * f32::from(code) - minimum;
    }
}

/// Scale and minimum, 6 bits each, of sub-block `j` of Q4_K and Q5_K, out of twelve bytes:
///
/// ```text
/// bytes 0..3    scales of 0..3 in the low six bits; above them the top two bits of scales 4..7
/// bytes 4..7    minima of 0..3 in the low six bits; above them the top two bits of minima 4..7
/// bytes 8..11   low nibbles: the rest of scales 4..7; high nibbles: the rest of minima 4..7
/// ```
pub(super) fn scale_pair(bytes: &[u8], j: usize) -> (u8, u8) {
    match j {
        0..4 => (bytes[j] & 63, bytes[j + 4] & 63),
        _ => {
            let (top_scale, top_minimum, low) = (bytes[j - 4] >> 6, bytes[j] >> 6, bytes[j + 4]);
            (top_scale << 4 | low & 15, top_minimum << 4 | low >> 4)
        }
    }
}

/// The sixteen scales of Q3_K out of twelve bytes: the nibbles of bytes 0..7 are their low four bits (first all
/// low nibbles, then all high ones); bytes 8..11 are their high two, in planes of four.
pub(super) fn q3_k_scales(bytes: &[u8]) -> [i8; 16] {
    let mut low = [0; 16];
    nibble_halves(&bytes[..8], &mut low);
    std::array::from_fn(|j| {
        let high = (bytes[8 + j % 4] >> (2 * (j / 4))) & 3;
        (low[j] | high << 4) as i8 - 32
    })
}

pub(super) fn nibble_runs(bytes: &[u8]) -> [u8; 256] {
    let mut codes = [0; 256];
    for (run, codes) in bytes.chunks_exact(32).zip(codes.chunks_exact_mut(64)) {
        nibble_halves(run, codes);
    }
    codes
}

/// Bit `k` of byte `l` becomes element `32k + l`.
pub(super) fn bit_planes(bytes: &[u8]) -> [u8; 256] {
    let mut bits = [0; 256];
    for (k, bits) in bits.chunks_exact_mut(32).enumerate() {
        for (bit, byte) in bits.iter_mut().zip(bytes) {
            *bit = byte >> k & 1;
        }
    }
    bits
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scale_pairs_take_every_bit_of_the_twelve_bytes_once() {
        let mut seen = 0;
        for bit in 0..96 {
            let mut bytes = [0; 12];
            bytes[bit / 8] = 1 << (bit % 8);
            let set: u32 =
                (0..8).map(|j| scale_pair(&bytes, j)).map(|(s, m)| s.count_ones() + m.count_ones()).sum();
            seen += u32::from(set == 1);
        }
        assert_eq!(seen, 96);
    }

    #[test]
    fn the_scales_of_q3_k_take_every_bit_once() {
        for bit in 0..96 {
            let mut bytes = [0; 12];
            bytes[bit / 8] = 1 << (bit % 8);
            let moved = q3_k_scales(&bytes).iter().filter(|&&scale| scale != -32).count();
            assert_eq!(moved, 1, "bit {bit}");
        }
        assert_eq!(q3_k_scales(&[0xff; 12]), [31; 16]);
    }
}
