//! What a set of vector instructions offers: the few primitives that the loops of [`crate::exact`] are written in.
//!
//! A value of a type that implements [`Simd`] proves that the processor has the instructions: only the type's
//! detector makes one. Primitives are inlined into the function that [`Simd::run`] enters, the one place where the
//! instructions are switched on for the compiler; a loop called outside of it is right, but slow. So is one in a
//! closure or in a function that is passed on: those are not inlined for sure, and what is not inlined has no
//! vector instructions. Loops here are `for` loops, and functions that vary are methods of types ([`Op`]).

use scantling_core::dtype::DType;

/// What four blocks come down to.
#[cfg_attr(not(target_arch = "x86_64"), allow(dead_code, reason = "made nowhere else so far"))]
pub(crate) struct Four {
    /// Of each block, the sum of its values: exact, if numbers of the block's size can be.
    pub sums: [f64; 4],
    /// The sum of their squares; likewise.
    pub squares: [f64; 4],
    /// Whether whole numbers on the way were within their range.
    pub whole: bool,
    /// How many values are zero.
    pub zeros: [u32; 4],
    /// A bit for each block whose zeros have to be counted otherwise.
    pub odd: u32,
    /// The smallest and the largest value, beside those that were given.
    pub limits: [f32; 2],
}

use scantling_core::stats::extent::HalfExtent;

