//! What an input led to, boiled down to numbers.
//!
//! There is no instrumentation: an input counts as new if it leads to messages or findings, or a set of
//! findings, that no input before it led to. Numbers and names from the input are left out, as far as they can be
//! told; where they cannot, whoever keeps count has to stop counting at some point, kind by kind.

use scantling_core::error::Error;
use scantling_core::finding::Finding;

/// Something that an input led to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Feature {
    /// What kind of thing it is.
    pub kind: u64,
    /// Which one of the kind.
    pub which: u64,
    /// Whether the kind has few of them, none of which is made of the input's own words.
    pub plain: bool,
}

/// What an input led to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    features: Vec<Feature>,
    codes: Vec<&'static str>,
}

impl Outcome {
    /// Each thing that happened, once, in no particular order.
    pub fn features(&self) -> &[Feature] {
        &self.features
    }

    /// The codes of the findings, each once.
    pub fn codes(&self) -> &[&'static str] {
        &self.codes
    }

    /// One number for the set of all that is plain.
    pub fn hash(&self) -> u64 {
        let mut sorted: Vec<u64> = self.features.iter().filter(|f| f.plain).map(|f| f.which).collect();
        sorted.sort_unstable();
        sorted.iter().fold(FNV_START, |hash, feature| fnv(hash, &feature.to_le_bytes()))
    }

    fn push(&mut self, kind: &str, what: &[u8], plain: bool) {
        let kind = fnv(fnv(FNV_START, kind.as_bytes()), &[u8::from(plain)]);
        let feature = Feature { kind, which: fnv(kind, what), plain };
        if !self.features.contains(&feature) {
            self.features.push(feature);
        }
    }

    /// Adds something that happened, as a kind and a word of ours.
    pub fn add(&mut self, kind: &str, what: &str) {
        self.push(kind, what.as_bytes(), true);
    }

    /// Adds something that happened, as a kind and words that may come from the input.
    pub fn add_text(&mut self, kind: &str, what: &str) {
        self.push(kind, what.as_bytes(), false);
    }

    /// Adds how many there were of something, to the nearest power of two.
    pub fn count(&mut self, kind: &str, n: u64) {
        let size = u64::BITS.saturating_sub(n.leading_zeros());
        self.push(kind, &size.to_le_bytes(), false);
    }

    /// Adds a finding and what follows from it. Its text is made as well, as a program would.
    pub fn finding(&mut self, finding: &Finding) {
        std::hint::black_box(finding.to_string());
        if !self.codes.contains(&finding.code.id) {
            self.codes.push(finding.code.id);
        }
        let place = &finding.place;
        let filled = [
            place.file.is_some(),
            place.tensor.is_some(),
            place.field.is_some(),
            place.offset.is_some(),
            finding.expected.is_some(),
            finding.advice.is_some(),
        ];
        let filled: String = filled.iter().map(|&there| if there { '1' } else { '0' }).collect();
        self.add(finding.code.id, &filled);
        self.add(finding.code.id, finding.severity.word());
        self.add_text(finding.code.id, &shape(&finding.message));
        finding.symptoms.iter().for_each(|symptom| self.finding(symptom));
    }

    /// Adds an error.
    pub fn error(&mut self, error: &Error) {
        std::hint::black_box(error.to_string());
        match error {
            Error::Io { doing, source, .. } => self.add("io", &format!("{doing} {:?}", source.kind())),
            Error::Malformed { findings } => findings.iter().for_each(|f| self.finding(f)),
            Error::Foreign { what, .. } => self.add_text("foreign", &shape(what)),
            Error::Limit { what, .. } => self.add_text("limit", &shape(what)),
            Error::Usage(what) => self.add_text("usage", &shape(what)),
            _ => self.add("error", "of a new kind"),
        }
    }
}

/// Words of a message that are looked at.
const WORDS: usize = 8;

/// The first plain words of a message: what is left without numbers, most names, and quoted text.
fn shape(message: &str) -> String {
    let mut shape = String::new();
    let plain = |word: &&str| word.len() < 16 && word.bytes().all(|b| b.is_ascii_lowercase());
    let unquoted = message.split('"').step_by(2).flat_map(str::split_ascii_whitespace);
    for word in unquoted.filter(plain).take(WORDS) {
        shape.push_str(word);
        shape.push(' ');
    }
    shape
}

const FNV_START: u64 = 0xcbf2_9ce4_8422_2325;

/// The FNV-1a hash, continued.
fn fnv(hash: u64, bytes: &[u8]) -> u64 {
    bytes.iter().fold(hash, |hash, &b| (hash ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3))
}

/// A number for some bytes, the same on every machine: for the names of files.
pub fn hash_of(bytes: &[u8]) -> u64 {
    fnv(FNV_START, bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_names_do_not_count() {
        let a = shape("shares 12 bytes with \"blk.0\" and more");
        assert_eq!(a, "shares bytes with and more ");
        assert_eq!(a, shape("shares 99 bytes with \"a b\" and more"));
    }

    #[test]
    fn order_and_repetition_do_not_count() {
        let outcome = |words: &[&str]| {
            let mut outcome = Outcome::default();
            words.iter().for_each(|word| outcome.add("word", word));
            outcome.hash()
        };
        assert_eq!(outcome(&["a", "b", "a"]), outcome(&["b", "a"]));
        assert_ne!(outcome(&["a"]), outcome(&["b"]));
    }
}
