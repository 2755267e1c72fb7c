//! One pass over numbers.
//!
//! This is the definition of the op `tally`: every sum is one of f64, in lanes whose number is fixed and which are
//! [folded](crate::distance::folded), so that a kernel which sums in wider registers gives the same bits. Squares of f32 are exact in f64, so
//! that it does not matter whether they are fused with the sum.
//!
//! Where the numbers lie about zero, as weights do, sums are taken as they are; where their mean is far from it, about a
//! pivot near the mean, so that they do not cancel. Numbers of block types are first summed in blocks, whose sums are
//! exact almost always (the numbers of a block are multiples of one step, and not large ones), so that a kernel may sum
//! codes in their place.

use super::extent::{Extent, HALF_MAGNITUDE, HalfExtent, MAGNITUDE};
use super::moments::{LANES, Moments, Plainly, Summing, about, moments};
use super::tally::Tally;
use crate::dtype::DType;
use crate::quant::DecodeError;

/// Numbers that are widened and looked at in one go: they stay in the nearest cache.
pub const RUN: usize = 1024;
/// Most blocks of a block type that a run has.
pub const BLOCKS: usize = RUN / 32;
/// A mean so many standard deviations from zero costs no digits yet.
const FAR: f64 = 8.0;

const INFINITE: u32 = 0x7f80_0000;

/// Tallies stored blocks, widened by `decode` a run at a time.
#[inline(always)]
pub fn tally_by(
    dtype: DType,
    raw: &[u8],
    mut decode: impl FnMut(&[u8], &mut [f32]) -> Result<(), DecodeError>,
) -> Result<Tally, DecodeError> {
    let mut piece = Piece::new(dtype, raw)?;
    if piece.add_wide(raw) {
        return Ok(piece.finish());
    }
    let mut values = [0.0; RUN];
    for raw in raw.chunks(piece.run_bytes()) {
        let values = &mut values[..piece.values_in(raw)];
        decode(raw, values)?;
        piece.add(Plainly, values);
    }
    Ok(piece.finish())
}

/// Tallies numbers that are not stored as they are.
pub fn tally_of(values: &[f32]) -> Tally {
    let mut piece = Piece { dtype: DType::F32, ..Piece::bare() };
    values.chunks(RUN).for_each(|run| piece.add(Plainly, run));
    piece.finish()
}

/// Hands on the numbers of a type that an f32 does not hold, a run at a time; false for other types.
pub fn wide(dtype: DType, raw: &[u8], each: &mut dyn FnMut(&[f64])) -> bool {
    match dtype {
        DType::F64 => runs(raw, f64::from_le_bytes, each),
        DType::I32 => runs(raw, |b| f64::from(i32::from_le_bytes(b)), each),
        DType::U32 => runs(raw, |b| f64::from(u32::from_le_bytes(b)), each),
        DType::I64 => runs(raw, |b| i64::from_le_bytes(b) as f64, each),
        DType::U64 => runs(raw, |b| u64::from_le_bytes(b) as f64, each),
        _ => return false,
    }
    true
}

fn runs<const N: usize>(raw: &[u8], widen: impl Fn([u8; N]) -> f64, each: &mut dyn FnMut(&[f64])) {
    let mut values = [0.0; RUN];
    for run in raw.as_chunks::<N>().0.chunks(RUN) {
        for (to, bytes) in values.iter_mut().zip(run) {
            *to = widen(*bytes);
        }
        each(&values[..run.len()]);
    }
}

/// Tallies stored f64 after a power of two is taken out of each.
pub(super) fn tally_scaled(raw: &[u8], exponent: i32) -> Tally {
    let mut piece = Piece { dtype: DType::F64, ..Piece::bare() };
    let (factor, mut scaled) = (2f64.powi(-exponent), [0.0; RUN]);
    wide(DType::F64, raw, &mut |run| {
        scaled.iter_mut().zip(run).for_each(|(to, x)| *to = x * factor);
        piece.add_f64(scaled.get(..run.len()).unwrap_or_default());
    });
    piece.finish()
}

