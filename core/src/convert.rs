//! A model's tensors brought from the Hugging Face world into that of GGUF, as its converters do it: number by number,
//! and as the table of the architecture declares it.

use crate::axis::Axis;
use crate::source::Dialect;
use crate::table::{Conversion, Expected, Split, TensorTable};

/// A tensor's numbers and the lengths of its axes, outermost first.
#[derive(Clone, Debug, PartialEq)]
pub struct Numbers {
    /// Lengths.
    pub shape: Vec<usize>,
    /// As many numbers as they come to.
    pub values: Vec<f32>,
}

/// The numbers of a row of the table as a GGUF file has them. `stored` gives those of a Hugging Face tensor by its full
/// name; `None` where a tensor is missing, or the row is of one world alone and nothing says what it is made of.
pub fn to_gguf(
    table: &TensorTable,
    row: usize,
    stored: &mut dyn FnMut(&str) -> Option<Vec<f32>>,
) -> Option<Numbers> {
    let expected = table.rows().get(row)?;
    if expected.gguf.is_empty() {
        return None;
    }
    if expected.hf.is_empty() {
        let (whole, split, part) = table.part_of(row)?;
        let whole = logical(table, table.rows().get(whole)?, stored)?;
        let shape: Vec<usize> = expected.shape.iter().map(|axis| axis.len).collect();
        let values = match split {
            Split::Alternating => alternating(&whole, part),
            Split::PerHead => per_head(&whole, &shape, part),
        };
        return (values.len() == product(&shape)).then_some(Numbers { shape, values });
    }
    let mut numbers = logical(table, expected, stored)?;
    match expected.conversion {
        Conversion::None | Conversion::Transposed => {}
        Conversion::PlusOne => numbers.values.iter_mut().for_each(|v| *v += 1.0),
        Conversion::Interleaved(head) => numbers.values = interleaved(&numbers, head),
    }
    Some(numbers)
}

/// The numbers of a Hugging Face row as they are computed with: stacked, and outputs before inputs.
fn logical(
    table: &TensorTable,
    row: &Expected,
    stored: &mut dyn FnMut(&str) -> Option<Vec<f32>>,
) -> Option<Numbers> {
    let mut values = Vec::new();
    for tensor in table.stored(row, Dialect::Hf) {
        let part = stored(&tensor.name)?;
        if part.len() != product(&lens(&tensor.shape)) {
            return None;
        }
        let turned = row.conversion == Conversion::Transposed;
        values.extend(if turned { transposed(&part, &lens(&tensor.shape)) } else { part });
    }
    Some(Numbers { shape: lens(&row.shape), values })
}

fn lens(shape: &[Axis]) -> Vec<usize> {
    shape.iter().map(|axis| axis.len).collect()
}

fn product(shape: &[usize]) -> usize {
    shape.iter().fold(1, |n, len| n.saturating_mul(*len))
}

/// Each matrix of a stack, its two axes exchanged.
fn transposed(values: &[f32], shape: &[usize]) -> Vec<f32> {
    let [.., rows, cols] = *shape else { return values.to_vec() };
    let mut out = Vec::with_capacity(values.len());
    for matrix in values.chunks(rows.saturating_mul(cols).max(1)) {
        out.extend((0..cols).flat_map(|c| matrix.iter().skip(c).step_by(cols.max(1)).copied()));
    }
    out
}

/// Within each head, the rows that rotate together side by side: `0 h 1 h+1 …` of `0 1 … h h+1 …`.
fn interleaved(numbers: &Numbers, head: usize) -> Vec<f32> {
    let rows = numbers.shape.first().copied().unwrap_or(1);
    let width = numbers.values.len().checked_div(rows).unwrap_or(0).max(1);
    let half = head / 2;
    let mut out = Vec::with_capacity(numbers.values.len());
    for head in numbers.values.chunks(head.saturating_mul(width).max(1)) {
        let row = |r: usize| head.iter().skip(r.saturating_mul(width)).take(width).copied();
        out.extend((0..half).flat_map(|a| row(a).chain(row(a.saturating_add(half)))));
    }
    out
}

/// Every second row of each matrix of a stack, or every second number of each vector.
fn alternating(whole: &Numbers, part: usize) -> Vec<f32> {
    // The axis of outputs: the last of a vector, the one before the inputs of a matrix.
    let (outputs, inputs) = match *whole.shape {
        [_, outputs, inputs] => (outputs, inputs),
        [_, outputs] | [outputs] => (outputs, 1),
        _ => return Vec::new(),
    };
    let rows = whole.values.chunks(inputs.max(1)).enumerate();
    let wanted = rows.filter(|(r, _)| r.checked_rem(outputs.max(1)).is_some_and(|r| r % 2 == part));
    wanted.flat_map(|(_, row)| row.iter().copied()).collect()
}

/// Of each head's rows the first, transposed, or those that follow, as they are. `shape` is `[heads, latent, first]` of
/// the one, `[heads, rest, latent]` of the other.
fn per_head(whole: &Numbers, shape: &[usize], part: usize) -> Vec<f32> {
    let (&[rows, latent], &[heads, a, b]) = (&*whole.shape, shape) else { return Vec::new() };
    let each = rows.checked_div(heads).unwrap_or(0);
    let own = if part == 0 { b } else { a };
    let skipped = if part == 0 { 0 } else { each.saturating_sub(own) };
    let mut out = Vec::new();
    for head in whole.values.chunks(each.saturating_mul(latent).max(1)) {
        let from = skipped.saturating_mul(latent);
        let rows: Vec<f32> = head.iter().skip(from).take(own.saturating_mul(latent)).copied().collect();
        out.extend(if part == 0 { transposed(&rows, &[own, latent]) } else { rows });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_are_interleaved_and_matrices_turned() {
        let rows = Numbers { shape: vec![8, 1], values: (0..8u8).map(f32::from).collect() };
        assert_eq!(interleaved(&rows, 4), [0., 2., 1., 3., 4., 6., 5., 7.]);
        let stack: Vec<f32> = (0..12u8).map(f32::from).collect();
        assert_eq!(transposed(&stack, &[2, 2, 3]), [0., 3., 1., 4., 2., 5., 6., 9., 7., 10., 8., 11.]);
        assert_eq!(transposed(&stack, &[12]), stack);
    }

    #[test]
    fn parts_are_cut_out_of_wholes() {
        let fused = Numbers { shape: vec![2, 4, 1], values: (0..8u8).map(f32::from).collect() };
        assert_eq!(alternating(&fused, 0), [0., 2., 4., 6.]);
        assert_eq!(alternating(&fused, 1), [1., 3., 5., 7.]);
        // Two heads of two rows to keys and one to values, of a latent vector of two.
        let both = Numbers { shape: vec![6, 2], values: (0..12u8).map(f32::from).collect() };
        assert_eq!(per_head(&both, &[2, 2, 2], 0), [0., 2., 1., 3., 6., 8., 7., 9.]);
        assert_eq!(per_head(&both, &[2, 1, 2], 1), [4., 5., 10., 11.]);
    }
}
