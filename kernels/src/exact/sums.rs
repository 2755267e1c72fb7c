//! Sums over runs of numbers, in lanes that are kept in registers: the bits that `core` defines.

use crate::simd::{Op, Simd};
use scantling_core::distance::{self, Accumulate, Distance, Run, Sums, folded};
use scantling_core::dtype::DType;
use scantling_core::stats::moments::{self, LANES, Moments};

/// Sums with these instructions.
#[derive(Clone, Copy)]
pub(super) struct Vectors<S>(pub S);

impl<S: Simd> moments::Summing for Vectors<S> {
    #[inline(always)]
    fn moments(self, values: &[f32]) -> Moments {
        let Vectors(s) = self;
        let mut lanes = Lanes::new(s);
        let (whole, rest) = values.as_chunks::<LANES>();
        for some in whole {
            let (some, _) = some.as_chunks();
            lanes.add(s, [s.eight(&some[0]), s.eight(&some[1])]);
        }
        let mut moments = lanes.moments(s);
        moments.add(0.0, rest);
        moments
    }
}

/// Sums of stored F16 or BF16, as [`Vectors`] has them of the widened numbers.
#[inline(always)]
pub(super) fn moments_of_halves<S: Simd>(s: S, dtype: DType, raw: &[u8]) -> Moments {
    let mut lanes = Lanes::new(s);
    let (whole, rest) = raw.as_chunks::<{ 2 * LANES }>();
    if dtype == DType::F16 {
        for some in whole {
            let (some, _) = some.as_chunks();
            lanes.add(s, [s.eight_f16(&some[0]), s.eight_f16(&some[1])]);
        }
    } else {
        for some in whole {
            let (some, _) = some.as_chunks();
            lanes.add(s, [s.eight_bf16(&some[0]), s.eight_bf16(&some[1])]);
        }
    }
    let mut moments = lanes.moments(s);
    let mut last = [0.0f32; LANES];
    let (rest, _) = rest.as_chunks();
    for (to, bits) in last.iter_mut().zip(rest) {
        let bits = u16::from_le_bytes(*bits);
        *to = if dtype == DType::F16 { s.f16(bits) } else { f32::from_bits(u32::from(bits) << 16) };
    }
    moments.add(0.0, &last[..rest.len()]);
    moments
}

/// [`Moments`] in registers.
struct Lanes<S: Simd> {
    sums: [S::Wide; 2],
    squares: [S::Wide; 2],
}

impl<S: Simd> Lanes<S> {
    #[inline(always)]
    fn new(s: S) -> Lanes<S> {
        Lanes { sums: [s.no_wide(); 2], squares: [s.no_wide(); 2] }
    }

    #[inline(always)]
    fn add(&mut self, s: S, some: [S::Eight; 2]) {
        for (i, x) in some.into_iter().enumerate() {
            let x = s.widened(x);
            self.sums[i] = s.add_wide(self.sums[i], x);
            self.squares[i] = s.add_square(x, self.squares[i]);
        }
    }

    #[inline(always)]
    fn moments(self, s: S) -> Moments {
        let mut moments = Moments::default();
        for i in 0..2 {
            moments.sums.as_chunks_mut().0[i] = s.wide_lanes(self.sums[i]);
            moments.squares.as_chunks_mut().0[i] = s.wide_lanes(self.squares[i]);
        }
        moments
    }
}

impl<S: Simd> distance::Summing for Vectors<S> {
    #[inline(always)]
    fn wide(self, a: &[f32], b: &[f32]) -> Sums {
        let Vectors(s) = self;
        let mut all = [s.no_wide(); 5];
        let (whole_a, rest_a) = a.as_chunks();
        let (whole_b, rest_b) = b.as_chunks();
        for (a, b) in whole_a.iter().zip(whole_b) {
            add_wide(s, &mut all, s.eight(a), s.eight(b));
        }
        if !rest_a.is_empty() {
            add_wide(s, &mut all, s.eight(&filled(rest_a)), s.eight(&filled(rest_b)));
        }
        let mut sums = [0.0; 5];
        for (sum, lanes) in sums.iter_mut().zip(all) {
            *sum = folded(s.wide_lanes(lanes));
        }
        extremes(s, a, b).with(sums)
    }

    #[inline(always)]
    fn narrow(self, a: &[f32], b: &[f32]) -> Sums {
        let Vectors(s) = self;
        let mut narrow = Narrow::new(s);
        let (whole_a, rest_a) = a.as_chunks();
        let (whole_b, rest_b) = b.as_chunks();
        for (a, b) in whole_a.iter().zip(whole_b) {
            narrow.add(s, a, b);
        }
        // Pairs of zeros add nothing to any of the sums.
        if !rest_a.is_empty() {
            narrow.add(s, &filled(rest_a), &filled(rest_b));
        }
        narrow.sums(s)
    }
}

