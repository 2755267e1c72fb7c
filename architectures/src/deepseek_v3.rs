//! DeepSeek V3: latent attention, and on all but the first layers experts that are chosen by groups, beside some that
//! every token uses.

use scantling_core::architecture::{Architecture, ArchitecturePlugin, Decoder};
use scantling_core::axis::Axis;
use scantling_core::block::{Choice, Ending, Experts, Gated, LatentAttention, LatentWidths};
use scantling_core::cache::LayerCache;
use scantling_core::config::{Bound, Config, Key};
use scantling_core::decoder;
use scantling_core::error::Result;
use scantling_core::index::TensorIndex;
use scantling_core::inventory;
use scantling_core::matrix::RowsBuf;
use scantling_core::ops::{Pairing, Scoring};
use scantling_core::pass::Pass;
use scantling_core::rope::Rope;
use scantling_core::source::Dialect;
use scantling_core::table::{TensorId, TensorTable};

/// The family.
pub const DEEPSEEK_V3: ArchitecturePlugin = ArchitecturePlugin {
    name: "deepseek_v3",
    summary: "DeepSeek V3: latent attention, experts in groups and shared ones, yarn",
    model_types: &["deepseek_v3"],
    classes: &["DeepseekV3ForCausalLM", "DeepseekV3Model"],
    gguf: &["deepseek2"],
    when: Some(|config| config.dialect() == Dialect::Hf || config.peek(&GATING) == Some(SIGMOID)),
    build,
};

inventory::submit! { DEEPSEEK_V3 }

macro_rules! keys {
    ($($name:ident: $hf:literal | $gguf:literal, $meaning:literal;)+) => {$(
        static $name: Key = Key { hf: &[$hf], gguf: $gguf, symbol: "", meaning: $meaning };
    )+};
}

keys! {
    DENSE_LAYERS: "first_k_dense_replace" | "leading_dense_block_count", "layers without experts, the first ones";
    SHARED: "n_shared_experts" | "expert_shared_count", "experts that every token uses";
    GROUPS: "n_group" | "expert_group_count", "groups of experts";
    GROUPS_USED: "topk_group" | "expert_group_used_count", "groups that a token chooses from";
    FACTOR: "routed_scaling_factor" | "expert_weights_scale", "factor on the weights of experts";
    SCORING: "scoring_func" | "", "how logits of experts become weights";
    GATING: "" | "expert_gating_func", "how logits of experts become weights";
    INTERLEAVE: "rope_interleave" | "", "elements that turn together are neighbours";
    NEXT_TOKENS: "num_nextn_predict_layers" | "nextn_predict_layers", "layers that foretell further tokens";
    LOG_FACTOR: "" | "rope.scaling.yarn_log_multiplier", "yarn: growth of the factor on the scores";
    MSCALE_ALL_V5: "rope_parameters.mscale_all_dim" | "", "yarn: weight of the factor on the scores";
    MSCALE_ALL_V4: "rope_scaling.mscale_all_dim" | "", "yarn: weight of the factor on the scores";
}

/// What GGUF writes for a sigmoid.
const SIGMOID: usize = 2;

struct DeepseekV3 {
    tensors: TensorTable,
    widths: LatentWidths,
    rope: Rope,
    pairing: Pairing,
    scale: f32,
    eps: f32,
    embedding: TensorId,
    layers: Vec<Layer>,
    ending: Ending,
}

struct Layer {
    input_norm: TensorId,
    attention: LatentAttention,
    ffn_norm: TensorId,
    /// Those that are chosen, but for the first layers.
    experts: Option<Experts>,
    /// What every token uses: the whole FFN, or the experts beside those that are chosen.
    ffn: Gated,
}

impl Architecture for DeepseekV3 {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.rope.usable().map(|()| self as &dyn Decoder)
    }
}

impl Decoder for DeepseekV3 {
    fn cache(&self) -> Vec<LayerCache> {
        vec![self.widths.cache(); self.layers.len()]
    }

    fn embedding(&self) -> TensorId {
        self.embedding
    }

    fn forward(&self, p: &mut Pass<'_>) -> RowsBuf {
        let mut x = p.embed(self.embedding);
        let rotations = self.widths.rotations(p, &self.rope, self.pairing);
        for (i, layer) in self.layers.iter().enumerate() {
            p.layer = Some(i);
            let y = p.rms_norm("input_norm", &x, layer.input_norm, self.eps);
            let attention = layer.attention.run(p, &y, &rotations, self.scale);
            p.add("residual", &mut x, &attention);
            let y = p.rms_norm("ffn_norm", &x, layer.ffn_norm, self.eps);
            let mut ffn = layer.ffn.run(p, &y);
            if let Some(experts) = &layer.experts {
                let chosen = experts.run(p, &y);
                p.add("ffn", &mut ffn, &chosen);
            }
            p.add("output", &mut x, &ffn);
        }
        self.ending.run(p, &x, self.eps)
    }
}

