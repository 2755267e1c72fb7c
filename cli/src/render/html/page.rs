//! What a page shows, as plain data. What makes one (an inspection, statistics, a comparison) fills in what it knows;
//! what it leaves empty has no place on the page.

use scantling_core::finding::Severity;

/// A whole page.
#[derive(Default)]
pub struct Page<'a> {
    /// What it is about: the model's name.
    pub title: String,
    /// The path as it was given.
    pub path: String,
    /// What was asked for: `inspect`.
    pub command: &'static str,
    /// What kind of thing it is, in a few words.
    pub summary: String,
    /// The figures that stand at the top.
    pub tiles: Vec<Tile>,
    /// What came of it.
    pub verdict: Verdict,
    /// Everything found, causes first.
    pub findings: Vec<Remark>,
    /// How many more were found than are shown.
    pub findings_hidden: usize,
    /// Tables of names and values that stand near the top.
    pub tables: Vec<Table>,
    /// Tables for whoever wants them: they are folded away.
    pub details: Vec<Table>,
    /// Whose bytes are drawn, where there are two models.
    pub bytes_of: &'static str,
    /// The element types, the one with the most bytes first.
    pub types: Vec<TypeShare>,
    /// The kinds of tensors, in the order of the architecture.
    pub kinds: Vec<Kind>,
    /// Pictures of layers by kinds.
    pub maps: Vec<super::heat::Map>,
    /// Each tensor.
    pub list: List<'a>,
    /// What was looked at, where that is not plain from the verdict.
    pub looked_at: String,
    /// What was not looked at, and how to have it looked at.
    pub unchecked: Vec<String>,
}

impl Page<'_> {
    /// The bytes of all tensors.
    pub(super) fn bytes(&self) -> u64 {
        self.kinds.iter().fold(0u64, |n, kind| n.saturating_add(kind.bytes))
    }
}

/// A figure with a name.
#[derive(Clone, Debug)]
pub struct Tile {
    /// What it is.
    pub name: &'static str,
    /// How much.
    pub value: String,
    /// What it is exactly, or what it is beside.
    pub note: String,
}

/// What came of it.
#[derive(Clone, Debug, Default)]
pub struct Verdict {
    /// How it stands.
    pub standing: Standing,
    /// In one sentence.
    pub headline: String,
    /// What to do, where something is.
    pub advice: Option<String>,
}

/// How a model stands.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// All that was looked at is as it should be.
    Good,
    /// Something is not.
    Bad,
    /// It could not be told.
    #[default]
    Open,
}

/// Something that was found.
#[derive(Clone, Debug)]
pub struct Remark {
    /// How much it matters.
    pub severity: Severity,
    /// Its stable name.
    pub code: String,
    /// Where, and what.
    pub message: String,
    /// What should be there.
    pub expected: Option<String>,
    /// What is there.
    pub found: Option<String>,
    /// What to do.
    pub advice: Option<String>,
    /// What follows from it.
    pub symptoms: Vec<String>,
    /// How many more follow than are shown.
    pub symptoms_hidden: usize,
}

/// Names with values, or whatever else has columns.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// Its heading.
    pub title: String,
    /// A sentence below the heading.
    pub note: String,
    /// What the columns are called.
    pub columns: Vec<&'static str>,
    /// The columns that hold numbers.
    pub numbers: Vec<usize>,
    /// The rows; the first cell of each is its name.
    pub rows: Vec<Vec<String>>,
    /// How many more rows there are.
    pub hidden: usize,
}

/// What one element type takes.
#[derive(Clone, Debug)]
pub struct TypeShare {
    /// The type.
    pub name: String,
    /// Tensors of it.
    pub tensors: usize,
    /// Their elements.
    pub elements: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Which part of a model a tensor belongs to, as far as colours tell parts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Group {
    /// A row for each token.
    Embedding,
    /// Queries, keys, values and what comes of them.
    Attention,
    /// What widens and narrows again.
    FeedForward,
    /// Many of those, and what chooses among them.
    Experts,
    /// Scales between.
    Norm,
    /// What makes logits.
    Head,
    /// Anything else.
    Other,
}

impl Group {
    /// Every group, in the order of a model.
    pub const ALL: [Group; 7] = [
        Group::Embedding,
        Group::Attention,
        Group::FeedForward,
        Group::Experts,
        Group::Norm,
        Group::Head,
        Group::Other,
    ];

    /// The word for it.
    pub fn word(self) -> &'static str {
        match self {
            Group::Embedding => "embedding",
            Group::Attention => "attention",
            Group::FeedForward => "feed-forward",
            Group::Experts => "experts",
            Group::Norm => "norm",
            Group::Head => "head",
            Group::Other => "other",
        }
    }

    /// The class that gives it its colour.
    pub fn class(self) -> &'static str {
        match self {
            Group::Embedding => "g0",
            Group::Attention => "g1",
            Group::FeedForward => "g2",
            Group::Experts => "g3",
            Group::Norm => "g4",
            Group::Head => "g5",
            Group::Other => "g6",
        }
    }
}

