//! Latent attention: what all heads share is kept of a position, a narrow vector from which each head's key and value
//! are made, and a part of the key that turns.
//!
//! It is computed in the absorbed form: instead of a key for each head of each position, the query is brought to the
//! latent vector, (k · c) · q = c · (kᵀ · q), and what is gathered there is brought to the head's value.

use crate::axis::Axis;
use crate::cache::LayerCache;
use crate::config::{Config, Key};
use crate::decoder::{HEAD_DIM, HEADS, KV_HEADS};
use crate::matrix::{Rows, RowsBuf};
use crate::ops::{Pairing, Rotation};
use crate::pass::{Heads, Pass};
use crate::rope::Rope;
use crate::source::Dialect;
use crate::table::{LinearId, Split, TensorId, TensorTable};

macro_rules! keys {
    ($($name:ident: $hf:literal | $gguf:literal, $meaning:literal;)+) => {$(
        static $name: Key = Key { hf: &[$hf], gguf: $gguf, symbol: "", meaning: $meaning };
    )+};
}

keys! {
    Q_RANK: "q_lora_rank" | "attention.q_lora_rank", "width between the two projections to queries";
    LATENT: "kv_lora_rank" | "attention.kv_lora_rank", "width of what keys and values are made of";
    NOPE: "qk_nope_head_dim" | "", "width of the part of a head that does not turn";
    TURNED: "qk_rope_head_dim" | "rope.dimension_count", "width of the part of a head that turns";
    KEY: "qk_head_dim" | "attention.key_length_mla", "width of a query head";
    VALUE: "v_head_dim" | "attention.value_length_mla", "width of a value head";
}

/// Epsilon of the norms within, whatever the config says of the others.
const INNER_EPS: f32 = 1e-6;

/// Widths of latent attention.
#[derive(Clone, Debug)]
pub struct LatentWidths {
    /// Query heads.
    pub heads: Axis,
    /// The part of a query or key that does not turn.
    pub nope: Axis,
    /// The part that does.
    pub turned: Axis,
    /// A value head.
    pub value: Axis,
    /// What is kept of a position, but for the part that turns.
    pub latent: Axis,
    /// Width between the two projections to queries, if there are two.
    pub q_rank: Option<Axis>,
}

impl LatentWidths {
    /// Reads them.
    pub fn of(config: &Config) -> LatentWidths {
        let heads = config.count(&HEADS);
        let (latent, turned, value) = (config.count(&LATENT), config.count(&TURNED), config.count(&VALUE));
        let nope = match config.dialect() {
            Dialect::Hf => config.count(&NOPE),
            Dialect::Gguf => {
                let key = config.count(&KEY);
                config.require(key.len > turned.len, &[&KEY, &TURNED], "only a part of a head turns");
                Axis::new(
                    key.len.saturating_sub(turned.len).max(1),
                    format!("{} − {}", key.why(), turned.why()),
                )
            }
        };
        config.require(turned.len.is_multiple_of(2), &[&TURNED], "rotary embedding needs an even width");
        for (key, value) in [(&KV_HEADS, heads.len), (&HEAD_DIM, turned.len)] {
            let said = if config.dialect() == Dialect::Hf { config.peek(key) } else { None };
            config.require(
                said.is_none_or(|said| said == value),
                &[key, &HEADS],
                "latent attention has as many kv heads as heads, and a head_dim that is the part that turns",
            );
        }
        let q_rank = config.has(&Q_RANK).then(|| config.count(&Q_RANK));
        LatentWidths { heads, nope, turned, value, latent, q_rank }
    }

    /// Width of a query head.
    pub fn key(&self) -> usize {
        self.nope.len.saturating_add(self.turned.len)
    }

    /// What a layer keeps of a position.
    pub fn cache(&self) -> LayerCache {
        LayerCache { key: self.latent.len.saturating_add(self.turned.len), value: 0 }
    }

    /// The turn of queries, and that of keys.
    pub fn rotations(&self, p: &Pass<'_>, rope: &Rope, pairing: Pairing) -> [Rotation; 2] {
        [self.nope.len, self.latent.len]
            .map(|before| p.rotation_from(rope, pairing, before + self.turned.len, before))
    }
}

/// Its projections.
#[derive(Clone, Debug)]
pub struct LatentAttention {
    widths: LatentWidths,
    /// To a narrower vector and its norm, if queries are made in two steps.
    q_narrow: Option<(LinearId, TensorId)>,
    q: LinearId,
    /// To the latent vector and the part of the key that turns.
    latent: LinearId,
    latent_norm: TensorId,
    /// From the latent vector to all heads' keys, without the part that turns, and values: one under the other for each
    /// head, or apart, the keys transposed.
    kv: LinearId,
    apart: [LinearId; 2],
    output: LinearId,
}

