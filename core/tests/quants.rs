//! Decoding against the reference: for every ggml type blocks and the values that the ggml library makes of them,
//! for every safetensors type a tensor and its values; and the arithmetic of sizes.
//!
//! `testdata/quants` holds the first blocks of each kind; with `SCANTLING_SHARED` set the whole set is run too.
//! Values have to be equal bit for bit, but any NaN equals any other, and -0 equals 0.

#![allow(clippy::disallowed_methods)] // Tests read their own files.

use proptest::prelude::*;
use scantling_core::dtype::{DType, SizeError, elements};
use scantling_core::quant::decode;
use scantling_core::quant::rounding::block_step;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// A safetensors file taken apart with as few lines as will do.
struct File {
    header: BTreeMap<String, Value>,
    data: Vec<u8>,
}

struct Tensor<'a> {
    dtype: DType,
    shape: Vec<usize>,
    bytes: &'a [u8],
}

impl File {
    fn open(path: &Path) -> File {
        let bytes = std::fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let (length, rest) = bytes.split_at(8);
        let (header, data) = rest.split_at(u64::from_le_bytes(length.try_into().unwrap()) as usize);
        let mut header: BTreeMap<String, Value> = serde_json::from_slice(header).unwrap();
        header.remove("__metadata__");
        File { header, data: data.to_vec() }
    }

    fn tensor(&self, name: &str) -> Tensor<'_> {
        let entry = self.header.get(name).unwrap_or_else(|| panic!("no tensor {name}"));
        let numbers = |key: &str| -> Vec<usize> {
            entry[key].as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
        };
        let offsets = numbers("data_offsets");
        Tensor {
            dtype: DType::from_safetensors(entry["dtype"].as_str().unwrap()).unwrap(),
            shape: numbers("shape"),
            bytes: &self.data[offsets[0]..offsets[1]],
        }
    }
}

fn vendored() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata/quants")
}

#[allow(clippy::print_stderr, reason = "a test that checks nothing has to say so")]
fn whole_set() -> Option<PathBuf> {
    let shared = std::env::var_os("SCANTLING_SHARED");
    if shared.is_none() {
        eprintln!("skipped: SCANTLING_SHARED is not set (whole golden set)");
    }
    Some(Path::new(&shared?).join("golden/quants"))
}

fn decoded(dtype: DType, bytes: &[u8]) -> Vec<f32> {
    let mut out = vec![f32::from_bits(0x7fc0_dead); bytes.len() / dtype.block_bytes() * dtype.block_values()];
    decode(dtype, bytes, &mut out).unwrap();
    out
}

fn assert_same(what: &str, found: &[f32], expected: &[f32]) {
    assert_eq!(found.len(), expected.len(), "{what}: number of values");
    for (i, (found, expected)) in found.iter().zip(expected).enumerate() {
        let same = found.to_bits() == expected.to_bits()
            || found.is_nan() && expected.is_nan()
            || *found == 0.0 && *expected == 0.0;
        assert!(same, "{what}: value {i} is {found:e}, expected {expected:e}");
    }
}

/// What was compared: blocks and values.
#[derive(Debug, PartialEq)]
struct Counts {
    blocks: usize,
    values: usize,
}

fn compare_blocks(path: &Path) -> Counts {
    let file = File::open(path);
    let mut counts = Counts { blocks: 0, values: 0 };
    let mut kinds: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for name in file.header.keys().filter_map(|name| name.strip_suffix(".bytes")) {
        let (type_name, kind) = name.split_once('.').unwrap();
        kinds.entry(type_name).or_default().push(kind);
        let dtype = DType::all().find(|dtype| dtype.name() == type_name).unwrap();
        let raw = file.tensor(&format!("{name}.bytes"));
        let values: Vec<f32> = decoded(DType::F32, file.tensor(&format!("{name}.f32")).bytes);
        assert!(!values.is_empty(), "{name} has no blocks");
        assert_same(name, &decoded(dtype, raw.bytes), &values);
        counts.blocks += raw.shape[0];
        counts.values += values.len();
    }
    let found: BTreeSet<&str> = kinds.keys().copied().collect();
    let expected: BTreeSet<&str> = DType::all().filter(|t| t.ggml_id().is_some()).map(DType::name).collect();
    assert_eq!(found, expected, "every ggml type, and no other");
    assert!(kinds.values().all(|kinds| kinds == &["arbitrary", "edge", "sane"]), "{kinds:?}");
    assert_eq!(file.header.len(), 2 * 3 * expected.len(), "nothing in the file is left out");
    counts
}

#[test]
fn first_blocks_of_every_ggml_type_decode_as_in_ggml() {
    assert_eq!(
        compare_blocks(&vendored().join("dequant.safetensors")),
        Counts { blocks: 299, values: 43_264 }
    );
}

#[test]
fn all_blocks_of_the_golden_set_decode_as_in_ggml() {
    let Some(folder) = whole_set() else { return };
    let counts = compare_blocks(&folder.join("dequant.safetensors"));
    assert!(counts.blocks >= 566 && counts.values >= 85_504, "{counts:?}");
}