/// Vectors of f32 of one width.
pub(crate) trait Simd: Copy + Send + Sync + 'static {
    /// A vector.
    type F: Copy;
    /// As many f32 as a vector holds, in memory.
    type Floats: Copy;
    /// The bytes of as many f32.
    type Quads: Copy;
    /// The bytes of as many 16-bit numbers.
    type Pairs: Copy;
    /// Eight f32.
    type Eight: Copy;
    /// Eight f64.
    type Wide: Copy;
    /// How many f32 a vector holds.
    const LANES: usize;

    /// Runs a loop with the instructions switched on.
    fn run<O: Op>(self, op: O) -> O::Out;

    /// Whole vectors, and what is left.
    fn floats(x: &[f32]) -> (&[Self::Floats], &[f32]);
    /// Whole vectors, and what is left.
    fn floats_mut(x: &mut [f32]) -> (&mut [Self::Floats], &mut [f32]);
    /// Whole vectors; what is left does not show.
    fn quads(raw: &[u8]) -> &[Self::Quads];
    /// Whole vectors; what is left does not show.
    fn pairs(raw: &[u8]) -> &[Self::Pairs];

    /// The same number in all lanes.
    fn splat(self, x: f32) -> Self::F;
    /// From memory.
    fn load(self, x: &Self::Floats) -> Self::F;
    /// To memory.
    fn store(self, x: Self::F, to: &mut Self::Floats);
    /// From f32 at any address.
    fn load_f32(self, raw: &Self::Quads) -> Self::F;
    /// From f16 at any address, widened.
    fn load_f16(self, raw: &Self::Pairs) -> Self::F;
    /// From bf16 at any address, widened.
    fn load_bf16(self, raw: &Self::Pairs) -> Self::F;

    /// From memory.
    fn eight(self, x: &[f32; 8]) -> Self::Eight;
    /// From f16 at any address, widened.
    fn eight_f16(self, raw: &[u8; 16]) -> Self::Eight;
    /// From bf16 at any address, widened.
    fn eight_bf16(self, raw: &[u8; 16]) -> Self::Eight;
    /// a - b.
    fn eight_apart(self, a: Self::Eight, b: Self::Eight) -> Self::Eight;
    /// As f64.
    fn widened(self, x: Self::Eight) -> Self::Wide;
    /// Zeros.
    fn no_wide(self) -> Self::Wide;
    /// a + b.
    fn add_wide(self, a: Self::Wide, b: Self::Wide) -> Self::Wide;
    /// a · b + to, where the product is exact: whether it is rounded by itself makes no difference then.
    fn add_product(self, a: Self::Wide, b: Self::Wide, to: Self::Wide) -> Self::Wide;
    /// x² + to, where x² is exact.
    #[inline(always)]
    fn add_square(self, x: Self::Wide, to: Self::Wide) -> Self::Wide {
        self.add_product(x, x, to)
    }
    /// The lanes.
    fn wide_lanes(self, x: Self::Wide) -> [f64; 8];

    /// Limits of F16 or BF16.
    #[inline(always)]
    fn half_extent(self, words: &[[u8; 2]]) -> HalfExtent {
        HalfExtent::of(words)
    }

    /// Asks for the line of the caches in which something begins: it will be read soon.
    #[inline(always)]
    fn prefetch(self, at: &[u8]) {
        self.prefetch_at(at.as_ptr());
    }

    /// The same for any address, of which nothing is read.
    #[inline(always)]
    fn prefetch_at(self, _at: *const u8) {}

    /// An f16, widened.
    #[inline(always)]
    fn f16(self, bits: u16) -> f32 {
        half::f16::from_bits(bits).to_f32()
    }

    /// `to[i] = scale · codes[i] − minimum`: rounded after the product, and once more if there is a minimum.
    #[inline(always)]
    fn scaled(self, codes: &[i8; 16], scale: f32, minimum: Option<f32>, to: &mut [f32; 16]) {
        for (to, code) in to.iter_mut().zip(codes) {
            let product = scale * f32::from(*code);
            *to = minimum.map_or(product, |minimum| product - minimum);
        }
    }

    /// Entries of a table, by their numbers below 16.
    #[inline(always)]
    fn look_up(self, table: &[i8; 16], indices: &[u8; 16]) -> [i8; 16] {
        indices.map(|i| table[usize::from(i & 15)])
    }

    /// Sums of runs of sixteen codes, and of their squares. None of the codes is -128.
    #[inline(always)]
    fn code_sums(self, codes: &[i8; 256], sums: &mut [i32; 16], squares: &mut [i32; 16]) {
        for (i, run) in codes.as_chunks::<16>().0.iter().enumerate() {
            let (mut sum, mut square) = (0, 0);
            for code in run {
                sum += i32::from(*code);
                square += i32::from(*code) * i32::from(*code);
            }
            (sums[i], squares[i]) = (sum, square);
        }
    }

    /// Sums over the first four blocks, whose own scales are finite; none if there is no quicker way than by codes.
    #[inline(always)]
    fn four_blocks(self, _dtype: DType, _raw: &[u8], _limits: [f32; 2]) -> Option<Four> {
        None
    }

    /// a + b.
    fn add(self, a: Self::F, b: Self::F) -> Self::F;
    /// a - b.
    fn sub(self, a: Self::F, b: Self::F) -> Self::F;
    /// a · b.
    fn mul(self, a: Self::F, b: Self::F) -> Self::F;
    /// a / b.
    fn div(self, a: Self::F, b: Self::F) -> Self::F;
    /// a · b + c, rounded once.
    fn fma(self, a: Self::F, b: Self::F, c: Self::F) -> Self::F;
    /// Neither below `low` nor above `high`; NaN stays NaN.
    fn clamp(self, x: Self::F, low: Self::F, high: Self::F) -> Self::F;
    /// The larger; either where one is NaN.
    fn max(self, a: Self::F, b: Self::F) -> Self::F;
    /// x without its sign.
    fn abs(self, x: Self::F) -> Self::F;
    /// The magnitude of `x` with the sign of `sign`.
    fn with_sign(self, x: Self::F, sign: Self::F) -> Self::F;
    /// `yes` where a < b, `no` elsewhere and where one is NaN.
    fn if_less(self, a: Self::F, b: Self::F, yes: Self::F, no: Self::F) -> Self::F;
    /// The nearest whole number; of two, the even one.
    fn round(self, x: Self::F) -> Self::F;
    /// 2ⁿ for whole n from -126 to 127.
    fn power_of_two(self, n: Self::F) -> Self::F;
    /// The sum of the lanes, in an order of the implementation's choice.
    fn sum(self, x: Self::F) -> f32;

    /// `to[c * to_stride + r] = from[r * from_stride + c]` for r, c below [`LANES`](Self::LANES). Panics if
    /// either slice is too short.
    #[inline(always)]
    fn transpose(self, from: &[f32], from_stride: usize, to: &mut [f32], to_stride: usize) {
        for r in 0..Self::LANES {
            for (c, x) in from[r * from_stride..][..Self::LANES].iter().enumerate() {
                to[c * to_stride + r] = *x;
            }
        }
    }

    /// Multiplies and adds on registers: see `Kernel::saturate`.
    #[inline(always)]
    fn saturate(self, rounds: u64) -> u64 {
        let factor = self.splat(std::hint::black_box(0.999));
        let mut sums = [factor; 10];
        for _ in 0..rounds {
            for sum in &mut sums {
                *sum = self.fma(*sum, factor, factor);
            }
        }
        let mut total = 0.0;
        for sum in sums {
            total += self.sum(sum);
        }
        std::hint::black_box(total);
        rounds * 20 * Self::LANES as u64
    }
}

/// A loop, to be compiled for whatever instructions it is run with.
pub(crate) trait Op {
    /// What it returns.
    type Out;
    /// The loop. Implementations are `#[inline(always)]`.
    fn call<S: Simd>(self, s: S) -> Self::Out;
}
