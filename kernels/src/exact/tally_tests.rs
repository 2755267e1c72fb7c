//! Blocks that are summed in fours, held against the definition; and whether they are summed so.

#![allow(clippy::print_stderr, reason = "a test that leaves something out has to say so")]

use super::Exact;
use super::tally_blocks::Fours;
use crate::simd::Simd;
use scantling_core::dtype::DType;
use scantling_core::kernel::Kernel;
use scantling_core::quant;
use scantling_core::stats::piece::{Piece, tally_by};

const TYPES: [DType; 3] = [DType::Q4_K, DType::Q5_K, DType::Q6_K];
const BLOCKS: usize = 64;

/// Any bytes.
struct Any(u64);

impl Any {
    fn next(&mut self) -> u8 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 56) as u8
    }
}

/// Blocks with scales and minima about as large as those of models, and any codes and factors.
fn plausible(dtype: DType, seed: u64) -> Vec<u8> {
    let mut any = Any(seed);
    let mut raw: Vec<u8> = (0..BLOCKS * dtype.block_bytes()).map(|_| any.next()).collect();
    for block in raw.chunks_exact_mut(dtype.block_bytes()) {
        let f16 = |exponent: u8, any: u8| [any.wrapping_mul(77), exponent << 2 | any & 3];
        if dtype == DType::Q6_K {
            block[208..].copy_from_slice(&f16(6 + any.next() % 3, any.next()));
            // Smaller ones than -128 and 127 for most shares, and one of -128.
            block[192..208].iter_mut().for_each(|scale| *scale = ((*scale as i8 / 2) | 1) as u8);
            block[192 + usize::from(any.next() % 16)] = 0x80;
        } else {
            let of_scale = 3 + any.next() % 3;
            block[..2].copy_from_slice(&f16(of_scale, any.next()));
            block[2..4].copy_from_slice(&f16(of_scale + any.next() % 6, any.next()));
        }
    }
    raw
}

fn blocks(dtype: DType, raw: &mut [u8]) -> impl Iterator<Item = &mut [u8]> {
    raw.chunks_exact_mut(dtype.block_bytes())
}

/// Holds a tally against the definition, and tells how many blocks were summed in fours before the first that were not.
fn taken<S: Simd>(s: S, dtype: DType, raw: &[u8], what: &str) -> usize {
    let decode = |raw: &[u8], out: &mut [f32]| quant::decode(dtype, raw, out);
    let expected = tally_by(dtype, raw, decode).unwrap();
    let found = Exact::new("", s).tally(dtype, raw).unwrap();
    assert_eq!(found, expected, "{dtype} {what}");
    assert_eq!(found.mean.to_bits(), expected.mean.to_bits(), "{dtype} {what}");
    assert_eq!(found.spread.to_bits(), expected.spread.to_bits(), "{dtype} {what}");
    let mut piece = Piece::new(dtype, raw).unwrap();
    s.run(Fours { dtype, raw, piece: &mut piece }) / dtype.block_bytes()
}

fn all<S: Simd>(s: S) {
    for dtype in TYPES {
        let six = dtype == DType::Q6_K;
        for seed in 0..20 {
            let raw = plausible(dtype, seed);
            assert_eq!(taken(s, dtype, &raw, "plausible"), BLOCKS);
            let part = &raw[..dtype.block_bytes() * 7];
            assert_eq!(taken(s, dtype, part, "not a multiple of four"), 4);
        }
        zeros(s, dtype);
        limits(s, dtype);
        extremes(s, dtype);
        for (i, at) in [0, 3, 4, 9, BLOCKS - 1].into_iter().enumerate() {
            let mut raw = plausible(dtype, i as u64);
            let block = blocks(dtype, &mut raw).nth(at).unwrap();
            let upper = if six { 209 } else { 1 + i % 2 * 2 };
            block[upper] = 0x7c;
            assert_eq!(taken(s, dtype, &raw, "not finite"), at / 4 * 4);
            let block = blocks(dtype, &mut raw).nth(at).unwrap();
            if six {
                block[209] = 0x84;
                assert_eq!(taken(s, dtype, &raw, "negative"), BLOCKS);
                continue;
            }
            block[upper] = 0x90;
            assert_eq!(taken(s, dtype, &raw, "negative"), at / 4 * 4);
            let block = blocks(dtype, &mut raw).nth(at).unwrap();
            (block[1], block[3]) = if i % 2 == 0 { (4 << 2, 10 << 2) } else { (10 << 2, 7 << 2) };
            assert_eq!(taken(s, dtype, &raw, "far apart"), at / 4 * 4);
        }
    }
}

