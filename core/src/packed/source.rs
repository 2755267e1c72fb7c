//! A source whose packed weights are listed as the tensors that they are.

use super::group::Group;
use super::said::Said;
use super::scheme::{self, Layout, Scheme};
use super::{LEFT_ALONE, Packed, STORED_TWICE};
use crate::bundle::File;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::finding::{Finding, Findings};
use crate::index::{ElementType, TensorIndex, TensorInfo};
use crate::metadata::Metadata;
use crate::source::{Dialect, WeightSource};
use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// A source around another.
struct Unpacked {
    inner: Box<dyn WeightSource>,
    scheme: Box<dyn Scheme>,
    /// The tensors of the other, those that make up a weight replaced by it.
    index: TensorIndex,
    findings: Vec<Finding>,
}

/// The same source, its packed weights listed as the tensors that they are; untouched where its config names no scheme
/// that is read here, or nothing in it is packed.
pub fn unpack(source: Box<dyn WeightSource>) -> Box<dyn WeightSource> {
    if source.dialect() != Dialect::Hf {
        return source;
    }
    let Some(said) = source.config().ok().flatten().and_then(Said::of) else { return source };
    let Some(scheme) = scheme::of(&said) else { return source };
    let mut findings = Findings::new();
    let tensors = logical(source.as_ref(), scheme.as_ref(), &said, &mut findings);
    if !tensors.iter().any(TensorInfo::is_packed) {
        return source;
    }
    let findings = [source.findings().to_vec(), findings.into_vec()].concat();
    Box::new(Unpacked { inner: source, scheme, index: TensorIndex::of(tensors), findings })
}

/// All tensors in file order, those that make up a weight gathered where the one with the codes stands.
fn logical(
    source: &dyn WeightSource,
    scheme: &dyn Scheme,
    said: &Said,
    findings: &mut Findings,
) -> Vec<TensorInfo> {
    let index = source.tensors();
    let mut gathered: HashMap<&str, (&Layout, Vec<TensorInfo>)> = HashMap::new();
    let mut used: HashSet<&str> = HashSet::new();
    for tensor in index.tensors() {
        if let Some((layout, parts)) = parts_of(index, scheme, tensor) {
            used.extend(parts.iter().map(|part| part.name.as_str()));
            gathered.insert(&tensor.name, (layout, parts.into_iter().cloned().collect()));
        }
    }
    let left_alone = said.left_alone();
    let mut tensors = Vec::with_capacity(index.len());
    for tensor in index.tensors() {
        let Some((layout, parts)) = gathered.remove(tensor.name.as_str()) else {
            if !used.contains(tensor.name.as_str()) {
                tensors.push(tensor.clone());
            }
            continue;
        };
        let Some(stem) = tensor.name.strip_suffix(layout.codes) else { continue };
        let name = format!("{stem}{}", layout.name);
        if index.get(&name).is_some_and(|plain| !used.contains(plain.name.as_str())) {
            let f = Finding::new(&STORED_TWICE, format!("is stored itself and as {}", tensor.name));
            let file = source.files().get(tensor.shard).map_or("", |f| f.name());
            findings.push(f.tensor(&name).file(file).at(tensor.entry_at));
        }
        if let Some(listed) = listed(stem, &left_alone) {
            let f = Finding::new(&LEFT_ALONE, format!("is packed, but the config leaves \"{listed}\" alone"));
            findings.push(f.tensor(&name).file(said.file()).field("quantization_config"));
        }
        let (shape, words) = scheme.look(&Group::new(source, stem, &parts));
        let dtype = ElementType::Packed(words);
        let (shard, entry_at) = (tensor.shard, tensor.entry_at);
        tensors.push(TensorInfo { name, dtype, shape, shard, bytes: None, entry_at, parts });
    }
    tensors
}

