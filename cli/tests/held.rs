//! `hash`: what is no agreement is never taken for one.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests write files")]
#![allow(clippy::print_stdout, reason = "tests say what they skip")]

mod common;
mod models;

use common::{Tensor, folder, model, run_in, safetensors, valid};
use models::testdata;
use scantling_core::hash::Digest;
use std::fs;
use std::path::Path;

#[test]
fn where_nothing_is_compared_nothing_agrees() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(run_in(at, &["hash", "good", "--write", "m"]).code, 0);
    model(at, "empty", &[], None);
    fs::write(at.join("none"), "scantling 1 stored\n").unwrap();
    let cases: [&[&str]; 4] = [
        &["hash", "good", "--check", "m", "--include", "nosuch"],
        &["hash", "good", "--check", "m", "--exclude", "*"],
        &["hash", "good", "--check", "m", "--include", "*norm*", "--exclude", "*norm*"],
        &["hash", "empty", "--check", "none"],
    ];
    for case in cases {
        let run = run_in(at, case);
        assert!(run.code == 1 && run.out.contains("✗ no tensor was compared"), "{case:?}\n{}", run.out);
        let against = &valid(&run_in(at, &[case, &["--json"]].concat()))["against"];
        assert_eq!(against["same"], false);
        assert!(against["differences"].as_array().unwrap().is_empty());
    }
    // A tensor on one side alone is a difference, as ever.
    let run = run_in(at, &["hash", "empty", "--check", "m"]);
    assert!(run.code == 1 && run.out.contains("25 differences of 0 tensors"), "{}", run.out);
    let run = run_in(at, &["hash", "good", "--check", "m", "--include", "model.norm.weight"]);
    assert!(run.code == 0 && run.out.contains("✓ the one tensor of 32 bytes"), "{}", run.out);
}

#[test]
fn patterns_of_either_world_hold_for_both_sides() {
    let folder = folder();
    let (hf, gguf) = (testdata("llama-tiny"), testdata("llama-tiny.gguf"));
    let at = folder.path();
    let path = |path: &Path| path.to_str().unwrap().to_owned();
    assert_eq!(run_in(at, &["hash", &path(&hf), "--semantic", "--write", "m"]).code, 0);
    let text = fs::read_to_string(at.join("m")).unwrap();
    let count = |part: &str| text.lines().filter(|line| line.contains(part)).count();
    let (q, norms, all) = (count(".attn_q.weight"), count("_norm.weight"), count("[\""));
    assert!(q > 1 && norms > q && all > norms, "{q} {norms} {all}");
    let cases: [(&[&str], usize); 6] = [
        (&["--include", "*q_proj*"], q),
        (&["--include", "*attn_q.*"], q),
        (&["--exclude", "*norm*"], all - norms),
        (&["--exclude", "*attn_q.*"], all - q),
        (&["--exclude", "*q_proj*"], all - q),
        // `attn_norm` is `input_layernorm` there.
        (&["--include", "*layernorm*", "--include", "output_norm.*"], norms),
    ];
    for model in [&hf, &gguf] {
        for (args, wanted) in &cases {
            let run = run_in(at, &[&["hash", &path(model), "--check", "m"], *args].concat());
            assert!(run.code == 0, "{args:?} on {}\n{}", model.display(), run.out);
            assert!(run.out.contains(&format!("✓ all {wanted} tensors")), "{args:?}: {wanted}\n{}", run.out);
        }
    }
}

#[test]
fn what_a_copy_is_tied_to_is_looked_at_though_nobody_asked_for_it() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(run_in(at, &["hash", "good", "--semantic", "--write", "m"]).code, 0);
    let run = run_in(at, &["hash", "good", "--semantic", "--include", "*head*"]);
    assert!(run.out.contains("left out: output.weight: equal to what it is tied to"), "{}", run.out);
    assert!(run.out.contains("0 tensors of "), "{}", run.out);
    let run =
        run_in(at, &["hash", "good", "--check", "m", "--include", "*head*", "--include", "model.norm.*"]);
    assert_eq!(run.code, 0, "{}", run.out);
}

