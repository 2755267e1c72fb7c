//! What a forward pass computes on its way, by name: recorded, written as a dump, held against another run.
//!
//! A row to each token, in Hugging Face's order of elements whatever file the weights are from, so that traces of both
//! formats and of other programs can be held against each other. `docs/trace.md` lists the names.

mod allowance;
mod compare;
mod dump;

pub use allowance::{Allowance, EXACT, Making};
pub use compare::{Comparison, Difference, Misfit, Stats, compare};
pub use dump::{Dump, family_in, ids_in, is_dump, layout};

use crate::architecture::Decoder;
use crate::error::{Error, Result};
use crate::matrix::{Rows, RowsBuf};
use crate::model::Session;
use crate::paging;
use crate::pass::Tap;
use crate::source::Dialect;
use std::collections::HashMap;
use std::fmt;

/// Tokens that are computed and compared at once.
pub const CHUNK: usize = 64;

/// Where in a forward pass.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Place {
    /// The layer, for what is of one.
    pub layer: Option<usize>,
    /// The name within it, or within the model.
    pub name: String,
}

impl Place {
    /// Reads `embedding` or `layers.3.q_rope`; `None` for what is neither.
    pub fn parse(text: &str) -> Option<Place> {
        let name = |name: &str| (!name.is_empty()).then(|| name.to_owned());
        match text.strip_prefix("layers.") {
            Some(rest) => {
                let (layer, rest) = rest.split_once('.')?;
                Some(Place { layer: Some(layer.parse().ok()?), name: name(rest)? })
            }
            None => Some(Place { layer: None, name: name(text)? }),
        }
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.layer {
            Some(layer) => write!(f, "layers.{layer}.{}", self.name),
            None => f.write_str(&self.name),
        }
    }
}

/// Intermediates of some tokens, in the order of the pass.
#[derive(Debug, Default)]
pub struct Trace {
    parts: Vec<(Place, Part)>,
    at: HashMap<Place, usize>,
    /// Those that a file has in a shape that is not rows of tokens.
    odd: Vec<(Place, Vec<usize>)>,
}

#[derive(Debug)]
struct Part {
    data: Vec<f32>,
    rows: usize,
    cols: usize,
}

impl Trace {
    /// Every intermediate `[tokens, width]`, in the order of the pass.
    pub fn parts(&self) -> impl Iterator<Item = (&Place, Rows<'_>)> {
        self.parts.iter().map(|(place, part)| (place, Rows::new(&part.data, part.rows, part.cols)))
    }

    /// One of them.
    pub fn get(&self, place: &Place) -> Option<Rows<'_>> {
        let (_, part) = self.parts.get(*self.at.get(place)?)?;
        Some(Rows::new(&part.data, part.rows, part.cols))
    }

    /// The first of them that is NaN or infinite somewhere: how many elements are, and of how many.
    pub fn first_not_finite(&self) -> Option<(&Place, usize, usize)> {
        let counted = self.parts.iter().map(|(place, part)| {
            (place, part.data.iter().filter(|x| !x.is_finite()).count(), part.data.len())
        });
        counted.into_iter().find(|(_, bad, _)| *bad > 0)
    }

    /// Adds rows to one of them.
    fn push(&mut self, place: Place, rows: &[f32], cols: usize) {
        let part = match self.at.get(&place) {
            Some(at) => &mut self.parts[*at].1,
            None => {
                self.at.insert(place.clone(), self.parts.len());
                self.parts.push((place, Part { data: Vec::new(), rows: 0, cols }));
                &mut self.parts[self.at.len() - 1].1
            }
        };
        part.data.extend_from_slice(rows);
        part.rows += rows.len() / cols.max(1);
    }

    /// Bytes that it takes.
    pub fn bytes(&self) -> u64 {
        self.parts.iter().map(|(_, part)| (part.data.len() * size_of::<f32>()) as u64).sum()
    }
}

