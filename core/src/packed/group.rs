//! The stored tensors that make up one weight, held against each other.

use super::{PART_MISSHAPEN, PART_MISSING, PART_TYPE, PART_VALUE};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::finding::{Code, Finding};
use crate::index::{Shape, TensorInfo};
use crate::source::WeightSource;
use std::borrow::Cow;
use std::cell::RefCell;

/// The parts of one weight. Faults are noted as they are met; [`settle`](Self::settle) tells them all.
pub(super) struct Group<'a> {
    source: &'a dyn WeightSource,
    /// What the names of all parts begin with.
    stem: &'a str,
    parts: &'a [TensorInfo],
    faults: RefCell<Vec<Finding>>,
}

/// A part that is as it should be.
#[derive(Clone)]
pub(super) struct Part<'a> {
    /// As it is stored.
    pub info: &'a TensorInfo,
    /// Its element type.
    pub dtype: DType,
    /// Its bytes, as many as its shape asks for.
    pub data: Cow<'a, [u8]>,
}

impl<'a> Group<'a> {
    /// Parts whose names begin with a stem.
    pub fn new(source: &'a dyn WeightSource, stem: &'a str, parts: &'a [TensorInfo]) -> Group<'a> {
        Group { source, stem, parts, faults: RefCell::default() }
    }

    /// The part whose name ends so.
    pub fn part(&self, end: &str) -> Option<&'a TensorInfo> {
        self.parts.iter().find(|part| part.name.strip_prefix(self.stem) == Some(end))
    }

