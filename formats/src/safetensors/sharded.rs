//! Sets of shards: by their index, or by the numbers in their names.

use super::header::{self, Header};
use super::numbered::{Numbered, gaps, runs, shown};
use super::source::{Source, judge};
use super::text::{counted, cut, thousands};
use super::weight_map::{self, WeightMap};
use rayon::prelude::*;
use scantling_core::bundle::{Bundle, File, Folder, stays_inside};
use scantling_core::codes;
use scantling_core::error::{Error, Result};
use scantling_core::finding::{Finding, Findings};
use scantling_core::index::{TensorIndex, TensorInfo};
use scantling_core::parallel::on_all_cores;
use std::collections::HashSet;
use std::sync::Arc;

codes! {
    pub static SHARD_OF_SET = Note, Shards, "shard-of-set",
        "one shard was named and the whole set opened",
        "The file is part of a set, and a part of a model's tensors makes no model. The set was found by the \
         index beside the file.";
    pub static SHARD_MISSING = Error, Shards, "shard-missing",
        "shards are missing",
        "The index, or the numbering of the other files, speaks of files that are not in the folder. The tensors \
         in them cannot be listed. Usually a download was broken off: fetch the files that are named.";
    pub static SHARD_DAMAGED = Error, Shards, "shard-damaged",
        "a shard cannot be read",
        "The file is there, but it cannot be opened as safetensors, for the reasons given below it. The other \
         shards were read all the same. Fetch the file again.";
    pub static SHARD_NAME = Error, Shards, "shard-name",
        "the index names a file outside of the model's folder",
        "File names in an index are relative and stay in the folder. One that leads out of it (.., an absolute \
         path, a drive letter) is not followed: whoever wrote the index would choose which of your files is \
         read. Do not use the model before you know where that name came from.";
    pub static SHARD_NUMBERING = Warning, Shards, "shard-numbering",
        "the numbers in the shards' names are not complete",
        "Shards are called model-00001-of-00004 and so on. The index names fewer files than their numbers speak \
         of, or a number is out of range: the index may be that of another version of the model.";
    pub static INDEX_TENSOR_MISSING = Error, Shards, "index-tensor-missing",
        "the index promises a tensor that its shard lacks",
        "The index says which file holds the tensor; that file was read and does not hold it, nor does another. \
         Index and shards are of different versions, or the file was written by a run that was broken off.";
    pub static INDEX_TENSOR_ELSEWHERE = Error, Shards, "index-tensor-elsewhere",
        "a tensor lies in another shard than the index says",
        "Readers that fetch single tensors by the index will not find it. Index and shards are of different \
         versions; fetch all of them again.";
    pub static INDEX_TENSOR_UNLISTED = Warning, Shards, "index-tensor-unlisted",
        "a shard holds a tensor that the index does not name",
        "Readers that load whole files get the tensor, those that go by the index do not. Index and shards may \
         be of different versions.";
}

/// Findings shown below a damaged shard.
const SYMPTOMS: usize = 8;

