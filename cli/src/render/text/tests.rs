//! What an inspection looks like, character by character, over reports made by hand.

use super::*;
use crate::terminal::Look;
use scantling_core::codes;
use scantling_core::config::{Fact, Key, Origin};
use scantling_core::finding::{Finding, Part};
use scantling_core::metadata::Value;
use scantling_core::report::{Container, Counts, Model, Row, Section, SectionPlace, Unchecked};
use scantling_core::source::Dialect;
use scantling_core::table::Use;

codes! {
    static HAND_MADE_NOTE = Note, Ties, "test-note", "a note", "Only a test.";
    static HAND_MADE_ERROR = Error, Names, "test-error", "an error", "Only a test.";
}

/// Qwen3-0.6B as it is published: a stored copy of a tied head.
fn qwen3() -> Report {
    static ANY: Key = Key { hf: &["any"], gguf: "any", symbol: "", meaning: "any" };
    let fact = |name: &str, symbol, value, meaning, note: Option<&str>| Fact {
        key: &ANY,
        name: name.into(),
        symbol,
        meaning,
        value: Value::Unsigned(value),
        origin: Origin::File,
        dimension: true,
        note: note.map(str::to_owned),
    };
    let heads = Some("q width = 16·128 = 2048");
    let kv = Some("kv width = 8·128 = 1024   (GQA group 2)");
    let facts = vec![
        fact("vocab_size", "V", 151_936, "distinct tokens", None),
        fact("hidden_size", "H", 1024, "residual-stream width", None),
        fact("num_hidden_layers", "L", 28, "transformer blocks", None),
        fact("head_dim", "d", 128, "width of one attention head", None),
        fact("num_attention_heads", "", 16, "query heads", heads),
        fact("num_key_value_heads", "", 8, "kv heads", kv),
        fact("intermediate_size", "I", 3072, "FFN inner width", None),
    ];
    let copy = "present but tied — a redundant byte-identical copy of embed_tokens (155,582,464 params counted once)";
    Report {
        path: "Qwen3-0.6B".into(),
        container: Container {
            format: "safetensors".into(),
            dialect: Dialect::Hf,
            files: vec![("model.safetensors".into(), 1_503_300_328)],
            facts: Vec::new(),
        },
        model: Model {
            family: Some("qwen3".into()),
            architecture: Some("qwen3"),
            config: Some("config.json".into()),
            ..Model::default()
        },
        facts,
        sections: sections(),
        types: Vec::new(),
        counts: Counts {
            tensors: 311,
            bytes: 1_503_264_768,
            stored: 751_632_384,
            logical: Some(596_049_920),
            embedding: Some(155_582_464),
            expected: Some(311),
        },
        vocabulary: None,
        outside: Vec::new(),
        likeness: None,
        parts: Part::ALL.to_vec(),
        findings: vec![
            Finding::new(&HAND_MADE_NOTE, copy).tensor("lm_head.weight").file("model.safetensors").at(7),
        ],
        unchecked: vec![Unchecked { what: "tensor values".into(), why: "use check --data".into() }],
    }
}

fn row(name: &str, shape: &[usize], usage: Use) -> Row {
    Row {
        name: name.into(),
        dtype: "BF16".into(),
        shape: shape.to_vec(),
        elements: shape.iter().product::<usize>() as u64,
        tensors: 1,
        layers: Vec::new(),
        usage: Some(usage),
        tied: false,
        parts: Vec::new(),
    }
}

fn sections() -> Vec<Section> {
    let layers: Vec<usize> = (0..28).collect();
    let in_layers = |name: &str, shape: &[usize], usage| Row {
        tensors: 28,
        layers: layers.clone(),
        ..row(name, shape, usage)
    };
    let block = vec![
        in_layers("input_layernorm.weight", &[1024], Use::Scale),
        in_layers("self_attn.q_proj.weight", &[2048, 1024], Use::Matrix),
        in_layers("post_attention_layernorm.weight", &[1024], Use::Scale),
    ];
    let tied = Row { tied: true, ..row("lm_head.weight", &[151_936, 1024], Use::Matrix) };
    let place = SectionPlace::Layers { prefix: "model.layers".into(), layers, alike: true };
    vec![
        Section {
            place: SectionPlace::Global,
            rows: vec![row("model.embed_tokens.weight", &[151_936, 1024], Use::Embedding)],
        },
        Section { place, rows: block },
        Section {
            place: SectionPlace::Final,
            rows: vec![row("model.norm.weight", &[1024], Use::Scale), tied],
        },
    ]
}

