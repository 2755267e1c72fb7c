//! Tensor data of big-endian files: where the numbers of more than one byte lie in each element type.

use scantling_core::dtype::DType;

/// Numbers of one width that follow each other in a block.
struct Field {
    /// Offset in the block.
    at: usize,
    /// Bytes of each.
    width: usize,
    /// How many there are.
    count: usize,
}

const fn field(at: usize, width: usize, count: usize) -> Field {
    Field { at, width, count }
}

/// The fields of a block, or `None` for a type that GGUF does not have. Codes of 8 bits and less have no byte
/// order. Words whose bits are addressed by shifts (the high bits of Q5, the sign words of IQ2_XXS and
/// IQ3_XXS) are written as numbers, so they are turned round like numbers.
fn fields(dtype: DType) -> Option<&'static [Field]> {
    use DType::*;
    let fields: &'static [Field] = match dtype {
        I8 | MXFP4 | NVFP4 => &[],
        F16 | BF16 | I16 => &[const { field(0, 2, 1) }],
        F32 | I32 => &[const { field(0, 4, 1) }],
        F64 | I64 => &[const { field(0, 8, 1) }],
        // The scale, or the scale and the minimum, first.
        Q4_0 | Q8_0 | IQ4_NL | Q1_0 | Q2_0 | IQ2_S | IQ3_S => &[const { field(0, 2, 1) }],
        Q4_1 | Q8_1 | Q4_K | Q5_K => &[const { field(0, 2, 2) }],
        Q5_0 => &[const { field(0, 2, 1) }, const { field(2, 4, 1) }],
        Q5_1 => &[const { field(0, 2, 2) }, const { field(4, 4, 1) }],
        Q2_K => &[const { field(80, 2, 2) }],
        Q3_K => &[const { field(108, 2, 1) }],
        Q6_K => &[const { field(208, 2, 1) }],
        Q8_K => &[const { field(0, 4, 1) }, const { field(260, 2, 16) }],
        TQ1_0 => &[const { field(52, 2, 1) }],
        TQ2_0 => &[const { field(64, 2, 1) }],
        IQ1_S => &[const { field(0, 2, 1) }, const { field(34, 2, 8) }],
        IQ1_M => &[const { field(48, 2, 4) }],
        IQ2_XXS => &[const { field(0, 2, 1) }, const { field(2, 4, 16) }],
        IQ2_XS => &[const { field(0, 2, 33) }],
        IQ3_XXS => &[const { field(0, 2, 1) }, const { field(66, 4, 8) }],
        IQ4_XS => &[const { field(0, 2, 2) }],
        _ => return None,
    };
    Some(fields)
}

/// Turns round every number of more than one byte in whole blocks of a type. False if it is not a type of
/// GGUF, whose bytes are then as they were.
pub(super) fn swap(dtype: DType, data: &mut [u8]) -> bool {
    let Some(fields) = fields(dtype) else { return false };
    if fields.is_empty() {
        return true;
    }
    for block in data.chunks_exact_mut(dtype.block_bytes()) {
        for field in fields {
            let numbers = block.get_mut(field.at..).unwrap_or_default().chunks_exact_mut(field.width);
            numbers.take(field.count).for_each(<[u8]>::reverse);
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_type_of_gguf_has_fields_that_lie_in_its_block_apart_from_each_other() {
        for dtype in DType::all().filter(|d| d.ggml_id().is_some()) {
            let mut covered = vec![false; dtype.block_bytes()];
            for f in fields(dtype).unwrap_or_else(|| panic!("{dtype} has no fields")) {
                for byte in &mut covered[f.at..f.at + f.width * f.count] {
                    assert!(!std::mem::replace(byte, true), "{dtype}: two fields share a byte");
                }
            }
        }
    }

    #[test]
    fn swapping_twice_changes_nothing_and_once_changes_what_it_should() {
        for dtype in DType::all().filter(|d| d.ggml_id().is_some()) {
            let before: Vec<u8> = (0..dtype.block_bytes() * 3).map(|i| (i * 7 % 251) as u8).collect();
            let mut data = before.clone();
            assert!(swap(dtype, &mut data));
            let bytes: usize = fields(dtype).unwrap().iter().map(|f| f.width * f.count).sum();
            let changed = data.iter().zip(&before).filter(|(a, b)| a != b).count();
            assert_eq!(changed, 3 * bytes, "{dtype}");
            assert!(swap(dtype, &mut data));
            assert_eq!(data, before, "{dtype}");
        }
        assert!(!swap(DType::F4, &mut [0; 2]));
    }
}
