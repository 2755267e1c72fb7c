//! Rotary frequencies of a model, with the scaling that its config asks for.

mod long;

pub use long::{LongPlan, LongRope};

use crate::config::{Bound, Config, Key};
use crate::decoder::{
    CONTEXT, MOST_HEAD, ROPE_FACTOR, ROPE_HIGH, ROPE_LOW, ROPE_ORIGINAL, ROPE_THETA, ROPE_TYPE,
};
use crate::ops::{Pairing, Rotation};
use crate::source::Dialect;
use std::f64::consts::TAU;

/// Kinds of rope scaling, under the names of both worlds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scaling {
    /// None.
    Plain,
    /// All frequencies divided.
    Linear,
    /// The base grows with the sequence.
    Dynamic,
    /// Low frequencies divided, high ones left alone, a ramp between, and a factor on cos and sin.
    Yarn,
    /// A factor for each frequency, one set for short and one for long sequences.
    LongRope,
    /// Low frequencies divided, high ones left alone, a ramp between.
    Llama3,
}

const TYPES: [(&str, Scaling); 8] = [
    ("default", Scaling::Plain),
    ("none", Scaling::Plain),
    ("linear", Scaling::Linear),
    ("dynamic", Scaling::Dynamic),
    ("yarn", Scaling::Yarn),
    ("longrope", Scaling::LongRope),
    ("su", Scaling::LongRope),
    ("llama3", Scaling::Llama3),
];

macro_rules! yarn_keys {
    ($($name:ident: $hf:literal | $gguf:literal, $meaning:literal;)+) => {$(
        static $name: Key = Key {
            hf: &[
                concat!("rope_parameters.", $hf),
                concat!("rope_parameters.full_attention.", $hf),
                concat!("rope_scaling.", $hf),
            ],
            gguf: $gguf,
            symbol: "",
            meaning: $meaning,
        };
    )+};
}

yarn_keys! {
    BETA_FAST: "beta_fast" | "rope.scaling.yarn_beta_fast", "yarn: turns within the context from which a frequency is kept";
    BETA_SLOW: "beta_slow" | "rope.scaling.yarn_beta_slow", "yarn: turns within the context up to which a frequency is divided";
    ATTENTION_FACTOR: "attention_factor" | "", "yarn: factor on cos and sin";
    MSCALE: "mscale" | "", "yarn: weight of the factor on cos and sin";
    MSCALE_ALL_DIM: "mscale_all_dim" | "", "yarn: weight of the factor on the scores";
    TRUNCATE: "truncate" | "", "yarn: whether the ramp begins and ends at whole dimensions";
}

/// What a GGUF file has for a factor on cos and sin: of longrope the factor itself.
static GGUF_FACTOR: Key =
    Key { hf: &[], gguf: "rope.scaling.attn_factor", symbol: "", meaning: "factor on cos and sin" };

/// How positions turn the heads of a model.
#[derive(Clone, Debug, PartialEq)]
pub struct Rope {
    /// Angle per position of each pair, `[r/2]`.
    pub frequencies: Vec<f64>,
    /// Factor on cos and sin.
    pub factor: f64,
    /// How far scaling stretches the context, if there is scaling.
    pub stretch: Option<f64>,
    /// Why no forward pass can use it, if none can.
    pub unsupported: Option<&'static str>,
}

impl Rope {
    /// Reads the rotary base and its scaling. `width` (r) elements of a head are turned. 10,000 is the base that both
    /// worlds give a config that is silent.
    pub fn of(config: &Config, width: usize) -> Rope {
        Rope::with_base(config, width, 10_000.0)
    }

    /// The same for a family whose class has another base for a config that is silent.
    pub fn with_base(config: &Config, width: usize, unsaid: f64) -> Rope {
        let theta = config.number_or(&ROPE_THETA, Bound::Positive, unsaid);
        let plain = Rope::plain(theta, width);
        if !config.has(&ROPE_TYPE) && says_no_scaling(config) {
            let lone = config.dialect() == Dialect::Gguf && config.has(&ROPE_FACTOR);
            config.require(
                !lone,
                &[&ROPE_TYPE, &ROPE_FACTOR],
                "there is a factor of the rotary scaling, but not its kind: readers differ in what they take it for",
            );
            return plain;
        }
        let unsaid = if config.dialect() == Dialect::Gguf { "none" } else { "default" };
        let stretch = || config.has(&ROPE_FACTOR).then(|| config.number(&ROPE_FACTOR, Bound::Positive));
        let kind = config.word_or(&ROPE_TYPE, &TYPES, unsaid).unwrap_or(Scaling::Plain);
        let plain = Rope { stretch: if kind == Scaling::Plain { None } else { stretch() }, ..plain };
        match kind {
            Scaling::Plain => plain,
            Scaling::Linear => plain.divided_by(config.number(&ROPE_FACTOR, Bound::Positive)),
            Scaling::Llama3 => llama3(config, plain),
            Scaling::Yarn => yarn(config, plain, theta),
            Scaling::Dynamic => {
                config.number(&ROPE_FACTOR, Bound::Positive);
                let why = "its rope scaling is dynamic: the rotary base grows with the sequence";
                Rope { unsupported: Some(why), ..plain }
            }
            Scaling::LongRope => {
                let why = "its rope scaling is longrope, which this family has no factors for";
                Rope { unsupported: Some(why), ..plain }
            }
        }
    }

