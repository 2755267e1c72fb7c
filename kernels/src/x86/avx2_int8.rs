//! The leaf that multiplies activations of 8 bits with AVX2.

use super::avx2;
#[cfg(target_arch = "x86_64")]
use super::avx2::Avx2;
#[cfg(target_arch = "x86_64")]
use crate::int8::Int8;
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options, Precision};

/// Activations of 8 bits with AVX2.
pub const AVX2_INT8: KernelPlugin = KernelPlugin {
    name: "avx2-int8",
    summary: "x86-64 with AVX2, FMA and F16C; activations rounded to 8 bits",
    rank: 25,
    precision: Precision::Quantised { block: 256 },
    make: Make::Leaf(make),
};

inventory::submit! { AVX2_INT8 }

#[cfg(not(target_arch = "x86_64"))]
fn make(options: &Options) -> Result<Box<dyn Kernel>, String> {
    avx2::make(options)
}

#[cfg(target_arch = "x86_64")]
fn make(options: &Options) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(Int8::new(AVX2_INT8.name, Avx2::detect()?, avx2::make(options)?)))
}