/// Sums of pairs in registers, sixteen at a time.
struct Narrow<S: Simd> {
    /// As many registers as sixteen lanes take; of the narrowest vectors, all of them.
    sums: [[S::F; 4]; 5],
    largest: S::F,
    differing: S::F,
}

impl<S: Simd> Narrow<S> {
    #[inline(always)]
    fn new(s: S) -> Narrow<S> {
        let nothing = s.splat(0.0);
        Narrow { sums: [[nothing; 4]; 5], largest: nothing, differing: nothing }
    }

    #[inline(always)]
    fn add(&mut self, s: S, a: &[f32; 16], b: &[f32; 16]) {
        let (nothing, one) = (s.splat(0.0), s.splat(1.0));
        let (a, b) = (S::floats(a).0, S::floats(b).0);
        for i in 0..16 / S::LANES {
            let (a, b) = (s.load(&a[i]), s.load(&b[i]));
            let apart = s.sub(b, a);
            self.sums[0][i] = s.add(self.sums[0][i], apart);
            self.sums[1][i] = s.add(self.sums[1][i], s.mul(apart, apart));
            self.sums[2][i] = s.add(self.sums[2][i], s.mul(a, a));
            self.sums[3][i] = s.add(self.sums[3][i], s.mul(b, b));
            self.sums[4][i] = s.add(self.sums[4][i], s.mul(a, b));
            let size = s.abs(apart);
            self.largest = s.max(self.largest, size);
            self.differing = s.add(self.differing, s.if_less(nothing, size, one, nothing));
        }
    }

    #[inline(always)]
    fn sums(self, s: S) -> Sums {
        let mut sums = [0.0; 5];
        for (sum, registers) in sums.iter_mut().zip(self.sums) {
            let mut lanes = [0.0f32; 16];
            for (lanes, some) in S::floats_mut(&mut lanes).0.iter_mut().zip(registers) {
                s.store(some, lanes);
            }
            *sum = f64::from(folded(lanes));
        }
        found(s, self.largest, self.differing).with(sums)
    }
}

#[inline(always)]
fn add_wide<S: Simd>(s: S, all: &mut [S::Wide; 5], a: S::Eight, b: S::Eight) {
    let apart = s.widened(s.eight_apart(b, a));
    all[0] = s.add_wide(all[0], apart);
    all[1] = s.add_square(apart, all[1]);
    let (a, b) = (s.widened(a), s.widened(b));
    all[2] = s.add_square(a, all[2]);
    all[3] = s.add_square(b, all[3]);
    all[4] = s.add_product(a, b, all[4]);
}

/// How far the pairs are apart at most, and how many differ.
#[inline(always)]
fn extremes<S: Simd>(s: S, a: &[f32], b: &[f32]) -> Sums {
    let (nothing, one) = (s.splat(0.0), s.splat(1.0));
    let (mut largest, mut differing) = (nothing, nothing);
    let ((whole_a, rest_a), (whole_b, rest_b)) = (S::floats(a), S::floats(b));
    for (a, b) in whole_a.iter().zip(whole_b) {
        let size = s.abs(s.sub(s.load(b), s.load(a)));
        largest = s.max(largest, size);
        differing = s.add(differing, s.if_less(nothing, size, one, nothing));
    }
    let mut sums = found(s, largest, differing);
    for (a, b) in rest_a.iter().zip(rest_b) {
        sums.meet(*a, *b);
    }
    sums
}

#[inline(always)]
fn found<S: Simd>(s: S, largest: S::F, differing: S::F) -> Sums {
    let mut lanes = [0.0f32; 16];
    s.store(largest, &mut S::floats_mut(&mut lanes).0[0]);
    let mut sums = Sums { differing: s.sum(differing) as u64, ..Sums::default() };
    for size in lanes {
        sums.largest = if size > sums.largest { size } else { sums.largest };
    }
    sums
}

/// Some numbers, and zeros behind them.
#[inline(always)]
fn filled<const N: usize>(some: &[f32]) -> [f32; N] {
    let mut all = [0.0; N];
    all[..some.len()].copy_from_slice(some);
    all
}

/// [`Distance::of`] with the instructions at hand.
pub(super) struct Apart<'a> {
    pub accumulate: Accumulate,
    pub first: u64,
    pub pair: [&'a [f32]; 2],
    pub run: usize,
    pub runs: &'a mut Vec<Run>,
}

impl Op for Apart<'_> {
    type Out = Distance;

    #[inline(always)]
    fn call<S: Simd>(self, s: S) -> Distance {
        Distance::of(Vectors(s), self.accumulate, self.first, self.pair, self.run, self.runs)
    }
}
