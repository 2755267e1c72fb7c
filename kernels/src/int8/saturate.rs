//! The densest loop of products that these kernels have: what limits those with many rows of activations.

use super::dot8::{Dot8, OUTPUTS, Task};

/// Products whose sums are independent of each other: enough to hide how long one takes.
const CHAINS: usize = 6;
/// Products that are added up in as few bits as hold them before they are scaled, as within blocks of 32.
const RUN: usize = 8;

/// Rounds of products on registers; returns the operations, a multiply and an add counted as two.
pub(super) struct Saturate(pub u64);

impl Task for Saturate {
    type Out = u64;

    #[inline(always)]
    fn call<S: Dot8>(self, s: S) -> u64 {
        let codes = std::hint::black_box([[3; 4 * OUTPUTS]; RUN]);
        let quads = s.quads(&codes[0]);
        let scales = std::hint::black_box([[1; 2]; OUTPUTS]);
        let mut totals = [s.no_totals(); CHAINS];
        let mut x = [[0x0102_0304; CHAINS]; RUN];
        for _ in 0..self.0 {
            // From memory each round, as in a product; or it would be taken out of the loop.
            let x = std::hint::black_box(&mut x);
            if S::SQUARES {
                let runs = s.multiply_rows::<false, CHAINS>([s.start::<0>(0); CHAINS], &codes, x);
                for (total, runs) in totals.iter_mut().zip(runs) {
                    *total = s.add_runs(*total, runs, &scales);
                }
                continue;
            }
            for (c, total) in totals.iter_mut().enumerate() {
                let mut runs = s.start::<0>(0);
                for x in &*x {
                    runs = s.multiply::<false>(runs, quads, x[c]);
                }
                *total = s.add_runs(*total, runs, &scales);
            }
        }
        let mut outputs = s.outputs(&[0.0; OUTPUTS]);
        for total in totals {
            outputs = s.add_totals(outputs, total, &[1.0; OUTPUTS], 1.0);
        }
        let mut out = [0.0; OUTPUTS];
        s.store_outputs(outputs, &mut out);
        std::hint::black_box(out);
        self.0 * (2 * CHAINS * RUN * 4 * OUTPUTS) as u64
    }
}
