//! Packed weights: decoded by another formula than the decoders', faults planted in them, and whatever chance makes of
//! them.

mod fake;
mod faults;
mod made;

use fake::{Checkpoint, Numbers, f32s, same};
use scantling_core::dtype::DType;
use scantling_core::error::Error;

#[test]
fn every_scheme_decodes_to_what_its_formula_says() {
    for made in made::all() {
        let source = made.checkpoint.open();
        let info = source.tensors().get(made.name).unwrap();
        same(&made.checkpoint.decoded(made.name), &made.value);
        let scheme = info.dtype.to_string();
        assert!((1..=16).contains(&scheme.chars().count()), "{scheme}");
    }
}

#[test]
fn a_logical_tensor_stands_for_its_parts() {
    let made = made::fp8_block();
    let source = made.checkpoint.open();
    let names: Vec<&str> = source.tensors().tensors().iter().map(|t| t.name.as_str()).collect();
    assert_eq!(names, ["a.weight", "a.bias"]);
    let info = source.tensors().get("a.weight").unwrap();
    assert_eq!((info.dtype.to_string().as_str(), info.dtype.known()), ("F8_E4M3 3×4", None));
    assert_eq!((info.shape.as_slice(), info.byte_len(), info.bytes.clone()), (&[7, 10][..], 79, None));
    assert_eq!(info.bits_per_weight(), Some(79.0 * 8.0 / 70.0));
    let parts: Vec<&str> = info.parts.iter().map(|p| p.name.as_str()).collect();
    assert_eq!(parts, ["a.weight", "a.weight_scale_inv"]);
    // It has no bytes of its own; its parts have, and what is plain.
    assert!(matches!(source.bytes(info), Err(Error::Usage(_))));
    assert_eq!(source.bytes(&info.parts[0]).unwrap().len(), 70);
    let bias = source.tensors().get("a.bias").unwrap();
    assert_eq!((source.bytes(bias).unwrap().len(), bias.stored().len()), (28, 1));
    assert!(source.packed(bias).unwrap().is_none());
}

#[test]
fn modules_left_alone_are_plain_and_what_is_not_read_is_left_as_it_is() {
    let plain = |said: &str| {
        let checkpoint = made::gptq(4, false, false).checkpoint.saying(said);
        let names: Vec<String> =
            checkpoint.open().tensors().tensors().iter().map(|t| t.name.clone()).collect();
        assert_eq!(names, ["a.qweight", "a.qzeros", "a.scales"], "{said}");
    };
    for said in [
        r#"{"quant_method": "gptq", "bits": 3, "group_size": 32}"#,
        r#"{"quant_method": "gptq", "bits": 4, "checkpoint_format": "marlin"}"#,
        r#"{"quant_method": "gptq", "bits": 4, "is_marlin_format": true}"#,
        r#"{"quant_method": "gptq", "bits": 4, "dynamic": {"+:.*": {"bits": 8}}}"#,
        r#"{"quant_method": "gptq", "bits": 4, "group_size": 0}"#,
        r#"{"quant_method": "gptq", "bits": "4"}"#,
        r#"{"quant_method": "awq", "bits": 4, "version": "gemv"}"#,
        r#"{"quant_method": "awq", "bits": 4, "backend": "llm-awq"}"#,
        r#"{"quant_method": "auto-round", "bits": 4}"#,
        r#"{"quant_method": "hqq"}"#,
        r#"{"quant_method": ["gptq"], "bits": 4}"#,
        r#"{"bits": 4, "group_size": 32}"#,
        "null",
        "[1, 2]",
    ] {
        plain(said);
    }
    let rules = r#"{"quant_method": "gptq", "bits": 4, "group_size": 32, "dynamic": {"-:.*lm_head": {}}}"#;
    let alone =
        made::gptq(4, false, false).checkpoint.saying(rules).with("b.weight", DType::F32, &[1], vec![0; 4]);
    let source = alone.open();
    assert!(source.tensors().get("a.weight").unwrap().is_packed());
    assert!(!source.tensors().get("b.weight").unwrap().is_packed());
}

#[test]
fn codes_that_readers_take_differently_are_told() {
    let disputed = |made: &made::Made| {
        let source = made.checkpoint.open();
        let info = source.tensors().get(made.name).unwrap();
        let packed = source.packed(info).unwrap().unwrap();
        packed.disputed()
    };
    let zeros = |byte: u8, second: bool| {
        let mut made = made::gptq(4, second, false);
        made.checkpoint = made.checkpoint.edit("a.qzeros", |t| t.bytes.fill(byte));
        made
    };
    assert_eq!(disputed(&zeros(0x77, false)), None);
    assert_eq!(disputed(&zeros(0xff, true)), None);
    assert!(disputed(&zeros(0xf7, false)).unwrap().starts_with("16 zeros are 15, "));
    let mut mxfp4 = made::mxfp4();
    assert_eq!(disputed(&mxfp4), None);
    mxfp4.checkpoint = mxfp4.checkpoint.edit("x.gate_up_proj_scales", |t| t.bytes[3] = 255);
    assert!(disputed(&mxfp4).unwrap().starts_with("1 scales are 255"));
    assert!(mxfp4.checkpoint.decoded(mxfp4.name)[96..128].iter().all(|x| x.is_nan()));
}

