//! Every primitive of every set of instructions that this machine has, against what the standard library computes:
//! the loops are right only if these are, and a loop seldom meets a NaN, an infinity or a tie.

use crate::simd::{Op, Simd};
use scantling_core::dtype::DType;
use scantling_core::quant;

/// Numbers that tell right from almost right.
const NUMBERS: [f32; 24] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    1.5,
    2.5,
    -2.5,
    -0.499_999_97,
    8_388_607.5,
    -1e9,
    3.0e38,
    -3.0e38,
    1e-40,
    -1e-45,
    f32::MIN_POSITIVE,
    f32::INFINITY,
    f32::NEG_INFINITY,
    f32::NAN,
    std::f32::consts::PI,
    -65_504.0,
    127.0,
    -126.0,
    1.000_000_1,
];

/// The same number: any NaN is any other, and 0 is not -0.
fn same(a: f32, b: f32) -> bool {
    a.to_bits() == b.to_bits() || (a.is_nan() && b.is_nan())
}

/// One vector of `NUMBERS`, begun `from` numbers in.
fn numbers(lanes: usize, from: usize) -> Vec<f32> {
    NUMBERS.iter().cycle().skip(from).take(lanes).copied().collect()
}

fn load<S: Simd>(s: S, x: &[f32]) -> S::F {
    s.load(&S::floats(x).0[0])
}

fn lanes<S: Simd>(s: S, x: S::F) -> Vec<f32> {
    let mut out = vec![0.0; S::LANES];
    s.store(x, &mut S::floats_mut(&mut out).0[0]);
    out
}

/// All primitives on all combinations of three numbers.
struct Arithmetic;

impl Op for Arithmetic {
    type Out = ();

    fn call<S: Simd>(self, s: S) {
        for i in 0..NUMBERS.len() {
            for j in 0..NUMBERS.len() {
                // Steps that have no divisor in common with the number of numbers, so that all meet all.
                let [x, y, z] = [i, i + j, i + 5 * j + 7].map(|from| numbers(S::LANES, from));
                three(s, &x, &y, &z);
            }
        }
    }
}

fn three<S: Simd>(s: S, x: &[f32], y: &[f32], z: &[f32]) {
    let [a, b, c] = [x, y, z].map(|x| load(s, x));
    let check = |name: &str, found: S::F, expected: &dyn Fn(f32, f32, f32) -> f32| {
        for (i, found) in lanes(s, found).into_iter().enumerate() {
            let (x, y, z) = (x[i], y[i], z[i]);
            let expected = expected(x, y, z);
            assert!(same(found, expected), "{name} {x:e} {y:e} {z:e}: {found:e}, not {expected:e}");
        }
    };
    check("add", s.add(a, b), &|x, y, _| x + y);
    check("sub", s.sub(a, b), &|x, y, _| x - y);
    check("mul", s.mul(a, b), &|x, y, _| x * y);
    check("div", s.div(a, b), &|x, y, _| x / y);
    check("fma", s.fma(a, b, c), &f32::mul_add);
    check("abs", s.abs(a), &|x, _, _| x.abs());
    check("with_sign", s.with_sign(a, b), &|x, y, _| x.copysign(y));
    check("round", s.round(a), &|x, _, _| x.round_ties_even());
    check("if_less", s.if_less(a, b, c, a), &|x, y, z| if x < y { z } else { x });
    check("splat", s.splat(x[0]), &|_, _, _| x[0]);
    check("clamp", s.clamp(a, s.splat(-2.0), s.splat(1.25)), &|x, _, _| {
        // Zeros of either sign are equal, and none of them is a limit here.
        if x.is_nan() { x } else { x.clamp(-2.0, 1.25) }
    });
}

/// Loads of stored numbers, which lie at any address.
struct Loads;

impl Op for Loads {
    type Out = ();

    fn call<S: Simd>(self, s: S) {
        for from in (0..=u16::MAX).step_by(S::LANES) {
            let bits: Vec<u16> = (0..S::LANES as u16).map(|i| from + i).collect();
            for offset in 0..2 {
                let mut raw = vec![0; offset];
                raw.extend(bits.iter().flat_map(|bits| bits.to_le_bytes()));
                let raw = &raw[offset..];
                stored(DType::F16, raw, &lanes(s, s.load_f16(&S::pairs(raw)[0])));
                stored(DType::BF16, raw, &lanes(s, s.load_bf16(&S::pairs(raw)[0])));
            }
        }
        let x = numbers(S::LANES, 3);
        let mut raw = vec![0; 3];
        raw.extend(x.iter().flat_map(|x| x.to_le_bytes()));
        stored(DType::F32, &raw[3..], &lanes(s, s.load_f32(&S::quads(&raw[3..])[0])));
    }
}

