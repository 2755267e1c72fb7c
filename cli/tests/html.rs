//! The report as a page: what is in it by its bytes, and what it does in a real browser.
#![allow(clippy::disallowed_methods)] // tests write the files they look at

mod browser;
mod common;

use browser::{Browser, url};
use common::{CONFIG, Tensor, folder, model, run_in, safetensors};
use serde_json::{Value, json};
use std::fs;
use std::path::{Path, PathBuf};

fn testdata(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../testdata").join(name)
}

/// Writes the page of a model into a folder; gives its path.
#[track_caller]
fn page(folder: &Path, model: &Path, code: i32) -> PathBuf {
    let run = run_in(folder, &["inspect", model.to_str().unwrap(), "--html", "page.html"]);
    assert_eq!(run.code, code, "{}{}", run.out, run.err);
    assert!(run.out.starts_with("wrote page.html ("), "{}", run.out);
    folder.join("page.html")
}

/// Every tensor of a model, by another way than the page: name and bytes.
fn tensors(model: &Path) -> Vec<(String, u64)> {
    let run = run_in(Path::new("."), &["inspect", model.to_str().unwrap(), "--tensors", "--json"]);
    let document: Value = serde_json::from_str(&run.out).unwrap();
    let all = document["model"]["tensors"].as_array().unwrap();
    all.iter().map(|t| (t["name"].as_str().unwrap().to_owned(), t["bytes"].as_u64().unwrap())).collect()
}

/// The data that a page carries for its script.
fn data(page: &str) -> Value {
    let start = "<script type=\"application/json\" id=\"data\">";
    let at = page.find(start).unwrap() + start.len();
    serde_json::from_str(page[at..].split("</script>").next().unwrap()).unwrap()
}

#[test]
fn a_page_beside_the_report() {
    let folder = folder();
    let plain = run_in(folder.path(), &["inspect", "good"]);
    let run = run_in(folder.path(), &["inspect", "good", "--html", "page.html"]);
    assert_eq!((run.code, run.err.as_str()), (0, ""));
    assert_eq!(run.out.split_once("\n\n").unwrap().1, plain.out);
    let first = fs::read(folder.path().join("page.html")).unwrap();
    assert!(
        run.out.starts_with(&format!("wrote page.html ({:.1} KiB)\n", first.len() as f64 / 1024.0)),
        "{}",
        run.out
    );
    // JSON stays JSON, quiet is quiet, and the page is the same every time.
    let json = run_in(folder.path(), &["inspect", "good", "--json", "--html", "page.html"]);
    common::valid(&json);
    let quiet = run_in(folder.path(), &["inspect", "good", "--quiet", "--html", "page.html"]);
    assert!(!quiet.out.contains("wrote"), "{}", quiet.out);
    assert_eq!(fs::read(folder.path().join("page.html")).unwrap(), first);
    let text = String::from_utf8(first).unwrap();
    assert!(text.contains("all 25 expected tensors present, shapes match the config"));
    assert!(text.contains("lm_head.weight present but tied"));
    assert!(text.contains("Not checked: tensor values (use check --data)."), "{text}");
}

#[test]
fn what_is_wrong_stands_on_it() {
    let folder = folder();
    let page = fs::read_to_string(page(folder.path(), &folder.path().join("bad"), 1)).unwrap();
    assert!(page.contains("class=\"verdict bad\""));
    assert!(page.contains("model.layers.1.mlp.up_proj.weight is missing"), "{page}");
}

#[test]
fn it_is_never_written_over_the_model() {
    let folder = folder();
    let config = folder.path().join("good/config.json");
    for target in ["good/model.safetensors", "good/config.json", "good"] {
        let run = run_in(folder.path(), &["inspect", "good", "--html", target]);
        assert_eq!(run.code, 2, "{target}: {}", run.err);
    }
    assert_eq!(fs::read_to_string(config).unwrap(), CONFIG);
    let run = run_in(folder.path(), &["inspect", "none", "--html", "page.html"]);
    assert_eq!(run.code, 3);
    assert!(!folder.path().join("page.html").exists());
}

