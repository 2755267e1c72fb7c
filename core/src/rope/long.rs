//! longrope: a factor for each frequency, one set for short and one for long sequences.

use super::{ATTENTION_FACTOR, GGUF_FACTOR, Rope, says_no_scaling};
use crate::axis::Axis;
use crate::config::{Bound, Config, Key};
use crate::decoder::{CONTEXT, ROPE_FACTOR, ROPE_THETA, ROPE_TYPE};
use crate::index::TensorIndex;
use crate::pass::Pass;
use crate::source::Dialect;
use crate::table::{TensorId, TensorTable};

static LONG: Key = Key {
    hf: &["rope_parameters.long_factor", "rope_scaling.long_factor"],
    gguf: "",
    symbol: "",
    meaning: "longrope: factors for long sequences",
};
static SHORT: Key = Key {
    hf: &["rope_parameters.short_factor", "rope_scaling.short_factor"],
    gguf: "",
    symbol: "",
    meaning: "longrope: factors for short sequences",
};
static ORIGINAL: Key = Key {
    hf: &["original_max_position_embeddings", "rope_parameters.original_max_position_embeddings"],
    gguf: "rope.scaling.original_context_length",
    symbol: "",
    meaning: "longest short sequence",
};

/// What a config says of it, before its tensors are declared.
#[derive(Clone, Debug)]
pub struct LongPlan {
    plain: Rope,
    /// Factors for short and for long sequences, where the config has them.
    factors: Option<[Vec<f64>; 2]>,
    original: usize,
    /// The factor on cos and sin where there are factors.
    attention: f64,
    /// Whether a GGUF file has a key that only factors give sense to.
    promised: bool,
}

/// Rotary frequencies that depend on how long the sequence is.
#[derive(Clone, Debug)]
pub struct LongRope {
    plan: LongPlan,
    /// Factors for short and for long sequences, where a GGUF file has them.
    tensors: [TensorId; 2],
}

impl LongPlan {
    /// Reads the base and the factors for heads of which `width` elements are turned. Without longrope the frequencies
    /// are plain.
    pub fn of(config: &Config, width: usize) -> LongPlan {
        let theta = config.number_or(&ROPE_THETA, Bound::Positive, 10_000.0);
        let plain = Rope::plain(theta, width);
        let scaled = match config.dialect() {
            Dialect::Gguf => true, // Its tensors say whether.
            Dialect::Hf if !config.has(&ROPE_TYPE) && says_no_scaling(config) => false,
            Dialect::Hf => {
                // The names that the family's first configs gave it.
                let kinds = [("default", false), ("longrope", true), ("su", true), ("yarn", true)];
                config.word_or(&ROPE_TYPE, &kinds, "default").unwrap_or(false)
            }
        };
        let context = config.limit(&CONTEXT).unwrap_or(0);
        let original = if scaled { config.whole_or(&ORIGINAL, context) } else { context };
        let attention = if scaled { attention(config, context, original) } else { 1.0 };
        let half = plain.frequencies.len();
        let factors = (scaled && config.dialect() == Dialect::Hf).then(|| {
            [&SHORT, &LONG].map(|key| {
                let said = config.numbers(key).unwrap_or_default();
                let fits = said.len() == half && said.iter().all(|f| *f > 0.0);
                config.require(
                    fits,
                    &[key],
                    "longrope needs a positive factor for each rotated pair of a head",
                );
                said
            })
        });
        let promised = config.dialect() == Dialect::Gguf && config.has(&GGUF_FACTOR);
        LongPlan { plain, factors, original, attention, promised }
    }

    /// Declares the tensors in which a GGUF file has the factors: both, if `found` has one, or a key that only they give
    /// sense to.
    pub fn declare(self, t: &mut TensorTable, width: usize, found: &TensorIndex) -> LongRope {
        let half = Axis::new(width / 2, "half of the rotated width");
        let names = ["rope_factors_short.weight", "rope_factors_long.weight"];
        let needed = self.promised || names.iter().any(|name| found.get(name).is_some());
        let tensors =
            names.map(|name| if needed { t.gguf_only(name, &half) } else { t.gguf_helper(name, &half) });
        LongRope { plan: self, tensors }
    }
}

impl LongRope {
    /// Whether a forward pass can use it: always.
    pub fn usable(&self) -> Result<(), String> {
        self.plan.plain.usable()
    }

    /// The frequencies for a pass: those for long sequences if the sequence, with all tokens that are handed over
    /// together, is longer than the model was first trained for. Keys that are in the cache keep the turn they got.
    pub fn of(&self, p: &Pass<'_>) -> Rope {
        let LongPlan { plain, factors, original, attention, .. } = &self.plan;
        let long = usize::from(p.total > *original);
        let [short_tensor, long_tensor] = self.tensors;
        let tensor = if long == 1 { long_tensor } else { short_tensor };
        let stored = || p.weights.optional(tensor).map(|all| all.iter().map(|f| f64::from(*f)).collect());
        let factors: Option<Vec<f64>> = match factors {
            Some(both) => both.get(long).cloned(),
            None => stored(),
        };
        let Some(factors) = factors else { return plain.clone() };
        let divided = plain.frequencies.iter().zip(&factors).map(|(f, by)| f / by);
        Rope { frequencies: divided.collect(), factor: *attention, stretch: None, unsupported: None }
    }
}

/// What cos and sin are multiplied by: √(1 + ln s / ln original), s the growth of the context.
fn attention(config: &Config, context: usize, original: usize) -> f64 {
    let key = if config.dialect() == Dialect::Gguf { &GGUF_FACTOR } else { &ATTENTION_FACTOR };
    if config.has(key) {
        return config.number(key, Bound::Positive);
    }
    let growth = match config.has(&ROPE_FACTOR) {
        true => config.number(&ROPE_FACTOR, Bound::Positive),
        false => context as f64 / original.max(1) as f64,
    };
    if growth <= 1.0 || original < 2 { 1.0 } else { (1.0 + growth.ln() / (original as f64).ln()).sqrt() }
}
