//! Blocks taken apart into scales, minima and codes, without putting them together: for whoever asks how well a type is
//! used.
//!
//! A *scale* is what a code is multiplied by, after all of its own factors: `d * scale` of the K types. A *minimum* is
//! what is taken away from the products, so that of the `_1` types, which add `m`, it is `-m`. A *code* is the number
//! that is stored: before a constant is taken away from it, and of a codebook the number of the entry.

use super::codebooks::IQ1;
use super::k::{bit_planes, nibble_runs, q3_k_scales, scale_pair};
use super::q_legacy::{five_bits, four_bits};
use super::{f16_at, half_e8m0, half_ue4m3, iq, nibble, nibble_halves, two_bit_planes, u16_at, u32_at};
use crate::dtype::DType;
use half::f16;

/// A block taken apart. Only as many entries as [`Anatomy`] tells mean anything.
#[derive(Clone, Debug)]
pub struct Parts {
    /// Scales of the sub-blocks.
    pub scales: [f32; 16],
    /// Their minima.
    pub minima: [f32; 16],
    /// Codes.
    pub codes: [u16; 256],
}

impl Default for Parts {
    fn default() -> Parts {
        Parts { scales: [0.0; 16], minima: [0.0; 16], codes: [0; 256] }
    }
}

/// What the blocks of a type are made of.
#[derive(Clone, Copy, Debug)]
pub struct Anatomy {
    /// Scales of a block.
    pub scales: usize,
    /// Minima of a block: as many, or none.
    pub minima: usize,
    /// Codes of a block.
    pub codes: usize,
    /// Codes that there are: they are numbers below this.
    pub levels: usize,
    /// What the code 0 stands for, where codes are signed numbers counted from the smallest.
    pub lowest: i32,
    take: fn(&[u8], &mut Parts),
}

impl Anatomy {
    /// Of a block type; `None` for all others.
    pub fn of(dtype: DType) -> Option<Anatomy> {
        let (scales, minima, codes, levels, take): (_, _, _, _, fn(&[u8], &mut Parts)) = match dtype {
            DType::Q4_0 => (1, 0, 32, 16, q4_0),
            DType::Q4_1 => (1, 1, 32, 16, q4_1),
            DType::Q5_0 => (1, 0, 32, 32, q5_0),
            DType::Q5_1 => (1, 1, 32, 32, q5_1),
            DType::Q8_0 => (1, 0, 32, 256, q8_0),
            DType::Q8_1 => (1, 0, 32, 256, q8_1),
            DType::Q2_K => (16, 16, 256, 4, q2_k),
            DType::Q3_K => (16, 0, 256, 8, q3_k),
            DType::Q4_K => (8, 8, 256, 16, q4_k),
            DType::Q5_K => (8, 8, 256, 32, q5_k),
            DType::Q6_K => (16, 0, 256, 64, q6_k),
            DType::Q8_K => (1, 0, 256, 256, q8_k),
            DType::IQ2_XXS => (8, 0, 32, 256, iq2_xxs),
            DType::IQ2_XS => (16, 0, 32, 512, iq2_xs),
            DType::IQ2_S => (16, 0, 32, 1024, iq2_s),
            DType::IQ3_XXS => (8, 0, 64, 256, iq3_xxs),
            DType::IQ3_S => (8, 0, 64, 512, iq3_s),
            DType::IQ1_S => (8, 0, 32, IQ1.len(), iq1_s),
            DType::IQ1_M => (16, 0, 32, IQ1.len(), iq1_m),
            DType::IQ4_NL => (1, 0, 32, 16, q4_0),
            DType::IQ4_XS => (8, 0, 256, 16, iq4_xs),
            DType::MXFP4 => (1, 0, 32, 16, mxfp4),
            DType::NVFP4 => (4, 0, 64, 16, nvfp4),
            DType::TQ1_0 => (1, 0, 256, 3, tq1_0),
            DType::TQ2_0 => (1, 0, 256, 4, tq2_0),
            DType::Q1_0 => (1, 0, 128, 2, q1_0),
            DType::Q2_0 => (1, 0, 64, 4, q2_0),
            _ => return None,
        };
        let lowest = if matches!(dtype, DType::Q8_0 | DType::Q8_1 | DType::Q8_K) { -128 } else { 0 };
        Some(Anatomy { scales, minima, codes, levels, lowest, take })
    }

    /// Takes one whole block apart.
    pub fn take(&self, block: &[u8], parts: &mut Parts) {
        (self.take)(block, parts);
    }
}

