//! `show`: the numbers of a tensor, where they lie, and how blocks hold them.

use super::written;
use crate::args::ShowArgs;
use crate::output::{self, NewFile};
use crate::render::{json, text};
use crate::runner;
use crate::terminal::Screen;
use scantling_core::check::{self, Request, Silent};
use scantling_core::dtype::{Class, DType};
use scantling_core::error::{Error, Result};
use scantling_core::finding::Part;
use scantling_core::npy;
use scantling_core::registry::Registry;
use scantling_core::show::{Block, Meant, Values, View, find, unravel};
use std::path::{Path, PathBuf};

/// What of a tensor is shown.
pub enum Shown<'a> {
    /// Its numbers; all of them if `full`.
    Numbers {
        /// Whether none is left out.
        full: bool,
    },
    /// Its bytes.
    Bytes {
        /// Whether none is left out.
        full: bool,
    },
    /// One of its blocks.
    Block(Block<'a>),
    /// Nothing: what was asked for is in files.
    Nothing,
}

/// A file that was written.
pub struct Wrote<'a> {
    /// Where.
    pub path: &'a Path,
    /// What is in it.
    pub what: String,
}

pub(super) fn run(registry: &Registry, args: &ShowArgs, screen: &mut Screen<'_>) -> Result<u8> {
    let request = Request {
        parts: vec![Part::Config],
        architecture: args.arch.clone(),
        config: args.config.clone(),
        identity: false,
        must_check: false,
    };
    let checked = check::run(registry, &args.model, &request, &Silent)?;
    let source = checked.source.as_ref();
    let table = checked.architecture.as_ref().map(|architecture| architecture.tensors());
    // Numbers and bytes of one name may be of two tensors: of a matrix, and of one that it is made of.
    let by_bytes = args.hex || args.block.is_some() || args.raw.is_some();
    let by_numbers = args.npy.is_some() || args.full && !args.hex || !by_bytes;
    let found = |meant, wanted: bool| wanted.then(|| find(source, table, &args.tensor, meant)).transpose();
    let (numbers, bytes) = (found(Meant::Numbers, by_numbers)?, found(Meant::Bytes, by_bytes)?);
    let view = |found: &Option<_>| found.as_ref().map(|found| View::of(source, found)).transpose();
    let (of_numbers, of_bytes) = (view(&numbers)?, view(&bytes)?);
    if let Some(view) = &of_bytes {
        // Nothing is written or shown where there are none.
        view.stored()?;
    }
    if let (Some(raw), Some(npy)) = (&args.raw, &args.npy)
        && output::is_one(raw, npy)
    {
        let raw = raw.display();
        return Err(Error::Usage(format!(
            "{raw}: --raw and --npy would write to one file; name another for one"
        )));
    }
    let mut inputs = runner::files_of(source);
    inputs.push(args.model.clone());
    inputs.extend(args.config.clone());
    let mut wrote = Vec::new();
    if let (Some(path), Some(view)) = (&args.raw, &of_bytes) {
        wrote.push(Wrote { path, what: write_raw(view, path, &inputs)? });
    }
    if let (Some(path), Some(view)) = (&args.npy, &of_numbers) {
        wrote.push(Wrote { path, what: write_npy(view, path, &inputs)? });
    }
    // What is shown is what was asked for to be seen; of what is only written, the numbers come first.
    let (numbers, bytes) = (numbers.as_ref().zip(of_numbers.as_ref()), bytes.as_ref().zip(of_bytes.as_ref()));
    let first = if args.hex || args.block.is_some() { bytes.or(numbers) } else { numbers.or(bytes) };
    let Some((found, view)) = first else { return Ok(0) };
    let shown = match args.block {
        Some(place) => Shown::Block(view.block(place.row, place.number)?),
        None if args.hex => Shown::Bytes { full: args.full },
        None if !wrote.is_empty() && !args.full => Shown::Nothing,
        None => Shown::Numbers { full: args.full },
    };
    decodable(view, &shown)?;
    match args.list.wants_json() {
        true => json::show::shown(screen, &args.model, &args.tensor, found, view, &shown, &wrote)?,
        false => written(text::show::shown(screen, found, view, &shown, &wrote)?)?,
    }
    Ok(0)
}