    /// No scaling: `theta^(-2a/r)`. No more of them than the widest head has that is believed.
    pub fn plain(theta: f64, width: usize) -> Rope {
        let width = width.min(MOST_HEAD);
        let frequency = |a: usize| theta.powf(-2.0 * a as f64 / width as f64);
        Rope {
            frequencies: (0..width / 2).map(frequency).collect(),
            factor: 1.0,
            stretch: None,
            unsupported: None,
        }
    }

    /// Whether a forward pass can use it, or why not.
    pub fn usable(&self) -> Result<(), String> {
        self.unsupported.map_or(Ok(()), |why| Err(why.to_owned()))
    }

    /// The frequencies, each divided by one number.
    fn divided_by(mut self, factor: f64) -> Rope {
        self.frequencies.iter_mut().for_each(|f| *f /= factor);
        self
    }

    /// The frequencies, each divided by a number of its own (a GGUF file's `rope_freqs.weight`).
    pub fn divided_by_each(&self, factors: &[f32]) -> Rope {
        let divided = self.frequencies.iter().zip(factors).map(|(f, by)| f / f64::from(*by));
        Rope { frequencies: divided.collect(), ..*self }
    }

    /// The angles of positions `start..start + n` for heads of this width; the turned part begins at a head's start.
    pub fn rotation(&self, start: usize, n: usize, pairing: Pairing, head: usize) -> Rotation {
        Rotation::new(&self.frequencies, self.factor, start, n, pairing, head)
    }
}

/// Wavelengths beyond the first context are divided, those well inside it are not.
fn llama3(config: &Config, mut rope: Rope) -> Rope {
    let number = |key| config.number(key, Bound::Positive);
    let factor = number(&ROPE_FACTOR);
    let (low, high, original) = (number(&ROPE_LOW), number(&ROPE_HIGH), number(&ROPE_ORIGINAL));
    config.require(high > low, &[&ROPE_HIGH, &ROPE_LOW], "the high factor must be above the low one");
    for f in &mut rope.frequencies {
        let length = TAU / *f;
        if length > original / low {
            *f /= factor;
        } else if length >= original / high {
            let part = (original / length - low) / (high - low);
            *f = (1.0 - part) * *f / factor + part * *f;
        }
    }
    rope
}

fn yarn(config: &Config, mut rope: Rope, theta: f64) -> Rope {
    let factor = config.number(&ROPE_FACTOR, Bound::Positive);
    let said = config.has(&ROPE_ORIGINAL) || !config.has(&CONTEXT);
    let original = config.number(if said { &ROPE_ORIGINAL } else { &CONTEXT }, Bound::Positive);
    let fast = config.number_or(&BETA_FAST, Bound::Positive, 32.0);
    let slow = config.number_or(&BETA_SLOW, Bound::Positive, 1.0);
    let width = 2.0 * rope.frequencies.len() as f64;
    // The pair that turns so many times within the context.
    let dimension = |turns: f64| width * (original / (turns * TAU)).ln() / (2.0 * theta.ln());
    let (mut low, mut high) = (dimension(fast), dimension(slow));
    if config.flag_or_assumed(&TRUNCATE, true, true) {
        (low, high) = (low.floor(), high.ceil());
    }
    (low, high) = (low.max(0.0), high.min(width - 1.0));
    if low == high {
        high += 0.001;
    }
    for (a, f) in rope.frequencies.iter_mut().enumerate() {
        let ramp = ((a as f64 - low) / (high - low)).clamp(0.0, 1.0);
        *f = *f / factor * ramp + *f * (1.0 - ramp);
    }
    rope.factor = yarn_attention(config, factor);
    rope
}

/// What cos and sin are multiplied by.
fn yarn_attention(config: &Config, factor: f64) -> f64 {
    let growth = |weight: f64| if factor <= 1.0 { 1.0 } else { 0.1 * weight * factor.ln() + 1.0 };
    if config.has(&ATTENTION_FACTOR) {
        return config.number(&ATTENTION_FACTOR, Bound::Positive);
    }
    let said = |key| if config.has(key) { config.number(key, Bound::Finite) } else { 0.0 };
    match (said(&MSCALE), said(&MSCALE_ALL_DIM)) {
        (own, all) if own != 0.0 && all != 0.0 => growth(own) / growth(all),
        // What GGUF calls so is a factor on the growth.
        _ if config.has(&GGUF_FACTOR) => growth(1.0) * config.number(&GGUF_FACTOR, Bound::Positive),
        _ => growth(1.0),
    }
}

