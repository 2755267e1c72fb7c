//! Whether the same ids are the same text to both: tokens, those with a meaning, and how a text is split.

use crate::check::Checked;
use crate::codes;
use crate::finding::Finding;

codes! {
    pub static VOCABULARY_DIFFERS = Error, Tokenizer, "diff-vocabulary",
        "an id is another token in the second model",
        "The rows of the embedding belong to tokens by their place: where two tokens changed places, or one was dropped, the \
         same weights read and write another text.";
    pub static SPECIAL_DIFFER = Error, Tokenizer, "diff-special-token",
        "the token that begins or ends a text is another one in the second model",
        "With another end of text a model talks on, or stops too early.";
    pub static SPLIT_DIFFERS = Error, Tokenizer, "diff-tokenization",
        "the same text becomes other ids in the second model",
        "The tokens are the same, but merges, scores or the rule that splits text first are not. Text that was made of the \
         vocabulary's own tokens was read by both.";
    pub static VOCABULARY_LOST = Warning, Tokenizer, "diff-vocabulary-lost",
        "one of the two models has no vocabulary",
        "Without one, ids cannot be told to be the same tokens, and the file cannot read text.";
    pub static VOCABULARY_UNUSABLE = Warning, Tokenizer, "diff-vocabulary-unusable",
        "the vocabularies could not be compared",
        "One of them is of a kind that is not known here, or is damaged; `scantling check` tells more.";
}

/// How far two vocabularies were compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VocabularyCompared {
    /// Ids that were held against each other; `None` where the two could not be compared.
    pub tokens: Option<usize>,
    /// Those that are another token in the second.
    pub differing: usize,
    /// Why they were not compared.
    pub why: Option<String>,
}

impl VocabularyCompared {
    fn not(why: &str) -> VocabularyCompared {
        VocabularyCompared { why: Some(why.to_owned()), ..VocabularyCompared::default() }
    }
}

/// Holds the two vocabularies against each other.
pub(super) fn compare(sides: [&Checked; 2]) -> (VocabularyCompared, Vec<Finding>) {
    let lost = |which: &str, other: &str| {
        let message = format!("the {which} model has no vocabulary, and the {other} has one");
        let finding = Finding::new(&VOCABULARY_LOST, message);
        let advice = "convert with the files of the tokenizer beside the weights";
        (VocabularyCompared::not("one of the two has none"), vec![finding.advice(advice)])
    };
    match sides.map(|side| side.report.vocabulary.is_some()) {
        [false, false] => (VocabularyCompared::not("neither has one"), Vec::new()),
        [false, true] => lost("first", "second"),
        [true, false] => lost("second", "first"),
        [true, true] => both(sides),
    }
}

#[cfg(not(feature = "tokenizer"))]
fn both(_: [&Checked; 2]) -> (VocabularyCompared, Vec<Finding>) {
    (VocabularyCompared::not("this program was built without tokenizers"), Vec::new())
}

#[cfg(feature = "tokenizer")]
use with::both;

#[cfg(feature = "tokenizer")]
mod with {
    use super::*;
    use crate::error::Result;
    use crate::source::Dialect;
    use crate::tokenizer::{Reading, SpecialIds, Tokenizer};
    use std::collections::BTreeSet;

    /// Ids that are looked at: far more than any vocabulary has.
    const MOST_IDS: u32 = 1 << 22;

    /// Tokens that a text is made of which both read.
    const PROBED: usize = 2048;

    /// Where texts of many kinds are split differently by different rules.
    const TEXT: &str = "It's 12345.678 o'clock, isn't it?  Two  spaces,\ttabs\n\nand\r\nlines; Ångström naïve 東京タワー Привет 안녕 \
                        مرحبا 🙂👩‍🚀 x_i+=f(a[0],b{1});  // TODO: don't\n  \n";

    /// What of a vocabulary is held against another.
    struct Known {
        pieces: Vec<Option<String>>,
        ids: SpecialIds,
    }

    impl Known {
        fn of(tokenizer: &Tokenizer) -> Known {
            let (mut pieces, mut left) = (Vec::new(), tokenizer.vocab_size());
            // There may be ids without a token between the others.
            for id in 0..MOST_IDS {
                if left == 0 {
                    break;
                }
                let piece = tokenizer.piece(id).map(|piece| piece.replace('▁', " "));
                left = left.saturating_sub(usize::from(piece.is_some()));
                pieces.push(piece);
            }
            Known { pieces, ids: tokenizer.special().clone() }
        }

        fn piece(&self, id: usize) -> Option<&str> {
            self.pieces.get(id)?.as_deref()
        }
    }

    /// A text of tokens from all over a vocabulary, behind one that rules differ about.
    fn probe(tokenizer: &Tokenizer, known: &Known) -> Result<String> {
        let special: BTreeSet<u32> = tokenizer.end_ids().into_iter().collect();
        let step = known.pieces.len().div_ceil(PROBED).max(1);
        let ids = (0u32..).zip(&known.pieces).step_by(step).filter(|(id, piece)| {
            // Special tokens are heard in a text, and are compared by themselves.
            !special.contains(id)
                && piece.as_ref().is_some_and(|p| !p.starts_with('<') && !p.starts_with('['))
        });
        let ids: Vec<u32> = ids.map(|(id, _)| id).collect();
        Ok(format!("{TEXT}{}", tokenizer.decode(&ids, true)?))
    }

