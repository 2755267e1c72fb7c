//! Hyperparameters: every one asked for by both of its names, nothing assumed in silence.
//!
//! A getter never fails. It gives a value to go on with, writes down where that value came from (a
//! [`Fact`]) and, if there was none to be had, a [`Finding`]; [`Config::settle`] then says whether what was
//! read may be used. So all faults of a config are found in one run.

mod fact;
mod settings;
mod sketch;

pub use fact::{Bound, Fact, Key, Origin};

use crate::axis::Axis;
use crate::codes;
use crate::error::{Error, Result};
use crate::finding::{Code, Finding};
use crate::index::TensorIndex;
use crate::json;
use crate::metadata::{Metadata, Value};
use crate::source::Dialect;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::sync::Arc;

codes! {
    pub static CONFIG_MISSING_KEY = Error, Config, "config-missing-key",
        "a hyperparameter is missing",
        "Sizes and counts have no value that could be taken for granted: a wrong guess gives a model of another \
         shape. Add the key to the file named, or hand over the right one with --config.";
    pub static CONFIG_BAD_VALUE = Error, Config, "config-bad-value",
        "a hyperparameter has a value that cannot be",
        "A count is a whole number of at least 1, a switch is true or false, an epsilon is positive and finite. \
         The value in the file is of another kind or out of range.";
    pub static CONFIG_CONTRADICTION = Error, Config, "config-contradiction",
        "two statements about one hyperparameter differ",
        "The same fact stands in two places (rope_theta and rope_parameters.rope_theta, say) with two values, so \
         two readers would build two different models. Remove one.";
    pub static CONFIG_RELATION = Error, Config, "config-relation",
        "hyperparameters do not fit each other",
        "Some sizes depend on others: the number of heads is a multiple of the number of key-value heads, a \
         rotated width is even. Such a config describes no model that could be computed.";
    pub static CONFIG_UNSUPPORTED = Error, Config, "config-unsupported",
        "a hyperparameter asks for something this program does not know",
        "The key is understood, its value is not: an activation or a kind of rope scaling that the reference \
         implementation of the family does not have, or that came later than this version.";
    pub static CONFIG_DEFAULT = Note, Config, "config-default",
        "an absent hyperparameter was given its default",
        "The key is not in the file, and the reference class of the family fixes its value. It is used, and \
         shown, since a file that says nothing may have meant something else.";
    pub static CONFIG_DUPLICATE_KEY = Error, Config, "config-duplicate-key",
        "a key stands twice in the config",
        "JSON readers differ in which of two equal keys they take. Remove one.";
}

/// The hyperparameters of one model.
#[derive(Debug)]
pub struct Config {
    dialect: Dialect,
    /// Whose names and layouts the tensors have that it describes.
    stored: Dialect,
    file: String,
    entries: Arc<Metadata>,
    /// Key prefixes to look under, the first that has the key wins.
    scopes: Vec<String>,
    facts: RefCell<Vec<Fact>>,
    findings: RefCell<Vec<Finding>>,
    /// Keys whose value could not be had, so that relations about them say nothing more.
    broken: RefCell<BTreeSet<&'static str>>,
    /// Whether sizes that are not said are made up.
    sketch: bool,
}

/// Bound on layers where no tensors are there to bound them.
const MOST_LAYERS: usize = 10_000;

/// The same for experts, of all layers together.
const MOST_EXPERTS: usize = 1_000_000;

/// Experts that a model may claim to have on every layer whatever its files hold.
const MOST_TRUSTED: usize = 8;

/// A config is text that people write; this bound only keeps a wrong file from being read whole.
pub const MAX_CONFIG_BYTES: u64 = 4 * 1024 * 1024;

