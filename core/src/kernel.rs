//! Numeric backends: what an op means stands in core, a kernel may only be faster.

use crate::dtype::DType;
use crate::error::Result;
use crate::quant::{self, DecodeError};

/// A numeric backend. Ops that are not overridden are inherited from [`base`](Self::base), or mean what the
/// definition in core says.
pub trait Kernel: Send + Sync {
    /// Its name, with that of any kernel it wraps: `rayon+avx2`.
    fn name(&self) -> String;

    /// The kernel from which ops are inherited.
    fn base(&self) -> Option<&dyn Kernel> {
        None
    }

    /// Widens stored blocks to f32: `raw` holds whole blocks of `dtype`, `out` one number for each value in
    /// them. The definition is [`quant::decode`].
    fn decode(&self, dtype: DType, raw: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
        match self.base() {
            Some(base) => base.decode(dtype, raw, out),
            None => quant::decode(dtype, raw, out),
        }
    }
}

/// A kernel that can be built into a program.
#[derive(Debug)]
pub struct KernelPlugin {
    /// Short name: `scalar`.
    pub name: &'static str,
    /// One line for people.
    pub summary: &'static str,
    /// The higher, the sooner it is chosen.
    pub rank: u8,
    /// Makes one, or says why this machine cannot run it.
    pub make: fn() -> Result<Box<dyn Kernel>, &'static str>,
}

inventory::collect!(KernelPlugin);
