//! Faults planted in sound checkpoints, each found for what it is.

use crate::fake::{Checkpoint, words};
use crate::made;
use scantling_core::dtype::DType;

/// The one fault of a weight: its code, where it is, and what was expected and found.
#[track_caller]
fn told(checkpoint: &Checkpoint, weight: &str, code: &str, tensor: &str, versus: (&str, &str)) {
    let findings = checkpoint.faults(weight);
    let shown: Vec<String> = findings.iter().map(|f| format!("{}: {f}", f.code.id)).collect();
    let [one] = findings.as_slice() else { panic!("{shown:#?}") };
    let found = one.found.clone().unwrap_or_default();
    let expected = one.expected.clone().unwrap_or_default();
    assert_eq!((one.code.id, one.place.tensor.as_deref()), (code, Some(tensor)), "{shown:#?}");
    assert!(expected.contains(versus.0) && found.contains(versus.1), "{shown:#?}");
}

#[test]
fn a_wrong_group_size_shows_in_the_scales() {
    let said = r#"{"quant_method": "gptq", "bits": 4, "group_size": 16, "desc_act": false}"#;
    let wrong = made::gptq(4, false, false).checkpoint.saying(said);
    let findings = wrong.faults("a.weight");
    let scales = findings.iter().find(|f| f.place.tensor.as_deref() == Some("a.scales")).unwrap();
    assert_eq!(scales.code.id, "packed-part-misshapen");
    assert_eq!(scales.expected.as_deref(), Some("[4, 16] (in / group_size 16, out)"));
    assert_eq!(scales.found.as_deref(), Some("[2, 16]"));
    let said = r#"{"quant_method": "gptq", "bits": 4, "group_size": -1}"#;
    let whole = made::gptq(4, false, false).checkpoint.saying(said);
    assert!(
        whole.faults("a.weight").iter().all(|f| f
            .expected
            .as_deref()
            .unwrap_or_default()
            .starts_with("[1, "))
    );
}

#[test]
fn other_bits_than_the_config_says_show_in_the_zeros() {
    let said = r#"{"quant_method": "gptq", "bits": 8, "group_size": 32}"#;
    let findings = made::gptq(4, false, false).checkpoint.saying(said).faults("a.weight");
    let zeros = findings.iter().find(|f| f.place.tensor.as_deref() == Some("a.qzeros")).unwrap();
    assert_eq!((zeros.code.id, zeros.found.as_deref()), ("packed-part-misshapen", Some("[2, 2]")));
}

#[test]
fn an_absent_part_is_missing() {
    let gptq = made::gptq(4, false, true).checkpoint;
    told(
        &gptq.clone().without("a.scales"),
        "a.weight",
        "packed-part-missing",
        "a.scales",
        ("[2, 16]", "none"),
    );
    told(
        &gptq.clone().without("a.qzeros"),
        "a.weight",
        "packed-part-missing",
        "a.qzeros",
        ("[2, 2]", "none"),
    );
    told(&gptq.without("a.g_idx"), "a.weight", "packed-part-missing", "a.g_idx", ("[64]", "none"));
    let fp8 = made::fp8_block().checkpoint.without("a.weight_scale_inv");
    told(&fp8, "a.weight", "packed-part-missing", "a.weight_scale_inv", ("[3, 3]", "none"));
    let mxfp4 = made::mxfp4().checkpoint.without("x.gate_up_proj_scales");
    told(&mxfp4, "x.gate_up_proj", "packed-part-missing", "x.gate_up_proj_scales", ("[2, 3, 2]", "none"));
    let bnb = made::bnb(true).checkpoint;
    let state = "a.weight.quant_state.bitsandbytes__nf4";
    told(&bnb.clone().without(state), "a.weight", "packed-part-missing", state, ("JSON", "none"));
    let map = "a.weight.nested_quant_map";
    told(&bnb.without(map), "a.weight", "packed-part-missing", map, ("[256]", "none"));
    let ct = made::ct_packed(4, true, false).checkpoint;
    let zeros = "a.weight_zero_point";
    told(&ct.without(zeros), "a.weight", "packed-part-missing", zeros, ("[2, 3]", "none"));
}

#[test]
fn a_group_that_there_is_not_is_told_with_its_input() {
    let mut order = vec![0u32; 64];
    order[63] = 2;
    let gptq = |order: &[u32]| {
        let bytes = words(order);
        made::gptq(4, false, true).checkpoint.edit("a.g_idx", |t| t.bytes = bytes)
    };
    let versus = ("0 to 1", "2 for input 63");
    told(&gptq(&order), "a.weight", "packed-part-value", "a.g_idx", versus);
    order[5] = u32::MAX;
    told(&gptq(&order), "a.weight", "packed-part-value", "a.g_idx", ("0 to 1", "-1 for input 5"));
    let ct = |order: Vec<u32>| {
        made::ct_packed(4, false, true).checkpoint.edit("a.weight_g_idx", |t| t.bytes = words(&order))
    };
    let mut order: Vec<u32> = (0..42).map(|i| i % 3).collect();
    order[0] = 3;
    told(&ct(order.clone()), "a.weight", "packed-part-value", "a.weight_g_idx", ("0 to 2", "3 for input 0"));
    order[0] = 1;
    told(&ct(order), "a.weight", "packed-part-value", "a.weight_g_idx", ("14 inputs in group 0", "13"));
}