/// Factors of zero in some shares, and minima that are multiples of scales.
fn zeros<S: Simd>(s: S, dtype: DType) {
    let mut raw = plausible(dtype, 5);
    for (i, block) in blocks(dtype, &mut raw).enumerate().filter(|(i, _)| i % 3 == 0) {
        match (dtype, i % 4) {
            (DType::Q6_K, 0) => block[208..].fill(0),
            (DType::Q6_K, _) => block[192 + i % 16] = 0,
            (_, 0) => block[i / 4 % 2 * 2..][..2].fill(0),
            (_, 1) => block[4 + i % 8] &= 0xc0,
            // Minima of the first four shares that are scales times 0, 1, 2 and 3.
            (_, _) => {
                block.copy_within(..2, 2);
                for j in 0..4 {
                    block[4 + j] = 11 | 0x40;
                    block[8 + j] = (11 * j as u8) | 0x80;
                }
            }
        }
    }
    assert_eq!(taken(s, dtype, &raw, "zeros"), BLOCKS);
    raw.fill(0);
    assert_eq!(taken(s, dtype, &raw, "nothing but zeros"), BLOCKS);
}

/// Each share in its turn goes beyond what was seen, by its smallest or its largest code, at any place.
fn limits<S: Simd>(s: S, dtype: DType) {
    let mut raw = plausible(dtype, 8);
    let (head, tail) = match dtype {
        DType::Q4_K => (16, 0),
        DType::Q5_K => (48, 0),
        _ => (0, 18),
    };
    for (i, block) in blocks(dtype, &mut raw).enumerate() {
        let end = block.len() - tail;
        // The same scales and minima for all shares, and codes from the middle.
        match dtype {
            DType::Q6_K => block[192..].fill(0x19),
            _ => block[..16].copy_from_slice(&[&[0, 0x0c, 0, 0x0d][..], &[33; 8], &[0x11; 4]].concat()),
        }
        block[head..end].fill(0x77);
        if dtype == DType::Q5_K {
            block[16..48].fill(0x55);
        }
        let at = head + (37 * i + i / 3) % (end - head);
        block[at] = [0x7f, 0x07, 0xf7, 0x70][i % 4];
    }
    assert_eq!(taken(s, dtype, &raw, "limits"), BLOCKS);
    raw.reverse();
    taken(s, dtype, &raw, "backwards");
    raw.reverse();
    // One more each time.
    for (i, block) in blocks(dtype, &mut raw).enumerate() {
        let upper = if dtype == DType::Q6_K { 208 } else { 0 };
        block[upper] = i as u8;
    }
    assert_eq!(taken(s, dtype, &raw, "growing"), BLOCKS);
}

/// The largest codes and factors there are.
fn extremes<S: Simd>(s: S, dtype: DType) {
    for fill in [0, 0xff] {
        let mut raw = vec![fill; BLOCKS * dtype.block_bytes()];
        for (i, block) in blocks(dtype, &mut raw).enumerate() {
            match dtype {
                DType::Q6_K => {
                    block[192..208].fill(if i < 32 { 0x7f } else { 0x80 });
                    block[208..].copy_from_slice(&[0, 0x20]);
                }
                _ => {
                    let of_scale = 5 + (i % 4) as u8;
                    let apart = (if dtype == DType::Q4_K { 0 } else { 1 } + i / 4 % 6).min(6) as u8;
                    let of_minimum = of_scale + apart - u8::from(dtype == DType::Q5_K);
                    block[..16].fill(0xff);
                    block[1] = of_scale << 2 | 3;
                    block[3] = of_minimum << 2 | 3;
                }
            }
        }
        let expected = if dtype == DType::Q6_K && fill == 0 { 32 } else { BLOCKS };
        assert_eq!(taken(s, dtype, &raw, "extremes"), expected, "{fill}");
        if dtype == DType::Q6_K {
            // Squares beyond 2⁵³ steps.
            blocks(dtype, &mut raw).skip(16).for_each(|block| block[208..].copy_from_slice(&[0xff, 0x23]));
            assert_eq!(taken(s, dtype, &raw, "large squares"), 16, "{fill}");
        }
    }
}

#[test]
fn avx2() {
    // Where the processor lacks the instructions there is nothing to be tried.
    if let Ok(s) = crate::x86::avx2::Avx2::detect() {
        all(s);
    }
}

#[test]
fn avx512() {
    // Where the processor lacks the instructions there is nothing to be tried.
    if let Ok(s) = crate::x86::avx512::Avx512::detect() {
        all(s);
    }
}
