//! The definitions themselves: every op is inherited from core.

use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options, Precision};

/// The kernel that runs everywhere and that all others are judged by.
pub const SCALAR: KernelPlugin = KernelPlugin {
    name: "scalar",
    summary: "plain loops in f32, one thread: the definition of every op",
    rank: 0,
    precision: Precision::Exact,
    make: Make::Leaf(make),
};

inventory::submit! { SCALAR }

struct Scalar;

impl Kernel for Scalar {
    fn name(&self) -> String {
        SCALAR.name.to_owned()
    }
}

fn make(_options: &Options) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(Scalar))
}