/// Puts what passes by into a trace.
struct Recorder<'a> {
    decoder: &'a dyn Decoder,
    dialect: Dialect,
    trace: &'a mut Trace,
}

impl Tap for Recorder<'_> {
    fn see(&mut self, layer: Option<usize>, name: &'static str, rows: Rows<'_>) {
        let mut data = RowsBuf::copy_of(rows);
        if let Some(width) = self.decoder.interleaved(name, self.dialect) {
            for i in 0..rows.rows() {
                apart(rows.row(i), width, data.view_mut().row(i));
            }
        }
        let place = Place { layer, name: name.to_owned() };
        self.trace.push(place, data.data(), rows.cols());
    }
}

/// Brings the pairs of each head a half apart that stand side by side.
fn apart(row: &[f32], width: usize, out: &mut [f32]) {
    let half = width / 2;
    for (head, out) in row.chunks_exact(width.max(1)).zip(out.chunks_exact_mut(width.max(1))) {
        for a in 0..half {
            (out[a], out[half + a]) = (head[2 * a], head[2 * a + 1]);
        }
    }
}

/// One side of a comparison: a run, or a dump of one.
pub enum Side<'a> {
    /// Computed as it is asked for.
    Run(Box<Session<'a>>),
    /// Read.
    Dump(Box<Dump<'a>>),
}

impl Side<'_> {
    /// The intermediates of the next tokens.
    fn next(&mut self, ids: &[u32]) -> Result<Trace> {
        match self {
            Side::Run(session) => {
                let mut trace = Trace::default();
                record_some(session, ids, &mut trace)?;
                Ok(trace)
            }
            Side::Dump(dump) => dump.next(ids.len()),
        }
    }
}

fn record_some(session: &mut Session<'_>, ids: &[u32], trace: &mut Trace) -> Result<()> {
    let mut recorder = Recorder { decoder: session.decoder(), dialect: session.dialect(), trace };
    session.feed(ids, ids.len(), Some(&mut recorder)).map(drop)
}

/// The intermediates of all tokens at once; refused where they would not fit into memory.
pub fn record(session: &mut Session<'_>, ids: &[u32]) -> Result<Trace> {
    session.fits(ids)?;
    let mut trace = Trace::default();
    let free = paging::available();
    for (i, some) in ids.chunks(CHUNK).enumerate() {
        record_some(session, some, &mut trace)?;
        let takes = trace.bytes() / (some.len() as u64).max(1) * ids.len() as u64;
        if i == 0 && free.is_some_and(|free| takes > free) {
            return Err(Error::Usage(format!(
                "a trace of {} tokens takes {takes} bytes, more than are free: trace fewer tokens",
                ids.len()
            )));
        }
    }
    Ok(trace)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_written_as_they_are_read() {
        for text in ["embedding", "logits", "layers.0.q", "layers.27.q_rope", "layers.3.experts.7.gate"] {
            assert_eq!(Place::parse(text).unwrap().to_string(), text);
        }
        assert!(
            ["", "layers.", "layers.x.q", "layers.1", "layers.1."].iter().all(|t| Place::parse(t).is_none())
        );
    }

    #[test]
    fn pairs_come_a_half_apart() {
        let mut out = [0.0; 8];
        apart(&[0.0, 10.0, 1.0, 11.0, 2.0, 12.0, 3.0, 13.0], 4, &mut out);
        assert_eq!(out, [0.0, 1.0, 10.0, 11.0, 2.0, 3.0, 12.0, 13.0]);
    }

    #[test]
    fn rows_of_later_tokens_are_added() {
        let mut trace = Trace::default();
        let place = Place::parse("embedding").unwrap();
        trace.push(place.clone(), &[1.0, 2.0], 2);
        trace.push(place.clone(), &[3.0, 4.0, 5.0, 6.0], 2);
        assert_eq!(trace.get(&place).unwrap().row(2), [5.0, 6.0]);
        assert_eq!((trace.parts().count(), trace.bytes()), (1, 24));
    }
}
