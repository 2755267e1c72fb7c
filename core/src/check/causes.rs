//! Causes before symptoms: many differences with one reason become one finding with the rest folded under it.

use super::tables::{
    self, Differences, Misshapen, Missing, TENSOR_MISSHAPEN, TENSOR_MISSING, TENSOR_UNEXPECTED,
};
use crate::architecture::ArchitecturePlugin;
use crate::codes;
use crate::config::Config;
use crate::finding::{Finding, Findings, Part, Severity};
use crate::index::{Shape, TensorInfo};
use crate::registry::Registry;
use crate::source::WeightSource;
use crate::table::TensorTable;
use std::collections::{BTreeMap, BTreeSet, HashMap};

codes! {
    pub static FAMILY_OTHER = Error, Names, "family-other",
        "the tensors are those of another family",
        "The config names one family, but with the same hyperparameters another one fits the tensors without a fault. \
         model_type (or general.architecture) was probably set wrongly.";
    pub static CONFIG_FOREIGN = Error, Shapes, "config-foreign",
        "the config belongs to another model",
        "Several hyperparameters and tensors contradict each other at once: the config was taken from another model, or \
         the weights were. What differs is listed below it.";
    pub static NAMES_PREFIXED = Error, Names, "names-prefixed",
        "every name begins with something more, or lacks its beginning",
        "The tensors are all there under names that differ by one prefix: a bare base model was saved without \
         `model.`, or the text model of a larger one kept the name of its place in it. Readers look names up \
         exactly; rename the tensors, or open the part of the model that they belong to.";
    pub static LAYERS_MISSING = Error, Names, "layers-missing",
        "whole layers are missing",
        "The config promises more layers than the files hold. A shard may be absent, the model pruned, or the config \
         be that of a deeper model.";
    pub static LAYERS_EXTRA = Error, Names, "layers-extra",
        "there are layers that the config does not know",
        "The files hold layers beyond the number in the config. The config may be that of a shallower model, or the \
         extra layers serve another end (predicting several tokens, say) and nothing here would read them.";
    pub static HYPERPARAMETER_DENIED = Error, Shapes, "hyperparameter-denied",
        "every tensor contradicts one hyperparameter",
        "All tensors that have this length agree on another value than the config. The config is that of another \
         model, or the key was edited.";
}

/// What else the model might be.
pub(super) struct Others<'a> {
    pub registry: &'a Registry,
    pub plugin: &'static ArchitecturePlugin,
    pub config: &'a Config,
    /// Whether the family was given on the command line instead of by the config.
    pub by_hand: bool,
}

/// Turns differences into findings. `shards` are the findings made so far: where one of them says that part
/// of the set is absent, missing tensors are put down to it.
pub(super) fn explain(
    mut differences: Differences<'_, '_>,
    table: &TensorTable,
    source: &dyn WeightSource,
    others: &Others<'_>,
    shards: Vec<Finding>,
) -> Vec<Finding> {
    let mut findings = shards;
    let mut result = std::mem::take(&mut differences.others);
    let explainer = Explainer { table, source };
    // A fault of the set that names no tensor is one of whole files.
    let absent = findings
        .iter_mut()
        .find(|f| f.code.part == Part::Shards && f.severity == Severity::Error && f.place.tensor.is_none());
    if let Some(cause) = absent {
        let missing = std::mem::take(&mut differences.missing);
        cause.symptoms.extend(capped(missing.iter().map(|m| explainer.missing_one(m))));
    }
    if differences.count() > 0 {
        match explainer.other_family(&differences, others).or_else(|| explainer.prefix(&differences)) {
            Some(cause) => {
                result.push(cause.because_of_this(explainer.each(&differences)));
            }
            None => {
                let mut apart = explainer.layers(&mut differences);
                let denied = explainer.denied(&mut differences);
                let foreign = !denied.is_empty();
                apart.extend(denied);
                apart.extend(explainer.by_kind(&differences));
                // One thing wrong is that thing; a size denied and two things more are another model's config.
                if foreign && apart.len() > 2 {
                    result.push(explainer.foreign_config(apart, others));
                } else {
                    result.extend(apart);
                }
            }
        }
    }
    findings.extend(result);
    findings
}

