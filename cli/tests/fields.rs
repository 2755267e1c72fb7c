//! The fields of blocks: every element is made again from what they are said to hold, by the formulas of the formats, and
//! is what the ggml library decodes the block to.
#![allow(clippy::disallowed_methods)] // a test reads the files it looks at

mod common;
mod models;

use common::{run_in, valid};
use models::{folder_from, registry, testdata};
use scantling_core::dtype::DType;
use scantling_core::quant::codebooks::{E2M1_DOUBLED, IQ1, IQ2_S, IQ2_XS, IQ2_XXS, IQ3_S, IQ3_XXS, IQ4};
use scantling_core::quant::fields::{Held, Numbers};
use std::path::Path;

/// The numbers of a block by the names of their lists.
struct Lists<'b>(Vec<Held<'b>>);

impl Lists<'_> {
    fn of(&self, name: &str) -> &Numbers {
        let mut all = self.0.iter().flat_map(|field| &field.lists);
        all.find(|(list, _)| *list == name)
            .map(|(_, numbers)| numbers)
            .unwrap_or_else(|| panic!("no list {name}"))
    }

    /// A whole number of a list.
    fn n(&self, name: &str, i: usize) -> i32 {
        let Numbers::Whole(all) = self.of(name) else { panic!("{name} is not whole") };
        all[i]
    }

    /// The same as f32.
    fn w(&self, name: &str, i: usize) -> f32 {
        self.n(name, i) as f32
    }

    fn r(&self, name: &str, i: usize) -> f32 {
        let Numbers::Real(all) = self.of(name) else { panic!("{name} is whole") };
        all[i]
    }

    fn d(&self) -> f32 {
        self.r("scale", 0)
    }
}

fn signed(bit: i32, value: f32) -> f32 {
    if bit & 1 == 1 { -value } else { value }
}

/// Bit `k` of the eight signs that a code of seven bits stands for: the last makes their number even.
fn sign(code: i32, k: usize) -> i32 {
    if k < 7 { code >> k & 1 } else { (code.count_ones() % 2) as i32 }
}

/// Element `e` of a block, from its fields alone: facts of the formats, in f32 and in this order.
fn element(dtype: DType, b: &Lists<'_>, e: usize) -> f32 {
    let low_high = |times: i32| {
        b.n("low bits", e)
            + times * b.n(if times == 16 && dtype == DType::Q6_K { "high bits" } else { "high bit" }, e)
    };
    let scaled = |each: usize| b.d() * b.w("sub-scale", e / each);
    let minimum = |each: usize| b.r("scale of the minima", 0) * b.w("sub-minimum", e / each);
    let index = |each: usize, high: &str| {
        (b.n("low bits of the index", e / each) + 256 * b.n(high, e / each)) as usize
    };
    match dtype {
        DType::Q4_0 => (b.w("code", e) - 8.0) * b.d(),
        DType::Q4_1 => b.w("code", e) * b.d() + b.r("minimum", 0),
        DType::Q5_0 => (low_high(16) - 16) as f32 * b.d(),
        DType::Q5_1 => low_high(16) as f32 * b.d() + b.r("minimum", 0),
        DType::Q8_0 | DType::Q8_1 | DType::Q8_K => b.d() * b.w("code", e),
        DType::Q2_K => scaled(16) * b.w("code", e) - minimum(16),
        DType::Q3_K => scaled(16) * (low_high(4) - 4) as f32,
        DType::Q4_K => scaled(32) * b.w("code", e) - minimum(32),
        DType::Q5_K => scaled(32) * low_high(16) as f32 - minimum(32),
        DType::Q6_K => scaled(16) * (low_high(16) - 32) as f32,
        DType::IQ2_XXS => {
            let scale = b.d() * (0.5 + b.w("sub-scale", e / 32)) * 0.25;
            let entry = IQ2_XXS[b.n("index", e / 8) as usize][e % 8];
            signed(sign(b.n("sign code", e / 8), e % 8), scale * f32::from(entry))
        }
        DType::IQ2_XS => {
            let scale = b.d() * (0.5 + b.w("sub-scale", e / 16)) * 0.25;
            let entry = IQ2_XS[b.n("index", e / 8) as usize][e % 8];
            signed(sign(b.n("sign code", e / 8), e % 8), scale * f32::from(entry))
        }
        DType::IQ2_S => {
            let scale = b.d() * (0.5 + b.w("sub-scale", e / 16)) * 0.25;
            let entry = IQ2_S[index(8, "high bits of the index")][e % 8];
            signed(b.n("signs", e / 8) >> (e % 8), scale * f32::from(entry))
        }
        DType::IQ3_XXS => {
            let scale = b.d() * (0.5 + b.w("sub-scale", e / 32)) * 0.5;
            let entry = IQ3_XXS[b.n("index", e / 4) as usize][e % 4];
            signed(sign(b.n("sign code", e / 8), e % 8), scale * f32::from(entry))
        }
        DType::IQ3_S => {
            let scale = b.d() * (1.0 + 2.0 * b.w("sub-scale", e / 32));
            let entry = IQ3_S[index(4, "high bit of the index")][e % 4];
            signed(b.n("signs", e / 8) >> (e % 8), scale * f32::from(entry))
        }
        DType::IQ1_S | DType::IQ1_M => {
            let (each, shifts) = if dtype == DType::IQ1_S { (32, 32) } else { (16, 8) };
            let scale = b.d() * (2.0 * b.w("sub-scale", e / each) + 1.0);
            let shift = if b.n("shift down", e / shifts) == 1 { -0.125 } else { 0.125 };
            scale * (f32::from(IQ1[index(8, "high bits of the index")][e % 8]) + shift)
        }
        DType::IQ4_NL => b.d() * f32::from(IQ4[b.n("code", e) as usize]),
        DType::IQ4_XS => {
            let i = e / 32;
            let scale = b.n("low bits of the sub-scale", i) + 16 * b.n("high bits of the sub-scale", i) - 32;
            b.d() * scale as f32 * f32::from(IQ4[b.n("code", e) as usize])
        }
        DType::TQ1_0 if e < 240 => (b.w("digit of elements 0..240", e) - 1.0) * b.d(),
        DType::TQ1_0 => (b.w("digit of elements 240..256", e - 240) - 1.0) * b.d(),
        DType::TQ2_0 | DType::Q2_0 => (b.w("code", e) - 1.0) * b.d(),
        DType::MXFP4 => f32::from(E2M1_DOUBLED[b.n("code", e) as usize]) * b.r("half of the scale", 0),
        DType::NVFP4 => f32::from(E2M1_DOUBLED[b.n("code", e) as usize]) * b.r("half of the scale", e / 16),
        DType::Q1_0 => {
            if b.n("bit", e) == 1 {
                b.d()
            } else {
                -b.d()
            }
        }
        other => panic!("no formula for {other}"),
    }
}