#[test]
fn a_manifest_of_some_tensors_says_so() {
    let folder = folder();
    let at = folder.path();
    let some = ["hash", "good", "--include", "*norm*", "--exclude", "*k_norm*"];
    assert_eq!(run_in(at, &[&some[..], &["--write", "m"]].concat()).code, 0);
    let text = fs::read_to_string(at.join("m")).unwrap();
    assert!(!text.contains("whole"), "{text}");
    assert!(text.contains("# of some tensors alone: --include '*norm*' --exclude '*k_norm*'\n"), "{text}");
    let run = run_in(at, &[&some[..], &["--check", "m"]].concat());
    assert!(run.code == 0 && run.out.contains("✓ all 7 tensors"), "{}", run.out);
    let run = run_in(at, &["hash", "good", "--check", "m"]);
    assert!(run.code == 1 && run.out.contains("m is of some tensors alone"), "{}", run.out);
    let run = run_in(at, &["hash", "good", "--check", "m", "--json"]);
    assert_eq!(valid(&run)["against"]["partial"], "--include '*norm*' --exclude '*k_norm*'");

    let run = run_in(at, &["hash", "good", "--include", "nosuch", "--write", "n"]);
    assert!(run.code == 1 && run.out.contains("not written: n: no tensor was hashed"), "{}", run.out);
    let run = run_in(at, &["hash", "bad", "--semantic", "--write", "n"]);
    assert!(
        run.code == 1 && run.out.contains("not written: n: not all tensors could be read"),
        "{}",
        run.out
    );
    assert!(!at.join("n").exists());
}

#[test]
fn faults_of_the_files_are_shown() {
    let folder = folder();
    let at = folder.path();
    // Two tensors share the four bytes of one number; then one has more bytes than its shape takes.
    let tensors = [Tensor::new("a", &[2]), Tensor::new("b", &[2])];
    let whole = safetensors(&tensors, "{\"format\":\"pt\"}");
    let changes = [("[8,16]", "[4,12]", "overlap"), ("[0,8]", "[0,4]", "found   ")];
    for (from, to, told) in changes {
        let place = whole.windows(from.len()).position(|some| some == from.as_bytes()).unwrap();
        let mut bytes = whole.clone();
        bytes[place..place + from.len()].copy_from_slice(to.as_bytes());
        fs::write(at.join("faulty.safetensors"), bytes).unwrap();
        assert_eq!(run_in(at, &["check", "faulty.safetensors"]).code, 1);
        let run = run_in(at, &["hash", "faulty.safetensors", "--write", "m"]);
        assert!(run.code == 1 && run.out.contains("findings on the files"), "{from}\n{}", run.out);
        assert!(run.out.contains("error[") && run.out.contains(told), "{from}\n{}", run.out);
        assert!(run.out.contains("not written: m") && !at.join("m").exists(), "{}", run.out);
        let run = run_in(at, &["hash", "faulty.safetensors", "--json"]);
        assert!(run.code == 1 && !valid(&run)["findings"].as_array().unwrap().is_empty());
        assert_eq!(run_in(at, &["hash", "faulty.safetensors", "--files"]).code, 1);
    }
    let run = run_in(at, &["hash", "good", "--json"]);
    assert_eq!((run.code, valid(&run)["findings"].as_array().unwrap().len()), (0, 0));
}

