//! Products with activations rounded to 8 bits, summed in whole numbers.
//!
//! Written once over [`dot8::Dot8`], compiled for each set of instructions. Weights are used as they are stored;
//! nothing of them is rounded. What is lost is in the activations alone (see [`activations`]) and, as everywhere, in
//! the f32 sums of blocks. Element types whose codes are no small integers, and all other ops, are inherited from the
//! leaf with f32 activations.
//!
//! An output has the same bits wherever its row of weights stands in a call and however many there are, so cutting
//! the outputs changes nothing.

mod activations;
pub(crate) mod dot8;
mod formats;
mod panels;
mod rows;
mod saturate;
#[cfg(test)]
pub(crate) mod tests;

use activations::{Few, Grain, Layout, MANY, Tiles};
use dot8::Dot8;
use formats::{Codes, Format};
use scantling_core::dtype::DType;
use scantling_core::kernel::{Job, Kernel, Precision};
use scantling_core::matrix::{Rows, RowsMut};
use scantling_core::ops::Linear;

/// What all of these leaves do to activations: the coarse grain shares a scale among as many.
pub(crate) const PRECISION: Precision = Precision::Quantised { block: activations::SPAN };

/// The element types whose codes are small integers, with their formats: how a product finds its format, and whether
/// there is one.
macro_rules! formats {
    ($($dtype:ident $format:ident),+ $(,)?) => {
        /// Whether products with such a matrix are done here.
        fn is_known(dtype: DType) -> bool {
            matches!(dtype, $(DType::$dtype)|+)
        }

        impl<S: Dot8, M: Dot8> Int8<S, M> {
            fn product(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>, prepared: &mut Prepared) {
                let w = linear.weight;
                assert_eq!((x.cols(), x.rows(), w.rows()), (w.cols(), out.rows(), out.cols()), "{w:?} does not fit");
                match w.dtype() {
                    $(DType::$dtype => self.by::<formats::$format>(linear, x, out, prepared),)+
                    _ => self.base.matmul(linear, x, out),
                }
            }
        }
    };
}

formats! {
    Q8_0 Q8_0, Q4_0 Q4_0, Q4_1 Q4_1, Q5_0 Q5_0, Q5_1 Q5_1, IQ4_NL Iq4Nl, MXFP4 Mxfp4, Q2_K Q2K, Q3_K Q3K, Q4_K Q4K,
    Q5_K Q5K, Q6_K Q6K, IQ4_XS Iq4Xs,
}

/// The leaf for one set of instructions; or for one with few rows of activations and another with many.
pub(crate) struct Int8<S, M> {
    name: &'static str,
    few: S,
    many: M,
    base: Box<dyn Kernel>,
}

impl<S: Dot8, M: Dot8> Int8<S, M> {
    /// With everything that it does not do itself done by `base`.
    pub(crate) fn new(name: &'static str, few: S, many: M, base: Box<dyn Kernel>) -> Int8<S, M> {
        Int8 { name, few, many, base }
    }
}

impl<S: Dot8, M: Dot8> Kernel for Int8<S, M> {
    fn name(&self) -> String {
        self.name.to_owned()
    }

    fn base(&self) -> Option<&dyn Kernel> {
        Some(&*self.base)
    }

    fn precision(&self) -> Precision {
        PRECISION
    }

    fn scratch(&self, job: &Job) -> usize {
        match *job {
            Job::Product { dtype, cols, rows } if is_known(dtype) => {
                activations::takes(rows, cols) + panels::takes(rows)
            }
            _ => self.base.scratch(job),
        }
    }

    fn saturate(&self, rounds: u64) -> u64 {
        self.many.run(saturate::Saturate(rounds))
    }

    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        self.product(linear, x, out, &mut Prepared::default());
    }

    fn matmuls(&self, linears: &[Linear<'_>], x: Rows<'_>, outs: Vec<RowsMut<'_>>) {
        let mut prepared = Prepared::default();
        for (linear, out) in linears.iter().zip(outs) {
            self.product(*linear, x, out, &mut prepared);
        }
    }
}

impl<S: Dot8, M: Dot8> Int8<S, M> {
    fn by<F: Format>(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>, prepared: &mut Prepared) {
        if x.rows() == 0 || linear.weight.rows() == 0 {
            return;
        }
        if x.rows() < MANY {
            let few = prepared.few::<F, S>(self.few, x);
            rows::product::<F, S>(self.few, linear, few, out);
        } else {
            let tiles = match F::GRAIN {
                Grain::Coarse => &mut prepared.tiles_coarse,
                Grain::Fine => &mut prepared.tiles_fine,
            };
            let tiles = tiles.get_or_insert_with(|| Tiles::new(self.few, x, F::GRAIN));
            panels::product::<F, M>(self.many, linear, tiles, out);
        }
    }
}

/// Activations as the products of one call have needed them so far.
#[derive(Default)]
struct Prepared {
    few: Vec<Few>,
    tiles_fine: Option<Tiles>,
    tiles_coarse: Option<Tiles>,
}

impl Prepared {
    /// A few rows, as format `F` wants them.
    fn few<F: Format, S: Dot8>(&mut self, s: S, x: Rows<'_>) -> &Few {
        let fine = F::GRAIN == Grain::Fine;
        let raised = if let (Codes::Signed(bits), true) = (F::CODES, fine) { 1 << bits } else { 0 };
        let layout = Layout { grain: F::GRAIN, paired: fine && S::PAIRED, raised };
        let known = self.few.iter().position(|few| few.layout == layout);
        let known = known.unwrap_or_else(|| {
            self.few.push(Few::new(s, x, layout));
            self.few.len() - 1
        });
        &self.few[known]
    }
}
