//! Which tensors of two models are the same part: by their rows of the architecture's table, so that names of both worlds
//! meet; what no table knows, by its name.

use super::compare::Side;
use super::{Class, Stored};
use crate::check::Checked;
use crate::convert::Converted;
use crate::dtype::DType;
use crate::index::{TensorInfo, role};
use crate::kernel::Kernel;
use crate::source::{Dialect, WeightSource};
use crate::table::{Absence, Conversion, Expected, TensorTable, Use};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};

/// Tensors of two models that are the same part, at least one of which is there.
pub(super) struct Matched<'s> {
    pub layer: Option<usize>,
    pub kind: String,
    /// How it is used, where a table says so.
    pub usage: Option<Use>,
    pub units: [Option<Unit<'s>>; 2],
    /// Which of the two has a tensor of its own for this part: 0 where both have, or one's stands in for another.
    pub own: usize,
    /// Why nothing tells what it is in the other model, where that is so.
    pub apart: Option<&'static str>,
}

/// A tensor of one of the two models, in the form in which it is compared.
pub(super) struct Unit<'s> {
    pub stored: Stored,
    pub dtype: Option<DType>,
    /// Where its bytes begin, where it is one tensor of its own: file and offset.
    pub place: Option<(&'s str, u64)>,
    /// Why not, in words.
    pub numbers: Result<Converted<'s>, String>,
    /// Its bytes, where nothing can be read out of them.
    unread: Option<Cow<'s, [u8]>>,
}

impl<'s> Unit<'s> {
    /// Whether both are the same bytes of the same type and shape, which nobody can read.
    pub fn is_same_stored(&self, other: &Unit<'_>) -> bool {
        let like = self.stored.dtype == other.stored.dtype && self.stored.shape == other.stored.shape;
        like && self.unread.is_some() && self.unread == other.unread
    }

    pub fn side<'t>(&self, numbers: &'t Converted<'s>) -> Side<'t, 's> {
        Side { numbers, dtype: self.dtype }
    }
}

pub(super) struct Paired<'s> {
    pub matched: Vec<Matched<'s>>,
    pub left_out: Vec<(String, &'static str)>,
    pub unwanted: usize,
}

/// A row of a table that is the same in another model's: its layer and both of its names.
type Key = (Option<usize>, &'static str, &'static str);

fn key(row: &Expected) -> Key {
    (row.layer, row.hf, row.gguf)
}

/// Pairs all tensors of two models that are wanted.
pub(super) fn pairs<'s>(
    sides: [&'s Checked; 2],
    wanted: &(dyn Fn(&str) -> bool + Sync),
    kernel: &dyn Kernel,
) -> Paired<'s> {
    let sources = sides.map(|side| side.source.as_ref());
    let own = sides.map(|side| side.architecture.as_ref().map(|a| a.tensors()));
    // Where only one side's config can be used, its table serves for both.
    let tables = [own[0].or(own[1]), own[1].or(own[0])];
    let mut pairing = Pairing {
        sources,
        kernel,
        wanted,
        seen: [HashSet::new(), HashSet::new()],
        paired: Paired { matched: Vec::new(), left_out: Vec::new(), unwanted: 0 },
    };
    if let [Some(a), Some(b)] = tables {
        if sources[0].dialect() == sources[1].dialect() {
            pairing.as_stored([a, b]);
        } else {
            pairing.across([a, b]);
        }
    }
    pairing.by_name(tables);
    pairing.twice();
    pairing.paired
}

