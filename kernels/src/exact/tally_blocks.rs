//! Sums of blocks by their codes, where they have the same bits as sums of the numbers.

use crate::parts::{self, Block, Parts, Visit};
use crate::simd::{Four, Op, Simd};
use scantling_core::dtype::DType;
use scantling_core::stats::piece::{BLOCKS, Piece};

/// Adds a run of blocks by their codes, if the sums come out exact so.
pub(super) struct Codes<'a> {
    pub dtype: DType,
    pub raw: &'a [u8],
    pub piece: &'a mut Piece,
}

impl Op for Codes<'_> {
    type Out = bool;

    #[inline(always)]
    fn call<S: Simd>(self, s: S) -> bool {
        let Some(range) = codes_of(self.dtype) else { return false };
        let Codes { dtype, raw, piece } = self;
        parts::visit(dtype, Run { s, dtype, raw, piece, range }).unwrap_or(false)
    }
}

/// Adds runs of four blocks by sums of their codes, while there is such a way and they come out exact. Tells the bytes
/// that are behind it.
pub(super) struct Fours<'a> {
    pub dtype: DType,
    pub raw: &'a [u8],
    pub piece: &'a mut Piece,
}

impl Op for Fours<'_> {
    type Out = usize;

    #[inline(always)]
    fn call<S: Simd>(self, s: S) -> usize {
        let Fours { dtype, raw, piece } = self;
        match dtype {
            DType::Q4_K => fours::<S, 144>(s, DType::Q4_K, raw, piece),
            DType::Q5_K => fours::<S, 176>(s, DType::Q5_K, raw, piece),
            DType::Q6_K => fours::<S, 210>(s, DType::Q6_K, raw, piece),
            _ => 0,
        }
    }
}

#[inline(always)]
fn fours<S: Simd, const N: usize>(s: S, dtype: DType, raw: &[u8], piece: &mut Piece) -> usize {
    let mut done = 0;
    for blocks in raw.as_chunks::<N>().0.as_chunks::<4>().0 {
        if !add_four(s, dtype, blocks, piece) {
            break;
        }
        done += 4 * N;
    }
    done
}

#[inline(always)]
fn add_four<S: Simd, const N: usize>(s: S, dtype: DType, blocks: &[[u8; N]; 4], piece: &mut Piece) -> bool {
    let minima = dtype != DType::Q6_K;
    let mut fit = true;
    for block in blocks {
        fit &= if minima { minima_fit(dtype, block) } else { block[209] >> 2 & 31 < 31 };
    }
    if !fit {
        return false;
    }
    let (min, max) = piece.limits();
    let Some(four) = s.four_blocks(dtype, blocks.as_flattened(), [min, max]) else { return false };
    if !minima {
        fit &= four.whole;
        for (squares, block) in four.squares.iter().zip(blocks) {
            fit &= *squares < most(dtype, block);
        }
        if !fit {
            return false;
        }
    }
    let mut count = 0;
    if four.odd == 0 {
        for zeros in four.zeros {
            count += u64::from(zeros);
        }
    } else {
        count = zeros_of(s, dtype, blocks.as_flattened(), &four);
    }
    let [min, max] = four.limits;
    piece.add_known((4 * CODES) as u64, min, max, count);
    piece.add_blocks(&four.sums, &four.squares);
    true
}

/// Counts zeros where a share may have another code for them than others.
#[inline(never)]
fn zeros_of<S: Simd>(s: S, dtype: DType, raw: &[u8], four: &Four) -> u64 {
    let mut count = s.run(Zeros { dtype, raw, of: four.odd });
    for (i, zeros) in four.zeros.iter().enumerate() {
        count += if four.odd >> i & 1 == 0 { u64::from(*zeros) } else { 0 };
    }
    count
}

/// Counts zeros of some of the blocks of 256.
struct Zeros<'a> {
    dtype: DType,
    raw: &'a [u8],
    of: u32,
}

impl Op for Zeros<'_> {
    type Out = u64;

    #[inline(always)]
    fn call<S: Simd>(self, s: S) -> u64 {
        let Zeros { dtype, raw, of } = self;
        parts::visit(dtype, ZerosOf { s, raw, of }).unwrap_or_default()
    }
}

