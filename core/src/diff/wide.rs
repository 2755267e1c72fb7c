//! Numbers that f32 does not hold, compared as they stand.

use crate::dtype::{Class, DType};
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

/// How many numbers of two runs of plain types differ, and the first that does. `None` where a type is not plain, or the
/// two do not hold as many.
pub(super) fn differing(a: (DType, &[u8]), b: (DType, &[u8])) -> Option<(u64, Option<u64>)> {
    let plain =
        |dtype: DType| matches!(dtype.class(), Class::Float | Class::Integer) && dtype.block_values() == 1;
    let (size_a, size_b) = (a.0.block_bytes(), b.0.block_bytes());
    if !plain(a.0) || !plain(b.0) || a.1.len().checked_div(size_a) != b.1.len().checked_div(size_b) {
        return None;
    }
    let (mut count, mut first) = (0u64, None);
    for (i, (x, y)) in a.1.chunks_exact(size_a).zip(b.1.chunks_exact(size_b)).enumerate() {
        if !exact(a.0, x)?.is(exact(b.0, y)?) {
            count = count.saturating_add(1);
            first.get_or_insert(i as u64);
        }
    }
    Some((count, first))
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

    #[test]
    fn what_f32_does_not_hold_is_told_apart() {
        let f64s = |all: [f64; 2]| all.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
        let (a, b) = (f64s([1.0, 0.1]), f64s([1.0, 0.1 + 1e-16]));
        assert_eq!(differing((DType::F64, &a), (DType::F64, &b)), Some((1, Some(1))));
        assert_eq!(differing((DType::F64, &a), (DType::F64, &a)), Some((0, None)));
        let (int, float) = (16_777_217i32.to_le_bytes(), 16_777_216f32.to_le_bytes());
        assert_eq!(differing((DType::I32, &int), (DType::F32, &float)), Some((1, Some(0))));
        assert_eq!(
            differing((DType::I32, &5i32.to_le_bytes()), (DType::F32, &5f32.to_le_bytes())),
            Some((0, None))
        );
        assert_eq!(differing((DType::I32, &int), (DType::Q8_0, &[0; 34])), None);
    }
}
