//! `model-00001-of-00004.safetensors`: what a shard's name says of its set.

/// A file name with its number in a set.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Numbered<'n> {
    /// What stands before the numbers.
    pub prefix: &'n str,
    /// Which one it is.
    pub number: u64,
    /// How many there are.
    pub total: u64,
    /// Digits of each number.
    pub width: usize,
    /// `.safetensors`, in the name's own case.
    pub suffix: &'n str,
}

/// The suffix of this format's files.
pub(super) const SUFFIX: &str = ".safetensors";

/// A name without a suffix, whatever its case, and the suffix.
pub(super) fn split_suffix<'n>(name: &'n str, suffix: &str) -> Option<(&'n str, &'n str)> {
    let (stem, end) = name.split_at_checked(name.len().checked_sub(suffix.len())?)?;
    end.eq_ignore_ascii_case(suffix).then_some((stem, end))
}

impl<'n> Numbered<'n> {
    /// Takes a name apart; `None` if it carries no such numbers.
    pub fn parse(name: &'n str) -> Option<Numbered<'n>> {
        let (stem, suffix) = split_suffix(name, SUFFIX)?;
        let (rest, total) = stem.rsplit_once("-of-")?;
        let (prefix, number) = rest.rsplit_once('-')?;
        // Nine digits are more files than a folder holds, and far from overflowing.
        let digits = |s: &str| s.len() <= 9 && !s.is_empty() && s.bytes().all(|b| b.is_ascii_digit());
        if !digits(number) || !digits(total) || number.len() != total.len() {
            return None;
        }
        let (number, total, width) = (number.parse().ok()?, total.parse().ok()?, total.len());
        Some(Numbered { prefix, number, total, width, suffix })
    }

    /// Whether another file is of the same set.
    pub fn same_set(&self, other: &Numbered<'_>) -> bool {
        *self == Numbered { number: self.number, ..*other }
    }

    /// The name of another file of the set.
    pub fn name(&self, number: u64) -> String {
        let Numbered { prefix, total, width, suffix, .. } = *self;
        format!("{prefix}-{number:0width$}-of-{total:0width$}{suffix}")
    }
}

/// What is missing between two bounds, both included, as runs; `present` is sorted.
pub(super) fn gaps(present: impl Iterator<Item = u64>, first: u64, last: u64) -> Vec<(u64, u64)> {
    let mut gaps = Vec::new();
    let mut next = first;
    for number in present.chain([last.saturating_add(1)]) {
        if number > next {
            gaps.push((next, number.saturating_sub(1)));
        }
        next = next.max(number.saturating_add(1));
    }
    gaps
}

/// Numbers as runs; `numbers` is sorted.
pub(super) fn runs(numbers: impl Iterator<Item = u64>) -> Vec<(u64, u64)> {
    let mut runs: Vec<(u64, u64)> = Vec::new();
    for number in numbers {
        match runs.last_mut() {
            Some(last) if number <= last.1.saturating_add(1) => last.1 = last.1.max(number),
            _ => runs.push((number, number)),
        }
    }
    runs
}

/// Runs in words, the first eight: `2–4, 7`.
pub(super) fn shown(runs: &[(u64, u64)]) -> String {
    let mut out = String::new();
    for (i, (from, to)) in runs.iter().enumerate() {
        if i == 8 {
            out.push_str(", …");
            break;
        }
        let comma = if i == 0 { "" } else { ", " };
        let text = if from == to { format!("{comma}{from}") } else { format!("{comma}{from}–{to}") };
        out.push_str(&text);
    }
    out
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]
    use super::*;

    #[test]
    fn names_are_taken_apart_and_put_together() {
        let shard = Numbered::parse("model-00002-of-00010.SafeTensors").unwrap();
        assert_eq!((shard.prefix, shard.number, shard.total), ("model", 2, 10));
        assert_eq!(shard.name(7), "model-00007-of-00010.SafeTensors");
        assert!(shard.same_set(&Numbered::parse("model-00007-of-00010.SafeTensors").unwrap()));
        for other in [
            "model.safetensors",
            "model-00002-of-010.safetensors",
            "model-2-of-x.safetensors",
            "model-0000000001-of-0000000002.safetensors",
            "-of-.safetensors",
            "é",
        ] {
            assert!(Numbered::parse(other).is_none(), "{other}");
        }
    }

    #[test]
    fn gaps_and_runs() {
        assert_eq!(gaps([2, 3, 7].into_iter(), 1, 9), [(1, 1), (4, 6), (8, 9)]);
        assert_eq!(gaps([1, 1, 2].into_iter(), 1, 2), []);
        assert_eq!(shown(&runs([2, 3, 4, 7].into_iter())), "2–4, 7");
    }
}