/// The expected values of a tensor: floats as f32, integers as they are.
fn expected_values(expected: &Tensor<'_>) -> Vec<f32> {
    fn each<const N: usize>(bytes: &[u8], read: impl Fn([u8; N]) -> f32) -> Vec<f32> {
        bytes.as_chunks().0.iter().map(|&bytes| read(bytes)).collect()
    }
    let bytes = expected.bytes;
    match expected.dtype {
        DType::F32 => each(bytes, f32::from_le_bytes),
        DType::U8 => each(bytes, |bytes| u8::from_le_bytes(bytes).into()),
        DType::I8 => each(bytes, |bytes| i8::from_le_bytes(bytes).into()),
        DType::U16 => each(bytes, |bytes| u16::from_le_bytes(bytes).into()),
        DType::I16 => each(bytes, |bytes| i16::from_le_bytes(bytes).into()),
        DType::U32 => each(bytes, |bytes| u32::from_le_bytes(bytes) as f32),
        DType::I32 => each(bytes, |bytes| i32::from_le_bytes(bytes) as f32),
        DType::U64 => each(bytes, |bytes| u64::from_le_bytes(bytes) as f32),
        DType::I64 => each(bytes, |bytes| i64::from_le_bytes(bytes) as f32),
        other => panic!("no expected values are stored as {other}"),
    }
}

fn compare_tensors(folder: &Path) -> Counts {
    let (file, expected) = (
        File::open(&folder.join("dtypes.safetensors")),
        File::open(&folder.join("dtypes.expected.safetensors")),
    );
    let mut counts = Counts { blocks: 0, values: 0 };
    let mut seen = BTreeSet::new();
    for name in file.header.keys() {
        let tensor = file.tensor(name);
        seen.insert(tensor.dtype);
        assert_eq!(tensor.dtype.byte_len(&tensor.shape), Ok(tensor.bytes.len() as u64), "{name}");
        let values = expected_values(&expected.tensor(name));
        assert_same(name, &decoded(tensor.dtype, tensor.bytes), &values);
        counts.blocks += 1;
        counts.values += values.len();
    }
    let all: BTreeSet<DType> = DType::all().filter(|t| t.safetensors_name().is_some()).collect();
    let left: Vec<DType> = all.difference(&seen).copied().collect();
    assert_eq!(left, [DType::F6_E2M3, DType::F6_E3M2], "every safetensors type but those without a packing");
    counts
}

#[test]
fn tensors_of_every_safetensors_type_decode_to_their_values() {
    assert_eq!(compare_tensors(&vendored()), Counts { blocks: 22, values: 1987 });
}

#[test]
fn tensors_of_the_golden_set_decode_to_their_values() {
    let Some(folder) = whole_set() else { return };
    compare_tensors(&folder);
}

#[test]
fn six_bit_tensors_take_three_bytes_for_four_elements() {
    let file = File::open(&vendored().join("dtypes_f6.safetensors"));
    assert_eq!(file.header.len(), 3);
    for name in file.header.keys() {
        let tensor = file.tensor(name);
        assert_eq!(tensor.dtype.byte_len(&tensor.shape), Ok(tensor.bytes.len() as u64), "{name}");
    }
}

#[test]
fn rows_have_to_be_whole_blocks_even_where_the_total_is() {
    let row = |row, block| Err(SizeError::PartialRow { row, block });
    assert_eq!(DType::Q4_K.byte_len(&[3, 256]), Ok(432));
    assert_eq!(DType::Q4_K.byte_len(&[8, 96]), row(96, 256));
    assert_eq!(DType::Q4_0.byte_len(&[]), row(1, 32));
    assert_eq!(DType::F4.byte_len(&[2, 3]), Ok(3));
    assert_eq!(DType::F4.byte_len(&[3]), Err(SizeError::PartialByte { elements: 3, bits: 4 }));
    assert_eq!(DType::F6_E3M2.byte_len(&[3, 2]), Err(SizeError::PartialByte { elements: 6, bits: 6 }));
    assert_eq!(DType::F32.byte_len(&[]), Ok(4));
    let message = DType::Q4_K.byte_len(&[8, 96]).unwrap_err().to_string();
    assert_eq!(message, "rows of 96 elements are not whole blocks of 256");
}

#[test]
fn an_axis_of_zero_makes_every_size_zero() {
    for dtype in DType::all() {
        for shape in [&[0][..], &[usize::MAX, usize::MAX, 0], &[0, 3], &[usize::MAX, 0, usize::MAX, 7]] {
            assert_eq!(dtype.byte_len(shape), Ok(0), "{dtype} {shape:?}");
        }
        assert_eq!(dtype.byte_len(&[usize::MAX, 256]), Err(SizeError::Overflow));
    }
}

/// Axes of all magnitudes, with those that matter (0, 1, whole blocks, the largest) often among them.
fn axis() -> impl Strategy<Value = usize> {
    prop_oneof![
        Just(0usize),
        Just(usize::MAX),
        0usize..600,
        (0usize..600).prop_map(|n| n * 256),
        (0u32..64).prop_map(|bit| 1usize.checked_shl(bit).unwrap_or(1)),
        any::<usize>()
    ]
}