/// Holds widened numbers against the definition.
fn stored(dtype: DType, raw: &[u8], found: &[f32]) {
    let mut expected = vec![0.0; found.len()];
    quant::decode(dtype, raw, &mut expected).unwrap();
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!(same(*found, expected), "{dtype} {i} of {raw:02x?}: {found:e}, not {expected:e}");
    }
}

/// What is done across lanes, and the cut into vectors.
struct Across;

impl Op for Across {
    type Out = ();

    fn call<S: Simd>(self, s: S) {
        for n in -126..=127 {
            let found = lanes(s, s.power_of_two(s.splat(n as f32)));
            assert!(found.iter().all(|x| *x == 2f32.powi(n)), "2^{n}: {found:?}");
        }
        for lane in 0..S::LANES {
            // Powers of two, whose sums are exact in any order.
            let x: Vec<f32> = (0..S::LANES).map(|i| if i <= lane { (1 << i) as f32 } else { 0.0 }).collect();
            assert_eq!(s.sum(load(s, &x)), ((2 << lane) - 1) as f32);
        }
        let (from_stride, to_stride) = (S::LANES + 3, 2 * S::LANES + 1);
        let from: Vec<f32> = (0..S::LANES * from_stride).map(|i| i as f32).collect();
        let mut to = vec![-1.0; S::LANES * to_stride];
        s.transpose(&from, from_stride, &mut to, to_stride);
        for (at, found) in to.iter().enumerate() {
            let (c, r) = (at / to_stride, at % to_stride);
            let expected = if r < S::LANES { from[r * from_stride + c] } else { -1.0 };
            assert_eq!(*found, expected, "row {r}, column {c}");
        }
        let x = numbers(3 * S::LANES + 1, 0);
        assert_eq!((S::floats(&x).0.len(), S::floats(&x).1.len()), (3, 1));
    }
}

/// What blocks are taken apart and put together with.
struct Blocks;

impl Op for Blocks {
    type Out = ();

    fn call<S: Simd>(self, s: S) {
        for bits in 0..=u16::MAX {
            stored(DType::F16, &bits.to_le_bytes(), &[s.f16(bits)]);
        }
        for (first, scale) in (i8::MIN..=i8::MAX).step_by(16).flat_map(|first| NUMBERS.map(|x| (first, x))) {
            let codes: [i8; 16] = std::array::from_fn(|i| first + i as i8);
            for minimum in std::iter::once(None).chain(NUMBERS.map(Some)) {
                let mut found = [0.0; 16];
                s.scaled(&codes, scale, minimum, &mut found);
                for (code, found) in codes.iter().zip(found) {
                    let product = scale * f32::from(*code);
                    let expected = minimum.map_or(product, |minimum| product - minimum);
                    assert!(same(found, expected), "{scale:e} · {code} − {minimum:?}: {found:e}");
                }
            }
        }
        let table: [i8; 16] = std::array::from_fn(|i| (i as i8 - 8) * 15 - 3);
        for turn in 0..16 {
            let indices: [u8; 16] = std::array::from_fn(|i| ((5 * i + turn) % 16) as u8);
            assert_eq!(s.look_up(&table, &indices), indices.map(|i| table[usize::from(i)]));
        }
    }
}

fn all<S: Simd>(detected: Result<S, String>) {
    match detected {
        Ok(s) => {
            s.run(Arithmetic);
            s.run(Loads);
            s.run(Across);
            s.run(Blocks);
        }
        Err(why) => eprintln!("skipped: {why}"),
    }
}

#[cfg(target_arch = "x86_64")]
#[test]
fn avx2() {
    all(crate::x86::avx2::Avx2::detect());
}

#[cfg(target_arch = "x86_64")]
#[test]
fn avx512() {
    all(crate::x86::avx512::Avx512::detect());
}

#[cfg(target_arch = "aarch64")]
#[test]
fn neon() {
    all(crate::arm::neon::Neon::detect());
}
