//! A forward pass that computes nothing: what buffers it makes, what products and attentions it asks for.
//!
//! Gone through with two tokens and with three, it tells what any number takes: sizes are so many numbers, and so many
//! more for each token. A mixture of experts is gone through with all tokens sent to the same experts, where its buffers
//! are largest.

use super::outline::Outline;
use crate::architecture::Decoder;
use crate::axis::Axis;
use crate::cache::{KvCache, KvType};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::index::TensorIndex;
use crate::kernel::{Job, Kernel};
use crate::ledger;
use crate::matrix::{Matrix, Rows, RowsMut};
use crate::ops::{Activation, Attending, Linear, Rotation, Routing};
use crate::pass::Pass;
use crate::quant::DecodeError;
use crate::source::{Dialect, WeightSource};
use crate::table::{Stored, TensorTable, Use};
use crate::weights::Weights;
use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

/// A length that grows with the tokens of a pass.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Line {
    fixed: i64,
    each: i64,
}

impl Line {
    /// The one through what it is for two and for three tokens.
    fn through(two: usize, three: usize) -> Line {
        let whole = |n: usize| i64::try_from(n).unwrap_or(i64::MAX);
        let each = whole(three).saturating_sub(whole(two));
        Line { fixed: whole(two).saturating_sub(each.saturating_mul(2)), each }
    }

    fn at(self, tokens: usize) -> u64 {
        let tokens = i64::try_from(tokens).unwrap_or(i64::MAX);
        u64::try_from(self.each.saturating_mul(tokens).saturating_add(self.fixed)).unwrap_or(0)
    }
}

/// What a pass was seen to need.
#[derive(Clone, Debug)]
pub(super) struct Rehearsal {
    /// Bytes of all buffers, at the moments when there were more than before.
    buffers: BTreeSet<Line>,
    /// Element type and inputs of the products, and how many rows of activations they have.
    products: Vec<(DType, usize, Line)>,
    /// The attention of each layer, with its rows of queries.
    attentions: Vec<(Attending<'static>, Line)>,
    /// Bytes of weights that were held apart from what is mapped.
    owned: u64,
}

impl Rehearsal {
    /// Goes through a pass of a model. The kernel is only asked on how many threads it works.
    pub(super) fn of(
        decoder: &dyn Decoder,
        table: &TensorTable,
        outline: &Outline<'_>,
        kernel: &dyn Kernel,
    ) -> Result<Rehearsal> {
        sane(table, outline.dialect(), outline.tensors())?;
        let weights = Weights::bind(table, outline, &Listener::new(1))?;
        let go = |tokens: usize| {
            let listener = Listener::new(kernel.threads());
            let mut cache = KvCache::new(&decoder.cache(), KvType::F16, tokens)?;
            let ids = vec![0; tokens];
            let ((), moments) = ledger::watch(|| {
                let mut pass = Pass {
                    weights: &weights,
                    kernel: &listener,
                    cache: &mut cache,
                    ids: &ids,
                    total: tokens,
                    want: 1,
                    tap: None,
                    layer: None,
                };
                drop(decoder.forward(&mut pass));
            });
            Ok((moments, listener.heard.into_inner().unwrap_or_else(PoisonError::into_inner)))
        };
        let (two, three): ((Vec<usize>, Heard), (Vec<usize>, Heard)) = (go(2)?, go(3)?);
        let buffers = two.0.iter().zip(&three.0).map(|(two, three)| Line::through(*two, *three)).collect();
        let mut products = Vec::new();
        for (two, three) in two.1.products.iter().zip(&three.1.products) {
            let product = (two.0, two.1, Line::through(two.2, three.2));
            if !products.contains(&product) {
                products.push(product);
            }
        }
        let attentions = two.1.attentions.iter().zip(&three.1.attentions);
        let attentions = attentions.map(|(two, three)| (two.0, Line::through(two.1, three.1))).collect();
        Ok(Rehearsal { buffers, products, attentions, owned: weights.owned_bytes() as u64 })
    }

    /// Bytes of the buffers of a pass of so many tokens, when there are most.
    pub(super) fn buffers(&self, tokens: usize) -> u64 {
        self.buffers.iter().map(|line| line.at(tokens)).max().unwrap_or(0)
    }

    /// Bytes that a kernel takes for itself in a pass of so many tokens that sees so many positions: for products and
    /// for attention, since what was taken for the one may be kept during the other.
    pub(super) fn scratch(&self, kernel: &dyn Kernel, tokens: usize, positions: usize) -> u64 {
        let rows = |line: &Line| usize::try_from(line.at(tokens)).unwrap_or(usize::MAX);
        let products = self.products.iter().map(|(dtype, cols, line)| {
            kernel.scratch(&Job::Product { dtype: *dtype, cols: *cols, rows: rows(line) })
        });
        let mut seen: Vec<&Attending<'static>> = Vec::new();
        let attentions = self.attentions.iter().filter(|(how, _)| {
            let new = !seen.contains(&how);
            if new {
                seen.push(how);
            }
            new
        });
        let attentions = attentions
            .map(|(how, line)| kernel.scratch(&Job::Attention { how: *how, queries: rows(line), positions }));
        let (products, attentions) = (products.max().unwrap_or(0), attentions.max().unwrap_or(0));
        (products as u64).saturating_add(attentions as u64)
    }

