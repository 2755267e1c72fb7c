//! Files that a command is asked to write: whole or not at all, and never in the place of one that it reads.

#![allow(clippy::disallowed_methods, clippy::disallowed_types)] // the one place where files are written

use crate::interrupt;
use scantling_core::error::{Error, Result};
use std::fs::{self, OpenOptions};
use std::io::{self, BufWriter, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Links that are followed.
const MOST_LINKS: usize = 40;

/// Characters of a file's name that the name of the one under way has.
const SHORT: usize = 40;

/// Files under way. An interrupt ends the program where it stands, and takes them away first.
static UNFINISHED: Mutex<Vec<PathBuf>> = Mutex::new(Vec::new());

fn unfinished() -> MutexGuard<'static, Vec<PathBuf>> {
    // A list of paths is never left half changed.
    UNFINISHED.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Takes away what is not whole, and lets nothing be finished any more: for a program that ends at once.
pub fn abandon() {
    let mut all = unfinished();
    for path in all.drain(..) {
        let _ = fs::remove_file(path);
    }
    // Whoever is about to put a file in its place would find it gone, and tell an error that is none.
    std::mem::forget(all);
}

/// A file under way: it has another name until it is whole, and is gone if it never is.
pub struct NewFile {
    target: PathBuf,
    /// Where it is written; `None` where that is the target itself, such as a pipe.
    beside: Option<PathBuf>,
    file: BufWriter<Box<dyn Write>>,
}

impl NewFile {
    /// Begins a file that is to be at this path in the end; `inputs` are the files and folders that the command reads.
    /// It may not take the place of one, by whatever name, nor of what lies beside one and was not written by this program.
    pub fn create(target: &Path, inputs: &[PathBuf]) -> Result<NewFile> {
        if let Some(input) = inputs.iter().find(|input| same(target, input)) {
            let (target, input) = (target.display(), input.display());
            return Err(Error::Usage(format!(
                "{target}: this is {input}, which the command reads, and writing would destroy it; name another file \
                 to write to"
            )));
        }
        let fault = |error| Error::io(target.display().to_string(), "creating it", error);
        let begun = |target: &Path, file: Box<dyn Write>| NewFile {
            target: target.to_owned(),
            beside: None,
            file: BufWriter::new(file),
        };
        // What one of these leads to may be no path at all, or a file that something else is written to.
        match standard(target) {
            Some(1) => return Ok(begun(target, Box::new(io::stdout()))),
            Some(2) => return Ok(begun(target, Box::new(io::stderr()))),
            _ => {}
        }
        let is_other = |target: &Path| fs::metadata(target).is_ok_and(|m| !m.is_file() && !m.is_dir());
        if is_other(target) {
            let file = OpenOptions::new().write(true).open(target).map_err(fault)?;
            return Ok(begun(target, Box::new(file)));
        }
        // A link stays, and leads to the new file.
        let linked = followed(target).map_err(fault)?;
        let target = linked.as_path();
        let refused = |why: &str| {
            let target = target.display();
            Err(Error::Usage(format!("{target}: {why}; name another file to write to")))
        };
        if is_standard_output(target) {
            return refused("standard output is led to it too, and the one would destroy the other");
        }
        if inputs.iter().any(|input| is_beside(target, input)) && !is_own(target) {
            return refused(
                "it lies beside the model and was not written by this program, so it may belong to it",
            );
        }
        if fs::metadata(target).is_ok_and(|m| m.is_file() && m.permissions().readonly()) {
            return refused("it is write-protected");
        }
        let name = target.file_name().filter(|_| !target.is_dir());
        let Some(name) = name else {
            return Err(Error::Usage(format!("{}: a folder, where a file is to be", target.display())));
        };
        // Shortened, since a name that is as long as can be leaves no room for more.
        let short: String = name.to_string_lossy().chars().take(SHORT).collect();
        let hidden = format!(".{short}.{}.part", std::process::id());
        let beside = target.with_file_name(hidden);
        interrupt::end_at_once();
        // Held while it is made, so that an interrupt finds it in the list or not there at all.
        let mut all = unfinished();
        let file = OpenOptions::new().write(true).create_new(true).open(&beside).map_err(fault)?;
        all.push(beside.clone());
        let file = BufWriter::with_capacity(1 << 20, Box::new(file) as Box<dyn Write>);
        Ok(NewFile { target: target.to_owned(), beside: Some(beside), file })
    }

    /// The next bytes.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.file.write_all(bytes).map_err(|e| self.fault(e))
    }

    /// What someone else writes, piece by piece.
    pub fn write_by<T>(&mut self, write: impl FnOnce(&mut dyn Write) -> io::Result<T>) -> Result<T> {
        write(&mut self.file).map_err(|e| self.fault(e))
    }

    /// The next numbers, little-endian.
    pub fn floats(&mut self, values: &[f32]) -> Result<()> {
        values.iter().try_for_each(|value| self.write(&value.to_le_bytes()))
    }

    /// Puts it in its place.
    pub fn finish(mut self) -> Result<()> {
        self.file.flush().map_err(|e| self.fault(e))?;
        if let Some(beside) = self.beside.take() {
            let mut all = unfinished();
            let moved = fs::rename(&beside, &self.target);
            if moved.is_err() {
                let _ = fs::remove_file(&beside);
            }
            all.retain(|path| *path != beside);
            return moved.map_err(|error| self.fault(error));
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
            let mut all = unfinished();
            let _ = fs::remove_file(&beside);
            all.retain(|path| *path != beside);
        }
    }
}