impl Config {
    /// From the text of a `config.json`. A text model nested in a larger one (`text_config`) is looked for
    /// there first.
    pub fn from_json(file: impl Into<String>, text: &[u8]) -> Result<Config> {
        let file = file.into();
        let parsed = json::flatten(&file, text, &CONFIG_DUPLICATE_KEY)?;
        let nested = parsed.entries.entries().iter().any(|e| e.key.starts_with("text_config."));
        let scopes =
            if nested { vec!["text_config.".to_owned(), String::new()] } else { vec![String::new()] };
        let config = Config::new(Dialect::Hf, file, Arc::new(parsed.entries), scopes);
        config.findings.borrow_mut().extend(parsed.faults.into_vec());
        Ok(config)
    }

    /// From the metadata of a GGUF file, which may be shared with its source.
    pub fn from_gguf(file: impl Into<String>, metadata: impl Into<Arc<Metadata>>) -> Config {
        let metadata = metadata.into();
        let prefix = metadata.text("general.architecture").map(|a| format!("{a}.")).unwrap_or_default();
        Config::new(Dialect::Gguf, file.into(), metadata, vec![prefix])
    }

    fn new(dialect: Dialect, file: String, entries: Arc<Metadata>, scopes: Vec<String>) -> Config {
        Config {
            dialect,
            stored: dialect,
            file,
            entries,
            scopes,
            facts: RefCell::default(),
            findings: RefCell::default(),
            broken: RefCell::default(),
            sketch: false,
        }
    }

    /// The same for tensors of this dialect: a `config.json` may be handed over for a GGUF file.
    pub fn describing(self, stored: Dialect) -> Config {
        Config { stored, ..self }
    }

    /// The same hyperparameters, as if none had been asked for yet: two architectures can be tried on one
    /// config.
    pub fn fresh(&self) -> Config {
        let fresh = Config::new(self.dialect, self.file.clone(), self.entries.clone(), self.scopes.clone());
        fresh.describing(self.stored)
    }

    /// Whose key names it uses.
    pub fn dialect(&self) -> Dialect {
        self.dialect
    }

    /// Whose names and layouts the tensors have that it describes: its own, but where a `config.json` was handed over
    /// for a GGUF file.
    pub fn stored(&self) -> Dialect {
        self.stored
    }

    /// Whether the model is the text model of a larger one (`text_config`).
    pub fn is_wrapped(&self) -> bool {
        self.scopes.len() > 1
    }

    /// The file it was read from.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Everything that stands in it.
    pub fn entries(&self) -> &Metadata {
        &self.entries
    }

    /// A value by its Hugging Face name, in the nested text model before the model around it; for what is no
    /// hyperparameter.
    pub fn value(&self, name: &str) -> Option<&Value> {
        self.scopes.iter().find_map(|scope| self.entries.get(&format!("{scope}{name}")))
    }

    /// The family as the file names it: `model_type`, or `general.architecture`.
    pub fn family(&self) -> Option<&str> {
        match self.dialect {
            Dialect::Gguf => self.entries.text("general.architecture"),
            Dialect::Hf => self.scopes.iter().find_map(|s| self.entries.text(&format!("{s}model_type"))),
        }
    }

    /// The class names of `architectures` (Hugging Face only); a lone string counts as a list of one.
    pub fn classes(&self) -> Vec<String> {
        let mut classes = Vec::new();
        for scope in &self.scopes {
            match self.entries.get(&format!("{scope}architectures")) {
                Some(Value::Text(text)) => classes.push(text.clone()),
                Some(list @ Value::List(_)) => {
                    let items = list.first_items(8).unwrap_or_default();
                    classes.extend(items.into_iter().filter_map(|v| match v {
                        Value::Text(text) => Some(text),
                        _ => None,
                    }));
                }
                _ => {}
            }
        }
        classes
    }

