//! The leaf that multiplies activations of 8 bits with AVX-512 VNNI.

use super::avx512;
#[cfg(target_arch = "x86_64")]
use super::avx512_dot8::Vnni;
use crate::int8;
#[cfg(target_arch = "x86_64")]
use crate::int8::Int8;
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options};

/// Activations of 8 bits with AVX-512 VNNI.
pub const AVX512_INT8: KernelPlugin = KernelPlugin {
    name: "avx512-int8",
    summary: "x86-64 with AVX-512 F, BW, VL, DQ and VNNI; activations rounded to 8 bits",
    rank: 35,
    precision: int8::PRECISION,
    make: Make::Leaf(make),
};

inventory::submit! { AVX512_INT8 }

#[cfg(not(target_arch = "x86_64"))]
fn make(options: &Options) -> Result<Box<dyn Kernel>, String> {
    avx512::make(options)
}

#[cfg(target_arch = "x86_64")]
fn make(options: &Options) -> Result<Box<dyn Kernel>, String> {
    let vnni = Vnni::detect()?;
    Ok(Box::new(Int8::new(AVX512_INT8.name, vnni, vnni, avx512::make(options)?)))
}