struct ZerosOf<'a, S> {
    s: S,
    raw: &'a [u8],
    of: u32,
}

impl<S: Simd> Visit for ZerosOf<'_, S> {
    type Out = u64;

    #[inline(always)]
    fn visit<B: Block>(self) -> u64 {
        let (mut all, mut count) = (Parts::new(), 0);
        for (i, block) in B::blocks(self.raw).iter().enumerate() {
            if self.of >> i & 1 == 1 {
                B::unpack(self.s, block, &mut all);
                count += counted::<B>(&all);
            }
        }
        count
    }
}

/// The smallest and the largest code of a type whose scales are small multiples of an f16 or have few bits themselves, so
/// that products with codes are exact in f32, and sums of their squares in f64.
fn codes_of(dtype: DType) -> Option<[f32; 2]> {
    Some(match dtype {
        DType::Q4_0 => [-8.0, 7.0],
        DType::Q5_0 => [-16.0, 15.0],
        DType::Q4_1 | DType::Q4_K => [0.0, 15.0],
        DType::Q5_1 | DType::Q5_K => [0.0, 31.0],
        DType::Q8_0 | DType::Q8_1 => [-127.0, 127.0],
        DType::Q2_K => [0.0, 3.0],
        DType::Q3_K => [-4.0, 3.0],
        DType::Q6_K => [-32.0, 31.0],
        DType::IQ2_XXS | DType::IQ2_XS | DType::IQ2_S => [-43.0, 43.0],
        DType::IQ3_XXS => [-62.0, 62.0],
        DType::IQ3_S => [-15.0, 15.0],
        DType::IQ1_S | DType::IQ1_M => [-9.0, 9.0],
        DType::IQ4_NL | DType::IQ4_XS => [-127.0, 113.0],
        DType::MXFP4 | DType::NVFP4 => [-12.0, 12.0],
        DType::TQ1_0 | DType::Q1_0 => [-1.0, 1.0],
        DType::TQ2_0 | DType::Q2_0 => [-1.0, 2.0],
        _ => return None,
    })
}

/// Scales beyond these may make values that are infinite or subnormal.
const TINY: f32 = f32::from_bits((127 - 100) << 23);
const HUGE: f32 = f32::from_bits((127 + 100) << 23);

/// Codes that are summed at a time: those of one block of 256, or of several smaller ones.
const CODES: usize = 256;

struct Run<'a, S> {
    s: S,
    dtype: DType,
    raw: &'a [u8],
    piece: &'a mut Piece,
    range: [f32; 2],
}

/// What is known of the numbers of a run.
struct Known {
    min: f32,
    max: f32,
    zeros: u64,
}

impl<S: Simd> Visit for Run<'_, S> {
    type Out = bool;

    #[inline(always)]
    fn visit<B: Block>(self) -> bool {
        let Run { s, dtype, raw, piece, range } = self;
        let each = CODES / B::VALUES;
        let blocks = B::blocks(raw);
        if !blocks.len().is_multiple_of(each) {
            return false;
        }
        let (mut sums, mut squares) = ([0.0; BLOCKS], [0.0; BLOCKS]);
        let (min, max) = piece.limits();
        let mut known = Known { min, max, zeros: 0 };
        let mut all = Parts::new();
        let places = sums.chunks_exact_mut(each).zip(squares.chunks_exact_mut(each));
        let bytes = raw.chunks_exact(each * size_of::<B::Bytes>());
        for ((some, raw), (sums, squares)) in blocks.chunks_exact(each).zip(bytes).zip(places) {
            if B::MINIMA {
                for block in raw.chunks_exact(size_of::<B::Bytes>()) {
                    if !minima_fit(dtype, block) {
                        return false;
                    }
                }
            }
            gather::<S, B>(s, some, &mut all);
            if !in_range::<B>(&all) {
                return false;
            }
            if range[1] == 127.0 && all.codes.contains(&-128) {
                return false;
            }
            add::<S, B>(s, &all, sums, squares);
            if matches!(dtype, DType::Q6_K | DType::IQ4_XS) && squares[0] >= most(dtype, raw) {
                return false;
            }
            limits::<B>(&all, range, &mut known);
            known.zeros += zeros::<B>(&all);
        }
        let count = blocks.len();
        piece.add_known((count * B::VALUES) as u64, known.min, known.max, known.zeros);
        piece.add_blocks(&sums[..count], &squares[..count]);
        true
    }
}

