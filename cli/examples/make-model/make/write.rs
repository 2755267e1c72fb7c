//! Puts a model on disk: under a temporary name until it is whole, then under its own.

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "it writes files; only readers may not"
)]

use super::fill::{self, Fill};
use super::{Model, Tensor, push};
use scantling_core::error::{Error, Result};
use scantling_core::metadata::{Metadata, Value};
use scantling_core::source::{FormatPlugin, Plan, TensorSpec};
use std::fs;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Writes a model as one file.
pub fn one(format: &FormatPlugin, path: &Path, model: &Model, fill: Fill) -> Result<()> {
    file(format, path, &model.metadata, &model.tensors, fill)
}

/// Writes a model as `shards` files in a folder, with what the format needs beside them. Returns the file to
/// open it by.
pub fn several(
    format: &FormatPlugin,
    folder: &Path,
    model: &Model,
    shards: usize,
    fill: Fill,
) -> Result<PathBuf> {
    let shards = shards.min(model.tensors.len()).max(1);
    let name = |i: usize| format!("model-{:05}-of-{shards:05}.{}", i + 1, format.extensions[0]);
    let parts: Vec<&[Tensor]> = (0..shards)
        .map(|i| {
            let cut = |i: usize| model.tensors.len() * i / shards;
            &model.tensors[cut(i)..cut(i + 1)]
        })
        .collect();
    for (i, tensors) in parts.iter().enumerate() {
        let metadata = match format.name {
            "gguf" => split_metadata(model, i, shards),
            _ => model.metadata.clone(),
        };
        file(format, &folder.join(name(i)), &metadata, tensors, fill)?;
    }
    if format.name == "gguf" {
        return Ok(folder.join(name(0)));
    }
    let index = folder.join("model.safetensors.index.json");
    whole(&index, |out| out.write_all(index_json(&parts, name).as_bytes()))?;
    Ok(index)
}

/// All metadata goes into the first part, and into each what says which part it is.
fn split_metadata(model: &Model, i: usize, shards: usize) -> Metadata {
    let mut metadata = if i == 0 { model.metadata.clone() } else { Metadata::default() };
    push(&mut metadata, "split.no", "u16", Value::Unsigned(i as u64));
    push(&mut metadata, "split.count", "u16", Value::Unsigned(shards as u64));
    push(&mut metadata, "split.tensors.count", "i32", Value::Unsigned(model.tensors.len() as u64));
    metadata
}

fn index_json(parts: &[&[Tensor]], name: impl Fn(usize) -> String) -> String {
    let mut map = serde_json::Map::new();
    let mut total = 0;
    for (i, tensors) in parts.iter().enumerate() {
        for tensor in *tensors {
            total += tensor.spec.dtype.byte_len(&tensor.spec.shape).unwrap_or(0);
            map.insert(tensor.spec.name.clone(), name(i).into());
        }
    }
    let index = serde_json::json!({ "metadata": { "total_size": total }, "weight_map": map });
    format!("{index:#}\n")
}

fn file(
    format: &FormatPlugin,
    path: &Path,
    metadata: &Metadata,
    tensors: &[Tensor],
    fill: Fill,
) -> Result<()> {
    let no_plan = || Error::Usage(format!("{} cannot be written", format.name));
    let specs: Vec<TensorSpec> = tensors.iter().map(|t| t.spec.clone()).collect();
    let plan = (format.plan.ok_or_else(no_plan)?)(metadata, &specs)?;
    if let Fill::Random { .. } = fill {
        specs.iter().try_for_each(|s| fill::check(s.dtype))?;
    }
    whole(path, |out| {
        out.set_len(plan.len)?;
        let mut out = BufWriter::with_capacity(1 << 20, out);
        out.write_all(&plan.header)?;
        if let Fill::Random { seed } = fill {
            random(&mut out, &plan, tensors, seed)?;
        }
        out.flush()
    })
}

fn random(out: &mut BufWriter<&mut fs::File>, plan: &Plan, tensors: &[Tensor], seed: u64) -> io::Result<()> {
    let mut order: Vec<(u64, &Tensor)> = plan.offsets.iter().copied().zip(tensors).collect();
    order.sort_by_key(|(at, _)| *at);
    for (at, tensor) in order {
        out.seek(SeekFrom::Start(at))?;
        let spec = &tensor.spec;
        let bytes = spec.dtype.byte_len(&spec.shape).unwrap_or(0);
        let name = tensor.same_as.as_deref().unwrap_or(&spec.name);
        fill::tensor(out, spec.dtype, bytes, tensor.usage, name, seed)?;
    }
    Ok(())
}

/// Writes a file that appears under its name only when it is whole.
pub fn whole(path: &Path, write: impl FnOnce(&mut fs::File) -> io::Result<()>) -> Result<()> {
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    let partial = path.with_file_name(format!(".{name}.partial"));
    let made = fs::File::create(&partial).and_then(|mut file| write(&mut file));
    let done = made.and_then(|()| fs::rename(&partial, path));
    if done.is_err() {
        // What is left of it is of no use; the first failure is the one to be told.
        let _ = fs::remove_file(&partial);
    }
    done.map_err(|e| Error::io(path.display().to_string(), "cannot write it", e))
}

/// Makes a folder and those above it.
pub fn make_folder(path: &Path) -> Result<()> {
    fs::create_dir_all(path).map_err(|e| Error::io(path.display().to_string(), "cannot make it", e))
}
