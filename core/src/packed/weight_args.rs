//! How the weights of a compressed-tensors checkpoint are stored, by its config: one description or several.

use super::grid::Cut;
use super::said::Said;
use std::collections::BTreeSet;

/// How the codes of a weight lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// Several to a word.
    Packed,
    /// A byte each, whole numbers.
    Int,
    /// A byte each, FP8.
    Float,
}

/// One of the descriptions.
#[derive(Debug)]
pub(super) struct Args {
    pub kind: Kind,
    pub bits: usize,
    /// Whether there are no zero points.
    pub symmetric: bool,
    /// What shares a scale.
    pub cut: Cut,
}

impl Args {
    /// All that a config has; `None` if one is not read here.
    pub fn of(said: &Said) -> Option<Vec<Args>> {
        const MOST: usize = 256;
        // A group whose weights are null is one of activations alone.
        let of_weights =
            |key: &str| key.split_once('.').is_some_and(|(_, rest)| rest.starts_with("weights."));
        let keys = said.keys("config_groups").filter(|key| of_weights(key));
        let groups: BTreeSet<&str> =
            keys.filter_map(|key| key.split_once('.')).map(|(group, _)| group).collect();
        let whole = said.text("format");
        groups
            .into_iter()
            .take(MOST)
            .map(|group| Args::one(said, &format!("config_groups.{group}"), whole))
            .collect()
    }

    fn one(said: &Said, group: &str, whole: Option<&str>) -> Option<Args> {
        let key = |name: &str| format!("{group}.weights.{name}");
        let bits = said.count(&key("num_bits"))?;
        let float = match said.text(&key("type")) {
            Some("int") => false,
            Some("float") => true,
            _ => return None,
        };
        let format = said.text(&format!("{group}.format")).or(whole)?;
        let kind = match (format, float, bits) {
            ("pack-quantized", false, 4 | 8) => Kind::Packed,
            ("int-quantized" | "naive-quantized", false, 8) => Kind::Int,
            ("float-quantized" | "naive-quantized", true, 8) => Kind::Float,
            _ => return None,
        };
        let size = said.count(&key("group_size"));
        let cut = match (said.text(&key("strategy")), size) {
            (Some("tensor"), _) => Cut::Tensor,
            (Some("channel"), _) => Cut::Channel,
            (Some("group"), Some(size)) => Cut::Group(size),
            (Some("block"), _) if kind != Kind::Packed => {
                let (high, wide) = said.pair(&key("block_structure"))?;
                Cut::Block(high, wide)
            }
            _ => return None,
        };
        // The library's default.
        let symmetric = said.value(&key("symmetric")).is_none() || said.is_on(&key("symmetric"));
        Some(Args { kind, bits, symmetric, cut })
    }
}
