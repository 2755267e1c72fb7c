//! Configs for a sketch of a family: sizes that are not said are made up, so that its table can be built to look at the
//! names in it.

use super::Config;
use super::fact::Key;
use crate::metadata::{Metadata, Value};
use crate::source::Dialect;
use std::sync::Arc;

/// Layers of a sketch at most: kinds of tensors repeat long before.
const MOST_LAYERS: usize = 512;

/// Sizes by their GGUF names, which all families share: small, and such that they fit each other and whatever else is
/// said.
const SIZES: [(&str, u64); 8] = [
    ("block_count", 8),
    ("embedding_length", 64),
    ("feed_forward_length", 64),
    ("attention.head_count", 1),
    ("attention.head_count_kv", 1),
    ("attention.key_length", 16),
    ("rope.dimension_count", 2),
    ("expert_count", 16),
];

/// Any other size: even, so that it can be rotated, and less than the layers.
const SIZE: u64 = 4;

impl Config {
    /// The same hyperparameters, where those that are missing are made up; or, if it is `bare`, all of them. What is
    /// built from it has the names of a family's tensors, and none of its numbers.
    pub fn sketch(&self, bare: bool) -> Config {
        let fresh = if bare { Config::nothing(self.dialect).describing(self.stored) } else { self.fresh() };
        Config { sketch: true, ..fresh }
    }

    /// A config that says nothing.
    pub fn nothing(dialect: Dialect) -> Config {
        Config::new(dialect, String::new(), Arc::new(Metadata::default()), vec![String::new()])
    }

    /// A value for a key that is missing, in a sketch.
    pub(super) fn made_up(&self, key: &Key) -> Option<(String, Value)> {
        let size = || SIZES.iter().find(|(name, _)| *name == key.gguf).map_or(SIZE, |(_, size)| *size);
        self.sketch.then(|| (self.name_of(key), Value::Unsigned(size())))
    }

    /// The layers that a table is built for.
    pub(super) fn few_enough(&self, layers: usize) -> usize {
        if self.sketch { layers.min(MOST_LAYERS) } else { layers }
    }
}
