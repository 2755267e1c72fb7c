//! What a check has to say: one [`Finding`] per fault, each with a stable [`Code`].

use std::collections::HashMap;
use std::fmt;

/// How much a finding matters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Severity {
    /// Worth knowing; nothing is wrong.
    Note,
    /// Odd, but every common reader copes.
    Warning,
    /// The file is not what it should be.
    Error,
}

impl Severity {
    /// The word shown to people and written to JSON.
    pub fn word(self) -> &'static str {
        match self {
            Severity::Note => "note",
            Severity::Warning => "warning",
            Severity::Error => "error",
        }
    }
}

/// Which part of a model a finding is about; a check can be limited to some of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Part {
    /// The file format itself: header, offsets, lengths.
    Container,
    /// Several files acting as one: indexes and split sets.
    Shards,
    /// The hyperparameters and what they imply.
    Config,
    /// Which tensors there are.
    Names,
    /// How large they are.
    Shapes,
    /// How their numbers are stored.
    Types,
    /// Tensors that stand for each other.
    Ties,
    /// Vocabulary and special tokens.
    Tokenizer,
    /// The stored values.
    Data,
}

impl Part {
    /// Every part, in the order in which findings are shown.
    pub const ALL: [Part; 9] = [
        Part::Container,
        Part::Shards,
        Part::Config,
        Part::Names,
        Part::Shapes,
        Part::Types,
        Part::Ties,
        Part::Tokenizer,
        Part::Data,
    ];

    /// The word used on the command line and in JSON.
    pub fn word(self) -> &'static str {
        match self {
            Part::Container => "container",
            Part::Shards => "shards",
            Part::Config => "config",
            Part::Names => "names",
            Part::Shapes => "shapes",
            Part::Types => "types",
            Part::Ties => "ties",
            Part::Tokenizer => "tokenizer",
            Part::Data => "data",
        }
    }
}

/// A kind of finding: a stable name, and a paragraph that explains it.
#[derive(Debug)]
pub struct Code {
    /// Stable name in kebab case, such as `tensor-missing`.
    pub id: &'static str,
    /// The usual severity.
    pub severity: Severity,
    /// The part of the model it is about.
    pub part: Part,
    /// One line.
    pub title: &'static str,
    /// One paragraph: what it means, how it comes about, what to do.
    pub explain: &'static str,
}

/// Where a finding is. Every field is optional; the more the better.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// File name, relative to the model's folder.
    pub file: Option<String>,
    /// Tensor name as stored.
    pub tensor: Option<String>,
    /// Metadata or config key.
    pub field: Option<String>,
    /// Bytes from the start of the file.
    pub offset: Option<u64>,
}

/// One fault, with what is needed to act on it.
#[derive(Clone, Debug)]
pub struct Finding {
    /// What kind of fault.
    pub code: &'static Code,
    /// How much this one matters (the code's severity unless changed).
    pub severity: Severity,
    /// Where.
    pub place: Place,
    /// What is wrong, in one sentence.
    pub message: String,
    /// What should be there.
    pub expected: Option<String>,
    /// What is there.
    pub found: Option<String>,
    /// What to do about it.
    pub advice: Option<String>,
    /// Findings that follow from this one.
    pub symptoms: Vec<Finding>,
}

impl Finding {
    /// A finding of the code's own severity.
    pub fn new(code: &'static Code, message: impl Into<String>) -> Finding {
        Finding {
            code,
            severity: code.severity,
            place: Place::default(),
            message: message.into(),
            expected: None,
            found: None,
            advice: None,
            symptoms: Vec::new(),
        }
    }

    /// The file it is in.
    pub fn file(mut self, name: impl Into<String>) -> Finding {
        self.place.file = Some(name.into());
        self
    }

    /// The tensor it is about.
    pub fn tensor(mut self, name: impl Into<String>) -> Finding {
        self.place.tensor = Some(name.into());
        self
    }

    /// The key it is about.
    pub fn field(mut self, key: impl Into<String>) -> Finding {
        self.place.field = Some(key.into());
        self
    }

    /// The byte it is at, from the start of the file.
    pub fn at(mut self, offset: u64) -> Finding {
        self.place.offset = Some(offset);
        self
    }

    /// What should be there, and what is.
    pub fn versus(mut self, expected: impl Into<String>, found: impl Into<String>) -> Finding {
        self.expected = Some(expected.into());
        self.found = Some(found.into());
        self
    }

    /// What to do.
    pub fn advice(mut self, text: impl Into<String>) -> Finding {
        self.advice = Some(text.into());
        self
    }

