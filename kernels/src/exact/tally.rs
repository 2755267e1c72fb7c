//! Counts, limits and sums of stored blocks: the loop of `core::stats::piece`, compiled for these instructions. Of block
//! types codes are summed where that gives the same bits.

use super::sums::{Vectors, moments_of_halves};
use super::tally_blocks::{Codes, Fours};
use super::widen::Widen;
use crate::simd::{Op, Simd};
use scantling_core::dtype::DType;
use scantling_core::stats::piece::{Piece, RUN};
use scantling_core::stats::tally::Tally;

/// Goes on with a pass that is begun; see `Piece`.
pub(super) struct Look<'a> {
    pub dtype: DType,
    pub raw: &'a [u8],
    pub piece: Piece,
}

impl Op for Look<'_> {
    type Out = Tally;

    #[inline(always)]
    fn call<S: Simd>(self, s: S) -> Tally {
        let Look { dtype, raw, mut piece } = self;
        if piece.add_wide(raw) {
            return piece.finish();
        }
        let mut values = [0.0; RUN];
        let halves = matches!(dtype, DType::F16 | DType::BF16);
        let (mut rest, size) = (raw, piece.run_bytes());
        loop {
            rest = &rest[s.run(Fours { dtype, raw: rest, piece: &mut piece })..];
            if rest.is_empty() {
                break;
            }
            let (raw, next) = rest.split_at(size.min(rest.len()));
            rest = next;
            if halves
                && piece.is_about_zero()
                && piece.add_halves(raw, &s.half_extent(raw.as_chunks().0), &moments_of_halves(s, dtype, raw))
            {
                continue;
            }
            if s.run(Codes { dtype, raw, piece: &mut piece }) {
                continue;
            }
            let values = &mut values[..piece.values_in(raw)];
            s.run(Widen { dtype, raw, out: &mut *values });
            piece.add(Vectors(s), values);
        }
        piece.finish()
    }
}
