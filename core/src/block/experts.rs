//! A mixture of experts: a router, and the experts it sends each token to.

use crate::axis::Axis;
use crate::matrix::{Rows, RowsBuf, RowsMut};
use crate::ops::{Activation, Routing, Scoring};
use crate::pass::Pass;
use crate::table::{LinearId, TensorId, TensorTable};

/// How a router chooses; see [`Routing`].
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    /// Experts of a token.
    pub used: usize,
    /// How logits become weights.
    pub scoring: Scoring,
    /// Numbers that are added to the scores for choosing alone.
    pub correction: Option<TensorId>,
    /// How many groups the experts come in, and from how many of them a token may choose.
    pub groups: Option<(usize, usize)>,
    /// Whether the chosen weights are divided by their sum.
    pub normalise: bool,
    /// Factor on the weights.
    pub scale: f32,
}

impl Choice {
    /// The `used` likeliest of all.
    pub fn likeliest(used: usize, normalise: bool) -> Choice {
        Choice { used, scoring: Scoring::Softmax, correction: None, groups: None, normalise, scale: 1.0 }
    }
}

/// Where the gates of the experts and their partners are.
#[derive(Clone, Copy, Debug)]
pub enum GateUp {
    /// In a matrix each.
    Apart([LinearId; 2]),
    /// Outputs of one matrix: even ones gate, odd ones are their partners.
    Alternating(LinearId),
}

/// Experts with their router: Σ weight · down · (act(gate · y) · (up · y)) over the experts chosen.
#[derive(Clone, Copy, Debug)]
pub struct Experts {
    /// Gives a logit for each expert.
    pub router: LinearId,
    /// How it chooses.
    pub choice: Choice,
    /// First half of all experts.
    pub gate_up: GateUp,
    /// Second half of all experts.
    pub down: LinearId,
    /// Activation of the gates.
    pub activation: Activation,
}

impl Experts {
    /// Asks for the router and the matrices of experts `[experts, inner, hidden]` under their usual names; with SiLU.
    pub fn of(t: &mut TensorTable, [experts, inner, hidden]: [&Axis; 3], choice: Choice) -> Experts {
        let router = t.matrix("mlp.gate.weight", "ffn_gate_inp.weight", [experts, hidden]);
        let (wide, narrow, used) = ([experts, inner, hidden], [experts, hidden, inner], choice.used);
        let gate = t.experts("mlp.experts.*.gate_proj.weight", "ffn_gate_exps.weight", wide, used);
        let up = t.experts("mlp.experts.*.up_proj.weight", "ffn_up_exps.weight", wide, used);
        let down = t.experts("mlp.experts.*.down_proj.weight", "ffn_down_exps.weight", narrow, used);
        Experts {
            router: router.plain(),
            choice,
            gate_up: GateUp::Apart([gate.plain(), up.plain()]),
            down: down.plain(),
            activation: Activation::Silu,
        }
    }

    /// What the experts make of normed rows. Each expert computes all of its tokens at once; what is added up for a
    /// token is added in the order of its router's preference, however many tokens there are.
    pub fn run(&self, p: &mut Pass<'_>, y: &RowsBuf) -> RowsBuf {
        let [logits] = p.project(["router"], [self.router], y);
        let weights = p.weights;
        let how = Routing {
            used: self.choice.used,
            scoring: self.choice.scoring,
            bias: self.choice.correction.map(|c| weights.vector(c)),
            groups: self.choice.groups,
            normalise: self.choice.normalise,
            scale: self.choice.scale,
        };
        let chosen = p.kernel.route(logits.view(), how);
        let used = chosen.len() / y.view().rows().max(1);
        // Places in `chosen` of each expert, in the order of tokens.
        let mut order: Vec<usize> = (0..chosen.len()).collect();
        order.sort_by_key(|&i| chosen[i].0);
        let mut made = RowsBuf::zeros(chosen.len(), y.view().cols());
        for places in order.chunk_by(|&a, &b| chosen[a].0 == chosen[b].0) {
            let mut x = RowsBuf::zeros(places.len(), y.view().cols());
            for (i, place) in places.iter().enumerate() {
                x.view_mut().row(i).copy_from_slice(y.view().row(place / used));
            }
            let out = self.expert(p, chosen[places[0]].0, &x);
            for (row, &place) in out.view().iter().zip(places) {
                made.view_mut().row(place).copy_from_slice(row);
            }
        }
        let mut sum = RowsBuf::zeros(y.view().rows(), y.view().cols());
        for (place, (_, weight)) in chosen.iter().enumerate() {
            let cols = made.view().cols();
            let part = Rows::new(made.view().row(place), 1, cols);
            let mut rows = sum.view_mut();
            p.kernel.add(RowsMut::new(rows.row(place / used), 1, cols), part, *weight);
        }
        p.see("ffn", &sum);
        sum
    }

    /// What one expert makes of some rows.
    fn expert(&self, p: &Pass<'_>, expert: usize, x: &RowsBuf) -> RowsBuf {
        let (mut gate, up) = match self.gate_up {
            GateUp::Apart(both) => {
                let [gate, up] = p.products(both.map(|l| l.expert(expert)), x);
                (gate, up)
            }
            GateUp::Alternating(both) => {
                let [both] = p.products([both.expert(expert)], x);
                (every_second(&both, 0), every_second(&both, 1))
            }
        };
        p.kernel.gate(self.activation, gate.view_mut(), up.view());
        let [out] = p.products([self.down.expert(expert)], &gate);
        out
    }
}

/// The even or the odd columns.
fn every_second(x: &RowsBuf, first: usize) -> RowsBuf {
    let cols = x.view().cols() / 2;
    let data =
        x.view().iter().flat_map(|row| row.iter().skip(first).step_by(2).take(cols).copied()).collect();
    RowsBuf::from_vec(data, x.view().rows(), cols)
}