    /// Another severity than the code's own.
    pub fn severity(mut self, severity: Severity) -> Finding {
        self.severity = severity;
        self
    }

    /// What follows from it.
    pub fn because_of_this(mut self, symptoms: Vec<Finding>) -> Finding {
        self.symptoms = symptoms;
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { file, tensor, field, offset } = &self.place;
        if let Some(file) = file {
            write!(f, "{file}")?;
            if let Some(at) = offset {
                write!(f, " at byte {at}")?;
            }
            write!(f, ": ")?;
        }
        match (tensor, field) {
            (Some(tensor), _) => write!(f, "{tensor}: ")?,
            (None, Some(field)) => write!(f, "{field}: ")?,
            (None, None) => {}
        }
        write!(f, "{}", self.message)?;
        if let (Some(expected), Some(found)) = (&self.expected, &self.found) {
            write!(f, " (expected {expected}, found {found})")?;
        }
        if let Some(advice) = &self.advice {
            write!(f, "; {advice}")?;
        }
        Ok(())
    }
}

/// Gathers findings, and keeps a hostile file from filling memory with them: of each code the first
/// thousand are kept and the rest counted.
#[derive(Debug, Default)]
pub struct Findings {
    kept: Vec<Finding>,
    seen: HashMap<&'static str, usize>,
}

impl Findings {
    /// Findings of one code that are kept.
    pub const KEPT: usize = 1000;

    /// An empty collection.
    pub fn new() -> Findings {
        Findings::default()
    }

    /// Adds one.
    pub fn push(&mut self, finding: Finding) {
        let seen = self.seen.entry(finding.code.id).or_insert(0);
        *seen = seen.saturating_add(1);
        if *seen <= Findings::KEPT {
            self.kept.push(finding);
        }
    }

    /// Adds several.
    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|f| self.push(f));
    }

    /// Adds all that another collection was given, and counts what it did not keep.
    pub fn absorb(&mut self, other: Findings) {
        let mut lost = other.seen;
        for finding in other.kept {
            if let Some(n) = lost.get_mut(finding.code.id) {
                *n = n.saturating_sub(1);
            }
            self.push(finding);
        }
        for (id, n) in lost {
            let seen = self.seen.entry(id).or_insert(0);
            *seen = seen.saturating_add(n);
        }
    }

    /// How many were added, kept or not.
    pub fn count(&self) -> usize {
        self.seen.values().fold(0, |sum, n| sum.saturating_add(*n))
    }

    /// Whether none was added.
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
    }

    /// All that were kept, each overfull code followed by one that says how many more there were.
    pub fn into_vec(mut self) -> Vec<Finding> {
        let mut overfull: Vec<&Finding> = Vec::new();
        for finding in &self.kept {
            let id = finding.code.id;
            let over = self.seen.get(id).is_some_and(|&n| n > Findings::KEPT);
            if over && !overfull.iter().any(|f| f.code.id == id) {
                overfull.push(finding);
            }
        }
        let more: Vec<Finding> = overfull
            .into_iter()
            .map(|first| {
                let n = self.seen.get(first.code.id).map_or(0, |n| n.saturating_sub(Findings::KEPT));
                let mut last = Finding::new(first.code, format!("and {n} more like it"));
                last.place.file = first.place.file.clone();
                last
            })
            .collect();
        self.kept.extend(more);
        self.kept
    }
}

/// How the registry learns of a code; made by [`codes!`](crate::codes).
#[derive(Debug)]
pub struct CodeEntry(pub &'static Code);

inventory::collect!(CodeEntry);

/// Declares codes beside the checks that report them, and makes each known to `explain`.
///
/// ```
/// scantling_core::codes! {
///     pub static FILE_UPSIDE_DOWN = Warning, Container, "file-upside-down",
///         "the file is upside down",
///         "Turn it round.";
/// }
/// assert_eq!(FILE_UPSIDE_DOWN.id, "file-upside-down");
/// ```
#[macro_export]
macro_rules! codes {
    ($($vis:vis static $name:ident = $severity:ident, $part:ident, $id:literal, $title:literal, $explain:literal;)+) => {$(
        #[doc = $title]
        $vis static $name: $crate::finding::Code = $crate::finding::Code {
            id: $id,
            severity: $crate::finding::Severity::$severity,
            part: $crate::finding::Part::$part,
            title: $title,
            explain: $explain,
        };
        $crate::inventory::submit! { $crate::finding::CodeEntry(&$name) }
    )+};
}