fn shown(report: &Report, look: Look) -> String {
    let mut bytes = Vec::new();
    let mut screen = Screen::new(&mut bytes, look);
    dimensions::write(&mut screen, report).unwrap();
    writeln!(screen).unwrap();
    tensors::write(&mut screen, report, false).unwrap();
    writeln!(screen).unwrap();
    heading(&mut screen, "verdict").unwrap();
    verdict::write(&mut screen, report, false).unwrap();
    screen.finish().unwrap();
    String::from_utf8(bytes).unwrap()
}

const QWEN3: &str = "\
── dimensions (from config.json) ───────────────────────────────────────────
  V  vocab_size             151936   distinct tokens
  H  hidden_size              1024   residual-stream width
  L  num_hidden_layers          28   transformer blocks
  d  head_dim                  128   width of one attention head
     num_attention_heads        16   query heads → q width = 16·128 = 2048
     num_key_value_heads         8   kv heads → kv width = 8·128 = 1024   (GQA group 2)
  I  intermediate_size        3072   FFN inner width
  weights are stored [out, in]; read a row as   in ──▶ out   (y = x·Wᵀ)

── tensors ─────────────────────────────────────────────────────────────────
  TENSOR                            DTYPE  SHAPE                PARAMS   in ──▶ out
  global
    model.embed_tokens.weight       BF16   [151936, 1024]  155,582,464   id ──▶ H   (row gather)
  each block  × 28   (shown: layer 0)
    input_layernorm.weight          BF16   [1024]                1,024   scale 1024
    self_attn.q_proj.weight         BF16   [2048, 1024]      2,097,152   1024 ──▶ 2048
    post_attention_layernorm.weight BF16   [1024]                1,024   scale 1024
  final
    model.norm.weight               BF16   [1024]                1,024   scale 1024
    lm_head.weight   (tied)         BF16   [151936, 1024]  155,582,464   1024 ──▶ 151936

── verdict ─────────────────────────────────────────────────────────────────
  ✓ all 311 expected tensors present, shapes match the config
  note: lm_head.weight present but tied — a redundant byte-identical copy of embed_tokens (155,582,464 params counted once)
  params: 751,632,384 stored · 596,049,920 logical
  embeddings: 155,582,464 = 26.1% of logical
  not checked: tensor values (use check --data)
";

#[test]
fn a_whole_model() {
    assert_eq!(shown(&qwen3(), Look::default()), QWEN3);
}

#[test]
fn ascii_has_only_ascii_and_loses_nothing() {
    let out = shown(&qwen3(), Look { ascii: true, ..Look::default() });
    assert!(out.is_ascii(), "{out}");
    assert!(out.contains("query heads -> q width = 16*128 = 2048"), "{out}");
    assert!(out.contains("id --> H   (row gather)"), "{out}");
    assert!(!out.contains("\\u"), "{out}");
    assert_eq!(out.lines().count(), QWEN3.lines().count());
}

#[test]
fn narrow_screens_break_no_number() {
    let numbers = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_ascii_digit() && c != ',').filter(|w| w.len() > 5);
        words.map(str::to_owned).collect()
    };
    for width in [40, 60, 72, 80] {
        let out = shown(&qwen3(), Look { width: Some(width), ..Look::default() });
        let rules = out.lines().filter(|l| l.starts_with("──"));
        assert!(rules.clone().count() == 3 && rules.clone().all(|l| l.chars().count() <= width), "{out}");
        assert!(numbers(&out).iter().all(|n| QWEN3.contains(n.as_str())), "{out}");
        for line in out.lines().filter(|_| width >= 60) {
            assert!(line.chars().count() <= width, "{width}: {line}");
        }
    }
}

