//! How well a block type is used: the ranges of its scales and minima, and how often each code stands.

use crate::dtype::DType;
use crate::quant::parts::{Anatomy, Parts};

/// What the blocks of a tensor hold.
#[derive(Clone, Debug, PartialEq)]
pub struct Blocks {
    /// How many blocks there are.
    pub count: u64,
    /// Scales of all sub-blocks, each after its own factors.
    pub scales: Range,
    /// Minima of all sub-blocks, if the type has them.
    pub minima: Option<Range>,
    /// How often each code stands.
    pub codes: Vec<u64>,
    /// The number that the first code is: 0, or the smallest of signed ones.
    pub lowest: i32,
}

/// Limits of numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Range {
    /// All of them.
    pub count: u64,
    /// Those that are 0: all that they scale is 0 then.
    pub zeros: u64,
    /// Those that are not finite.
    pub not_finite: u64,
    /// The smallest finite one; infinite if there is none.
    pub min: f32,
    /// The largest finite one; infinite if there is none.
    pub max: f32,
}

impl Default for Range {
    fn default() -> Range {
        Range { count: 0, zeros: 0, not_finite: 0, min: f32::INFINITY, max: f32::NEG_INFINITY }
    }
}

impl Range {
    fn add(&mut self, x: f32) {
        self.count += 1;
        self.zeros += u64::from(x == 0.0);
        if x.is_finite() {
            // Of zeros of two signs the positive is shown.
            (self.min, self.max) = (self.min.min(x) + 0.0, self.max.max(x) + 0.0);
        } else {
            self.not_finite += 1;
        }
    }

    fn join(&self, other: &Range) -> Range {
        Range {
            count: self.count + other.count,
            zeros: self.zeros + other.zeros,
            not_finite: self.not_finite + other.not_finite,
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

impl Blocks {
    /// Of no block yet; `None` where a type has none.
    pub fn new(dtype: DType) -> Option<Blocks> {
        let anatomy = Anatomy::of(dtype)?;
        let minima = (anatomy.minima > 0).then(Range::default);
        let codes = vec![0; anatomy.levels];
        Some(Blocks { count: 0, scales: Range::default(), minima, codes, lowest: anatomy.lowest })
    }

    /// Counts whole blocks.
    pub fn add(&mut self, dtype: DType, raw: &[u8]) {
        let Some(anatomy) = Anatomy::of(dtype) else { return };
        let mut parts = Parts::default();
        for block in raw.chunks_exact(dtype.block_bytes()) {
            anatomy.take(block, &mut parts);
            self.count += 1;
            parts.scales.iter().take(anatomy.scales).for_each(|x| self.scales.add(*x));
            if let Some(minima) = &mut self.minima {
                parts.minima.iter().take(anatomy.minima).for_each(|x| minima.add(*x));
            }
            for code in parts.codes.iter().take(anatomy.codes) {
                if let Some(count) = self.codes.get_mut(usize::from(*code)) {
                    *count += 1;
                }
            }
        }
    }

    /// These and those of another piece.
    pub fn join(mut self, other: &Blocks) -> Blocks {
        self.count += other.count;
        self.scales = self.scales.join(&other.scales);
        self.minima = self.minima.zip(other.minima).map(|(a, b)| a.join(&b));
        self.codes.iter_mut().zip(&other.codes).for_each(|(a, b)| *a += b);
        self
    }

    /// Codes that stand anywhere.
    pub fn used(&self) -> usize {
        self.codes.iter().filter(|n| **n > 0).count()
    }

    /// Bits that a code tells: as many as it is stored in only where all are equally frequent.
    pub fn entropy(&self) -> f64 {
        let all = self.codes.iter().sum::<u64>() as f64;
        let shares = self.codes.iter().filter(|n| **n > 0).map(|n| *n as f64 / all);
        shares.map(|p| -p * p.log2()).sum()
    }
}
