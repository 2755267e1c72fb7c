//! A text model that is a part of a larger one: the names that its tensors have there, so that it is checked and run
//! where it lies.

use crate::architecture::{Architecture, Decoder};
use crate::index::TensorIndex;
use crate::names::part;
use crate::source::Dialect;
use crate::table::TensorTable;
use std::collections::{BTreeMap, BTreeSet};

/// Stacks of layers that are held against the table by shape too.
const TRIED: usize = 8;

/// An architecture whose tensors have other names than its own.
struct Placed {
    architecture: Box<dyn Architecture>,
    tensors: TensorTable,
}

impl Architecture for Placed {
    fn tensors(&self) -> &TensorTable {
        &self.tensors
    }

    fn decoder(&self) -> Result<&dyn Decoder, String> {
        self.architecture.decoder()
    }
}

/// The same architecture, its tensors under the names that they have among these; as it is if none are like its own.
pub(crate) fn place(architecture: Box<dyn Architecture>, tensors: &TensorIndex) -> Box<dyn Architecture> {
    match find(architecture.tensors(), tensors) {
        Some(tensors) => Box::new(Placed { architecture, tensors }),
        None => architecture,
    }
}

fn find(table: &TensorTable, tensors: &TensorIndex) -> Option<TensorTable> {
    let prefix = table.layer_prefix(Dialect::Hf).into_owned();
    let (root, tail) = prefix.split_once('.')?;
    let mut tried = stacks(table, tail, tensors).into_iter().map(|stack| {
        let place = Place { root, base: stack.strip_suffix(tail).unwrap_or_default().trim_end_matches('.') };
        let placed = place.table(table, tensors);
        (fitting(&placed, tensors), placed)
    });
    let first = tried.next()?;
    let (_, best) = tried.fold(first, |best, next| if next.0 > best.0 { next } else { best });
    Some(best)
}

/// What the names of layers begin with whose tensors are called as the table's are: those with most kinds of them, if
/// that is half of all.
fn stacks<'n>(table: &TensorTable, tail: &str, tensors: &'n TensorIndex) -> Vec<&'n str> {
    let layers = table.rows().iter().filter(|row| row.layer.is_some());
    let kinds: BTreeSet<&str> = layers.map(|row| row.hf).filter(|hf| !hf.is_empty()).collect();
    let mut found: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for tensor in tensors.tensors() {
        let Some(parted) = part(&tensor.name) else { continue };
        let ends =
            parted.prefix.strip_suffix(tail).is_some_and(|base| base.is_empty() || base.ends_with('.'));
        if let (true, Some(kind)) = (ends, kinds.get(parted.local.as_str())) {
            found.entry(parted.prefix).or_default().insert(kind);
        }
    }
    let most = found.values().map(BTreeSet::len).max().unwrap_or(0);
    if most.saturating_mul(2) < kinds.len() {
        return Vec::new();
    }
    found.into_iter().filter(|(_, kinds)| kinds.len() == most).map(|(prefix, _)| prefix).take(TRIED).collect()
}

/// Tensors of a table that are there in their shapes.
fn fitting(table: &TensorTable, tensors: &TensorIndex) -> usize {
    let fits = |stored: &crate::table::Stored<'_>| {
        tensors.get(&stored.name).is_some_and(|tensor| stored.fits(&tensor.shape, Dialect::Hf))
    };
    table.named(Dialect::Hf).filter(fits).count()
}

/// Where a text model lies.
struct Place<'a> {
    /// What its names begin with on its own: `model`.
    root: &'a str,
    /// What they begin with here: `language_model.model`.
    base: &'a str,
}

impl Place<'_> {
    fn table(&self, table: &TensorTable, tensors: &TensorIndex) -> TensorTable {
        let own = format!("{}.", self.root);
        let before = |name: &str| if name.is_empty() { String::new() } else { format!("{name}.") };
        let mut within = vec![before(if self.base == self.root { self.base } else { self.outer() })];
        let mut renamed = Vec::new();
        let beside = table.rows().iter().filter(|row| row.layer.is_none() && !row.hf.is_empty());
        for row in beside.filter(|row| !row.hf.starts_with(&own)) {
            let held = |outer: &&str| tensors.get(&format!("{}{}", before(outer), row.hf)).is_some();
            let outer = self.ancestors().find(held).unwrap_or_else(|| self.usual());
            let name = format!("{}{}", before(outer), row.hf);
            within.push(name.rsplit_once('.').map_or_else(|| name.clone(), |(stem, _)| format!("{stem}.")));
            renamed.push((row.hf.to_owned(), name));
        }
        renamed.push((own, before(self.base)));
        let mut placed = table.clone();
        placed.place_hf(renamed, within);
        placed
    }

    /// The base without the model's own root at its end: what holds the head too.
    fn outer(&self) -> &str {
        let cut = self.base.strip_suffix(self.root).and_then(|outer| outer.strip_suffix('.'));
        cut.unwrap_or(self.base)
    }

    /// Where tensors beside the root are taken to be if they are nowhere.
    fn usual(&self) -> &str {
        if self.outer() == self.base { "" } else { self.outer() }
    }

    /// The base, and all that it lies in.
    fn ancestors(&self) -> impl Iterator<Item = &str> {
        std::iter::successors(Some(self.base), |name| holder(name))
    }
}

/// What a name lies in; nothing holds the empty name.
fn holder(name: &str) -> Option<&str> {
    (!name.is_empty()).then(|| name.rsplit_once('.').map_or("", |(outer, _)| outer))
}