#[test]
fn colours_wrap_words_and_change_nothing_else() {
    let out = shown(&qwen3(), Look { colour: true, ..Look::default() });
    assert!(out.contains("\x1b["));
    assert_eq!(anstream::adapter::strip_str(&out).to_string(), QWEN3);
}

#[test]
fn layers_that_differ_are_named() {
    let mut report = qwen3();
    let mut odd = row("mlp.experts.*.up_proj.weight", &[64, 32], Use::Matrix);
    odd.layers = vec![0, 1, 2, 7];
    odd.tensors = 4 * 128;
    let section = report.sections.get_mut(1).unwrap();
    section.rows.push(odd);
    section.place =
        SectionPlace::Layers { prefix: "model.layers".into(), layers: (0..28).collect(), alike: false };
    let out = shown(&report, Look::default());
    assert!(out.contains("  each block  × 28   (rows that differ name their layers)\n"), "{out}");
    let line = out.lines().find(|l| l.contains("experts")).unwrap();
    assert!(line.starts_with("    mlp.experts.*.up_proj.weight   × 128 BF16   [64, 32]"), "{line}");
    assert!(line.ends_with("2,048   32 ──▶ 64   layers 0–2, 7"), "{line}");
}

#[test]
fn findings_say_what_to_do() {
    let mut report = qwen3();
    let symptom = |n: usize| Finding::new(&HAND_MADE_ERROR, "is missing").tensor(format!("blk.{n}\x1b[2J"));
    let finding = Finding::new(&HAND_MADE_ERROR, "layers are missing")
        .file("model.safetensors")
        .at(12)
        .versus("28 layers", "20")
        .advice("fetch the rest")
        .because_of_this((0..8).map(symptom).collect());
    report.findings.insert(0, finding);
    let out = shown(&report, Look::default());
    let wanted = "  ✗ 1 error
  error[test-error]: model.safetensors at byte 12: layers are missing
    expected 28 layers
    found    20
    to do: fetch the rest
      - blk.0\\x1b[2J is missing
      - blk.1\\x1b[2J is missing
      - blk.2\\x1b[2J is missing
      - blk.3\\x1b[2J is missing
      - blk.4\\x1b[2J is missing
      … and 3 more (--full shows all)
  note: lm_head.weight present but tied";
    assert!(out.contains(wanted), "{out}");
}

#[test]
fn a_thousand_of_a_kind_are_counted() {
    let mut report = qwen3();
    let all = (0..1000).map(|n| Finding::new(&HAND_MADE_ERROR, "is missing").tensor(format!("blk.{n}")));
    report.findings.extend(all);
    let out = shown(&report, Look::default());
    assert_eq!(out.matches("error[test-error]").count(), 20);
    assert!(out.contains("  … and 980 more of test-error (--full shows all)\n"), "{out}");
}

#[test]
fn names_from_files_cannot_break_the_screen() {
    let mut report = qwen3();
    let hostile = "evil\x1b]0;x\x07\u{202e}\n\t\u{9b}31m";
    report.model.config = Some(hostile.into());
    for row in report.sections.iter_mut().flat_map(|s| &mut s.rows) {
        row.name = hostile.into();
        row.dtype = hostile.into();
    }
    report.findings.push(Finding::new(&HAND_MADE_ERROR, hostile).tensor(hostile).versus(hostile, hostile));
    for fact in &mut report.facts {
        fact.name = hostile.into();
        fact.value = Value::Text(hostile.into());
    }
    let out = shown(&report, Look::default());
    assert!(!out.chars().any(|c| c != '\n' && crate::terminal::is_control(c)), "{out:?}");
    assert!(out.lines().all(|l| !l.starts_with("31m")));
}

#[test]
fn long_names_do_not_fill_the_screen_with_blanks() {
    let mut report = qwen3();
    let section = report.sections.get_mut(1).unwrap();
    section.rows.first_mut().unwrap().name = "x".repeat(100_000);
    let out = shown(&report, Look::default());
    assert!(out.len() < 8_000, "{}", out.len());
}
