//! AWQ in its GEMM layout, 4 bits. The picture of it stands in `grouped.rs`.

use super::Packed;
use super::group::Group;
use super::grouped::{self, CODES, Grouped, SCALES, ZEROS};
use super::said::Said;
use super::scheme::{FLOATS, Layout, Scheme};
use crate::dtype::DType;
use crate::error::Result;

static LAYOUTS: [Layout; 1] =
    [Layout { codes: CODES, types: None, others: &[ZEROS, SCALES], name: ".weight" }];

/// What a config says of AWQ.
pub(super) struct Awq {
    /// Inputs of a group; `None` for all.
    group: Option<usize>,
}

impl Awq {
    pub fn of(said: &Said) -> Option<Awq> {
        let is = |name: &str, wanted: &str| said.text(name).is_none_or(|t| t.eq_ignore_ascii_case(wanted));
        let other = said.text("backend").is_some_and(|backend| backend.eq_ignore_ascii_case("llm-awq"));
        let gemm = is("version", "gemm") && is("format", "gemm") && !other;
        let four = said.count("bits") == Some(4);
        Some(Awq { group: said.group_size("group_size", 128).filter(|_| gemm && four)? })
    }
}

impl Scheme for Awq {
    fn layouts(&self) -> &'static [Layout] {
        &LAYOUTS
    }

    fn look(&self, group: &Group<'_>) -> (Vec<usize>, String) {
        let shape = group.sides(CODES).map(|(inputs, words)| vec![words.saturating_mul(8), inputs]);
        (shape.unwrap_or(group.shape(CODES).to_vec()), format!("AWQ 4-bit{}", grouped::words(self.group)))
    }

    fn open<'a>(&'a self, group: &Group<'a>) -> Result<Box<dyn Packed + 'a>> {
        let Some((cols, words)) = group.sides(CODES).filter(|(_, words)| words.checked_mul(8).is_some())
        else {
            group.no_codes(CODES, "[in, out / 8]");
            return group.unusable();
        };
        let (rows, size) = (words * 8, self.group.unwrap_or(cols).max(1));
        let (groups, axes) = (cols.div_ceil(size), format!("in / group_size {size}"));
        let codes = group.want(CODES, &[DType::I32], &[&[cols, words]], "in, out / 8");
        let zeros = group.want(ZEROS, &[DType::I32], &[&[groups, words]], &format!("{axes}, out / 8"));
        let scales = group.want(SCALES, &FLOATS, &[&[groups, rows]], &format!("{axes}, out"));
        let (Some(codes), Some(zeros), Some(scales)) = (codes, zeros, scales) else {
            return group.unusable();
        };
        let (codes, zeros, bytes) = (codes.data, zeros.data, group.byte_len());
        let sides = (rows, cols);
        Ok(Box::new(Grouped {
            codes,
            zeros,
            scales,
            order: None,
            size,
            sides,
            bits: 4,
            plus: 0,
            awq: true,
            bytes,
        }))
    }
}