    /// The key's name as this file spells it; for messages and display.
    pub fn name_of(&self, key: &Key) -> String {
        match self.dialect {
            Dialect::Hf => {
                // An object that is there is where the file would have it.
                let stands = key.hf.iter().find(|n| self.value(n).is_some_and(|v| !matches!(v, Value::Null)));
                if let Some(name) = stands {
                    return (*name).to_owned();
                }
                let there = key.hf.iter().filter(|name| self.has_parent(name));
                // The deepest: what nests one kind of layer has no place for the key beside it.
                let placed = there.min_by_key(|name| Reverse(name.matches('.').count()));
                placed.or(key.hf.last()).copied().unwrap_or_default().to_owned()
            }
            Dialect::Gguf if key.gguf.is_empty() => String::new(),
            Dialect::Gguf => self.gguf_name(key.gguf),
        }
    }

    /// Whether the object that a dotted name leads into has any member.
    fn has_parent(&self, name: &str) -> bool {
        let Some((parent, _)) = name.rsplit_once('.') else { return false };
        self.scopes.iter().any(|scope| {
            let within = |key: &str| {
                let rest = key.strip_prefix(scope.as_str()).and_then(|rest| rest.strip_prefix(parent));
                rest.is_some_and(|rest| rest.starts_with('.'))
            };
            self.entries.entries().iter().any(|entry| within(&entry.key))
        })
    }

    fn gguf_name(&self, name: &str) -> String {
        let alone = name.starts_with("general.") || name.starts_with("tokenizer.");
        let prefix = self.scopes.first().filter(|_| !alone).map_or("", String::as_str);
        format!("{prefix}{name}")
    }

    /// The value and full name of a key, unless it is absent or null. Two places that disagree are a finding.
    fn look_up(&self, key: &Key) -> Option<(String, Value)> {
        let names: Vec<String> = match self.dialect {
            Dialect::Gguf if key.gguf.is_empty() => return None,
            Dialect::Gguf => vec![self.gguf_name(key.gguf)],
            Dialect::Hf => {
                self.scopes.iter().flat_map(|s| key.hf.iter().map(move |n| format!("{s}{n}"))).collect()
            }
        };
        for name in names.iter().filter(|_| self.dialect == Dialect::Hf) {
            self.parent_is_object(key, name);
        }
        let mut found = names.into_iter().filter_map(|name| match self.entries.get(&name) {
            None | Some(Value::Null) => None,
            Some(value) => Some((name, value.clone())),
        });
        let Some(first) = found.next() else {
            drop(found);
            self.no_object(key);
            return None;
        };
        for (name, value) in found {
            // A nested text model may well differ from the model around it; only one level is compared.
            let same_scope = name.starts_with("text_config.") == first.0.starts_with("text_config.");
            if same_scope && value.to_string() != first.1.to_string() && !same_number(&value, &first.1) {
                let message = format!("{} is {} but {name} is {value}", first.0, first.1);
                self.fault(&CONFIG_CONTRADICTION, key, &first.0, message, "keep one of the two");
            }
        }
        Some(first)
    }

    /// An object has no value of its own: where one stands in the place of a value, the key would seem absent.
    fn no_object(&self, key: &Key) {
        if self.dialect == Dialect::Gguf {
            return;
        }
        for name in self.scopes.iter().flat_map(|s| key.hf.iter().map(move |n| format!("{s}{n}."))) {
            if let Some(member) = self.entries.entries().iter().find(|e| e.key.starts_with(&name)) {
                let name = name.trim_end_matches('.');
                let message = format!("{name} must be a value, and is an object (with {})", member.key);
                self.fault(&CONFIG_BAD_VALUE, key, name, message, "correct the file");
            }
        }
    }

    /// A key inside `rope_parameters` cannot be found if that is a list or a text.
    fn parent_is_object(&self, key: &Key, name: &str) {
        let Some((parent, _)) = name.rsplit_once('.') else { return };
        if let Some(value) = self.entries.get(parent).filter(|v| !matches!(v, Value::Null)) {
            self.bad(key, parent, "an object", value);
        }
    }

    /// Whether the key stands in the file with a value other than null.
    pub fn has(&self, key: &Key) -> bool {
        self.look_up(key).is_some()
    }