/// Refuses to show numbers of a type that has none.
fn decodable(view: &View<'_>, shown: &Shown<'_>) -> Result<()> {
    if view.is_decodable() || !matches!(shown, Shown::Numbers { .. }) {
        return Ok(());
    }
    let (name, dtype) = (&view.tensor().name, &view.tensor().dtype);
    Err(Error::Usage(format!(
        "{name}: nothing says how the bits of {dtype} are packed; --hex shows the bytes"
    )))
}

fn write_raw(view: &View<'_>, path: &Path, inputs: &[PathBuf]) -> Result<String> {
    let data = view.stored()?;
    // What cannot be written is told before a file is begun.
    let mut bytes = 0u64;
    view.each_run(true, &mut |run| {
        bytes = bytes.saturating_add(run.len() as u64);
        Ok(())
    })?;
    let mut file = NewFile::create(path, inputs)?;
    view.each_run(true, &mut |run| file.write(data.get(run).unwrap_or_default()))?;
    file.finish()?;
    Ok(format!("{bytes} bytes as they are stored"))
}

fn write_npy(view: &View<'_>, path: &Path, inputs: &[PathBuf]) -> Result<String> {
    let shape = view.selection().shape();
    let (descr, what) = numpy_type(view);
    if !view.is_decodable() {
        decodable(view, &Shown::Numbers { full: true })?;
    }
    let mut file = NewFile::create(path, inputs)?;
    file.write(&npy::header_of(descr, &shape))?;
    each_line(view, |values| match values {
        Values::F32(all) => file.floats(&all),
        Values::F64(all) => all.iter().try_for_each(|v| file.write(&v.to_le_bytes())),
        Values::Complex(all) => all.iter().try_for_each(|v| file.floats(v)),
        Values::Bool(all) => all.iter().try_for_each(|v| file.write(&[u8::from(*v)])),
        // The type that numpy is told has as many bytes as the stored one.
        Values::Signed(all) => {
            all.iter().try_for_each(|v| file.write(v.to_le_bytes().get(..width(view)).unwrap_or_default()))
        }
        Values::Unsigned(all) => {
            all.iter().try_for_each(|v| file.write(v.to_le_bytes().get(..width(view)).unwrap_or_default()))
        }
    })?;
    file.finish()?;
    Ok(format!("{} numbers as {what}", view.selection().elements()))
}

/// Bytes of a number of a plain type.
fn width(view: &View<'_>) -> usize {
    view.dtype().map_or(0, DType::block_bytes)
}

/// What numpy calls the type that numbers are written in, and what it is called here.
fn numpy_type(view: &View<'_>) -> (&'static str, &'static str) {
    match view.dtype() {
        Some(DType::F64) => ("<f8", "f64"),
        Some(DType::I8) => ("|i1", "i8"),
        Some(DType::I16) => ("<i2", "i16"),
        Some(DType::I32) => ("<i4", "i32"),
        Some(DType::I64) => ("<i8", "i64"),
        Some(DType::U8) => ("|u1", "u8"),
        Some(DType::U16) => ("<u2", "u16"),
        Some(DType::U32) => ("<u4", "u32"),
        Some(DType::U64) => ("<u8", "u64"),
        Some(dtype) if dtype.class() == Class::Bool => ("|b1", "truth values"),
        Some(dtype) if dtype.class() == Class::Complex => ("<c8", "complex numbers of two f32"),
        _ => ("<f4", "f32"),
    }
}

/// Numbers that are read at a time.
const PIECE: usize = 1 << 16;

/// All numbers that are taken, some of a line at a time.
pub fn each_line(view: &View<'_>, mut see: impl FnMut(Values) -> Result<()>) -> Result<()> {
    let shape = view.selection().shape();
    let (outer, inner) = match shape.split_last() {
        Some((inner, outer)) => (outer, *inner),
        None => (&[][..], 1),
    };
    let lines = outer.iter().fold(1usize, |n, len| n.saturating_mul(*len));
    for line in 0..lines {
        let outer = unravel(line, outer);
        let mut first = 0;
        while first < inner {
            let past = first.saturating_add(PIECE).min(inner);
            see(view.line(&outer, first..past)?)?;
            first = past;
        }
    }
    Ok(())
}
