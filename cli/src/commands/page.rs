//! Writing a report as a page, for every command that can.

use crate::output::NewFile;
use crate::render::html::{self, page::Page};
use crate::render::text;
use crate::runner;
use crate::terminal::Screen;
use scantling_core::error::Result;
use scantling_core::source::WeightSource;
use std::path::{Path, PathBuf};

/// A page under way: begun before anything long is read, so that nothing is read in vain.
pub(super) struct NewPage {
    path: PathBuf,
    file: NewFile,
}

impl NewPage {
    /// Begins the page that is asked for, if one is, but never over anything that the report is made from: the files of
    /// these models, the paths that name them, and what takes the place of their configs.
    pub(super) fn begin(
        path: Option<&PathBuf>,
        models: &[(&dyn WeightSource, &Path)],
        configs: &[&Option<PathBuf>],
    ) -> Result<Option<NewPage>> {
        let Some(path) = path else { return Ok(None) };
        let mut inputs: Vec<PathBuf> = configs.iter().filter_map(|config| (*config).clone()).collect();
        for (source, named) in models {
            inputs.extend(runner::files_of(*source));
            inputs.push((*named).to_owned());
        }
        Ok(Some(NewPage { path: path.clone(), file: NewFile::create(path, &inputs)? }))
    }

    /// Writes the page; `told` is where people are told of it.
    pub(super) fn finish(mut self, page: &Page<'_>, told: Option<&mut Screen<'_>>) -> Result<()> {
        let bytes = self.file.write_by(|out| html::write(page, out))?;
        self.file.finish()?;
        match told {
            Some(screen) => super::written(text::wrote(screen, &self.path, bytes)),
            None => Ok(()),
        }
    }
}
