//! How a byte-level vocabulary splits text before merging: the rule behind each name of `tokenizer.ggml.pre`.
//!
//! GGUF keeps only a name of the rule. What it stands for is in the tokenizer.json of the models that carry it:
//! a list of patterns, applied one after the other to what the ones before left, and sometimes a normalizer.

use tokenizers::normalizers::{NFC, NormalizerWrapper};
use tokenizers::pre_tokenizers::PreTokenizerWrapper;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::sequence::Sequence;
use tokenizers::pre_tokenizers::split::{Split, SplitPattern};
use tokenizers::tokenizer::SplitDelimiterBehavior;

/// A rule: what is done to text before its parts are merged.
pub(super) struct Rule {
    /// Names in GGUF.
    pub names: &'static [&'static str],
    /// Patterns whose matches stand alone.
    splits: &'static [&'static str],
    /// Whether text is brought into Unicode's form NFC first.
    nfc: bool,
    /// Whether a part that is a token is taken as it is, whatever the merges say.
    pub ignore_merges: bool,
    /// Whether the text begins with the begin-of-text token where the file does not say.
    pub add_bos: bool,
}

const GPT2: &str = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+";
const LLAMA3: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN2: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const QWEN35: &str = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const TEKKEN: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const GPT4O: &str = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+";
const DEEPSEEK_V3: &str = r##"[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"##;
/// Letters that have a case, as the vocabulary's own pattern lists them.
const DEEPSEEK_LETTERS: &str = r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝ\x{1F5F}-\x{1F7D}ᾀ-ᾴᾶ-ᾼ\x{1FBE}ῂ-ῄῆ-ῌῐ-\x{1FD3}ῖ-\x{1FDB}ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ\x{2126}ℨ\x{212A}-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤⳫ-ⳮⳲⳳꙀ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ\x{10400}-\x{1044F}\x{104B0}-\x{104D3}\x{104D8}-\x{104FB}\x{10C80}-\x{10CB2}\x{10CC0}-\x{10CF2}\x{118A0}-\x{118DF}\x{1E900}-\x{1E943}]+";

const PLAIN: Rule = Rule { names: &[], splits: &[GPT2], nfc: false, ignore_merges: false, add_bos: false };

/// Every rule that is known.
pub(super) const RULES: &[Rule] = &[
    Rule {
        names: &[
            "gpt-2",
            "phi-2",
            "mpt",
            "olmo",
            "jais",
            "trillion",
            "granite-docling",
            "jina-es",
            "jina-de",
            "jina-v2-es",
            "jina-v2-de",
            "gigachat",
            "mellum",
            "modern-bert",
            "roberta-bpe",
            "exaone4",
        ],
        ..PLAIN
    },
    Rule {
        names: &["llama-bpe", "llama3", "llama-v3", "falcon3", "falcon-h1", "pixtral", "midm-2.0", "lfm2"],
        splits: &[LLAMA3],
        ignore_merges: true,
        add_bos: true,
        ..PLAIN
    },
    Rule { names: &["dbrx", "smaug-bpe", "chatglm-bpe", "glm4"], splits: &[LLAMA3], ..PLAIN },
    Rule { names: &["qwen2", "deepseek-r1-qwen", "megrez"], splits: &[QWEN2], nfc: true, ..PLAIN },
    Rule { names: &["stablelm2", "hunyuan", "grok-2"], splits: &[QWEN2], ..PLAIN },
    Rule { names: &["qwen35"], splits: &[QWEN35], nfc: true, ..PLAIN },
    Rule {
        names: &["smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"],
        splits: &[r"\p{N}", GPT2],
        ..PLAIN
    },
    Rule { names: &["falcon"], splits: &[r"[\p{P}\$\+<=>\^~\|`]+", GPT2, "[0-9][0-9][0-9]"], ..PLAIN },
    Rule {
        names: &["deepseek-llm"],
        splits: &[
            r"[\r\n]",
            DEEPSEEK_LETTERS,
            r"\s?[!-/:-~！-／：-～‘-‟\x{3000}-。]+",
            r"\s+$",
            r"[一-龥\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
            r"\p{N}",
        ],
        ..PLAIN
    },
    Rule {
        names: &["deepseek-coder"],
        splits: &[
            r"[\r\n]",
            r"\s?\p{L}+",
            r"\s?\p{P}+",
            r"[一-龥\x{0800}-\x{4E00}\x{AC00}-\x{D7FF}]+",
            r"\p{N}",
        ],
        ..PLAIN
    },
    Rule {
        names: &["deepseek-v3", "hunyuan-dense"],
        splits: &[r"\p{N}{1,3}", r"[一-龥\x{3040}-\x{309F}\x{30A0}-\x{30FF}]+", DEEPSEEK_V3],
        ..PLAIN
    },
    Rule { names: &["tekken"], splits: &[TEKKEN], ignore_merges: true, add_bos: true, ..PLAIN },
    Rule { names: &["gpt-4o"], splits: &[GPT4O], ignore_merges: true, ..PLAIN },
    Rule { names: &["llama4", "kanana2"], splits: &[GPT4O], ..PLAIN },
    Rule {
        names: &["bloom", "poro-chat", "gpt3-finnish"], splits: &[r" ?[^(\s|.,!?…。，、।۔،)]+"], ..PLAIN
    },
    Rule { names: &["viking"], splits: &[r" ?[^(\s|.,!?…。，、।۔،)]+", r"\p{N}"], ..PLAIN },
    Rule {
        names: &["default"],
        splits: &[r"[\p{P}\$\+<=>\^~\|]+", GPT2, r"\p{N}+", "[0-9][0-9][0-9]"],
        ..PLAIN
    },
];

/// The rule of a name.
pub(super) fn rule(name: &str) -> Option<&'static Rule> {
    RULES.iter().find(|rule| rule.names.contains(&name))
}

/// All names, in order.
pub(super) fn known() -> Vec<&'static str> {
    let mut names: Vec<&str> = RULES.iter().flat_map(|rule| rule.names.iter().copied()).collect();
    names.sort_unstable();
    names
}

impl Rule {
    pub fn normalizer(&self) -> Option<NormalizerWrapper> {
        self.nfc.then_some(NormalizerWrapper::NFC(NFC))
    }

    /// The patterns, then bytes as characters.
    pub fn pre_tokenizer(&self) -> tokenizers::Result<PreTokenizerWrapper> {
        let mut steps = Vec::new();
        for pattern in self.splits {
            let pattern = SplitPattern::Regex((*pattern).to_owned());
            steps.push(Split::new(pattern, SplitDelimiterBehavior::Isolated, false)?.into());
        }
        steps.push(ByteLevel::new(false, false, false).into());
        Ok(Sequence::new(steps).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::vocabulary_names::is_known_pre_tokenizer;

    #[test]
    fn every_rule_can_be_built_and_every_name_stands_once() {
        assert!(RULES.iter().all(|rule| rule.pre_tokenizer().is_ok()));
        let names = known();
        assert!(names.windows(2).all(|pair| pair[0] < pair[1]), "{names:?}");
        for name in names {
            let own = ["jina-v2-es", "jina-v2-de"].contains(&name);
            assert!(own || is_known_pre_tokenizer(name), "{name}");
        }
    }
}
