//! Routers: every scoring, groups, biases, ties.

use super::data::Placed;
use super::{Case, Judged, Scale, random};
use crate::ops::{Routing, Scoring};
use crate::tolerance;

/// Experts, used, groups of which so many are kept.
type Shape = (usize, usize, Option<(usize, usize)>);

const SHAPES: [Shape; 7] = [
    (8, 2, None),
    (32, 4, Some((4, 2))),
    (5, 5, None),
    (1, 1, None),
    (64, 6, None),
    (256, 8, Some((8, 4))),
    (128, 8, None),
];

pub(super) fn cases(scale: Scale, seed: u64) -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    for (i, shape) in scale.some(&SHAPES, 3).iter().enumerate() {
        for scoring in [Scoring::Softmax, Scoring::Sigmoid, Scoring::SoftmaxOfChosen] {
            for (j, (biased, normalise)) in
                [(false, false), (true, true), (false, true)].into_iter().enumerate()
            {
                let rows = [3, 1, 0][(i + j) % 3].max(usize::from(i == 0));
                cases.push(case(*shape, scoring, rows, biased, normalise, seed));
            }
        }
    }
    cases
}

fn case(
    (experts, used, groups): Shape,
    scoring: Scoring,
    rows: usize,
    biased: bool,
    normalise: bool,
    seed: u64,
) -> Case<'static> {
    let bias = if biased { ", bias" } else { "" };
    let kept = groups.map_or(String::new(), |(n, kept)| format!(", {kept} of {n} groups"));
    let norm = if normalise { ", normalised" } else { "" };
    let shape = format!("{rows} rows, {used} of {experts}, {scoring:?}{kept}{bias}{norm}");
    Case::new("route", None, shape, move |kernel| {
        let mut random = random(seed, &[experts, used, rows, usize::from(biased)]);
        let mut logits = random.normals(rows * experts);
        // A row of equals: of those the lower numbers are chosen.
        if rows > 1 {
            logits[..experts].fill(0.75);
        }
        let logits = Placed::of(&logits, rows, experts, &mut random);
        let bias = biased.then(|| random.normals(experts));
        let how = Routing {
            used,
            scoring,
            bias: bias.as_deref(),
            groups,
            normalise,
            scale: if biased { 2.5 } else { 1.0 },
        };
        let judgement = tolerance::route(logits.view(), how, &kernel.route(logits.view(), how));
        Ok(Judged { judgement, cols: used })
    })
}