    /// A whole number as it stands, without asking for it: for values that others are derived from.
    pub fn peek(&self, key: &'static Key) -> Option<usize> {
        let (name, value) = self.look_up(key)?;
        self.single(key, &name, &value).as_ref().and_then(whole)
    }

    /// A size or count of at least 1 that must be there.
    pub fn count(&self, key: &'static Key) -> Axis {
        let value = self.look_up(key).or_else(|| self.made_up(key));
        if value.is_none() {
            let name = self.name_of(key);
            self.fault(&CONFIG_MISSING_KEY, key, &name, format!("{name} is missing"), &self.remedy(&name));
        }
        self.count_from(key, value)
    }

    /// A size or count of at least 1 with a value fixed by the reference class.
    pub fn count_or(&self, key: &'static Key, default: usize) -> Axis {
        let found = self.look_up(key);
        if found.is_none() {
            self.add_fact(key, self.name_of(key), Value::Unsigned(default as u64), Origin::Default, true);
            return Axis::new(default, self.name_of(key));
        }
        self.count_from(key, found)
    }

    /// A size or count of at least 1 that follows from others when it is not said.
    pub fn count_or_derived(&self, key: &'static Key, len: Option<usize>, how: &str) -> Axis {
        let found = self.look_up(key);
        match (found, len) {
            (None, Some(len)) => {
                let origin = Origin::Derived(how.to_owned());
                self.add_fact(key, self.name_of(key), Value::Unsigned(len as u64), origin, true);
                Axis::new(len, how)
            }
            (None, None) => self.count(key),
            (found, _) => self.count_from(key, found),
        }
    }

    /// A number of at least 1 that is a setting and no size of any tensor (context length, window), if it is said.
    pub fn limit(&self, key: &'static Key) -> Option<usize> {
        let (name, value) = self.look_up(key)?;
        match whole(&value).filter(|&n| n > 0) {
            Some(n) => {
                self.add_fact(key, name, value, Origin::File, false);
                Some(n)
            }
            None => {
                self.bad(key, &name, "a whole number of at least 1", &value);
                None
            }
        }
    }

    /// A whole number of at least 0, `default` if it is not said (window lengths, layer numbers).
    pub fn whole_or(&self, key: &'static Key, default: usize) -> usize {
        match self.look_up(key) {
            None => {
                self.add_fact(
                    key,
                    self.name_of(key),
                    Value::Unsigned(default as u64),
                    Origin::Default,
                    false,
                );
                default
            }
            Some((name, value)) => match whole(&value) {
                Some(n) => {
                    self.add_fact(key, name, value, Origin::File, false);
                    n
                }
                None => {
                    self.bad(key, &name, "a whole number", &value);
                    default
                }
            },
        }
    }

    /// A number of experts on so many layers. More than `tensors` could fill are refused here, before a table of them
    /// is built, since each is a tensor of its own in the Hugging Face world.
    pub fn experts(&self, key: &'static Key, layers: usize, tensors: &TensorIndex) -> Axis {
        let experts = self.count(key);
        let most = if tensors.is_empty() { MOST_EXPERTS } else { tensors.len() };
        let tables = if self.stored == Dialect::Hf { layers.max(1) } else { 1 };
        if experts.len.checked_mul(tables).is_some_and(|n| n <= most) || experts.len <= MOST_TRUSTED {
            return experts;
        }
        let message = format!("{} is {}, more than the model could hold", self.name_of(key), experts.len);
        let advice = "the number is wrong, or most of the file is missing";
        self.fault(&CONFIG_RELATION, key, &self.name_of(key), message, advice);
        Axis::new(1, experts.why())
    }

    /// A number of layers. More than `tensors` could fill are refused here, before a table of them is built;
    /// without any tensors (a config alone), more than any model has.
    pub fn layers(&self, key: &'static Key, tensors: &TensorIndex) -> usize {
        let layers = self.few_enough(self.count(key).len);
        let most = if tensors.is_empty() { MOST_LAYERS } else { tensors.len() };
        if layers > most {
            let name = self.name_of(key);
            let message = match tensors.len() {
                0 => format!("{name} is {layers}, more than any model has"),
                n => format!("{name} is {layers}, but the file holds {n} tensors"),
            };
            let advice =
                "each layer needs at least one tensor: the number is wrong, or most of the file is missing";
            self.fault(&CONFIG_RELATION, key, &name, message, advice);
            return 1;
        }
        layers
    }

