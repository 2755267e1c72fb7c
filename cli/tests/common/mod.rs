//! Small models that the tests write, and the program to run on them.
#![allow(clippy::disallowed_methods, dead_code)] // tests write files, and not each uses everything
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Variables of its own that the program hears.
const OWN: [&str; 5] =
    ["SCANTLING_COLOR", "SCANTLING_ASCII", "SCANTLING_WIDTH", "SCANTLING_KERNEL", "SCANTLING_THREADS"];

/// The program, with nothing in its environment that changes how it looks.
pub fn program() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_scantling"));
    let looks = ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS"];
    for name in looks.into_iter().chain(OWN) {
        command.env_remove(name);
    }
    command
}

/// What a run printed and its exit code.
pub struct Run {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Runs the program in a folder.
pub fn run_in(folder: &Path, args: &[&str]) -> Run {
    finished(program().current_dir(folder).args(args).output().unwrap())
}

pub fn finished(output: Output) -> Run {
    Run {
        code: output.status.code().unwrap_or(-1),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// The program on a terminal of its own, whose both streams come on standard output; says what is skipped where nothing
/// here makes one.
pub fn on_terminal(args: &[&str]) -> Option<Command> {
    let script = Command::new("script").arg("--version").output();
    if !script.is_ok_and(|run| String::from_utf8_lossy(&run.stdout).contains("util-linux")) {
        println!("skipped: there is no script of util-linux, which makes a terminal");
        return None;
    }
    let quoted = |word: &str| format!("'{}'", word.replace('\'', "'\\''"));
    let program = program();
    let words = program.get_program().to_str().into_iter().chain(args.iter().copied());
    // In place of the shell: some stay behind it otherwise, and an interrupt would end them too.
    let line = format!("exec {}", words.map(quoted).collect::<Vec<_>>().join(" "));
    let mut command = Command::new("script");
    command.args(["-q", "-e", "-c", &line, "/dev/null"]);
    // Whatever runs the tests may have no terminal itself.
    command.env("TERM", "xterm");
    // What it leaves out of its environment is left out here too.
    for (name, value) in program.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    Some(command)
}

/// What JSON output is held to: docs/report.schema.json.
pub fn schema() -> jsonschema::Validator {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../docs/report.schema.json");
    let schema: Value = serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap();
    jsonschema::draft202012::meta::validate(&schema).unwrap();
    jsonschema::draft202012::new(&schema).unwrap()
}

/// The document that a run printed, held to the schema.
#[track_caller]
pub fn valid(run: &Run) -> Value {
    let document: Value =
        serde_json::from_str(&run.out).unwrap_or_else(|e| panic!("{e}\n{}\n{}", run.out, run.err));
    let faults: Vec<String> =
        schema().iter_errors(&document).map(|e| format!("{}: {e}", e.instance_path())).collect();
    assert!(faults.is_empty(), "{faults:?}\n{document:#}");
    document
}

/// A tensor of a hand-made file: name, shape, bytes (F32).
#[derive(Clone)]
pub struct Tensor {
    pub name: String,
    pub shape: Vec<usize>,
    pub bytes: Vec<u8>,
}

impl Tensor {
    /// A tensor whose values tell it from others.
    pub fn new(name: &str, shape: &[usize]) -> Tensor {
        let count: usize = shape.iter().product();
        let seed = name.bytes().map(usize::from).sum::<usize>();
        let bytes = (0..count).flat_map(|i| ((i * 7 + seed) as f32).to_le_bytes()).collect();
        Tensor { name: name.to_owned(), shape: shape.to_vec(), bytes }
    }
}

/// The tensors of a Qwen3 with two layers, 16 tokens and a stored copy of the tied head.
pub fn qwen3() -> Vec<Tensor> {
    let mut tensors = vec![Tensor::new("model.embed_tokens.weight", &[16, 8])];
    for layer in 0..2 {
        let own: [(&str, &[usize]); 11] = [
            ("input_layernorm.weight", &[8]),
            ("self_attn.q_proj.weight", &[24, 8]),
            ("self_attn.k_proj.weight", &[12, 8]),
            ("self_attn.v_proj.weight", &[12, 8]),
            ("self_attn.o_proj.weight", &[8, 24]),
            ("self_attn.q_norm.weight", &[6]),
            ("self_attn.k_norm.weight", &[6]),
            ("post_attention_layernorm.weight", &[8]),
            ("mlp.gate_proj.weight", &[20, 8]),
            ("mlp.up_proj.weight", &[20, 8]),
            ("mlp.down_proj.weight", &[8, 20]),
        ];
        tensors.extend(
            own.iter().map(|(name, shape)| Tensor::new(&format!("model.layers.{layer}.{name}"), shape)),
        );
    }
    tensors.push(Tensor::new("model.norm.weight", &[8]));
    let mut head = tensors[0].clone();
    head.name = "lm_head.weight".into();
    tensors.push(head);
    tensors
}

pub const CONFIG: &str = r#"{
  "architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3",
  "vocab_size": 16, "hidden_size": 8, "intermediate_size": 20, "num_hidden_layers": 2,
  "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 6, "hidden_act": "silu",
  "rms_norm_eps": 1e-6, "rope_theta": 1000000, "rope_scaling": null, "max_position_embeddings": 64,
  "attention_bias": false, "use_sliding_window": false, "sliding_window": null,
  "tie_word_embeddings": true, "torch_dtype": "float32"
}"#;

/// The bytes of a safetensors file.
pub fn safetensors(tensors: &[Tensor], metadata: &str) -> Vec<u8> {
    let mut header = format!("{{\"__metadata__\":{metadata}");
    let mut at = 0;
    for tensor in tensors {
        let end = at + tensor.bytes.len();
        let name = serde_json::Value::from(tensor.name.as_str());
        let shape = &tensor.shape;
        header.push_str(&format!(
            ",{name}:{{\"dtype\":\"F32\",\"shape\":{shape:?},\"data_offsets\":[{at},{end}]}}"
        ));
        at = end;
    }
    header.push('}');
    while header.len() % 8 != 0 {
        header.push(' ');
    }
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.extend(tensors.iter().flat_map(|t| t.bytes.iter()));
    bytes
}

/// A folder with a model in it.
pub fn model(at: &Path, name: &str, tensors: &[Tensor], config: Option<&str>) -> PathBuf {
    let folder = at.join(name);
    std::fs::create_dir_all(&folder).unwrap();
    let bytes = safetensors(tensors, "{\"format\":\"pt\"}");
    std::fs::write(folder.join("model.safetensors"), bytes).unwrap();
    if let Some(config) = config {
        std::fs::write(folder.join("config.json"), config).unwrap();
    }
    folder
}

/// A temporary folder with a clean model `good` and a model `bad` that lacks a tensor.
pub fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    model(folder.path(), "good", &qwen3(), Some(CONFIG));
    let mut short = qwen3();
    short.retain(|t| t.name != "model.layers.1.mlp.up_proj.weight");
    model(folder.path(), "bad", &short, Some(CONFIG));
    folder
}
