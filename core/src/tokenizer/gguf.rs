//! A vocabulary out of GGUF's lists, as objects of the `tokenizers` library.

use super::lists::{Lists, kind};
use super::pre;
use super::special::{SpecialIds, TURN_ENDS};
use crate::check::{TOKENIZER_ID, TOKENIZER_LIST, TOKENIZER_MERGE, TOKENIZER_MODEL};
use crate::error::{Error, Result};
use crate::metadata::{Item, Value};
use crate::parallel::both;
use std::ops::ControlFlow;
use tokenizers::decoders::DecoderWrapper;
use tokenizers::decoders::byte_fallback::ByteFallback;
use tokenizers::decoders::fuse::Fuse;
use tokenizers::decoders::sequence::Sequence as Decoders;
use tokenizers::decoders::strip::Strip;
use tokenizers::models::bpe::{BPE, Vocab};
use tokenizers::models::unigram::Unigram;
use tokenizers::models::wordpiece::WordPiece;
use tokenizers::normalizers::{BertNormalizer, NormalizerWrapper, Precompiled, Prepend, Replace, Sequence};
use tokenizers::pre_tokenizers::bert::BertPreTokenizer;
use tokenizers::pre_tokenizers::byte_level::ByteLevel;
use tokenizers::pre_tokenizers::metaspace::{Metaspace, PrependScheme};
use tokenizers::processors::PostProcessorWrapper;
use tokenizers::processors::sequence::Sequence as Processors;
use tokenizers::processors::template::{SpecialToken, TemplateProcessing};
use tokenizers::{AddedToken, Tokenizer as Library};

/// Kinds of vocabularies that are built here.
const MODELS: [&str; 4] = ["bert", "gpt2", "llama", "t5"];

/// The mark of a space in SentencePiece's tokens.
const MARK: &str = "\u{2581}";

type Made = (Library, SpecialIds);

/// A vocabulary that was read.
struct Vocabulary<'a> {
    lists: &'a Lists<'a>,
    tokens: Vec<String>,
    kinds: Vec<i64>,
    ids: SpecialIds,
}

/// Builds what the metadata tells of.
pub(super) fn build(lists: &Lists<'_>) -> Result<Made> {
    let key = "tokenizer.ggml.model";
    let model = match lists.metadata.get(key) {
        Some(Value::Text(model)) => model.clone(),
        Some(other) => {
            return Err(lists.fault(&TOKENIZER_MODEL, key, format!("must be text, not {}", other.kind())));
        }
        None => return Err(lists.fault(&TOKENIZER_MODEL, key, "is missing: the file holds no vocabulary")),
    };
    if !MODELS.contains(&model.as_str()) {
        return Err(lists.unsupported(key, &model, &MODELS));
    }
    let tokens = lists.tokens()?;
    let kinds = lists.kinds(tokens.len())?;
    let id = |name: &str| lists.id(name, tokens.len());
    let mut ids = SpecialIds {
        bos: id("bos")?,
        eos: id("eos")?,
        eot: id("eot")?,
        eom: id("eom")?,
        unknown: id("unknown")?,
        padding: id("padding")?,
        more_ends: Vec::new(),
    };
    if model == "bert" {
        ids.bos = ids.bos.or(id("cls")?);
        ids.eos = ids.eos.or(id("seperator")?);
    } else {
        let special = |i: usize| matches!(kinds.get(i), Some(&kind::CONTROL | &kind::USER));
        let ends = tokens.iter().enumerate().filter(|(i, t)| special(*i) && TURN_ENDS.contains(&t.as_str()));
        ids.more_ends = ends.filter_map(|(i, _)| u32::try_from(i).ok()).collect();
    }
    let vocabulary = Vocabulary { lists, tokens, kinds, ids };
    match model.as_str() {
        "gpt2" => vocabulary.byte_level(),
        "llama" => vocabulary.sentence_pieces(),
        "t5" => vocabulary.unigram(),
        _ => vocabulary.word_pieces(),
    }
}