/// Tensors that are alike but for the number of their layer or expert.
#[derive(Clone, Debug)]
pub struct Kind {
    /// What the names of its layers begin with, empty where it has none.
    pub prefix: String,
    /// The name after the layer's number.
    pub name: String,
    /// The part of the model.
    pub group: Group,
    /// How it is used: `1024 → 2048`.
    pub usage: String,
    /// Element types with the number of tensors of each.
    pub types: Vec<(String, usize)>,
    /// The shapes there are.
    pub shapes: Vec<String>,
    /// How many tensors.
    pub tensors: usize,
    /// Their layers, ascending.
    pub layers: Vec<usize>,
    /// Their elements.
    pub elements: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Bytes by layer, or all where there are no layers; and the place of the type among [`Page::types`].
    pub pieces: Vec<Piece>,
}

/// What a kind takes in one layer.
#[derive(Clone, Debug)]
pub struct Piece {
    /// The layer.
    pub layer: Option<usize>,
    /// The bytes.
    pub bytes: u64,
    /// How many tensors.
    pub tensors: usize,
    /// The type of the first of them, as its place among [`Page::types`].
    pub dtype: usize,
}

/// The list of single tensors.
#[derive(Default)]
pub struct List<'a> {
    /// Columns beyond what every tensor has.
    pub columns: Vec<Column>,
    /// The tensors, by name.
    pub rows: Rows<'a>,
    /// The files that they lie in.
    pub files: Vec<String>,
    /// The column that it is sorted by at first, and whether the largest come first.
    pub sorted: (String, bool),
    /// How many were left out.
    pub hidden: usize,
}

/// The rows of a list. Each is made anew whenever it is looked at, since a model may have a hundred thousand tensors.
#[derive(Default)]
pub struct Rows<'a> {
    make: Option<Box<dyn Fn(usize) -> TensorRow + 'a>>,
    places: Vec<Place>,
}

/// Which row it is of those that can be made, and what is known of it beyond what it is made of.
struct Place {
    at: usize,
    layer: Option<usize>,
    kind: usize,
}

impl<'a> Rows<'a> {
    /// So many rows, made by their numbers.
    pub fn new(len: usize, make: impl Fn(usize) -> TensorRow + 'a) -> Rows<'a> {
        let places = (0..len).map(|at| Place { at, layer: None, kind: 0 }).collect();
        Rows { make: Some(Box::new(make)), places }
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.places.len()
    }

    /// The rows, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = TensorRow> {
        self.make.iter().flat_map(|make| {
            let row = |place: &Place| TensorRow { layer: place.layer, kind: place.kind, ..make(place.at) };
            self.places.iter().map(row)
        })
    }

    /// Writes down of each row which layer and which kind it is of.
    pub fn place(&mut self, mut of: impl FnMut(TensorRow) -> (Option<usize>, usize)) {
        let Some(make) = &self.make else { return };
        for place in &mut self.places {
            (place.layer, place.kind) = of(make(place.at));
        }
    }

    /// Gives the kinds other numbers.
    pub fn renumber(&mut self, number: impl Fn(usize) -> usize) {
        self.places.iter_mut().for_each(|place| place.kind = number(place.kind));
    }

    /// Leaves only rows that are wanted.
    pub fn retain(&mut self, wanted: impl Fn(&TensorRow) -> bool) {
        if let Some(make) = &self.make {
            self.places.retain(|place| wanted(&make(place.at)));
        }
    }

    /// The same rows with more in them.
    pub fn with(self, more: impl Fn(&mut TensorRow) + 'a) -> Rows<'a> {
        let Rows { make, places } = self;
        let filled = |make: Box<dyn Fn(usize) -> TensorRow + 'a>| {
            let make = move |at| {
                let mut row = make(at);
                more(&mut row);
                row
            };
            Box::new(make) as Box<dyn Fn(usize) -> TensorRow + 'a>
        };
        Rows { make: make.map(filled), places }
    }
}

/// A column of the list that not every page has.
#[derive(Clone, Debug)]
pub struct Column {
    /// A short name that stays the same.
    pub id: &'static str,
    /// What stands above it.
    pub title: &'static str,
    /// What it is, in a sentence.
    pub explain: &'static str,
    /// Whether a narrow page shows it too.
    pub narrow: bool,
    /// Whether it holds words.
    pub words: bool,
}

/// One tensor.
#[derive(Clone, Debug, Default)]
pub struct TensorRow {
    /// Its name.
    pub name: String,
    /// Its element type.
    pub dtype: String,
    /// Outermost axis first.
    pub shape: String,
    /// How many elements.
    pub elements: u64,
    /// How many bytes.
    pub bytes: u64,
    /// The place of its file among [`List::files`].
    pub file: usize,
    /// Where it begins in that file; `None` where that cannot be told.
    pub offset: Option<u64>,
    /// The layer.
    pub layer: Option<usize>,
    /// Its place among [`Page::kinds`].
    pub kind: usize,
    /// What stands in the columns of [`List::columns`].
    pub cells: Vec<Cell>,
    /// How its numbers are spread.
    pub histogram: Option<Histogram>,
    /// What else there is to say: the stored tensors that make it up.
    pub note: Option<String>,
}

/// What stands in a cell.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// Nothing.
    None,
    /// A number; NaN and infinities too.
    Number(f64),
    /// A word.
    Word(String),
}

/// How numbers are spread.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    /// Where the first bin begins.
    pub low: f64,
    /// Where the last one ends.
    pub high: f64,
    /// How many numbers there are in each.
    pub counts: Vec<u64>,
    /// How many lie below the first and above the last.
    pub beyond: (u64, u64),
}