/// Whether two paths are of one file, be it there or not.
pub fn is_one(a: &Path, b: &Path) -> bool {
    let place = |path: &Path| {
        let path = followed(path).ok()?;
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        let folder = fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()?;
        Some((folder, path.file_name()?.to_owned()))
    };
    let standard = standard(a).is_some_and(|a| standard(b) == Some(a));
    standard || same(a, b) || place(a).is_some_and(|a| place(b) == Some(a))
}

/// Which of the program's own streams a path stands for: by its name, or by that of a link on the way.
fn standard(path: &Path) -> Option<u8> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let number = match path.to_str() {
            Some("/dev/stdout") => Some(1),
            Some("/dev/stderr") => Some(2),
            Some(text) => {
                let number =
                    ["/dev/fd/", "/proc/self/fd/"].iter().find_map(|folder| text.strip_prefix(folder));
                number.and_then(|number| number.parse().ok())
            }
            None => None,
        };
        if cfg!(unix) && number.is_some() {
            return number;
        }
        let next = fs::read_link(&path).ok()?;
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    None
}

/// Where a path leads to in the end, be there a file or not.
fn followed(path: &Path) -> io::Result<PathBuf> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(next) = fs::read_link(&path) else { return Ok(path) };
        // Relative to the folder that the link lies in.
        path = path.parent().unwrap_or(Path::new("")).join(next);
    }
    Err(io::Error::other(format!("more than {MOST_LINKS} links, one leading to the next")))
}

/// Whether a file lies in the same folder as another, which may be a link into it, or in that very folder: one that is a
/// model as a whole, with its config and its tokenizer's files.
fn is_beside(target: &Path, input: &Path) -> bool {
    let folder_of = |path: &Path| {
        let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
        fs::canonicalize(folder.unwrap_or(Path::new("."))).ok()
    };
    let folder = folder_of(target).filter(|folder| target.is_file() && folder.join("config.json").is_file());
    let Some(folder) = folder else { return false };
    let Ok(real) = fs::canonicalize(input) else { return false };
    if real.is_dir() {
        return folder == real;
    }
    folder_of(input).as_ref() == Some(&folder) || folder_of(&real).as_ref() == Some(&folder)
}

/// Bytes at the start of a file that show who wrote it.
const HEAD: u64 = 4096;

/// How files begin that this program writes: pages, manifests, numbers for numpy, and traces after a length of 8 bytes.
const PAGE: &[u8] = b"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
    <meta http-equiv=\"Content-Security-Policy\" content=\"";
const MANIFEST: &[u8] = b"# Digests of the tensors of a model; scantling ";
const NUMPY: &[u8] = b"\x93NUMPY";
const TRACE: &[u8] = b"{\"__metadata__\":{\"trace\":\"1\"";

/// Whether a file is one that this program wrote, or holds nothing that could be lost.
fn is_own(path: &Path) -> bool {
    let mut head = Vec::new();
    let read = fs::File::open(path).and_then(|file| file.take(HEAD).read_to_end(&mut head));
    let trace = head.get(8..).is_some_and(|behind| behind.starts_with(TRACE));
    read.is_ok()
        && (head.is_empty() || trace || [PAGE, MANIFEST, NUMPY].iter().any(|begins| head.starts_with(begins)))
}

/// Whether standard output is led to this very file.
fn is_standard_output(path: &Path) -> bool {
    cfg!(unix) && path.is_file() && same(path, Path::new("/dev/stdout"))
}