impl Vocabulary<'_> {
    /// Ids by text. A text that stands twice has no single id: what it would be split into depended on the order in
    /// which a reader goes.
    fn by_text(&self) -> Result<Vocab> {
        let mut map = Vocab::with_capacity(self.tokens.len());
        for (i, token) in self.tokens.iter().enumerate() {
            let id = u32::try_from(i).unwrap_or(u32::MAX);
            if let Some(earlier) = map.insert(token.clone(), id) {
                let what = format!("tokens {earlier} and {id} are the same: {token:?}");
                return Err(self.lists.fault(&TOKENIZER_LIST, "tokenizer.ggml.tokens", what));
            }
        }
        Ok(map)
    }

    fn kind(&self, id: usize) -> i64 {
        self.kinds.get(id).copied().unwrap_or(1)
    }

    /// An error of the library, which is one of the lists it was given.
    fn refused(&self, error: impl std::fmt::Display) -> Error {
        self.lists.fault(&TOKENIZER_LIST, "tokenizer.ggml.tokens", format!("no vocabulary: {error}"))
    }

    /// Adds the tokens that are carved out of text, and those that begin and end it.
    fn finish(
        self,
        mut made: Library,
        bos: bool,
        eos: bool,
        first: Vec<PostProcessorWrapper>,
    ) -> Result<Made> {
        let carved = self.tokens.iter().enumerate().filter_map(|(i, text)| match self.kind(i) {
            kind::CONTROL => Some(AddedToken::from(text.clone(), true).normalized(false)),
            kind::USER => Some(AddedToken::from(text.clone(), false).normalized(false)),
            kind::UNKNOWN if self.ids.unknown.is_some_and(|u| u as usize == i) => {
                Some(AddedToken::from(text.clone(), true).normalized(false))
            }
            _ => None,
        });
        made.add_tokens(carved.collect::<Vec<_>>()).map_err(|e| self.refused(e))?;
        let mut steps = first;
        let edge = |on: bool, id: Option<u32>, name: &str| match (on, id) {
            (true, Some(id)) => {
                let piece = self.tokens.get(id as usize).cloned().unwrap_or_default();
                SpecialToken::new(name.to_owned(), vec![id], vec![piece]).map(Some)
            }
            (true, None) => Err(format!("is missing, though add_{name}_token is true").into()),
            (false, _) => Ok(None),
        };
        let fault = |name: &str, e: tokenizers::Error| {
            self.lists.fault(&TOKENIZER_ID, &format!("tokenizer.ggml.{name}_token_id"), e.to_string())
        };
        let begin = edge(bos, self.ids.bos, "bos").map_err(|e| fault("bos", e))?;
        let end = edge(eos, self.ids.eos, "eos").map_err(|e| fault("eos", e))?;
        if begin.is_some() || end.is_some() {
            let mut single = Vec::new();
            single.extend(begin.is_some().then_some("bos"));
            single.push("$A");
            single.extend(end.is_some().then_some("eos"));
            let edges: Vec<SpecialToken> = [begin, end].into_iter().flatten().collect();
            let template = TemplateProcessing::builder()
                .try_single(single)
                .and_then(|b| b.special_tokens(edges).build().map_err(|e| e.to_string()))
                .map_err(|e| self.refused(e))?;
            steps.push(PostProcessorWrapper::Template(template));
        }
        if !steps.is_empty() {
            made.with_post_processor(Some(PostProcessorWrapper::Sequence(Processors::new(steps))));
        }
        Ok((made, self.ids))
    }

    /// Byte-level BPE.
    fn byte_level(self) -> Result<Made> {
        let key = "tokenizer.ggml.pre";
        let name = match self.lists.metadata.get(key) {
            None => "default",
            Some(Value::Text(name)) if name.is_empty() => "default",
            Some(Value::Text(name)) => name,
            Some(other) => return Err(self.lists.unsupported(key, other.kind(), &pre::known())),
        };
        let Some(rule) = pre::rule(name) else {
            return Err(self.lists.unsupported(key, name, &pre::known()));
        };
        let (by_text, merges) = both(|| self.by_text(), || self.lists.merges());
        let (by_text, merges) = (by_text?, merges?);
        // The library copies both parts of a merge into a buffer of the longest token's length.
        let longest = self.tokens.iter().map(String::len).max().unwrap_or(0);
        if merges.iter().any(|(a, b)| a.len().saturating_add(b.len()) > longest) {
            self.judge_merges(&by_text, &merges)?;
        }
        let model = BPE::builder().vocab_and_merges(by_text, merges).ignore_merges(rule.ignore_merges);
        let model = match model.build() {
            Ok(model) => model,
            // Which merge it is takes another look at all of them.
            Err(e) => {
                self.judge_merges(&self.by_text()?, &self.lists.merges()?)?;
                return Err(self.refused(e));
            }
        };
        let mut made = Library::new(model);
        made.with_normalizer(rule.normalizer()).map_err(|e| self.refused(e))?;
        made.with_pre_tokenizer(Some(rule.pre_tokenizer().map_err(|e| self.refused(e))?));
        made.with_decoder(Some(ByteLevel::default()));
        let bos = self.lists.flag("add_bos_token", rule.add_bos)?;
        let eos = self.lists.flag("add_eos_token", false)?;
        let offsets = PostProcessorWrapper::ByteLevel(ByteLevel::new(true, false, true));
        self.finish(made, bos, eos, vec![offsets])
    }

    /// Both parts of a merge, and what they make, have to be tokens.
    fn judge_merges(&self, ids: &Vocab, merges: &[(String, String)]) -> Result<()> {
        let mut whole = String::new();
        for (i, (a, b)) in merges.iter().enumerate() {
            whole.clear();
            whole.push_str(a);
            whole.push_str(b);
            let absent = [a.as_str(), b.as_str(), whole.as_str()].into_iter().find(|t| !ids.contains_key(*t));
            if let Some(absent) = absent {
                let what = format!("merge {i} ({a:?} and {b:?}) is in need of {absent:?}, which is no token");
                return Err(self.lists.fault(&TOKENIZER_MERGE, "tokenizer.ggml.merges", what));
            }
        }
        Ok(())
    }

    /// SentencePiece's BPE, whose merges are told by the scores of what they make.
    fn sentence_pieces(self) -> Result<Made> {
        let by_text = self.by_text()?;
        let Some(scores) = self.lists.scores(self.tokens.len())? else {
            return Err(self.lists.fault(&TOKENIZER_LIST, "tokenizer.ggml.scores", "is missing"));
        };
        let merges = self.merges_by_score(&by_text, &scores);
        let mut model = BPE::builder().byte_fallback(true).fuse_unk(true);
        if let Some(unknown) = self.ids.unknown.and_then(|id| self.tokens.get(id as usize)) {
            model = model.unk_token(unknown.clone());
        }
        let model = model.vocab_and_merges(by_text, merges);
        let mut made = Library::new(model.build().map_err(|e| self.refused(e))?);
        let prefix = self.lists.flag("add_space_prefix", true)?;
        let mut steps: Vec<NormalizerWrapper> = Vec::new();
        if prefix {
            steps.push(Prepend::new(MARK.to_owned()).into());
        }
        steps.push(Replace::new(" ", MARK).map_err(|e| self.refused(e))?.into());
        made.with_normalizer(Some(Sequence::new(steps))).map_err(|e| self.refused(e))?;
        let mut steps: Vec<DecoderWrapper> = vec![
            Replace::new(MARK, " ").map_err(|e| self.refused(e))?.into(),
            ByteFallback::new().into(),
            Fuse::new().into(),
        ];
        if prefix {
            steps.push(Strip::new(' ', 1, 0).into());
        }
        made.with_decoder(Some(Decoders::new(steps)));
        let bos = self.lists.flag("add_bos_token", true)?;
        let eos = self.lists.flag("add_eos_token", false)?;
        self.finish(made, bos, eos, Vec::new())
    }

    /// Every way to make a token of two others, the best token first; among those of one score the longer left
    /// part, then the longer right part, then the order of the vocabulary.
    fn merges_by_score(&self, ids: &Vocab, scores: &[f64]) -> Vec<(String, String)> {
        let plain =
            |id: usize| !matches!(self.kind(id), kind::BYTE | kind::CONTROL | kind::UNKNOWN | kind::UNUSED);
        let part = |text: &str| ids.get(text).copied().filter(|&id| plain(id as usize));
        let mut found: Vec<(f64, usize, usize, &str, &str)> = Vec::new();
        for (i, token) in self.tokens.iter().enumerate().filter(|(i, _)| plain(*i)) {
            let score = scores.get(i).copied().unwrap_or(0.0);
            let from = found.len();
            for (at, _) in token.char_indices().skip(1).take(MOST_SPLITS) {
                let (a, b) = token.split_at(at);
                if part(a).is_some() && part(b).is_some() {
                    found.push((score, a.chars().count(), b.chars().count(), a, b));
                }
            }
            if let Some(own) = found.get_mut(from..) {
                own.sort_by_key(|(_, _, _, a, b)| (part(a), part(b)));
            }
        }
        found.sort_by(|x, y| y.0.total_cmp(&x.0).then(y.1.cmp(&x.1)).then(y.2.cmp(&x.2)));
        found.into_iter().map(|(_, _, _, a, b)| (a.to_owned(), b.to_owned())).collect()
    }

    /// Unigram.
    fn unigram(self) -> Result<Made> {
        self.by_text()?;
        let Some(scores) = self.lists.scores(self.tokens.len())? else {
            return Err(self.lists.fault(&TOKENIZER_LIST, "tokenizer.ggml.scores", "is missing"));
        };
        let unknown = self.ids.unknown.map(|id| id as usize);
        let pairs: Vec<(String, f64)> = self.tokens.iter().cloned().zip(scores).collect();
        let bytes = self.kinds.contains(&kind::BYTE);
        let model = Unigram::from(pairs, unknown, bytes).map_err(|e| self.refused(e))?;
        let mut made = Library::new(model);
        let mut steps: Vec<NormalizerWrapper> = Vec::new();
        if let Some(table) = self.charsmap()? {
            steps.push(table.into());
        }
        if self.lists.flag("remove_extra_whitespaces", true)? {
            let runs = tokenizers::normalizers::replace::ReplacePattern::Regex(" {2,}".to_owned());
            steps.push(Replace::new(runs, " ").map_err(|e| self.refused(e))?.into());
        }
        made.with_normalizer(Some(Sequence::new(steps))).map_err(|e| self.refused(e))?;
        let prefix = self.lists.flag("add_space_prefix", true)?;
        let scheme = if prefix { PrependScheme::Always } else { PrependScheme::Never };
        made.with_pre_tokenizer(Some(Metaspace::new('\u{2581}', scheme, true)));
        made.with_decoder(Some(Metaspace::new('\u{2581}', scheme, true)));
        let bos = self.lists.flag("add_bos_token", false)?;
        let eos = self.lists.flag("add_eos_token", true)?;
        self.finish(made, bos, eos, Vec::new())
    }

    /// The table by which SentencePiece normalises text.
    fn charsmap(&self) -> Result<Option<Precompiled>> {
        let key = "tokenizer.ggml.precompiled_charsmap";
        let Some(list) = self.lists.metadata.list(key) else { return Ok(None) };
        let mut bytes = Vec::new();
        list.visit(&mut |_, item| {
            let byte = match item {
                Item::Other(Value::Unsigned(n)) => u8::try_from(n).ok(),
                Item::Other(Value::Signed(n)) => i8::try_from(n).ok().map(|n| n.cast_unsigned()),
                _ => None,
            };
            match byte {
                Some(byte) if bytes.len() < MOST_TABLE => bytes.push(byte),
                _ => return ControlFlow::Break(()),
            }
            ControlFlow::Continue(())
        })?;
        let fault = |what: &str| self.lists.fault(&TOKENIZER_LIST, key, what);
        if bytes.len() as u64 != list.len() || !leads_inside(&bytes) {
            return Err(fault("is no table of SentencePiece: its entries lead outside"));
        }
        Precompiled::from(&bytes).map(Some).map_err(|e| fault(&e.to_string()))
    }

    /// WordPiece. GGUF marks the pieces that begin a word, where the library marks those that go on.
    fn word_pieces(mut self) -> Result<Made> {
        let mut cased = false;
        for (i, token) in self.tokens.iter_mut().enumerate() {
            if token.starts_with('[') && token.ends_with(']') || self.kinds.get(i) == Some(&kind::CONTROL) {
                continue;
            }
            *token = match token.strip_prefix(MARK) {
                Some(word) => {
                    cased |= word.bytes().any(|b| b.is_ascii_uppercase());
                    word.to_owned()
                }
                None => format!("##{token}"),
            };
        }
        let by_text = self.by_text()?;
        let mut model = WordPiece::builder().vocab(by_text).max_input_chars_per_word(100);
        let unknown = self.ids.unknown.and_then(|id| self.tokens.get(id as usize));
        match unknown {
            Some(unknown) => model = model.unk_token(unknown.clone()),
            None => {
                let key = "tokenizer.ggml.unknown_token_id";
                return Err(self.lists.fault(&TOKENIZER_ID, key, "is missing"));
            }
        }
        let mut made = Library::new(model.build().map_err(|e| self.refused(e))?);
        made.with_normalizer(Some(BertNormalizer::new(true, true, None, !cased)))
            .map_err(|e| self.refused(e))?;
        made.with_pre_tokenizer(Some(BertPreTokenizer));
        made.with_decoder(Some(tokenizers::decoders::wordpiece::WordPiece::new("##".to_owned(), true)));
        let bos = self.lists.flag("add_bos_token", true)?;
        let eos = self.lists.flag("add_eos_token", true)?;
        self.finish(made, bos, eos, Vec::new())
    }
}