/// The stored tensors of the weight whose codes a tensor holds, and how they are named; `None` if it holds none.
fn parts_of<'i>(
    index: &'i TensorIndex,
    scheme: &dyn Scheme,
    codes: &'i TensorInfo,
) -> Option<(&'static Layout, Vec<&'i TensorInfo>)> {
    let part = |layout: &'static Layout| {
        let stem = codes.name.strip_suffix(layout.codes)?;
        let others = layout.others.iter().filter_map(|end| index.get(&format!("{stem}{end}")));
        let parts: Vec<&TensorInfo> = std::iter::once(codes).chain(others).collect();
        let telling = |types: &[_]| codes.dtype.known().is_some_and(|dtype| types.contains(&dtype));
        let packed = parts.len() > 1 || layout.types.is_none_or(telling);
        packed.then_some((layout, parts))
    };
    scheme.layouts().iter().find_map(part)
}

/// The name by which a list has a module, or one that it is within; names in lists may leave away what comes before.
fn listed<'m>(module: &'m str, names: &HashSet<String>) -> Option<&'m str> {
    const DEEPEST: usize = 32;
    let dots: Vec<usize> = module.match_indices('.').map(|(at, _)| at).take(DEEPEST).collect();
    let starts = || std::iter::once(0).chain(dots.iter().map(|at| at + 1));
    let ends = || dots.iter().copied().chain([module.len()]);
    let mut parts = starts().flat_map(|start| ends().filter_map(move |end| module.get(start..end)));
    parts.find(|part| names.contains(*part))
}

impl Unpacked {
    /// The weight as it is listed here.
    fn own(&self, name: &str) -> Option<&TensorInfo> {
        let first = self.index.get(name).filter(|own| own.is_packed());
        first.or_else(|| self.index.tensors().iter().find(|own| own.is_packed() && own.name == name))
    }
}

impl WeightSource for Unpacked {
    fn format(&self) -> String {
        self.inner.format()
    }

    fn dialect(&self) -> Dialect {
        self.inner.dialect()
    }

    fn files(&self) -> &[Arc<File>] {
        self.inner.files()
    }

    fn tensors(&self) -> &TensorIndex {
        &self.index
    }

    fn bytes(&self, tensor: &TensorInfo) -> Result<Cow<'_, [u8]>> {
        if tensor.is_packed() {
            let what =
                format!("{} is made of several stored tensors and has no bytes of its own", tensor.name);
            return Err(Error::Usage(what));
        }
        self.inner.bytes(tensor)
    }

    fn is_big_endian(&self, tensor: &TensorInfo) -> bool {
        self.inner.is_big_endian(tensor)
    }

    fn packed(&self, tensor: &TensorInfo) -> Result<Option<Box<dyn Packed + '_>>> {
        let Some(own) = Some(tensor).filter(|t| t.is_packed()).and_then(|t| self.own(&t.name)) else {
            return self.inner.packed(tensor);
        };
        let stem = own.parts.first().and_then(|codes| {
            let mut ends = self.scheme.layouts().iter().map(|layout| layout.codes);
            ends.find_map(|end| codes.name.strip_suffix(end))
        });
        let group = Group::new(self.inner.as_ref(), stem.unwrap_or(&own.name), &own.parts);
        let opened = self.scheme.open(&group)?;
        group.settle()?;
        Ok(Some(opened))
    }

    fn metadata(&self) -> &Metadata {
        self.inner.metadata()
    }

    fn config(&self) -> Result<Option<Config>> {
        self.inner.config()
    }

    fn findings(&self) -> &[Finding] {
        &self.findings
    }

    fn beside(&self, name: &str) -> Result<Option<File>> {
        self.inner.beside(name)
    }

    fn facts(&self) -> Vec<(&'static str, String)> {
        let packed = self.index.tensors().iter().filter(|t| t.is_packed());
        let (weights, parts) = packed.fold((0usize, 0usize), |(n, m), t| (n + 1, m + t.parts.len()));
        let mut facts = self.inner.facts();
        facts.push(("packed weights", format!("{weights}, made of {parts} stored tensors")));
        facts
    }
}