    pub(super) fn both(sides: [&Checked; 2]) -> (VocabularyCompared, Vec<Finding>) {
        if same_lists(sides) {
            let tokens = sides[0].report.vocabulary.as_ref().and_then(|v| usize::try_from(v.tokens?).ok());
            return (VocabularyCompared { tokens, ..VocabularyCompared::default() }, Vec::new());
        }
        let mut compared = VocabularyCompared::default();
        let findings = compared.tokenizers(sides).unwrap_or_else(|(which, why)| {
            compared = VocabularyCompared::not(&format!("that of the {which} model cannot be used"));
            vec![Finding::new(&VOCABULARY_UNUSABLE, format!("that of the {which} model: {why}"))]
        });
        (compared, findings)
    }

    /// Whether two GGUF files say the same of their vocabularies, word by word.
    fn same_lists(sides: [&Checked; 2]) -> bool {
        let all = sides.map(|side| {
            let entries = side.source.metadata().entries().iter();
            entries.filter(|e| e.key.starts_with("tokenizer.ggml.")).collect::<Vec<_>>()
        });
        let [a, b] = all;
        let gguf = sides.iter().all(|side| side.source.dialect() == Dialect::Gguf);
        let other = sides[1].source.metadata();
        gguf && a.len() == b.len()
            && a.iter().all(|e| other.get(&e.key).is_some_and(|v| super::super::facts::same(&e.value, v)))
    }

    impl VocabularyCompared {
        /// One tokenizer after the other, since they are large.
        fn tokenizers(&mut self, sides: [&Checked; 2]) -> Result<Vec<Finding>, (&'static str, String)> {
            let fault = |which| move |error: crate::error::Error| (which, error.to_string());
            let split = |tokenizer: &Tokenizer, text: &str| tokenizer.encode(text, Reading::TEMPLATED);
            let (a, text, ours) = {
                let tokenizer = Tokenizer::of(sides[0].source.as_ref()).map_err(fault("first"))?;
                let known = Known::of(&tokenizer);
                let text = probe(&tokenizer, &known).map_err(fault("first"))?;
                let tokens = split(&tokenizer, &text).map_err(fault("first"))?;
                (known, text, tokens)
            };
            let tokenizer = Tokenizer::of(sides[1].source.as_ref()).map_err(fault("second"))?;
            let b = Known::of(&tokenizer);
            let mut findings: Vec<Finding> = self.pieces(&a, &b).into_iter().collect();
            findings.extend(specials(&a, &b));
            if self.differing == 0 {
                let theirs = split(&tokenizer, &text).map_err(fault("second"))?;
                let apart = ours.iter().zip(&theirs).find(|(one, other)| one.id != other.id);
                if let Some((one, other)) = apart {
                    let place = text.get(one.bytes.start..).unwrap_or_default();
                    let there: String = place.chars().take(24).collect();
                    let message = format!(
                        "where a text goes on with {there:?}, the first model reads token {} {:?} and the second {} {:?}",
                        one.id, one.piece, other.id, other.piece
                    );
                    let f = Finding::new(&SPLIT_DIFFERS, message);
                    findings
                        .push(f.advice("compare tokenizer.ggml.pre, merges and scores with tokenizer.json"));
                }
            }
            Ok(findings)
        }

        /// Tokens that have changed places, or are in one alone.
        fn pieces(&mut self, a: &Known, b: &Known) -> Option<Finding> {
            // Rows without a token are given names that say so.
            let fills = |piece: Option<&str>, id: usize| piece.is_none_or(|p| p == format!("[PAD{id}]"));
            let all = a.pieces.len().max(b.pieces.len());
            let differing: Vec<usize> = (0..all)
                .filter(|&id| {
                    let (one, other) = (a.piece(id), b.piece(id));
                    one != other && !(fills(one, id) && fills(other, id))
                })
                .collect();
            (self.tokens, self.differing) = (Some(all), differing.len());
            if differing.is_empty() {
                return None;
            }
            let told = |piece: Option<&str>| piece.map_or("no token".to_owned(), |p| format!("{p:?}"));
            let message = format!("{} of {all} ids are other tokens in the second model", differing.len());
            let each = differing.iter().take(1000).map(|&id| {
                let message = format!("id {id} is another token");
                Finding::new(&VOCABULARY_DIFFERS, message).versus(told(a.piece(id)), told(b.piece(id)))
            });
            let f = Finding::new(&VOCABULARY_DIFFERS, message).because_of_this(each.collect());
            Some(f.advice("convert again with the tokenizer that belongs to the weights"))
        }
    }

    /// Tokens with a meaning that are others; what one side does not say is no difference.
    fn specials(a: &Known, b: &Known) -> Vec<Finding> {
        let each = [("begins", a.ids.bos, b.ids.bos), ("ends", a.ids.eos, b.ids.eos)];
        let apart = each.into_iter().filter_map(|(what, one, other)| {
            let (one, other) = (one?, other?);
            let told = |known: &Known, id: u32| {
                let piece = usize::try_from(id).ok().and_then(|id| known.piece(id));
                format!("{id}{}", piece.map_or(String::new(), |piece| format!(" {piece:?}")))
            };
            let message = format!("the token that {what} a text is another one");
            let f = Finding::new(&SPECIAL_DIFFER, message).versus(told(a, one), told(b, other));
            (one != other).then(|| f.advice("set the id to that of the first model"))
        });
        apart.collect()
    }
}