/// Takes blocks apart, one behind the other.
#[inline(always)]
fn gather<S: Simd, B: Block>(s: S, blocks: &[B::Bytes], all: &mut Parts) {
    if B::VALUES == CODES {
        return B::unpack(s, &blocks[0], all);
    }
    let shares = B::VALUES / B::SHARE;
    let mut one = Parts::new();
    for (i, block) in blocks.iter().enumerate() {
        B::unpack(s, block, &mut one);
        all.codes[i * B::VALUES..][..B::VALUES].copy_from_slice(&one.codes[..B::VALUES]);
        all.scales[i * shares..][..shares].copy_from_slice(&one.scales[..shares]);
        all.minima[i * shares..][..shares].copy_from_slice(&one.minima[..shares]);
    }
}

#[inline(always)]
fn in_range<B: Block>(all: &Parts) -> bool {
    let mut odd = 0;
    for x in &all.scales[..CODES / B::SHARE] {
        let size = x.abs();
        // NaN is neither.
        odd |= u32::from(!(size == 0.0 || (TINY..HUGE).contains(&size)));
    }
    odd == 0
}

/// Whether products less minima are exact in f32, and the sums of their squares in f64: scale and minimum of the whole block
/// have to be of about the same size. Both are f16; the limits follow from the bits of codes, scales and minima.
#[inline(always)]
fn minima_fit(dtype: DType, block: &[u8]) -> bool {
    let (at, [low, high]) = match dtype {
        DType::Q2_K => (80, [-6, 7]),
        DType::Q4_K => (0, [-1, 5]),
        DType::Q5_K => (0, [0, 5]),
        DType::Q4_1 => (0, [-8, 11]),
        DType::Q5_1 => (0, [-7, 11]),
        _ => return false,
    };
    let Some(&[a, b, c, d]) = block[at..].first_chunk() else { return false };
    let (scale, minimum) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
    let (of_scale, of_minimum) = (i32::from(scale >> 10 & 31), i32::from(minimum >> 10 & 31));
    // What is 0 has no size; a negative one of either makes larger differences, but where they are added anyway.
    let signed = ((scale | minimum) >> 15 == 1) & !matches!(dtype, DType::Q4_1 | DType::Q5_1);
    let apart = of_minimum.max(1) - of_scale.max(1);
    let alone = (scale << 1 == 0) | (minimum << 1 == 0);
    let finite = (of_scale < 31) & (of_minimum < 31);
    // None of them is dear, and branches are.
    finite & !signed & (alone | (low <= apart) & (apart <= high))
}

/// What the sum of squares of a block must be below to be exact: 2⁵³ squares of the step of its f16 scale.
#[inline(always)]
fn most(dtype: DType, block: &[u8]) -> f64 {
    let at = if dtype == DType::Q6_K { 208 } else { 0 };
    let exponent = i64::from(block[at + 1] >> 2 & 31).max(1);
    f64::from_bits(((1023 + 53 + 2 * (exponent - 25)) as u64) << 52)
}