#[test]
fn all_tensors_are_in_the_list_but_those_left_out() {
    let folder = tempfile::tempdir().unwrap();
    let model = testdata("qwen3-q4_k_m.gguf");
    let text = fs::read_to_string(page(folder.path(), &model, 0)).unwrap();
    let data = data(&text);
    let rows = data["rows"].as_array().unwrap();
    let listed: Vec<(String, u64)> =
        rows.iter().map(|r| (r[0].as_str().unwrap().to_owned(), r[6].as_u64().unwrap())).collect();
    assert_eq!(listed, tensors(&model));
    let model = model.to_str().unwrap();
    run_in(
        folder.path(),
        &["inspect", model, "--html", "some.html", "--include", "blk.0.*", "--exclude", "*norm*"],
    );
    let some = self::data(&fs::read_to_string(folder.path().join("some.html")).unwrap());
    let shown = some["rows"].as_array().unwrap();
    assert!(shown.iter().all(|r| r[0].as_str().unwrap().starts_with("blk.0.")));
    assert_eq!(shown.len() + some["hidden"].as_u64().unwrap() as usize, listed.len());
    assert_eq!(shown.len(), 7, "{shown:?}");
}

/// The row of a tensor in a page's data, and in which places its further columns stand.
fn row_of<'d>(data: &'d Value, name: &str) -> (&'d Value, Vec<&'d str>) {
    let rows = data["rows"].as_array().unwrap();
    let row = rows.iter().find(|row| row[0] == name).unwrap();
    let columns = data["columns"].as_array().unwrap();
    (row, columns.iter().map(|c| c[0].as_str().unwrap()).collect())
}

/// What stands in a further column of a row.
fn cell<'d>(data: &'d Value, name: &str, column: &str) -> &'d Value {
    let (row, columns) = row_of(data, name);
    &row[10 + columns.iter().position(|c| *c == column).unwrap()]
}

#[track_caller]
fn near(found: &Value, expected: f64) {
    let found = found.as_f64().unwrap_or_else(|| panic!("{found}"));
    // As many digits as a page shows.
    assert!((found - expected).abs() <= 1e-6 * expected.abs(), "{found} {expected}");
}

/// The numbers of a tensor that a test has made.
fn numbers(tensor: &Tensor) -> Vec<f64> {
    tensor.bytes.as_chunks::<4>().0.iter().map(|b| f64::from(f32::from_le_bytes(*b))).collect()
}

/// The clean model with one number of one tensor made another.
fn changed(folder: &Path, name: &str, tensor: &str, number: f32) -> Tensor {
    let mut tensors = common::qwen3();
    let found = tensors.iter_mut().find(|t| t.name == tensor).unwrap();
    found.bytes[4..8].copy_from_slice(&number.to_le_bytes());
    let kept = found.clone();
    model(folder, name, &tensors, Some(CONFIG));
    kept
}

const Q_PROJ: &str = "model.layers.1.self_attn.q_proj.weight";

