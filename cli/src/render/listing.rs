//! Which tensors are listed one by one, and in what order.

use super::natural;
use crate::args::SortKey;
use globset::{GlobBuilder, GlobSet, GlobSetBuilder};
use scantling_core::error::Error;
use scantling_core::index::TensorInfo;

/// Which tensors are meant, by their names.
pub struct Names {
    include: Option<GlobSet>,
    exclude: Option<GlobSet>,
}

impl Names {
    /// From patterns as they were given; one that is none is a usage error.
    pub fn new(include: &[String], exclude: &[String]) -> Result<Names, Error> {
        Ok(Names { include: globs(include)?, exclude: globs(exclude)? })
    }

    /// Whether a tensor of this name is meant.
    pub fn wants(&self, name: &str) -> bool {
        self.wants_any(&[name])
    }

    /// Whether a tensor of several names is meant: by any of them, and left out by none.
    pub fn wants_any(&self, names: &[&str]) -> bool {
        let matched = |globs: &GlobSet| names.iter().any(|name| globs.is_match(name));
        self.include.as_ref().is_none_or(matched) && !self.exclude.as_ref().is_some_and(matched)
    }
}

/// Which tensors are listed, and in what order.
pub struct Listing {
    sort: SortKey,
    names: Names,
}

impl Listing {
    /// From patterns as they were given; one that is none is a usage error.
    pub fn new(sort: SortKey, include: &[String], exclude: &[String]) -> Result<Listing, Error> {
        Ok(Listing { sort, names: Names::new(include, exclude)? })
    }

    /// Whether a tensor of this name is shown.
    pub fn shows(&self, name: &str) -> bool {
        self.names.wants(name)
    }

    /// The tensors that are shown, in order.
    pub fn of<'s>(&self, tensors: &'s [TensorInfo]) -> Vec<&'s TensorInfo> {
        let mut shown: Vec<&TensorInfo> = tensors.iter().filter(|t| self.names.wants(&t.name)).collect();
        let by_name = |a: &&TensorInfo, b: &&TensorInfo| natural::compare(&a.name, &b.name);
        match self.sort {
            SortKey::Name => shown.sort_by(by_name),
            SortKey::Size => {
                shown.sort_by(|a, b| b.byte_len().cmp(&a.byte_len()).then_with(|| by_name(a, b)))
            }
            SortKey::Dtype => {
                shown.sort_by(by_name);
                shown.sort_by_cached_key(|t| t.dtype.to_string());
            }
            SortKey::File => {
                let place = |t: &TensorInfo| (t.shard, t.bytes.as_ref().map_or(u64::MAX, |r| r.start));
                shown.sort_by_key(|t| place(t));
            }
        }
        shown
    }
}

fn globs(patterns: &[String]) -> Result<Option<GlobSet>, Error> {
    if patterns.is_empty() {
        return Ok(None);
    }
    let usage = |e: globset::Error| Error::Usage(format!("{e}"));
    let mut set = GlobSetBuilder::new();
    for pattern in patterns {
        set.add(GlobBuilder::new(pattern).literal_separator(false).build().map_err(usage)?);
    }
    set.build().map(Some).map_err(usage)
}
