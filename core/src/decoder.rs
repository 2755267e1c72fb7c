//! Hyperparameters that decoder families share: their keys in both worlds, and the parts of a config that are
//! read alike by more than two of them.

use crate::axis::Axis;
use crate::config::{Bound, Config, Key};
use crate::index::TensorIndex;
use crate::metadata::Value;
use crate::pass::Heads;
use crate::source::Dialect;
use crate::table::{TensorId, TensorTable};

/// A key in both worlds; see [`Key`].
macro_rules! keys {
    ($($(#[$doc:meta])* $name:ident: [$($hf:literal),+] | $gguf:literal, $symbol:literal $meaning:literal;)+) => {$(
        $(#[$doc])*
        pub static $name: Key = Key { hf: &[$($hf),+], gguf: $gguf, symbol: $symbol, meaning: $meaning };
    )+};
}

keys! {
    /// V.
    VOCAB_SIZE: ["vocab_size"] | "vocab_size", "V" "distinct tokens";
    /// H.
    HIDDEN_SIZE: ["hidden_size"] | "embedding_length", "H" "residual-stream width";
    /// L.
    LAYERS: ["num_hidden_layers"] | "block_count", "L" "transformer blocks";
    /// d.
    HEAD_DIM: ["head_dim"] | "attention.key_length", "d" "width of one attention head";
    /// Width of a value head; the same in the families that share [`attention`].
    VALUE_DIM: ["v_head_dim"] | "attention.value_length", "" "width of one value head";
    /// Elements of a head that are rotated.
    ROTARY_DIM: ["rotary_dim"] | "rope.dimension_count", "" "rotated width of a head";
    /// Query heads.
    HEADS: ["num_attention_heads"] | "attention.head_count", "" "query heads";
    /// Key-value heads.
    KV_HEADS: ["num_key_value_heads"] | "attention.head_count_kv", "" "kv heads";
    /// I.
    INTERMEDIATE_SIZE: ["intermediate_size"] | "feed_forward_length", "I" "FFN inner width";
    /// The first layer whose attention has a window.
    MAX_WINDOW_LAYERS: ["max_window_layers"] | "", "" "layers without a window";
    /// Kind of each layer's attention; where it is said, it decides which layers have a window.
    LAYER_TYPES: ["layer_types"] | "attention.sliding_window_pattern", "" "attention of each layer";
    /// Part of a head that is rotated.
    PARTIAL_ROTARY: ["rope_parameters.partial_rotary_factor", "rope_scaling.partial_rotary_factor", "partial_rotary_factor"] | "", "" "rotated part of a head";
    /// Longest sequence the model was made for.
    CONTEXT: ["max_position_embeddings"] | "context_length", "" "longest sequence";
    /// Epsilon inside the root of every RMS norm.
    RMS_NORM_EPS: ["rms_norm_eps"] | "attention.layer_norm_rms_epsilon", "" "epsilon of the norms";
    /// Activation of the gate.
    HIDDEN_ACT: ["hidden_act"] | "", "" "activation";
    /// Biases on q, k, v and o.
    ATTENTION_BIAS: ["attention_bias"] | "", "" "biases in attention";
    /// Biases on gate, up and down.
    MLP_BIAS: ["mlp_bias"] | "", "" "biases in the FFN";
    /// Whether the head is the embedding.
    TIE: ["tie_word_embeddings"] | "", "" "head shares the embedding";
    /// Whether the window is in use at all.
    USE_SLIDING_WINDOW: ["use_sliding_window"] | "", "" "sliding window in use";
    /// Tokens that one token sees.
    SLIDING_WINDOW: ["sliding_window"] | "attention.sliding_window", "" "sliding window";
    /// Experts.
    EXPERTS: ["num_experts", "num_local_experts", "n_routed_experts"] | "expert_count", "E" "experts";
    /// Experts that a token uses.
    EXPERTS_USED: ["num_experts_per_tok"] | "expert_used_count", "" "experts of a token";
    /// Inner width of an expert.
    EXPERT_SIZE: ["moe_intermediate_size"] | "expert_feed_forward_length", "Ie" "inner width of an expert";
    /// Whether the weights of the chosen experts are divided by their sum.
    NORM_TOPK: ["norm_topk_prob"] | "expert_weights_norm", "" "weights of the chosen experts sum to 1";
    /// Bound of the scores.
    SCORE_CAP: ["attn_logit_softcapping"] | "attn_logit_softcapping", "" "cap of the scores";
    /// Bound of the logits.
    LOGIT_CAP: ["final_logit_softcapping"] | "final_logit_softcapping", "" "cap of the logits";
    /// Whether tokens see those that follow them.
    BOTH_WAYS: ["use_bidirectional_attention"] | "", "" "attention to both sides";
    /// What scores are multiplied by is 1/√this.
    QUERY_SCALAR: ["query_pre_attn_scalar"] | "", "" "scores are divided by its root";
    /// Base of the rotary frequencies.
    ROPE_THETA: ["rope_parameters.rope_theta", "rope_parameters.full_attention.rope_theta", "rope_theta"] | "rope.freq_base", "" "rotary base";
    /// Kind of rope scaling.
    ROPE_TYPE: ["rope_parameters.rope_type", "rope_parameters.full_attention.rope_type", "rope_parameters.type", "rope_parameters.full_attention.type", "rope_scaling.rope_type", "rope_scaling.type"] | "rope.scaling.type", "" "rotary scaling";
    /// How far the context is stretched.
    ROPE_FACTOR: ["rope_parameters.factor", "rope_parameters.full_attention.factor", "rope_scaling.factor"] | "rope.scaling.factor", "" "rotary scaling factor";
    /// Length the model was first trained at.
    ROPE_ORIGINAL: ["rope_parameters.original_max_position_embeddings", "rope_parameters.full_attention.original_max_position_embeddings", "rope_scaling.original_max_position_embeddings"] | "rope.scaling.original_context_length", "" "context before scaling";
    /// llama3 scaling: wavelengths above original / this are divided.
    ROPE_LOW: ["rope_parameters.low_freq_factor", "rope_parameters.full_attention.low_freq_factor", "rope_scaling.low_freq_factor"] | "", "" "rotary scaling, low frequencies";
    /// llama3 scaling: wavelengths below original / this are left alone.
    ROPE_HIGH: ["rope_parameters.high_freq_factor", "rope_parameters.full_attention.high_freq_factor", "rope_scaling.high_freq_factor"] | "", "" "rotary scaling, high frequencies";
}

/// V. A GGUF file may leave it to the length of its token list, or else to the rows of its embedding. Converters leave
/// out rows that no token has, so that with a `config.json` beside it what the file has counts if that is less.
pub fn vocabulary(config: &Config, tensors: &TensorIndex) -> Axis {
    if config.dialect() == Dialect::Hf {
        let said = config.count(&VOCAB_SIZE);
        let rows = tensors.get("token_embd.weight").and_then(|t| t.shape.first().copied());
        return match rows.filter(|&rows| config.stored() == Dialect::Gguf && rows > 0 && rows < said.len) {
            Some(rows) => {
                config.note(
                    &VOCAB_SIZE,
                    format!("{rows} in the GGUF file: rows without a token were left out"),
                );
                Axis::new(rows, "rows of token_embd.weight")
            }
            None => said,
        };
    }
    let tokens = config.entries().list("tokenizer.ggml.tokens").and_then(|l| usize::try_from(l.len()).ok());
    let rows = tensors.get("token_embd.weight").and_then(|t| t.shape.first().copied());
    match (tokens.filter(|&n| n > 0), rows) {
        (Some(tokens), _) => {
            config.count_or_derived(&VOCAB_SIZE, Some(tokens), "length of tokenizer.ggml.tokens")
        }
        (None, rows) => config.count_or_derived(&VOCAB_SIZE, rows, "rows of token_embd.weight"),
    }
}

/// The widest head that is believed.
pub const MOST_HEAD: usize = 1 << 16;

/// What a family does when `head_dim` is not said in its Hugging Face config.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeadDim {
    /// The class fixes it.
    Fixed(usize),
    /// It is hidden_size / num_attention_heads, as GGUF's always is.
    Shared,
}

/// Widths of grouped-query attention.
#[derive(Clone, Debug)]
pub struct Attention {
    /// Numbers of heads, their width, and the scale that follows from it.
    pub heads: Heads,
    /// d.
    pub head_dim: Axis,
    /// All query heads together.
    pub q: Axis,
    /// All key or value heads together.
    pub kv: Axis,
}

/// Reads the heads and their width, and holds them against each other. All of a head is rotated.
pub fn attention(config: &Config, hidden: &Axis, unsaid: HeadDim) -> Attention {
    let attention = heads(config, hidden, unsaid);
    if config.dialect() == Dialect::Gguf {
        let width = config.limit(&ROTARY_DIM);
        let whole = width.is_none_or(|w| w == attention.head_dim.len);
        config.require(whole, &[&ROTARY_DIM, &HEAD_DIM], "all of a head is rotated");
    }
    // Asked for only where it stands: the families rotate the whole head and do not know the key, other readers may
    // heed it.
    if config.has(&PARTIAL_ROTARY) && config.number(&PARTIAL_ROTARY, Bound::Positive) != 1.0 {
        config.unsupported(
            &PARTIAL_ROTARY,
            "this family rotates the whole of a head",
            "remove it, or set it to 1",
        );
    }
    attention
}

/// The same where the first part of each head is rotated. Also gives how many elements that are; `unsaid` is the part
/// in a Hugging Face config that does not say it.
pub fn attention_in_part(
    config: &Config,
    hidden: &Axis,
    unsaid: HeadDim,
    unsaid_part: f64,
) -> (Attention, usize) {
    let attention = heads(config, hidden, unsaid);
    let head = attention.head_dim.len;
    let (key, turned) = match config.dialect() {
        Dialect::Hf => {
            let part = config.number_or(&PARTIAL_ROTARY, Bound::Positive, unsaid_part);
            (&PARTIAL_ROTARY, (head as f64 * part) as usize)
        }
        Dialect::Gguf => {
            let whole = attention.head_dim.why().to_owned();
            (&ROTARY_DIM, config.count_or_derived(&ROTARY_DIM, Some(head), &whole).len)
        }
    };
    let fits = turned <= head && turned > 0 && turned.is_multiple_of(2);
    config.require(fits, &[key, &HEAD_DIM], "the rotated part of a head is even, and no wider than the head");
    config.note(key, format!("{turned} of the {head} elements of a head are rotated"));
    (attention, turned.min(head))
}

fn heads(config: &Config, hidden: &Axis, unsaid: HeadDim) -> Attention {
    let head_dim = match (config.dialect(), unsaid) {
        (Dialect::Hf, HeadDim::Fixed(width)) => config.count_or(&HEAD_DIM, width),
        _ => shared_head_dim(config, hidden),
    };
    let heads = config.count(&HEADS);
    let kv_heads = match config.dialect() {
        Dialect::Hf if unsaid != HeadDim::Shared => config.count(&KV_HEADS),
        _ => config.count_or_derived(&KV_HEADS, Some(heads.len), heads.why()),
    };
    let divides = heads.len.checked_rem(kv_heads.len) == Some(0);
    config.require(
        divides,
        &[&KV_HEADS, &HEADS],
        "the number of heads must be a multiple of the number of kv heads",
    );
    config.require(head_dim.len <= MOST_HEAD, &[&HEAD_DIM], "no head is as wide as that: 65,536 is the most");
    config.require(
        head_dim.len.is_multiple_of(2),
        &[&HEAD_DIM],
        "rotary embedding needs an even width of a head",
    );
    if config.dialect() == Dialect::Gguf {
        let width = config.limit(&VALUE_DIM);
        let same = width.is_none_or(|w| w == head_dim.len);
        config.require(same, &[&VALUE_DIM, &HEAD_DIM], "a value head must be as wide as a key head");
    }
    let (q, kv) = (&heads * &head_dim, &kv_heads * &head_dim);
    config.note(&HEADS, format!("q width = {}·{} = {}", heads.len, head_dim.len, q.len));
    let group = heads.len.checked_div(kv_heads.len).unwrap_or(0);
    config.note(
        &KV_HEADS,
        format!("kv width = {}·{} = {}   (GQA group {group})", kv_heads.len, head_dim.len, kv.len),
    );
    let numbers = Heads::grouped(heads.len, kv_heads.len, head_dim.len);
    Attention { heads: numbers, head_dim, q, kv }
}

fn shared_head_dim(config: &Config, hidden: &Axis) -> Axis {
    let heads = config.peek(&HEADS);
    let width = heads.and_then(|heads| hidden.len.checked_div(heads));
    let said = config.has(&HEAD_DIM);
    let whole = heads.is_none_or(|heads| hidden.len.checked_rem(heads).is_none_or(|rest| rest == 0));
    config.require(
        said || whole,
        &[&HIDDEN_SIZE, &HEADS],
        "without a width of a head, the heads must divide the hidden width",
    );
    let how = format!("{} / {}", hidden.why(), config.name_of(&HEADS));
    config.count_or_derived(&HEAD_DIM, Some(width.filter(|&w| w > 0).unwrap_or(2)), &how)
}

/// Reads the settings of the common block: context length, SiLU, and the epsilon of the norms, which it gives.
pub fn common(config: &Config) -> f32 {
    common_with(config, 1e-6)
}

/// The same for a class with another epsilon for a Hugging Face config that does not say it.
pub fn common_with(config: &Config, unsaid: f64) -> f32 {
    config.word_or(&HIDDEN_ACT, &[("silu", ()), ("swish", ())], "silu");
    norms(config, unsaid)
}

/// Reads the context length and the epsilon of the RMS norms, which it gives; `unsaid` is what it is in a Hugging Face
/// config that does not say it.
pub fn norms(config: &Config, unsaid: f64) -> f32 {
    config.limit(&CONTEXT);
    let eps = match config.dialect() {
        Dialect::Hf => config.number_or(&RMS_NORM_EPS, Bound::Positive, unsaid),
        // Every converter writes it, and readers have no value of their own for it.
        Dialect::Gguf => config.number(&RMS_NORM_EPS, Bound::Positive),
    };
    eps as f32
}

/// The window of attention, where the config has one; `unsaid` is that of the class, for a Hugging Face config that
/// does not say it. One that says null has none.
pub fn window(config: &Config, unsaid: Option<usize>) -> Option<usize> {
    let null = matches!(config.value("sliding_window"), Some(Value::Null));
    if null || config.dialect() == Dialect::Gguf && !config.has(&SLIDING_WINDOW) {
        return None;
    }
    if config.dialect() == Dialect::Gguf {
        return Some(config.whole_or(&SLIDING_WINDOW, 0)).filter(|&n| n > 0); // 0 is written for none.
    }
    match unsaid {
        Some(unsaid) if !config.has(&SLIDING_WINDOW) => Some(config.whole_or(&SLIDING_WINDOW, unsaid)),
        _ => config.limit(&SLIDING_WINDOW),
    }
}

/// On which layers a Hugging Face config says that attention has a window, if it says so layer by layer.
pub fn layer_types(config: &Config, layers: usize) -> Option<Vec<bool>> {
    let kinds = [("full_attention", false), ("sliding_attention", true)];
    let hf = config.dialect() == Dialect::Hf;
    hf.then(|| config.words_by_layer(&LAYER_TYPES, layers, &LAYERS, &kinds)).flatten()
}

/// The window of the families that switch it on; 4096 where it is on and of no length. GGUF files do not keep it.
pub fn switched_window(config: &Config) -> Option<usize> {
    let on = config.flag_or_assumed(&USE_SLIDING_WINDOW, false, false);
    if on { window(config, Some(4096)) } else { None }
}

/// On which layers attention has a window: those that the config says, or else those that the class does, which is told
/// in the words of `which`. A GGUF file has a switch for each layer, or the period of the layers without a window, or
/// nothing.
pub fn sliding(config: &Config, layers: usize, unsaid: fn(usize) -> bool, which: &str) -> Vec<bool> {
    let said = match config.dialect() {
        Dialect::Hf => layer_types(config, layers),
        Dialect::Gguf => config.flags_by_layer(&LAYER_TYPES, layers, &LAYERS),
    };
    said.unwrap_or_else(|| {
        config.take_for(&LAYER_TYPES, Value::Text(which.to_owned()));
        (0..layers).map(unsaid).collect()
    })
}

/// The window of each layer's attention in the Qwen families: none unless it is switched on, and then on the layers
/// that `layer_types` says; where the config has no such list, from a layer on. GGUF files do not keep it.
pub fn late_windows(config: &Config, layers: usize) -> Vec<Option<usize>> {
    let sliding = layer_types(config, layers);
    let window = switched_window(config);
    let Some(sliding) = sliding else {
        if window.is_none() {
            return vec![None; layers];
        }
        let first = config.whole_or(&MAX_WINDOW_LAYERS, 28);
        return (0..layers).map(|layer| window.filter(|_| layer >= first)).collect();
    };
    let with = sliding.iter().filter(|&&sliding| sliding).count();
    config.require(
        window.is_some() || with == 0,
        &[&LAYER_TYPES, &USE_SLIDING_WINDOW, &SLIDING_WINDOW],
        "layer_types has layers of sliding_attention, which need use_sliding_window to be true and a sliding_window",
    );
    if window.is_some() {
        config.note(&SLIDING_WINDOW, format!("on {with} of {layers} layers, as layer_types says"));
    }
    sliding.into_iter().map(|sliding| window.filter(|_| sliding)).collect()
}

/// How many of the experts a token uses.
pub fn experts_used(config: &Config, experts: &Axis) -> usize {
    let used = config.count(&EXPERTS_USED).len;
    config.require(
        used <= experts.len,
        &[&EXPERTS_USED, &EXPERTS],
        "a token cannot use more experts than there are",
    );
    used.min(experts.len)
}

/// Whether a config says that there are experts. A number of 0 says that there are none.
pub fn has_experts(config: &Config) -> bool {
    config.peek(&EXPERTS).is_some_and(|experts| experts > 0)
}

/// Refuses a switch that a family has no computation for, if it is on.
pub fn refuse(config: &Config, key: &'static Key, why: &str) {
    if config.has(key) && config.flag_or(key, false) {
        config.unsupported(key, why, "nothing here computes with it");
    }
}

/// Factor on the scores of families that say what its inverse square is; `unsaid` is that of the class, `assumed` what
/// readers of GGUF take it for, which has no key for it.
pub fn score_scale(config: &Config, unsaid: f64, assumed: usize) -> f32 {
    let scalar = match config.dialect() {
        Dialect::Hf => config.number_or(&QUERY_SCALAR, Bound::Positive, unsaid),
        Dialect::Gguf => {
            config.assume(&QUERY_SCALAR, Value::Unsigned(assumed as u64));
            assumed.max(1) as f64
        }
    };
    (1.0 / scalar.sqrt()) as f32
}

/// A bound that numbers come near without reaching it, where there is one: a config that says null has none. `unsaid`
/// is that of the class.
pub fn cap(config: &Config, key: &'static Key, unsaid: f64) -> Option<f32> {
    let null = key.hf.iter().any(|name| matches!(config.value(name), Some(Value::Null)));
    (!null).then(|| config.number_or(key, Bound::Positive, unsaid) as f32)
}

/// Whether a bias is there: a Hugging Face config says so, in GGUF its presence in the first layer does.
pub fn bias(config: &Config, key: &'static Key, tensors: &TensorIndex, gguf: &str) -> bool {
    match config.dialect() {
        Dialect::Hf => config.flag_or(key, false),
        Dialect::Gguf => tensors.get(gguf).is_some(),
    }
}

/// Lets the embedding stand in for the head: as the config says (`tied`) in the Hugging Face world; in GGUF whenever the
/// head is absent, unless a `config.json` says that the two differ. A head that a GGUF file has is used, tied or not: it
/// may be stored in another type.
pub fn tie_head(config: &Config, table: &mut TensorTable, head: TensorId, embedding: TensorId, tied: bool) {
    match (config.dialect(), config.stored()) {
        (Dialect::Hf, Dialect::Hf) if tied => table.tie(head, embedding, true),
        (Dialect::Hf, _) if !tied => {
            table.hint(head, "tie_word_embeddings is false; if the head is the embedding, set it to true")
        }
        _ => table.tie(head, embedding, false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn config(text: &str) -> Config {
        Config::from_json("config.json", text.as_bytes()).unwrap()
    }

    fn windows(text: &str) -> Result<Vec<Option<usize>>, String> {
        let config = config(text);
        let windows = late_windows(&config, 3);
        config.settle().map(|()| windows).map_err(|e| e.to_string())
    }

    #[test]
    fn the_list_of_layers_decides_which_have_a_window() {
        let used = "\"use_sliding_window\": true, \"sliding_window\": 8, \"max_window_layers\": 2";
        let said = |types: &str| windows(&format!("{{{used}, \"layer_types\": {types}}}"));
        assert_eq!(windows(&format!("{{{used}}}")).unwrap(), [None, None, Some(8)]);
        let mixed = "[\"sliding_attention\", \"full_attention\", \"full_attention\"]";
        assert_eq!(said(mixed).unwrap(), [Some(8), None, None]);
        assert_eq!(said("null").unwrap(), [None, None, Some(8)]);
        let told = [
            ("[\"full_attention\"]", "layer_types has 1 elements, but num_hidden_layers is 3"),
            ("[\"full_attention\", \"full_attention\", \"linear\"]", "layer_types, layer 2, is \"linear\""),
            ("[\"full_attention\", 7, \"linear\"]", "layer_types, layer 1, is 7"),
            ("\"full_attention\"", "layer_types must be a list"),
        ];
        for (types, words) in told {
            let error = said(types).unwrap_err();
            assert!(error.contains(words), "{error}");
        }
        for off in [
            "\"use_sliding_window\": false, \"sliding_window\": 8",
            "\"use_sliding_window\": true, \"sliding_window\": null",
        ] {
            let error = windows(&format!("{{{off}, \"layer_types\": {mixed}}}")).unwrap_err();
            assert!(error.contains("need use_sliding_window to be true and a sliding_window"), "{error}");
            let full = mixed.replace("sliding_attention", "full_attention");
            assert_eq!(windows(&format!("{{{off}, \"layer_types\": {full}}}")).unwrap(), [None; 3]);
        }
    }

    #[test]
    fn a_head_that_is_rotated_in_part_is_refused() {
        for (said, fine) in [
            ("\"partial_rotary_factor\": 0.5", false),
            ("\"rope_parameters\": {\"partial_rotary_factor\": 0.5}", false),
            ("\"partial_rotary_factor\": 1.0", true),
            ("\"partial_rotary_factor\": null", true),
        ] {
            let config = config(&format!("{{\"num_attention_heads\": 2, {said}}}"));
            let hidden = Axis::new(8, "hidden_size");
            attention(&config, &hidden, HeadDim::Shared);
            let told = config.findings().iter().any(|f| f.message.contains("rotates the whole of a head"));
            assert_eq!(told, !fine, "{said}: {:?}", config.findings());
        }
    }

    #[test]
    fn numbers_that_f32_cannot_hold_are_told_with_its_range() {
        for theta in ["1e300", "1e-300"] {
            let config = config(&format!("{{\"rope_theta\": {theta}}}"));
            config.number(&ROPE_THETA, Bound::Positive);
            let message = config.findings().pop().unwrap().message;
            assert!(message.contains("from 1e-45 to 3.4e38, the range of f32, and is 1e"), "{message}");
        }
    }

    #[test]
    fn a_missing_key_is_named_as_the_config_would_spell_it() {
        for (said, named) in [
            ("\"rope_parameters\": {\"rope_type\": \"linear\"}", "rope_parameters.factor is missing"),
            ("\"rope_scaling\": {\"type\": \"linear\"}", "rope_scaling.factor is missing"),
            (
                "\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"linear\"}}",
                "rope_parameters.full_attention.factor is missing",
            ),
            ("\"hidden_size\": 1", "rope_scaling.factor is missing"),
        ] {
            let config = config(&format!("{{{said}}}"));
            config.number(&ROPE_FACTOR, Bound::Positive);
            assert_eq!(config.findings().pop().unwrap().message, named);
        }
    }

    #[test]
    fn gguf_says_which_layers_have_a_window_or_is_taken_for_something() {
        use crate::metadata::{Entry, Items, Metadata};
        use std::sync::Arc;
        let sliding = |value: Option<Value>| {
            let mut all = Metadata::default();
            let mut put = |key: &str, value: Value| {
                let kind = "any".to_owned();
                all.push(Entry { key: key.to_owned(), value, kind, at: None }).unwrap();
            };
            put("general.architecture", Value::Text("x".into()));
            value.into_iter().for_each(|v| put("x.attention.sliding_window_pattern", v));
            let config = Config::from_gguf("x.gguf", all);
            let which = sliding(&config, 4, |layer| layer == 0, "the first");
            let told = config.facts().iter().any(|f| f.origin == crate::config::Origin::Assumed);
            (which, told, config.findings().len())
        };
        assert_eq!(sliding(None), (vec![true, false, false, false], true, 0));
        assert_eq!(sliding(Some(Value::Unsigned(2))), (vec![true, false, true, false], false, 0));
        let flags = |flags: &[bool]| {
            let values = flags.iter().map(|f| Value::Bool(*f)).collect();
            Some(Value::List(Arc::new(Items { kind: "bool", values })))
        };
        let said = [false, true, true, false];
        assert_eq!(sliding(flags(&said)), (said.to_vec(), false, 0));
        for wrong in [flags(&[true]), Some(Value::Text("all".into())), Some(Value::Unsigned(0))] {
            assert_eq!(sliding(wrong).2, 1);
        }
        // Hugging Face's class decides where its config is silent, and that is told too.
        let config = config("{}");
        super::sliding(&config, 2, |_| true, "all");
        assert!(config.facts().iter().any(|f| f.origin == crate::config::Origin::Default));
    }
}