#[test]
fn the_numbers_of_statistics_are_on_their_page() {
    let folder = folder();
    let run = run_in(folder.path(), &["stats", "good", "--html", "stats.html"]);
    assert_eq!(run.code, 0, "{}", run.err);
    assert!(run.out.starts_with("wrote stats.html ("), "{}", run.out);
    let page = fs::read_to_string(folder.path().join("stats.html")).unwrap();
    assert!(
        page.contains("all 2,432 numbers that were read are finite; all 25 expected tensors present"),
        "{page}"
    );
    let data = data(&page);
    let made = common::qwen3();
    for tensor in &made {
        let numbers = numbers(tensor);
        let squares: f64 = numbers.iter().map(|x| x * x).sum();
        let rms = (squares / numbers.len() as f64).sqrt();
        let most = numbers.iter().fold(0f64, |m, x| m.max(x.abs()));
        near(cell(&data, &tensor.name, "rms"), rms);
        near(cell(&data, &tensor.name, "absmax"), most);
        near(cell(&data, &tensor.name, "peak"), most / rms);
        near(cell(&data, &tensor.name, "mean"), numbers.iter().sum::<f64>() / numbers.len() as f64);
        let (row, columns) = row_of(&data, &tensor.name);
        let spread = &row[10 + columns.len()];
        // The numbers are a ramp: every bin of those that hold any holds about as many.
        near(&spread[0], numbers[0]);
        near(&spread[1], *numbers.last().unwrap());
        let bars = spread[2].as_str().unwrap();
        assert_eq!(
            bars.chars().filter(|c| *c != '0').count(),
            numbers.len().min(64),
            "{} {bars}",
            tensor.name
        );
    }

    changed(folder.path(), "nan", Q_PROJ, f32::NAN);
    let run = run_in(folder.path(), &["stats", "nan", "--html", "stats.html", "--json"]);
    assert_eq!(run.code, 1, "{}", run.err);
    common::valid(&run);
    let page = fs::read_to_string(folder.path().join("stats.html")).unwrap();
    assert!(
        page.contains("class=\"verdict bad\"") && page.contains("1 of 2,432 numbers are NaN or infinite")
    );
    assert_eq!(cell(&self::data(&page), Q_PROJ, "nonfinite"), 1.0);
    assert_eq!(run_in(folder.path(), &["stats", "good", "--html", "good/config.json"]).code, 2);
}

#[test]
fn a_comparison_is_on_its_page() {
    let folder = folder();
    let whole = common::qwen3().into_iter().find(|t| t.name == Q_PROJ).unwrap();
    let before = numbers(&whole);
    let after = numbers(&changed(folder.path(), "other", Q_PROJ, -1000.0));
    let run = run_in(folder.path(), &["diff", "good", "other", "--html", "diff.html"]);
    assert_eq!(run.code, 1, "{}", run.err);
    assert!(run.out.starts_with("wrote diff.html ("), "{}", run.out);
    let page = fs::read_to_string(folder.path().join("diff.html")).unwrap();
    assert!(page.contains("class=\"verdict bad\"") && page.contains("<h1>good → other</h1>"));
    let data = data(&page);
    let squares: f64 = before.iter().zip(&after).map(|(a, b)| (b - a) * (b - a)).sum();
    let all: f64 = before.iter().map(|a| a * a).sum();
    near(cell(&data, Q_PROJ, "relative"), (squares / all).sqrt());
    near(cell(&data, Q_PROJ, "max"), 1000.0 + before[1]);
    let worst = cell(&data, Q_PROJ, "worst").as_str().unwrap();
    assert!(worst.starts_with(&format!("{} → -1000 at ", before[1])), "{worst}");
    for tensor in common::qwen3().iter().filter(|t| t.name != Q_PROJ && !t.name.starts_with("lm_head")) {
        assert_eq!(cell(&data, &tensor.name, "class"), "identical", "{}", tensor.name);
        assert_eq!(cell(&data, &tensor.name, "relative"), 0.0, "{}", tensor.name);
    }
    let same = run_in(folder.path(), &["diff", "good", "good", "--html", "diff.html"]);
    assert_eq!(same.code, 0);
    assert!(fs::read_to_string(folder.path().join("diff.html")).unwrap().contains("class=\"verdict good\""));
    for input in ["good/model.safetensors", "other/config.json"] {
        assert_eq!(run_in(folder.path(), &["diff", "good", "other", "--html", input]).code, 2, "{input}");
    }
}

