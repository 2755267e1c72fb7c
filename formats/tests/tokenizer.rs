//! Ids and texts that other programs got from the same vocabularies, out of both worlds.
#![allow(clippy::disallowed_methods, reason = "tests read what they compare with")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

use scantling_core::bundle::{Bundle, Folder, Target};
use scantling_core::tokenizer::{ChatTemplate, Message, Reading, Tokenizer};
use scantling_formats::GGUF;
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

const PLAIN: Reading = Reading { edges: false, special: true };

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(name)
}

fn folder_from(variable: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).map(PathBuf::from);
    if folder.is_none() {
        println!("skipped: {variable} is not set");
    }
    folder
}

fn load(path: &Path) -> (Tokenizer, Option<ChatTemplate>) {
    let bundle = match Target::at(path).unwrap() {
        Target::Folder(folder) => {
            let tokenizer =
                Tokenizer::of_folder(&folder).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
            let chat = ChatTemplate::of_folder(&folder, &tokenizer).unwrap();
            return (tokenizer, chat);
        }
        Target::File(bundle) => bundle,
    };
    let source = (GGUF.open)(&bundle).unwrap();
    let tokenizer = Tokenizer::of(source.as_ref()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let chat = ChatTemplate::of(source.as_ref(), &tokenizer).unwrap();
    (tokenizer, chat)
}

fn json(path: &Path) -> Json {
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn ids(value: &Json) -> Vec<u32> {
    value.as_array().unwrap().iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()).collect()
}

/// Cases of a golden file that a tokenizer gets wrong, in words.
fn wrong(tokenizer: &Tokenizer, golden: &Json) -> Vec<String> {
    let mut wrong = Vec::new();
    for case in golden["cases"].as_array().unwrap() {
        let text = case["text"].as_str().unwrap();
        let plain = ids(&case["ids"]);
        let got = tokenizer.ids(text, PLAIN).unwrap();
        if got != plain {
            wrong.push(format!("{text:?}: {got:?}, not {plain:?}"));
        }
        let got = tokenizer.ids(text, Reading::PROMPT).unwrap();
        if got != ids(&case["ids_special"]) {
            wrong.push(format!("{text:?} with edges: {got:?}, not {}", case["ids_special"]));
        }
        for (key, skip) in [("decoded", false), ("decoded_skip", true)] {
            let got = tokenizer.decode(&plain, skip).unwrap();
            // The goldens are without WordPiece's clean-up of spaces before punctuation.
            if got != case[key].as_str().unwrap() && golden["tokenizer"] != "bert" {
                wrong.push(format!("{plain:?}, {key}: {got:?}, not {}", case[key]));
            }
        }
    }
    wrong
}

/// What a stream gives is what comes of all ids at once.
fn streams(tokenizer: &Tokenizer, golden: &Json) {
    for case in golden["cases"].as_array().unwrap() {
        let plain = ids(&case["ids"]);
        let mut stream = tokenizer.stream(true);
        let mut text = String::new();
        for &id in &plain {
            text.extend(stream.push(id).unwrap());
        }
        text.extend(stream.finish().unwrap());
        assert_eq!(text, tokenizer.decode(&plain, true).unwrap(), "{plain:?}");
    }
}

#[test]
fn small_vocabularies_give_the_golden_ids() {
    let kinds = [
        "bert",
        "gemma",
        "gpt2",
        "llama2",
        "llama2_big",
        "llama3",
        "llama3_big",
        "qwen2",
        "qwen2_big",
        "unigram",
    ];
    for kind in kinds {
        let folder = testdata("tokenizers").join(kind);
        let (tokenizer, _) = load(&folder);
        let golden = json(&folder.join("golden.json"));
        assert_eq!(golden["vocab_size"].as_u64(), Some(tokenizer.vocab_size() as u64), "{kind}");
        let wrong = wrong(&tokenizer, &golden);
        assert!(wrong.is_empty(), "{kind}: {} wrong\n{}", wrong.len(), wrong.join("\n"));
        if kind != "bert" {
            streams(&tokenizer, &golden);
        }
    }
}

#[test]
fn small_gguf_files_give_the_golden_ids() {
    for (file, kind) in [("qwen3-tiny", "qwen2"), ("qwen2-tiny", "qwen2"), ("llama-tiny", "llama2")] {
        let (tokenizer, _) = load(&testdata(&format!("{file}.gguf")));
        assert_eq!(tokenizer.origin(), "tokenizer.ggml.*");
        let golden = json(&testdata("tokenizers").join(kind).join("golden.json"));
        let wrong = wrong(&tokenizer, &golden);
        assert!(wrong.is_empty(), "{file}: {} wrong\n{}", wrong.len(), wrong.join("\n"));
        streams(&tokenizer, &golden);
    }
}

#[test]
fn tokens_say_which_bytes_they_stand_for() {
    let (tokenizer, _) = load(&testdata("qwen3-tiny.gguf"));
    let text = "<|im_start|>héllo 東";
    let tokens = tokenizer.encode(text, PLAIN).unwrap();
    assert_eq!((tokens[0].id, tokens[0].piece.as_str(), tokens[0].bytes.clone()), (1, "<|im_start|>", 0..12));
    let mut at = 0;
    for token in &tokens {
        assert!(token.bytes.start <= at && text.get(token.bytes.clone()).is_some(), "{token:?}");
        at = token.bytes.end;
    }
    assert_eq!(at, text.len());
    let deaf = tokenizer.encode("<|im_start|>", Reading { edges: false, special: false }).unwrap();
    assert!(deaf.len() > 1 && deaf[0].id != 1, "{deaf:?}");
    assert!(tokenizer.decode(&[1_000_000], false).is_err());
}

/// Every GGUF of the golden set against the tokenizer.json of the model it was converted from.
#[test]
fn converted_files_give_what_their_models_give() {
    let Some(shared) = folder_from("SCANTLING_SHARED") else { return };
    let texts = json(&testdata("tokenizers/qwen2/golden.json"));
    let mut compared = 0;
    let mut wrong = Vec::new();
    let mut files: Vec<_> =
        std::fs::read_dir(shared.join("golden/gguf")).unwrap().map(|e| e.unwrap().path()).collect();
    files.sort();
    for file in files.iter().filter(|f| f.extension().is_some_and(|e| e == "gguf")) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        let model = shared.join("golden/models").join(name.split('.').next().unwrap());
        if !model.join("tokenizer.json").is_file() {
            continue;
        }
        let (theirs, ours) = (load(&model).0, load(file).0);
        compared += 1;
        for case in texts["cases"].as_array().unwrap() {
            let text = case["text"].as_str().unwrap();
            for how in [PLAIN, Reading::PROMPT] {
                let (theirs, ours) = (theirs.ids(text, how).unwrap(), ours.ids(text, how).unwrap());
                if theirs != ours {
                    wrong.push(format!("{name} {text:?} {how:?}: {ours:?}, not {theirs:?}"));
                }
            }
        }
    }
    println!("{compared} files compared");
    assert!(compared > 15 && wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The vocabularies in use, of which only the ids are in the golden set.
#[test]
fn real_vocabularies_give_the_golden_ids() {
    let (Some(shared), Some(models)) = (folder_from("SCANTLING_SHARED"), folder_from("SCANTLING_MODELS"))
    else {
        return;
    };
    let folders =
        [("qwen3", "qwen3-tokenizer"), ("llama3_1", "tokenizer-llama3_1"), ("gptoss", "tokenizer-gptoss")];
    for (name, folder) in folders {
        let folder = models.join(folder);
        if !folder.join("tokenizer.json").is_file() {
            println!("skipped: {} is absent", folder.display());
            continue;
        }
        let (tokenizer, _) = load(&folder);
        let golden = json(&shared.join(format!("golden/tokenizers/real/{name}.golden.json")));
        let wrong = wrong(&tokenizer, &golden);
        assert!(wrong.is_empty(), "{name}: {} wrong\n{}", wrong.len(), wrong.join("\n"));
        streams(&tokenizer, &golden);
        if name == "qwen3" {
            assert_eq!(
                tokenizer.ids("The capital of France is", PLAIN).unwrap(),
                [785, 6722, 315, 9625, 374]
            );
        }
    }
}

/// llama.cpp's own vocabularies with the ids that it publishes for them.
#[test]
fn published_pairs_of_vocabulary_files() {
    let Some(models) = folder_from("SCANTLING_MODELS") else { return };
    // Texts that are not in form NFC: llama.cpp leaves them as they are, the model's own tokenizer does not.
    let nfc_only: &[(&str, &str)] = &[];
    let mut wrong = Vec::new();
    let mut right = 0;
    for name in ["bert-bge", "deepseek-llm", "gpt-2", "llama-bpe", "llama-spm", "phi-3", "qwen2"] {
        let file = models.join("ggml-vocab").join(format!("ggml-vocab-{name}.gguf"));
        let beside = |suffix: &str| std::fs::read_to_string(format!("{}{suffix}", file.display()));
        let (Ok(texts), Ok(lines)) = (beside(".inp"), beside(".out")) else {
            println!("skipped: {} is absent", file.display());
            continue;
        };
        let (tokenizer, _) = load(&file);
        let lines: Vec<&str> = lines.lines().collect();
        let texts: Vec<&str> = texts.split("\n__ggml_vocab_test__\n").collect();
        for (text, line) in texts.iter().zip(&lines) {
            let want: Vec<u32> = line.split_whitespace().map(|id| id.parse().unwrap()).collect();
            let got = tokenizer.ids(text, PLAIN).unwrap();
            if got == want {
                right += 1;
            } else if !nfc_only.contains(&(name, text)) {
                wrong.push(format!("{name} {text:?}: {got:?}, not {want:?}"));
            }
        }
    }
    println!("{right} pairs equal");
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn smollm2_reads_its_chat_from_its_own_template() {
    let Some(models) = folder_from("SCANTLING_MODELS") else { return };
    let file = models.join("smollm2-135m-instruct-q4_1/SmolLM2-135M-Instruct.Q4_1.gguf");
    if !file.is_file() {
        return println!("skipped: {} is absent", file.display());
    }
    let (tokenizer, chat) = load(&file);
    assert_eq!(
        tokenizer.ids("The capital of France is", Reading::PROMPT).unwrap(),
        [504, 3575, 282, 4649, 314]
    );
    let text = chat.unwrap().render(&[Message::new("user", "What is the capital of France?")], true).unwrap();
    assert!(text.starts_with("<|im_start|>system\nYou are a helpful AI assistant named SmolLM"), "{text}");
    assert_eq!(tokenizer.ids(&text, Reading::TEMPLATED).unwrap().len(), 37);
    assert!(tokenizer.end_ids().contains(&2));
}

/// A tokenizer.json in memory.
fn of_text(text: &str) -> Result<Tokenizer, scantling_core::error::Error> {
    let files = [("tokenizer.json".to_owned(), text.as_bytes().to_vec())];
    let bundle = Bundle::in_memory("tokenizer.json", files)?;
    let folder: &Folder = bundle.folder();
    Tokenizer::of_folder(folder)
}

#[test]
fn hostile_tokenizer_json_is_refused() {
    let bpe = |vocab: &str, merges: &str, more: &str| {
        format!(
            r#"{{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":null,"post_processor":null,
            "decoder":null,"model":{{"type":"BPE","vocab":{vocab},"merges":{merges}{more}}}}}"#
        )
    };
    assert!(of_text(&bpe(r#"{"a":0,"b":1,"ab":2}"#, r#"["a b"]"#, "")).is_ok());
    for (vocab, merges, more) in [
        (r#"{"a":0,"b":1}"#, r#"["a b"]"#, ""),
        (r#"{"a":0,"b":1}"#, r#"["a c"]"#, ""),
        (r#"{"a":0,"b":1}"#, r#"["ab"]"#, ""),
        (r#"{"a":0,"b":1}"#, r#"[["a"]]"#, ""),
        (r#"{"a":0,"b":1,"ab":2}"#, r#"["a b"]"#, r###","continuing_subword_prefix":"##""###),
        (r#"{"a":-1}"#, "[]", ""),
        (r#"{"a":4294967296}"#, "[]", ""),
        (r#"{"a":0"#, "[]", ""),
    ] {
        assert!(of_text(&bpe(vocab, merges, more)).is_err(), "{vocab} {merges} {more}");
    }
    for text in ["", "{}", "[]", r#"{"model":3}"#, r#"{"model":{"type":"Unigram","unk_id":5,"vocab":[]}}"#] {
        assert!(of_text(text).is_err(), "{text}");
    }
}
