//! Hyperparameters of two models, held against each other by what they are, not by what the two worlds call them.

use crate::check::Checked;
use crate::codes;
use crate::config::{Bound, Fact, Origin};
use crate::decoder::{MOST_HEAD, ROPE_THETA};
use crate::finding::{Finding, Part, Severity};
use crate::metadata::{Entry, List, Metadata, Value};
use crate::quant;
use crate::rope::Rope;
use crate::source::Dialect;
use crate::table::{Expected, TensorTable};
use std::collections::hash_map::DefaultHasher;
use std::collections::{HashMap, HashSet};
use std::hash::{Hash, Hasher};
use std::ops::ControlFlow;

codes! {
    pub static FACT_CHANGED = Error, Config, "diff-fact-changed",
        "a hyperparameter has another value in the second model",
        "The two models compute differently even where their weights are the same. A converter that reads a key wrongly, \
         a config that was edited, or files that do not belong together.";
    pub static FACT_LOST = Warning, Config, "diff-fact-lost",
        "a hyperparameter of the first model is not what readers of the second take it for",
        "The second file has no place for it, or does not say it, and what its readers then assume is another value. Hand over \
         the first model's config.json with --config where the second is run.";
    pub static FACT_UNSAID = Note, Config, "diff-fact-unsaid",
        "a hyperparameter that the first model states is not stated by the second",
        "Nothing in the second file says it, so it cannot be told whether a reader gets it right. That is the rule for much of \
         a config.json in a GGUF file.";
    pub static KEYS_DIFFER = Note, Config, "diff-keys",
        "keys beside the hyperparameters differ",
        "Names, dates, versions, chat templates and vocabularies: what does not change how tokens become logits, but may change \
         what is made of them.";
    pub static FAMILIES_DIFFER = Error, Config, "diff-family",
        "the two models are of different families",
        "A family is how a model computes: the same tensors give other results in another one. Two families whose tables ask for \
         the same tensors may compute alike all the same (one world often has one name for several), which is a note.";
    pub static SIDE_BROKEN = Error, Container, "diff-broken-file",
        "a file of one of the two models is damaged",
        "Lengths and offsets of its tensors contradict each other, so that their numbers are not all there or not their own. That \
         such numbers are the same says nothing.";
    pub static SIDE_AT_FAULT = Warning, Names, "diff-side-fault",
        "one of the two models is not what its own config says",
        "Tensors that are missing, under other names or of other shapes show in a comparison as tensors of one model alone. What \
         is wrong with the model itself is told first; whether that matters to the comparison its tensors tell.";
    pub static CONFIG_AT_FAULT = Error, Config, "diff-config-fault",
        "the config of one of the two models is not right",
        "Values that could not be used, or that ask for something that no forward pass here computes, were not compared. \
         `scantling check` tells more of the model.";
    pub static FACTS_UNKNOWN = Warning, Config, "diff-facts-unknown",
        "the hyperparameters could not be compared",
        "Without a sound config and a known family on both sides nothing tells which keys matter.";
}

/// How a hyperparameter differs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FactChange {
    /// Both say it, and say different things.
    Changed,
    /// The second does not say it, and is taken for something else.
    Lost,
    /// The second does not say it.
    Unsaid,
    /// Only the second says it.
    Gained,
    /// A key beside the hyperparameters that is not the same.
    Key,
}

impl FactChange {
    /// The word shown to people and written to JSON.
    pub fn word(self) -> &'static str {
        match self {
            FactChange::Changed => "changed",
            FactChange::Lost => "lost",
            FactChange::Unsaid => "unsaid",
            FactChange::Gained => "gained",
            FactChange::Key => "key",
        }
    }
}

/// A hyperparameter that is not the same in both.
#[derive(Clone, Debug)]
pub struct FactDifference {
    /// What it is.
    pub meaning: String,
    /// Its key in each.
    pub names: [Option<String>; 2],
    /// Its value in each.
    pub values: [Option<Value>; 2],
    /// How it differs.
    pub change: FactChange,
}

