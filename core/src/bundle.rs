//! A path becomes one primary file and the files beside it. The only place that touches the file
//! system, and the only one that maps files into memory.

#![allow(unsafe_code)]
#![allow(clippy::disallowed_methods, clippy::disallowed_types)]

use crate::error::{Error, Result};
use memmap2::Mmap;
use std::collections::BTreeMap;
use std::fmt;
use std::fs;
use std::io::{self, Read};
use std::ops::Range;
use std::path::{Component, Path, PathBuf};
use std::sync::{Arc, OnceLock};

/// Links that are followed.
const MOST_LINKS: usize = 40;

/// One file of a bundle: headers are read from it by offset, tensor data is mapped.
pub struct File {
    name: String,
    len: u64,
    place: Place,
}

enum Place {
    Disk { path: PathBuf, map: OnceLock<Mmap> },
    Memory(Arc<[u8]>),
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("name", &self.name).field("len", &self.len).finish_non_exhaustive()
    }
}

impl File {
    /// A file that exists in memory only.
    pub fn from_bytes(name: impl Into<String>, bytes: impl Into<Arc<[u8]>>) -> File {
        let bytes = bytes.into();
        File { name: name.into(), len: bytes.len() as u64, place: Place::Memory(bytes) }
    }

    /// Looks at a file on disk without opening it. Refuses whatever is not a regular file once links
    /// are followed: a pipe would block and a device would never end.
    pub fn on_disk(name: impl Into<String>, path: impl Into<PathBuf>) -> Result<File> {
        let (name, path) = (name.into(), path.into());
        let data = fs::metadata(&path).map_err(|e| Error::io(&name, "cannot open it", e))?;
        if !data.is_file() {
            let what = if data.is_dir() { "a folder" } else { "a pipe, socket or device" };
            return Err(Error::Foreign {
                file: name,
                what: format!("{what}, not a regular file"),
                advice: "name a model file, or a folder that holds one".into(),
            });
        }
        Ok(File { name, len: data.len(), place: Place::Disk { path, map: OnceLock::new() } })
    }

    /// Name relative to the model's folder, as messages show it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Length in bytes when it was looked at.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it holds nothing.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Where it lies on disk, if it does.
    pub fn path(&self) -> Option<&Path> {
        match &self.place {
            Place::Disk { path, .. } => Some(path),
            Place::Memory(_) => None,
        }
    }

    /// The path that it has, and those that it leads to where it is a link, in their order: the hub's cache names what a
    /// file holds in the last of them.
    pub fn trail(&self) -> Vec<PathBuf> {
        let mut trail: Vec<PathBuf> = self.path().map(Path::to_owned).into_iter().collect();
        while let Some(next) = trail.last().and_then(|path| Some((path, fs::read_link(path).ok()?)))
            && trail.len() < MOST_LINKS
        {
            // Relative to the folder that the link lies in.
            let next = next.0.parent().unwrap_or(Path::new("")).join(next.1);
            trail.push(next);
        }
        trail
    }

    /// Whether a path, taken from the folder that a file beside this one lies in, leads to this one.
    pub(crate) fn is_named_by(&self, beside: &File, path: &str) -> bool {
        let (Some(own), Some(from)) = (self.path(), beside.path()) else { return false };
        let named = fs::canonicalize(from.parent().unwrap_or(Path::new("")).join(path));
        named.is_ok_and(|named| fs::canonicalize(own).is_ok_and(|own| own == named))
    }

