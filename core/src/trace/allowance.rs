//! How far two runs may be apart, by what made them.

use crate::dtype::DType;
use crate::kernel::{Kernel, Precision};
use crate::model::Model;

/// Of a row's largest entry: what the same weights computed in f32 in another order may differ by.
pub const EXACT: f64 = 1e-4;

/// No fault worth the name is smaller: with more allowed, anything passes.
const MOST: f64 = 0.75;

/// How often the rounding of one weight shows in an intermediate: errors add up over layers, and a row's largest entry
/// is no larger than some of what it is summed from.
const GROWTH: f64 = 16.0;

/// Half a step of 8-bit activations, as a share of their row's largest, and twice that: the step follows the largest,
/// so that where a few are far larger than the rest (as in many trained models) it is coarse for all others, and the
/// sums that these make are off by more of their own size.
const ROUNDED: f64 = 2.0 / 254.0;

/// What made a trace, as far as it decides how exact it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Making {
    /// The kernel, wrappers and all; empty if it is not known.
    pub kernel: String,
    /// Whether products round activations to 8 bits.
    pub rounds: bool,
    /// Element types of the matrices, each once; none if they are not known.
    pub types: Vec<DType>,
}

impl Making {
    /// Of a model that a kernel runs.
    pub fn of(model: &Model, kernel: &dyn Kernel) -> Making {
        let tensors = model.source.tensors().tensors().iter();
        let mut types: Vec<DType> =
            tensors.filter(|t| t.shape.len() >= 2).filter_map(|t| t.dtype.known()).collect();
        types.sort_by_key(|t| t.name());
        types.dedup();
        Making { kernel: kernel.name(), rounds: kernel.precision() != Precision::Exact, types }
    }
}

/// How far elements may be apart, as a share of the largest of their row.
#[derive(Clone, Debug, PartialEq)]
pub struct Allowance {
    /// The share.
    pub share: f64,
    /// What it follows from.
    pub why: String,
}

impl Allowance {
    /// As it was asked for.
    pub fn given(share: f64) -> Allowance {
        Allowance { share, why: "as given".to_owned() }
    }

    /// What two runs that are both right may differ by: [`EXACT`], and sixteen times half a step of the coarsest element
    /// type that only one side has, and sixteen times twice half a step of 8-bit activations if either side rounds to them and the kernels differ.
    pub fn between(a: &Making, b: &Making) -> Allowance {
        let mut share = EXACT;
        let mut why = Vec::new();
        let only = |x: &Making, y: &Making| -> Vec<DType> {
            x.types.iter().copied().filter(|t| !y.types.contains(t) && !widest(*t)).collect()
        };
        let apart = match (a.types.is_empty(), b.types.is_empty()) {
            // A trace made elsewhere: weights that are floats are taken to be the same.
            (true, _) => b.types.iter().copied().filter(|t| t.is_quantised()).collect(),
            (_, true) => a.types.iter().copied().filter(|t| t.is_quantised()).collect(),
            _ => [only(a, b), only(b, a)].concat(),
        };
        if let Some(coarsest) = apart.into_iter().max_by(|x, y| grain(*x).total_cmp(&grain(*y))) {
            share += GROWTH * grain(coarsest);
            why.push(format!("weights of {coarsest} on one side only"));
        }
        if (a.rounds || b.rounds) && a.kernel != b.kernel {
            share += GROWTH * ROUNDED;
            why.push("8-bit activations".to_owned());
        }
        let why = if why.is_empty() { "the same weights in f32".to_owned() } else { why.join(", ") };
        Allowance { share: share.min(MOST), why }
    }
}

fn widest(dtype: DType) -> bool {
    matches!(dtype, DType::F32 | DType::F64)
}

/// Half a step between numbers of a type, as a share of the largest near it.
fn grain(dtype: DType) -> f64 {
    match dtype {
        DType::F32 | DType::F64 => 0.0,
        DType::F16 => 2f64.powi(-11),
        DType::BF16 => 2f64.powi(-9),
        other => {
            let bits = 8.0 * other.block_bytes() as f64 / other.block_values().max(1) as f64;
            2f64.powf(-bits)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn made(kernel: &str, rounds: bool, types: &[DType]) -> Making {
        Making { kernel: kernel.to_owned(), rounds, types: types.to_vec() }
    }

    #[test]
    fn equal_weights_are_held_tight_and_coarse_ones_loosely() {
        let plain = made("scalar", false, &[DType::BF16]);
        let share = |b: &Making| Allowance::between(&plain, b).share;
        assert_eq!(share(&made("avx2", false, &[DType::BF16])), EXACT);
        assert_eq!(share(&Making::default()), EXACT);
        let q8 = share(&made("avx2", false, &[DType::Q8_0]));
        let q4 = share(&made("avx2", false, &[DType::Q4_K, DType::Q6_K]));
        let q2 = share(&made("avx2", false, &[DType::Q2_K]));
        assert!(EXACT < q8 && q8 < 0.05 && q8 < q4 && q4 < q2 && q2 <= MOST, "{q8} {q4} {q2}");
        let int8 = made("int8", true, &[DType::BF16]);
        // An element of a trained model was seen off by 0.082: outliers make its rows coarse.
        assert!(0.12 < share(&int8) && share(&int8) < 0.13, "{}", share(&int8));
        assert_eq!(Allowance::between(&int8, &int8).share, EXACT);
    }
}