    /// Bytes of weights that are held apart from what is mapped.
    pub(super) fn owned(&self) -> u64 {
        self.owned
    }

    /// The window of each layer's attention.
    pub(super) fn windows(&self) -> Vec<Option<usize>> {
        self.attentions.iter().map(|(how, _)| how.window).collect()
    }
}

/// Most bytes that vectors and the buffers of three tokens may take: what no model comes near that anybody runs.
const MOST: u64 = 1 << 30;

/// Bytes that one tensor may have: more than any file is that anybody has.
const MOST_STORED: u64 = 1 << 44;

/// Refuses sizes out of a config that would fill memory before anything could be told. `stored` are the tensors that there
/// would be.
pub(super) fn sane(table: &TensorTable, dialect: Dialect, stored: &TensorIndex) -> Result<()> {
    let mut sum = 0u64;
    for expected in table.named(dialect) {
        let Some(info) = stored.get(&expected.name) else { continue };
        let takes = match (expected.row.usage, info.shape.as_slice()) {
            (Use::Embedding | Use::Matrix, [.., rows, cols]) => {
                (*rows as u64).saturating_add(*cols as u64).saturating_mul(3)
            }
            _ => info.elements(),
        };
        let bytes = takes.saturating_mul(size_of::<f32>() as u64);
        sum = sum.saturating_add(bytes);
        if info.byte_len() > MOST_STORED || bytes > MOST || sum > MOST.saturating_mul(64) {
            return Err(too_large(&expected));
        }
    }
    Ok(())
}

/// Says which length is too large, by the largest that a tensor has.
fn too_large(expected: &Stored<'_>) -> Error {
    let (name, shape) = (&expected.name, expected.lens());
    let largest = expected.shape.iter().max_by_key(|axis| axis.len);
    let why = largest.map_or_else(String::new, |axis| format!(", since {axis}"));
    let field = largest.map_or("it", Axis::why);
    Error::Usage(format!(
        "{name} would be {shape:?}{why}: no machine computes with that; correct {field} in the config"
    ))
}

/// A kernel that computes nothing and remembers what it was asked for.
struct Listener {
    threads: usize,
    heard: Mutex<Heard>,
}

#[derive(Default)]
struct Heard {
    products: Vec<(DType, usize, usize)>,
    attentions: Vec<(Attending<'static>, usize)>,
}

impl Listener {
    fn new(threads: usize) -> Listener {
        Listener { threads, heard: Mutex::default() }
    }

    fn hear(&self, what: impl FnOnce(&mut Heard)) {
        what(&mut self.heard.lock().unwrap_or_else(PoisonError::into_inner));
    }
}

/// Every op is here: one that was not would compute.
impl Kernel for Listener {
    fn name(&self) -> String {
        "listener".to_owned()
    }

    fn threads(&self) -> usize {
        self.threads
    }

    fn decode(&self, _: DType, _: &[u8], _: &mut [f32]) -> Result<(), DecodeError> {
        Ok(())
    }

    fn dot(&self, _: DType, _: &[u8], _: &[f32]) -> f32 {
        0.0
    }

    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, _: RowsMut<'_>) {
        let w = linear.weight;
        self.hear(|heard| heard.products.push((w.dtype(), w.cols(), x.rows())));
    }

    fn embed(&self, _: Matrix<'_>, _: &[u32], _: RowsMut<'_>) {}

    fn rms_norm(&self, _: RowsMut<'_>, _: &[f32], _: f32) {}

    fn layer_norm(&self, _: RowsMut<'_>, _: &[f32], _: &[f32], _: f32) {}

    fn rope(&self, _: RowsMut<'_>, _: &Rotation) {}

    fn attention(&self, q: Rows<'_>, _: Matrix<'_>, _: Matrix<'_>, how: Attending<'_>, _: RowsMut<'_>) {
        // Where the queries start differs between passes, and sinks take nothing.
        let Attending { heads, kv_heads, key, value, scale, causal, window, softcap, .. } = how;
        let how =
            Attending { heads, kv_heads, key, value, scale, start: 0, causal, window, softcap, sinks: None };
        self.hear(|heard| heard.attentions.push((how, q.rows())));
    }

    fn activate(&self, _: Activation, _: RowsMut<'_>) {}

    fn gate(&self, _: Activation, _: RowsMut<'_>, _: Rows<'_>) {}

    fn add(&self, _: RowsMut<'_>, _: Rows<'_>, _: f32) {}

    fn scale(&self, _: RowsMut<'_>, _: f32) {}

    fn softcap(&self, _: RowsMut<'_>, _: f32) {}

    /// All tokens to the first experts.
    fn route(&self, logits: Rows<'_>, how: Routing<'_>) -> Vec<(usize, f32)> {
        (0..logits.rows()).flat_map(|_| (0..how.used).map(|expert| (expert, 0.0))).collect()
    }
}