/// Places at which one token is tried apart: real ones are short, and each place is looked up twice.
const MOST_SPLITS: usize = 512;

/// Bytes of a table of normalisation; real ones have a quarter of a million.
const MOST_TABLE: usize = 1 << 24;

/// Whether a double array, followed from its root by any text, stays inside, and so do the places it gives in the
/// text that comes after it. The library looks neither up with care.
fn leads_inside(bytes: &[u8]) -> bool {
    let Some((head, rest)) = bytes.split_first_chunk::<4>() else { return false };
    let len = u32::from_le_bytes(*head) as usize & !3;
    let Some((table, text)) = rest.split_at_checked(len) else { return false };
    let Ok(text) = std::str::from_utf8(text) else { return false };
    let unit = |at: usize| -> Option<usize> {
        let from = at.checked_mul(4)?;
        let four = table.get(from..from.checked_add(4)?)?;
        Some(u32::from_le_bytes(four.try_into().ok()?) as usize)
    };
    let offset = |unit: usize| (unit >> 10) << ((unit & (1 << 9)) >> 6);
    let Some(root) = unit(0) else { return false };
    let mut seen = vec![false; len / 4];
    let mut open = vec![offset(root)];
    while let Some(node) = open.pop() {
        for label in 1..256_usize {
            let Some(child) = unit(node ^ label) else { return false };
            if child & ((1 << 31) | 0xff) != label {
                continue;
            }
            let next = node ^ label ^ offset(child);
            if (child >> 8) & 1 == 1 {
                let Some(leaf) = unit(next) else { return false };
                if !text.is_char_boundary(leaf & 0x7fff_ffff) {
                    return false;
                }
            }
            match seen.get_mut(node ^ label) {
                Some(seen) if !*seen => *seen = true,
                _ => continue,
            }
            open.push(next);
        }
    }
    true
}