struct Pairing<'s, 'k> {
    sources: [&'s dyn WeightSource; 2],
    kernel: &'k dyn Kernel,
    wanted: &'k (dyn Fn(&str) -> bool + Sync),
    /// Names of stored tensors of which something has become.
    seen: [HashSet<String>; 2],
    paired: Paired<'s>,
}

impl<'s> Pairing<'s, '_> {
    /// Two models of one world: tensor by tensor, as they are stored.
    fn as_stored(&mut self, tables: [&'s TensorTable; 2]) {
        let dialect = self.sources[0].dialect();
        let names = tables.map(|table| {
            let rows = table.rows().iter();
            let all = rows.flat_map(|row| {
                table.stored(row, dialect).enumerate().map(move |(i, s)| ((key(row), i), (s.name, row)))
            });
            all.collect::<Vec<_>>()
        });
        let second: HashMap<(Key, usize), &(String, &Expected)> =
            names[1].iter().map(|(key, named)| (*key, named)).collect();
        let mut met = HashSet::new();
        for (key, (name, row)) in &names[0] {
            met.insert(*key);
            let other = second.get(key).map_or(name, |(name, _)| name);
            self.one(tables, row, [name, other]);
        }
        for (_, (name, row)) in names[1].iter().filter(|(key, _)| !met.contains(key)) {
            self.one(tables, row, [name, name]);
        }
    }

    /// A tensor that has these names in the two models.
    fn one(&mut self, tables: [&'s TensorTable; 2], row: &'s Expected, names: [&String; 2]) {
        let infos = [0, 1].map(|side| self.sources[side].tensors().get(names[side]));
        for side in [0, 1] {
            if infos[side].is_some() {
                self.seen[side].insert(names[side].clone());
            }
        }
        if infos.iter().all(Option::is_none) {
            return;
        }
        if !names.iter().any(|name| (self.wanted)(name)) {
            self.paired.unwanted = self.paired.unwanted.saturating_add(1);
            return;
        }
        let own = if infos[0].is_some() || infos[1].is_none() { 0 } else { 1 };
        let units = [0, 1].map(|side| {
            let info = infos[side].or_else(|| {
                let by = self.stand_in(tables[side], row, self.sources[side].dialect())?;
                self.sources[side].tensors().get(&by)
            });
            info.map(|info| self.stored(side, info))
        });
        self.push(row, units, own);
    }

    /// Of a row that may be missing because another stands in for it, the name of that.
    fn stand_in(&self, table: &TensorTable, row: &Expected, dialect: Dialect) -> Option<String> {
        let own = table.rows().iter().find(|r| key(r) == key(row))?;
        let Absence::StandIn { by, .. } = own.absence else { return None };
        table.rows().get(by).map(|by| table.name(by, dialect))
    }

    /// Two models of different worlds: in the form of GGUF.
    fn across(&mut self, tables: [&'s TensorTable; 2]) {
        for side in [0, 1] {
            let dialect = self.sources[side].dialect();
            for row in tables[side].rows() {
                let names = tables[side].stored(row, dialect).map(|s| s.name);
                let there = names.filter(|name| self.sources[side].tensors().get(name).is_some());
                self.seen[side].extend(there.collect::<Vec<_>>());
            }
        }
        let places = tables.map(|table| {
            let rows = table.rows().iter().enumerate().filter(|(_, row)| !row.gguf.is_empty());
            rows.map(|(i, row)| (key(row), i)).collect::<HashMap<Key, usize>>()
        });
        let mut met = HashSet::new();
        for side in [0, 1] {
            for row in tables[side].rows().iter().filter(|row| !row.gguf.is_empty()) {
                if met.insert(key(row)) {
                    let at = [0, 1].map(|side| places[side].get(&key(row)).copied());
                    self.row(tables, row, at);
                }
            }
        }
    }

    /// A row that has these places in the two tables.
    fn row(&mut self, tables: [&'s TensorTable; 2], row: &'s Expected, at: [Option<usize>; 2]) {
        let names = [0, 1].map(|side| {
            at[side].and_then(|at| tables[side].rows().get(at)).map(|row| {
                let dialect = self.sources[side].dialect();
                let own = tables[side].name(row, dialect);
                // A part that only GGUF has is known by the tensor that it is cut out of.
                let whole = || {
                    at[side]
                        .and_then(|at| tables[side].part_of(at))
                        .and_then(|(whole, _, _)| tables[side].rows().get(whole))
                };
                if row.local_name(dialect).is_empty() {
                    whole().map(|w| tables[side].name(w, dialect)).unwrap_or_default()
                } else {
                    own
                }
            })
        });
        let canonical = tables[0].name(row, Dialect::Gguf);
        let wanted = names.iter().flatten().chain([&canonical]).any(|name| (self.wanted)(name));
        if !wanted {
            self.paired.unwanted = self.paired.unwanted.saturating_add(1);
            return;
        }
        let mut units = [0, 1].map(|side| self.converted(side, tables[side], at[side]?));
        if units.iter().all(Option::is_none) {
            return;
        }
        let own = if units[0].is_some() { 0 } else { 1 };
        for side in [0, 1] {
            if units[side].is_some() {
                continue;
            }
            let stand_in =
                at[side].and_then(|at| tables[side].rows().get(at)).and_then(|row| match row.absence {
                    Absence::StandIn { by, .. } => Some(by),
                    _ => None,
                });
            units[side] = stand_in.and_then(|by| self.converted(side, tables[side], by));
        }
        let helper = row.hf.is_empty() && row.usage == Use::Helper;
        if helper && units.iter().any(Option::is_none) {
            self.paired.left_out.push((canonical, "worked out from the config by the converter"));
            return;
        }
        self.push(row, units, own);
    }

    fn push(&mut self, row: &Expected, units: [Option<Unit<'s>>; 2], own: usize) {
        let named = if own == 1 { units[1].as_ref() } else { units.iter().flatten().next() };
        let kind = named.map(|u| role(&u.stored.name)).unwrap_or_default();
        let matched = Matched { layer: row.layer, kind, usage: Some(row.usage), units, own, apart: None };
        self.paired.matched.push(matched);
    }

    /// A row of a table in the form of GGUF, if its tensors are there.
    fn converted(&self, side: usize, table: &'s TensorTable, at: usize) -> Option<Unit<'s>> {
        let source = self.sources[side];
        let numbers = Converted::of(table, at, source, self.kernel);
        let row = table.rows().get(at)?;
        let held = if row.local_name(source.dialect()).is_empty() {
            table.part_of(at).and_then(|(whole, ..)| table.rows().get(whole))
        } else {
            Some(row)
        }?;
        let infos: Vec<&TensorInfo> =
            table.stored(held, source.dialect()).filter_map(|s| source.tensors().get(&s.name)).collect();
        let first = *infos.first()?;
        let numbers = match numbers {
            Ok(None) => return None,
            Ok(Some(numbers)) => Ok(numbers),
            // A tensor of another shape than its own config says can still be held against another, as it is stored.
            Err(_)
                if infos.len() == 1
                    && (source.dialect() == Dialect::Gguf || row.conversion == Conversion::None)
                    && held.gguf == row.gguf =>
            {
                Converted::stored(source, first).map_err(|e| e.to_string())
            }
            Err(error) => Err(error.to_string()),
        };
        let name = table.name(held, source.dialect());
        let bytes = infos.iter().fold(0u64, |n, info| n.saturating_add(info.byte_len()));
        let shape = if infos.len() == 1 {
            first.shape.clone()
        } else {
            [&[infos.len()], first.shape.as_slice()].concat()
        };
        let stored = Stored { name, dtype: first.dtype.to_string(), shape, bytes };
        let place = (infos.len() == 1).then(|| self.place(side, first)).flatten();
        Some(Unit { stored, dtype: first.dtype.known(), place, numbers, unread: None })
    }

    /// A tensor as it is stored.
    fn stored(&self, side: usize, info: &TensorInfo) -> Unit<'s> {
        let numbers = Converted::stored(self.sources[side], info).map_err(|e| e.to_string());
        let stored = Stored {
            name: info.name.clone(),
            dtype: info.dtype.to_string(),
            shape: info.shape.clone(),
            bytes: info.byte_len(),
        };
        let unread = numbers.is_err().then(|| self.sources[side].bytes(info).ok()).flatten();
        Unit { stored, dtype: info.dtype.known(), place: self.place(side, info), numbers, unread }
    }

    fn place(&self, side: usize, info: &TensorInfo) -> Option<(&'s str, u64)> {
        let source = self.sources[side];
        let file = source.files().get(info.shard)?;
        info.bytes.as_ref().map(|bytes| (file.name(), bytes.start))
    }

    /// Tensors whose names stand twice in a file: which of them is meant is not told.
    fn twice(&mut self) {
        for side in [0, 1] {
            let index = self.sources[side].tensors();
            let first = |t: &TensorInfo| index.get(&t.name).is_some_and(|first| std::ptr::eq(first, t));
            for info in index.tensors().iter().filter(|t| !first(t) && (self.wanted)(&t.name)) {
                let mut units = [None, None];
                units[side] = Some(self.stored(side, info));
                let apart = Some("the name stands twice in its file");
                let kind = role(&info.name);
                self.paired.matched.push(Matched { layer: None, kind, usage: None, units, own: side, apart });
            }
        }
    }

    /// What no table names: by its name, and only within one world, since in the other the same name is no promise.
    fn by_name(&mut self, tables: [Option<&'s TensorTable>; 2]) {
        let dialects = self.sources.map(|source| source.dialect());
        let rest = [0, 1].map(|side| {
            let all = self.sources[side].tensors().tensors().iter();
            all.filter(|t| !self.seen[side].contains(&t.name)).collect::<Vec<_>>()
        });
        let mut met = HashSet::new();
        for (side, infos) in rest.iter().enumerate() {
            let other = 1 - side;
            for info in infos {
                if !met.insert(info.name.clone()) {
                    continue;
                }
                if !(self.wanted)(&info.name) {
                    self.paired.unwanted = self.paired.unwanted.saturating_add(1);
                    continue;
                }
                let ignored = tables[side].is_some_and(|t| t.ignores(&info.name, dialects[side]));
                let twin = (dialects[0] == dialects[1])
                    .then(|| self.sources[other].tensors().get(&info.name))
                    .flatten();
                if ignored && twin.is_none() {
                    self.paired.left_out.push((info.name.clone(), "the architecture makes no use of it"));
                    continue;
                }
                let mut units = [None, None];
                units[side] = Some(self.stored(side, info));
                units[other] = twin.map(|twin| self.stored(other, twin));
                let layer =
                    tables[side].and_then(|t| t.layer_of(&info.name, dialects[side])).map(|(layer, _)| layer);
                self.paired.matched.push(Matched {
                    layer,
                    kind: role(&info.name),
                    usage: None,
                    units,
                    own: side,
                    apart: (dialects[0] != dialects[1])
                        .then_some("no architecture says which tensor of the other world it is"),
                });
            }
        }
    }
}

/// Whether a pair's numbers were compared and found to be others.
pub(super) fn is_other(class: Class) -> bool {
    matches!(class, Class::Beyond | Class::Different)
}