#[test]
fn in_a_browser_numbers_are_pictures() {
    let Some(browser) = Browser::start() else { return };
    let folder = folder();
    changed(folder.path(), "other", Q_PROJ, -1000.0);
    for args in [&["stats", "good"][..], &["diff", "good", "other"]] {
        run_in(folder.path(), &[args, &["--html", "page.html"]].concat());
        let page = folder.path().join("page.html");
        for (width, dark) in [(1280, false), (400, true)] {
            browser.look(width, dark, "");
            browser.open(&page);
            assert_eq!(browser.texts(FAULTS), [""; 0], "{args:?} {width} dark: {dark}");
            assert_eq!(browser.console(), [""; 0]);
        }
        browser.look(1280, false, "");
        let titles =
            browser.texts("return [...document.querySelectorAll('.heat h3')].map(h => h.textContent)");
        let lit = browser
            .texts("return [...document.querySelectorAll('.heat td:not(.zero, .none)')].map(td => td.title.split(':')[0])");
        if args[0] == "stats" {
            assert_eq!(titles, ["How large the numbers are", "Outliers"]);
            let sparks = "return document.querySelectorAll('#rows svg.spark').length";
            assert_eq!(browser.js(sparks), 25);
            browser.click("#rows th[data-id=peak] button");
            let peaks = "return [...document.querySelectorAll('#rows tbody tr')].map(r => \
                         Number([...r.cells].at([...document.querySelectorAll('#rows thead th')].findIndex(t => t.dataset.id === 'peak')).textContent))";
            let peaks: Vec<f64> =
                browser.js(peaks).as_array().unwrap().iter().map(|v| v.as_f64().unwrap()).collect();
            assert!(peaks.windows(2).all(|p| p[0] >= p[1]) && peaks[0] > peaks[24], "{peaks:?}");
            browser.keys("/");
            browser.js("document.querySelector('#rows tbody button').click()");
            assert_eq!(
                browser.js("return document.querySelectorAll('tr.more svg.spread rect').length > 1"),
                true
            );
        } else {
            assert_eq!(titles, ["How far apart"]);
            // What differs is the brightest, and the first of the list.
            assert_eq!(lit, ["layer 1, self_attn.q_proj.weight"]);
            assert_eq!(browser.texts(NAMES)[0], Q_PROJ);
        }
    }
}

/// The names that the list shows, in order.
const NAMES: &str =
    "return [...document.querySelectorAll('#rows tbody button.name')].map(b => b.textContent)";
const FOCUS: &str = "return document.activeElement.textContent || document.activeElement.id";

#[test]
fn in_a_browser_it_sorts_searches_and_opens() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let model = testdata("qwen3-tiny");
    let page = page(folder.path(), &model, 0);
    browser.look(1280, false, "");
    browser.open(&page);
    let mut all = tensors(&model);
    assert_eq!(browser.texts(NAMES), all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    let sum: u64 = all.iter().map(|(_, bytes)| bytes).sum();
    let count = browser.text("return document.getElementById('count').textContent");
    assert_eq!(count, format!("25 tensors, {:.0} KiB", sum as f64 / 1024.0));

    // By size, the largest first; those that are alike stay in the order of their names.
    browser.click("#rows th[data-id=bytes] button");
    all.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    assert_eq!(browser.texts(NAMES), all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>());
    let sorted = "return [...document.querySelectorAll('#rows th[aria-sort]')].map(t => t.dataset.id + ' ' + t.ariaSort)";
    assert_eq!(browser.texts(sorted), ["bytes descending"]);
    browser.click("#rows th[data-id=bytes] button");
    all.sort_by_key(|(_, bytes)| *bytes);
    assert_eq!(browser.texts(NAMES)[..5].len(), 5);
    assert_eq!(browser.texts(sorted), ["bytes ascending"]);
    let least = browser.texts(NAMES).first().cloned().unwrap();
    assert!(all.iter().any(|(name, bytes)| *name == least && *bytes == all[0].1), "{least}");

    // By keyboard alone: the search, a layer and a word, to the rows, open one, close it.
    browser.keys("/");
    assert_eq!(browser.text(FOCUS), "query");
    browser.keys("layer:1 q_proj");
    assert_eq!(browser.texts(NAMES), ["model.layers.1.self_attn.q_proj.weight"]);
    browser.keys(&"\u{e003}".repeat("q_proj".len()));
    browser.keys("*.SELF_attn.?_proj.*");
    let found = browser.texts(NAMES);
    assert_eq!(found.len(), 4, "{found:?}");
    browser.js("document.querySelector('#rows tbody button').focus()");
    browser.keys("\u{e015}");
    assert_eq!(browser.text(FOCUS), found[1]);
    browser.keys("\u{e007}");
    let open = browser.text("return document.querySelector('#rows tr.more').textContent");
    assert!(open.contains("model.safetensors") && open.contains("from byte"), "{open}");
    let expanded = "return document.activeElement.getAttribute('aria-expanded')";
    assert_eq!(browser.text(expanded), "true");
    browser.keys("\u{e007}");
    assert_eq!(browser.js("return document.querySelectorAll('#rows tr.more').length"), 0);
    assert_eq!(browser.text(expanded), "false");

    // Nothing that is there.
    browser.click("#search button[type=reset]");
    browser.keys("/");
    browser.keys("nothing of that name");
    assert_eq!(browser.texts(NAMES), [""; 0]);
    assert_eq!(browser.text("return document.getElementById('where').textContent"), "none");

    // A kind, from the table of kinds and from the picture.
    browser.click("#kinds tr:nth-child(3) button.name");
    let first = browser.texts(NAMES);
    assert_eq!(first, ["model.layers.0.self_attn.q_proj.weight", "model.layers.1.self_attn.q_proj.weight"]);
    browser.click("svg.wide g[data-kind='0'] rect");
    assert_eq!(browser.texts(NAMES), ["model.embed_tokens.weight"]);

    assert_eq!(browser.console(), [""; 0]);
    let requests = browser.requests();
    assert!(requests.iter().all(|r| r.split('#').next() == Some(&url(&page))), "{requests:?}");
    assert!(!requests.is_empty(), "the log of requests is at work");
}

