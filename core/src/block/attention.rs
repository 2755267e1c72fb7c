//! Grouped-query attention with its projections, as most decoder families have it.

use super::cut;
use crate::axis::Axis;
use crate::decoder::Attention;
use crate::matrix::RowsBuf;
use crate::ops::{Pairing, Rotation};
use crate::pass::{Heads, Pass, Sight};
use crate::table::{Conversion, LinearId, TensorId, TensorTable};

/// In what the attention of a family departs from projections without biases and norms, in a matrix each.
#[derive(Clone, Copy, Debug, Default)]
pub struct Parts<'a> {
    /// Biases on q, k and v.
    pub bias: bool,
    /// A bias on the output.
    pub output_bias: bool,
    /// RMS norms of q and k, of these widths: that of a head for each head by itself, or that of all heads together.
    pub norms: Option<[&'a Axis; 2]>,
    /// Whether q, k and v lie one under the other in one matrix.
    pub fused: bool,
    /// Whether GGUF has the rows of q and k that rotate together side by side.
    pub interleaved: bool,
}

/// q, k and v from one input, turned; what each head gathers from the positions it sees; and their projection.
#[derive(Clone, Copy, Debug)]
pub struct SelfAttention {
    heads: Heads,
    qkv: [LinearId; 3],
    norms: Option<[TensorId; 2]>,
    output: LinearId,
}

impl SelfAttention {
    /// Asks for its tensors.
    pub fn of(t: &mut TensorTable, widths: &Attention, hidden: &Axis, parts: Parts<'_>) -> SelfAttention {
        let qkv = if parts.fused { fused(t, widths, hidden) } else { apart(t, widths, hidden, parts.bias) };
        if parts.interleaved {
            for id in qkv[..2].iter().flat_map(|l| [Some(l.weight), l.bias]).flatten() {
                t.convert(id, Conversion::Interleaved(widths.head_dim.len));
            }
        }
        let norms = parts.norms.map(|[q, k]| {
            let q = t.scale("self_attn.q_norm.weight", "attn_q_norm.weight", q);
            [q, t.scale("self_attn.k_norm.weight", "attn_k_norm.weight", k)]
        });
        let output = t.matrix("self_attn.o_proj.weight", "attn_output.weight", [hidden, &widths.q]);
        let bias = parts.output_bias.then(|| t.bias("self_attn.o_proj.bias", "attn_output.bias", hidden));
        SelfAttention { heads: widths.heads, qkv, norms, output: output.with(bias) }
    }

    /// Which elements of a head this file's rows of q and k have turn together.
    pub fn pairing(&self, p: &Pass<'_>) -> Pairing {
        p.weights.pairing(self.qkv[0])
    }

    /// What it makes of normed rows. Without a rotation, positions are told apart by the order of tokens alone.
    pub fn run(
        &self,
        p: &mut Pass<'_>,
        y: &RowsBuf,
        rotation: Option<&Rotation>,
        sight: impl Into<Sight>,
        eps: f32,
    ) -> RowsBuf {
        let [mut q, mut k, v] = p.project(["q", "k", "v"], self.qkv, y);
        if let Some([q_norm, k_norm]) = self.norms {
            p.rms_norm_heads("q_norm", &mut q, q_norm, eps);
            p.rms_norm_heads("k_norm", &mut k, k_norm, eps);
        }
        if let Some(rotation) = rotation {
            p.rope("q_rope", &mut q, rotation);
            p.rope("k_rope", &mut k, rotation);
        }
        let heads = p.attend("heads", [&q, &k, &v], self.heads, sight);
        let [attention] = p.project(["attention"], [self.output], &heads);
        attention
    }
}

/// A matrix each.
fn apart(t: &mut TensorTable, widths: &Attention, hidden: &Axis, bias: bool) -> [LinearId; 3] {
    let (q, kv) = (&widths.q, &widths.kv);
    let q_proj = t.matrix("self_attn.q_proj.weight", "attn_q.weight", [q, hidden]);
    let k_proj = t.matrix("self_attn.k_proj.weight", "attn_k.weight", [kv, hidden]);
    let v_proj = t.matrix("self_attn.v_proj.weight", "attn_v.weight", [kv, hidden]);
    let q_bias = bias.then(|| t.bias("self_attn.q_proj.bias", "attn_q.bias", q));
    let k_bias = bias.then(|| t.bias("self_attn.k_proj.bias", "attn_k.bias", kv));
    let v_bias = bias.then(|| t.bias("self_attn.v_proj.bias", "attn_v.bias", kv));
    [q_proj.with(q_bias), k_proj.with(k_bias), v_proj.with(v_bias)]
}

/// One matrix, the rows of q, k and v one under the other.
fn fused(t: &mut TensorTable, widths: &Attention, hidden: &Axis) -> [LinearId; 3] {
    let (q, kv) = (&widths.q, &widths.kv);
    let all = t.matrix("self_attn.qkv_proj.weight", "attn_qkv.weight", [&(q + &(2 * kv)), hidden]).plain();
    cut(all, [q.len, kv.len, kv.len])
}
