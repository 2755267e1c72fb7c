//! From a path to an opened source: which file, which format, or why neither.

use crate::bundle::{Bundle, Folder, Target};
use crate::error::{Error, Result};
use crate::foreign;
use crate::packed::unpack;
use crate::registry::Registry;
use crate::source::{Candidate, Confidence, FormatPlugin, WeightSource};
use std::path::Path;

/// Bytes that formats are shown to tell their own files by.
const HEAD: usize = 4096;

impl Registry {
    /// Opens whatever a path stands for: a model file, any part of a set, an index, or a folder.
    pub fn open(&self, path: &Path) -> Result<Box<dyn WeightSource>> {
        match Target::at(path)? {
            Target::File(bundle) => self.open_bundle(&bundle),
            Target::Folder(folder) => self.open_folder(&path.display().to_string(), folder),
        }
    }

    /// Opens a folder that holds one model; several are listed in the error.
    pub fn open_folder(&self, shown: &str, folder: Folder) -> Result<Box<dyn WeightSource>> {
        let names = folder.names()?;
        let mut found: Vec<(Candidate, &'static FormatPlugin)> = Vec::new();
        for format in self.formats() {
            found.extend((format.find)(&folder, &names)?.into_iter().map(|c| (c, *format)));
        }
        match found.as_slice() {
            [] => Err(foreign::folder(shown, &folder, &names)?),
            [(candidate, _)] => self.open_bundle(&Bundle::in_folder(folder, &candidate.file)?),
            several => {
                let list: Vec<String> =
                    several.iter().map(|(c, _)| format!("  {}  ({})", c.file, c.what)).collect();
                Err(Error::Usage(format!(
                    "{shown} holds {} models; name one of them:\n{}",
                    several.len(),
                    list.join("\n")
                )))
            }
        }
    }

    /// Opens a file by its content. Names are only heard where the content says nothing.
    pub fn open_bundle(&self, bundle: &Bundle) -> Result<Box<dyn WeightSource>> {
        let file = bundle.file();
        let head = file.head(HEAD)?;
        let sure = |p: &'static FormatPlugin| (p, (p.probe)(file.name(), &head, file.len()));
        let best = self.formats().iter().map(|p| sure(p)).max_by_key(|(_, confidence)| *confidence);
        if let Some((format, confidence)) = best
            && confidence >= Confidence::Shape
        {
            return (format.open)(bundle).map(unpack);
        }
        let refuse = |what: &str, advice: &str| {
            let file = shown(bundle);
            Err(Error::Foreign { file, what: what.to_owned(), advice: advice.to_owned() })
        };
        if let Some((what, advice)) = foreign::sniff(&head) {
            return refuse(what, advice);
        }
        match best {
            Some((format, Confidence::Name)) => (format.open)(bundle).map(unpack),
            _ if head.is_empty() => refuse("an empty file", "the download may not have begun: fetch it anew"),
            _ => {
                let names: Vec<&str> = self.formats().iter().map(|f| f.name).collect();
                let begins = head.get(..head.len().min(16)).unwrap_or_default().escape_ascii();
                let what = format!("not a model file: it begins with \"{begins}\"");
                refuse(&what, &format!("formats read: {}", names.join(", ")))
            }
        }
    }
}

/// The path as the person gave it, where there is one.
fn shown(bundle: &Bundle) -> String {
    let file = bundle.file();
    file.path().map_or_else(|| file.name().to_owned(), |p| p.display().to_string())
}