/// Sums of the numbers of each block, and of their squares.
#[inline(always)]
fn add<S: Simd, B: Block>(s: S, all: &Parts, sums: &mut [f64], squares: &mut [f64]) {
    let (mut whole, mut square) = ([0; 16], [0; 16]);
    s.code_sums(&all.codes, &mut whole, &mut square);
    let (shares, runs) = (CODES / B::SHARE, B::SHARE / 16);
    let (mut first, mut second) = ([0.0; 16], [0.0; 16]);
    for j in 0..shares {
        let (mut sum, mut of_squares) = (0, 0);
        for run in j * runs..(j + 1) * runs {
            sum += whole[run];
            of_squares += square[run];
        }
        let (scale, sum) = (f64::from(all.scales[j]), f64::from(sum));
        first[j] = scale * sum;
        second[j] = scale * scale * f64::from(of_squares);
        if B::MINIMA {
            let (minimum, count) = (f64::from(all.minima[j]), B::SHARE as f64);
            // In this order nothing is rounded.
            second[j] = (second[j] + count * (minimum * minimum)) - 2.0 * minimum * first[j];
            first[j] -= count * minimum;
        }
    }
    let own = B::VALUES / B::SHARE;
    for (i, (sum, square)) in sums.iter_mut().zip(squares).enumerate() {
        let (mut a, mut b) = (0.0, 0.0);
        for j in i * own..(i + 1) * own {
            a += first[j];
            b += second[j];
        }
        (*sum, *square) = (a, b);
    }
}

/// Looks at the codes of a share only where its scale would let it exceed what was seen.
#[inline(always)]
fn limits<B: Block>(all: &Parts, range: [f32; 2], known: &mut Known) {
    let shares = CODES / B::SHARE;
    let mut beyond = 0;
    for j in 0..shares {
        let (scale, minimum) = (all.scales[j], if B::MINIMA { all.minima[j] } else { 0.0 });
        let (a, b) = (scale * range[0] - minimum, scale * range[1] - minimum);
        let (low, high) = (if a < b { a } else { b }, if a < b { b } else { a });
        beyond |= u32::from((low < known.min) | (high > known.max));
    }
    if beyond != 0 {
        exceed::<B>(all, known);
    }
}

#[inline(never)]
fn exceed<B: Block>(all: &Parts, known: &mut Known) {
    for (j, codes) in all.codes.chunks_exact(B::SHARE).enumerate() {
        let (scale, minimum) = (all.scales[j], if B::MINIMA { all.minima[j] } else { 0.0 });
        let (mut least, mut most) = (i8::MAX, i8::MIN);
        for code in codes {
            (least, most) = (least.min(*code), most.max(*code));
        }
        for code in [least, most] {
            let value = scale * f32::from(code) - minimum;
            known.min = known.min.min(value);
            known.max = known.max.max(value);
        }
    }
}

#[inline(always)]
fn zeros<B: Block>(all: &Parts) -> u64 {
    let shares = CODES / B::SHARE;
    let mut odd = 0;
    if B::MINIMA {
        for j in 0..shares {
            let (scale, minimum) = (all.scales[j], all.minima[j]);
            let code = (minimum / scale).round_ties_even();
            odd |= u32::from((code * scale == minimum) | (scale == 0.0));
        }
        return if odd == 0 { 0 } else { counted::<B>(all) };
    }
    for scale in &all.scales[..shares] {
        odd |= u32::from(*scale == 0.0);
    }
    if odd != 0 {
        return counted::<B>(all);
    }
    let mut counts = [0u8; 32];
    for codes in all.codes.as_chunks::<32>().0 {
        for (count, code) in counts.iter_mut().zip(codes) {
            *count += u8::from(*code == 0);
        }
    }
    let mut sum = 0;
    for count in counts {
        sum += u64::from(count);
    }
    sum
}

/// The same, a share at a time: of its codes one at most makes zero, or all do.
#[inline(never)]
fn counted<B: Block>(all: &Parts) -> u64 {
    let mut zeros = 0;
    for (j, codes) in all.codes.chunks_exact(B::SHARE).enumerate() {
        let (scale, minimum) = (all.scales[j], if B::MINIMA { all.minima[j] } else { 0.0 });
        if scale == 0.0 {
            zeros += if minimum == 0.0 { codes.len() as u64 } else { 0 };
            continue;
        }
        let wanted = (minimum / scale).round_ties_even();
        if wanted * scale == minimum && wanted.abs() < 128.0 {
            let wanted = wanted as i8;
            for codes in codes.as_chunks::<16>().0 {
                let mut count = 0u8;
                for code in codes {
                    count += u8::from(*code == wanted);
                }
                zeros += u64::from(count);
            }
        }
    }
    zeros
}
