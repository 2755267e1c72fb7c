//! GPTQ in 2, 4 and 8 bits. The picture of it stands in `grouped.rs`.

use super::Packed;
use super::group::{Group, Part, int};
use super::grouped::{CODES, Grouped, SCALES, ZEROS, words};
use super::said::Said;
use super::scheme::{FLOATS, Layout, Scheme};
use crate::dtype::DType;
use crate::error::Result;

const ORDER: &str = ".g_idx";

static LAYOUTS: [Layout; 1] =
    [Layout { codes: CODES, types: None, others: &[ZEROS, SCALES, ORDER], name: ".weight" }];

/// What a config says of GPTQ.
pub(super) struct Gptq {
    bits: usize,
    /// Inputs of a group; `None` for all.
    group: Option<usize>,
    /// What is added to a stored zero.
    plus: i32,
    /// Whether inputs were ordered, so that only `g_idx` tells the group of one.
    ordered: bool,
}

impl Gptq {
    pub fn of(said: &Said) -> Option<Gptq> {
        let bits = said.count("bits").filter(|bits| [2, 4, 8].contains(bits))?;
        let plus = match said.text("checkpoint_format").or(said.text("format")) {
            None | Some("gptq") => 1,
            Some("gptq_v2") => 0,
            Some(_) => return None,
        };
        // Rules that give some modules other bits; those that begin with "-:" only leave modules alone.
        let other_bits = said.keys("dynamic").any(|key| !key.starts_with("-:"));
        let other_words = said.text("pack_dtype").is_some_and(|dtype| dtype != "int32");
        if other_bits || other_words || said.is_on("is_marlin_format") {
            return None;
        }
        Some(Gptq { bits, group: said.group_size("group_size", 128)?, plus, ordered: said.is_on("desc_act") })
    }

    /// Outputs and inputs.
    fn sides(&self, group: &Group<'_>) -> Option<(usize, usize)> {
        let (words, outputs) = group.sides(CODES)?;
        Some((outputs, words.checked_mul(32 / self.bits)?))
    }
}

impl Scheme for Gptq {
    fn layouts(&self) -> &'static [Layout] {
        &LAYOUTS
    }

    fn look(&self, group: &Group<'_>) -> (Vec<usize>, String) {
        let shape = self.sides(group).map_or(group.shape(CODES).to_vec(), |(out, inputs)| vec![out, inputs]);
        (shape, format!("GPTQ {}-bit{}", self.bits, words(self.group)))
    }

    fn open<'a>(&'a self, group: &Group<'a>) -> Result<Box<dyn Packed + 'a>> {
        let Some((rows, cols)) = self.sides(group) else {
            group.no_codes(CODES, "[in·bits / 32, out]");
            return group.unusable();
        };
        let size = self.group.unwrap_or(cols).max(1);
        let (groups, packed) = (cols.div_ceil(size), rows.div_ceil(32 / self.bits));
        let axes = format!("in / group_size {size}");
        let codes = group.want(CODES, &[DType::I32], &[group.shape(CODES)], "");
        let zeros = group.want(ZEROS, &[DType::I32], &[&[groups, packed]], &format!("{axes}, out·bits / 32"));
        let scales = group.want(SCALES, &FLOATS, &[&[groups, rows]], &format!("{axes}, out"));
        let order = match self.ordered {
            true => group.want(ORDER, &[DType::I32], &[&[cols]], "in"),
            false => group.may(ORDER, &[DType::I32], &[&[cols]], "in"),
        };
        // Where there are not as many groups as there should be, that is the fault.
        if let (Some(order), Some(_)) = (&order, &scales) {
            in_range(group, order, groups);
        }
        group.settle()?;
        let (Some(codes), Some(zeros), Some(scales)) = (codes, zeros, scales) else {
            return group.unusable();
        };
        let (bits, plus, bytes) = (self.bits, self.plus, group.byte_len());
        let order = order.map(|order| order.data);
        let (codes, zeros) = (codes.data, zeros.data);
        Ok(Box::new(Grouped {
            codes,
            zeros,
            scales,
            order,
            size,
            sides: (rows, cols),
            bits,
            plus,
            awq: false,
            bytes,
        }))
    }
}

/// Notes the first input whose group is none.
fn in_range(group: &Group<'_>, order: &Part<'_>, groups: usize) {
    let numbers = (0..order.data.len() / 4).map(|i| int(&order.data, i));
    let outside = |group: i32| usize::try_from(group).map_or(true, |group| group >= groups);
    if let Some((i, strange)) = numbers.enumerate().find(|(_, group)| outside(*group)) {
        let message = "g_idx gives an input a group that there is not";
        let last = groups.saturating_sub(1);
        group.wrong(
            order.info,
            message,
            format!("0 to {last} for each input"),
            format!("{strange} for input {i}"),
        );
    }
}
