//! The leaf that multiplies activations of 8 bits with NEON.

use super::neon;
#[cfg(target_arch = "aarch64")]
use super::neon_dot8::{Fours, Long, Sdot};
use crate::int8;
#[cfg(target_arch = "aarch64")]
use crate::int8::Int8;
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options};

/// Activations of 8 bits with NEON.
pub const NEON_INT8: KernelPlugin = KernelPlugin {
    name: "neon-int8",
    summary: "AArch64 with NEON, and its dot products where there are any; activations rounded to 8 bits",
    rank: 25,
    precision: int8::PRECISION,
    make: Make::Leaf(make),
};

inventory::submit! { NEON_INT8 }

#[cfg(not(target_arch = "aarch64"))]
fn make(options: &Options) -> Result<Box<dyn Kernel>, String> {
    neon::make(options)
}

/// Sums of products are exact either way, so both ways give the same bits.
#[cfg(target_arch = "aarch64")]
fn make(options: &Options) -> Result<Box<dyn Kernel>, String> {
    let base = neon::make(options)?;
    Ok(match Sdot::detect() {
        Ok(sdot) => Box::new(Int8::new(NEON_INT8.name, Fours(sdot), base)),
        Err(_) => Box::new(Int8::new(NEON_INT8.name, Fours(Long::detect()?), base)),
    })
}