/// Whether two paths lead to one file, links and other names of it included.
#[cfg(unix)]
fn same(a: &Path, b: &Path) -> bool {
    use std::os::unix::fs::MetadataExt;
    let id = |path: &Path| fs::metadata(path).ok().map(|m| (m.dev(), m.ino()));
    id(a).is_some_and(|a| id(b) == Some(a))
}

/// Whether two paths lead to one file, links included.
#[cfg(not(unix))]
fn same(a: &Path, b: &Path) -> bool {
    fs::canonicalize(a).is_ok_and(|a| fs::canonicalize(b).is_ok_and(|b| a == b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_when_it_is_whole() {
        let folder = tempfile::tempdir().unwrap();
        let target = folder.path().join("a.npy");
        let mut file = NewFile::create(&target, &[]).unwrap();
        file.floats(&[1.0]).unwrap();
        assert!(!target.exists());
        file.finish().unwrap();
        assert_eq!(fs::read(&target).unwrap(), 1f32.to_le_bytes());
        drop(NewFile::create(&target, &[]).unwrap());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(NewFile::create(folder.path(), &[]).is_err());
        let nowhere = NewFile::create(&folder.path().join("none/b"), &[]).err().unwrap().to_string();
        assert!(nowhere.contains("none/b: creating it") && !nowhere.contains(".part"), "{nowhere}");
    }

    #[cfg(unix)]
    #[test]
    fn links_stay_and_protected_files_too() {
        use std::os::unix::fs::symlink;
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("in")).unwrap();
        symlink("in/new", at("link")).unwrap();
        symlink("link", at("second")).unwrap();
        let mut file = NewFile::create(&at("second"), &[]).unwrap();
        file.write(b"x").unwrap();
        file.finish().unwrap();
        assert_eq!(fs::read(at("in/new")).unwrap(), b"x");
        assert!(fs::symlink_metadata(at("link")).unwrap().is_symlink());
        symlink("b", at("a")).unwrap();
        symlink("a", at("b")).unwrap();
        let told = NewFile::create(&at("a"), &[]).err().unwrap().to_string();
        assert!(told.contains("links"), "{told}");

        let mut permissions = fs::metadata(at("in/new")).unwrap().permissions();
        permissions.set_readonly(true);
        fs::set_permissions(at("in/new"), permissions).unwrap();
        let told = NewFile::create(&at("in/new"), &[]).err().unwrap().to_string();
        assert!(told.contains("write-protected"), "{told}");

        let long = at(&"n".repeat(255));
        NewFile::create(&long, &[]).unwrap().finish().unwrap();
        assert!(long.exists());
    }

    #[test]
    fn what_lies_beside_a_model_stays_but_for_what_was_written_here() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        fs::create_dir(at("m")).unwrap();
        fs::write(at("m/weights"), "w").unwrap();
        fs::write(at("m/merges.txt"), "a b").unwrap();
        // A folder of files that stand for themselves.
        assert!(NewFile::create(&at("m/merges.txt"), &[at("m/weights")]).is_ok());
        fs::write(at("m/config.json"), "{}").unwrap();
        fs::write(at("elsewhere"), "a b").unwrap();
        fs::write(at("m/a.npy"), scantling_core::npy::header(1, 1)).unwrap();
        fs::write(at("m/empty"), "").unwrap();
        for input in [at("m/weights"), at("m")] {
            let inputs = [input];
            let told = NewFile::create(&at("m/merges.txt"), &inputs).err().unwrap();
            assert!(matches!(told, Error::Usage(_)) && told.to_string().contains("may belong"), "{told}");
            for target in ["elsewhere", "m/a.npy", "m/empty", "m/new"] {
                assert!(NewFile::create(&at(target), &inputs).is_ok(), "{target}");
            }
        }
    }

    #[test]
    fn what_is_read_is_not_written_over_by_any_name() {
        let folder = tempfile::tempdir().unwrap();
        let (input, other) = (folder.path().join("weights"), folder.path().join("other"));
        fs::write(&input, "w").unwrap();
        fs::hard_link(&input, &other).unwrap();
        for target in [&input, &other, &folder.path().join("./weights")] {
            let told = NewFile::create(target, std::slice::from_ref(&input)).err().unwrap();
            assert!(matches!(told, Error::Usage(_)) && told.to_string().contains("weights, which"), "{told}");
        }
        assert_eq!(fs::read(&input).unwrap(), b"w");
    }
}
