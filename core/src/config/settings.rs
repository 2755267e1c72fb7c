//! Settings that are no sizes: numbers, flags and words. Each that is read leaves a fact or a finding.

use super::fact::{Bound, Key, Origin};
use super::{CONFIG_MISSING_KEY, CONFIG_UNSUPPORTED, Config, number, whole};
use crate::metadata::Value;
use crate::source::Dialect;

impl Config {
    /// A number with a fraction, `default` if it is not said.
    pub fn number_or(&self, key: &'static Key, bound: Bound, default: f64) -> f64 {
        match self.look_up(key) {
            None => {
                self.add_fact(key, self.name_of(key), Value::Float(default), Origin::Default, false);
                default
            }
            Some((name, value)) => self.number_from(key, bound, name, value).unwrap_or(default),
        }
    }

    /// Writes down what a setting is taken for that GGUF has no key for; with a Hugging Face config, which has, it does
    /// nothing.
    pub fn assume(&self, key: &'static Key, value: Value) {
        if self.dialect == Dialect::Gguf {
            let name = key.hf.last().copied().unwrap_or_default().to_owned();
            self.add_fact(key, name, value, Origin::Assumed, false);
        }
    }

    /// Writes down what a setting that no file says is taken for: by default in a Hugging Face config, assumed in GGUF.
    pub fn take_for(&self, key: &'static Key, value: Value) {
        match self.dialect {
            Dialect::Gguf => self.assume(key, value),
            Dialect::Hf => self.add_fact(key, self.name_of(key), value, Origin::Default, false),
        }
    }

    /// A switch for each layer, if they are said: a list of them, or a period, of which the last layer of each is off.
    /// It leaves no fact, like [`words_by_layer`](Self::words_by_layer).
    pub fn flags_by_layer(&self, key: &'static Key, layers: usize, count: &'static Key) -> Option<Vec<bool>> {
        let (name, value) = self.look_up(key)?;
        if let Some(period) = whole(&value).filter(|&period| period > 0) {
            return Some((1..=layers).map(|layer| !layer.is_multiple_of(period)).collect());
        }
        let items = match &value {
            Value::List(list) if list.len() == layers as u64 => value.first_items(layers).ok(),
            Value::List(list) => {
                let message =
                    format!("{name} has {} elements, but {} is {layers}", list.len(), self.name_of(count));
                self.require(false, &[key, count], &message);
                return None;
            }
            _ => None,
        };
        let flag = |item: &Value| match item {
            Value::Bool(on) => Some(*on),
            other => whole(other).filter(|n| *n < 2).map(|n| n == 1),
        };
        let flags: Option<Vec<bool>> = items.and_then(|items| items.iter().map(flag).collect());
        if flags.is_none() {
            self.bad(key, &name, "a switch for each layer, or a period", &value);
        }
        flags
    }

    /// A number with a fraction that must be there.
    pub fn number(&self, key: &'static Key, bound: Bound) -> f64 {
        match self.look_up(key).or_else(|| self.made_up(key)) {
            None => {
                let name = self.name_of(key);
                let advice =
                    format!("add {name} to {}, or hand over the right file with --config", self.file);
                self.fault(&CONFIG_MISSING_KEY, key, &name, format!("{name} is missing"), &advice);
                1.0
            }
            Some((name, value)) => self.number_from(key, bound, name, value).unwrap_or(1.0),
        }
    }

    fn number_from(&self, key: &'static Key, bound: Bound, name: String, value: Value) -> Option<f64> {
        let x = number(&value).filter(|x| {
            // What is computed with is the number in f32.
            let x = *x as f32;
            x.is_finite() && (bound == Bound::Finite || x > 0.0)
        });
        match x {
            Some(x) => {
                self.add_fact(key, name, value, Origin::File, false);
                Some(x)
            }
            None => {
                // A fault of the number, or only of what it is kept in.
                let held =
                    number(&value).is_some_and(|x| x.is_finite() && (bound == Bound::Finite || x > 0.0));
                let wanted = match bound {
                    Bound::Finite if held => "a number from -3.4e38 to 3.4e38, the range of f32",
                    Bound::Positive if held => "a number from 1e-45 to 3.4e38, the range of f32",
                    Bound::Finite => "a finite number",
                    Bound::Positive => "a positive, finite number",
                };
                self.bad(key, &name, wanted, &value);
                None
            }
        }
    }

