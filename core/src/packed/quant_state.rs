//! The `quant_state` of a bitsandbytes weight: a JSON object in a tensor of bytes.

use super::PART_VALUE;
use super::group::Group;
use crate::dtype::DType;
use crate::json;
use crate::metadata::{Metadata, Value};

pub(super) const NESTED_MAP: &str = ".weight.nested_quant_map";
pub(super) const NESTED_ABSMAX: &str = ".weight.nested_absmax";
pub(super) const STATES: [&str; 2] =
    [".weight.quant_state.bitsandbytes__nf4", ".weight.quant_state.bitsandbytes__fp4"];

/// A state is a few numbers; this bound keeps one that claims to be more from being read.
const MAX_STATE: u64 = 64 * 1024;

/// What the state of a weight says.
pub(super) struct State {
    pub kind: &'static str,
    pub shape: Vec<usize>,
    /// Elements that share a magnitude.
    pub blocksize: usize,
    /// Codes of one run of nested magnitudes, and what is added to each.
    pub nested: Option<(usize, f32)>,
}

impl State {
    /// Reads the state of a weight; what is wrong with it is noted.
    pub fn of(group: &Group<'_>) -> Option<State> {
        let Some(end) = STATES.into_iter().find(|end| group.part(end).is_some()) else {
            group.want(
                STATES[0],
                &[DType::U8],
                &[],
                "the shape of the weight and the sizes of blocks, in JSON",
            );
            return None;
        };
        let info = group.part(end)?;
        if info.byte_len() > MAX_STATE {
            group.wrong(
                info,
                "quant_state is no short text",
                format!("at most {MAX_STATE} bytes"),
                info.byte_len().to_string(),
            );
            return None;
        }
        let part = group.want(end, &[DType::U8], &[&info.shape], "")?;
        let entries = match json::flatten(&info.name, &part.data, &PART_VALUE) {
            Ok(flat) => flat.entries,
            Err(error) => {
                group.wrong(info, "quant_state is no JSON object", "an object".to_owned(), error.to_string());
                return None;
            }
        };
        let wrong = |key: &str, wanted: &str| {
            let found = entries.get(key).map_or("none".to_owned(), Value::to_string);
            group.wrong(info, format!("{key} of quant_state cannot be"), wanted.to_owned(), found);
        };
        let kind = if end == STATES[0] { "nf4" } else { "fp4" };
        let shape = sides(&entries);
        let blocksize = count(&entries, "blocksize");
        if entries.text("quant_type") != Some(kind) {
            wrong("quant_type", kind);
            return None;
        }
        let Some(shape) = shape else {
            wrong("shape", "the lengths of at least two axes");
            return None;
        };
        let Some(blocksize) = blocksize else {
            wrong("blocksize", "a number of at least 1");
            return None;
        };
        if group.part(NESTED_ABSMAX).is_none() && group.part(NESTED_MAP).is_none() {
            return Some(State { kind, shape, blocksize, nested: None });
        }
        let Some(size) = count(&entries, "nested_blocksize") else {
            wrong("nested_blocksize", "a number of at least 1");
            return None;
        };
        let offset = match entries.get("nested_offset") {
            Some(Value::Float(x)) => *x as f32,
            Some(Value::Unsigned(n)) => *n as f32,
            Some(Value::Signed(n)) => *n as f32,
            _ => {
                wrong("nested_offset", "a number");
                return None;
            }
        };
        Some(State { kind, shape, blocksize, nested: Some((size, offset)) })
    }

    /// How many elements the weight has, if that can be counted.
    pub fn elements(&self) -> Option<usize> {
        self.shape.iter().try_fold(1usize, |n, side| n.checked_mul(*side))
    }
}

fn count(entries: &Metadata, key: &str) -> Option<usize> {
    entries.unsigned(key).and_then(|n| usize::try_from(n).ok()).filter(|n| *n > 0)
}

/// Two axes or a few more; the last is that of the inputs.
fn sides(entries: &Metadata) -> Option<Vec<usize>> {
    const MOST: usize = 8;
    let items = entries.get("shape")?.first_items(MOST + 1).ok()?;
    let side = |value: &Value| match value {
        Value::Unsigned(n) => usize::try_from(*n).ok(),
        _ => None,
    };
    let shape: Option<Vec<usize>> = items.iter().map(side).collect();
    shape.filter(|shape| (2..=MOST).contains(&shape.len()))
}