/// A pass under way.
#[derive(Clone, Debug)]
pub struct Piece {
    dtype: DType,
    tally: Tally,
    /// What sums are taken about, once there is a finite number.
    pivot: Option<f64>,
    sum: f64,
    squares: f64,
}

impl Piece {
    fn bare() -> Piece {
        Piece { dtype: DType::F32, tally: Tally::default(), pivot: None, sum: 0.0, squares: 0.0 }
    }

    /// A pass over stored blocks, which must be whole ones of a type that can be decoded.
    pub fn new(dtype: DType, raw: &[u8]) -> Result<Piece, DecodeError> {
        dtype.codec().ok_or(DecodeError::NoCodec(dtype))?;
        let block = dtype.block_bytes();
        if !raw.len().is_multiple_of(block) {
            return Err(DecodeError::PartialBlock { dtype, bytes: raw.len(), block });
        }
        Ok(Piece { dtype, ..Piece::bare() })
    }

    /// Bytes of a run.
    pub fn run_bytes(&self) -> usize {
        RUN / self.dtype.block_values() * self.dtype.block_bytes()
    }

    /// Numbers in so many whole blocks.
    pub fn values_in(&self, raw: &[u8]) -> usize {
        raw.len() / self.dtype.block_bytes() * self.dtype.block_values()
    }

    /// What sums are taken about, given those of the first numbers.
    #[inline(always)]
    fn pivot(&mut self, count: usize, (sum, squares): (f64, f64)) -> f64 {
        *self.pivot.get_or_insert_with(|| {
            let (count, mean) = (count as f64, sum / count as f64);
            let spread = squares - sum * mean;
            // Where squares overflow there is nothing to be held against.
            if count * mean * mean > FAR * FAR * spread { mean } else { 0.0 }
        })
    }

    /// The next numbers, at most a run; of a block type, whole blocks.
    #[inline(always)]
    pub fn add(&mut self, summing: impl Summing, values: &[f32]) {
        let extent = Extent::of(values);
        if extent.high() >= INFINITE {
            return self.add_some(summing, values);
        }
        self.tally.count += values.len() as u64;
        self.note(values, &extent);
        if self.dtype.is_quantised() {
            let (mut sums, mut squares) = ([0.0; BLOCKS], [0.0; BLOCKS]);
            let blocks = values.chunks_exact(self.dtype.block_values());
            let count = blocks.len().min(BLOCKS);
            for (i, block) in blocks.take(BLOCKS).enumerate() {
                (sums[i], squares[i]) = summing.moments(block).folded();
            }
            self.add_blocks(&sums[..count], &squares[..count]);
        } else {
            self.add_sums(summing, values);
        }
    }

    /// Whether sums are known to be taken of the numbers as they are.
    pub fn is_about_zero(&self) -> bool {
        self.pivot == Some(0.0)
    }

    /// The next numbers of 16 bits as they are stored, at most a run, with their limits and sums: what [`add`](Self::add) does without
    /// widening them. False, and nothing done, where some are not finite or sums are not taken about zero.
    #[inline(always)]
    pub fn add_halves(&mut self, raw: &[u8], halves: &HalfExtent, moments: &Moments) -> bool {
        let (words, _) = raw.as_chunks();
        if !self.is_about_zero() || words.is_empty() {
            return false;
        }
        let extent = halves.widened(self.dtype);
        if extent.high() >= INFINITE {
            return false;
        }
        self.tally.count += words.len() as u64;
        self.within(&extent);
        let normal = if self.dtype == DType::F16 { 1 << 10 } else { 1 << 7 };
        if halves.low < normal {
            let (mut zeros, mut small) = (0u16, 0u16);
            for word in words {
                let magnitude = u16::from_le_bytes(*word) & HALF_MAGNITUDE;
                zeros += u16::from(magnitude == 0);
                small += u16::from(magnitude < normal);
            }
            self.tally.add_zeros(u64::from(zeros));
            self.tally.subnormals += u64::from(small - zeros);
        }
        let (sum, squares) = moments.folded();
        self.sum += sum;
        self.squares += squares;
        true
    }

