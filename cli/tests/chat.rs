//! `generate --chat` without a text: turns of one conversation, each answered as if the whole had been read at once.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write models")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]
#![cfg_attr(
    not(unix),
    allow(dead_code, unused_imports, reason = "interrupts are sent and terminals made on unix")
)]

mod common;
mod models;

use common::{Run, finished, on_terminal, program, run_in, valid};
use models::{registry, testdata};
use scantling_core::cache::KvType;
use scantling_core::check::Request;
use scantling_core::generate::{Ending, Stops, write_on};
use scantling_core::kernel::{Kernel, Options as KernelOptions};
use scantling_core::model::{BATCH, Model, Options, Session};
use scantling_core::registry::Work;
use scantling_core::sample::{Sampler, Sampling};
use scantling_core::tokenizer::{ChatTemplate, Message, Reading, Tokenizer};
use serde_json::Value;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// How far logits may be from those of the same tokens read in other batches, as a share of the largest.
const APART: f32 = 1e-5;

fn spawn(model: &Path, args: &[&str]) -> Child {
    let mut command = program();
    command.arg("generate").arg(model).args(["--chat", "--kernel", "exact"]).args(args);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// A conversation with this input.
fn talk(model: &Path, args: &[&str], input: &str) -> Run {
    let mut child = spawn(model, args);
    // One that ended early reads no more.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    finished(child.wait_with_output().unwrap())
}

fn ids(list: &Value) -> Vec<u32> {
    list.as_array().unwrap().iter().map(|id| u32::try_from(id.as_u64().unwrap()).unwrap()).collect()
}

/// What the program did turn by turn, done with the library: each turn in a session that goes on, and in a new one that
/// reads all from the start. Gives the number of tokens that each turn found in the session.
fn replayed(path: &Path, document: &Value, most: usize) -> Vec<usize> {
    let model = Model::load(&registry(), path, &Request::default()).unwrap();
    let tokenizer = Tokenizer::of(model.source.as_ref()).unwrap();
    let template = ChatTemplate::of(model.source.as_ref(), &tokenizer).unwrap().unwrap();
    let kernel: Box<dyn Kernel> = registry().kernel("exact", Work::Exact, &KernelOptions::default()).unwrap();
    let options = Options {
        context: usize::try_from(document["context"].as_u64().unwrap()).unwrap(),
        kv: KvType::F32,
        batch: BATCH,
    };
    let session = || Session::new(&model, &*kernel, options).unwrap();
    let stops = Stops { tokens: most, ..Stops::default() };
    let mut going = session();
    let mut messages: Vec<Message> =
        document["system"].as_str().map(|text| Message::new("system", text)).into_iter().collect();
    let mut kept = Vec::new();
    for turn in document["turns"].as_array().unwrap() {
        messages.push(Message::new("user", turn["user"].as_str().unwrap()));
        let all = tokenizer.ids(&template.render(&messages, true).unwrap(), Reading::TEMPLATED).unwrap();
        assert_eq!(ids(&turn["prompt_ids"]), all);
        let rest = going.rewind(&all);
        assert_eq!(turn["kept"], going.len());
        kept.push(going.len());
        let behind = going.feed(rest, 1, None).unwrap();
        let mut fresh = session();
        let whole = fresh.feed(&all, 1, None).unwrap();
        let largest = whole.data().iter().fold(0.0, |most: f32, x| most.max(x.abs()));
        let off = behind.data().iter().zip(whole.data()).map(|(a, b)| (a - b).abs());
        let off = off.fold(0.0, f32::max) / largest;
        assert!(off <= APART, "{}: off by {off:e} of the largest logit", path.display());
        let mut greedy = Sampler::new(Sampling::default());
        let mut write = |session: &mut Session<'_>| {
            let rest = session.rewind(&all);
            write_on(session, &tokenizer, &mut greedy, rest, &stops, &mut |_| true).unwrap()
        };
        let (behind, whole) = (write(&mut going), write(&mut fresh));
        assert_eq!((&behind.ids, &behind.text), (&whole.ids, &whole.text), "{}", path.display());
        assert_eq!(ids(&turn["ids"]), whole.ids, "{}", path.display());
        assert_eq!(turn["text"], whole.text);
        messages.push(Message::new("assistant", whole.text));
    }
    kept
}

const TWO: &str = "the sea\nand the land\n";

