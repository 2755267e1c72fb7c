//! Stored blocks to f32: the loops of core, compiled with vector instructions.

use crate::simd::{Op, Simd};
use scantling_core::dtype::DType;
use scantling_core::quant;

/// Widens whole blocks into as many f32 as they hold; see `quant::decode`. It holds the loops of many types: run it
/// (`s.run`), which makes it one function, rather than inline it wherever it is needed.
pub(super) struct Widen<'a> {
    pub dtype: DType,
    pub raw: &'a [u8],
    pub out: &'a mut [f32],
}

impl Op for Widen<'_> {
    type Out = ();

    #[inline(always)]
    fn call<S: Simd>(self, s: S) {
        match self.dtype {
            DType::F16 => {
                let whole = each(s, S::pairs(self.raw), self.out, S::load_f16);
                quant::decode_inlined(self.dtype, &self.raw[2 * whole..], &mut self.out[whole..]);
            }
            _ => quant::decode_inlined(self.dtype, self.raw, self.out),
        }
    }
}

/// Widens whole vectors; returns how many numbers that were.
#[inline(always)]
fn each<S: Simd, T>(s: S, raw: &[T], out: &mut [f32], load: impl Fn(S, &T) -> S::F) -> usize {
    for (raw, out) in raw.iter().zip(S::floats_mut(out).0) {
        s.store(load(s, raw), out);
    }
    raw.len() * S::LANES
}