#[test]
fn records_that_cannot_be_used_are_named() {
    let folder = folder();
    let at = folder.path();
    const FILE: &str = "model.safetensors";
    let digest = Digest::of(&fs::read(at.join("good").join(FILE)).unwrap()).to_string();
    let (zero, cut) = ("0".repeat(64), &digest[1..]);
    let notes = ".cache/huggingface/download";
    fs::create_dir_all(at.join("good").join(notes)).unwrap();
    let note = &format!("{notes}/{FILE}.metadata");
    let own = &format!("{FILE}.sha256");
    // Where it stands, what stands there, the exit code, the verdict, and what is told.
    let cases: Vec<(&str, String, i32, &str, &str)> = vec![
        ("SHA256SUMS", format!("\u{feff}{digest}  {FILE}\n"), 0, "agrees", "agrees with SHA256SUMS, line 1"),
        ("SHA256SUMS", format!("\u{feff}{zero}  {FILE}\n"), 1, "differs", "differs from SHA256SUMS, line 1"),
        ("SHA256SUMS", format!("SHA256 ({FILE}) = {digest}\n"), 0, "agrees", "agrees with"),
        ("SHA256SUMS", format!("SHA256 ({FILE}) = {zero}\n"), 1, "differs", "differs from"),
        ("SHA256SUMS", format!("\\{digest}  {FILE}\n"), 0, "agrees", "agrees with"),
        ("SHA256SUMS", format!("\\{zero}  {FILE}\n"), 1, "differs", "differs from"),
        ("SHA256SUMS", format!("{cut}  {FILE}\n"), 1, "unusable", "of length 63, and SHA-256 is of 64"),
        ("SHA256SUMS", format!("{cut}  other\n"), 0, "nothing_recorded", "nothing to hold them against"),
        (
            "SHA256SUMS",
            format!("{zero}  elsewhere/{FILE}\n"),
            0,
            "nothing_recorded",
            "not used: SHA256SUMS, line 1",
        ),
        ("SHA256SUMS", format!("{digest}  {FILE}\n{zero}  {FILE}\n"), 1, "differs", "contradicts itself"),
        ("SHA256SUMS", format!("{zero}  {FILE}\n{digest}  {FILE}\n"), 1, "differs", "contradicts itself"),
        (own, format!("{digest}  /where/it/was/{FILE}\n"), 0, "agrees", "agrees with"),
        (own, format!("{zero}  other.safetensors\n"), 0, "nothing_recorded", "it names another file"),
        (own, cut.to_owned(), 1, "unusable", "of length 63"),
        (own, String::new(), 1, "unusable", "it is empty"),
        (note, String::new(), 1, "unusable", "it has no second line"),
        (
            note,
            "11c5a3d5811f50298f278a704980280950aedb10\n".to_owned(),
            1,
            "unusable",
            "it has no second line",
        ),
        (note, "one\ntwo\nthree\n".to_owned(), 1, "unusable", "\"two\" is no SHA-256"),
        (note, format!("one\n{cut}\nthree\n"), 1, "unusable", "of length 63"),
    ];
    for (place, text, code, verdict, told) in cases {
        let path = at.join("good").join(place);
        fs::write(&path, &text).unwrap();
        let run = run_in(at, &["hash", "good", "--files"]);
        // What is told may be broken over lines.
        let out = run.out.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(run.code == code && out.contains(told), "{place}: {text}\n{} {}", run.code, run.out);
        let document = valid(&run_in(at, &["hash", "good", "--files", "--json"]));
        assert_eq!(document["files"][0]["verdict"], verdict, "{place}: {text}");
        fs::remove_file(path).unwrap();
    }
}

#[cfg(unix)]
#[test]
fn standard_output_is_written_to() {
    let folder = folder();
    let at = folder.path();
    assert_eq!(run_in(at, &["hash", "good", "--write", "m"]).code, 0);
    let text = fs::read_to_string(at.join("m")).unwrap();
    let piped = run_in(at, &["hash", "good", "--write", "/dev/stdout", "-q"]);
    assert!(piped.code == 0 && piped.out.starts_with(&text), "{}{}", piped.out, piped.err);
    // A file that it leads to stays the one that it was, with all that was printed.
    let file = fs::File::create(at.join("out")).unwrap();
    let args = ["hash", "good", "--write", "/dev/stdout", "-q"];
    let done = common::program().current_dir(at).args(args).stdout(file).status().unwrap();
    assert!(done.success());
    assert_eq!(fs::read_to_string(at.join("out")).unwrap(), piped.out);
    let run = run_in(at, &["hash", "good", "--write", "/dev/stderr", "-q"]);
    assert!(run.code == 0 && run.err.starts_with(&text), "{}", run.err);
}

#[test]
fn so_many_threads_that_none_can_be_had_are_not_started() {
    let folder = folder();
    let cores = std::thread::available_parallelism().unwrap().get();
    let run = run_in(folder.path(), &["hash", "good", "--threads", "1024", "-q"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let run =
        run_in(folder.path(), &["memory", "good", "--threads", "1024", "--json", "--kernel", "rayon+scalar"]);
    let threads = valid(&run)["run"]["threads"].as_u64().unwrap_or(0);
    assert!(run.code < 2 && (1..=4 * cores as u64).contains(&threads), "{}{}", run.out, run.err);
    assert_eq!(run_in(folder.path(), &["hash", "good", "--threads", "1025"]).code, 2);
}
