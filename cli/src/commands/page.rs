//! Writing a report as a page, for every command that can.

use crate::args::OverrideArgs;
use crate::output::NewFile;
use crate::render::html::{self, page::Page};
use crate::runner;
use scantling_core::error::Result;
use scantling_core::source::WeightSource;
use std::path::Path;

/// Writes a page, never over anything that the report was made from; gives its length.
pub(super) fn write(
    file: &Path,
    page: &Page,
    source: &dyn WeightSource,
    model: &Path,
    overrides: &OverrideArgs,
) -> Result<u64> {
    let mut inputs = runner::files_of(source);
    inputs.push(model.to_owned());
    inputs.extend(overrides.config.clone());
    let mut new = NewFile::create(file, &inputs)?;
    let document = html::document(page);
    new.write(document.as_bytes())?;
    new.finish()?;
    Ok(document.len() as u64)
}