#[test]
fn every_turn_is_answered_as_if_all_were_read_at_once() {
    for model in ["qwen3-tiny", "qwen3-tiny.gguf", "qwen2-tiny.gguf"] {
        let path = testdata(model);
        let args = ["-n", "7", "--json", "--system", "be"];
        let run = talk(&path, &args, "the sea\n\n  \r\nand the land\r\nend");
        assert_eq!((run.code, run.err.as_str()), (0, ""), "{model}");
        let document = valid(&run);
        let said: Vec<&Value> = document["turns"].as_array().unwrap().iter().map(|t| &t["user"]).collect();
        assert_eq!(said, ["the sea", "and the land", "end"]);
        let kept = replayed(&path, &document, 7);
        assert_eq!(kept[0], 0);
        let first = &document["turns"][0];
        assert!(kept[1] >= ids(&first["prompt_ids"]).len() && kept[2] > kept[1], "{model}: {kept:?}");
    }
}

/// A copy of a model whose template is another, and some of whose config.
fn changed(model: &str, folder: &Path, template: &str, config: &[(&str, Value)]) -> PathBuf {
    let copy = folder.join(model);
    std::fs::create_dir(&copy).unwrap();
    for entry in std::fs::read_dir(testdata(model)).unwrap() {
        let entry = entry.unwrap();
        std::fs::copy(entry.path(), copy.join(entry.file_name())).unwrap();
    }
    std::fs::write(copy.join("chat_template.jinja"), template).unwrap();
    let file = copy.join("config.json");
    let mut json: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
    config.iter().for_each(|(key, value)| json[*key] = value.clone());
    std::fs::write(file, json.to_string()).unwrap();
    copy
}

#[test]
fn a_template_that_rewrites_what_was_said_is_followed() {
    let folder = tempfile::tempdir().unwrap();
    // Only what the user says first and last stays as it was.
    let template = "{% for m in messages %}{% if loop.first or loop.last %}{{ m.content }}\n{% else %}\
                    {{ m.role }}{{ loop.index }}\n{% endif %}{% endfor %}";
    // The second layer looks back only a few tokens: what is gone back to had left its window.
    let windowed =
        [("use_sliding_window", true.into()), ("sliding_window", 4.into()), ("max_window_layers", 1.into())];
    for (model, config) in [("qwen3-tiny", &[][..]), ("qwen2-tiny", &windowed)] {
        let model = changed(model, folder.path(), template, config);
        let document = valid(&talk(&model, &["-n", "7", "--json"], "one sea\ntwo seas\nthree\nthree\n"));
        let kept = replayed(&model, &document, 7);
        let seen = |turn: usize| ids(&document["turns"][turn]["prompt_ids"]).len();
        assert!(kept[1] > 0 && kept[1] <= seen(0), "{kept:?}");
        assert!(kept[2] > kept[1] && kept[2] < seen(1) + 7, "{kept:?}");
    }
}

#[test]
fn a_session_goes_back_as_far_as_it_has_to() {
    let model = Model::load(&registry(), &testdata("qwen3-tiny"), &Request::default()).unwrap();
    let tokenizer = Tokenizer::of(model.source.as_ref()).unwrap();
    let kernel = registry().kernel("scalar", Work::Exact, &KernelOptions::default()).unwrap();
    let options = Options { context: 40, kv: KvType::F32, batch: 4 };
    let mut session = Session::new(&model, &*kernel, options).unwrap();
    let all: Vec<u32> = (7..20).collect();
    let stops = Stops { tokens: 5, ignore_ends: true, ..Stops::default() };
    let write = |session: &mut Session<'_>, ids: &[u32], patience: usize| {
        let (mut greedy, mut asked) = (Sampler::new(Sampling::default()), 0);
        write_on(session, &tokenizer, &mut greedy, ids, &stops, &mut |_| {
            asked += 1;
            asked <= patience
        })
        .unwrap()
    };
    let whole = write(&mut session, &all, usize::MAX);
    assert_eq!(session.ids(), [&all[..], &whole.ids[..4]].concat());
    // Whoever has no patience is heard between two batches of the prompt, and what was read is still there.
    session.truncate(0);
    let cut = write(&mut session, &all, 1);
    assert_eq!((cut.ending, cut.ids.len(), session.ids()), (Ending::Interrupted, 0, &all[..8]));
    let rest = session.rewind(&all);
    assert_eq!(rest, &all[8..]);
    assert_eq!(write(&mut session, rest, usize::MAX).ids, whole.ids);
    // Of tokens that it has seen all of, the last is read again; of others, all from where they part.
    assert_eq!((session.rewind(&all), session.len()), (&all[12..], 12));
    let other = [&all[..3], &[300, 301]].concat();
    assert_eq!((session.rewind(&other), session.len()), (&other[3..], 3));
    assert!(session.rewind(&[]).is_empty() && session.is_empty());
}