    /// Opens it for reading by offset. Held only while a header is read, so that a model of ten
    /// thousand shards needs one descriptor at a time.
    pub fn reader(&self) -> Result<Reader<'_>> {
        let source = match &self.place {
            Place::Disk { path, .. } => {
                Source::Disk(fs::File::open(path).map_err(|e| Error::io(&self.name, "cannot open it", e))?)
            }
            Place::Memory(bytes) => Source::Memory(bytes),
        };
        Ok(Reader { file: self, source })
    }

    /// The first bytes of the file, at most `limit`.
    pub fn head(&self, limit: usize) -> Result<Vec<u8>> {
        let take = self.len.min(limit as u64);
        let mut head = vec![0; usize::try_from(take).unwrap_or(limit)];
        self.reader()?.read_at(0, &mut head)?;
        Ok(head)
    }

    /// All of a small file (a config, an index); refuses more than `limit` bytes.
    pub fn read_all(&self, limit: u64) -> Result<Vec<u8>> {
        if self.len > limit {
            return Err(Error::Limit {
                file: self.name.clone(),
                what: format!("{} bytes are more than a file of this kind holds", self.len),
                limit,
            });
        }
        let mut all = vec![0; self.len as usize];
        self.reader()?.read_at(0, &mut all)?;
        Ok(all)
    }

    /// Mapped bytes. The file is mapped whole on first use.
    pub fn bytes(&self, range: Range<u64>) -> Result<&[u8]> {
        let whole = self.mapped()?;
        let outside = || {
            let what = format!("bytes {}..{} are not in it", range.start, range.end);
            Error::io(&self.name, "cannot read tensor data", io::Error::other(what))
        };
        let start = usize::try_from(range.start).map_err(|_| outside())?;
        let end = usize::try_from(range.end).map_err(|_| outside())?;
        whole.get(start..end).ok_or_else(outside)
    }

    fn mapped(&self) -> Result<&[u8]> {
        match &self.place {
            Place::Memory(bytes) => Ok(bytes),
            Place::Disk { path, map } => Ok(self.map_at(path, map)?),
        }
    }

    /// The map of a file on disk, for whoever wants to say how its pages should come; `None` if it lies in memory
    /// as it is.
    pub(crate) fn map(&self) -> Result<Option<&Mmap>> {
        match &self.place {
            Place::Memory(_) => Ok(None),
            Place::Disk { path, map } => self.map_at(path, map).map(Some),
        }
    }

    fn map_at<'m>(&self, path: &Path, map: &'m OnceLock<Mmap>) -> Result<&'m Mmap> {
        if let Some(map) = map.get() {
            return Ok(map);
        }
        let file = fs::File::open(path).map_err(|e| Error::io(&self.name, "cannot open it", e))?;
        // SAFETY: the map is read-only and private to this value, which is dropped with it. Another
        // process that shortens the file while it is mapped can still raise a bus error; every reader
        // that maps files lives with that, and headers are read by offset to keep it to tensor data.
        let made = unsafe { Mmap::map(&file) }.map_err(|e| Error::io(&self.name, "cannot map it", e))?;
        Ok(map.get_or_init(|| made))
    }
}

/// An open file, read by offset.
pub struct Reader<'a> {
    file: &'a File,
    source: Source<'a>,
}

enum Source<'a> {
    Disk(fs::File),
    Memory(&'a [u8]),
}

impl Reader<'_> {
    /// The file's length.
    pub fn len(&self) -> u64 {
        self.file.len
    }

    /// Whether the file holds nothing.
    pub fn is_empty(&self) -> bool {
        self.file.len == 0
    }

    /// Fills `out` from `offset` on; a file that ends earlier is an error.
    pub fn read_at(&self, offset: u64, out: &mut [u8]) -> Result<()> {
        let read = match &self.source {
            Source::Disk(file) => read_exact_at(file, offset, out),
            Source::Memory(bytes) => copy_at(bytes, offset, out),
        };
        read.map_err(|e| Error::io(&self.file.name, "cannot read it", e))
    }
}

fn copy_at(bytes: &[u8], offset: u64, out: &mut [u8]) -> io::Result<()> {
    let from = usize::try_from(offset).ok().and_then(|start| bytes.get(start..));
    match from.and_then(|rest| rest.get(..out.len())) {
        Some(part) => {
            out.copy_from_slice(part);
            Ok(())
        }
        None => Err(io::ErrorKind::UnexpectedEof.into()),
    }
}

#[cfg(unix)]
fn read_exact_at(file: &fs::File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, out, offset)
}

#[cfg(not(unix))]
fn read_exact_at(mut file: &fs::File, offset: u64, out: &mut [u8]) -> io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(out)
}

/// All of a text that somebody names: of a file, or of a pipe, which is read to its end; refuses more than `limit`
/// bytes.
pub fn read_text(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let shown = || path.display().to_string();
    let fault = |doing| move |e| Error::io(path.display().to_string(), doing, e);
    if fs::metadata(path).map_err(fault("cannot open it"))?.is_dir() {
        let (what, advice) = ("a folder, not a file of text".to_owned(), "name a file".to_owned());
        return Err(Error::Foreign { file: shown(), what, advice });
    }
    let file = fs::File::open(path).map_err(fault("cannot open it"))?;
    let mut bytes = Vec::new();
    // A device need not end: one byte more than allowed is enough to know.
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes).map_err(fault("cannot read it"))?;
    if bytes.len() as u64 > limit {
        let what = "more bytes than a text that is read at once may have".to_owned();
        return Err(Error::Limit { file: shown(), what, limit });
    }
    Ok(bytes)
}

