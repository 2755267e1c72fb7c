//! The header of a `.npy` file: what numpy needs to read numbers that follow it.

/// What precedes `[rows, cols]` numbers of f32, little-endian, row after row (version 1.0).
pub fn header(rows: usize, cols: usize) -> Vec<u8> {
    header_of("<f4", &[rows, cols])
}

/// What precedes numbers of any shape, outermost axis first; `descr` is what numpy calls their type.
pub fn header_of(descr: &str, shape: &[usize]) -> Vec<u8> {
    let shape: String = shape.iter().map(|len| format!("{len}, ")).collect();
    // A tuple of one needs its comma, longer ones are as numpy writes them.
    let shape = if shape.matches(',').count() > 1 { shape.trim_end_matches(", ") } else { shape.trim_end() };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    // Magic, version and length take 10 bytes; the data begins at a multiple of 64, after a newline.
    while !(10 + text.len() + 1).is_multiple_of(64) {
        text.push(' ');
    }
    text.push('\n');
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend((text.len() as u16).to_le_bytes());
    bytes.extend(text.bytes());
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn data_begins_at_a_multiple_of_64() {
        for (rows, cols) in [(0, 1), (5, 331), (123_456, 151_936)] {
            let header = header(rows, cols);
            assert_eq!(header.len() % 64, 0);
            assert_eq!(usize::from(header[8]) + 256 * usize::from(header[9]) + 10, header.len());
            assert!(header.ends_with(b"\n"));
        }
    }

    #[test]
    fn shapes_are_tuples() {
        let text =
            |shape: &[usize]| String::from_utf8_lossy(&header_of("<f8", shape)[10..]).trim_end().to_owned();
        let wanted = |shape| format!("{{'descr': '<f8', 'fortran_order': False, 'shape': {shape}, }}");
        assert_eq!(text(&[]), wanted("()"));
        assert_eq!(text(&[3]), wanted("(3,)"));
        assert_eq!(text(&[3, 4]), wanted("(3, 4)"));
        assert_eq!(text(&[3, 4, 0]), wanted("(3, 4, 0)"));
    }
}