/// What came of comparing all of them.
pub(super) struct Compared {
    pub facts: Vec<FactDifference>,
    pub equal: usize,
    pub findings: Vec<Finding>,
}

/// Compares the hyperparameters of two models, and the keys beside them where both use the same names.
pub(super) fn compare(sides: [&Checked; 2]) -> Compared {
    let mut compared = Compared { facts: Vec::new(), equal: 0, findings: Vec::new() };
    compared.families(sides);
    compared.faults(sides);
    let [a, b] = sides.map(|side| side.report.facts.as_slice());
    if a.is_empty() || b.is_empty() {
        let which: Vec<&str> =
            sides.iter().filter(|s| s.report.facts.is_empty()).map(|s| s.report.path.as_str()).collect();
        let message = format!("no hyperparameters are known of {}", which.join(" and "));
        // Where one side has some, it is not the files that are silent.
        let severity = if a.is_empty() && b.is_empty() { Severity::Warning } else { Severity::Error };
        compared.findings.push(Finding::new(&FACTS_UNKNOWN, message).severity(severity));
    } else {
        compared.hyperparameters(sides);
        compared.unsaid();
    }
    compared.keys(sides);
    compared
}

/// What a GGUF file divides rotary frequencies by.
const FREQUENCIES: &str = "rope_freqs.weight";

/// What it multiplies them by in long contexts.
const LONG_FACTORS: &str = "rope_factors_long.weight";

/// Whether a hyperparameter is one of rotary scaling.
fn is_scaling(fact: &Fact) -> bool {
    fact.key.gguf.starts_with("rope.scaling.")
        || fact.key.hf.iter().any(|name| name.starts_with("rope_scaling."))
}

/// What a key that is not there stands for as well.
fn is_neutral(value: &Value) -> bool {
    matches!(value, Value::Null | Value::Unsigned(0))
        || matches!(value, Value::Text(text) if text == "default")
}

/// Whether a side that gives a hyperparameter no value could have: its file says that there is none, or it is a GGUF file,
/// which has a key for all that a converter is to write.
fn could_say(side: &Checked, fact: &Fact) -> bool {
    let Some(config) = &side.config else { return false };
    let said_none = || {
        let names = fact.key.hf.iter();
        let name = |n: &&str| [(*n).to_owned(), format!("text_config.{n}")];
        names.flat_map(name).any(|name| matches!(config.entries().get(&name), Some(Value::Null)))
    };
    match config.dialect() {
        Dialect::Gguf => !fact.key.gguf.is_empty(),
        Dialect::Hf => said_none(),
    }
}

impl Compared {
    /// The families, by their plugins: a GGUF file may go by a name that several share.
    fn families(&mut self, sides: [&Checked; 2]) {
        let [Some(a), Some(b)] = sides.map(|side| side.report.model.architecture) else { return };
        if a == b {
            return;
        }
        type Row = (Option<usize>, &'static str, &'static str);
        let rows = |side: &Checked, held: bool| {
            let table = side.architecture.iter().map(|a| a.tensors());
            let rows = table.flat_map(|table| table.rows().iter().map(move |row| (table, row)));
            let dialect = side.source.dialect();
            let there = |(table, row): &(&TensorTable, &Expected)| {
                table.stored(row, dialect).any(|s| side.source.tensors().get(&s.name).is_some())
            };
            let rows = rows.filter(|row| !held || there(row));
            rows.map(|(_, row)| (row.layer, row.hf, row.gguf)).collect::<HashSet<Row>>()
        };
        let across = sides[0].source.dialect() != sides[1].source.dialect();
        // Every tensor that one has is a part of the other too.
        let alike = rows(sides[0], true).is_subset(&rows(sides[1], false))
            && rows(sides[1], true).is_subset(&rows(sides[0], false));
        let f = Finding::new(
            &FAMILIES_DIFFER,
            format!("the first model is of the family {a}, the second of {b}"),
        );
        let f = f.advice("compare a text's logits: scantling trace A --against B");
        self.findings.push(if alike && across { f.severity(Severity::Note) } else { f });
    }

