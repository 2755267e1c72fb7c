//! Writes `.safetensors` files.

use scantling_core::dtype::DType;

/// A tensor to be written: name, element type, shape.
pub type Tensor = (String, DType, Vec<usize>);

/// A file of these tensors, in this order, filled with a pattern of small numbers.
pub fn file(tensors: &[Tensor], metadata: &[(&str, &str)]) -> Vec<u8> {
    let mut data = Vec::new();
    let mut members = Vec::new();
    if !metadata.is_empty() {
        let pairs: Vec<String> = metadata.iter().map(|(k, v)| format!(r#""{k}":"{v}""#)).collect();
        members.push(format!(r#""__metadata__":{{{}}}"#, pairs.join(",")));
    }
    for (name, dtype, shape) in tensors {
        let begin = data.len();
        data.extend(pattern(*dtype, shape));
        let (dtype, end) = (dtype.name(), data.len());
        members.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape:?},"data_offsets":[{begin},{end}]}}"#
        ));
    }
    with_header(&format!("{{{}}}", members.join(",")), &data)
}

/// A file with this header, padded, and this data.
pub fn with_header(header: &str, data: &[u8]) -> Vec<u8> {
    let mut header = header.as_bytes().to_vec();
    header.resize(header.len().next_multiple_of(8), b' ');
    [&(header.len() as u64).to_le_bytes()[..], &header, data].concat()
}

/// Bytes of a tensor: none of them makes a number that is not finite in any type, and those of F32 are the same
/// numbers as those of BF16.
pub fn pattern(dtype: DType, shape: &[usize]) -> Vec<u8> {
    let len = dtype.byte_len(shape).map_or(0, |len| len as usize);
    let byte = |i: usize| [0, 1, 2, 3][i % 4];
    match dtype {
        DType::F32 => (0..len / 2).step_by(2).flat_map(|i| [0, 0, byte(i), byte(i + 1)]).collect(),
        _ => (0..len).map(byte).collect(),
    }
}