    fn count_from(&self, key: &'static Key, found: Option<(String, Value)>) -> Axis {
        let Some((name, value)) = found else { return Axis::new(1, self.name_of(key)) };
        let single = self.single(key, &name, &value);
        match single.as_ref().map(|v| (whole(v), v)) {
            Some((Some(n), _)) if n > 0 => {
                self.add_fact(key, name.clone(), Value::Unsigned(n as u64), Origin::File, true);
                Axis::new(n, name)
            }
            Some((_, v)) => {
                self.bad(key, &name, "a whole number of at least 1", v);
                Axis::new(1, name)
            }
            None => Axis::new(1, name),
        }
    }

    /// GGUF may give one value for each layer where one for all would do; they count as one if all are equal.
    fn single(&self, key: &'static Key, name: &str, value: &Value) -> Option<Value> {
        let Value::List(list) = value else { return Some(value.clone()) };
        if self.dialect == Dialect::Hf || !PER_LAYER.contains(&key.gguf) {
            self.bad(key, name, "one number", value);
            return None;
        }
        let layers = self.entries.unsigned(&self.gguf_name("block_count")).unwrap_or(0);
        if list.len() != layers || layers == 0 {
            self.bad(key, name, &format!("one number, or a list of one for each of {layers} layers"), value);
            return None;
        }
        let (mut first, mut differs) = (None, None);
        let read = list.visit(&mut |layer, item| {
            let n = whole(&item.into_value());
            match first {
                None => first = Some(n),
                Some(f) if f != n => {
                    differs = Some(layer);
                    return ControlFlow::Break(());
                }
                Some(_) => {}
            }
            ControlFlow::Continue(())
        });
        match (read, differs, first.flatten()) {
            (Ok(()), None, Some(n)) => Some(Value::Unsigned(n as u64)),
            (Ok(()), Some(layer), _) => {
                let message = format!("{name} differs between layers (first in layer {layer})");
                self.fault(
                    &CONFIG_UNSUPPORTED,
                    key,
                    name,
                    message,
                    "this family is known with one value only",
                );
                None
            }
            _ => {
                self.bad(key, name, "whole numbers", value);
                None
            }
        }
    }

    /// Refuses what a hyperparameter that stands in the file asks for.
    pub fn unsupported(&self, key: &'static Key, why: &str, advice: &str) {
        let Some((name, value)) = self.look_up(key) else { return };
        self.fault(&CONFIG_UNSUPPORTED, key, &name, format!("{name} is {value}, but {why}"), advice);
    }

