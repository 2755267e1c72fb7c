//! Numbers that f32 does not hold, compared as they stand.

use super::compare::{Bound, Measured, STEP_SLACK};
use crate::distance::Distance;
use crate::dtype::{Class, DType};
use crate::quant;
use crate::quant::rounding::float_step;
use half::{bf16, f16};

/// A number of any plain type, exactly.
#[derive(Clone, Copy, Debug)]
enum Exact {
    Whole(i128),
    Float(f64),
}

/// Whether an element type has numbers that f32 does not.
pub(super) fn is_wide(dtype: DType) -> bool {
    matches!(dtype, DType::F64 | DType::I32 | DType::I64 | DType::U32 | DType::U64)
}

/// How far two runs of numbers are apart, of which one is of a type with numbers that f32 does not have; and what their
/// types allow. `None` where neither is, a type is not plain, or the two do not hold as many.
///
/// Sums are of f64: squares of numbers beyond 1e±150 are lost to them.
pub(super) fn measure(a: (DType, &[u8]), b: (DType, &[u8])) -> Option<Measured> {
    let plain =
        |dtype: DType| matches!(dtype.class(), Class::Float | Class::Integer) && dtype.block_values() == 1;
    let (size_a, size_b) = (a.0.block_bytes(), b.0.block_bytes());
    if !is_wide(a.0) && !is_wide(b.0) || !plain(a.0) || !plain(b.0) {
        return None;
    }
    if a.1.len().checked_div(size_a) != b.1.len().checked_div(size_b) {
        return None;
    }
    // What an f64 becomes as f32 is a rounding; whole numbers are not rounded by anyone.
    let types = [a.0, b.0];
    let mut coarser = types.into_iter().filter(|t| t.class() == Class::Float && *t != DType::F64);
    let coarser = coarser.next_back().filter(|_| types.contains(&DType::F64));
    let relative = |dtype| match dtype {
        DType::F32 => Some(2f64.powi(-23)),
        dtype => float_step(dtype, 1.0),
    };
    let bound = match coarser.and_then(relative) {
        Some(step) => Bound::Step { whole: STEP_SLACK * step },
        None => Bound::Equal,
    };
    let mut measured = Measured { bound, ..Measured::default() };
    let d = &mut measured.distance;
    let mut beyond = (0u64, None);
    for (i, (x, y)) in a.1.chunks_exact(size_a).zip(b.1.chunks_exact(size_b)).enumerate() {
        let index = i as u64;
        let (x, y) = (exact(a.0, x)?, exact(b.0, y)?);
        d.count = d.count.saturating_add(1);
        d.add(index, x.is(y), [x.as_f64(), y.as_f64()], x.apart(y));
        let apart = x.apart(y).abs();
        if let (Some(dtype), true) = (coarser, apart > 0.0) {
            let rounded = if a.0 == dtype { x.as_f64() } else { y.as_f64() };
            let step = match dtype {
                DType::F32 => (rounded.abs() * 2f64.powi(-23)).max(2f64.powi(-149)),
                dtype => float_step(dtype, rounded as f32).unwrap_or(0.0),
            };
            if apart.is_finite() && apart > step {
                beyond = (beyond.0.saturating_add(1), beyond.1.or(Some(index)));
            }
        }
    }
    (measured.beyond, measured.first_beyond) = beyond;
    Some(measured)
}

/// The same of a type with numbers that f32 does not have and any that f32 holds: how far the two are apart, each as it
/// stands. `None` where neither is such a type, or one has no numbers.
pub(super) fn distance(a: (DType, &[u8]), b: (DType, &[u8])) -> Option<Distance> {
    // Whole blocks of every type.
    const RUN: usize = 1024;
    if !is_wide(a.0) && !is_wide(b.0) {
        return None;
    }
    let run = |dtype: DType| RUN.checked_div(dtype.block_values())?.checked_mul(dtype.block_bytes());
    let mut distance = Distance::default();
    let (mut xs, mut ys) = (Vec::new(), Vec::new());
    for (x, y) in a.1.chunks(run(a.0)?.max(1)).zip(b.1.chunks(run(b.0)?.max(1))) {
        numbers(a.0, x, &mut xs)?;
        numbers(b.0, y, &mut ys)?;
        for (x, y) in xs.iter().zip(&ys) {
            distance.add(distance.count, x.is(*y), [x.as_f64(), y.as_f64()], x.apart(*y));
            distance.count = distance.count.saturating_add(1);
        }
    }
    Some(distance)
}