fn build(config: &Config, tensors: &TensorIndex) -> Result<Box<dyn Architecture>> {
    let vocab = decoder::vocabulary(config, tensors);
    let hidden = config.count(&decoder::HIDDEN_SIZE);
    let count = config.layers(&decoder::LAYERS, tensors);
    let widths = LatentWidths::of(config);
    let inner = config.count(&decoder::INTERMEDIATE_SIZE);
    let dense = config.whole_or(&DENSE_LAYERS, 3).min(count);
    let experts = config.experts(&decoder::EXPERTS, count.saturating_sub(dense), tensors);
    let width = config.count(&decoder::EXPERT_SIZE);
    let shared = &width * &config.count_or(&SHARED, 1);
    let choice = choice(config, &experts);
    let eps = decoder::common(config);
    let (rope, scale) = scaled(config, &widths);
    let interleaved = config.dialect() == Dialect::Gguf || config.flag_or(&INTERLEAVE, true);
    decoder::refuse(
        config,
        &decoder::ATTENTION_BIAS,
        "its tensors of latent attention with biases are not known",
    );
    // Nothing computes with these layers, so that their number is no fact of the model.
    let spare = config.peek(&NEXT_TOKENS).unwrap_or(0);
    let tied = config.flag_or(&decoder::TIE, false);
    config.settle()?;

    let mut t = TensorTable::new("model.layers", "blk");
    let embedding = t.embedding("model.embed_tokens.weight", "token_embd.weight", [&vocab, &hidden]);
    let mut layers = Vec::with_capacity(count);
    for i in 0..count {
        t.layer(i);
        let input_norm = t.scale("input_layernorm.weight", "attn_norm.weight", &hidden);
        let attention = LatentAttention::of(&mut t, &widths, &hidden);
        let ffn_norm = t.scale("post_attention_layernorm.weight", "ffn_norm.weight", &hidden);
        let experts = (i >= dense).then(|| {
            let correction = t.bias("mlp.gate.e_score_correction_bias", "exp_probs_b.bias", &experts);
            let choice = Choice { correction: Some(correction), ..choice };
            Experts::of(&mut t, [&experts, &width, &hidden], choice)
        });
        let ffn = match experts {
            None => Gated::of(&mut t, &hidden, &inner, false),
            Some(_) => Gated::shared(&mut t, &hidden, &shared),
        };
        layers.push(Layer { input_norm, attention, ffn_norm, experts, ffn });
    }
    t.ignore_layers(spare); // They foretell further tokens, which nothing here needs.
    let ending = Ending::of(config, &mut t, [&vocab, &hidden], embedding, tied);
    let pairing = if interleaved { Pairing::Neighbours } else { Pairing::Halves };
    Ok(Box::new(DeepseekV3 { tensors: t, widths, rope, pairing, scale, eps, embedding, layers, ending }))
}

/// How experts are chosen.
fn choice(config: &Config, experts: &Axis) -> Choice {
    config.word_or(&SCORING, &[("sigmoid", ())], "sigmoid");
    let used = decoder::experts_used(config, experts);
    // A GGUF file that does not say them has none; the class has its own.
    let hf = config.dialect() == Dialect::Hf;
    let (all, of, factor) = if hf { (8, 4, 2.5) } else { (1, 1, 1.0) };
    let groups = (config.count_or(&GROUPS, all).len, config.count_or(&GROUPS_USED, of).len);
    let size = experts.len.checked_div(groups.0).unwrap_or(0);
    let keys: [&'static Key; 4] = [&GROUPS, &GROUPS_USED, &decoder::EXPERTS, &decoder::EXPERTS_USED];
    let even = experts.len.checked_rem(groups.0) == Some(0) && groups.1 <= groups.0;
    config.require(even, &keys, "groups of experts must be of one size");
    let enough = groups.0 == 1 || size >= 2 && used <= groups.1.saturating_mul(size);
    let why = "a group has at least two experts, and those chosen from as many as a token uses";
    config.require(enough, &keys, why);
    let normalise = config.flag_or(&decoder::NORM_TOPK, true);
    let scale = config.number_or(&FACTOR, Bound::Positive, factor) as f32;
    Choice { scoring: Scoring::Sigmoid, groups: Some(groups), scale, ..Choice::likeliest(used, normalise) }
}

/// The rotation, and the factor on the scores, which grows with the context that yarn stretches.
fn scaled(config: &Config, widths: &LatentWidths) -> (Rope, f32) {
    let rope = Rope::of(config, widths.turned.len);
    let said = |key| if config.has(key) { config.number(key, Bound::Finite) } else { 0.0 };
    let weight = 10.0 * said(&LOG_FACTOR) + said(&MSCALE_ALL_V5).max(said(&MSCALE_ALL_V4));
    let factor = rope.stretch.filter(|_| weight > 0.0).unwrap_or(1.0);
    let growth = 0.1 * weight * factor.max(1.0).ln() + 1.0;
    let scale = growth * growth / (widths.key() as f64).sqrt();
    // A GGUF file has both weights of yarn in one number: then cos and sin are left as they are.
    let own = if config.has(&LOG_FACTOR) { 1.0 } else { rope.factor };
    (Rope { factor: own, ..rope }, scale as f32)
}