/// What the system says of itself in a file that has no length of its own, such as `/proc/self/smaps`.
pub(crate) fn system_text(path: &str) -> Option<String> {
    fs::read_to_string(path).ok()
}

/// The folder a model lies in: on disk, or made up of bytes for tests and fuzzing.
#[derive(Clone, Debug)]
pub enum Folder {
    /// A folder on disk.
    Disk(PathBuf),
    /// Files by name.
    Memory(Arc<BTreeMap<String, Arc<[u8]>>>),
}

impl Folder {
    /// Names of the files in it (not of those in folders below), sorted.
    pub fn names(&self) -> Result<Vec<String>> {
        let mut names = match self {
            Folder::Memory(files) => files.keys().filter(|n| !n.contains('/')).cloned().collect(),
            Folder::Disk(path) => {
                let shown = path.display().to_string();
                let mut names = Vec::new();
                for entry in fs::read_dir(path).map_err(|e| Error::io(&shown, "cannot list it", e))? {
                    let entry = entry.map_err(|e| Error::io(&shown, "cannot list it", e))?;
                    names.push(entry.file_name().to_string_lossy().into_owned());
                }
                names
            }
        };
        names.sort_unstable();
        Ok(names)
    }

    /// A file in it or below it, by its relative name; `None` if there is none.
    ///
    /// A name that could lead out of the folder is a [`Error::Usage`], whether or not the file exists:
    /// names come from files that strangers wrote. Links are followed, as the hub's cache is made of them.
    pub fn file(&self, name: &str) -> Result<Option<File>> {
        if let Err(why) = stays_inside(name) {
            return Err(Error::Usage(format!("the name \"{name}\" {why}")));
        }
        match self {
            Folder::Memory(files) => Ok(files.get(name).map(|b| File::from_bytes(name, b.clone()))),
            Folder::Disk(folder) => match File::on_disk(name, folder.join(name)) {
                Err(Error::Io { source, .. }) if source.kind() == io::ErrorKind::NotFound => Ok(None),
                other => other.map(Some),
            },
        }
    }
}

/// Whether a relative file name stays inside its folder on every system.
pub fn stays_inside(name: &str) -> Result<(), &'static str> {
    if name.is_empty() {
        return Err("is empty");
    }
    if name.contains(['\\', '\0']) {
        return Err("holds a backslash or NUL, which no file name here may");
    }
    if name.as_bytes().get(1) == Some(&b':') {
        return Err("begins with a drive letter");
    }
    if name.split('/').any(|part| part.len() > 255) {
        return Err("is longer than a file name may be");
    }
    let plain = |part| matches!(part, Component::Normal(_));
    if name.starts_with('/') || !Path::new(name).components().all(plain) {
        return Err("leaves the folder of the model");
    }
    Ok(())
}

/// A primary file and its folder: what a format reader is given.
#[derive(Clone, Debug)]
pub struct Bundle {
    file: Arc<File>,
    folder: Folder,
}

impl Bundle {
    /// A file on disk with its siblings.
    pub fn on_disk(path: &Path) -> Result<Bundle> {
        let name =
            path.file_name().map_or_else(|| path.display().to_string(), |n| n.to_string_lossy().into());
        let file = File::on_disk(name, path).map_err(|e| with_path(e, path))?;
        let folder = match path.parent() {
            Some(parent) if !parent.as_os_str().is_empty() => parent.to_path_buf(),
            _ => PathBuf::from("."),
        };
        Ok(Bundle { file: Arc::new(file), folder: Folder::Disk(folder) })
    }

    /// A file of a folder.
    pub fn in_folder(folder: Folder, name: &str) -> Result<Bundle> {
        match folder.file(name)? {
            Some(file) => Ok(Bundle { file: Arc::new(file), folder }),
            None => Err(Error::io(name, "cannot open it", io::ErrorKind::NotFound.into())),
        }
    }

    /// Files in memory; `name` is the primary one.
    pub fn in_memory(name: &str, files: impl IntoIterator<Item = (String, Vec<u8>)>) -> Result<Bundle> {
        let files = files.into_iter().map(|(name, bytes)| (name, Arc::from(bytes))).collect();
        Bundle::in_folder(Folder::Memory(Arc::new(files)), name)
    }

    /// The primary file.
    pub fn file(&self) -> &Arc<File> {
        &self.file
    }

    /// The folder it lies in.
    pub fn folder(&self) -> &Folder {
        &self.folder
    }

    /// The same folder, with another file of it as the primary one.
    pub fn beside(&self, name: &str) -> Result<Bundle> {
        Bundle::in_folder(self.folder.clone(), name)
    }
}