    /// The shape of a part, no axes if it is absent.
    pub fn shape(&self, end: &str) -> &'a [usize] {
        self.part(end).map_or(&[], |part| &part.shape)
    }

    /// The sides of the matrix that a part is.
    pub fn sides(&self, end: &str) -> Option<(usize, usize)> {
        match *self.shape(end) {
            [rows, cols] => Some((rows, cols)),
            _ => None,
        }
    }

    /// Bytes of all parts.
    pub fn byte_len(&self) -> u64 {
        self.parts.iter().fold(0, |sum, part| sum.saturating_add(part.byte_len()))
    }

    /// A part of one of these types and shapes, the first of which is the usual one. `axes` says what they follow from.
    pub fn want(&self, end: &str, types: &[DType], shapes: &[&[usize]], axes: &str) -> Option<Part<'a>> {
        if self.part(end).is_none() {
            let lacks = end.trim_start_matches(['.', '_']);
            let f = Finding::new(&PART_MISSING, format!("{lacks} is missing"));
            let f = f.tensor(format!("{}{end}", self.stem));
            let expected = shapes.first().map_or(axes.to_owned(), |shape| shown(shape, axes));
            let f =
                f.versus(expected, "none").file(self.parts.first().map_or("", |codes| self.file_of(codes)));
            self.note(f.advice("fetch the model again, or the config that belongs to it"));
            return None;
        }
        self.may(end, types, shapes, axes)
    }

    /// The same for a part that need not be there.
    pub fn may(&self, end: &str, types: &[DType], shapes: &[&[usize]], axes: &str) -> Option<Part<'a>> {
        let info = self.part(end)?;
        let lacks = end.trim_start_matches(['.', '_']);
        let dtype = info.dtype.known().filter(|dtype| types.contains(dtype));
        if dtype.is_none() {
            let message = format!("{lacks} is of a type that the scheme does not have");
            let names: Vec<&str> = types.iter().map(|dtype| dtype.name()).collect();
            let f =
                self.finding(&PART_TYPE, info, message).versus(names.join(" or "), info.dtype.to_string());
            self.note(
                f.advice("the tensor was converted, or the config belongs to another version of the model"),
            );
        }
        let fits = shapes.iter().any(|shape| *shape == info.shape);
        if !fits {
            let message =
                format!("{lacks} does not have the shape that the config and the other parts imply");
            let expected = shapes.first().map_or(String::new(), |shape| shown(shape, axes));
            let f = self.finding(&PART_MISSHAPEN, info, message);
            let f = f.versus(expected, format!("{:?}", Shape(&info.shape)));
            self.note(f.advice("quantization_config is that of other weights, or the tensor was changed"));
        }
        let dtype = dtype.filter(|_| fits)?;
        match self.bytes(info, dtype) {
            Ok(data) => Some(Part { info, dtype, data }),
            Err(Error::Malformed { findings }) => {
                self.faults.borrow_mut().extend(findings);
                None
            }
            Err(other) => {
                self.note(self.finding(&super::PART_UNREADABLE, info, other.to_string()));
                None
            }
        }
    }

    fn bytes(&self, info: &'a TensorInfo, dtype: DType) -> Result<Cow<'a, [u8]>> {
        let data = self.source.bytes(info)?;
        if dtype.byte_len(&info.shape).ok() != Some(data.len() as u64) {
            let f = self.finding(
                &PART_MISSHAPEN,
                info,
                "its bytes are not as many as its shape asks for".to_owned(),
            );
            return Err(Error::malformed(f));
        }
        Ok(data)
    }

    /// The bytes of a small part of this type and shape, without a word if it is not so.
    pub fn quiet(&self, end: &str, dtype: DType, shape: &[usize]) -> Option<Cow<'a, [u8]>> {
        let info = self.part(end).filter(|info| info.dtype.known() == Some(dtype) && info.shape == shape)?;
        self.bytes(info, dtype).ok()
    }

    /// Notes that the part with the codes has not the axes of such.
    pub fn no_codes(&self, end: &str, axes: &str) {
        if let Some(info) = self.part(end) {
            let f = self.finding(&PART_MISSHAPEN, info, "the codes are no matrix".to_owned());
            self.note(f.versus(axes, format!("{:?}", Shape(&info.shape))));
        }
    }

    /// Notes that what a part says cannot be.
    pub fn wrong(&self, info: &TensorInfo, message: impl Into<String>, expected: String, found: String) {
        let f = self.finding(&PART_VALUE, info, message.into()).versus(expected, found);
        self.note(f.advice("fetch the file again, or look at how it was made"));
    }

    fn finding(&self, code: &'static Code, info: &TensorInfo, message: String) -> Finding {
        Finding::new(code, message).file(self.file_of(info)).at(info.entry_at).tensor(&info.name)
    }

    fn file_of(&self, info: &TensorInfo) -> &str {
        self.source.files().get(info.shard).map_or("", |f| f.name())
    }

    fn note(&self, finding: Finding) {
        self.faults.borrow_mut().push(finding);
    }

    /// Tells all faults that were met.
    pub fn settle(&self) -> Result<()> {
        let findings = self.faults.take();
        if findings.is_empty() { Ok(()) } else { Err(Error::Malformed { findings }) }
    }

    /// What every opening of a weight ends with where its faults were told.
    pub fn unusable<T>(&self) -> Result<T> {
        self.settle()?;
        let message = "the parts of the weight do not say what shape it has".to_owned();
        Err(Error::malformed(Finding::new(&PART_MISSHAPEN, message).tensor(self.stem)))
    }
}

/// `[2, 64] (in / group_size 32, out)`.
fn shown(shape: &[usize], axes: &str) -> String {
    if axes.is_empty() { format!("{:?}", Shape(shape)) } else { format!("{:?} ({axes})", Shape(shape)) }
}

/// Word `i` of packed codes.
pub(super) fn word(bytes: &[u8], i: usize) -> u32 {
    u32::from_le_bytes([bytes[4 * i], bytes[4 * i + 1], bytes[4 * i + 2], bytes[4 * i + 3]])
}

/// Number `i` of a part of whole numbers of 32 bits.
pub(super) fn int(bytes: &[u8], i: usize) -> i32 {
    word(bytes, i) as i32
}
