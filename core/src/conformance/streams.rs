//! The two loops that only measure: they have to do what they say they do.

use super::{Case, Judged, random};
use crate::kernel::Kernel;
use crate::tolerance::Judgement;

/// Lengths around words, registers and whatever a loop takes at once.
const LENGTHS: [usize; 8] = [1, 7, 8, 31, 64, 257, 1000, 4099];

pub(super) fn cases() -> Vec<Case<'static>> {
    let mut cases: Vec<_> = LENGTHS.into_iter().map(sweep).collect();
    cases.push(Case::new("saturate", None, "1 and 1000 rounds".into(), |kernel| {
        let (one, many) = (kernel.saturate(1), kernel.saturate(1000));
        let judgement = Judgement::equal(&[many as f32], &[(1000 * one) as f32]);
        if one == 0 { Err("does nothing".into()) } else { Ok(Judged { judgement, cols: 1 }) }
    }));
    cases
}

/// Any byte that changes, changes what comes of it: else it was not read.
fn sweep(bytes: usize) -> Case<'static> {
    Case::new("sweep", None, format!("{bytes} bytes"), move |kernel: &dyn Kernel| {
        let mut random = random(bytes as u64, &[]);
        let lead = random.below(4);
        let mut data = random.bytes(lead + bytes);
        let before = kernel.sweep(&data[lead..]);
        for i in (lead..lead + bytes).step_by(bytes.div_ceil(300)) {
            let byte = data[i];
            data[i] ^= 1 << random.below(8);
            if kernel.sweep(&data[lead..]) == before {
                return Err(format!("byte {} of {bytes} makes no difference", i - lead));
            }
            data[i] = byte;
        }
        if kernel.sweep(&data[lead..]) != before {
            return Err("the same bytes give different results".into());
        }
        Ok(Judged { judgement: Judgement::equal(&[], &[]), cols: 1 })
    })
}