    /// What is wrong with one of the two and not with the other.
    fn faults(&mut self, sides: [&Checked; 2]) {
        let of = |side: &Checked| {
            let least = |part: Part| if part == Part::Config { Severity::Warning } else { Severity::Error };
            let some = side.report.findings.iter().filter(|f| f.severity >= least(f.code.part));
            some.cloned().collect::<Vec<Finding>>()
        };
        let found = sides.map(of);
        for (which, own, others) in [("first", &found[0], &found[1]), ("second", &found[1], &found[0])] {
            let known =
                |f: &&Finding| others.iter().any(|o| o.code.id == f.code.id && o.message == f.message);
            let damage = |f: &&Finding| matches!(f.code.part, Part::Container | Part::Shards);
            let broken: Vec<Finding> = own.iter().filter(damage).cloned().collect();
            if !broken.is_empty() {
                let message = format!("the files of the {which} model are damaged");
                let f = Finding::new(&SIDE_BROKEN, message).because_of_this(broken);
                self.findings.push(f.advice("scantling check tells what to do"));
            }
            let own = own.iter().filter(|f| !damage(f) && !known(f)).cloned();
            let (config, other): (Vec<Finding>, Vec<Finding>) =
                own.partition(|f| f.code.part == Part::Config);
            if !config.is_empty() {
                let message =
                    format!("the config of the {which} model is not right, and not all of it was compared");
                self.findings.push(Finding::new(&CONFIG_AT_FAULT, message).because_of_this(config));
            }
            if !other.is_empty() {
                let message = format!("the {which} model is not what its own config says");
                let advice = other.iter().find_map(|f| f.advice.clone());
                let f = Finding::new(&SIDE_AT_FAULT, message).because_of_this(other);
                let own = "mend it first: scantling check tells all of it";
                self.findings.push(f.advice(advice.unwrap_or_else(|| own.to_owned())));
            }
        }
    }

    /// Whether the numbers by which a GGUF file's frequencies are divided are those of the other model's config; `None`
    /// where there are none, or nothing to hold them against.
    fn frequencies(&mut self, sides: [&Checked; 2]) -> Option<bool> {
        let gguf = sides.iter().position(|side| side.source.dialect() == Dialect::Gguf)?;
        let (gguf, other) = (sides.get(gguf)?, sides.get(1usize.checked_sub(gguf)?)?);
        let tensor = gguf.source.tensors().get(FREQUENCIES)?;
        let config = other.config.as_ref().filter(|config| config.dialect() == Dialect::Hf)?.fresh();
        let len = usize::try_from(tensor.elements()).ok().filter(|len| *len <= MOST_HEAD)?;
        let mut found = vec![0.0; len];
        quant::decode(tensor.dtype.known()?, &gguf.source.bytes(tensor).ok()?, &mut found).ok()?;
        let width = len.saturating_mul(2);
        let scaled = Rope::of(&config, width);
        let plain = Rope::plain(config.number_or(&ROPE_THETA, Bound::Positive, 10_000.0), width);
        let wanted = plain.frequencies.iter().zip(&scaled.frequencies).map(|(plain, scaled)| plain / scaled);
        let off = |(wanted, found): (f64, &f32)| (wanted - f64::from(*found)).abs() > 1e-5 * wanted;
        let wrong = wanted.zip(&found).position(off);
        if let Some(at) = wrong {
            let message = format!(
                "the numbers that frequencies are divided by do not follow from the config, from {at} on"
            );
            self.findings.push(Finding::new(&FACT_CHANGED, message).tensor(FREQUENCIES));
        }
        Some(wrong.is_none())
    }

