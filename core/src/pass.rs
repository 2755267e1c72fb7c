//! One forward pass: the ops of a kernel on the weights of a model, written so that an architecture reads as formulas.

use crate::cache::{KvCache, LayerCache};
use crate::kernel::Kernel;
use crate::matrix::{Rows, RowsBuf};
use crate::ops::{Activation, Attending, Pairing, Rotation};
use crate::rope::Rope;
use crate::table::{LinearId, TensorId};
use crate::weights::Weights;
use std::ops::Range;

/// Sees the intermediates of a forward pass.
pub trait Tap {
    /// One of them: `layer` is `None` for those of no layer; a row to each token.
    fn see(&mut self, layer: Option<usize>, name: &'static str, rows: Rows<'_>);
}

/// What the heads of an attention are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Heads {
    /// Query heads.
    pub heads: usize,
    /// Key-value heads, each for `heads / kv_heads` query heads.
    pub kv_heads: usize,
    /// Width of a query and key head.
    pub key: usize,
    /// Width of a value head.
    pub value: usize,
    /// Factor on the scores.
    pub scale: f32,
    /// Scores are `cap · tanh(score / cap)`, if they are capped.
    pub softcap: Option<f32>,
}

/// What a token sees of those before it, besides what the heads say.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sight {
    /// How many positions, its own included; all if it is not said.
    pub window: Option<usize>,
    /// A score for each head that takes part in the softmax and has no value.
    pub sinks: Option<TensorId>,
}

impl From<Option<usize>> for Sight {
    fn from(window: Option<usize>) -> Sight {
        Sight { window, sinks: None }
    }
}

impl Heads {
    /// Grouped-query attention with heads of one width and a scale of 1/√width.
    pub fn grouped(heads: usize, kv_heads: usize, width: usize) -> Heads {
        let scale = (1.0 / (width as f64).sqrt()) as f32;
        Heads { heads, kv_heads, key: width, value: width, scale, softcap: None }
    }

    /// What a layer with such heads keeps of a position.
    pub fn cache(&self) -> LayerCache {
        let times = |width: usize| self.kv_heads.saturating_mul(width);
        LayerCache { key: times(self.key), value: times(self.value) }
    }
}

/// What is done to logits last.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finish {
    /// Nothing.
    Nothing,
    /// They are `cap · tanh(logit / cap)`.
    Softcap(f32),
    /// They are multiplied.
    Times(f32),
}

/// A forward pass under way: some tokens behind those that the cache has seen.
///
/// Every intermediate goes by a name, under which a [`Tap`] sees it.
pub struct Pass<'a> {
    /// The model's tensors.
    pub weights: &'a Weights<'a>,
    /// Who computes.
    pub kernel: &'a dyn Kernel,
    /// Keys and values of what was before.
    pub cache: &'a mut KvCache,
    /// The tokens.
    pub ids: &'a [u32],
    /// How long the sequence will be when all tokens that were handed over together are computed.
    pub total: usize,
    /// For how many of them, the last, logits are wanted.
    pub want: usize,
    /// Who looks on, if anyone does.
    pub tap: Option<&'a mut dyn Tap>,
    /// The layer under way.
    pub layer: Option<usize>,
}

impl<'a> Pass<'a> {
    /// Shows an intermediate to who looks on.
    pub fn see(&mut self, name: &'static str, rows: &RowsBuf) {
        if let Some(tap) = &mut self.tap {
            tap.see(self.layer, name, rows.view());
        }
    }

    /// The embeddings of the tokens.
    pub fn embed(&mut self, table: TensorId) -> RowsBuf {
        self.embed_scaled(table, 1.0)
    }

    /// The embeddings of the tokens, times a factor.
    pub fn embed_scaled(&mut self, table: TensorId, factor: f32) -> RowsBuf {
        let mut x = self.looked_up(table, self.ids);
        if factor != 1.0 {
            self.kernel.scale(x.view_mut(), factor);
        }
        self.see("embedding", &x);
        x
    }