    /// Demands a relation between hyperparameters; says nothing if one of them could not be had at all.
    pub fn require(&self, holds: bool, keys: &[&'static Key], message: &str) {
        let broken = keys.iter().any(|k| self.broken.borrow().contains(id(k)));
        if let (false, false, Some(first)) = (holds, broken, keys.first()) {
            let names: Vec<String> = keys.iter().map(|k| self.name_of(k)).collect();
            let advice = format!("look at {} in {}", names.join(", "), self.file);
            self.fault(&CONFIG_RELATION, first, &self.name_of(first), message.to_owned(), &advice);
        }
    }

    /// Adds what follows from a hyperparameter to its fact, for display.
    pub fn note(&self, key: &Key, text: impl Into<String>) {
        if !self.broken.borrow().is_empty() {
            return; // What follows from a placeholder is no fact.
        }
        let mut facts = self.facts.borrow_mut();
        if let Some(fact) = facts.iter_mut().rev().find(|f| f.meaning == key.meaning) {
            fact.note = Some(text.into());
        }
    }

    /// Whether what was read so far may be used; call it before building anything from the values.
    pub fn settle(&self) -> Result<()> {
        let errors: Vec<Finding> = self
            .findings
            .borrow()
            .iter()
            .filter(|f| f.severity == crate::finding::Severity::Error)
            .cloned()
            .collect();
        if errors.is_empty() { Ok(()) } else { Err(Error::Malformed { findings: errors }) }
    }

    /// Every hyperparameter asked for so far, in the order of asking.
    pub fn facts(&self) -> Vec<Fact> {
        self.facts.borrow().clone()
    }

    /// Every fault found so far.
    pub fn findings(&self) -> Vec<Finding> {
        self.findings.borrow().clone()
    }

    fn add_fact(&self, key: &'static Key, name: String, value: Value, origin: Origin, dimension: bool) {
        let guessed = matches!(origin, Origin::Derived(_)) && !self.broken.borrow().is_empty();
        if name.is_empty() || guessed {
            return; // A key that this file's world does not have, or a value that follows from a placeholder.
        }
        let (symbol, meaning) = (key.symbol, key.meaning);
        let fact = Fact { key, name, symbol, meaning, value, origin, dimension, note: None };
        let mut facts = self.facts.borrow_mut();
        if !facts.iter().any(|f| f.meaning == fact.meaning) {
            facts.push(fact);
        }
    }

    /// What to do about a missing key.
    fn remedy(&self, name: &str) -> String {
        match self.dialect {
            Dialect::Hf => format!("add {name} to {}, or hand over the right file with --config", self.file),
            Dialect::Gguf => "convert the model again, or hand over its config.json with --config".to_owned(),
        }
    }

    /// One note that names every hyperparameter that was given its default.
    pub fn defaults(&self) -> Option<Finding> {
        let facts = self.facts.borrow();
        let assumed: Vec<String> = facts
            .iter()
            .filter(|f| f.origin == Origin::Default)
            .map(|f| format!("{} = {}", f.name, f.value))
            .collect();
        let message = format!("not said, so the default of the family: {}", assumed.join(", "));
        (!assumed.is_empty()).then(|| Finding::new(&CONFIG_DEFAULT, message).file(&self.file))
    }

    fn bad(&self, key: &Key, name: &str, wanted: &str, value: &Value) {
        let message = format!("{name} must be {wanted}, and is {value}");
        self.fault(
            &CONFIG_BAD_VALUE,
            key,
            name,
            message,
            "correct the file, or hand over the right one with --config",
        );
    }

    fn fault(&self, code: &'static Code, key: &Key, name: &str, message: String, advice: &str) {
        self.broken.borrow_mut().insert(id(key));
        let mut finding = Finding::new(code, message).file(&self.file).field(name).advice(advice);
        finding.place.offset = self.entries.entry(name).and_then(|e| e.at);
        let mut findings = self.findings.borrow_mut();
        if !findings.iter().any(|f| f.code.id == code.id && f.message == finding.message) {
            findings.push(finding);
        }
    }
}

/// Keys that GGUF may give as one value or as a list of one for each layer.
const PER_LAYER: [&str; 4] =
    ["feed_forward_length", "attention.head_count", "attention.head_count_kv", "expert_feed_forward_length"];

fn id(key: &Key) -> &'static str {
    key.hf.last().copied().filter(|s| !s.is_empty()).unwrap_or(key.gguf)
}

fn whole(value: &Value) -> Option<usize> {
    match value {
        Value::Unsigned(n) => usize::try_from(*n).ok(),
        _ => None,
    }
}

fn number(value: &Value) -> Option<f64> {
    match value {
        Value::Unsigned(n) => Some(*n as f64),
        Value::Signed(n) => Some(*n as f64),
        Value::Float(x) => Some(*x),
        _ => None,
    }
}

fn same_number(a: &Value, b: &Value) -> bool {
    matches!((number(a), number(b)), (Some(a), Some(b)) if a == b)
}