    /// Sums of the numbers of blocks, and of their squares, where the numbers are accounted for otherwise.
    #[inline(always)]
    pub fn add_blocks(&mut self, sums: &[f64], squares: &[f64]) {
        let size = self.dtype.block_values();
        let mut all = Moments::default();
        for (sums, squares) in sums.chunks(LANES).zip(squares.chunks(LANES)) {
            for (i, (s, q)) in sums.iter().zip(squares).enumerate() {
                all.sums[i] += s;
                all.squares[i] += q;
            }
        }
        let (mut sum, mut square_sum) = all.folded();
        let pivot = self.pivot(sums.len() * size, (sum, square_sum));
        if pivot != 0.0 {
            let size = size as f64;
            let (all, twice, square) = (size * pivot, 2.0 * pivot, size * (pivot * pivot));
            (sum, square_sum) = (0.0, 0.0);
            for (s, q) in sums.iter().zip(squares) {
                sum += s - all;
                square_sum += (q - twice * s) + square;
            }
        }
        self.sum += sum;
        self.squares += square_sum;
    }

    /// The smallest and the largest number so far, of those that an f32 holds; infinite if there is none.
    pub fn limits(&self) -> (f32, f32) {
        (self.tally.min as f32, self.tally.max as f32)
    }

    /// So many finite numbers of a block type that are summed otherwise: within these limits, with so many zeros, none
    /// of them subnormal.
    #[inline(always)]
    pub fn add_known(&mut self, count: u64, min: f32, max: f32, zeros: u64) {
        self.tally.count += count;
        self.tally.add_zeros(zeros);
        self.tally.min = self.tally.min.min(f64::from(min) + 0.0);
        self.tally.max = self.tally.max.max(f64::from(max) + 0.0);
    }

    /// Numbers among which some are not finite: those are counted, the others are gathered and added.
    #[inline(never)]
    fn add_some(&mut self, summing: impl Summing, values: &[f32]) {
        let mut finite = [0.0; RUN];
        let mut n = 0;
        for &x in values {
            if x.is_finite() {
                finite[n] = x;
                n += 1;
            } else {
                self.tally.not_finite(x.is_nan());
            }
            self.tally.count += 1;
        }
        let finite = &finite[..n];
        self.note(finite, &Extent::of(finite));
        self.add_sums(summing, finite);
    }

    /// Limits and small numbers of finite ones.
    #[inline(always)]
    fn note(&mut self, values: &[f32], extent: &Extent) {
        if values.is_empty() {
            return;
        }
        self.within(extent);
        let normal = smallest_normal(self.dtype);
        if extent.low < normal {
            let (mut zeros, mut small) = (0u32, 0u32);
            for x in values {
                let magnitude = x.to_bits() & MAGNITUDE;
                zeros += u32::from(magnitude == 0);
                small += u32::from(magnitude < normal);
            }
            self.tally.add_zeros(u64::from(zeros));
            self.tally.subnormals += u64::from(small - zeros);
        }
    }

    #[inline(always)]
    fn within(&mut self, extent: &Extent) {
        // Of two zeros that differ in their sign either may have been met first.
        self.tally.min = self.tally.min.min(f64::from(extent.min()) + 0.0);
        self.tally.max = self.tally.max.max(f64::from(extent.max()) + 0.0);
    }

    #[inline(always)]
    fn add_sums(&mut self, summing: impl Summing, values: &[f32]) {
        if self.pivot.is_none_or(|pivot| pivot == 0.0) {
            self.add_moments(values, &summing.moments(values));
        } else {
            self.add_moments(values, &Moments::default());
        }
    }