/// A model without a config, of which one layer is stored in fewer bits.
fn mixed(folder: &Path) -> PathBuf {
    let mut header = String::from("{");
    let mut at = 0;
    for (layer, part, dtype, len) in
        [(0, "k", "F32", 64), (0, "q", "F32", 64), (1, "k", "F32", 64), (1, "q", "BF16", 32)]
    {
        let comma = if at == 0 { "" } else { "," };
        let end = at + len;
        header.push_str(&format!(
            "{comma}\"model.layers.{layer}.self_attn.{part}_proj.weight\":\
             {{\"dtype\":\"{dtype}\",\"shape\":[4,4],\"data_offsets\":[{at},{end}]}}"
        ));
        at = end;
    }
    header.push('}');
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.bytes());
    bytes.resize(bytes.len() + at, 0);
    let file = folder.join("mixed.safetensors");
    fs::write(&file, bytes).unwrap();
    file
}

#[test]
fn in_a_browser_pictures_have_their_numbers() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let model = testdata("qwen3-q4_k_m.gguf");
    let page = page(folder.path(), &model, 0);
    browser.look(1280, false, "");
    browser.open(&page);

    // Areas are to each other as bytes are: what lies in the picture against what the list says.
    let areas = "const sum = {}; for (const r of document.querySelectorAll('svg.wide g[data-kind] rect')) { \
                 const k = r.parentNode.dataset.kind; sum[k] = (sum[k] ?? 0) + r.width.baseVal.value * r.height.baseVal.value; } \
                 const data = JSON.parse(document.getElementById('data').textContent); \
                 return Object.entries(sum).map(([k, area]) => [data.kinds[k][0], area, \
                 data.rows.filter(r => r[2] == k).reduce((n, r) => n + r[6], 0)])";
    let areas = browser.js(areas);
    let areas = areas.as_array().unwrap();
    assert!(areas.len() > 5, "{areas:?}");
    let ratio = |a: &Value| a[1].as_f64().unwrap() / a[2].as_f64().unwrap();
    let largest = areas.iter().max_by_key(|a| a[2].as_u64()).unwrap();
    for kind in areas.iter().filter(|a| a[1].as_f64().unwrap() > 5000.0) {
        // Edges are left free between areas, of which small ones have more.
        assert!((ratio(kind) / ratio(largest) - 1.0).abs() < 0.15, "{kind} {largest}");
    }

    // The picture of layers: a table with heads, numbers as the types have bits, read out by arrow keys.
    let page = self::page(folder.path(), &mixed(folder.path()), 0);
    browser.open(&page);
    let heads =
        "return [...document.querySelectorAll('.heat thead th')].map(t => t.scope + ' ' + t.textContent)";
    assert_eq!(browser.texts(heads), ["col layer", "col 0", "col 1"]);
    let cells = "return [...document.querySelectorAll('.heat tbody tr')].map(t => [...t.cells].map(c => c.textContent).join(' '))";
    assert_eq!(browser.texts(cells), ["self_attn.k_proj 32.00 32.00", "self_attn.q_proj 32.00 16.00"]);
    let colours = "return [...document.querySelectorAll('.heat td')].map(td => td.className)";
    assert_eq!(browser.texts(colours), ["h20", "h20", "h20", "h0"]);
    let scale = "return [...document.querySelectorAll('.heat .ends b')].map(b => b.textContent)";
    assert_eq!(browser.texts(scale), ["16.00", "24.00", "32.00"]);
    browser.js("document.querySelector('.heat .scroll').focus()");
    browser.keys("\u{e014}\u{e015}");
    let told = browser.text("return document.querySelector('.heat .readout').textContent");
    let expected = "return document.querySelector('.heat tbody').rows[1].cells[1].title";
    assert_eq!(told, browser.text(expected));
    assert_eq!(told, "layer 0, self_attn.q_proj.weight: 32.00");
    assert_eq!(browser.console(), [""; 0]);
}

