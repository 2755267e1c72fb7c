//! Pages: weights that a run will read are best on huge pages, and there before the first product wants them.
//!
//! A processor keeps few translations of addresses at hand, and its prefetchers stop at the end of a page; a
//! product that reads gigabytes once from pages of 4 KiB spends a third of its time on that. Linux maps a file in
//! pages of 2 MiB if it was advised so before the file was first read, so that the page cache holds it in pieces of
//! that size. Everything here is advice: a system that does not take it gives the same numbers, later.

use crate::bundle::{self, File};
use crate::error::{Error, Result};
use crate::ledger::Share;
use crate::matrix::floats_mut;
use memmap2::{Mmap, MmapMut, MmapOptions};
use std::ops::{Deref, DerefMut, Range};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// How the weights of a model have come into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prepared {
    /// Bytes of all files.
    pub bytes: u64,
    /// How many of them are in memory and mapped; `None` where the system does not say.
    pub resident: Option<u64>,
    /// How many of them lie on huge pages; `None` where the system does not say.
    pub huge: Option<u64>,
    /// How long it took to have them all there; `None` if they were left to come when they are read.
    pub populated: Option<Duration>,
}

impl Prepared {
    /// The share of what is resident that lies on huge pages, 0 to 1.
    pub fn huge_share(&self) -> Option<f64> {
        match (self.huge, self.resident) {
            (Some(huge), Some(resident)) if resident > 0 => Some(huge as f64 / resident as f64),
            _ => None,
        }
    }
}

/// Maps the files of a model for a run: huge pages are asked for, then every page is brought in on all cores, so that
/// no product waits for one. Files that memory does not hold beside what is there are left to come as they are read.
///
/// To look at a model ([`File::bytes`] alone) needs none of this.
pub fn prepare(files: &[Arc<File>]) -> Result<Prepared> {
    let bytes = files.iter().map(|f| f.len()).sum();
    let mut maps = Vec::new();
    for file in files {
        // A file of no bytes has no map, and nothing in it to bring in.
        if file.is_empty() {
            continue;
        }
        if let Some(map) = file.map()? {
            advice::huge(map);
            maps.push(map);
        }
    }
    let fits = available().is_none_or(|free| bytes <= free);
    let start = Instant::now();
    let all = fits && maps.iter().all(|map| advice::populate(map));
    let populated = all.then(|| start.elapsed());
    let ranges: Vec<Range<usize>> = maps.iter().map(|map| addresses(map)).collect();
    let told = bundle::system_text("/proc/self/smaps").map(|smaps| resident(&smaps, &ranges));
    Ok(Prepared { bytes, resident: told.map(|t| t.0), huge: told.map(|t| t.1), populated })
}

/// Bytes that can still be had without others being thrown out, where the system says.
pub fn available() -> Option<u64> {
    meminfo("MemAvailable:")
}

/// Bytes of memory that the machine has, where the system says.
pub fn total() -> Option<u64> {
    meminfo("MemTotal:")
}

fn meminfo(field: &str) -> Option<u64> {
    let text = bundle::system_text("/proc/meminfo")?;
    text.lines().find_map(|line| kilobytes(line, field))
}

/// So many zeros that are nowhere: addresses without memory, as long as they are only read by those who do not look.
pub(crate) fn nothing(len: usize) -> Result<Mmap> {
    let failed = |e| Error::io(format!("{len} bytes of addresses"), "cannot get them", e);
    let map = MmapOptions::new().len(len.max(1)).no_reserve_swap().map_anon().map_err(failed)?;
    map.make_read_only().map_err(failed)
}

fn addresses(bytes: &[u8]) -> Range<usize> {
    let start = bytes.as_ptr().addr();
    start..start + bytes.len()
}

/// Bytes of some addresses that are mapped, and how many of those by huge pages, from Linux's list of maps.
fn resident(smaps: &str, ranges: &[Range<usize>]) -> (u64, u64) {
    let (mut mapped, mut huge) = (0, 0);
    let mut ours = false;
    for line in smaps.lines() {
        if let Some(range) = map_range(line) {
            ours = ranges.iter().any(|r| r.start < range.end && range.start < r.end);
        } else if ours {
            mapped += kilobytes(line, "Rss:").unwrap_or(0);
            let fields = ["FilePmdMapped:", "ShmemPmdMapped:", "AnonHugePages:"];
            huge += fields.iter().filter_map(|f| kilobytes(line, f)).sum::<u64>();
        }
    }
    (mapped, huge)
}

/// The addresses of a line that begins a map: `7f00-7f10 r--p 00000000 fe:00 12  /model`.
fn map_range(line: &str) -> Option<Range<usize>> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    Some(usize::from_str_radix(start, 16).ok()?..usize::from_str_radix(end, 16).ok()?)
}

/// The number of a line `Field:  12 kB`, in bytes.
fn kilobytes(line: &str, field: &str) -> Option<u64> {
    let number = line.strip_prefix(field)?.trim().strip_suffix("kB")?;
    number.trim().parse::<u64>().ok().map(|n| n * 1024)
}

