//! Stored blocks to f32.

use super::float8;
use crate::parts::{self, Block, Parts, Visit};
use crate::simd::{Op, Simd};
use scantling_core::dtype::DType;
use scantling_core::quant;

/// Widens whole blocks into as many f32 as they hold; see `quant::decode`. Bytes or places beyond the last block that
/// has both are left alone. It is as large as the types are many, and wanted in many loops: run it ([`Simd::run`]),
/// which makes it one function.
pub(super) struct Widen<'a> {
    pub dtype: DType,
    pub raw: &'a [u8],
    pub out: &'a mut [f32],
}

impl Op for Widen<'_> {
    type Out = ();

    #[inline(always)]
    fn call<S: Simd>(self, s: S) {
        let Widen { dtype, raw, out } = self;
        match dtype {
            DType::F16 => {
                let whole = each(s, S::pairs(raw), out, S::load_f16);
                quant::decode_inlined(dtype, &raw[2 * whole..], &mut out[whole..]);
            }
            DType::F8_E4M3 => float8::E4M3.widen(raw, out),
            DType::F8_E5M2 => float8::E5M2.widen(raw, out),
            DType::F8_E4M3FNUZ => float8::E4M3FNUZ.widen(raw, out),
            DType::F8_E5M2FNUZ => float8::E5M2FNUZ.widen(raw, out),
            DType::U64 => {
                for (raw, out) in raw.as_chunks().0.iter().zip(out) {
                    *out = rounded(u64::from_le_bytes(*raw));
                }
            }
            _ => {
                if parts::visit(dtype, Blocks { s, raw, out: &mut *out }).is_none() {
                    quant::decode_inlined(dtype, raw, out);
                }
            }
        }
    }
}

/// Whole blocks, each taken apart and multiplied.
struct Blocks<'a, S> {
    s: S,
    raw: &'a [u8],
    out: &'a mut [f32],
}

impl<S: Simd> Visit for Blocks<'_, S> {
    type Out = ();

    #[inline(always)]
    fn visit<B: Block>(self) {
        let mut parts = Parts::new();
        for (block, values) in B::blocks(self.raw).iter().zip(self.out.chunks_exact_mut(B::VALUES)) {
            B::unpack(self.s, block, &mut parts);
            parts.widen::<S, B>(self.s, values);
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

/// The nearest f32, ties to even, without a branch on the top bit, which no conversion takes: the half of such a
/// number is converted, its lowest bit standing for both that it had.
#[inline(always)]
fn rounded(x: u64) -> f32 {
    let top = x >> 63;
    let half = x >> top | x & top;
    half as i64 as f32 * (1 + top as i64) as f32
}
