//! What pages say of faults, of what they looked at, and of which of two models; and that it can be read.
#![allow(clippy::disallowed_methods)] // tests write the files they look at

mod browser;
mod common;

use browser::Browser;
use common::{CONFIG, Tensor, folder, model, qwen3, run_in};
use serde_json::Value;
use std::fs;
use std::path::Path;

const Q_PROJ: &str = "model.layers.1.self_attn.q_proj.weight";

/// The clean model, one tensor changed.
fn changed(folder: &Path, name: &str, tensor: &str, change: impl Fn(&mut Tensor)) {
    let mut tensors = qwen3();
    change(tensors.iter_mut().find(|t| t.name == tensor).unwrap());
    model(folder, name, &tensors, Some(CONFIG));
}

fn set(number: f32) -> impl Fn(&mut Tensor) {
    move |tensor| tensor.bytes[4..8].copy_from_slice(&number.to_le_bytes())
}

/// The page that a command writes beside what it prints.
#[track_caller]
fn page(folder: &Path, args: &[&str], code: i32) -> String {
    let run = run_in(folder, &[args, &["--html", "page.html"]].concat());
    assert_eq!(run.code, code, "{}{}", run.out, run.err);
    fs::read_to_string(folder.join("page.html")).unwrap()
}

fn data(page: &str) -> Value {
    let at = page.split("id=\"data\">").nth(1).unwrap();
    serde_json::from_str(at.split("</script>").next().unwrap()).unwrap()
}

#[test]
fn what_is_no_number_is_seen_in_the_picture_and_first_in_the_list() {
    let folder = folder();
    changed(folder.path(), "one", Q_PROJ, set(f32::NAN));
    let one = page(folder.path(), &["stats", "one"], 1);
    let cells = one.matches("<td class=\"bad\"").count();
    // In how large the numbers are, and in outliers.
    assert_eq!(cells, 2, "{one}");
    let told = "title=\"layer 1, self_attn.q_proj.weight: ";
    assert!(one.contains(&format!("<td class=\"bad\" {told}")), "{one}");
    assert_eq!(one.matches(" of the others; NaN or infinite: 1 number\"><span>NaN</span>").count(), 2);
    assert_eq!(one.matches("NaN or infinite: 1 cell<").count(), 2);
    assert_eq!(data(&one)["sort"], serde_json::json!(["nonfinite", true]));

    // A tensor without any number is there too.
    let nan = f32::INFINITY.to_le_bytes();
    changed(folder.path(), "all", Q_PROJ, |t| t.bytes = nan.repeat(t.bytes.len() / 4));
    let all = page(folder.path(), &["stats", "all"], 1);
    let title = format!("{told}NaN; NaN or infinite: 192 numbers\"");
    assert!(all.contains(&format!("<td class=\"bad\" {title}")), "{all}");

    let good = page(folder.path(), &["stats", "good"], 0);
    assert!(!good.contains("<td class=\"bad\"") && !good.contains("NaN or infinite: "));
    assert_eq!(data(&good)["sort"], serde_json::json!(["name", false]));
}

#[test]
fn statistics_tell_what_they_looked_at() {
    let folder = folder();
    let good = page(folder.path(), &["stats", "good"], 0);
    let looked_at = "Looked at: all 2,432 numbers of 25 tensors, 9.50 KiB; names and shapes by the config.";
    assert!(good.contains(looked_at), "{good}");
    let not = "Not looked at: whether lm_head.weight equals model.embed_tokens.weight (use check)";
    assert!(
        good.contains(not) && !good.contains("--no-identity") && !good.contains("tensor values"),
        "{good}"
    );
    let some = page(folder.path(), &["stats", "good", "--include", "*q_proj*"], 0);
    assert!(some.contains("Looked at: all 384 numbers of 2 tensors"), "{some}");
    assert!(some.contains("Not looked at: 23 tensors left out by --include and --exclude, "), "{some}");
}