/// Why a shard is not among the opened files.
enum Fault {
    Missing,
    Name(&'static str),
    Damaged(Box<Finding>),
}

/// A shard that was opened.
struct Opened {
    file: Arc<File>,
    header: Header,
    findings: Findings,
}

/// Opens one shard. Its descriptor is closed again when this returns, so a set of any size needs as many as
/// there are threads.
fn open_shard(folder: &Folder, name: &str) -> Result<Opened, Fault> {
    let damaged = |message: String| Finding::new(&SHARD_DAMAGED, message).file(cut(name));
    let fault = |error: Error| match error {
        Error::Malformed { mut findings } => {
            let more = findings.len().saturating_sub(SYMPTOMS) as u64;
            findings.truncate(SYMPTOMS);
            let f = damaged(match more {
                0 => "the shard cannot be read".into(),
                more => format!("the shard cannot be read; {} not shown", counted(more, "more finding")),
            });
            f.advice("fetch it again").because_of_this(findings)
        }
        Error::Foreign { what, advice, .. } => damaged(format!("the shard is {what}")).advice(advice),
        other => damaged(format!("the shard cannot be read: {other}")),
    };
    let file = match folder.file(name) {
        Ok(Some(file)) => file,
        Ok(None) => return Err(Fault::Missing),
        Err(error) => {
            return Err(match stays_inside(name) {
                Err(why) => Fault::Name(why),
                Ok(()) => Fault::Damaged(Box::new(fault(error))),
            });
        }
    };
    let mut findings = Findings::new();
    match header::read(&file, &mut findings) {
        Ok(header) => Ok(Opened { file: Arc::new(file), header, findings }),
        Err(error) => Err(Fault::Damaged(Box::new(fault(error)))),
    }
}

/// The set that an index describes; `shard` is the file that was asked for, if it was not the index itself.
pub(super) fn from_index(bundle: &Bundle, shard: Option<&str>) -> Result<Source> {
    let index = bundle.file();
    let bytes = weight_map::fetch(index)?;
    let mut findings = Findings::new();
    let map = weight_map::read(index.name(), &bytes, &mut findings)?;
    refuse_pickles(index.name(), &map)?;
    if let Some(shard) = shard {
        let message = format!("it is one of {} by {}: the set was opened", map.shards.len(), index.name());
        findings.push(Finding::new(&SHARD_OF_SET, message).file(shard));
    }
    // In order of name, which is that of the numbers; the index names them in order of tensor names.
    let mut order: Vec<usize> = (0..map.shards.len()).collect();
    order.sort_by_key(|&i| map.shards.get(i).map(|s| &s.name));
    let name = |i: usize| map.shards.get(i).map_or("", |s| &*s.name);
    let open = |&i: &usize| (i, open_shard(bundle.folder(), name(i)));
    let opened: Vec<(usize, Result<Opened, Fault>)> = match order.len() {
        ..FEW => order.iter().map(open).collect(),
        _ => on_all_cores(|| order.par_iter().map(open).collect()),
    };

    let mut parts = Vec::with_capacity(opened.len());
    let mut places: Vec<Option<usize>> = vec![None; map.shards.len()];
    let mut missing = Vec::new();
    for (i, outcome) in opened {
        match outcome {
            Ok(shard) => {
                if let Some(place) = places.get_mut(i) {
                    *place = Some(parts.len());
                }
                findings.absorb(shard.findings);
                parts.push((shard.file, shard.header));
            }
            Err(Fault::Missing) => missing.push(i),
            Err(fault) => findings.push(judge_fault(index.name(), &map, i, fault)),
        }
    }
    report_missing(index.name(), &map, &missing, &mut findings);
    judge_numbering(index.name(), &map, &mut findings);
    if parts.is_empty() {
        return Err(Error::Malformed { findings: findings.into_vec() });
    }
    let complete = parts.len() == map.shards.len();
    let source = judge(bundle.folder(), parts, &mut findings);
    compare(index.name(), &map, &places, &source.index, &mut findings);
    if let Some(sum) = source.tensor_bytes().filter(|_| complete) {
        weight_map::judge_total(index.name(), &map, sum, &mut findings);
    }
    Ok(source.settle(findings))
}

/// The same index is written for PyTorch's pickled shards.
fn refuse_pickles(index: &str, map: &WeightMap<'_>) -> Result<()> {
    let pickled = |name: &str| [".bin", ".pt", ".pth"].iter().any(|end| name.ends_with(end));
    match map.shards.first() {
        Some(first) if map.shards.iter().all(|s| pickled(&s.name)) => Err(Error::Foreign {
            file: index.to_owned(),
            what: format!("the index of a pickled checkpoint ({} and so on)", cut(&first.name)),
            advice: "loading it would run code from the files: get the safetensors version of the model"
                .into(),
        }),
        _ => Ok(()),
    }
}

fn judge_fault(index: &str, map: &WeightMap<'_>, i: usize, fault: Fault) -> Finding {
    let (name, at, tensors) = map.shards.get(i).map_or(("", 0, 0), |s| (&*s.name, s.at, s.tensors));
    match fault {
        Fault::Name(why) => {
            let f = Finding::new(&SHARD_NAME, format!("the file name \"{}\" {why}", cut(name)));
            f.file(index).at(at).advice("it was not opened; fetch the index again from a source you trust")
        }
        Fault::Damaged(mut f) => {
            f.message = format!("{}; the index puts {} in it", f.message, counted(tensors, "tensor"));
            *f
        }
        Fault::Missing => {
            Finding::new(&SHARD_MISSING, format!("{} is missing", cut(name))).file(index).at(at)
        }
    }
}

/// One finding for all missing files, however many: each by itself says nothing more.
fn report_missing(index: &str, map: &WeightMap<'_>, missing: &[usize], findings: &mut Findings) {
    let shards: Vec<_> = missing.iter().filter_map(|&i| map.shards.get(i)).collect();
    let Some(first) = shards.first() else { return };
    let tensors = shards.iter().fold(0u64, |sum, s| sum.saturating_add(s.tensors));
    let names: Vec<String> = shards.iter().take(3).map(|s| s.name.to_string()).collect();
    let mut numbers: Vec<u64> =
        shards.iter().filter_map(|s| Numbered::parse(&s.name)).map(|n| n.number).collect();
    numbers.sort_unstable();
    let all_numbered = numbers.len() == shards.len();
    let numbers = if all_numbered { runs(numbers.into_iter()) } else { Vec::new() };
    let set = (shards.len() as u64, map.shards.len() as u64);
    let message = missing_message(set, &names, &numbers, Some(tensors));
    let f = Finding::new(&SHARD_MISSING, message).file(index).at(first.at);
    findings.push(f.advice("fetch what is missing into the folder"));
}

/// `missing` of `of` shards, the first names, all numbers, and the tensors in them where they are known.
fn missing_message(
    (missing, of): (u64, u64),
    names: &[String],
    numbers: &[(u64, u64)],
    tensors: Option<u64>,
) -> String {
    let names: Vec<_> = names.iter().map(|n| cut(n)).collect();
    let more = missing.saturating_sub(names.len() as u64);
    let mut message =
        format!("{} of {} missing: {}", thousands(missing), counted(of, "shard"), names.join(", "));
    if more > 0 {
        message.push_str(&format!(" and {} more", thousands(more)));
    }
    if missing > 1 && !numbers.is_empty() {
        message.push_str(&format!(" (numbers {})", shown(numbers)));
    }
    if let Some(tensors) = tensors {
        let lie = if tensors == 1 { "lies" } else { "lie" };
        let them = if missing == 1 { "it" } else { "them" };
        message.push_str(&format!("; {} {lie} in {them}", counted(tensors, "tensor")));
    }
    message
}

/// Whether the numbers of the files that the index names are complete.
fn judge_numbering(index: &str, map: &WeightMap<'_>, findings: &mut Findings) {
    let numbered: Vec<Numbered<'_>> = map.shards.iter().filter_map(|s| Numbered::parse(&s.name)).collect();
    let Some(first) = numbered.first() else { return };
    if numbered.len() != map.shards.len() || !numbered.iter().all(|n| n.same_set(first)) {
        return;
    }
    let mut numbers: Vec<u64> = numbered.iter().map(|n| n.number).collect();
    numbers.sort_unstable();
    let gaps = unused(&numbers, first.total);
    if !gaps.is_empty() {
        let message = format!("the index names no shard with the numbers {}", shown(&gaps));
        let f = Finding::new(&SHARD_NUMBERING, message).file(index);
        let found = format!("{} named", thousands(numbers.len() as u64));
        findings.push(f.versus(counted(first.total, "shard"), found));
    }
}

/// Numbers of a set that are not used; some writers begin at 0.
fn unused(sorted: &[u64], total: u64) -> Vec<(u64, u64)> {
    let first = u64::from(sorted.first() != Some(&0));
    let last = total.saturating_add(first).saturating_sub(1);
    if last < first { Vec::new() } else { gaps(sorted.iter().copied(), first, last) }
}

/// Holds what the index says against what the shards hold.
fn compare(
    file: &str,
    map: &WeightMap<'_>,
    places: &[Option<usize>],
    index: &TensorIndex,
    findings: &mut Findings,
) {
    let name = |shard: usize| map.shards.get(shard).map_or("", |s| &*s.name);
    // By place among the opened files, the name of each.
    let mut opened = vec![""; places.len()];
    for (shard, place) in places.iter().enumerate() {
        if let Some(slot) = place.and_then(|p| opened.get_mut(p)) {
            *slot = name(shard);
        }
    }
    let mut all: Option<HashSet<(&str, usize)>> = None;
    let mut met = 0usize;
    for mapped in &map.tensors {
        let Some(Some(shard)) = places.get(mapped.shard) else { continue };
        let found = index.get(&mapped.name);
        met = met.saturating_add(usize::from(found.is_some()));
        if found.is_some_and(|t| t.shard == *shard) {
            continue;
        }
        // A tensor that two shards hold is reported as such, and may well be where the index says.
        let every = || index.tensors().iter().map(|t| (t.name.as_str(), t.shard)).collect();
        if found.is_some() && all.get_or_insert_with(every).contains(&(&*mapped.name, *shard)) {
            continue;
        }
        let said = cut(name(mapped.shard));
        let f = match found {
            Some(t) => {
                let place = opened.get(t.shard).copied().unwrap_or_default();
                Finding::new(&INDEX_TENSOR_ELSEWHERE, "it lies in another shard than the index says")
                    .versus(said, cut(place))
            }
            None => Finding::new(
                &INDEX_TENSOR_MISSING,
                format!("it is missing: the index promises it in {said}, which does not hold it"),
            ),
        };
        findings
            .push(f.file(file).at(mapped.at).tensor(&*mapped.name).advice("fetch index and shards again"));
    }
    if met == index.len() {
        return;
    }
    let unlisted = |t: &&TensorInfo| !map.by_name.contains_key(t.name.as_str());
    for tensor in index.tensors().iter().filter(unlisted) {
        let f = Finding::new(&INDEX_TENSOR_UNLISTED, format!("{file} does not name it"));
        let place = opened.get(tensor.shard).copied().unwrap_or_default();
        findings.push(f.file(place).at(tensor.entry_at).tensor(&tensor.name));
    }
}

/// Fewer headers than this are read sooner than threads are started.
const FEW: usize = 8;

/// The set that the numbers in its files' names make up.
pub(super) fn from_numbers(bundle: &Bundle, names: &[String], mut findings: Findings) -> Result<Source> {
    let mut numbered: Vec<(Numbered<'_>, &str)> =
        names.iter().filter_map(|n| Some((Numbered::parse(n)?, n.as_str()))).collect();
    numbered.sort_by_key(|(n, _)| n.number);
    let open = |(_, name): &(Numbered<'_>, &str)| open_shard(bundle.folder(), name);
    let opened: Vec<Result<Opened, Fault>> = match numbered.len() {
        ..FEW => numbered.iter().map(open).collect(),
        _ => on_all_cores(|| numbered.par_iter().map(open).collect()),
    };
    let mut parts = Vec::with_capacity(opened.len());
    for (outcome, (_, name)) in opened.into_iter().zip(&numbered) {
        match outcome {
            Ok(shard) => {
                findings.absorb(shard.findings);
                parts.push((shard.file, shard.header));
            }
            Err(Fault::Damaged(finding)) => findings.push(*finding),
            Err(Fault::Missing | Fault::Name(_)) => {
                findings.push(Finding::new(&SHARD_MISSING, "the shard is gone").file(*name));
            }
        }
    }
    let numbers: Vec<u64> = numbered.iter().map(|(n, _)| n.number).collect();
    if let Some((one, name)) = numbered.first() {
        let gaps = unused(&numbers, one.total);
        let missing = gaps
            .iter()
            .fold(0u64, |n, (from, to)| n.saturating_add(to.saturating_sub(*from)).saturating_add(1));
        if missing > 0 {
            let first = gaps.iter().flat_map(|(from, to)| *from..=*to).take(3);
            let first: Vec<String> = first.map(|n| one.name(n)).collect();
            let message = missing_message((missing, one.total), &first, &gaps, None);
            let f = Finding::new(&SHARD_MISSING, message).file(*name);
            findings.push(f.advice("fetch what is missing into the folder"));
        }
        for (n, name) in numbered.iter().filter(|(n, _)| n.number > n.total) {
            let f = Finding::new(&SHARD_NUMBERING, "the number is out of range").file(*name);
            findings.push(f.versus(format!("at most {}", n.total), n.number.to_string()));
        }
    }
    if parts.is_empty() {
        return Err(Error::Malformed { findings: findings.into_vec() });
    }
    Ok(judge(bundle.folder(), parts, &mut findings).settle(findings))
}