    /// Adds the sums of these numbers, which are made anew where they are to be taken about a pivot.
    #[inline(always)]
    fn add_moments<T: Copy + Into<f64>>(&mut self, values: &[T], moments: &Moments) {
        if values.is_empty() {
            return;
        }
        let (mut sum, mut squares) = moments.folded();
        let pivot = self.pivot(values.len(), (sum, squares));
        if pivot != 0.0 {
            (sum, squares) = about(pivot, values);
        }
        self.sum += sum;
        self.squares += squares;
    }

    /// All numbers of a type whose numbers an f32 does not hold, looked at as f64; false for other types.
    pub fn add_wide(&mut self, raw: &[u8]) -> bool {
        wide(self.dtype, raw, &mut |run| self.add_f64(run))
    }

    /// The next numbers, at most a run.
    fn add_f64(&mut self, values: &[f64]) {
        let mut finite = [0.0; RUN];
        let (mut n, mut zeros) = (0, 0);
        for &x in values {
            if x.is_finite() {
                finite[n] = x;
                n += 1;
                zeros += u64::from(x == 0.0);
                self.tally.subnormals += u64::from(x.is_subnormal());
                self.tally.min = self.tally.min.min(x + 0.0);
                self.tally.max = self.tally.max.max(x + 0.0);
            } else {
                self.tally.not_finite(x.is_nan());
            }
            self.tally.count += 1;
        }
        self.tally.add_zeros(zeros);
        let finite = &finite[..n];
        self.add_moments(finite, &moments(finite));
    }

    /// What was gathered.
    pub fn finish(self) -> Tally {
        let mut tally = self.tally;
        let n = tally.finite() as f64;
        if n > 0.0 {
            tally.mean = self.pivot.unwrap_or_default() + self.sum / n;
            tally.spread = (self.squares - self.sum * (self.sum / n)).max(0.0);
        }
        tally.settled()
    }
}

