//! The tensors of a model without their numbers: enough to bind them, and to go through a pass that computes nothing.

use super::rehearsal::sane;
use super::storing::Storing;
use crate::bundle::File;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::finding::Finding;
use crate::index::{ElementType, TensorIndex, TensorInfo};
use crate::metadata::Metadata;
use crate::packed::Packed;
use crate::paging;
use crate::source::{Dialect, WeightSource};
use crate::table::{Absence, Stored, TensorTable, Use};
use memmap2::Mmap;
use std::borrow::Cow;
use std::sync::Arc;

/// A source whose tensors are all zeros that take no memory.
pub(super) struct Outline<'s> {
    tensors: Tensors<'s>,
    dialect: Dialect,
    zeros: Mmap,
    metadata: Metadata,
}

/// Those of a source, or some that were made up.
enum Tensors<'s> {
    Of(&'s TensorIndex),
    Made(TensorIndex),
}

impl<'s> Outline<'s> {
    /// Of a source that is there.
    pub(super) fn of(source: &'s dyn WeightSource) -> Result<Outline<'s>> {
        Outline::new(Tensors::Of(source.tensors()), source.dialect())
    }

    /// Of a table whose tensors would be stored in this way; those that may be missing are.
    pub(super) fn made(table: &TensorTable, storing: Storing) -> Result<Outline<'s>> {
        let index = TensorIndex::of(listed(table, storing));
        sane(table, storing.dialect(), &index)?;
        Outline::new(Tensors::Made(index), storing.dialect())
    }

    fn new(tensors: Tensors<'s>, dialect: Dialect) -> Result<Outline<'s>> {
        let longest = tensors.get().tensors().iter().map(TensorInfo::byte_len).max().unwrap_or(0);
        let too_long = |_| Error::Usage(format!("a tensor of {longest} bytes has no place in memory"));
        let zeros = paging::nothing(usize::try_from(longest).map_err(too_long)?)?;
        Ok(Outline { tensors, dialect, zeros, metadata: Metadata::default() })
    }
}

impl Tensors<'_> {
    fn get(&self) -> &TensorIndex {
        match self {
            Tensors::Of(index) => index,
            Tensors::Made(index) => index,
        }
    }
}

/// The tensors that a table must have, as they would be stored.
pub(super) fn listed(table: &TensorTable, storing: Storing) -> Vec<TensorInfo> {
    let needed = table.named(storing.dialect());
    let needed = needed.filter(|s| s.row.absence == Absence::Fault && s.row.usage != Use::Helper);
    let choice = storing.choice(table);
    let info = |stored: Stored<'_>| {
        let shape = stored.lens();
        let dtype = choice.dtype(stored.row, shape.last().copied().unwrap_or(1));
        let bytes = dtype.byte_len(&shape).unwrap_or(u64::MAX);
        TensorInfo {
            name: stored.name,
            dtype: ElementType::Known(dtype),
            shape,
            shard: 0,
            bytes: Some(0..bytes),
            entry_at: 0,
            parts: Vec::new(),
        }
    };
    needed.map(info).collect()
}

impl WeightSource for Outline<'_> {
    fn format(&self) -> String {
        "an outline".to_owned()
    }

    fn dialect(&self) -> Dialect {
        self.dialect
    }

    fn files(&self) -> &[Arc<File>] {
        &[]
    }

    fn tensors(&self) -> &TensorIndex {
        self.tensors.get()
    }

    fn bytes(&self, tensor: &TensorInfo) -> Result<Cow<'_, [u8]>> {
        let len = usize::try_from(tensor.byte_len()).ok();
        let zeros = len.and_then(|len| self.zeros.get(..len));
        zeros.map(Cow::Borrowed).ok_or_else(|| Error::Usage(format!("{} is too long", tensor.name)))
    }

    fn packed(&self, tensor: &TensorInfo) -> Result<Option<Box<dyn Packed + '_>>> {
        let [before @ .., cols] = tensor.shape.as_slice() else { return Ok(None) };
        let rows = before.iter().fold(1usize, |rows, len| rows.saturating_mul(*len));
        let blank = Blank { rows, cols: *cols, bytes: tensor.byte_len() };
        Ok(tensor.is_packed().then(|| Box::new(blank) as Box<dyn Packed>))
    }

    fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    fn config(&self) -> Result<Option<Config>> {
        Ok(None)
    }

    fn findings(&self) -> &[Finding] {
        &[]
    }

    fn beside(&self, _: &str) -> Result<Option<File>> {
        Ok(None)
    }
}

/// A packed matrix of which nothing is looked at.
struct Blank {
    rows: usize,
    cols: usize,
    bytes: u64,
}

impl Packed for Blank {
    fn rows(&self) -> usize {
        self.rows
    }

    fn cols(&self) -> usize {
        self.cols
    }

    fn bytes(&self) -> u64 {
        self.bytes
    }

    fn quantisation_error(&self) -> f64 {
        0.0
    }

    fn widen(&self, _: usize, _: &mut [f32]) {}
}