#[test]
fn answers_come_line_by_line_and_figures_with_each() {
    let model = testdata("qwen3-tiny");
    let args = ["-n", "7", "--ascii"];
    let document = valid(&talk(&model, &["-n", "7", "--json"], TWO));
    let run = talk(&model, &args, TWO);
    assert_eq!(run.code, 0, "{}", run.err);
    let printable = |c: &char| matches!(c, '\n' | '\t') || !c.is_control();
    let turns = document["turns"].as_array().unwrap();
    let texts = turns.iter().map(|turn| format!("{}\n", turn["text"].as_str().unwrap()));
    assert_eq!(run.out, texts.collect::<String>().chars().filter(printable).collect::<String>());
    let lines: Vec<&str> = run.err.lines().collect();
    assert_eq!(lines.len(), 3, "{}", run.err);
    // The model was made for 128.
    assert!(lines[0].starts_with("room for 128 tokens: "), "{}", run.err);
    assert!(lines[1].contains("written ") && !lines[1].contains("behind"), "{}", run.err);
    let kept = turns[1]["kept"].as_u64().unwrap();
    assert!(lines[2].contains(&format!(" behind {kept}, ")), "{}", run.err);
}

#[test]
fn the_end_of_input_ends_it_and_one_prompt_is_no_conversation() {
    let model = testdata("qwen3-tiny");
    for input in ["", "\n\n"] {
        let run = talk(&model, &[], input);
        assert_eq!((run.code, run.out.as_str()), (0, ""), "{}", run.err);
        let document = valid(&talk(&model, &["--json"], input));
        assert_eq!(document["turns"].as_array().map(Vec::len), Some(0));
    }
    // The same document as of any text, and standard input is left alone.
    let document = valid(&talk(&model, &["--json", "-n", "2", "--prompt", "a"], TWO));
    assert!(document["turns"].is_null() && document["prompt_ids"].is_array());
    // Without --chat it is one text as a whole.
    let mut command = program();
    command.arg("generate").arg(&model).args(["--json", "-n", "2", "--kernel", "exact"]);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"a\nb").unwrap();
    let piped = valid(&finished(child.wait_with_output().unwrap()));
    let args = ["generate", "qwen3-tiny", "--json", "-n", "2", "--kernel", "exact", "--prompt", "a\nb"];
    let given = valid(&run_in(&testdata(""), &args));
    assert_eq!((&piped["prompt_ids"], &piped["ids"]), (&given["prompt_ids"], &given["ids"]));
}

#[test]
fn what_no_longer_fits_is_told_and_nothing_is_lost() {
    let model = testdata("qwen3-tiny");
    let first = valid(&talk(&model, &["-n", "5", "--json"], "the sea\n"));
    let room = ids(&first["turns"][0]["prompt_ids"]).len() + 8;
    let args = ["-n", "5", "--context", &room.to_string()];
    let run = talk(&model, &args, TWO);
    assert_eq!(run.code, 2, "{}", run.err);
    assert!(run.out.len() > 1, "the first answer");
    for words in ["turn 2 does not fit", &format!("has room for {room}"), "--context", "made for 128"] {
        assert!(run.err.contains(words), "{words}: {}", run.err);
    }
    let run = talk(&model, &[&args[..], &["--json"]].concat(), TWO);
    assert!(run.code == 2 && run.err.contains("turn 2 does not fit"), "{}", run.err);
    let document = valid(&run);
    assert_eq!(document["turns"][0]["ids"], first["turns"][0]["ids"]);
    assert_eq!(document["turns"].as_array().map(Vec::len), Some(1));
    // Where not even the first fits there is nothing to show.
    let run = talk(&model, &["--context", "3", "--json"], TWO);
    assert!(run.code == 2 && run.out.is_empty() && run.err.contains("turn 1 does not fit"), "{}", run.err);
    let run = talk(&testdata("llama-tiny"), &[], TWO);
    assert!(run.code == 2 && run.err.contains("no chat template"), "{}", run.err);
    let mut child = spawn(&model, &[]);
    child.stdin.take().unwrap().write_all(b"\xff\n").unwrap();
    let run = finished(child.wait_with_output().unwrap());
    assert!(run.code == 2 && run.err.contains("not text in UTF-8"), "{}", run.err);
}

/// An answer that takes a while.
const LONG: [&str; 5] = ["-n", "50000", "--context", "50000", "--ignore-eos"];

#[cfg(unix)]
fn interrupt(child: &Child) {
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(sent.success());
}