#[cfg(target_os = "linux")]
mod advice {
    use super::{Mmap, MmapMut};
    use memmap2::Advice;
    use rayon::prelude::*;

    /// What one call brings in: enough to be worth a call, little enough that all cores have work.
    const PIECE: usize = 16 << 20;

    pub(super) fn huge(map: &Mmap) {
        // A kernel built without huge pages refuses, and the map is as good as it was.
        let _ = map.advise(Advice::HugePage);
    }

    pub(super) fn huge_mut(map: &MmapMut) {
        let _ = map.advise(Advice::HugePage);
    }

    /// Brings in every page; false from a kernel (before 5.14) that cannot be told to.
    pub(super) fn populate(map: &Mmap) -> bool {
        let pieces: Vec<usize> = (0..map.len()).step_by(PIECE).collect();
        let bring =
            |at: &usize| map.advise_range(Advice::PopulateRead, *at, PIECE.min(map.len() - at)).is_ok();
        crate::parallel::on_all_cores(|| pieces.par_iter().all(bring))
    }
}

#[cfg(not(target_os = "linux"))]
mod advice {
    use super::{Mmap, MmapMut};

    pub(super) fn huge(_: &Mmap) {}

    pub(super) fn huge_mut(_: &MmapMut) {}

    pub(super) fn populate(_: &Mmap) -> bool {
        false
    }
}

/// Memory of its own for much data, on huge pages where they can be had; all zeros at first.
pub struct HugeBuf {
    map: MmapMut,
    _counted: Share,
}

impl HugeBuf {
    /// So many bytes.
    pub fn zeroed(len: usize) -> Result<HugeBuf> {
        let failed = |e| Error::io(format!("{len} bytes of memory"), "cannot get them", e);
        let map = MmapMut::map_anon(len.max(1)).map_err(failed)?;
        advice::huge_mut(&map);
        Ok(HugeBuf { map, _counted: Share::of(len) })
    }

    /// As numbers; panics if the length is no multiple of four.
    pub fn floats_mut(&mut self) -> &mut [f32] {
        floats_mut(&mut self.map)
    }

    /// The share of what has been written that lies on huge pages, where the system says.
    pub fn huge_share(&self) -> Option<f64> {
        let smaps = bundle::system_text("/proc/self/smaps")?;
        let (resident, huge) = resident(&smaps, &[addresses(&self.map)]);
        let told = Prepared { resident: Some(resident), huge: Some(huge), ..Prepared::default() };
        told.huge_share()
    }
}

impl Deref for HugeBuf {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.map
    }
}

impl DerefMut for HugeBuf {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.map
    }
}

#[cfg(test)]
#[allow(clippy::disallowed_methods)] // a test writes the file that it maps
mod tests {
    use super::*;

    const SMAPS: &str = "\
7f0000000000-7f0000400000 r--p 00000000 fe:00 12   /models/a b.gguf
Size:               4096 kB
Rss:                4096 kB
FilePmdMapped:      2048 kB
VmFlags: rd mr me
7f0000400000-7f0000800000 rw-p 00000000 00:00 0
Rss:                1024 kB
AnonHugePages:         0 kB
";

    #[test]
    fn huge_pages_are_counted_for_the_maps_asked_about() {
        let at = |start: usize| start..start + 16;
        assert_eq!(resident(SMAPS, &[at(0x7f00_0000_0010)]), (4 << 20, 2 << 20));
        assert_eq!(resident(SMAPS, &[at(0x7f00_0050_0000)]), (1 << 20, 0));
        assert_eq!(resident(SMAPS, &[at(0x7f00_0080_0000)]), (0, 0));
        assert_eq!(resident(SMAPS, &[]), (0, 0));
    }

    #[test]
    fn a_prepared_file_is_there_and_reads_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("weights");
        let bytes: Vec<u8> = (0..3_000_000u32).map(|i| (i % 253) as u8).collect();
        std::fs::write(&path, &bytes).unwrap();
        let file = Arc::new(File::on_disk("weights", &path).unwrap());
        let none = Arc::new(File::from_bytes("none", Vec::new()));
        let prepared = prepare(&[file.clone(), none]).unwrap();
        assert_eq!(prepared.bytes, 3_000_000);
        assert_eq!(file.bytes(0..3_000_000).unwrap(), bytes);
        if let (Some(resident), Some(_)) = (prepared.resident, prepared.populated) {
            assert!(resident >= 3_000_000, "{prepared:?}");
        }
        assert!(prepared.huge_share().is_none_or(|share| (0.0..=1.0).contains(&share)), "{prepared:?}");
    }

    #[test]
    fn a_huge_buffer_is_memory() {
        let mut buffer = HugeBuf::zeroed(4 << 20).unwrap();
        assert!(buffer.iter().all(|b| *b == 0));
        buffer.floats_mut()[7] = 1.0;
        assert_eq!(buffer[28..32], 1.0f32.to_ne_bytes());
        assert!(buffer.huge_share().is_none_or(|share| (0.0..=1.0).contains(&share)));
    }
}