    /// A switch, `default` if it is not said.
    pub fn flag_or(&self, key: &'static Key, default: bool) -> bool {
        match self.look_up(key) {
            None => {
                self.add_fact(key, self.name_of(key), Value::Bool(default), Origin::Default, false);
                default
            }
            Some((name, Value::Bool(b))) => {
                self.add_fact(key, name, Value::Bool(b), Origin::File, false);
                b
            }
            Some((name, value)) => {
                self.bad(key, &name, "true or false", &value);
                default
            }
        }
    }

    /// A switch, `default` if a Hugging Face config does not say it; where a GGUF file has no key for it, it is taken for
    /// `assumed`, and that is told.
    pub fn flag_or_assumed(&self, key: &'static Key, default: bool, assumed: bool) -> bool {
        match self.dialect {
            Dialect::Gguf if !self.has(key) => {
                self.assume(key, Value::Bool(assumed));
                assumed
            }
            _ => self.flag_or(key, default),
        }
    }

    /// One of several words, `default` if it is not said. `known` pairs each accepted word with its meaning.
    pub fn word_or<T: Copy>(
        &self,
        key: &'static Key,
        known: &[(&'static str, T)],
        default: &'static str,
    ) -> Option<T> {
        let (name, text, origin) = match self.look_up(key) {
            None => (self.name_of(key), default.to_owned(), Origin::Default),
            Some((name, Value::Text(text))) => (name, text, Origin::File),
            Some((name, value)) => {
                self.bad(key, &name, "text", &value);
                return None;
            }
        };
        match known.iter().find(|(word, _)| *word == text) {
            Some((_, meaning)) => {
                self.add_fact(key, name, Value::Text(text), origin, false);
                Some(*meaning)
            }
            None => {
                let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
                let message = format!("{name} is \"{text}\", which this family does not know");
                let advice = format!("known: {}", words.join(", "));
                self.fault(&CONFIG_UNSUPPORTED, key, &name, message, &advice);
                None
            }
        }
    }

    /// One of several words for each layer, if they are said. `known` pairs each accepted word with its meaning. It
    /// leaves no fact: what follows from the words is told where it is used.
    pub fn words_by_layer<T: Copy>(
        &self,
        key: &'static Key,
        layers: usize,
        count: &'static Key,
        known: &[(&'static str, T)],
    ) -> Option<Vec<T>> {
        let (name, value) = self.look_up(key)?;
        let Value::List(list) = &value else {
            self.bad(key, &name, "a list of one word for each layer", &value);
            return None;
        };
        if list.len() != layers as u64 {
            let message =
                format!("{name} has {} elements, but {} is {layers}", list.len(), self.name_of(count));
            self.require(false, &[key, count], &message);
            return None;
        }
        let words: Vec<&str> = known.iter().map(|(word, _)| *word).collect();
        let mut kinds = Vec::new();
        for (layer, value) in value.first_items(layers).unwrap_or_default().into_iter().enumerate() {
            let kind = known.iter().find(|(word, _)| matches!(&value, Value::Text(text) if text == word));
            let Some((_, meaning)) = kind else {
                let message = format!("{name}, layer {layer}, is {value}, which this family does not know");
                self.fault(&CONFIG_UNSUPPORTED, key, &name, message, &format!("known: {}", words.join(", ")));
                return None;
            };
            kinds.push(*meaning);
        }
        Some(kinds)
    }

    /// A list of finite numbers, if it is said.
    pub fn numbers(&self, key: &'static Key) -> Option<Vec<f64>> {
        let (name, value) = self.look_up(key)?;
        let items = match &value {
            Value::List(list) => {
                let most = usize::try_from(list.len()).unwrap_or(usize::MAX).min(MOST_NUMBERS);
                value.first_items(most).ok().filter(|items| items.len() as u64 == list.len())
            }
            _ => None,
        };
        let numbers: Option<Vec<f64>> =
            items.and_then(|items| items.iter().map(|v| number(v).filter(|x| x.is_finite())).collect());
        if numbers.is_none() {
            self.bad(key, &name, "a list of finite numbers", &value);
        }
        numbers
    }
}

/// The longest list that a config is believed to hold.
const MOST_NUMBERS: usize = 1 << 16;
