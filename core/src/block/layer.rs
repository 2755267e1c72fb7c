//! Whole layers that several families share.

use super::{Gated, Parts, SelfAttention, SwiGlu};
use crate::axis::Axis;
use crate::decoder::Attention;
use crate::matrix::RowsBuf;
use crate::ops::{Activation, Pairing, Rotation};
use crate::pass::{Pass, Sight};
use crate::table::{TensorId, TensorTable};

/// A norm before each half, each half added to the stream: x + attention(norm(x)), then x + ffn(norm(x)).
#[derive(Clone, Copy, Debug)]
pub struct PreNorm {
    input_norm: TensorId,
    attention: SelfAttention,
    ffn: SwiGlu,
}

impl PreNorm {
    /// Asks for its tensors; `ffn_bias` is for biases on all matrices of the FFN.
    pub fn of(
        t: &mut TensorTable,
        widths: &Attention,
        [hidden, inner]: [&Axis; 2],
        parts: Parts<'_>,
        ffn_bias: bool,
    ) -> PreNorm {
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", hidden);
        let attention = SelfAttention::of(t, widths, hidden, parts);
        PreNorm { input_norm, attention, ffn: SwiGlu::of(t, hidden, inner, ffn_bias) }
    }

    /// Which elements of a head this file's rows of q and k have turn together.
    pub fn pairing(&self, p: &Pass<'_>) -> Pairing {
        self.attention.pairing(p)
    }

    /// Adds what it computes to the stream.
    pub fn run(
        &self,
        p: &mut Pass<'_>,
        x: &mut RowsBuf,
        rotation: Option<&Rotation>,
        sight: impl Into<Sight>,
        eps: f32,
    ) {
        let y = p.rms_norm("input_norm", x, self.input_norm, eps);
        let attention = self.attention.run(p, &y, rotation, sight, eps);
        p.add("residual", x, &attention);
        self.ffn.run(p, x, eps);
    }
}

/// A norm before and one behind each half: x + norm(attention(norm(x))), then x + norm(ffn(norm(x))).
#[derive(Clone, Copy, Debug)]
pub struct Sandwich {
    input_norm: TensorId,
    attention: SelfAttention,
    attention_norm: TensorId,
    ffn_norm: TensorId,
    ffn: Gated,
    output_norm: TensorId,
}

/// What Hugging Face calls the norms of a [`Sandwich`] but the first: behind attention, before the FFN, behind it.
pub type NormNames = [&'static str; 3];

impl Sandwich {
    /// Asks for its tensors; `fused` is for gate and up in one matrix.
    pub fn of(
        t: &mut TensorTable,
        widths: &Attention,
        [hidden, inner]: [&Axis; 2],
        parts: Parts<'_>,
        norms: NormNames,
        fused: bool,
    ) -> Sandwich {
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", hidden);
        let attention = SelfAttention::of(t, widths, hidden, parts);
        let attention_norm = t.scale(norms[0], "post_attention_norm.weight", hidden);
        let ffn_norm = t.scale(norms[1], "ffn_norm.weight", hidden);
        let ffn = if fused { Gated::fused(t, hidden, inner) } else { Gated::of(t, hidden, inner, false) };
        let output_norm = t.scale(norms[2], "post_ffw_norm.weight", hidden);
        Sandwich { input_norm, attention, attention_norm, ffn_norm, ffn, output_norm }
    }

    /// With another activation than SiLU.
    pub fn with(self, activation: Activation) -> Sandwich {
        Sandwich { ffn: self.ffn.with(activation), ..self }
    }

    /// Adds what it computes to the stream.
    pub fn run(
        &self,
        p: &mut Pass<'_>,
        x: &mut RowsBuf,
        rotation: &Rotation,
        sight: impl Into<Sight>,
        eps: f32,
    ) {
        let y = p.rms_norm("input_norm", x, self.input_norm, eps);
        let attention = self.attention.run(p, &y, Some(rotation), sight, eps);
        let attention = p.rms_norm("attention_norm", &attention, self.attention_norm, eps);
        p.add("residual", x, &attention);
        let y = p.rms_norm("ffn_norm", x, self.ffn_norm, eps);
        let ffn = self.ffn.run(p, &y);
        let ffn = p.rms_norm("output_norm", &ffn, self.output_norm, eps);
        p.add("output", x, &ffn);
    }
}

/// A norm behind each half and none before: x + norm(attention(x)), then x + norm(ffn(x)).
#[derive(Clone, Copy, Debug)]
pub struct PostNorm {
    attention: SelfAttention,
    attention_norm: TensorId,
    ffn: Gated,
    output_norm: TensorId,
}

impl PostNorm {
    /// Asks for its tensors.
    pub fn of(
        t: &mut TensorTable,
        widths: &Attention,
        [hidden, inner]: [&Axis; 2],
        parts: Parts<'_>,
    ) -> PostNorm {
        let attention = SelfAttention::of(t, widths, hidden, parts);
        let attention_norm = t.scale("post_attention_layernorm.weight", "post_attention_norm.weight", hidden);
        let ffn = Gated::of(t, hidden, inner, false);
        let output_norm = t.scale("post_feedforward_layernorm.weight", "post_ffw_norm.weight", hidden);
        PostNorm { attention, attention_norm, ffn, output_norm }
    }

    /// Adds what it computes to the stream.
    pub fn run(
        &self,
        p: &mut Pass<'_>,
        x: &mut RowsBuf,
        rotation: &Rotation,
        sight: impl Into<Sight>,
        eps: f32,
    ) {
        let attention = self.attention.run(p, x, Some(rotation), sight, eps);
        let attention = p.rms_norm("attention_norm", &attention, self.attention_norm, eps);
        p.add("residual", x, &attention);
        let ffn = self.ffn.run(p, x);
        let ffn = p.rms_norm("output_norm", &ffn, self.output_norm, eps);
        p.add("output", x, &ffn);
    }
}
