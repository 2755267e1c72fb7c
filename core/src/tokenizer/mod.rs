//! Text to ids and back, as the model's own files say: tokenizer.json beside a checkpoint, or GGUF's lists.
//!
//! The work is done by the `tokenizers` library; here its parts are found, held to be sound, and put together.
//! Names of splitting rules are in `pre`, GGUF's lists are read in `lists` and made a vocabulary in `gguf`,
//! tokenizer.json is looked over in `file`, ids with a meaning are gathered in `special`, and conversations become
//! text in [`chat`].

#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects
)]
#![cfg_attr(
    test,
    allow(
        clippy::unwrap_used,
        clippy::expect_used,
        clippy::panic,
        clippy::indexing_slicing,
        clippy::arithmetic_side_effects
    )
)]

pub mod chat;
mod file;
mod gguf;
mod lists;
mod pre;
mod special;
mod stream;

#[cfg(test)]
mod tests;

pub use chat::{ChatTemplate, Message};
pub use special::SpecialIds;
pub use stream::Stream;

use crate::bundle::{Folder, Target};
use crate::check::{TOKENIZER_FILE, TOKENIZER_LIST};
use crate::error::{Error, Result};
use crate::finding::{Code, Finding};
use crate::registry::Registry;
use crate::source::{Dialect, FormatPlugin, WeightSource};
use lists::Lists;
use special::Beside;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::OnceLock;

/// One token of a text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Its number: a row of the embedding.
    pub id: u32,
    /// As it stands in the vocabulary, marks of spaces and bytes included.
    pub piece: String,
    /// The bytes of the text that it stands for; empty for one that was added at an edge. Tokens of one character
    /// that is split give the whole character each.
    pub bytes: Range<usize>,
}

/// How text is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Whether the tokens that begin and end a text are added, where the files say so.
    pub edges: bool,
    /// Whether special tokens that are written in the text are taken as such, or as plain text.
    pub special: bool,
}

impl Reading {
    /// A prompt: edges added, special tokens heard.
    pub const PROMPT: Reading = Reading { edges: true, special: true };
    /// What a chat template gave, which has all special tokens in it.
    pub const TEMPLATED: Reading = Reading { edges: false, special: true };
}

/// What turns text into ids and back.
pub struct Tokenizer {
    library: tokenizers::Tokenizer,
    /// The same, taking special tokens in a text as plain text; made when it is first asked for.
    deaf: OnceLock<tokenizers::Tokenizer>,
    origin: &'static str,
    /// The file, for messages.
    file: String,
    ids: SpecialIds,
}

impl Tokenizer {
    /// The tokenizer of a model: GGUF's own lists, or the tokenizer.json beside a checkpoint.
    ///
    /// # Errors
    /// [`Error::Foreign`] where there is none or its kind is not known, [`Error::Malformed`] where it is damaged.
    pub fn of(source: &dyn WeightSource) -> Result<Tokenizer> {
        let file = source.files().first().map_or("", |f| f.name());
        if source.dialect() == Dialect::Gguf {
            return Tokenizer::of_lists(&Lists { file, metadata: source.metadata() });
        }
        Tokenizer::of_files(file, &|name| source.beside(name))
    }

    /// The tokenizer of a folder with a tokenizer.json, without weights.
    pub fn of_folder(folder: &Folder) -> Result<Tokenizer> {
        Tokenizer::of_files("the folder", &|name| folder.file(name))
    }

    fn of_lists(lists: &Lists<'_>) -> Result<Tokenizer> {
        let built = catch_unwind(AssertUnwindSafe(|| gguf::build(lists)));
        let built = built.unwrap_or_else(|_| Err(stopped(&TOKENIZER_LIST, lists.file)));
        let (library, ids) = built?;
        let file = lists.file.to_owned();
        Ok(Tokenizer { library, deaf: OnceLock::new(), origin: "tokenizer.ggml.*", file, ids })
    }

    fn of_files(shown: &str, beside: Beside<'_>) -> Result<Tokenizer> {
        let Some(file) = beside("tokenizer.json")? else {
            return Err(Error::Foreign {
                file: shown.to_owned(),
                what: "there is no tokenizer.json beside it".to_owned(),
                advice: "fetch it from where the weights came from".to_owned(),
            });
        };
        let library = file::read(&file)?;
        let ids = special::beside(beside, &library)?;
        let (deaf, origin, file) = (OnceLock::new(), "tokenizer.json", file.name().to_owned());
        let mut made = Tokenizer { library, deaf, origin, file, ids };
        let ends = special::TURN_ENDS.iter().filter_map(|name| made.special_id(name));
        let ends: Vec<u32> = ends.collect();
        made.ids.more_ends.extend(ends);
        Ok(made)
    }

    /// The id of a token that is special.
    fn special_id(&self, token: &str) -> Option<u32> {
        let added = self.library.get_added_vocabulary();
        added.is_special_token(token).then(|| self.library.token_to_id(token)).flatten()
    }

    /// Text as tokens.
    ///
    /// # Errors
    /// [`Error::Usage`] where a pattern of the vocabulary gives up on this text, [`Error::Malformed`] where the
    /// tokenizer's parts contradict each other in a way that only this text shows.
    pub fn encode(&self, text: &str, how: Reading) -> Result<Vec<Token>> {
        let library = if how.special { &self.library } else { self.deaf.get_or_init(|| self.deafened()) };
        let made = self::library(|| library.encode(text, how.edges));
        let made = made.map_err(|e| self.stop(e, "this text cannot be tokenized"))?;
        let tokens = made.get_ids().iter().zip(made.get_tokens()).zip(made.get_offsets());
        Ok(tokens
            .map(|((&id, piece), &(from, to))| Token { id, piece: piece.clone(), bytes: from..to })
            .collect())
    }