    /// The embeddings of the tokens and those of their positions, added.
    pub fn embed_with_positions(&mut self, table: TensorId, positions: TensorId) -> RowsBuf {
        let mut x = self.looked_up(table, self.ids);
        let start = self.cache.len();
        let places: Vec<u32> = (start..start + self.ids.len()).map(|p| p as u32).collect();
        let y = self.looked_up(positions, &places);
        self.kernel.add(x.view_mut(), y.view(), 1.0);
        self.see("embedding", &x);
        x
    }

    fn looked_up(&self, table: TensorId, ids: &[u32]) -> RowsBuf {
        let weight = self.weights.matrix(table);
        if let Some(matrix) = weight.matrix() {
            return self.kernel.embedded(matrix, ids);
        }
        let mut x = RowsBuf::zeros(ids.len(), weight.cols());
        let mut rows = x.view_mut();
        ids.iter().enumerate().for_each(|(t, id)| weight.widen(self.kernel, *id as usize, rows.row(t)));
        x
    }

    /// The angles of the tokens' positions, for heads that are turned from their start.
    pub fn rotation(&self, rope: &Rope, pairing: Pairing, head: usize) -> Rotation {
        self.rotation_from(rope, pairing, head, 0)
    }

    /// The same for heads that are turned from element `first` on.
    pub fn rotation_from(&self, rope: &Rope, pairing: Pairing, head: usize, first: usize) -> Rotation {
        let rotation = rope.rotation(self.cache.len(), self.ids.len(), pairing, head);
        Rotation { first, ..rotation }
    }

    /// The layer norm of a copy.
    pub fn layer_norm(
        &mut self,
        name: &'static str,
        x: &RowsBuf,
        [weight, bias]: [TensorId; 2],
        eps: f32,
    ) -> RowsBuf {
        let mut y = RowsBuf::copy_of(x.view());
        self.kernel.layer_norm(y.view_mut(), self.weights.vector(weight), self.weights.vector(bias), eps);
        self.see(name, &y);
        y
    }

    /// The RMS norm of a copy.
    pub fn rms_norm(&mut self, name: &'static str, x: &RowsBuf, weight: TensorId, eps: f32) -> RowsBuf {
        let y = self.kernel.normed(x.view(), self.weights.vector(weight), eps);
        self.see(name, &y);
        y
    }

    /// The RMS norm in place, of each run of the weight's length: one to a head.
    pub fn rms_norm_heads(&mut self, name: &'static str, x: &mut RowsBuf, weight: TensorId, eps: f32) {
        self.kernel.rms_norm(x.view_mut(), self.weights.vector(weight), eps);
        self.see(name, x);
    }

    /// Turns every head.
    pub fn rope(&mut self, name: &'static str, x: &mut RowsBuf, rotation: &Rotation) {
        self.kernel.rope(x.view_mut(), rotation);
        self.see(name, x);
    }

