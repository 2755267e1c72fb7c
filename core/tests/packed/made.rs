//! Small weights of every scheme with what they are to be, by a formula of its own: no code is shared with the decoders.

use crate::fake::{Checkpoint, Numbers, f32s, words};
use scantling_core::dtype::DType;

/// A checkpoint of one weight, its name, and its numbers.
pub struct Made {
    pub checkpoint: Checkpoint,
    pub name: &'static str,
    pub value: Box<dyn Fn(usize) -> f64>,
}

pub fn all() -> Vec<Made> {
    let mut all = Vec::new();
    for bits in [2, 4, 8] {
        all.extend([gptq(bits, false, false), gptq(bits, true, false), gptq(bits, false, true)]);
    }
    all.push(awq());
    all.extend([fp8_block(), fp8_one(&[]), fp8_one(&[1]), fp8_one(&[5, 1])]);
    all.push(mxfp4());
    all.extend([bnb(false), bnb(true)]);
    for bits in [4, 8] {
        all.extend([
            ct_packed(bits, false, false),
            ct_packed(bits, true, false),
            ct_packed(bits, false, true),
        ]);
    }
    all.extend([ct_bytes("tensor"), ct_bytes("channel"), ct_bytes("group"), ct_bytes("block")]);
    all
}

/// Codes `[lines, per line]` in words of 32 bits, the lowest bits first, lines padded to whole words.
fn pack(codes: &[Vec<u32>], bits: usize) -> Vec<Vec<u32>> {
    let per = 32 / bits;
    let line = |codes: &Vec<u32>| -> Vec<u32> {
        let word = |part: &[u32]| part.iter().enumerate().fold(0, |w, (i, c)| w | c << (bits * i));
        codes.chunks(per).map(word).collect()
    };
    codes.iter().map(line).collect()
}

fn turned(lines: &[Vec<u32>]) -> Vec<Vec<u32>> {
    (0..lines[0].len()).map(|i| lines.iter().map(|line| line[i]).collect()).collect()
}

fn codes(numbers: &mut Numbers, lines: usize, per_line: usize, below: usize) -> Vec<Vec<u32>> {
    (0..lines).map(|_| (0..per_line).map(|_| numbers.below(below) as u32).collect()).collect()
}

/// 16 outputs, 64 inputs in groups of 32.
pub fn gptq(bits: usize, second: bool, ordered: bool) -> Made {
    let (out, inputs, size) = (16, 64, 32);
    let mut numbers = Numbers(bits as u64);
    let q = codes(&mut numbers, out, inputs, 1 << bits);
    let z = codes(&mut numbers, 2, out, 1 << bits);
    let scales = numbers.floats(2 * out);
    let groups: Vec<u32> = match ordered {
        true => (0..inputs).map(|i| u32::from(i * 7 % 5 < 2)).collect(),
        false => (0..inputs).map(|i| (i / size) as u32).collect(),
    };
    let format = if second { "gptq_v2" } else { "gptq" };
    let said = format!(
        r#"{{"quant_method": "gptq", "bits": {bits}, "group_size": {size}, "desc_act": {ordered}, "checkpoint_format": "{format}"}}"#
    );
    let qweight = turned(&pack(&q, bits)).concat();
    let mut checkpoint = Checkpoint::new(&said)
        .with("a.qweight", DType::I32, &[inputs * bits / 32, out], words(&qweight))
        .with("a.qzeros", DType::I32, &[2, out * bits / 32], words(&pack(&z, bits).concat()))
        .with("a.scales", DType::F32, &[2, out], f32s(&scales));
    if ordered {
        checkpoint = checkpoint.with("a.g_idx", DType::I32, &[inputs], words(&groups));
    }
    let plus = if second { 0.0 } else { 1.0 };
    let value = move |n: usize| {
        let (o, i) = (n / inputs, n % inputs);
        let g = groups[i] as usize;
        (f64::from(q[o][i]) - (f64::from(z[g][o]) + plus)) * f64::from(scales[g * out + o])
    };
    Made { checkpoint, name: "a.weight", value: Box::new(value) }
}