fn put<T: Copy + Into<u16>>(codes: &[T], p: &mut Parts) {
    put_at(0, codes, p);
}

fn put_at<T: Copy + Into<u16>>(at: usize, codes: &[T], p: &mut Parts) {
    for (to, code) in p.codes[at..].iter_mut().zip(codes) {
        *to = (*code).into();
    }
}

/// Signed bytes, counted from the smallest.
fn put_signed(bytes: &[u8], p: &mut Parts) {
    for (to, byte) in p.codes.iter_mut().zip(bytes) {
        *to = u16::from(byte ^ 0x80);
    }
}

fn q4_0(b: &[u8], p: &mut Parts) {
    p.scales[0] = f16_at(b, 0);
    put(&four_bits(&b[2..18]), p);
}

fn q4_1(b: &[u8], p: &mut Parts) {
    (p.scales[0], p.minima[0]) = (f16_at(b, 0), -f16_at(b, 2));
    put(&four_bits(&b[4..20]), p);
}

fn q5_0(b: &[u8], p: &mut Parts) {
    p.scales[0] = f16_at(b, 0);
    put(&five_bits(u32_at(b, 2), &b[6..22]), p);
}

fn q5_1(b: &[u8], p: &mut Parts) {
    (p.scales[0], p.minima[0]) = (f16_at(b, 0), -f16_at(b, 2));
    put(&five_bits(u32_at(b, 4), &b[8..24]), p);
}

fn q8_0(b: &[u8], p: &mut Parts) {
    p.scales[0] = f16_at(b, 0);
    put_signed(&b[2..34], p);
}

fn q8_1(b: &[u8], p: &mut Parts) {
    p.scales[0] = f16_at(b, 0);
    put_signed(&b[4..36], p);
}

fn q2_k(b: &[u8], p: &mut Parts) {
    let (d, dm) = (f16_at(b, 80), f16_at(b, 82));
    for (j, both) in b[..16].iter().enumerate() {
        p.scales[j] = d * f32::from(both & 15);
        p.minima[j] = dm * f32::from(both >> 4);
    }
    put(&two_bit_planes(&b[16..80]), p);
}

fn q3_k(b: &[u8], p: &mut Parts) {
    let d = f16_at(b, 108);
    for (to, scale) in p.scales.iter_mut().zip(q3_k_scales(&b[96..108])) {
        *to = d * f32::from(scale);
    }
    let (low, high) = (two_bit_planes(&b[32..96]), bit_planes(&b[..32]));
    for (to, (low, high)) in p.codes.iter_mut().zip(low.iter().zip(high)) {
        *to = u16::from(low | high << 2);
    }
}

fn q4_k(b: &[u8], p: &mut Parts) {
    pairs(b, p);
    put(&nibble_runs(&b[16..144]), p);
}

fn q5_k(b: &[u8], p: &mut Parts) {
    pairs(b, p);
    let (low, high) = (nibble_runs(&b[48..176]), bit_planes(&b[16..48]));
    for (to, (low, high)) in p.codes.iter_mut().zip(low.iter().zip(high)) {
        *to = u16::from(low | high << 4);
    }
}

/// Scales and minima of Q4_K and Q5_K.
fn pairs(b: &[u8], p: &mut Parts) {
    let (d, dm) = (f16_at(b, 0), f16_at(b, 2));
    for j in 0..8 {
        let (scale, minimum) = scale_pair(&b[4..16], j);
        (p.scales[j], p.minima[j]) = (d * f32::from(scale), dm * f32::from(minimum));
    }
}

fn q6_k(b: &[u8], p: &mut Parts) {
    let d = f16_at(b, 208);
    for (to, scale) in p.scales.iter_mut().zip(&b[192..208]) {
        *to = d * f32::from(*scale as i8);
    }
    put(&two_bit_planes(&b[128..192]), p);
    let mut nibbles = [0; 256];
    for (low, nibbles) in b[..128].chunks_exact(64).zip(nibbles.chunks_exact_mut(128)) {
        nibble_halves(low, nibbles);
    }
    for (to, nibble) in p.codes.iter_mut().zip(nibbles) {
        *to = *to << 4 | u16::from(nibble);
    }
}

fn q8_k(b: &[u8], p: &mut Parts) {
    p.scales[0] = f32::from_bits(u32_at(b, 0));
    put_signed(&b[4..260], p);
}