#[test]
fn elements_follow_from_fields() {
    let mut blocks = elements_of(&testdata("quants/dequant.safetensors"));
    if let Some(shared) = folder_from("SCANTLING_SHARED") {
        blocks += elements_of(&shared.join("golden/quants/dequant.safetensors"));
    }
    assert!(blocks >= 243, "{blocks}");
}

/// Makes the elements of all blocks of a file from their fields; how many blocks there are.
fn elements_of(file: &Path) -> usize {
    let source = registry().open(file).unwrap();
    let bytes = |name: &str| source.tensors().get(name).map(|t| source.bytes(t).unwrap().into_owned());
    let mut blocks = 0;
    for (dtype, layout) in DType::all().filter_map(|dtype| Some((dtype, dtype.layout()?))) {
        let mut kinds = 0;
        for kind in ["sane", "edge", "arbitrary"] {
            let Some(raw) = bytes(&format!("{dtype}.{kind}.bytes")) else { continue };
            let values = bytes(&format!("{dtype}.{kind}.f32")).unwrap();
            let values: Vec<f32> =
                values.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect();
            let each = dtype.block_elements();
            for (raw, values) in raw.chunks(dtype.block_bytes()).zip(values.chunks(each)) {
                let lists = Lists(layout.read(raw).unwrap());
                for (e, wanted) in values.iter().enumerate() {
                    let found = element(dtype, &lists, e);
                    let same = found == *wanted || found.is_nan() && wanted.is_nan();
                    assert!(same, "{dtype} {kind}, element {e}: {found} from the fields, {wanted} by ggml");
                }
                blocks += 1;
            }
            kinds += 1;
        }
        assert!(kinds > 0, "{dtype}: no blocks to try");
    }
    blocks
}

#[test]
fn a_block_is_shown_field_by_field() {
    let at = testdata("qwen3-q4_k_m.gguf");
    let file = std::fs::read(&at).unwrap();
    let show = |args: &[&str]| run_in(Path::new("."), &[&["show", at.to_str().unwrap()], args].concat());
    let document = valid(&show(&["blk.0.attn_q.weight", "--block", "5,0", "--json"]));
    let block = &document["block"];
    let offset = document["tensor"]["offset"].as_u64().unwrap() as usize;
    let cols = document["tensor"]["shape"][1].as_u64().unwrap() as usize;
    let number = 5 * cols / 256;
    assert_eq!((&block["number"], &block["first_element"]), (&number.into(), &(5 * cols).into()));
    assert_eq!(block["offset"].as_u64().unwrap() as usize, offset + number * 144);
    let names: Vec<&str> =
        block["fields"].as_array().unwrap().iter().map(|f| f["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["d", "dmin", "scales", "qs"]);
    let hex: String =
        block["fields"].as_array().unwrap().iter().map(|f| f["hex"].as_str().unwrap()).collect();
    let stored: String = file[offset + number * 144..][..144].iter().map(|b| format!("{b:02x}")).collect();
    assert_eq!(hex, stored);
    let row = valid(&show(&["blk.0.attn_q.weight[5, :256]", "--json"]));
    assert_eq!(block["elements"], row["values"][0]);

    let run = show(&["blk.0.attn_q.weight", "--block", "0"]);
    for shown in [
        "sub-scale (8)",
        "sub-minimum (8)",
        "code (256)",
        "element = scale · sub-scale[e/32] · code −",
        "bytes 4..16",
    ] {
        assert!(run.out.contains(shown), "{shown} is not in\n{}", run.out);
    }
    let run = show(&["blk.0.attn_q.weight", "--block", "99999,0"]);
    assert!(run.code == 2 && run.err.contains("rows of"), "{}", run.err);
    let run = show(&["blk.0.attn_q.weight", "--block", "99999999"]);
    assert!(run.code == 2 && run.err.contains("blocks of 256"), "{}", run.err);
}