/// Tensors whose names would do something if a browser took them for more than text.
fn hostile() -> Vec<Tensor> {
    let names = [
        "<script>window.hacked=1</script>",
        "</script><script>window.hacked=1</script>",
        "\"><img src=x onerror=\"window.hacked=1\">",
        "' onmouseover='window.hacked=1' x='",
        "</title></style></textarea><svg onload=window.hacked=1>",
        "<!-- <script>",
        "model.layers.0.</td></tr></table><iframe src='javascript:window.hacked=1'>.weight",
        "model.layers.1.</td></tr></table><iframe src='javascript:window.hacked=1'>.weight",
        "a\u{202e}gnp.exe",
        "שלום.עולם.weight",
        "javascript:window.hacked=1",
        "${window.hacked=1}{{window.hacked=1}}",
        "constructor",
        "__proto__",
    ];
    names.iter().map(|name| Tensor::new(name, &[4, 4])).collect()
}

#[test]
fn in_a_browser_hostile_names_are_names() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let tensors = hostile();
    let at = folder.path().join("<img src=x onerror=window.hacked=1>");
    fs::create_dir(&at).unwrap();
    let bytes = safetensors(&tensors, "{\"<b>\":\"</script><script>window.hacked=1</script>\"}");
    fs::write(at.join("model.safetensors"), bytes).unwrap();
    fs::write(at.join("config.json"), "{\"model_type\":\"<script>window.hacked=1</script>\"}").unwrap();
    let run = run_in(folder.path(), &["inspect", at.to_str().unwrap(), "--metadata", "--html", "page.html"]);
    assert_eq!(run.code, 0, "{}", run.err);
    let page = folder.path().join("page.html");
    browser.look(1280, false, "");
    browser.open(&page);
    let mut shown = browser.texts(NAMES);
    let mut names: Vec<String> = tensors.iter().map(|t| t.name.replace('\u{202e}', "\\u{202e}")).collect();
    shown.sort();
    names.sort();
    assert_eq!(shown, names);
    // Whatever of it is touched does nothing.
    browser.js(
        "for (const e of document.querySelectorAll('*')) { e.dispatchEvent(new MouseEvent('mouseover', {bubbles: true})); \
         e.dispatchEvent(new PointerEvent('pointerover', {bubbles: true})); } \
         for (const b of document.querySelectorAll('#rows tbody button, #rows thead button')) b.click();",
    );
    assert_eq!(browser.js("return window.hacked ?? null"), Value::Null);
    assert_eq!(browser.js("return document.scripts.length"), 2);
    let foreign = "return document.querySelectorAll('img, iframe, object, embed, link, base, [onload], [onerror], \
                   [onmouseover], [style]').length";
    assert_eq!(browser.js(foreign), 0);
    assert_eq!(browser.console(), [""; 0]);
    assert_eq!(browser.requests(), [url(&page)]);

    // And were a name ever to become markup, the page's policy would still hold.
    let text = fs::read_to_string(&page).unwrap();
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    listener.set_nonblocking(true).unwrap();
    let address = listener.local_addr().unwrap();
    let worst = format!(
        "<main><script>window.hacked=1</script><img src=http://{address}/x onerror=window.hacked=1>\
         <p style=\"color:red\" onmouseover=window.hacked=1>x</p>"
    );
    let broken = folder.path().join("broken.html");
    fs::write(&broken, text.replacen("<main>", &worst, 1)).unwrap();
    browser.open(&broken);
    browser.js("document.querySelector('main p').dispatchEvent(new MouseEvent('mouseover'))");
    assert_eq!(browser.js("return window.hacked ?? null"), Value::Null);
    assert_eq!(browser.texts(NAMES).len(), tensors.len());
    let console = browser.console();
    assert!(console.iter().any(|line| line.contains("Content Security Policy")), "{console:?}");
    assert!(listener.accept().is_err(), "something was asked for over the network");
}