/// `layer 2 is`, `layers 2–5 are`.
fn which_layers(layers: &[usize]) -> String {
    match layers {
        [one] => format!("layer {one} is"),
        several => format!("layers {} are", tables::ranges(several)),
    }
}

/// The first of many findings, and how many more there are; those are not even put into words.
fn capped(mut findings: impl Iterator<Item = Finding>) -> Vec<Finding> {
    let mut kept: Vec<Finding> = findings.by_ref().take(Findings::KEPT).collect();
    let more = findings.size_hint().0;
    if let (Some(last), true) = (kept.last(), more > 0) {
        let mut rest = Finding::new(last.code, format!("and {more} more like it"));
        rest.place.file = last.place.file.clone();
        kept.push(rest);
    }
    kept
}

/// Names of unexpected tensors by their layer and shape.
type Renames<'s> = HashMap<(Option<usize>, &'s [usize]), Vec<&'s str>>;

/// One difference.
enum One<'d, 't, 's> {
    Missing(&'d Missing<'t>),
    Misshapen(&'d Misshapen<'t, 's>),
    Unexpected(&'s TensorInfo),
}

fn all<'d, 't, 's>(differences: &'d Differences<'t, 's>) -> impl Iterator<Item = One<'d, 't, 's>> {
    let missing = differences.missing.iter().map(One::Missing);
    let misshapen = differences.misshapen.iter().map(One::Misshapen);
    missing.chain(misshapen).chain(differences.unexpected.iter().map(|t| One::Unexpected(t)))
}

impl One<'_, '_, '_> {
    fn name(&self) -> &str {
        match self {
            One::Missing(m) => &m.stored.name,
            One::Misshapen(m) => &m.tensor.name,
            One::Unexpected(t) => &t.name,
        }
    }

    fn rank(&self) -> u8 {
        match self {
            One::Missing(_) => 0,
            One::Misshapen(_) => 1,
            One::Unexpected(_) => 2,
        }
    }

    /// What is there: differences that agree in it are told as one.
    fn found(&self) -> String {
        match self {
            One::Missing(_) => String::new(),
            One::Misshapen(m) => format!("{:?}", Shape(&m.tensor.shape)),
            One::Unexpected(t) => format!("{} {:?}", t.dtype, Shape(&t.shape)),
        }
    }
}

struct Explainer<'a> {
    table: &'a TensorTable,
    source: &'a dyn WeightSource,
}

