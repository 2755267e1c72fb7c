//! What `quantization_config` says.

use crate::config::Config;
use crate::metadata::Value;
use std::collections::HashSet;

/// Where the description may stand.
const PLACES: [&str; 2] = ["quantization_config.", "text_config.quantization_config."];

/// Entries of a list that are read; a config is small.
const LISTED: usize = 100_000;

/// The description of a scheme in a config.
pub(super) struct Said {
    config: Config,
    place: &'static str,
}

impl Said {
    /// The description, if there is one that names a method.
    pub fn of(config: Config) -> Option<Said> {
        let names = |place: &&str| config.entries().text(&format!("{place}quant_method")).is_some();
        let place = PLACES.into_iter().find(names)?;
        Some(Said { config, place })
    }

    /// The config's file.
    pub fn file(&self) -> &str {
        self.config.file()
    }

    /// A value that is not null.
    pub fn value(&self, name: &str) -> Option<&Value> {
        let value = self.config.entries().get(&format!("{}{name}", self.place));
        value.filter(|v| !matches!(v, Value::Null))
    }

    /// A text.
    pub fn text(&self, name: &str) -> Option<&str> {
        match self.value(name) {
            Some(Value::Text(text)) => Some(text),
            _ => None,
        }
    }

    /// A number of at least 1.
    pub fn count(&self, name: &str) -> Option<usize> {
        match self.value(name) {
            Some(Value::Unsigned(n)) => usize::try_from(*n).ok().filter(|n| *n > 0),
            _ => None,
        }
    }

    /// Whether a switch is on; off if it is not said.
    pub fn is_on(&self, name: &str) -> bool {
        matches!(self.value(name), Some(Value::Bool(true)))
    }

    /// The items of a list.
    pub fn items(&self, name: &str) -> Vec<Value> {
        self.value(name).and_then(|v| v.first_items(LISTED).ok()).unwrap_or_default()
    }

    /// Two numbers of at least 1, such as the sides of a block; `None` if the value is anything else.
    pub fn pair(&self, name: &str) -> Option<(usize, usize)> {
        let count = |v: &Value| match v {
            Value::Unsigned(n) => usize::try_from(*n).ok().filter(|n| *n > 0),
            _ => None,
        };
        match self.items(name).as_slice() {
            [a, b] => Some((count(a)?, count(b)?)),
            _ => None,
        }
    }

    /// Inputs that share a scale where the key may be -1, which stands for all of them: `Some(None)`. `None` if it is
    /// no such number.
    pub fn group_size(&self, name: &str, unsaid: usize) -> Option<Option<usize>> {
        match self.value(name) {
            None => Some(Some(unsaid)),
            Some(Value::Signed(-1)) => Some(None),
            Some(_) => self.count(name).map(Some),
        }
    }

    /// Keys of an object, as far as they lead to a value: `group_0.weights.num_bits` under `config_groups`.
    pub fn keys<'s>(&'s self, object: &str) -> impl Iterator<Item = &'s str> {
        let begin = format!("{}{object}.", self.place);
        let keys = self.config.entries().entries().iter().map(|e| e.key.as_str());
        keys.filter_map(move |key| key.strip_prefix(begin.as_str()))
    }

    /// Names of modules that were not quantised, under all the keys that tools write.
    pub fn left_alone(&self) -> HashSet<String> {
        const KEYS: [&str; 4] =
            ["modules_to_not_convert", "ignore", "ignored_layers", "llm_int8_skip_modules"];
        let text = |value: Value| match value {
            // What follows "re:" is a pattern, a star stands for any name: not looked at.
            Value::Text(text) if !text.is_empty() && !text.contains([':', '*', '\\']) => Some(text),
            _ => None,
        };
        KEYS.iter().flat_map(|key| self.items(key)).filter_map(text).collect()
    }
}