/// Texts that are too faint before their background, and what makes a page wider than its window.
const FAULTS: &str = r#"
    const rgb = (text) => { const n = text.match(/[\d.]+/g).map(Number); return n.length < 4 ? [...n, 1] : n; };
    const light = ([r, g, b]) => [r, g, b].map(v => v / 255).map(v => v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4)
        .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
    const ratio = (a, b) => { const [x, y] = [light(a), light(b)].sort((p, q) => q - p); return (x + 0.05) / (y + 0.05); };
    const behind = (e) => { for (; e; e = e.parentElement) { const c = rgb(getComputedStyle(e).backgroundColor); if (c[3] > 0.99) return c; } return [255, 255, 255, 1]; };
    const faults = [];
    let seen = 0;
    for (const e of document.querySelectorAll('body *:not(script, style, svg *, noscript)')) {
        const own = [...e.childNodes].some(n => n.nodeType === 3 && n.textContent.trim());
        const box = e.getBoundingClientRect();
        if (!own || box.width < 2 || getComputedStyle(e).visibility === 'hidden' || e.disabled) continue;
        seen++;
        const r = ratio(rgb(getComputedStyle(e).color), behind(e));
        if (r < 4.5) faults.push(`${r.toFixed(2)} ${e.tagName} ${e.className} ${e.textContent.slice(0, 40)}`);
    }
    for (const t of document.querySelectorAll('svg.map text')) {
        const rect = t.parentNode.querySelector('.c');
        if (!rect.getBoundingClientRect().width) continue;
        seen++;
        const r = ratio(rgb(getComputedStyle(t).fill), rgb(getComputedStyle(rect).fill));
        if (r < 4.5) faults.push(`${r.toFixed(2)} label ${t.textContent} on ${t.parentNode.getAttribute('class')}`);
    }
    if (seen < 100) faults.push(`only ${seen} texts were looked at`);
    const wide = document.documentElement.scrollWidth;
    if (wide > innerWidth) faults.push(`${wide} pixels in a window of ${innerWidth}`);
    return faults;
"#;

