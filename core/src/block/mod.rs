//! The parts of a decoder block that families share: the tensors they have and what is computed with them.
//!
//! What a family does by itself stands in its file; what several do alike stands here once.

mod attention;
mod experts;
mod latent;
mod layer;

pub use attention::{Parts, SelfAttention};
pub use experts::{Choice, Experts, GateUp};
pub use latent::{LatentAttention, LatentWidths};
pub use layer::{NormNames, PostNorm, PreNorm, Sandwich};

use crate::axis::Axis;
use crate::config::Config;
use crate::decoder;
use crate::matrix::RowsBuf;
use crate::ops::Activation;
use crate::pass::{Finish, Pass};
use crate::source::Dialect;
use crate::table::{LinearId, TensorId, TensorTable};

/// The outputs of a projection one after the other, so many each.
pub fn cut<const N: usize>(all: LinearId, lens: [usize; N]) -> [LinearId; N] {
    let mut from = 0usize;
    lens.map(|len| {
        let to = from.saturating_add(len);
        let part = all.outputs(from..to);
        from = to;
        part
    })
}

/// Width of the heads whose pairs that rotate together lie side by side in these intermediates of a GGUF file, where
/// its rows of q and k are [interleaved](crate::table::Conversion::Interleaved); see
/// [`Decoder::interleaved`](crate::architecture::Decoder::interleaved).
pub fn interleaved(name: &str, dialect: Dialect, head: usize) -> Option<usize> {
    let turned = dialect == Dialect::Gguf && ["q", "k", "q_rope", "k_rope"].contains(&name);
    turned.then_some(head)
}

/// A feed-forward net with a gate: down · (act(gate · y) · (up · y)).
#[derive(Clone, Copy, Debug)]
pub struct Gated {
    gate_up: [LinearId; 2],
    down: LinearId,
    activation: Activation,
}

impl Gated {
    /// Asks for the three matrices, and their biases if they are wanted.
    pub fn of(t: &mut TensorTable, hidden: &Axis, inner: &Axis, bias: bool) -> Gated {
        let gate = t.matrix("mlp.gate_proj.weight", "ffn_gate.weight", [inner, hidden]);
        let up = t.matrix("mlp.up_proj.weight", "ffn_up.weight", [inner, hidden]);
        let down = t.matrix("mlp.down_proj.weight", "ffn_down.weight", [hidden, inner]);
        let gate = gate.with(bias.then(|| t.bias("mlp.gate_proj.bias", "ffn_gate.bias", inner)));
        let up = up.with(bias.then(|| t.bias("mlp.up_proj.bias", "ffn_up.bias", inner)));
        let down = down.with(bias.then(|| t.bias("mlp.down_proj.bias", "ffn_down.bias", hidden)));
        Gated { gate_up: [gate, up], down, activation: Activation::Silu }
    }

    /// Asks for a matrix that holds the rows of the gate above those of the other projection, and for the one behind.
    pub fn fused(t: &mut TensorTable, hidden: &Axis, inner: &Axis) -> Gated {
        let both = t.matrix("mlp.gate_up_proj.weight", "ffn_up.weight", [&(2 * inner), hidden]).plain();
        let down = t.matrix("mlp.down_proj.weight", "ffn_down.weight", [hidden, inner]).plain();
        let n = inner.len;
        Gated { gate_up: cut(both, [n, n]), down, activation: Activation::Silu }
    }

    /// Asks for the three matrices of the experts that every token uses.
    pub fn shared(t: &mut TensorTable, hidden: &Axis, inner: &Axis) -> Gated {
        let gate = t.matrix("mlp.shared_experts.gate_proj.weight", "ffn_gate_shexp.weight", [inner, hidden]);
        let up = t.matrix("mlp.shared_experts.up_proj.weight", "ffn_up_shexp.weight", [inner, hidden]);
        let down = t.matrix("mlp.shared_experts.down_proj.weight", "ffn_down_shexp.weight", [hidden, inner]);
        Gated { gate_up: [gate.plain(), up.plain()], down: down.plain(), activation: Activation::Silu }
    }

    /// With another activation than SiLU.
    pub fn with(self, activation: Activation) -> Gated {
        Gated { activation, ..self }
    }

    /// What it makes of normed rows.
    pub fn run(&self, p: &mut Pass<'_>, y: &RowsBuf) -> RowsBuf {
        let [mut gate, up] = p.project(["gate", "up"], self.gate_up, y);
        p.gate("gated", self.activation, &mut gate, &up);
        let [ffn] = p.project(["ffn"], [self.down], &gate);
        ffn
    }
}

/// A feed-forward half: x + down · (silu(gate · y) · (up · y)), y the RMS norm of x.
#[derive(Clone, Copy, Debug)]
pub struct SwiGlu {
    norm: TensorId,
    ffn: Gated,
}

impl SwiGlu {
    /// Asks for the norm, the three matrices, and their biases if they are wanted.
    pub fn of(t: &mut TensorTable, hidden: &Axis, inner: &Axis, bias: bool) -> SwiGlu {
        let norm = t.scale("post_attention_layernorm.weight", "ffn_norm.weight", hidden);
        SwiGlu { norm, ffn: Gated::of(t, hidden, inner, bias) }
    }

    /// Adds what it computes to `x`.
    pub fn run(&self, p: &mut Pass<'_>, x: &mut RowsBuf, eps: f32) {
        let y = p.rms_norm("ffn_norm", x, self.norm, eps);
        let ffn = self.ffn.run(p, &y);
        p.add("output", x, &ffn);
    }
}

/// What comes behind the last block: an RMS norm and the head, which may be the embedding.
#[derive(Clone, Copy, Debug)]
pub struct Ending {
    norm: TensorId,
    head: LinearId,
    finish: Finish,
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
        Ending { norm, head: head.plain(), finish: Finish::Nothing }
    }

    /// With something done to the logits.
    pub fn with(self, finish: Finish) -> Ending {
        Ending { finish, ..self }
    }

    /// The logits of the tokens that they are wanted for.
    pub fn run(&self, p: &mut Pass<'_>, x: &RowsBuf, eps: f32) -> RowsBuf {
        let last = p.wanted(x);
        let last = p.rms_norm("final_norm", &last, self.norm, eps);
        p.logits(&last, self.head, self.finish)
    }
}