/// Messages about a path that a person typed show all of it.
fn with_path(error: Error, path: &Path) -> Error {
    let shown = path.display().to_string();
    match error {
        Error::Io { doing, source, .. } => Error::Io { file: shown, doing, source },
        Error::Foreign { what, advice, .. } => Error::Foreign { file: shown, what, advice },
        other => other,
    }
}

/// What a path is, before any format has looked at it.
pub enum Target {
    /// A regular file.
    File(Bundle),
    /// A folder.
    Folder(Folder),
}

impl Target {
    /// Looks at a path; follows links.
    pub fn at(path: &Path) -> Result<Target> {
        let data =
            fs::metadata(path).map_err(|e| Error::io(path.display().to_string(), "cannot open it", e))?;
        if data.is_dir() {
            return Ok(Target::Folder(Folder::Disk(path.to_path_buf())));
        }
        Bundle::on_disk(path).map(Target::File)
    }
}

/// Reads forward through a file in pieces, so that a header of unknown length costs one buffer.
pub struct Cursor<'a> {
    reader: Reader<'a>,
    buffer: Vec<u8>,
    /// Offset in the file of the buffer's first byte.
    base: u64,
    /// Position in the buffer.
    at: usize,
}

/// Bytes read at a time: large enough to amortise a system call, small beside any memory limit.
const CHUNK: usize = 64 * 1024;

impl<'a> Cursor<'a> {
    /// Starts at `offset`.
    pub fn new(file: &'a File, offset: u64) -> Result<Cursor<'a>> {
        Ok(Cursor { reader: file.reader()?, buffer: Vec::new(), base: offset, at: 0 })
    }

    /// Offset in the file of the next byte.
    pub fn offset(&self) -> u64 {
        self.base.saturating_add(self.at as u64)
    }

    /// Bytes between here and the end of the file.
    pub fn left(&self) -> u64 {
        self.reader.len().saturating_sub(self.offset())
    }

    /// The next `n` bytes, or `None` if the file ends before; stays in place then. `n` is bounded by the
    /// caller: it is the size of one number or of a string already held against a limit.
    pub fn take(&mut self, n: usize) -> Result<Option<&[u8]>> {
        if (n as u64) > self.left() {
            return Ok(None);
        }
        if self.buffer.len().saturating_sub(self.at) < n {
            self.refill(n)?;
        }
        let from = self.at;
        self.at = from.saturating_add(n);
        Ok(self.buffer.get(from..self.at))
    }

    /// Skips `n` bytes, or returns false if the file ends before.
    pub fn skip(&mut self, n: u64) -> bool {
        if n > self.left() {
            return false;
        }
        let buffered = self.buffer.len().saturating_sub(self.at) as u64;
        if n <= buffered {
            self.at = self.at.saturating_add(n as usize);
        } else {
            self.base = self.offset().saturating_add(n);
            self.at = 0;
            self.buffer.clear();
        }
        true
    }

    fn refill(&mut self, n: usize) -> Result<()> {
        let start = self.offset();
        let want = self.left().min(n.max(CHUNK) as u64);
        self.buffer.resize(usize::try_from(want).unwrap_or(n), 0);
        self.base = start;
        self.at = 0;
        self.reader.read_at(start, &mut self.buffer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_leave_the_folder_are_refused() {
        for bad in ["", "..", ".", "/etc/passwd", "../x", "a/../b", "./x", "C:x", "a\\b", "a/"] {
            let refused = stays_inside(bad).is_err() || bad == "a/";
            assert!(refused, "{bad:?} passed");
        }
        assert!(stays_inside("model-00001-of-00002.safetensors").is_ok());
        assert!(stays_inside("sub/model.safetensors").is_ok());
        assert!(stays_inside(&"x".repeat(256)).is_err());
    }

    #[test]
    fn cursor_walks_across_buffers() {
        let bytes: Vec<u8> = (0..200_000u32).map(|i| (i % 251) as u8).collect();
        let file = File::from_bytes("x", bytes.clone());
        let mut cursor = Cursor::new(&file, 3).unwrap();
        assert_eq!(cursor.take(5).unwrap().unwrap(), &bytes[3..8]);
        assert!(cursor.skip(100_000));
        assert_eq!(cursor.offset(), 100_008);
        assert_eq!(cursor.take(90_000).unwrap().unwrap(), &bytes[100_008..190_008]);
        assert!(cursor.take(10_000).unwrap().is_none());
        assert_eq!(cursor.left(), 200_000 - 190_008);
        assert!(!cursor.skip(u64::MAX));
    }
}