/// Bits of the smallest normal number of a type, as f32. Whole numbers and powers of two are all normal.
fn smallest_normal(dtype: DType) -> u32 {
    let exponent = match dtype {
        DType::F8_E8M0 => return 1,
        DType::F16 | DType::F8_E5M2 => -14,
        DType::F8_E4M3 => -6,
        DType::F8_E4M3FNUZ => -7,
        DType::F8_E5M2FNUZ => -15,
        DType::F4 => 0,
        _ => -126,
    };
    ((exponent + 127) as u32) << 23
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quant;
    use proptest::prelude::*;

    /// The same from all numbers at once, the mean first, in sums that lose nothing to speak of.
    fn plainly(values: &[f64]) -> (f64, f64) {
        let exact = |values: &mut dyn Iterator<Item = f64>| {
            let (mut sum, mut rest) = (0.0f64, 0.0f64);
            for x in values {
                let next = sum + x;
                rest += if sum.abs() >= x.abs() { (sum - next) + x } else { (x - next) + sum };
                sum = next;
            }
            sum + rest
        };
        let n = values.len() as f64;
        let mean = exact(&mut values.iter().copied()) / n;
        let spread = exact(&mut values.iter().map(|x| (x - mean) * (x - mean)));
        (mean, (spread / n).sqrt())
    }

    fn near(found: f64, expected: f64, size: f64) {
        assert!((found - expected).abs() <= 1e-14 * size, "{found:e}, not {expected:e}");
    }

    #[test]
    fn a_mean_far_from_zero_costs_no_digits() {
        let values: Vec<f32> = (0..5000).map(|i| 1000.0 + ((i * 37) % 101) as f32 / 1024.0).collect();
        let wide: Vec<f64> = values.iter().map(|x| f64::from(*x)).collect();
        let (mean, std) = plainly(&wide);
        let tally = tally_of(&values);
        near(tally.mean, mean, mean);
        near(tally.std().unwrap(), std, std * 10.0);
        let joined = tally_of(&values[..1700]).join(&tally_of(&values[1700..]));
        near(joined.mean, mean, mean);
        near(joined.std().unwrap(), std, std * 100.0);
    }

    #[test]
    fn numbers_that_are_alike_have_no_spread() {
        let tally = tally_of(&[0.1; 3333]);
        assert_eq!((tally.mean, tally.std(), tally.is_constant()), (f64::from(0.1f32), Some(0.0), true));
        let joined = tally.join(&tally_of(&[0.1; 7]));
        assert_eq!((joined.mean, joined.std(), joined.count), (f64::from(0.1f32), Some(0.0), 3340));
    }

    #[test]
    fn oddities_are_counted_with_their_first_places() {
        let mut values: Vec<f32> = (0..3000).map(|i| i as f32).collect();
        values[1500] = f32::NAN;
        values[2999] = -f32::NAN;
        values[1100] = f32::NEG_INFINITY;
        values[7] = 1e-40;
        values[8] = -0.0;
        let tally = tally_of(&values);
        assert_eq!((tally.nan, tally.infinite), (2, 1));
        assert_eq!((tally.first_nan, tally.first_infinite), (Some(1500), Some(1100)));
        // 0 and -0, and one that is smaller than what is normal.
        assert_eq!((tally.zeros, tally.subnormals, tally.finite()), (2, 1, 2997));
        assert_eq!((tally.min, tally.max), (0.0, 2998.0));
        assert!(tally.min.is_sign_positive());
        let joined = tally_of(&values[..1000]).join(&tally_of(&values[1000..]));
        assert_eq!((joined.first_nan, joined.first_infinite), (Some(1500), Some(1100)));
        let kept: Vec<f64> = values.iter().filter(|x| x.is_finite()).map(|x| f64::from(*x)).collect();
        let (mean, std) = plainly(&kept);
        near(tally.mean, mean, mean);
        near(tally.std().unwrap(), std, std);
    }

    #[test]
    fn nothing_at_all_has_no_figures() {
        let none = tally_of(&[]);
        assert_eq!((none.std(), none.rms(), none.abs_max(), none.peak()), (None, None, None, None));
        let only_nan = tally_of(&[f32::NAN]);
        assert_eq!((only_nan.count, only_nan.finite(), only_nan.std()), (1, 0, None));
        let joined = none.join(&only_nan).join(&tally_of(&[2.0, 4.0]));
        assert_eq!((joined.mean, joined.std(), joined.first_nan), (3.0, Some(1.0), Some(0)));
    }

    #[test]
    fn subnormal_is_what_the_stored_type_says() {
        let of = |dtype: DType, raw: &[u8]| {
            let tally = tally_by(dtype, raw, |raw, out| quant::decode(dtype, raw, out)).unwrap();
            (tally.zeros, tally.subnormals)
        };
        assert_eq!(of(DType::F16, &[0, 0, 0, 0x80, 1, 0, 0xff, 0x03, 0, 0x04]), (2, 2));
        assert_eq!(of(DType::BF16, &[0x7f, 0, 0x80, 0]), (0, 1));
        assert_eq!(of(DType::F8_E4M3, &[0, 1, 7, 8]), (1, 2));
        assert_eq!(of(DType::F8_E8M0, &[0, 1]), (0, 0));
        assert_eq!(of(DType::F64, &5e-324f64.to_le_bytes()), (0, 1));
        assert_eq!(of(DType::I64, &0i64.to_le_bytes()), (1, 0));
    }

    #[test]
    fn wide_numbers_are_looked_at_as_they_stand() {
        let raw: Vec<u8> =
            [1e300, -2e300, f64::NAN, 1e300].iter().flat_map(|x: &f64| x.to_le_bytes()).collect();
        let tally = tally_by(DType::F64, &raw, |_, _| unreachable!()).unwrap();
        assert_eq!((tally.min, tally.max, tally.first_nan), (-2e300, 1e300, Some(2)));
        let raw = [i64::MIN, -1, 1 << 40].map(i64::to_le_bytes).concat();
        let tally = tally_by(DType::I64, &raw, |_, _| unreachable!()).unwrap();
        assert_eq!((tally.min, tally.max), (-(2f64.powi(63)), 2f64.powi(40)));
    }

    #[test]
    fn squares_beyond_f64_cost_no_digits() {
        let of = |values: &[f64]| {
            let raw: Vec<u8> = values.iter().flat_map(|x| x.to_le_bytes()).collect();
            let tally = tally_by(DType::F64, &raw, |_, _| unreachable!()).unwrap();
            let scale = tally.needs_scale().unwrap();
            tally.with_sums_of(&tally_scaled(&raw, scale), scale)
        };
        let cases: [(&[f64], [f64; 3]); 5] = [
            (&[1e200, -1e200, 2e200], [2e200 / 3.0, 1.247219128924647e200, 2f64.sqrt() * 1e200]),
            (&[1e-200, 3e-200], [2e-200, 1e-200, 5f64.sqrt() * 1e-200]),
            (&[f64::MAX, -f64::MAX], [0.0, f64::MAX, f64::MAX]),
            (&[f64::MAX; 3], [f64::MAX, 0.0, f64::MAX]),
            (&[5e-324; 2], [5e-324, 0.0, 5e-324]),
        ];
        for (values, [mean, std, rms]) in cases {
            let tally = of(values);
            near(tally.mean, mean, tally.abs_max().unwrap());
            near(tally.std().unwrap(), std, tally.abs_max().unwrap());
            near(tally.rms().unwrap(), rms, tally.abs_max().unwrap());
            assert!(tally.peak().unwrap() >= 1.0 && tally.peak().unwrap() < 2.0, "{tally:?}");
        }
        assert_eq!(tally_of(&[1e38, 1e-38]).needs_scale(), None);
    }

    #[test]
    fn what_cannot_be_decoded_is_refused() {
        let decode = |_: &[u8], _: &mut [f32]| Ok(());
        assert_eq!(tally_by(DType::F6_E2M3, &[], decode), Err(DecodeError::NoCodec(DType::F6_E2M3)));
        assert!(tally_by(DType::Q4_0, &[0; 19], decode).is_err());
        assert_eq!(tally_by(DType::Q4_0, &[], decode), Ok(Tally::default()));
    }

    proptest! {
        /// Blocks of any bytes: held against all numbers at once.
        #[test]
        fn block_types_have_the_figures_of_their_numbers(bytes in prop::collection::vec(any::<u8>(), 20 * 292)) {
            for dtype in DType::all().filter(|d| d.is_quantised()) {
                let raw = &bytes[..20 * dtype.block_bytes()];
                let mut values = vec![0.0; 20 * dtype.block_values()];
                quant::decode(dtype, raw, &mut values).unwrap();
                let tally = tally_by(dtype, raw, |raw, out| quant::decode(dtype, raw, out)).unwrap();
                let kept: Vec<f64> = values.iter().filter(|x| x.is_finite()).map(|x| f64::from(*x)).collect();
                prop_assert_eq!(tally.count as usize, values.len());
                prop_assert_eq!(tally.finite() as usize, kept.len());
                prop_assert_eq!(tally.zeros as usize, kept.iter().filter(|x| **x == 0.0).count());
                if kept.is_empty() {
                    continue;
                }
                let (mean, std) = plainly(&kept);
                let rms = (mean * mean + std * std).sqrt();
                prop_assert!((tally.mean - mean).abs() <= 1e-13 * rms, "{}: {:e} {:e}", dtype, tally.mean, mean);
                prop_assert!((tally.std().unwrap() - std).abs() <= 1e-12 * rms, "{}", dtype);
                let min = kept.iter().copied().fold(f64::INFINITY, f64::min);
                prop_assert_eq!(tally.min, min);
            }
        }
    }
}