    /// Several projections of one input.
    pub fn project<const N: usize>(
        &mut self,
        names: [&'static str; N],
        linears: [LinearId; N],
        x: &RowsBuf,
    ) -> [RowsBuf; N] {
        let outs = self.products(linears, x);
        for (name, out) in names.into_iter().zip(&outs) {
            self.see(name, out);
        }
        outs
    }

    /// The same, unseen. What the kernel can compute as it lies is one call, the rest is computed by tiles.
    pub(crate) fn products<const N: usize>(&self, linears: [LinearId; N], x: &RowsBuf) -> [RowsBuf; N] {
        let weights = self.weights;
        let all = linears.map(|l| weights.linear(l));
        let mut outs = all.map(|l| RowsBuf::zeros(x.view().rows(), l.weight.rows()));
        let mut at_once = (Vec::with_capacity(N), Vec::with_capacity(N));
        for (projection, out) in all.iter().zip(&mut outs) {
            match projection.plain() {
                Some(linear) => {
                    at_once.0.push(linear);
                    at_once.1.push(out.view_mut());
                }
                None => projection.apply(self.kernel, x.view(), out.view_mut()),
            }
        }
        if !at_once.0.is_empty() {
            self.kernel.matmuls(&at_once.0, x.view(), at_once.1);
        }
        outs
    }

    /// `x = act(x)`.
    pub fn activate(&mut self, name: &'static str, activation: Activation, x: &mut RowsBuf) {
        self.kernel.activate(activation, x.view_mut());
        self.see(name, x);
    }

    /// `gate = act(gate) · up`.
    pub fn gate(&mut self, name: &'static str, activation: Activation, gate: &mut RowsBuf, up: &RowsBuf) {
        self.kernel.gate(activation, gate.view_mut(), up.view());
        self.see(name, gate);
    }

    /// `x = x + y`.
    pub fn add(&mut self, name: &'static str, x: &mut RowsBuf, y: &RowsBuf) {
        self.add_scaled(name, x, y, 1.0);
    }

    /// `x = x + factor · y`.
    pub fn add_scaled(&mut self, name: &'static str, x: &mut RowsBuf, y: &RowsBuf, factor: f32) {
        self.kernel.add(x.view_mut(), y.view(), factor);
        self.see(name, x);
    }

    /// Causal attention of the tokens to themselves and all before them, or to what `sight` leaves of those; their keys
    /// and values are put into the cache.
    pub fn attend(
        &mut self,
        name: &'static str,
        [q, k, v]: [&RowsBuf; 3],
        heads: Heads,
        sight: impl Into<Sight>,
    ) -> RowsBuf {
        let layer = self.layer.expect("a forward pass sets `layer` before attention");
        self.cache.write(layer, k.view(), v.view());
        let how = self.attending(heads, sight.into());
        let (keys, values) = self.cache.view(layer, self.ids.len());
        let out = self.kernel.attended(q.view(), keys, values, how);
        self.see(name, &out);
        out
    }

    /// The same where the values are some columns of the keys, which alone are kept.
    pub fn attend_within(
        &mut self,
        name: &'static str,
        [q, k]: [&RowsBuf; 2],
        values: Range<usize>,
        heads: Heads,
    ) -> RowsBuf {
        let layer = self.layer.expect("a forward pass sets `layer` before attention");
        self.cache.write(layer, k.view(), RowsBuf::zeros(k.view().rows(), 0).view());
        let how = self.attending(heads, Sight::default());
        let (keys, _) = self.cache.view(layer, self.ids.len());
        let out = self.kernel.attended(q.view(), keys, keys.cols_at(values), how);
        self.see(name, &out);
        out
    }

    fn attending(&self, heads: Heads, sight: Sight) -> Attending<'a> {
        let weights = self.weights;
        Attending {
            heads: heads.heads,
            kv_heads: heads.kv_heads,
            key: heads.key,
            value: heads.value,
            scale: heads.scale,
            start: self.cache.len(),
            causal: true,
            window: sight.window,
            softcap: heads.softcap,
            sinks: sight.sinks.map(|sinks| weights.vector(sinks)),
        }
    }

    /// The rows that logits are wanted for.
    pub fn wanted(&mut self, x: &RowsBuf) -> RowsBuf {
        self.layer = None;
        let rows = x.view().rows();
        RowsBuf::copy_of(x.view().rows_at(rows - self.want.min(rows)..rows))
    }

    /// The logits of normed rows; `finish` changes them before anybody sees them.
    pub fn logits(&mut self, x: &RowsBuf, head: LinearId, finish: Finish) -> RowsBuf {
        let [mut logits] = self.products([head], x);
        match finish {
            Finish::Nothing => {}
            Finish::Softcap(cap) => self.kernel.softcap(logits.view_mut(), cap),
            Finish::Times(factor) => self.kernel.scale(logits.view_mut(), factor),
        }
        self.see("logits", &logits);
        logits
    }
}