/// The numbers of whole blocks, at most a run.
fn numbers(dtype: DType, raw: &[u8], out: &mut Vec<Exact>) -> Option<()> {
    out.clear();
    if dtype.block_values() == 1
        && raw.get(..dtype.block_bytes()).is_some_and(|one| exact(dtype, one).is_some())
    {
        out.extend(raw.chunks_exact(dtype.block_bytes()).filter_map(|one| exact(dtype, one)));
        return Some(());
    }
    let count = raw.len().checked_div(dtype.block_bytes())?.checked_mul(dtype.block_values())?;
    let mut values = vec![0.0; count];
    quant::decode(dtype, raw, &mut values).ok()?;
    out.extend(values.iter().map(|x| Exact::Float(f64::from(*x))));
    Some(())
}

fn exact(dtype: DType, bytes: &[u8]) -> Option<Exact> {
    let whole = |n: i128| Some(Exact::Whole(n));
    let float = |x: f64| Some(Exact::Float(x));
    match dtype {
        DType::F64 => float(f64::from_le_bytes(bytes.try_into().ok()?)),
        DType::F32 => float(f64::from(f32::from_le_bytes(bytes.try_into().ok()?))),
        DType::F16 => float(f16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
        DType::BF16 => float(bf16::from_le_bytes(bytes.try_into().ok()?).to_f64()),
        DType::I8 => whole(i8::from_le_bytes(bytes.try_into().ok()?).into()),
        DType::I16 => whole(i16::from_le_bytes(bytes.try_into().ok()?).into()),
        DType::I32 => whole(i32::from_le_bytes(bytes.try_into().ok()?).into()),
        DType::I64 => whole(i64::from_le_bytes(bytes.try_into().ok()?).into()),
        DType::U8 => whole(u8::from_le_bytes(bytes.try_into().ok()?).into()),
        DType::U16 => whole(u16::from_le_bytes(bytes.try_into().ok()?).into()),
        DType::U32 => whole(u32::from_le_bytes(bytes.try_into().ok()?).into()),
        DType::U64 => whole(u64::from_le_bytes(bytes.try_into().ok()?).into()),
        _ => None,
    }
}

impl Exact {
    fn as_f64(self) -> f64 {
        match self {
            Exact::Whole(n) => n as f64,
            Exact::Float(x) => x,
        }
    }

    /// How much more the other is: of whole numbers exactly.
    fn apart(self, other: Exact) -> f64 {
        match (self, other) {
            (Exact::Whole(a), Exact::Whole(b)) => b.saturating_sub(a) as f64,
            (Exact::Whole(n), Exact::Float(x)) if x.fract() == 0.0 && x.abs() < 2f64.powi(100) => {
                (x as i128).saturating_sub(n) as f64
            }
            (Exact::Float(x), Exact::Whole(n)) if x.fract() == 0.0 && x.abs() < 2f64.powi(100) => {
                n.saturating_sub(x as i128) as f64
            }
            (a, b) => b.as_f64() - a.as_f64(),
        }
    }

    /// NaN is NaN, whichever.
    fn is(self, other: Exact) -> bool {
        match (self, other) {
            (Exact::Whole(a), Exact::Whole(b)) => a == b,
            (Exact::Float(a), Exact::Float(b)) => a == b || a.is_nan() && b.is_nan(),
            (Exact::Whole(n), Exact::Float(x)) | (Exact::Float(x), Exact::Whole(n)) => {
                // Of this size and without a fraction every f64 is a whole number of 128 bits.
                x.fract() == 0.0 && x.abs() < 2f64.powi(100) && x as i128 == n
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn f64s(all: &[f64]) -> Vec<u8> {
        all.iter().flat_map(|x| x.to_le_bytes()).collect()
    }

    #[test]
    fn what_f32_does_not_hold_is_told_apart() {
        let differing = |a: (DType, &[u8]), b: (DType, &[u8])| {
            let d = measure(a, b)?.distance;
            Some((d.differing, d.span.map(|(first, _)| first), d.max()))
        };
        let (a, b) = (f64s(&[1.0, 0.1]), f64s(&[1.0, 0.1 + 1e-16]));
        let apart = (0.1 + 1e-16) - 0.1;
        assert_eq!(differing((DType::F64, &a), (DType::F64, &b)), Some((1, Some(1), apart)));
        assert_eq!(differing((DType::F64, &a), (DType::F64, &a)), Some((0, None, 0.0)));
        let (int, float) = (16_777_217i32.to_le_bytes(), 16_777_216f32.to_le_bytes());
        assert_eq!(differing((DType::I32, &int), (DType::F32, &float)), Some((1, Some(0), 1.0)));
        let (long, longer) = (((1i64 << 53) + 1).to_le_bytes(), (1i64 << 53).to_le_bytes());
        assert_eq!(differing((DType::I64, &long), (DType::I64, &longer)), Some((1, Some(0), 1.0)));
        assert_eq!(
            differing((DType::I32, &5i32.to_le_bytes()), (DType::F32, &5f32.to_le_bytes())),
            Some((0, None, 0.0))
        );
        assert_eq!(differing((DType::I32, &int), (DType::Q8_0, &[0; 34])), None);
        assert_eq!(differing((DType::F32, &float), (DType::F32, &float)), None);
    }

    #[test]
    fn figures_are_those_of_the_numbers_themselves() {
        let of = |x: f64| f64s(&[x, -3.0 * x, 2.0 * x]);
        let d = measure((DType::F64, &of(1e-100)), (DType::F64, &of(2e-100))).unwrap().distance;
        assert!((d.relative() - 1.0).abs() < 1e-12 && (d.cosine() - 1.0).abs() < 1e-12, "{d:?}");
        assert!((d.as_factor().0 - 2.0).abs() < 1e-12 && d.max() == 3e-100, "{d:?}");
        let d = measure((DType::F64, &of(1e100)), (DType::F64, &of(-1e100))).unwrap().distance;
        assert_eq!((d.differing, d.not_finite), (3, [0, 0]));
        assert!((d.as_factor().0 + 1.0).abs() < 1e-12, "{d:?}");
    }

    #[test]
    fn f64_is_rounded_to_f32_by_a_step_at_most() {
        let all: Vec<f64> = (0..100).map(|i| f64::from(i) / 99.0).collect();
        let f32s = |by: f64| all.iter().flat_map(|x| ((x * by) as f32).to_le_bytes()).collect::<Vec<u8>>();
        let rounded = measure((DType::F64, &f64s(&all)), (DType::F32, &f32s(1.0))).unwrap();
        assert!(rounded.distance.differing > 50 && rounded.within(), "{rounded:?}");
        let off = measure((DType::F64, &f64s(&all)), (DType::F32, &f32s(1.0 + 1e-6))).unwrap();
        assert!(off.beyond > 50 && !off.within(), "{off:?}");
    }

    #[test]
    fn what_f32_rounds_away_differs_from_numbers_of_any_type() {
        let near = f64s(&[1.0 + 1e-9; 64]);
        for (dtype, ones) in [(DType::F8_E4M3, vec![0x38; 64]), (DType::BOOL, vec![1; 64])] {
            let d = distance((DType::F64, &near), (dtype, &ones)).unwrap();
            assert_eq!((d.count, d.differing, d.span), (64, 64, Some((0, 63))), "{dtype}");
            assert_eq!(d.worst.map(|w| w.a), Some(1.0 + 1e-9));
            assert_eq!(distance((dtype, &ones), (DType::F64, &f64s(&[1.0; 64]))).unwrap().differing, 0);
        }
        // A block of Q8_0: scale 1, codes 3.
        let block = [&[0, 0x3c][..], &[3; 32]].concat();
        let d = distance((DType::Q8_0, &block), (DType::F64, &f64s(&[3.0 - 1e-12; 32]))).unwrap();
        assert_eq!((d.differing, d.worst.map(|w| w.b)), (32, Some(3.0 - 1e-12)));
        assert_eq!(distance((DType::F32, &[]), (DType::Q8_0, &[])), None);
    }
}