fn iq2_xxs(b: &[u8], p: &mut Parts) {
    let d = f16_at(b, 0);
    for (j, pair) in b[2..66].chunks_exact(8).enumerate() {
        p.scales[j] = iq::iq2_scale(d, (u32_at(pair, 4) >> 28) as u8);
        put_at(4 * j, &pair[..4], p);
    }
}

fn iq2_xs(b: &[u8], p: &mut Parts) {
    iq2_scales(f16_at(b, 0), &b[66..74], p);
    for i in 0..32 {
        p.codes[i] = u16_at(b, 2 + 2 * i) & 511;
    }
}

fn iq2_s(b: &[u8], p: &mut Parts) {
    iq2_scales(f16_at(b, 0), &b[74..82], p);
    for i in 0..32 {
        p.codes[i] = u16::from(b[2 + i]) | u16::from(b[66 + i / 4] >> (2 * (i % 4)) & 3) << 8;
    }
}

fn iq2_scales(d: f32, nibbles: &[u8], p: &mut Parts) {
    for (j, to) in p.scales.iter_mut().enumerate() {
        *to = iq::iq2_scale(d, nibble(nibbles, j));
    }
}

fn iq3_xxs(b: &[u8], p: &mut Parts) {
    let d = f16_at(b, 0);
    for j in 0..8 {
        p.scales[j] = (d * (0.5 + (u32_at(b, 66 + 4 * j) >> 28) as f32)) * 0.5;
    }
    put(&b[2..66], p);
}

fn iq3_s(b: &[u8], p: &mut Parts) {
    let d = f16_at(b, 0);
    for j in 0..8 {
        p.scales[j] = d * (1.0 + 2.0 * f32::from(nibble(&b[106..110], j)));
    }
    for i in 0..64 {
        p.codes[i] = u16::from(b[2 + i]) | u16::from(b[66 + i / 8] >> (i % 8) & 1) << 8;
    }
}

fn iq1_s(b: &[u8], p: &mut Parts) {
    let d = f16_at(b, 0);
    for i in 0..32 {
        let word = u16_at(b, 34 + 2 * (i / 4));
        p.scales[i / 4] = iq::iq1_scale(d, word >> 12 & 7);
        p.codes[i] = u16::from(b[2 + i]) | (word >> (3 * (i % 4)) & 7) << 8;
    }
}

fn iq1_m(b: &[u8], p: &mut Parts) {
    let word = |i: usize| u16_at(b, 48 + 2 * i);
    let d = f16::from_bits((0..4).rev().fold(0, |bits, i| bits << 4 | word(i) >> 12)).to_f32();
    for j in 0..16 {
        p.scales[j] = iq::iq1_scale(d, word(j / 4) >> (3 * (j % 4)) & 7);
    }
    for i in 0..32 {
        p.codes[i] = u16::from(b[i]) | u16::from(nibble(&b[32..48], i) & 7) << 8;
    }
}

fn iq4_xs(b: &[u8], p: &mut Parts) {
    let (d, high) = (f16_at(b, 0), u16_at(b, 2));
    for (i, nibbles) in b[8..136].chunks_exact(16).enumerate() {
        let scale = u16::from(nibble(&b[4..8], i)) | (high >> (2 * i) & 3) << 4;
        p.scales[i] = d * (f32::from(scale) - 32.0);
        put_at(32 * i, &four_bits(nibbles), p);
    }
}

fn mxfp4(b: &[u8], p: &mut Parts) {
    p.scales[0] = 2.0 * half_e8m0(b[0]);
    put(&four_bits(&b[1..17]), p);
}

fn nvfp4(b: &[u8], p: &mut Parts) {
    for (g, nibbles) in b[4..36].chunks_exact(8).enumerate() {
        p.scales[g] = 2.0 * half_ue4m3(b[g]);
        let mut codes = [0; 16];
        nibble_halves(nibbles, &mut codes);
        put_at(16 * g, &codes, p);
    }
}

fn tq2_0(b: &[u8], p: &mut Parts) {
    p.scales[0] = f16_at(b, 64);
    put(&two_bit_planes(&b[..64]), p);
}

fn tq1_0(b: &[u8], p: &mut Parts) {
    p.scales[0] = f16_at(b, 52);
    for (at, bytes) in [(0, &b[..32]), (160, &b[32..48]), (240, &b[48..52])] {
        let digits = if at == 240 { 4 } else { 5 };
        for (n, power) in [1u8, 3, 9, 27, 81].into_iter().enumerate().take(digits) {
            for (i, byte) in bytes.iter().enumerate() {
                p.codes[at + n * bytes.len() + i] = (u16::from(byte.wrapping_mul(power)) * 3) >> 8;
            }
        }
    }
}

