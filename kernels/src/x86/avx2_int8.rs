//! The leaf that multiplies activations of 8 bits with AVX2.

use super::avx2;
#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use super::avx2_vnni::Avx2Vnni;
use crate::int8;
#[cfg(target_arch = "x86_64")]
use crate::int8::Int8;
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options};

/// Activations of 8 bits with AVX2.
pub const AVX2_INT8: KernelPlugin = KernelPlugin {
    name: "avx2-int8",
    summary: "x86-64 with AVX2, FMA and F16C, and AVX-VNNI where there is any; activations rounded to 8 bits",
    rank: 25,
    precision: int8::PRECISION,
    make: Make::Leaf(make),
};

inventory::submit! { AVX2_INT8 }

#[cfg(not(target_arch = "x86_64"))]
fn make(options: &Options) -> Result<Box<dyn Kernel>, String> {
    avx2::make(options)
}

/// Sums of products are exact either way, so both ways give the same bits.
#[cfg(target_arch = "x86_64")]
fn make(options: &Options) -> Result<Box<dyn Kernel>, String> {
    let base = avx2::make(options)?;
    Ok(match Avx2Vnni::detect() {
        Ok(vnni) => Box::new(Int8::new(AVX2_INT8.name, vnni, vnni, base)),
        Err(_) => {
            let avx2 = Avx2::detect()?;
            Box::new(Int8::new(AVX2_INT8.name, avx2, avx2, base))
        }
    })
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;
    use crate::int8::tests::{leaf, same_bits};

    #[test]
    fn all_ways_give_the_same_bits() {
        same_bits(
            Avx2::detect().map(|avx2| leaf("AVX2", avx2, avx2)),
            Avx2Vnni::detect().map(|vnni| leaf("AVX-VNNI", vnni, vnni)),
        );
    }
}