#[test]
fn a_state_that_cannot_be_is_told() {
    let name = "a.weight.quant_state.bitsandbytes__nf4";
    let with = |state: &str| {
        made::bnb(true).checkpoint.edit(name, |t| {
            t.bytes = state.into();
            t.shape = vec![state.len() as u64];
        })
    };
    for (state, versus) in [
        ("{\"quant_type\": ", ("an object", "EOF")),
        ("[]", ("an object", "expected an object")),
        (r#"{"quant_type": "fp4", "blocksize": 8, "shape": [5, 9]}"#, ("nf4", "fp4")),
        (r#"{"quant_type": "nf4", "blocksize": 0, "shape": [5, 9]}"#, ("at least 1", "0")),
        (r#"{"quant_type": "nf4", "shape": [5, 9]}"#, ("at least 1", "none")),
        (r#"{"quant_type": "nf4", "blocksize": 8, "shape": [45]}"#, ("two axes", "a list of 1")),
        (r#"{"quant_type": "nf4", "blocksize": 8, "shape": [5, -9]}"#, ("two axes", "a list of 2")),
        (r#"{"quant_type": "nf4", "blocksize": 8, "shape": [5, 9]}"#, ("at least 1", "none")),
        (
            r#"{"quant_type": "nf4", "blocksize": 8, "shape": [5, 9], "nested_blocksize": 4}"#,
            ("a number", "none"),
        ),
    ] {
        told(&with(state), "a.weight", "packed-part-value", name, versus);
    }
    let huge = r#"{"quant_type": "nf4", "blocksize": 8, "shape": [9223372036854775807, 9223372036854775807], "nested_blocksize": 4, "nested_offset": 0}"#;
    let findings = with(huge).faults("a.weight");
    assert!(findings[0].message.contains("shape of quant_state"), "{}", findings[0]);
    let other = r#"{"quant_type": "nf4", "blocksize": 8, "shape": [5, 90], "nested_blocksize": 4, "nested_offset": 0}"#;
    let findings = with(other).faults("a.weight");
    let codes = findings.iter().find(|f| f.place.tensor.as_deref() == Some("a.weight")).unwrap();
    assert_eq!((codes.code.id, codes.found.as_deref()), ("packed-part-misshapen", Some("[23, 1]")));
}

#[test]
fn parts_of_another_type_are_told() {
    let plain = made::fp8_block().checkpoint.edit("a.weight", |t| {
        t.dtype = DType::BF16;
        t.bytes = vec![0; 140];
    });
    told(&plain, "a.weight", "packed-part-type", "a.weight", ("F8_E4M3", "BF16"));
    let gptq = made::gptq(4, false, false).checkpoint.edit("a.qweight", |t| t.dtype = DType::F32);
    told(&gptq, "a.weight", "packed-part-type", "a.qweight", ("I32", "F32"));
    let awq = made::awq().checkpoint.edit("a.scales", |t| t.dtype = DType::I32);
    told(&awq, "a.weight", "packed-part-type", "a.scales", ("F16", "I32"));
    let ct = made::ct_bytes("channel").checkpoint.edit("a.weight_scale", |t| t.dtype = DType::I32);
    told(&ct, "a.weight", "packed-part-type", "a.weight_scale", ("F16", "I32"));
}

#[test]
fn shapes_that_overflow_are_told() {
    let huge = |name: &str, made: made::Made| {
        let end = made.checkpoint.edit(name, |t| t.shape = vec![u64::MAX / 2, 1 << 40]);
        assert!(!end.faults(made.name).is_empty());
    };
    huge("a.qweight", made::gptq(2, false, false));
    huge("a.qweight", made::awq());
    huge("a.weight", made::fp8_block());
    huge("a.weight_packed", made::ct_packed(4, false, false));
    let blocks = made::mxfp4()
        .checkpoint
        .edit("x.gate_up_proj_blocks", |t| t.shape = vec![u64::MAX / 32, 3, 1 << 60, 16]);
    assert!(!blocks.faults("x.gate_up_proj").is_empty());
}

#[test]
fn what_contradicts_the_config_is_told() {
    let said = r#"{"quant_method": "gptq", "bits": 4, "group_size": 32, "modules_to_not_convert": ["a"]}"#;
    let codes = |checkpoint: Checkpoint| -> Vec<&'static str> {
        checkpoint.open().findings().iter().map(|f| f.code.id).collect()
    };
    let gptq = made::gptq(4, false, false).checkpoint;
    assert!(codes(gptq.clone()).is_empty());
    assert_eq!(codes(gptq.clone().saying(said)), ["packed-left-alone"]);
    let twice = gptq.with("a.weight", DType::F32, &[1], vec![0; 4]);
    assert_eq!(codes(twice), ["packed-stored-twice"]);
    let said = r#"{"quant_method": "compressed-tensors", "format": "int-quantized", "config_groups": {"g": {"weights": {"num_bits": 8, "type": "int", "strategy": "channel"}}}}"#;
    let one = made::ct_bytes("tensor").checkpoint.saying(said);
    told(&one, "a.weight", "packed-part-misshapen", "a.weight_scale", ("[4, 1]", "[1]"));
}
