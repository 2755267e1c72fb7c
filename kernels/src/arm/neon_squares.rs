//! Panels for products of matrices: eight codes of each of two outputs against eight activations of each of two rows.

use super::neon_dot8::Step;
use crate::int8::dot8::OUTPUTS;
use std::arch::aarch64::*;

/// Calls an intrinsic. The one reason for all of them: whoever calls has a proof of NEON.
macro_rules! neon {
    ($call:expr) => {{
        // SAFETY: registers only, and callers have a proof that the processor has the instruction.
        unsafe { $call }
    }};
}

/// Codes of each row, row after row, as those of eight elements of all rows, then those of the next eight.
#[inline(always)]
pub(super) fn eights(rows: &[[u8; 256]; OUTPUTS], to: &mut [[[u8; 4 * OUTPUTS]; 2]]) {
    for (r, row) in rows.iter().enumerate() {
        for (eight, to) in row.as_chunks::<8>().0.iter().zip(to.iter_mut()) {
            to.as_flattened_mut().as_chunks_mut::<8>().0[r] = *eight;
        }
    }
}

/// `runs + Σ codes · x` for each row of activations, of which two are taken at a time; an odd one is its own second.
#[inline(always)]
pub(super) fn squares<Q: Step, const R: usize>(
    s: Q,
    mut runs: [[int32x4_t; 4]; R],
    codes: &[[[u8; 4 * OUTPUTS]; 2]],
    x: &[[[u32; R]; 2]],
) -> [[int32x4_t; 4]; R] {
    // Of two rows, the sums of two outputs for the one and then for the other. The second half of the array is empty.
    let mut sums = [[neon!(vdupq_n_s32(0)); 8]; R];
    for (i, sums) in sums.iter_mut().enumerate().take(R.div_ceil(2)) {
        let (a, b) = (runs[2 * i], runs[second::<R>(i)]);
        for v in 0..4 {
            sums[2 * v] = neon!(vcombine_s32(vget_low_s32(a[v]), vget_low_s32(b[v])));
            sums[2 * v + 1] = neon!(vcombine_s32(vget_high_s32(a[v]), vget_high_s32(b[v])));
        }
    }
    for (codes, x) in codes.iter().zip(x) {
        let mut rows = [neon!(vdupq_n_s8(0)); R];
        for (i, rows) in rows.iter_mut().enumerate().take(R.div_ceil(2)) {
            let (low, high) = (two::<R>(&x[0], i), two::<R>(&x[1], i));
            *rows = neon!(vreinterpretq_s8_u32(vcombine_u32(vzip1_u32(low, high), vzip2_u32(low, high))));
        }
        for (v, codes) in codes.as_flattened().as_chunks::<16>().0.iter().enumerate() {
            // SAFETY: reads the 16 bytes that `codes` is. `s` proves NEON.
            let codes = unsafe { vld1q_s8(codes.as_ptr().cast()) };
            for i in 0..R.div_ceil(2) {
                sums[i][v] = s.add_square(sums[i][v], rows[i], codes);
            }
        }
    }
    for (i, sums) in sums.iter().enumerate().take(R.div_ceil(2)) {
        for v in 0..4 {
            let (a, b) = (sums[2 * v], sums[2 * v + 1]);
            runs[second::<R>(i)][v] = neon!(vcombine_s32(vget_high_s32(a), vget_high_s32(b)));
            runs[2 * i][v] = neon!(vcombine_s32(vget_low_s32(a), vget_low_s32(b)));
        }
    }
    runs
}

/// The second row of two.
#[inline(always)]
const fn second<const R: usize>(i: usize) -> usize {
    if 2 * i + 1 < R { 2 * i + 1 } else { 2 * i }
}

/// Four activations of each of two rows.
#[inline(always)]
fn two<const R: usize>(x: &[u32; R], i: usize) -> uint32x2_t {
    match x[2 * i..].first_chunk::<2>() {
        // SAFETY: reads the two numbers that `both` is. Callers have a proof of NEON.
        Some(both) => unsafe { vld1_u32(both.as_ptr()) },
        None => neon!(vdup_n_u32(x[2 * i])),
    }
}