/// The same in 128 bits, without a thought for speed. Products beyond 128 bits stay at the largest.
fn slow_byte_len(dtype: DType, shape: &[usize]) -> Result<u64, SizeError> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let elements = shape.iter().fold(1u128, |product, &axis| product.saturating_mul(axis as u128));
    if elements > u64::MAX.into() {
        return Err(SizeError::Overflow);
    }
    let (block, row) = (dtype.block_elements(), *shape.last().unwrap_or(&1));
    if dtype.is_quantised() && !row.is_multiple_of(block) {
        return Err(SizeError::PartialRow { row, block });
    }
    let bits_in_a_block = 8 * dtype.block_bytes() as u128;
    let bits = elements * bits_in_a_block / block as u128;
    if !bits.is_multiple_of(8) {
        let bits = (bits_in_a_block / block as u128) as u32;
        return Err(SizeError::PartialByte { elements: elements as u64, bits });
    }
    u64::try_from(bits / 8).map_err(|_| SizeError::Overflow)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn sizes_agree_with_slow_arithmetic(shape in prop::collection::vec(axis(), 0..6)) {
        for dtype in DType::all() {
            prop_assert_eq!(dtype.byte_len(&shape), slow_byte_len(dtype, &shape), "{} {:?}", dtype, shape);
        }
        let product = shape.iter().fold(1u128, |product, &axis| product.saturating_mul(axis as u128));
        if !shape.contains(&0) {
            prop_assert_eq!(elements(&shape), u64::try_from(product).ok());
        }
    }
}

/// What became of a row of numbers.
struct Rounded {
    /// The errors' root mean square as a share of the numbers'.
    relative: f64,
    /// What brings them nearest to the numbers.
    factor: f64,
    /// The first element farther off than [`block_step`] allows.
    beyond: Option<usize>,
}

/// What a tensor of the golden set's quantiser holds, for each row of its input.
fn rounded(golden: &File, dtype: DType, name: &str) -> Vec<Rounded> {
    let input = golden.tensor("input");
    let (rows, cols) = (input.shape[0], input.shape[1]);
    let numbers = decoded(DType::F32, input.bytes);
    let tensor = golden.tensor(name);
    let each = numbers.chunks(cols).zip(tensor.bytes.chunks(tensor.bytes.len() / rows));
    each.map(|(row, bytes)| {
        let back = decoded(dtype, bytes);
        let apart: Vec<f64> = row.iter().zip(&back).map(|(a, b)| f64::from(*a) - f64::from(*b)).collect();
        let squares = |all: &mut dyn Iterator<Item = f64>| all.map(|x| x * x).sum::<f64>();
        let relative =
            (squares(&mut apart.iter().copied()) / squares(&mut row.iter().map(|x| f64::from(*x)))).sqrt();
        let blocks = bytes.chunks(dtype.block_bytes()).zip(row.chunks(dtype.block_values()));
        let steps = blocks.map(|(block, numbers)| block_step(dtype, block, Some(numbers)));
        let allowed = steps.flat_map(|step| std::iter::repeat_n(step, dtype.block_values()));
        let beyond = apart.iter().zip(allowed).position(|(x, step)| step.is_some_and(|step| x.abs() > step));
        let products = row.iter().zip(&back).map(|(x, y)| f64::from(*x) * f64::from(*y)).sum::<f64>();
        let factor = products / squares(&mut back.iter().map(|y| f64::from(*y)));
        Rounded { relative, factor, beyond }
    })
    .collect()
}

#[test]
fn quantisation_errors_are_those_of_the_reference_quantiser() {
    let Some(folder) = whole_set() else { return };
    let golden = File::open(&folder.join("quant.safetensors"));
    let types: Vec<DType> = DType::all().filter(|dtype| dtype.quantisation_error().is_some()).collect();
    assert_eq!(types.len(), 25, "every block type but those of activations");
    for dtype in types {
        let plain = format!("{dtype}.bytes");
        let name = if golden.header.contains_key(&plain) { plain } else { format!("{dtype}.imatrix.bytes") };
        let rows = rounded(&golden, dtype, &name);
        // A normal distribution, and that of Laplace.
        let worse = rows[1].relative.max(rows[4].relative);
        assert_eq!(format!("{worse:.4}"), format!("{:.4}", dtype.quantisation_error().unwrap()), "{dtype}");
        let factors = [rows[1].factor, rows[4].factor];
        let farther = factors.into_iter().max_by(|a, b| (a - 1.0).abs().total_cmp(&(b - 1.0).abs())).unwrap();
        assert_eq!(
            format!("{farther:.3}"),
            format!("{:.3}", dtype.quantisation_factor().unwrap()),
            "{dtype}"
        );
        for (i, row) in rows.iter().enumerate() {
            assert_eq!(row.beyond, None, "{dtype}, row {i}: farther than one step");
        }
    }
}