#[test]
fn in_a_browser_it_is_readable_in_any_light_and_width_and_on_paper() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    for name in ["qwen3-q4_k_m.gguf", "qwen3-tiny"] {
        let page = page(folder.path(), &testdata(name), 0);
        for (width, dark, media) in
            [(1280, false, ""), (1280, true, ""), (400, false, ""), (400, true, ""), (800, true, "print")]
        {
            browser.look(width, dark, media);
            browser.open(&page);
            for colour in ["by-part", "by-type"] {
                browser.js_with("document.getElementById(arguments[0]).checked = true", json!([colour]));
                assert_eq!(browser.texts(FAULTS), [""; 0], "{name} {width} dark: {dark} {media} {colour}");
            }
        }
        // On paper there are no controls, and every row is there.
        browser.look(800, false, "print");
        assert_eq!(browser.js("return document.querySelector('nav').getBoundingClientRect().height"), 0);
        browser.js("dispatchEvent(new Event('beforeprint'))");
        assert_eq!(browser.texts(NAMES).len(), tensors(&testdata(name)).len());
        let paper = browser.devtools("Page.printToPDF", json!({}));
        assert!(paper["data"].as_str().unwrap().starts_with("JVBERi0"), "base64 of %PDF-");
    }
    // Headings go down one level at a time, and what scrolls can be reached and is named.
    let levels = "return [...document.querySelectorAll('h1, h2, h3')].map(h => h.tagName)";
    let levels = browser.texts(levels);
    assert_eq!(levels[0], "H1");
    assert!(
        levels
            .windows(2)
            .all(|pair| pair[1] <= pair[0] || pair[1].as_bytes()[1] == pair[0].as_bytes()[1] + 1)
    );
    let unnamed = "return document.querySelectorAll('.scroll:not([tabindex=\"0\"][role=region][aria-label])').length + \
                   document.querySelectorAll('svg:not([role=img][aria-label])').length + \
                   [...document.querySelectorAll('input, select')].filter(e => !e.labels.length).length";
    assert_eq!(browser.js(unnamed), 0);
    let ids = "const all = [...document.querySelectorAll('[id]')].map(e => e.id); return all.length - new Set(all).size";
    assert_eq!(browser.js(ids), 0);
}

#[test]
fn in_a_browser_thirty_thousand_tensors_are_there_at_once() {
    let Some(browser) = Browser::start() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut tensors = Vec::new();
    for layer in 0..40 {
        for expert in 0..256 {
            for part in ["gate", "up", "down"] {
                let name = format!("model.layers.{layer}.mlp.experts.{expert}.{part}_proj.weight");
                tensors.push(Tensor { name, shape: vec![1], bytes: vec![0; 4] });
            }
        }
    }
    let model = model(folder.path(), "many", &tensors, None);
    let page = page(folder.path(), &model, 0);
    let len = fs::metadata(&page).unwrap().len();
    assert!(len < 5 << 20, "{len} bytes");
    browser.look(1280, false, "");
    browser.open(&page);
    let took = browser
        .js("const t = performance.getEntriesByType('navigation')[0]; return t.loadEventEnd - t.startTime");
    println!("{} tensors in {len} bytes are there after {took} ms", tensors.len());
    // A second, where nothing else runs.
    assert!(took.as_f64().unwrap() < 10_000.0, "{took} ms");
    assert_eq!(browser.texts(NAMES).len(), 100);
    browser.click("#next");
    assert_eq!(browser.text("return document.getElementById('where').textContent"), "101–200 of 30,720");
    let searched = "const began = performance.now(); const q = document.getElementById('query'); q.value = 'layer:7 experts.25?.up'; \
                    q.dispatchEvent(new Event('input', {bubbles: true})); return performance.now() - began";
    let took = browser.js(searched);
    println!("a search takes {took} ms");
    assert!(took.as_f64().unwrap() < 3_000.0, "{took} ms");
    assert_eq!(browser.texts(NAMES).len(), 0);
    browser.js("const q = document.getElementById('query'); q.value = 'layer:7 *.experts.25?.up_*'; q.dispatchEvent(new Event('input', {bubbles: true}))");
    let names = browser.texts(NAMES);
    assert_eq!(names.first().map(String::as_str), Some("model.layers.7.mlp.experts.250.up_proj.weight"));
    assert_eq!(names.len(), 6);
    assert_eq!(browser.console(), [""; 0]);
}