#[test]
fn several_descriptions_are_told_apart_by_the_scales() {
    let group = |bits: u8, strategy: &str, size: &str| {
        format!(
            r#"{{"weights": {{"num_bits": {bits}, "type": "int", "strategy": "{strategy}", "group_size": {size}}}, "format": "{}"}}"#,
            if bits == 4 { "pack-quantized" } else { "int-quantized" }
        )
    };
    let said = format!(
        r#"{{"quant_method": "compressed-tensors", "format": "mixed-precision", "config_groups": {{"a": {}, "b": {}, "c": {}}}}}"#,
        group(4, "group", "8"),
        group(4, "group", "14"),
        group(8, "channel", "null")
    );
    let words = made::ct_packed(4, false, false);
    let bytes: Vec<u8> = (0..32).collect();
    let both = words.checkpoint.saying(&said).with("b.weight", DType::I8, &[4, 8], bytes).with(
        "b.weight_scale",
        DType::F32,
        &[4, 1],
        f32s(&[1.0, 2.0, 3.0, 4.0]),
    );
    same(&both.decoded("a.weight"), &words.value);
    same(&both.decoded("b.weight"), |n| n as f64 * (n / 8 + 1) as f64);
}

#[test]
fn whatever_chance_makes_of_a_checkpoint_is_told_and_never_panics() {
    let all = made::all();
    let (mut fine, mut told) = (0, 0);
    for seed in 0..6000 {
        let mut numbers = Numbers(seed);
        let mut checkpoint = all[numbers.below(all.len())].checkpoint.clone();
        for _ in 0..=numbers.below(3) {
            change(&mut checkpoint, &mut numbers);
        }
        let source = checkpoint.open();
        for info in source.tensors().tensors() {
            match source.packed(info) {
                Ok(Some(packed)) => {
                    fine += 1;
                    std::hint::black_box(packed.disputed());
                    for first in
                        [0, packed.rows().saturating_sub(1)].into_iter().filter(|_| packed.rows() > 0)
                    {
                        packed.widen(first, &mut vec![0.0; packed.cols().min(1 << 20)]);
                    }
                }
                Ok(None) => {}
                Err(Error::Malformed { findings }) => {
                    assert!(!findings.is_empty());
                    told += 1;
                }
                Err(_) => told += 1,
            }
        }
    }
    assert!(fine > 500 && told > 1000, "{fine} {told}");
}

/// One thing that a damaged or hostile checkpoint may have.
fn change(checkpoint: &mut Checkpoint, numbers: &mut Numbers) {
    const SIDES: [u64; 8] = [0, 1, 2, 3, 16, 64, 1 << 40, u64::MAX];
    const TYPES: [DType; 6] = [DType::F32, DType::I32, DType::U8, DType::F8_E4M3, DType::I64, DType::F4];
    let Some(at) = (!checkpoint.tensors.is_empty()).then(|| numbers.below(checkpoint.tensors.len())) else {
        return;
    };
    let tensor = &mut checkpoint.tensors[at];
    match numbers.below(7) {
        0 => tensor.dtype = TYPES[numbers.below(TYPES.len())],
        1 => {
            if let Some(side) = tensor.shape.last_mut() {
                *side = SIDES[numbers.below(SIDES.len())];
            }
        }
        2 => tensor.shape = (0..numbers.below(5)).map(|_| SIDES[numbers.below(SIDES.len())]).collect(),
        3 => {
            let len = numbers.below(tensor.bytes.len() + 1);
            tensor.bytes.truncate(len);
        }
        4 => {
            for _ in 0..4 {
                let (n, byte) = (numbers.below(tensor.bytes.len().max(1)), numbers.draw() as u8);
                tensor.bytes.iter_mut().skip(n).take(1).for_each(|b| *b = byte);
            }
        }
        5 => {
            checkpoint.tensors.remove(at);
        }
        _ => {
            let digits: Vec<usize> = checkpoint
                .said
                .bytes()
                .enumerate()
                .filter(|(_, b)| b.is_ascii_digit())
                .map(|(i, _)| i)
                .collect();
            if !digits.is_empty() {
                let at = digits[numbers.below(digits.len())];
                let text = ["0", "1", "7", "-1", "99999999999", "18446744073709551615", "1.5", "null"];
                checkpoint.said.replace_range(at..=at, text[numbers.below(text.len())]);
            }
        }
    }
}