/// 16 outputs, 48 inputs in groups of 16.
pub fn awq() -> Made {
    const ORDER: [usize; 8] = [0, 2, 4, 6, 1, 3, 5, 7];
    let (out, inputs, size) = (16, 48, 16);
    let mut numbers = Numbers(99);
    let q = codes(&mut numbers, inputs, out, 16);
    let z = codes(&mut numbers, inputs / size, out, 16);
    let scales = numbers.floats(inputs / size * out);
    let shuffled = |lines: &[Vec<u32>]| -> Vec<u32> {
        let line = |l: &Vec<u32>| -> Vec<u32> { (0..out).map(|c| l[c / 8 * 8 + ORDER[c % 8]]).collect() };
        pack(&lines.iter().map(line).collect::<Vec<_>>(), 4).concat()
    };
    let checkpoint =
        Checkpoint::new(r#"{"quant_method": "awq", "bits": 4, "group_size": 16, "version": "GEMM"}"#)
            .with("a.qweight", DType::I32, &[inputs, out / 8], words(&shuffled(&q)))
            .with("a.qzeros", DType::I32, &[inputs / size, out / 8], words(&shuffled(&z)))
            .with("a.scales", DType::F32, &[inputs / size, out], f32s(&scales));
    let value = move |n: usize| {
        let (o, i) = (n / inputs, n % inputs);
        (f64::from(q[i][o]) - f64::from(z[i / size][o])) * f64::from(scales[i / size * out + o])
    };
    Made { checkpoint, name: "a.weight", value: Box::new(value) }
}

/// (-1)^s (1 + m / 8) 2^(e - 7) of a code of F8_E4M3.
fn e4m3(code: u8) -> f64 {
    let (sign, e, m) = (if code > 127 { -1.0 } else { 1.0 }, i32::from(code >> 3 & 15), f64::from(code & 7));
    match (e, code & 127) {
        (_, 127) => f64::NAN,
        (0, _) => sign * m / 8.0 * 2f64.powi(-6),
        _ => sign * (1.0 + m / 8.0) * 2f64.powi(e - 7),
    }
}

/// Blocks of 3 rows and 4 columns, partial at both edges; scales that are bytes.
pub fn fp8_block() -> Made {
    let (out, inputs) = (7, 10);
    let mut numbers = Numbers(5);
    let codes = numbers.bytes(out * inputs);
    let scales: Vec<u8> = (0..9).map(|_| 120 + numbers.below(12) as u8).collect();
    let checkpoint = Checkpoint::new(r#"{"quant_method": "fp8", "weight_block_size": [3, 4]}"#)
        .with("a.weight", DType::F8_E4M3, &[out, inputs], codes.clone())
        .with("a.weight_scale_inv", DType::U8, &[3, 3], scales.clone())
        .with("a.bias", DType::F32, &[7], vec![0; 28]);
    let value = move |n: usize| {
        let (o, i) = (n / inputs, n % inputs);
        e4m3(codes[n]) * 2f64.powi(i32::from(scales[o / 3 * 3 + i / 4]) - 127)
    };
    Made { checkpoint, name: "a.weight", value: Box::new(value) }
}

/// One scale for the tensor, or one for each of five rows.
pub fn fp8_one(shape: &[usize]) -> Made {
    let (out, inputs) = (5, 6);
    let mut numbers = Numbers(6);
    let codes = numbers.bytes(out * inputs);
    let scales = numbers.floats(shape.iter().product());
    let checkpoint = Checkpoint::new(r#"{"quant_method": "fp8", "activation_scheme": "static"}"#)
        .with("a.input_scale", DType::F32, &[], f32s(&[7.0]))
        .with("a.weight", DType::F8_E4M3, &[out, inputs], codes.clone())
        .with("a.weight_scale", DType::F32, shape, f32s(&scales));
    let value = move |n: usize| e4m3(codes[n]) * f64::from(scales[n / inputs % scales.len()]);
    Made { checkpoint, name: "a.weight", value: Box::new(value) }
}

/// Two experts of 3 outputs and 64 inputs.
pub fn mxfp4() -> Made {
    const E2M1: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];
    let mut numbers = Numbers(7);
    let codes = numbers.bytes(2 * 3 * 2 * 16);
    let scales: Vec<u8> = (0..12).map(|_| 118 + numbers.below(12) as u8).collect();
    let checkpoint = Checkpoint::new(r#"{"quant_method": "mxfp4"}"#)
        .with("x.gate_up_proj_blocks", DType::U8, &[2, 3, 2, 16], codes.clone())
        .with("x.gate_up_proj_scales", DType::U8, &[2, 3, 2], scales.clone());
    let value = move |n: usize| {
        let code = if n.is_multiple_of(2) { codes[n / 2] & 15 } else { codes[n / 2] >> 4 };
        let sign = if code > 7 { -1.0 } else { 1.0 };
        sign * E2M1[usize::from(code & 7)] * 2f64.powi(i32::from(scales[n / 32]) - 127)
    };
    Made { checkpoint, name: "x.gate_up_proj", value: Box::new(value) }
}

/// 5 outputs, 9 inputs: rows that begin within a byte and within a run of 8.
pub fn bnb(nested: bool) -> Made {
    let (elements, size) = (45usize, 8);
    let mut numbers = Numbers(8);
    let codes = numbers.bytes(23);
    let map = numbers.floats(16);
    let blocks = elements.div_ceil(size);
    let state = match nested {
        false => r#"{"quant_type": "nf4", "blocksize": 8, "dtype": "bfloat16", "shape": [5, 9]}"#,
        true => {
            r#"{"quant_type": "nf4", "blocksize": 8, "dtype": "bfloat16", "shape": [5, 9], "nested_blocksize": 4, "nested_dtype": "float32", "nested_offset": 0.3333333432674408}"#
        }
    };
    let said = r#"{"quant_method": "bitsandbytes", "load_in_4bit": true, "load_in_8bit": false}"#;
    let checkpoint = Checkpoint::new(said)
        .with("a.weight", DType::U8, &[23, 1], codes.clone())
        .with("a.weight.quant_map", DType::F32, &[16], f32s(&map))
        .with("a.weight.quant_state.bitsandbytes__nf4", DType::U8, &[state.len()], state.into());
    let at = move |n: usize| if n.is_multiple_of(2) { codes[n / 2] >> 4 } else { codes[n / 2] & 15 };
    let times = move |n: usize, absmax: f64| f64::from(map[usize::from(at(n))]) * absmax;
    if !nested {
        let absmax = numbers.floats(blocks);
        let checkpoint = checkpoint.with("a.weight.absmax", DType::F32, &[blocks], f32s(&absmax));
        let value = move |n: usize| times(n, f64::from(absmax[n / size]));
        return Made { checkpoint, name: "a.weight", value: Box::new(value) };
    }
    let (absmax, nested_map) = (numbers.bytes(blocks), numbers.floats(256));
    let scales = numbers.floats(blocks.div_ceil(4));
    let checkpoint = checkpoint
        .with("a.weight.absmax", DType::U8, &[blocks], absmax.clone())
        .with("a.weight.nested_quant_map", DType::F32, &[256], f32s(&nested_map))
        .with("a.weight.nested_absmax", DType::F32, &[scales.len()], f32s(&scales));
    let value = move |n: usize| {
        let block = n / size;
        let product = f64::from(nested_map[usize::from(absmax[block])]) * f64::from(scales[block / 4]);
        let sum = f64::from(product as f32) + f64::from(0.333_333_34_f32);
        times(n, f64::from(sum as f32))
    };
    Made { checkpoint, name: "a.weight", value: Box::new(value) }
}

fn described(format: &str, bits: usize, kind: &str, strategy: &str, size: &str, symmetric: bool) -> String {
    format!(
        r#"{{"quant_method": "compressed-tensors", "format": "{format}", "ignore": ["lm_head"], "config_groups": {{"group_0": {{"targets": ["Linear"], "weights": {{"num_bits": {bits}, "type": "{kind}", "strategy": "{strategy}", "symmetric": {symmetric}, "group_size": {size}, "block_structure": [2, 4]}}}}}}}}"#
    )
}

/// 10 outputs, 42 inputs in groups of 14: words are padded in both directions.
pub fn ct_packed(bits: usize, zeros: bool, ordered: bool) -> Made {
    let (out, inputs, size, groups) = (10, 42, 14, 3);
    let mut numbers = Numbers(10 + bits as u64);
    let q = codes(&mut numbers, out, inputs, 1 << bits);
    let z = codes(&mut numbers, out, groups, 1 << bits);
    let scales = numbers.floats(out * groups);
    let order: Vec<u32> = (0..inputs).map(|i| if ordered { i % groups } else { i / size } as u32).collect();
    let packed = pack(&q, bits);
    let shape = [10i64, 42].iter().flat_map(|n| n.to_le_bytes()).collect();
    let mut checkpoint = Checkpoint::new(&described("pack-quantized", bits, "int", "group", "14", !zeros))
        .with("a.weight_packed", DType::I32, &[out, packed[0].len()], words(&packed.concat()))
        .with("a.weight_scale", DType::F32, &[out, groups], f32s(&scales))
        .with("a.weight_shape", DType::I64, &[2], shape);
    if zeros {
        let packed = turned(&pack(&turned(&z), bits));
        let shape = [packed.len(), groups];
        checkpoint = checkpoint.with("a.weight_zero_point", DType::I32, &shape, words(&packed.concat()));
    }
    if ordered {
        checkpoint = checkpoint.with("a.weight_g_idx", DType::I32, &[inputs], words(&order));
    }
    let middle = f64::from(1u32 << (bits - 1));
    let value = move |n: usize| {
        let (o, i) = (n / inputs, n % inputs);
        let g = order[i] as usize;
        let zero = if zeros { f64::from(z[o][g]) } else { middle };
        (f64::from(q[o][i]) - zero) * f64::from(scales[o * groups + g])
    };
    Made { checkpoint, name: "a.weight", value: Box::new(value) }
}

/// 4 outputs, 8 inputs of whole numbers, with zero points.
pub fn ct_bytes(strategy: &str) -> Made {
    let (out, inputs) = (4, 8);
    let mut numbers = Numbers(20);
    let codes = numbers.bytes(out * inputs);
    let (shape, block): (&[usize], _) = match strategy {
        "tensor" => (&[1], (out, inputs)),
        "channel" => (&[4, 1], (1, inputs)),
        "group" => (&[4, 4], (1, 2)),
        _ => (&[2, 2], (2, 4)),
    };
    let count = shape.iter().product();
    let (scales, zeros) = (numbers.floats(count), numbers.bytes(count));
    let checkpoint = Checkpoint::new(&described("int-quantized", 8, "int", strategy, "2", false))
        .with("a.weight", DType::I8, &[out, inputs], codes.clone())
        .with("a.weight_scale", DType::F32, shape, f32s(&scales))
        .with("a.weight_zero_point", DType::I8, shape, zeros.clone());
    let value = move |n: usize| {
        let at = n / inputs / block.0 * inputs.div_ceil(block.1) + n % inputs / block.1;
        (f64::from(codes[n] as i8) - f64::from(zeros[at] as i8)) * f64::from(scales[at])
    };
    Made { checkpoint, name: "a.weight", value: Box::new(value) }
}