impl Explainer<'_> {
    /// Another family that fits the same config and tensors without a fault.
    fn other_family(&self, differences: &Differences<'_, '_>, others: &Others<'_>) -> Option<Finding> {
        if differences.unexpected.is_empty() && differences.misshapen.is_empty() {
            return None; // Tensors were lost; that a family without them exists does not make it this one.
        }
        let own = others.plugin.name;
        let mut candidates = others.registry.architectures().to_vec();
        candidates.sort_by_key(|a| !a.claims(others.config)); // What the config says itself comes first.
        let fits = candidates.into_iter().filter(|a| a.name != own).find(|other| {
            let built = other.fit(&others.config.fresh(), self.source);
            built.is_ok_and(|a| tables::compare(a.tensors(), self.source).count() == 0)
        })?;
        let message = format!("this looks like {}, not {own}", fits.name);
        let family = others.config.family().unwrap_or(own);
        let who = if others.by_hand { "--arch" } else { "the config" };
        let f = Finding::new(&FAMILY_OTHER, message).file(others.config.file());
        let f = f.versus(
            format!("the tensors of {own}, as {who} says"),
            format!("those of {} without a fault; {} differ from {own}", fits.name, differences.count()),
        );
        let advice = match (others.by_hand, fits.claims(others.config)) {
            (true, true) => format!("leave --arch out: the config says \"{family}\", which fits"),
            _ => format!("correct the family in the config, or check with --arch {}", fits.name),
        };
        Some(f.advice(advice))
    }

    /// The config of another model altogether.
    fn foreign_config(&self, apart: Vec<Finding>, others: &Others<'_>) -> Finding {
        let dialect = self.source.dialect();
        let kinds = |table: &TensorTable| -> BTreeSet<&'static str> {
            table.rows().iter().filter(|r| r.layer == Some(0)).map(|r| r.local_name(dialect)).collect()
        };
        let held: BTreeSet<&str> = self
            .source
            .tensors()
            .tensors()
            .iter()
            .filter_map(|t| self.layer_of(&t.name))
            .filter(|(layer, _)| *layer == 0)
            .map(|(_, local)| local)
            .collect();
        let alike = others.registry.architectures().iter().find(|other| {
            let built = other.fit(&others.config.fresh(), self.source);
            built.is_ok_and(|a| kinds(a.tensors()) == held)
        });
        let names = alike.map_or(String::new(), |a| format!("; the names are those of {}", a.name));
        let file = others.config.file();
        let message = format!("the config is that of another model: {} things differ{names}", apart.len());
        let f = Finding::new(&CONFIG_FOREIGN, message).file(file);
        f.advice("fetch the config that belongs to these weights").because_of_this(apart)
    }

    /// One prefix more or less on every name.
    fn prefix(&self, differences: &Differences<'_, '_>) -> Option<Finding> {
        let dialect = self.source.dialect();
        let rows = self.table.named(dialect).count();
        if differences.missing.len() < 4 || differences.missing.len().saturating_mul(2) < rows {
            return None;
        }
        let names: HashMap<&str, ()> = differences.unexpected.iter().map(|t| (t.name.as_str(), ())).collect();
        let missing: Vec<&str> = differences.missing.iter().map(|m| m.stored.name.as_str()).collect();
        let first = missing.first()?;
        let added = names.keys().filter_map(|n| n.strip_suffix(first)).find(|p| !p.is_empty());
        if let Some(prefix) = added {
            let hits = missing.iter().filter(|m| names.contains_key(format!("{prefix}{m}").as_str())).count();
            if hits == missing.len() {
                return Some(self.prefix_finding(
                    format!("every name begins with \"{prefix}\""),
                    prefix,
                    "drop it",
                ));
            }
        }
        let dropped = first.split_once('.').map(|(head, _)| format!("{head}."))?;
        let bare = |m: &&&str| m.strip_prefix(dropped.as_str()).is_some_and(|rest| names.contains_key(rest));
        let with_prefix = missing.iter().filter(|m| m.starts_with(dropped.as_str())).count();
        if with_prefix > 0 && missing.iter().filter(bare).count() == with_prefix {
            let message = format!("every name lacks \"{dropped}\" at its beginning, as in a bare base model");
            return Some(self.prefix_finding(message, &dropped, "add it"));
        }
        None
    }

    fn prefix_finding(&self, message: String, prefix: &str, what: &str) -> Finding {
        let f = Finding::new(&NAMES_PREFIXED, message);
        let place = self.source.files().first().map_or_else(String::new, |f| f.name().to_owned());
        f.file(place).advice(format!("readers look names up exactly: {what} (\"{prefix}\")"))
    }

    /// Whole layers too few or too many; takes their tensors out of the differences.
    fn layers(&self, differences: &mut Differences<'_, '_>) -> Vec<Finding> {
        let dialect = self.source.dialect();
        let mut findings = Vec::new();
        let mut wanted: BTreeMap<usize, usize> = BTreeMap::new();
        for stored in self.table.named(dialect).filter(|s| s.row.absence == crate::table::Absence::Fault) {
            if let Some(layer) = stored.row.layer {
                *wanted.entry(layer).or_insert(0) += 1;
            }
        }
        let mut absent: BTreeMap<usize, usize> = BTreeMap::new();
        for layer in differences.missing.iter().filter_map(|m| m.stored.row.layer) {
            *absent.entry(layer).or_insert(0) += 1;
        }
        let whole: BTreeSet<usize> =
            absent.iter().filter(|(layer, n)| wanted.get(layer) == Some(n)).map(|(l, _)| *l).collect();
        if !whole.is_empty() {
            let (gone, rest): (Vec<_>, Vec<_>) = differences
                .missing
                .drain(..)
                .partition(|m| m.stored.row.layer.is_some_and(|l| whole.contains(&l)));
            differences.missing = rest;
            let list: Vec<usize> = whole.into_iter().collect();
            let message = format!("{} missing ({} tensors)", which_layers(&list), gone.len());
            let f =
                Finding::new(&LAYERS_MISSING, message).tensor(gone.first().map_or("", |m| &m.stored.name));
            let held = self.table.layers().saturating_sub(list.len());
            let f = f.versus(format!("{} layers", self.table.layers()), format!("{held}"));
            let f = f.advice("fetch what is absent, or correct the number of layers in the config");
            findings.push(f.because_of_this(capped(gone.iter().map(|m| self.missing_one(m)))));
        }
        let layers = self.table.layers();
        let beyond = |t: &&TensorInfo| self.layer_of(&t.name).is_some_and(|(layer, _)| layer >= layers);
        let (extra, rest): (Vec<&TensorInfo>, Vec<&TensorInfo>) =
            differences.unexpected.drain(..).partition(beyond);
        differences.unexpected = rest;
        if !extra.is_empty() {
            let numbers: BTreeSet<usize> =
                extra.iter().filter_map(|t| Some(self.layer_of(&t.name)?.0)).collect();
            let list: Vec<usize> = numbers.into_iter().collect();
            let message = format!("{} not in the config ({} tensors)", which_layers(&list), extra.len());
            let f = Finding::new(&LAYERS_EXTRA, message).tensor(extra.first().map_or("", |t| &t.name));
            let f = f.versus(
                format!("layers 0–{}", layers.saturating_sub(1)),
                format!("up to layer {}", list.last().unwrap_or(&0)),
            );
            let f = f.advice("correct the number of layers in the config, or remove the tensors");
            findings.push(f.because_of_this(capped(extra.iter().map(|t| self.unexpected_one(t)))));
        }
        findings
    }

    /// Layer number and local name of a tensor whose name begins as the table's layers do.
    fn layer_of<'n>(&self, name: &'n str) -> Option<(usize, &'n str)> {
        self.table.layer_of(name, self.source.dialect())
    }

    /// Hyperparameters that every tensor contradicts in the same way; takes the tensors explained out.
    fn denied(&self, differences: &mut Differences<'_, '_>) -> Vec<Finding> {
        let dialect = self.source.dialect();
        // For each length and its reason: what the tensors that have it hold instead.
        let mut uses: BTreeMap<(String, usize), BTreeMap<usize, usize>> = BTreeMap::new();
        for stored in self.table.named(dialect) {
            let Some(tensor) = self.source.tensors().get(&stored.name) else { continue };
            let stored = stored.beside(tensor);
            if tensor.shape.len() != stored.shape.len() {
                continue;
            }
            for (axis, &found) in stored.shape.iter().zip(&tensor.shape) {
                let held = uses.entry((axis.why().to_owned(), axis.len)).or_default();
                *held.entry(found).or_insert(0) += 1;
            }
        }
        let mut findings = Vec::new();
        let mut explained: BTreeMap<(String, usize), usize> = BTreeMap::new();
        for ((why, len), held) in uses {
            if let (1, Some((&found, &times))) = (held.len(), held.first_key_value())
                && found != len
                && times > 1
            {
                let message =
                    format!("{why} is {len} by the config, but {found} in all {times} tensors that have it");
                let f = Finding::new(&HYPERPARAMETER_DENIED, message).field(&why);
                let f = f.versus(format!("{why} = {len}"), found.to_string());
                findings.push(f.advice("the config is that of another model, or the key was edited"));
                explained.insert((why, len), found);
            }
        }
        let due = |m: &Misshapen<'_, '_>| {
            let same_rank = m.tensor.shape.len() == m.stored.shape.len();
            same_rank
                && m.stored.shape.iter().zip(&m.tensor.shape).all(|(axis, &found)| {
                    axis.len == found || explained.get(&(axis.why().to_owned(), axis.len)) == Some(&found)
                })
        };
        let (folded, rest): (Vec<_>, Vec<_>) = differences.misshapen.drain(..).partition(due);
        differences.misshapen = rest;
        for finding in &mut findings {
            let why = finding.place.field.clone().unwrap_or_default();
            let touched = folded.iter().filter(|m| {
                m.stored
                    .shape
                    .iter()
                    .zip(&m.tensor.shape)
                    .any(|(axis, &f)| axis.len != f && axis.why() == why)
            });
            finding.symptoms = touched.take(Findings::KEPT).map(|m| self.misshapen_one(m)).collect();
        }
        findings
    }

    /// One finding for each kind of tensor and fault, layers folded.
    fn by_kind(&self, differences: &Differences<'_, '_>) -> Vec<Finding> {
        let mut groups: BTreeMap<(u8, String, String), Vec<One<'_, '_, '_>>> = BTreeMap::new();
        for one in all(differences) {
            let kind = self
                .layer_of(one.name())
                .map_or_else(|| one.name().to_owned(), |(_, local)| format!("*.{local}"));
            groups.entry((one.rank(), kind, one.found())).or_default().push(one);
        }
        let renames = self.renames(differences);
        let mut findings = Vec::new();
        for group in groups.into_values() {
            let mut each = group.iter().map(|one| self.put(one, &renames));
            let Some(mut head) = each.next() else { continue };
            if group.len() > 1 {
                let layers: BTreeSet<usize> =
                    group.iter().filter_map(|one| Some(self.layer_of(one.name())?.0)).collect();
                let layers: Vec<usize> = layers.into_iter().collect();
                let all = capped(group.iter().map(|one| self.put(one, &renames)));
                head.message =
                    format!("{}, in {} layers ({})", head.message, group.len(), tables::ranges(&layers));
                head = head.because_of_this(all);
            }
            findings.push(head);
        }
        findings
    }

    /// Every difference as a finding of its own.
    fn each(&self, differences: &Differences<'_, '_>) -> Vec<Finding> {
        let renames = self.renames(differences);
        let all: Vec<One<'_, '_, '_>> = all(differences).collect();
        capped(all.iter().map(|one| self.put(one, &renames)))
    }

    fn put(&self, one: &One<'_, '_, '_>, renames: &Renames<'_>) -> Finding {
        match one {
            One::Missing(missing) => self.missing_or_renamed(missing, renames),
            One::Misshapen(misshapen) => self.misshapen_one(misshapen),
            One::Unexpected(tensor) => self.unexpected_one(tensor),
        }
    }

    fn missing_one(&self, missing: &Missing<'_>) -> Finding {
        let f = Finding::new(&TENSOR_MISSING, "is missing").tensor(&missing.stored.name);
        let f = f.versus(tables::reasons(&missing.stored), "none");
        f.advice(missing.stored.row.hint.unwrap_or("fetch the model again or correct the config"))
    }

    /// Tensors that nothing asks for, by layer and shape.
    fn renames<'s>(&self, differences: &Differences<'_, 's>) -> Renames<'s> {
        let mut renames: Renames<'s> = HashMap::new();
        for tensor in &differences.unexpected {
            let layer = self.layer_of(&tensor.name).map(|(layer, _)| layer);
            renames.entry((layer, &tensor.shape)).or_default().push(&tensor.name);
        }
        renames
    }

    /// A tensor of the same layer and shape that nothing asks for may be the missing one under another name.
    fn missing_or_renamed(&self, missing: &Missing<'_>, renames: &Renames<'_>) -> Finding {
        let finding = self.missing_one(missing);
        let wanted = missing.stored.lens();
        match renames.get(&(missing.stored.row.layer, wanted.as_slice())).map(Vec::as_slice) {
            Some([one]) => finding.advice(format!("{one} has the same shape and no place: was it renamed?")),
            _ => finding,
        }
    }

    fn unexpected_one(&self, tensor: &TensorInfo) -> Finding {
        let f = Finding::new(&TENSOR_UNEXPECTED, "the architecture has no place for it").tensor(&tensor.name);
        let f = f.file(tables::file_of(self.source, tensor)).at(tensor.entry_at);
        let f = f.versus("no tensor of that name", format!("{} {:?}", tensor.dtype, Shape(&tensor.shape)));
        f.advice("remove or rename it, or correct the config")
    }

    fn misshapen_one(&self, misshapen: &Misshapen<'_, '_>) -> Finding {
        let Misshapen { tensor, stored } = misshapen;
        let f = Finding::new(&TENSOR_MISSHAPEN, "does not have the shape that the config implies");
        let f = f.tensor(&tensor.name).file(tables::file_of(self.source, tensor)).at(tensor.entry_at);
        let f = f.versus(tables::reasons(stored), format!("{:?}", Shape(&tensor.shape)));
        let mut turned = stored.lens();
        turned.reverse();
        let advice = if turned == tensor.shape {
            "it is stored transposed"
        } else {
            "the config is that of another model, or the tensor was changed"
        };
        f.advice(advice)
    }
}
