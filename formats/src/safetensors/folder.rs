//! Which files of a folder belong together.

use super::INDEX_SUFFIX;
use super::numbered::{Numbered, SUFFIX, split_suffix};
use super::weight_map;
use scantling_core::bundle::{Bundle, Folder};
use scantling_core::codes;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Finding, Findings, Severity};
use scantling_core::source::Candidate;
use std::collections::{BTreeMap, HashSet};

codes! {
    pub static INDEX_IGNORED = Note, Shards, "index-ignored",
        "an index lies beside the file and was not used",
        "A folder with both model.safetensors and model.safetensors.index.json describes its weights twice. \
         transformers reads the single file then, and so does this program; the shards may be left over from \
         another version of the model. To look at the shards, name the index.";
    pub static INDEX_MISSING = Warning, Shards, "index-missing",
        "a sharded model without its index",
        "The shards were put together by the numbers in their names. transformers needs the index \
         (model.safetensors.index.json) to load them; fetch it from where the shards came from.";
}

/// How the file to be opened stands among the files beside it.
pub(super) enum Standing {
    /// The index of this name names it.
    Indexed(String),
    /// It is one of these shards, which no index names; sorted.
    Numbered(Vec<String>),
    /// It is a model by itself.
    Alone,
}

/// Finds out how a weight file stands among those beside it.
pub(super) fn standing(bundle: &Bundle, findings: &mut Findings) -> Standing {
    let name = bundle.file().name();
    // A folder that may not be listed still has files that may be read.
    let names = bundle.folder().names().unwrap_or_default();
    let mine = Numbered::parse(name);
    let stem = split_suffix(name, SUFFIX).map(|(stem, _)| stem);
    let mut related = None;
    for index in names.iter().filter(|n| weights_index(n).is_some()) {
        let read = named_by(bundle.folder(), index);
        if read.as_ref().is_ok_and(|named| named.contains(name)) {
            return Standing::Indexed(index.clone());
        }
        let of_set = mine.is_some_and(|m| weights_index(index) == Some(m.prefix));
        if of_set || (stem.is_some() && weights_index(index) == stem) {
            related = Some((index, read));
        }
    }
    let set: Vec<String> = match mine {
        Some(mine) => {
            let same = |n: &&String| Numbered::parse(n).is_some_and(|other| mine.same_set(&other));
            names.iter().filter(same).cloned().collect()
        }
        None => Vec::new(),
    };
    let numbered = set.iter().any(|n| n == name);
    match related {
        Some((index, Err(Error::Malformed { findings: faults }))) if numbered => {
            findings.extend(faults.into_iter().map(|f| match f.place.file {
                Some(_) => f,
                None => f.file(index),
            }));
        }
        Some((index, _)) => {
            let f =
                Finding::new(&INDEX_IGNORED, format!("{index} lies beside it and was not used")).file(name);
            findings.push(if numbered {
                f.severity(Severity::Warning).advice("it does not name this file; fetch the two together")
            } else {
                f.advice("name the index to look at the shards")
            });
        }
        None if numbered => {
            let f = Finding::new(&INDEX_MISSING, "the set of shards has no index").file(name);
            findings.push(f.advice("fetch the file that ends in .safetensors.index.json"));
        }
        None => {}
    }
    if numbered { Standing::Numbered(set) } else { Standing::Alone }
}

/// The files that an index names.
fn named_by(folder: &Folder, index: &str) -> Result<HashSet<String>> {
    let Some(file) = folder.file(index)? else { return Ok(HashSet::new()) };
    let bytes = weight_map::fetch(&file)?;
    let map = weight_map::read(index, &bytes, &mut Findings::new())?;
    Ok(map.shards.into_iter().map(|s| s.name.into_owned()).collect())
}

/// What stands before `.safetensors.index.json`.
fn weights_index(name: &str) -> Option<&str> {
    split_suffix(split_suffix(name, INDEX_SUFFIX)?.0, SUFFIX).map(|(stem, _)| stem)
}

/// The models in a folder.
pub(super) fn find(folder: &Folder, names: &[String]) -> Result<Vec<Candidate>> {
    // Files that begin with "._" are macOS's notes on the others.
    let weights: Vec<&str> = names
        .iter()
        .map(String::as_str)
        .filter(|n| split_suffix(n, SUFFIX).is_some() && !n.starts_with("._"))
        .collect();
    let stem_of = |name: &str| split_suffix(name, SUFFIX).map(|(stem, _)| stem.to_owned());
    let mut taken: HashSet<String> = HashSet::new();
    let mut found: Vec<(String, Candidate)> = Vec::new();
    for index in names.iter().filter(|n| !n.starts_with("._")) {
        let Some(stem) = weights_index(index) else { continue };
        let single = weights.iter().find(|w| stem_of(w).as_deref() == Some(stem));
        let of_set = |w: &&&str| Numbered::parse(w).is_some_and(|n| n.prefix == stem);
        let set: Vec<String> = weights.iter().filter(of_set).map(|w| (*w).to_owned()).collect();
        // The index may be long: it is read here only to tell what other files belong to it. One that cannot
        // be read is reported when it is opened.
        let accounted = set.len().saturating_add(usize::from(single.is_some()));
        let named = match accounted == weights.len() {
            true => HashSet::new(),
            false => named_by(folder, index).unwrap_or_default(),
        };
        let (file, what) = match single {
            Some(single) => (*single, "safetensors, one file; an index lies beside it".to_owned()),
            None => {
                (index.as_str(), format!("safetensors, {} shards by their index", set.len().max(named.len())))
            }
        };
        let file = file.to_owned();
        taken.extend(set);
        taken.extend(named);
        taken.insert(file.clone());
        found.push((stem.to_owned(), Candidate { file, what }));
    }
    let mut sets: BTreeMap<(&str, u64, usize), Vec<&str>> = BTreeMap::new();
    for name in weights.into_iter().filter(|w| !taken.contains(*w)) {
        match Numbered::parse(name) {
            Some(n) => sets.entry((n.prefix, n.total, n.width)).or_default().push(name),
            None => {
                let what = "safetensors, one file".to_owned();
                let stem = stem_of(name).unwrap_or_default();
                found.push((stem, Candidate { file: name.to_owned(), what }));
            }
        }
    }
    for ((prefix, total, _), shards) in sets {
        let what = format!("safetensors, {} of {total} shards, no index", shards.len());
        if let Some(first) = shards.first() {
            found.push((prefix.to_owned(), Candidate { file: (*first).to_owned(), what }));
        }
    }
    // Mistral publishes the same weights a second time under the names of its own software.
    if found.iter().any(|(stem, _)| stem == "model") {
        found.retain(|(stem, _)| stem != "consolidated");
    }
    Ok(found.into_iter().map(|(_, candidate)| candidate).collect())
}
