//! eˣ and tanh x in vectors, to within a few units in the last place.

use crate::simd::Simd;

/// eˣ: x = n·ln 2 + r with |r| ≤ ½ ln 2, a polynomial for eʳ, and 2ⁿ in two steps, so that results run through the
/// subnormal numbers to 0 and up to infinity as they should.
///
/// The polynomial is the Taylor series to the seventh power: its remainder r⁸/8! is below 2⁻²⁷ for such r.
#[inline(always)]
pub(super) fn exp<S: Simd>(s: S, x: S::F) -> S::F {
    let x = s.clamp(x, s.splat(-110.0), s.splat(110.0));
    let n = s.round(s.mul(x, s.splat(std::f32::consts::LOG2_E)));
    // ln 2 in two parts, the first with so few digits that its product with n is exact.
    let r = s.fma(n, s.splat(-0.693_359_4), x);
    let r = s.fma(n, s.splat(2.121_944_4e-4), r);
    let mut sum = s.splat(1.0 / 5040.0);
    for term in [1.0 / 720.0, 1.0 / 120.0, 1.0 / 24.0, 1.0 / 6.0, 0.5, 1.0, 1.0] {
        sum = s.fma(sum, r, s.splat(term));
    }
    let half = s.round(s.mul(n, s.splat(0.5)));
    let rest = s.sub(n, half);
    s.mul(s.mul(sum, s.power_of_two(half)), s.power_of_two(rest))
}

/// tanh x: near 0 its Taylor series, where the other formula would cancel; else 1 - 2 / (e²ˣ + 1) with the sign of x.
#[inline(always)]
pub(super) fn tanh<S: Simd>(s: S, x: S::F) -> S::F {
    let one = s.splat(1.0);
    let a = s.abs(x);
    let square = s.mul(x, x);
    // Coefficients of x³, x⁵, … (Bernoulli numbers); at 0.35 what is left out is below 2⁻²⁶ of the result.
    let mut sum = s.splat(-929_569.0 / 638_512_875.0);
    for term in
        [21_844.0 / 6_081_075.0, -1_382.0 / 155_925.0, 62.0 / 2_835.0, -17.0 / 315.0, 2.0 / 15.0, -1.0 / 3.0]
    {
        sum = s.fma(sum, square, s.splat(term));
    }
    let near = s.fma(s.mul(sum, square), x, x);
    let grown = exp(s, s.add(a, a));
    let far = s.sub(one, s.div(s.splat(2.0), s.add(grown, one)));
    s.if_less(a, s.splat(0.35), near, s.with_sign(far, x))
}