impl LatentAttention {
    /// Asks for its tensors.
    pub fn of(t: &mut TensorTable, widths: &LatentWidths, hidden: &Axis) -> LatentAttention {
        let LatentWidths { heads, nope, turned, value, latent, q_rank } = widths;
        let queries = heads * &(nope + turned);
        let (q_narrow, q) = match q_rank {
            None => (None, t.matrix("self_attn.q_proj.weight", "attn_q.weight", [&queries, hidden])),
            Some(rank) => {
                let narrow = t.matrix("self_attn.q_a_proj.weight", "attn_q_a.weight", [rank, hidden]);
                let norm = t.scale("self_attn.q_a_layernorm.weight", "attn_q_a_norm.weight", rank);
                let q = t.matrix("self_attn.q_b_proj.weight", "attn_q_b.weight", [&queries, rank]);
                (Some((narrow.plain(), norm)), q)
            }
        };
        let kept = latent + turned;
        let to_latent =
            t.matrix("self_attn.kv_a_proj_with_mqa.weight", "attn_kv_a_mqa.weight", [&kept, hidden]);
        let latent_norm = t.scale("self_attn.kv_a_layernorm.weight", "attn_kv_a_norm.weight", latent);
        let kv = t.matrix("self_attn.kv_b_proj.weight", "", [&(heads * &(nope + value)), latent]);
        let keys = t.gguf_stack("attn_k_b.weight", [heads, latent, nope]);
        let values = t.gguf_stack("attn_v_b.weight", [heads, value, latent]);
        t.split(kv, Split::PerHead, [keys, values]);
        let output = t.matrix("self_attn.o_proj.weight", "attn_output.weight", [hidden, &(heads * value)]);
        LatentAttention {
            widths: widths.clone(),
            q_narrow,
            q: q.plain(),
            latent: to_latent.plain(),
            latent_norm,
            kv: kv.plain(),
            apart: [keys.plain(), values.plain()],
            output: output.plain(),
        }
    }

    /// What it makes of normed rows; `scale` is the factor on the scores.
    pub fn run(
        &self,
        p: &mut Pass<'_>,
        y: &RowsBuf,
        [q_turn, k_turn]: &[Rotation; 2],
        scale: f32,
    ) -> RowsBuf {
        let latent = self.widths.latent.len;
        let mut q = match self.q_narrow {
            None => p.project(["q"], [self.q], y),
            Some((narrow, norm)) => {
                let [mut narrow] = p.project(["q_latent"], [narrow], y);
                p.rms_norm_heads("q_latent_norm", &mut narrow, norm, INNER_EPS);
                p.project(["q"], [self.q], &narrow)
            }
        };
        p.rope("q_rope", &mut q[0], q_turn);
        let [mut k] = p.project(["latent"], [self.latent], y);
        let norm = p.weights.vector(self.latent_norm);
        p.kernel.rms_norm(k.view_mut().split_cols(latent).0, norm, INNER_EPS);
        p.rope("k_rope", &mut k, k_turn);
        let q = self.absorbed(p, &q[0]);
        let heads = Heads {
            heads: self.widths.heads.len,
            kv_heads: 1,
            key: latent + self.widths.turned.len,
            value: latent,
            scale,
            softcap: None,
        };
        let gathered = p.attend_within("gathered", [&q, &k], 0..latent, heads);
        let values = self.values(p, &gathered);
        p.see("heads", &values);
        let [attention] = p.project(["attention"], [self.output], &values);
        attention
    }

    /// Queries with the part that does not turn brought to the latent vector.
    fn absorbed(&self, p: &Pass<'_>, q: &RowsBuf) -> RowsBuf {
        let (nope, latent, turned) = (self.widths.nope.len, self.widths.latent.len, self.widths.turned.len);
        let heads = self.widths.heads.len;
        let mut out = RowsBuf::zeros(q.view().rows(), heads * (latent + turned));
        for head in 0..heads {
            let query = q.view().cols_at(head * (nope + turned)..(head + 1) * (nope + turned));
            let to_latent = self.head(p, head, true);
            let [part] = p.products([to_latent], &RowsBuf::copy_of(query.cols_at(0..nope)));
            copy(part.view(), &mut out, head * (latent + turned));
            copy(query.cols_at(nope..nope + turned), &mut out, head * (latent + turned) + latent);
        }
        out
    }

    /// What was gathered of the latent vectors, brought to each head's values.
    fn values(&self, p: &Pass<'_>, gathered: &RowsBuf) -> RowsBuf {
        let (value, latent) = (self.widths.value.len, self.widths.latent.len);
        let mut out = RowsBuf::zeros(gathered.view().rows(), self.widths.heads.len * value);
        for head in 0..self.widths.heads.len {
            let from = RowsBuf::copy_of(gathered.view().cols_at(head * latent..(head + 1) * latent));
            let [part] = p.products([self.head(p, head, false)], &from);
            copy(part.view(), &mut out, head * value);
        }
        out
    }

    /// The projection of one head: of queries to the latent vector, or of that to values.
    fn head(&self, p: &Pass<'_>, head: usize, query: bool) -> LinearId {
        if !p.weights.has(self.kv.weight) {
            let [keys, values] = self.apart;
            return if query { keys } else { values }.expert(head);
        }
        let (nope, value) = (self.widths.nope.len, self.widths.value.len);
        let first = head * (nope + value);
        match query {
            true => self.kv.outputs(first..first + nope).transposed(),
            false => self.kv.outputs(first + nope..first + nope + value),
        }
    }
}

/// Puts columns into wider rows.
fn copy(from: Rows<'_>, to: &mut RowsBuf, at: usize) {
    let mut to = to.view_mut();
    for (t, row) in from.iter().enumerate() {
        to.row(t)[at..at + row.len()].copy_from_slice(row);
    }
}
