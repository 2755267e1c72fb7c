//! Files that a command is asked to write: whole or not at all.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the one place where files are written

use scantling_core::error::{Error, Result};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// A file under way: it has another name until it is whole, and is gone if it never is.
pub struct NewFile {
    target: PathBuf,
    /// Where it is written; `None` where that is the target itself, such as a pipe.
    beside: Option<PathBuf>,
    file: BufWriter<File>,
}

impl NewFile {
    /// Begins a file that is to be at this path in the end.
    pub fn create(target: &Path) -> Result<NewFile> {
        let fault = |path: &Path, error| Error::io(path.display().to_string(), "creating", error);
        let other = fs::metadata(target).is_ok_and(|m| !m.is_file() && !m.is_dir());
        if other {
            let file = OpenOptions::new().write(true).open(target).map_err(|e| fault(target, e))?;
            return Ok(NewFile { target: target.to_owned(), beside: None, file: BufWriter::new(file) });
        }
        let name = target.file_name().filter(|_| !target.is_dir());
        let Some(name) = name else {
            return Err(Error::Usage(format!("{}: a folder, where a file is to be", target.display())));
        };
        let mut hidden = std::ffi::OsString::from(".");
        hidden.push(name);
        hidden.push(format!(".{}.part", std::process::id()));
        let beside = target.with_file_name(hidden);
        let file = OpenOptions::new().write(true).create_new(true).open(&beside);
        let file = BufWriter::with_capacity(1 << 20, file.map_err(|e| fault(&beside, e))?);
        Ok(NewFile { target: target.to_owned(), beside: Some(beside), file })
    }

    /// The next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| self.fault(e))
    }

    /// The next numbers, little-endian.
    pub fn floats(&mut self, values: &[f32]) -> Result<()> {
        values.iter().try_for_each(|value| self.write(&value.to_le_bytes()))
    }

    /// Puts it in its place.
    pub fn finish(mut self) -> Result<()> {
        self.file.flush().map_err(|e| self.fault(e))?;
        if let Some(beside) = self.beside.take()
            && let Err(error) = fs::rename(&beside, &self.target)
        {
            let _ = fs::remove_file(&beside);
            return Err(self.fault(error));
        }
        Ok(())
    }

    fn fault(&self, error: io::Error) -> Error {
        Error::io(self.target.display().to_string(), "writing", error)
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if let Some(beside) = self.beside.take() {
            let _ = fs::remove_file(beside);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.npy");
        let mut file = NewFile::create(&target).unwrap();
        file.floats(&[1.0]).unwrap();
        assert!(!target.exists());
        file.finish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), 1f32.to_le_bytes());
        drop(NewFile::create(&target).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(NewFile::create(folder.path()).is_err());
        assert!(NewFile::create(&folder.path().join("none/b")).is_err());
    }
}
