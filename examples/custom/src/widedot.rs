//! A kernel that overrides `dot` alone. Products are dots of rows, so all of them are faster by it.
//!
//! A sum into one number waits for each addition before it can begin the next. Sixteen sums of every sixteenth
//! product do not wait for each other, and the compiler puts neighbours into one register.

use scantling_core::dtype::DType;
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options, Precision};
use scantling_core::quant;

/// The kernel.
pub const WIDEDOT: KernelPlugin = KernelPlugin {
    name: "widedot",
    summary: "toy: scalar, with sixteen sums side by side in every dot",
    // Above scalar's 0, below those that know the processor's own instructions.
    rank: 1,
    precision: Precision::Exact,
    make: Make::Leaf(make),
};

inventory::submit! { WIDEDOT }

fn make(_options: &Options) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(WideDot))
}

struct WideDot;

/// Sums side by side.
const LANES: usize = 16;

impl Kernel for WideDot {
    fn name(&self) -> String {
        WIDEDOT.name.to_owned()
    }

    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        let mut values = [0.0; 256];
        let mut sums = [0.0; LANES];
        // As many blocks at a time as fit.
        let blocks = (values.len() / dtype.block_values()).max(1);
        let pieces = x.chunks(blocks * dtype.block_values());
        for (raw, x) in w.chunks(blocks * dtype.block_bytes()).zip(pieces) {
            let values = &mut values[..x.len()];
            quant::decode(dtype, raw, values).expect("a row of a matrix is whole blocks of a decodable type");
            let ((w, w_rest), (x, x_rest)) = (values.as_chunks::<LANES>(), x.as_chunks::<LANES>());
            for (w, x) in w.iter().zip(x) {
                for i in 0..LANES {
                    sums[i] += w[i] * x[i];
                }
            }
            for ((sum, w), x) in sums.iter_mut().zip(w_rest).zip(x_rest) {
                *sum += w * x;
            }
        }
        sums.iter().sum()
    }
}