fn q1_0(b: &[u8], p: &mut Parts) {
    p.scales[0] = f16_at(b, 0);
    for i in 0..128 {
        p.codes[i] = u16::from(b[2 + i / 8] >> (i % 8) & 1);
    }
}

fn q2_0(b: &[u8], p: &mut Parts) {
    p.scales[0] = f16_at(b, 0);
    for i in 0..64 {
        p.codes[i] = u16::from(b[2 + i / 4] >> (2 * (i % 4)) & 3);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// What a code of a type stands for, before its scale; `None` where it is the number of a longer entry.
    fn meaning(dtype: DType, code: u16) -> Option<f32> {
        use super::super::codebooks::{E2M1_DOUBLED, IQ4};
        let c = f32::from(code);
        Some(match dtype {
            DType::Q4_0 => c - 8.0,
            DType::Q5_0 => c - 16.0,
            DType::Q6_K => c - 32.0,
            DType::Q3_K => c - 4.0,
            DType::Q8_0 | DType::Q8_1 | DType::Q8_K => c - 128.0,
            DType::TQ1_0 | DType::TQ2_0 | DType::Q2_0 => c - 1.0,
            DType::Q1_0 => 2.0 * c - 1.0,
            DType::Q4_1 | DType::Q5_1 | DType::Q2_K | DType::Q4_K | DType::Q5_K => c,
            DType::IQ4_NL | DType::IQ4_XS => f32::from(IQ4[usize::from(code)]),
            DType::MXFP4 | DType::NVFP4 => f32::from(E2M1_DOUBLED[usize::from(code)]) * 0.5,
            _ => return None,
        })
    }

    proptest! {
        /// Codecs put blocks together by code of their own: from what was taken apart comes the same.
        #[test]
        fn parts_make_up_the_values(bytes in prop::collection::vec(any::<u8>(), 292)) {
            let mut types = 0;
            for (dtype, anatomy) in DType::all().filter_map(|d| Some((d, Anatomy::of(d)?))) {
                prop_assert!(dtype.is_quantised());
                types += 1;
                let block = &bytes[..dtype.block_bytes()];
                let (mut parts, mut values) = (Parts::default(), vec![0.0; dtype.block_values()]);
                anatomy.take(block, &mut parts);
                super::super::decode(dtype, block, &mut values).unwrap();
                let codes = &parts.codes[..anatomy.codes];
                prop_assert!(codes.iter().all(|c| usize::from(*c) < anatomy.levels), "{}", dtype);
                let share = values.len() / anatomy.scales;
                for (i, &x) in values.iter().enumerate() {
                    let (scale, minimum) = (parts.scales[i / share], parts.minima[i / share]);
                    if !(scale.is_finite() && minimum.is_finite()) {
                        continue;
                    }
                    let minimum = if anatomy.minima > 0 { minimum } else { 0.0 };
                    match meaning(dtype, *codes.get(i).unwrap_or(&0)) {
                        Some(code) => prop_assert!(x == scale * code - minimum, "{} {}: {}", dtype, i, x),
                        None => prop_assert!(magnitude_fits(dtype, codes, scale, i, x), "{} {}: {}", dtype, i, x),
                    }
                }
            }
            prop_assert_eq!(types, DType::all().filter(|d| d.is_quantised()).count());
        }
    }

    /// Of a codebook's entry, signs are stored beside it, or a shift.
    fn magnitude_fits(dtype: DType, codes: &[u16], scale: f32, i: usize, x: f32) -> bool {
        use super::super::codebooks::*;
        let (code8, code4) = (usize::from(codes[i / 8]), codes.get(i / 4).map_or(0, |c| usize::from(*c)));
        let entry = match dtype {
            DType::IQ2_XXS => IQ2_XXS[code8][i % 8],
            DType::IQ2_XS => IQ2_XS[code8][i % 8],
            DType::IQ2_S => IQ2_S[code8][i % 8],
            DType::IQ3_XXS => IQ3_XXS[code4][i % 4],
            DType::IQ3_S => IQ3_S[code4][i % 4],
            _ => {
                let entry = f32::from(IQ1[code8][i % 8]);
                return x == scale * (entry + 0.125) || x == scale * (entry - 0.125);
            }
        };
        x.abs() == (scale * f32::from(entry)).abs()
    }
}