/// Reads until the words have come.
fn wait_for(from: &mut impl Read, words: &str) -> String {
    let (mut text, mut byte) = (Vec::new(), [0]);
    while !String::from_utf8_lossy(&text).contains(words) && from.read(&mut byte).unwrap() > 0 {
        text.push(byte[0]);
    }
    String::from_utf8_lossy(&text).into_owned()
}

#[cfg(unix)]
#[test]
fn an_interrupt_ends_the_answer_and_a_conversation_that_nobody_watches() {
    let mut child = spawn(&testdata("qwen3-tiny"), &LONG);
    let mut input = child.stdin.take().unwrap();
    input.write_all(TWO.as_bytes()).unwrap();
    let mut out = child.stdout.take().unwrap();
    out.read_exact(&mut [0]).unwrap();
    interrupt(&child);
    out.read_to_end(&mut Vec::new()).unwrap();
    let run = finished(child.wait_with_output().unwrap());
    assert_eq!(run.code, 130, "{}", run.err);
    assert!(run.err.ends_with("interrupted\n") && run.err.matches("written ").count() == 1, "{}", run.err);
    drop(input);
}

#[cfg(unix)]
#[test]
fn an_interrupt_between_answers_ends_the_conversation() {
    let mut child = spawn(&testdata("qwen3-tiny"), &["-n", "2"]);
    let mut input = child.stdin.take().unwrap();
    input.write_all(b"the sea\n").unwrap();
    wait_for(&mut child.stderr.take().unwrap(), "; stopped");
    interrupt(&child);
    assert_eq!(child.wait().unwrap().code(), Some(130));
    // With --json nothing tells when the answer is there, which is a matter of milliseconds unless much else goes on.
    for patience in [1, 4, 16] {
        let mut child = spawn(&testdata("qwen3-tiny"), &["-n", "2", "--json"]);
        let mut input = child.stdin.take().unwrap();
        input.write_all(b"the sea\n").unwrap();
        std::thread::sleep(std::time::Duration::from_secs(patience));
        interrupt(&child);
        let run = finished(child.wait_with_output().unwrap());
        if run.code == 130 && !run.out.is_empty() {
            let turns = &valid(&run)["turns"];
            assert_eq!(
                (turns.as_array().map(Vec::len), &turns[0]["ending"]["kind"]),
                (Some(1), &"length".into())
            );
            return;
        }
    }
    panic!("no turn was told in 16 seconds");
}

/// On a terminal: an interrupt ends the answer and not the conversation, the end of input the conversation.
#[cfg(unix)]
#[test]
fn somebody_who_watches_is_prompted() {
    let model = testdata("qwen3-tiny");
    let start = |args: &[&str]| {
        let mut command = on_terminal(&[&["generate", model.to_str().unwrap(), "--chat"], args].concat())?;
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let (input, out) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        Some((child, input, out))
    };
    let Some((mut child, mut input, mut out)) = start(&LONG) else { return };
    wait_for(&mut out, "\n> ");
    input.write_all(b"the sea\n").unwrap();
    // The line as the terminal shows it, then something of the answer.
    wait_for(&mut out, "the sea\r\n");
    out.read_exact(&mut [0]).unwrap();
    input.write_all(b"\x03").unwrap();
    let told = wait_for(&mut out, "\n> ");
    assert!(told.contains("; interrupted"), "{told}");
    input.write_all(b"\x04").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(0));

    let (mut child, mut input, mut out) = start(&["-n", "2"]).unwrap();
    wait_for(&mut out, "\n> ");
    input.write_all(b"\x03").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// SmolLM2-135M-Instruct through its own template.
#[test]
fn a_real_model_keeps_to_what_was_said() {
    let Some(models) = models::folder_from("SCANTLING_MODELS") else { return };
    let model = models.join("smollm2-135m-instruct-q4_1");
    if !model.exists() {
        println!("skipped: {} is not there", model.display());
        return;
    }
    let turns = "What is the capital of France?\nAnd of Italy?\n";
    let run = talk(&model, &["-n", "9", "--json"], turns);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    let document = valid(&run);
    let first = &document["turns"][0];
    assert_eq!(ids(&first["ids"]), [504, 3575, 282, 4649, 314, 7042, 30, 2]);
    assert_eq!(
        (&first["text"], ids(&first["prompt_ids"]).len()),
        (&"The capital of France is Paris.".into(), 37)
    );
    assert_eq!(document["context"], 4096);
    let kept = replayed(&model, &document, 9);
    // The answer's text is tokenized as it was written: nothing of it is read again but its end, which was not fed.
    assert_eq!(kept[1], 37 + 7);
}