/// Whether a config says that there is no scaling: with `rope_scaling: null`, or with rotary parameters that
/// name none. In GGUF the key is written only where there is scaling.
fn says_no_scaling(config: &Config) -> bool {
    let entries = config.entries().entries();
    let says = |key: &str| {
        let key = key.strip_prefix("text_config.").unwrap_or(key);
        key == "rope_scaling" || key.starts_with("rope_parameters.")
    };
    config.dialect() == Dialect::Gguf || entries.iter().any(|e| says(&e.key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rope(json: &str, width: usize) -> Rope {
        let config = Config::from_json("config.json", json.as_bytes()).unwrap();
        let rope = Rope::of(&config, width);
        config.settle().unwrap();
        rope
    }

    /// Values of the reference implementation for Llama 3.1's parameters, rounded to f32 there.
    #[test]
    fn llama3_keeps_the_fast_and_divides_the_slow() {
        let scaling = r#"{"rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
            "original_max_position_embeddings":8192}"#;
        let rope = rope(&format!(r#"{{"rope_theta":500000.0,"rope_scaling":{scaling}}}"#), 128);
        let plain = Rope::plain(500_000.0, 128);
        assert_eq!(rope.frequencies[0], 1.0);
        assert_eq!(rope.frequencies[63], plain.frequencies[63] / 8.0);
        let between =
            rope.frequencies.iter().zip(&plain.frequencies).filter(|(a, b)| a != b && **a != *b / 8.0);
        assert!((1..10).contains(&between.count()));
        assert!(rope.frequencies.windows(2).all(|w| w[0] > w[1]));
    }

    #[test]
    fn yarn_turns_from_kept_to_divided() {
        let scaling = r#"{"type":"yarn","factor":4.0,"original_max_position_embeddings":32768}"#;
        let rope = rope(&format!(r#"{{"rope_theta":1000000.0,"rope_scaling":{scaling}}}"#), 128);
        let plain = Rope::plain(1_000_000.0, 128);
        // 128 · ln(32768 / (32 · 2π)) / (2 ln 10⁶) = 23.6…, so the first 23 pairs are kept.
        assert!(rope.frequencies[..=23].iter().zip(&plain.frequencies).all(|(a, b)| a == b));
        assert!(rope.frequencies[24] < plain.frequencies[24]);
        assert_eq!(rope.frequencies[63], plain.frequencies[63] / 4.0);
        assert!((rope.factor - (0.1 * 4f64.ln() + 1.0)).abs() < 1e-15);
    }

    #[test]
    fn the_factor_of_a_gguf_file_multiplies_the_growth_of_yarn() {
        use crate::metadata::{Entry, Metadata, Value};
        let mut all = Metadata::default();
        let mut put = |key: &str, value: Value| {
            let (key, kind) = (key.to_owned(), "any".to_owned());
            all.push(Entry { key, value, kind, at: None }).unwrap();
        };
        put("general.architecture", Value::Text("x".into()));
        put("x.rope.scaling.type", Value::Text("yarn".into()));
        put("x.rope.scaling.factor", Value::Float(4.0));
        put("x.rope.scaling.original_context_length", Value::Unsigned(64));
        put("x.rope.scaling.attn_factor", Value::Float(0.5));
        let config = Config::from_gguf("x.gguf", all);
        let rope = Rope::of(&config, 8);
        config.settle().unwrap();
        assert!((rope.factor - 0.5 * (0.1 * 4f64.ln() + 1.0)).abs() < 1e-15);
    }

    #[test]
    fn linear_divides_all() {
        let rope = rope(r#"{"rope_theta":10000.0,"rope_scaling":{"type":"linear","factor":2.0}}"#, 4);
        assert_eq!(rope.frequencies, [0.5, 0.005]);
    }

    /// Parameters by kind of layer (transformers 5) say the same as `rope_scaling`, which is for full layers alone.
    #[test]
    fn parameters_of_full_layers_are_read_to_the_last() {
        let yarn = r#""rope_type":"yarn","factor":4.0,"original_max_position_embeddings":256,"beta_fast":4.0,
            "beta_slow":1.5,"attention_factor":1.3,"truncate":false"#;
        let llama3 = r#""rope_type":"llama3","factor":8.0,"low_freq_factor":1.0,"high_freq_factor":4.0,
            "original_max_position_embeddings":256"#;
        for scaling in [yarn, llama3] {
            let context = r#""max_position_embeddings":1024"#;
            let old = format!(r#"{{{context},"rope_theta":500.0,"rope_scaling":{{{scaling}}}}}"#);
            let full = format!(r#""full_attention":{{"rope_theta":500.0,{scaling}}}"#);
            assert_eq!(rope(&format!(r#"{{{context},"rope_parameters":{{{full}}}}}"#), 16), rope(&old, 16));
        }
    }

    #[test]
    fn what_no_pass_can_use_says_so() {
        let rope = rope(r#"{"rope_scaling":{"type":"dynamic","factor":2.0}}"#, 4);
        assert!(rope.unsupported.is_some_and(|why| why.contains("dynamic")));
    }
}