    fn deafened(&self) -> tokenizers::Tokenizer {
        let mut copy = self.library.clone();
        copy.set_encode_special_tokens(true);
        copy
    }

    /// Text as ids.
    ///
    /// # Errors
    /// As [`encode`](Self::encode).
    pub fn ids(&self, text: &str, how: Reading) -> Result<Vec<u32>> {
        Ok(self.encode(text, how)?.into_iter().map(|token| token.id).collect())
    }

    /// Ids as text. Bytes that are no text become U+FFFD.
    ///
    /// # Errors
    /// [`Error::Usage`] where an id is not in the vocabulary.
    pub fn decode(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        if let Some(id) = ids.iter().find(|&&id| self.piece(id).is_none()) {
            let size = self.vocab_size();
            return Err(Error::Usage(format!("there is no token {id}: the vocabulary has {size}")));
        }
        self.text(ids, skip_special)
    }

    /// Ids as text; those that are not in the vocabulary are passed over.
    fn text(&self, ids: &[u32], skip_special: bool) -> Result<String> {
        let made = library(|| self.library.decode(ids, skip_special));
        made.map_err(|e| self.stop(e, "these ids are no text"))
    }

    fn stop(&self, stop: Stop, what: &str) -> Error {
        let code = if self.origin == "tokenizer.json" { &TOKENIZER_FILE } else { &TOKENIZER_LIST };
        match stop {
            Stop::Told(why) => Error::Usage(format!("{what}: {why}")),
            Stop::Panicked => stopped(code, &self.file),
        }
    }

    /// A decoder for ids that come one by one.
    pub fn stream(&self, skip_special: bool) -> Stream<'_> {
        Stream::new(self, skip_special)
    }

    /// A token as it stands in the vocabulary.
    pub fn piece(&self, id: u32) -> Option<String> {
        self.library.id_to_token(id)
    }

    /// The id of a token as it stands in the vocabulary.
    pub fn id_of(&self, piece: &str) -> Option<u32> {
        self.library.token_to_id(piece)
    }

    /// Number of tokens. Embeddings may have more rows.
    pub fn vocab_size(&self) -> usize {
        self.library.get_vocab_size(true)
    }

    /// Special ids, as the files name them.
    pub fn special(&self) -> &SpecialIds {
        &self.ids
    }

    /// Every id that ends a generated text: eos, eot and eom, all of generation_config.json's, and tokens that end a
    /// turn by their name. Sorted.
    pub fn end_ids(&self) -> Vec<u32> {
        self.ids.ends()
    }

    /// Where the vocabulary is from: `tokenizer.json` or `tokenizer.ggml.*`.
    pub fn origin(&self) -> &'static str {
        self.origin
    }
}

/// A tokenizer and the chat template that belongs to it, if the model has one; from a model of any format, or from
/// a tokenizer.json (or a folder with one) where there are no weights.
///
/// # Errors
/// As [`Registry::open`], [`Tokenizer::of`] and [`ChatTemplate::of`].
pub fn open(registry: &Registry, path: &Path) -> Result<(Tokenizer, Option<ChatTemplate>)> {
    let folder = match Target::at(path)? {
        Target::File(bundle) if bundle.file().name() == "tokenizer.json" => Some(bundle.folder().clone()),
        Target::Folder(folder) => {
            let names = folder.names()?;
            let weights = |format: &&'static FormatPlugin| {
                (format.find)(&folder, &names).is_ok_and(|found| !found.is_empty())
            };
            let bare = !registry.formats().iter().any(weights);
            (bare && names.iter().any(|name| name == "tokenizer.json")).then_some(folder)
        }
        Target::File(_) => None,
    };
    match folder {
        Some(folder) => {
            let tokenizer = Tokenizer::of_folder(&folder)?;
            let chat = ChatTemplate::of_folder(&folder, &tokenizer)?;
            Ok((tokenizer, chat))
        }
        None => {
            let source = registry.open(path)?;
            let tokenizer = Tokenizer::of(source.as_ref())?;
            let chat = ChatTemplate::of(source.as_ref(), &tokenizer)?;
            Ok((tokenizer, chat))
        }
    }
}

/// Why the library gave nothing.
enum Stop {
    /// It says so.
    Told(String),
    /// It came upon what it took to be impossible.
    Panicked,
}

impl std::fmt::Display for Stop {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Stop::Told(why) => why,
            Stop::Panicked => CONTRADICTION,
        })
    }
}

/// Calls the library, which stops the thread on some files instead of refusing them. What is known of that is
/// looked for before; this is for what is not.
fn library<T>(call: impl FnOnce() -> tokenizers::Result<T>) -> Result<T, Stop> {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(made) => made.map_err(|e| Stop::Told(e.to_string())),
        Err(_) => Err(Stop::Panicked),
    }
}

const CONTRADICTION: &str = "the parts of the tokenizer contradict each other";

fn stopped(code: &'static Code, file: &str) -> Error {
    Error::malformed(Finding::new(code, CONTRADICTION).file(file).advice("fetch the file again"))
}
