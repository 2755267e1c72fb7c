//! The parts of a decoder block that families share: the tensors they have and what is computed with them.
//!
//! What a family does by itself stands in its file; what several do alike stands here once.

use crate::axis::Axis;
use crate::config::Config;
use crate::decoder::{self, Attention};
use crate::matrix::RowsBuf;
use crate::ops::Activation;
use crate::pass::Pass;
use crate::table::{LinearId, TensorId, TensorTable};

/// Asks for the projections of one input to q, k and v, and for their biases if they are wanted.
pub fn qkv(t: &mut TensorTable, attention: &Attention, hidden: &Axis, bias: bool) -> [LinearId; 3] {
    let (q, kv) = (&attention.q, &attention.kv);
    let q_proj = t.matrix("self_attn.q_proj.weight", "attn_q.weight", [q, hidden]);
    let k_proj = t.matrix("self_attn.k_proj.weight", "attn_k.weight", [kv, hidden]);
    let v_proj = t.matrix("self_attn.v_proj.weight", "attn_v.weight", [kv, hidden]);
    let q_bias = bias.then(|| t.bias("self_attn.q_proj.bias", "attn_q.bias", q));
    let k_bias = bias.then(|| t.bias("self_attn.k_proj.bias", "attn_k.bias", kv));
    let v_bias = bias.then(|| t.bias("self_attn.v_proj.bias", "attn_v.bias", kv));
    [q_proj.with(q_bias), k_proj.with(k_bias), v_proj.with(v_bias)]
}

/// Asks for the projection of all heads to the hidden width, and for its bias if it is wanted.
pub fn attention_output(t: &mut TensorTable, attention: &Attention, hidden: &Axis, bias: bool) -> LinearId {
    let o_proj = t.matrix("self_attn.o_proj.weight", "attn_output.weight", [hidden, &attention.q]);
    o_proj.with(bias.then(|| t.bias("self_attn.o_proj.bias", "attn_output.bias", hidden)))
}

/// A feed-forward half: x + down · (silu(gate · y) · (up · y)), y the RMS norm of x.
#[derive(Clone, Copy, Debug)]
pub struct SwiGlu {
    norm: TensorId,
    gate_up: [LinearId; 2],
    down: LinearId,
}

impl SwiGlu {
    /// Asks for the norm, the three matrices, and their biases if they are wanted.
    pub fn of(t: &mut TensorTable, hidden: &Axis, inner: &Axis, bias: bool) -> SwiGlu {
        let norm = t.scale("post_attention_layernorm.weight", "ffn_norm.weight", hidden);
        let gate = t.matrix("mlp.gate_proj.weight", "ffn_gate.weight", [inner, hidden]);
        let up = t.matrix("mlp.up_proj.weight", "ffn_up.weight", [inner, hidden]);
        let down = t.matrix("mlp.down_proj.weight", "ffn_down.weight", [hidden, inner]);
        let gate = gate.with(bias.then(|| t.bias("mlp.gate_proj.bias", "ffn_gate.bias", inner)));
        let up = up.with(bias.then(|| t.bias("mlp.up_proj.bias", "ffn_up.bias", inner)));
        let down = down.with(bias.then(|| t.bias("mlp.down_proj.bias", "ffn_down.bias", hidden)));
        SwiGlu { norm, gate_up: [gate, up], down }
    }

    /// Adds what it computes to `x`.
    pub fn run(&self, p: &mut Pass<'_>, x: &mut RowsBuf, eps: f32) {
        let y = p.rms_norm("ffn_norm", x, self.norm, eps);
        let [mut gate, up] = p.project(["gate", "up"], self.gate_up, &y);
        p.gate("gated", Activation::Silu, &mut gate, &up);
        let [ffn] = p.project(["ffn"], [self.down], &gate);
        p.add("output", x, &ffn);
    }
}

/// What comes behind the last block: an RMS norm and the head, which may be the embedding.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    norm: TensorId,
    head: LinearId,
}

impl Ending {
    /// Asks for both; `tied` as in [`decoder::tie_head`].
    pub fn of(
        config: &Config,
        t: &mut TensorTable,
        [vocab, hidden]: [&Axis; 2],
        embedding: TensorId,
        tied: bool,
    ) -> Ending {
        t.global();
        let norm = t.scale("model.norm.weight", "output_norm.weight", hidden);
        let head = t.matrix("lm_head.weight", "output.weight", [vocab, hidden]);
        decoder::tie_head(config, t, head, embedding, tied);
        Ending { norm, head: head.plain() }
    }

    /// The logits of the tokens that they are wanted for.
    pub fn run(&self, p: &mut Pass<'_>, x: &RowsBuf, eps: f32) -> RowsBuf {
        let last = p.wanted(x);
        let last = p.rms_norm("final_norm", &last, self.norm, eps);
        p.logits(&last, self.head)
    }
}