    fn hyperparameters(&mut self, sides: [&Checked; 2]) {
        // Long factors are tensors of their own in a GGUF file, which then needs no key for their kind.
        let by_tensors = sides.iter().any(|side| side.source.tensors().get(LONG_FACTORS).is_some());
        let scaled_alike = self.frequencies(sides) == Some(true) || by_tensors;
        let [a, b] = sides.map(|side| side.report.facts.as_slice());
        let second: HashMap<&str, &Fact> = b.iter().map(|fact| (fact.meaning, fact)).collect();
        let first: HashSet<&str> = a.iter().map(|fact| fact.meaning).collect();
        for one in a {
            match second.get(one.meaning) {
                Some(other) if same(&one.value, &other.value) => self.equal = self.equal.saturating_add(1),
                Some(other) => {
                    let assumed = [one, other].iter().any(|fact| fact.origin == Origin::Assumed);
                    let change = if assumed { FactChange::Lost } else { FactChange::Changed };
                    self.add(Some(one), Some(other), change);
                }
                None if one.origin != Origin::File || is_neutral(&one.value) => {}
                // Sizes that one world does not name show in the shapes of its tensors.
                // A GGUF file may say by its numbers what it has no keys for.
                None if scaled_alike && is_scaling(one) => self.add(Some(one), None, FactChange::Unsaid),
                None if could_say(sides[1], one) && !one.dimension => {
                    self.add(Some(one), None, FactChange::Changed)
                }
                None => self.add(Some(one), None, FactChange::Unsaid),
            }
        }
        for other in b.iter().filter(|fact| !first.contains(fact.meaning) && fact.origin == Origin::File) {
            let said_otherwise =
                scaled_alike && is_scaling(other) || other.dimension || is_neutral(&other.value);
            let change = match could_say(sides[0], other) && !said_otherwise {
                true => FactChange::Changed,
                false => FactChange::Gained,
            };
            self.add(None, Some(other), change);
        }
    }

    fn add(&mut self, a: Option<&Fact>, b: Option<&Fact>, change: FactChange) {
        let facts = [a, b];
        let Some(named) = a.or(b) else { return };
        let difference = FactDifference {
            meaning: named.meaning.to_owned(),
            names: facts.map(|fact| fact.map(|f| f.name.clone())),
            values: facts.map(|fact| fact.map(|f| f.value.clone())),
            change,
        };
        let value = |fact: Option<&Fact>| {
            fact.map_or_else(|| "nothing".to_owned(), |f| format!("{} = {}", f.name, f.value))
        };
        let finding = match change {
            FactChange::Changed => {
                let f = Finding::new(&FACT_CHANGED, format!("{} is not the same", named.meaning));
                match (a, b) {
                    (Some(a), Some(b)) => {
                        f.advice(format!("if it is the second that is wrong: set {} to {}", b.name, a.value))
                    }
                    _ => f,
                }
            }
            FactChange::Lost => {
                let f = Finding::new(
                    &FACT_LOST,
                    format!("{} is not said by one of them, and taken for another value", named.meaning),
                );
                f.advice("run the file that is silent with --config and the other's config.json")
            }
            FactChange::Unsaid | FactChange::Gained | FactChange::Key => return self.facts.push(difference),
        };
        self.findings.push(finding.field(&named.name).versus(value(a), value(b)));
        self.facts.push(difference);
    }

    /// One note that names all that one of the two alone says.
    fn unsaid(&mut self) {
        for (change, which) in [(FactChange::Unsaid, "second"), (FactChange::Gained, "first")] {
            let alone = self.facts.iter().filter(|fact| fact.change == change);
            let said: Vec<String> = alone
                .filter_map(|fact| {
                    let name = fact.names.iter().flatten().next()?;
                    let value = fact.values.iter().flatten().next()?;
                    Some(format!("{name} = {value}"))
                })
                .collect();
            if !said.is_empty() {
                let message = format!("not said by the {which} model: {}", said.join(", "));
                self.findings.push(Finding::new(&FACT_UNSAID, message));
            }
        }
    }

