//! One forward pass: the ops of a kernel on the weights of a model, written so that an architecture reads as formulas.

use crate::cache::{KvCache, LayerCache};
use crate::kernel::Kernel;
use crate::matrix::{Rows, RowsBuf};
use crate::ops::{Activation, Attending, Pairing, Rotation};
use crate::rope::Rope;
use crate::table::{LinearId, TensorId};
use crate::weights::Weights;

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
}

impl Heads {
    /// Grouped-query attention with heads of one width and a scale of 1/√width.
    pub fn grouped(heads: usize, kv_heads: usize, width: usize) -> Heads {
        Heads { heads, kv_heads, key: width, value: width, scale: (1.0 / (width as f64).sqrt()) as f32 }
    }

    /// What a layer with such heads keeps of a position.
    pub fn cache(&self) -> LayerCache {
        let times = |width: usize| self.kv_heads.saturating_mul(width);
        LayerCache { key: times(self.key), value: times(self.value) }
    }
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
    /// For how many of them, the last, logits are wanted.
    pub want: usize,
    /// Who looks on, if anyone does.
    pub tap: Option<&'a mut dyn Tap>,
    /// The layer under way.
    pub layer: Option<usize>,
}

impl Pass<'_> {
    /// Shows an intermediate to who looks on.
    pub fn see(&mut self, name: &'static str, rows: &RowsBuf) {
        if let Some(tap) = &mut self.tap {
            tap.see(self.layer, name, rows.view());
        }
    }

    /// The embeddings of the tokens.
    pub fn embed(&mut self, table: TensorId) -> RowsBuf {
        let x = self.kernel.embedded(self.weights.matrix(table), self.ids);
        self.see("embedding", &x);
        x
    }

    /// The angles of the tokens' positions.
    pub fn rotation(&self, rope: &Rope, pairing: Pairing, head: usize) -> Rotation {
        rope.rotation(self.cache.len(), self.ids.len(), pairing, head)
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
        let linears = linears.map(|l| self.weights.linear(l));
        let mut outs = linears.map(|l| RowsBuf::zeros(x.view().rows(), l.weight.rows()));
        self.kernel.matmuls(&linears, x.view(), outs.iter_mut().map(|out| out.view_mut()).collect());
        for (name, out) in names.into_iter().zip(&outs) {
            self.see(name, out);
        }
        outs
    }

    /// `gate = act(gate) · up`.
    pub fn gate(&mut self, name: &'static str, activation: Activation, gate: &mut RowsBuf, up: &RowsBuf) {
        self.kernel.gate(activation, gate.view_mut(), up.view());
        self.see(name, gate);
    }

    /// `x = x + y`.
    pub fn add(&mut self, name: &'static str, x: &mut RowsBuf, y: &RowsBuf) {
        self.kernel.add(x.view_mut(), y.view(), 1.0);
        self.see(name, x);
    }

    /// Causal attention of the tokens to themselves and all before them, or to the last `window` of those; their keys
    /// and values are put into the cache.
    pub fn attend(
        &mut self,
        name: &'static str,
        [q, k, v]: [&RowsBuf; 3],
        heads: Heads,
        window: Option<usize>,
    ) -> RowsBuf {
        let layer = self.layer.expect("attention is in a layer");
        self.cache.write(layer, k.view(), v.view());
        let how = Attending {
            heads: heads.heads,
            kv_heads: heads.kv_heads,
            key: heads.key,
            value: heads.value,
            scale: heads.scale,
            start: self.cache.len(),
            causal: true,
            window,
            softcap: None,
            sinks: None,
        };
        let (keys, values) = self.cache.view(layer, self.ids.len());
        let out = self.kernel.attended(q.view(), keys, values, how);
        self.see(name, &out);
        out
    }

    /// The rows that logits are wanted for.
    pub fn wanted(&mut self, x: &RowsBuf) -> RowsBuf {
        self.layer = None;
        let rows = x.view().rows();
        RowsBuf::copy_of(x.view().rows_at(rows - self.want.min(rows)..rows))
    }

    /// The logits of normed rows.
    pub fn logits(&mut self, x: &RowsBuf, head: LinearId) -> RowsBuf {
        let [logits] = self.project(["logits"], [head], x);
        logits
    }
}
