//! What a vocabulary takes in memory, by what can be told of it without reading it.

use crate::error::Result;
use crate::metadata::Metadata;
use crate::source::{Dialect, WeightSource};

/// What a vocabulary takes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Vocabulary {
    /// Bytes while it is used.
    pub held: u64,
    /// Bytes when there are most of them, while it is read.
    pub reading: u64,
}

impl Vocabulary {
    /// That of a model: of GGUF's lists by their lengths, of a tokenizer.json by its own. Nothing where there is none.
    pub fn of(source: &dyn WeightSource) -> Result<Vocabulary> {
        if source.dialect() == Dialect::Gguf {
            return Ok(Vocabulary::of_lists(source.metadata()));
        }
        let file = source.beside("tokenizer.json")?;
        Ok(file.map_or(Vocabulary::default(), |file| Vocabulary::of_file(file.len())))
    }

    fn of_lists(metadata: &Metadata) -> Vocabulary {
        let len = |key: &str| metadata.list(key).map_or(0, |list| list.len());
        let tokens = len("tokenizer.ggml.tokens");
        let merges = match (len("tokenizer.ggml.merges"), metadata.text("tokenizer.ggml.model")) {
            // Found from the scores: whatever two tokens make a third.
            (0, Some("llama")) => tokens.saturating_mul(2),
            (merges, _) => merges,
        };
        Vocabulary::of_counts(tokens, merges)
    }

    /// Of so many tokens and merges: two maps between tokens and ids and one of merges, whose room doubles when they are
    /// seven eighths full, and for each entry its text and what the allocator cannot give back. Measured over eight
    /// vocabularies of 30,000 to 152,000 tokens: within 5 % while it is held.
    pub fn of_counts(tokens: u64, merges: u64) -> Vocabulary {
        let room = |n: u64| {
            if n == 0 { 0 } else { (n.saturating_mul(8) / 7).checked_next_power_of_two().unwrap_or(n) }
        };
        let times = |n: u64, bytes: u64| n.saturating_mul(bytes);
        let maps = times(room(tokens), 50).saturating_add(times(room(merges), 17));
        let held = maps.saturating_add(times(tokens, 122)).saturating_add(times(merges, 71));
        // While it is read, merges are pairs of texts as well.
        Vocabulary { held, reading: held.saturating_add(times(merges, 76)) }
    }

    /// Of a tokenizer.json of so many bytes: what reading it leaves behind is more than the vocabulary itself. Measured
    /// over files of 9 to 28 MB: within a third.
    pub fn of_file(bytes: u64) -> Vocabulary {
        let tenths = |n: u64| bytes.saturating_mul(n) / 10;
        Vocabulary { held: tenths(85), reading: tenths(140) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that `scantling tokenize` took of its own with GGUF's lists, less what it takes with next to none (in KiB,
    /// as Linux counts them): held, and at most.
    #[test]
    fn measured_vocabularies_are_told_within_an_eighth() {
        let measured = [
            ("gpt-2", 50_257, 50_000, 13_750, 17_070),
            ("smollm2", 49_152, 48_900, 13_600, 17_056),
            ("deepseek-llm", 102_400, 99_757, 27_760, 34_700),
            ("qwen2", 151_936, 151_387, 45_764, 58_400),
            ("llama 3", 128_256, 280_147, 56_216, 76_500),
            ("llama 2", 32_000, 64_000, 13_020, 17_600),
            ("bge", 30_522, 0, 6_928, 7_670),
        ];
        for (name, tokens, merges, held, reading) in measured {
            let told = Vocabulary::of_counts(tokens, merges);
            for (told, measured) in [(told.held, held), (told.reading, reading)] {
                let ratio = told as f64 / (measured * 1024) as f64;
                assert!((0.88..1.09).contains(&ratio), "{name}: {told} bytes, measured {measured} KiB");
            }
        }
    }
}
