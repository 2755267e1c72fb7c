//! The leaf that multiplies activations of 8 bits with NEON.

use super::neon;
#[cfg(target_arch = "aarch64")]
use super::neon_dot8::{Fours, Long, Sdot, Smmla};
use crate::int8;
#[cfg(target_arch = "aarch64")]
use crate::int8::Int8;
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options};

/// Activations of 8 bits with NEON.
pub const NEON_INT8: KernelPlugin = KernelPlugin {
    name: "neon-int8",
    summary: "AArch64 with NEON, and dotprod and i8mm where there are any; activations rounded to 8 bits",
    rank: 25,
    precision: int8::PRECISION,
    make: Make::Leaf(make),
};

inventory::submit! { NEON_INT8 }

#[cfg(not(target_arch = "aarch64"))]
fn make(options: &Options) -> Result<Box<dyn Kernel>, String> {
    neon::make(options)
}

/// Sums of products are exact whatever the way, so all ways give the same bits. Products of matrices want several rows of
/// activations: with few, they are not used.
#[cfg(target_arch = "aarch64")]
fn make(options: &Options) -> Result<Box<dyn Kernel>, String> {
    let base = neon::make(options)?;
    Ok(if let Ok(smmla) = Smmla::detect() {
        Box::new(Int8::new(NEON_INT8.name, Fours(smmla.0), Fours(smmla), base))
    } else if let Ok(sdot) = Sdot::detect() {
        Box::new(Int8::new(NEON_INT8.name, Fours(sdot), Fours(sdot), base))
    } else {
        let long = Long::detect()?;
        Box::new(Int8::new(NEON_INT8.name, Fours(long), Fours(long), base))
    })
}

#[cfg(all(test, target_arch = "aarch64"))]
mod tests {
    use super::*;
    use crate::int8::tests::{leaf, same_bits};

    #[test]
    fn all_ways_give_the_same_bits() {
        let long = || Long::detect().map(|long| leaf("NEON", Fours(long), Fours(long)));
        same_bits(long(), Sdot::detect().map(|sdot| leaf("dotprod", Fours(sdot), Fours(sdot))));
        same_bits(long(), Smmla::detect().map(|smmla| leaf("i8mm", Fours(smmla.0), Fours(smmla))));
    }
}