#[test]
fn the_share_of_embeddings_is_that_of_the_picture() {
    let folder = folder();
    let embedding = "model.embed_tokens.weight";
    let tile = |page: &str| page.split("<dt>in embeddings</dt><dd>").nth(1).map(|t| t[..4].to_owned());
    let drawn = |page: &str| page.contains("aria-hidden=\"true\"></i>embedding ");
    let good = page(folder.path(), &["inspect", "good"], 0);
    assert_eq!((tile(&good), drawn(&good)), (Some("5.6%".to_owned()), true));
    // Under a name that the family does not know it is one by its look, in both places.
    changed(folder.path(), "odd", embedding, |t| t.name = "model.embed_tokenz.weight".to_owned());
    let odd = page(folder.path(), &["inspect", "odd"], 1);
    assert!(tile(&odd).is_some_and(|share| share != "0.0%") && drawn(&odd), "{:?}", tile(&odd));
    // Where the head alone is left there is none, in neither.
    changed(folder.path(), "none", embedding, |t| t.name = "model.other.weight".to_owned());
    let none = page(folder.path(), &["inspect", "none"], 1);
    assert_eq!((tile(&none), drawn(&none)), (None, false));
}

#[test]
fn a_comparison_begins_with_what_differs() {
    let folder = folder();
    changed(folder.path(), "other", Q_PROJ, set(-1000.0));
    let page = page(folder.path(), &["diff", "good", "other"], 1);
    let at = |id: &str| page.find(&format!("<section id=\"{id}\"")).unwrap();
    let order = ["verdict", "facts", "layers", "tensors", "bytes", "kinds"].map(at);
    assert!(order.is_sorted() || !page.contains("<section id=\"facts\""), "{order:?}");
    assert!(page.contains(">Where the bytes of B go</h2>") && page.contains("those of model B, the second"));
    // What is the same has no colour of the scale.
    assert_eq!(page.matches("<td class=\"zero\"").count(), 21, "{page}");
    assert!(page.contains("0: no difference<"), "{page}");
    assert_eq!(page.matches("<td class=\"h").count(), 1);
}

#[test]
fn in_a_browser_words_are_whole_and_columns_are_seen() {
    let Some(browser) = Browser::start() else { return };
    let folder = folder();
    let at = folder.path();
    let config = CONFIG.replace("\"rope_theta\": 1000000", "\"rope_theta\": 10000");
    let mut tensors = qwen3();
    tensors.iter_mut().filter(|t| t.name == Q_PROJ).for_each(set(-1000.0));
    model(at, "other", &tensors, Some(&config));
    page(at, &["diff", "good", "other"], 1);
    let file = at.join("page.html");
    // Nothing of the list lies beyond its edge.
    browser.look(1280, false, "");
    browser.open(&file);
    let beyond =
        "const s = document.querySelector('#rows').parentElement; return s.scrollWidth - s.clientWidth";
    assert_eq!(browser.js(beyond), 0);
    browser.look(400, true, "");
    browser.open(&file);
    let narrow = "return [...document.querySelectorAll('#facts tbody :is(th, td)')].filter(c => \
                  c.textContent && c.clientWidth < 250).map(c => c.textContent)";
    assert_eq!(browser.texts(narrow), [""; 0]);
    let heads = "return [...document.querySelectorAll('#facts td[data-head=B]')].length > 0";
    assert_eq!(browser.js(heads), true);
    // A number that is none has its own colour, which words on it are read on.
    changed(at, "nan", Q_PROJ, set(f32::NAN));
    page(at, &["stats", "nan"], 1);
    for dark in [false, true] {
        browser.look(1280, dark, "");
        browser.open(&file);
        let first = "return document.querySelector('#rows tbody button.name').textContent";
        assert_eq!(browser.text(first), Q_PROJ);
        let colour = "const s = getComputedStyle(document.querySelector('.heat td.bad')); return s.color + s.backgroundColor";
        assert_eq!(browser.text(colour), "rgb(255, 255, 255)rgb(160, 0, 0)");
        assert_eq!(browser.console(), [""; 0]);
    }
}