    /// All keys of two files of one world, those left out that were compared as hyperparameters.
    fn keys(&mut self, sides: [&Checked; 2]) {
        let known: HashSet<&str> =
            sides.iter().flat_map(|side| side.report.facts.iter().map(|fact| fact.name.as_str())).collect();
        let [Some(a), Some(b)] = sides.map(|side| side.config.as_ref()) else { return };
        if a.dialect() != b.dialect() {
            return;
        }
        let entries = [a.entries(), b.entries()];
        let before = self.facts.len();
        for entry in entries[0].entries().iter().filter(|e| !known.contains(e.key.as_str())) {
            let other = entries[1].get(&entry.key);
            if !other.is_some_and(|other| same(&entry.value, other)) {
                self.key(&entry.key, Some(&entry.value), other);
            }
        }
        let new = |entry: &&Entry| {
            !known.contains(entry.key.as_str()) && Metadata::get(entries[0], &entry.key).is_none()
        };
        for entry in entries[1].entries().iter().filter(new) {
            self.key(&entry.key, None, Some(&entry.value));
        }
        let names: Vec<&str> = self
            .facts
            .iter()
            .skip(before)
            .filter_map(|f| f.names.iter().flatten().next())
            .map(String::as_str)
            .collect();
        if !names.is_empty() {
            const SHOWN: usize = 6;
            let more = names.len().saturating_sub(SHOWN);
            let shown: Vec<&str> = names.iter().take(SHOWN).copied().collect();
            let rest = if more > 0 { format!(" and {more} more") } else { String::new() };
            let differ = if names.len() == 1 { "key differs" } else { "keys differ" };
            let shown = shown.join(", ");
            let message = format!("beside the hyperparameters {} {differ}: {shown}{rest}", names.len());
            let worth = names.iter().any(|name| name.starts_with("tokenizer.ggml."));
            let severity = if worth { Severity::Warning } else { Severity::Note };
            self.findings.push(Finding::new(&KEYS_DIFFER, message).severity(severity));
        }
    }

    fn key(&mut self, name: &str, a: Option<&Value>, b: Option<&Value>) {
        let values = [a, b];
        self.facts.push(FactDifference {
            meaning: name.to_owned(),
            names: values.map(|value| value.map(|_| name.to_owned())),
            values: values.map(|value| value.cloned()),
            change: FactChange::Key,
        });
    }
}

/// Whether two values are the same as far as f32 can tell, which is how GGUF stores numbers with fractions.
pub(super) fn same(a: &Value, b: &Value) -> bool {
    if let (Some(a), Some(b)) = (number(a), number(b)) {
        return a == b || a as f32 == b as f32 || a.is_nan() && b.is_nan();
    }
    match (a, b) {
        (Value::Null, Value::Null) => true,
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Bytes(a), Value::Bytes(b)) => a == b,
        (Value::List(a), Value::List(b)) => a.len() == b.len() && items(a.as_ref()) == items(b.as_ref()),
        // Texts too long to be read along: nothing says that they are equal.
        _ => false,
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

/// A number for all that a list holds: lists may be as long as a vocabulary, and are not kept. `None` where one could not
/// be read.
fn items(list: &dyn List) -> Option<u64> {
    let mut hasher = DefaultHasher::new();
    let mut see = |_: u64, item: crate::metadata::Item<'_>| {
        match item.into_value() {
            Value::List(inner) => items(inner.as_ref()).hash(&mut hasher),
            value => match number(&value) {
                Some(x) => (x as f32).to_bits().hash(&mut hasher),
                None => format!("{value:?}").hash(&mut hasher),
            },
        }
        ControlFlow::Continue(())
    };
    list.visit(&mut see).ok()?;
    Some(hasher.finish())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::metadata::Items;
    use std::sync::Arc;

    fn list(values: Vec<Value>) -> Value {
        Value::List(Arc::new(Items { kind: "", values }))
    }

    #[test]
    fn values_are_the_same_as_far_as_both_files_can_say() {
        assert!(same(&Value::Float(1e-6), &Value::Float(f64::from(1e-6f32))));
        assert!(same(&Value::Unsigned(1_000_000), &Value::Float(1e6)));
        assert!(!same(&Value::Float(1e-6), &Value::Float(1e-5)));
        assert!(!same(&Value::Text("a".into()), &Value::Text("b".into())));
        assert!(!same(&Value::Bool(true), &Value::Unsigned(1)));
        let (one, other) = (|x: f64| list(vec![Value::Float(x), Value::Text("t".into())]), 1.5);
        assert!(same(&one(other), &one(1.5)) && !same(&one(other), &one(1.25)));
        assert!(!same(&list(vec![Value::Null]), &list(vec![])));
    }
}
