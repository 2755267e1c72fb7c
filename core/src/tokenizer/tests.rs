//! Vocabularies and templates that mean harm: an error in words, or the right result.

use super::*;
use crate::metadata::{Entry, Items, Metadata, Value};
use chat::Message;
use std::sync::Arc;

fn texts(texts: &[&str]) -> Value {
    let values = texts.iter().map(|t| Value::Text((*t).to_owned())).collect();
    Value::List(Arc::new(Items { kind: "string", values }))
}

fn scores(scores: &[f64]) -> Value {
    Value::List(Arc::new(Items { kind: "f32", values: scores.iter().map(|&x| Value::Float(x)).collect() }))
}

fn bytes(bytes: &[u8]) -> Value {
    let values = bytes.iter().map(|&b| Value::Unsigned(b.into())).collect();
    Value::List(Arc::new(Items { kind: "u8", values }))
}

fn metadata(entries: Vec<(&str, Value)>) -> Metadata {
    let mut made = Metadata::default();
    for (key, value) in entries {
        let key = format!("tokenizer.ggml.{key}");
        made.push(Entry { key, kind: value.kind().to_owned(), value, at: None }).unwrap();
    }
    made
}

fn built(entries: Vec<(&str, Value)>) -> Result<Tokenizer> {
    Tokenizer::of_lists(&Lists { file: "x.gguf", metadata: &metadata(entries) })
}

fn text(text: &str) -> Value {
    Value::Text(text.to_owned())
}

fn bpe(tokens: &[&str], merges: &[&str], more: Vec<(&'static str, Value)>) -> Result<Tokenizer> {
    let mut all = vec![("model", text("gpt2")), ("pre", text("gpt-2"))];
    all.extend([("tokens", texts(tokens)), ("merges", texts(merges))]);
    all.extend(more);
    built(all)
}

#[track_caller]
fn refused(made: Result<Tokenizer>, words: &str) {
    let error = made.map(|_| ()).expect_err("it was taken").to_string();
    assert!(error.contains(words), "{error}");
}

#[test]
fn faulty_lists_are_refused_by_their_key() {
    let made = bpe(&["a", "b", "ab"], &["a b"], vec![]).unwrap();
    assert_eq!(made.ids("abba", Reading::PROMPT).unwrap(), [2, 1, 0]);
    refused(bpe(&["a", "b", "a"], &[], vec![]), "tokens 0 and 2 are the same");
    refused(bpe(&["a", "b"], &["a b"], vec![]), "\"ab\", which is no token");
    refused(bpe(&["a", "b"], &["a ccccccccccccccc"], vec![]), "which is no token");
    refused(bpe(&["a", "b"], &["ab"], vec![]), "tokenizer.ggml.merges");
    refused(bpe(&["a", "b"], &["", " "], vec![]), "tokenizer.ggml.merges");
    refused(bpe(&[], &[], vec![]), "holds no token");
    refused(bpe(&["a"], &[], vec![("bos_token_id", Value::Unsigned(1))]), "tokenizer.ggml.bos_token_id");
    refused(bpe(&["a"], &[], vec![("add_bos_token", Value::Bool(true))]), "add_bos_token is true");
    refused(bpe(&["a"], &[], vec![("add_bos_token", Value::Unsigned(1))]), "must be true or false");
    let short = Value::List(Arc::new(Items { kind: "i32", values: vec![Value::Signed(1)] }));
    refused(bpe(&["a", "b"], &[], vec![("token_type", short)]), "has length 1, but there are 2 tokens");
    assert!(bpe(&["a"], &[], vec![("bos_token_id", Value::Unsigned(0xffff_ffff))]).is_ok());
    assert!(bpe(&["", "a"], &[], vec![]).is_ok());
}

#[test]
fn unknown_names_are_told_with_those_that_are_known() {
    refused(built(vec![("model", text("rwkv")), ("tokens", texts(&["a"]))]), "known: bert, gpt2, llama, t5");
    let pre = built(vec![("model", text("gpt2")), ("pre", text("new")), ("tokens", texts(&["a"]))]);
    refused(pre, "tokenizer.ggml.pre is \"new\"");
    refused(built(vec![]), "tokenizer.ggml.model");
}

#[test]
fn scores_tell_the_order_of_merges() {
    let tokens = ["<unk>", "\u{2581}", "a", "b", "ab", "\u{2581}a", "\u{2581}ab"];
    let made = |scores: Value| {
        built(vec![
            ("model", text("llama")),
            ("tokens", texts(&tokens)),
            ("scores", scores),
            ("unknown_token_id", Value::Unsigned(0)),
            ("add_bos_token", Value::Bool(false)),
        ])
    };
    let low = made(scores(&[0.0, -9.0, -9.0, -9.0, -1.0, -2.0, -3.0])).unwrap();
    assert_eq!(low.ids("ab", Reading::PROMPT).unwrap(), [6]);
    assert_eq!(low.decode(&[6], false).unwrap(), "ab");
    assert_eq!(low.ids("az", Reading::PROMPT).unwrap(), [5, 0]);
    refused(made(scores(&[0.0])), "has length 1");
    refused(made(scores(&[f64::NAN; 7])), "tokenizer.ggml.scores");
}

#[test]
fn tables_that_lead_outside_are_refused() {
    let unigram = |table: &[u8]| {
        built(vec![
            ("model", text("t5")),
            ("tokens", texts(&["<unk>", "\u{2581}", "a"])),
            ("scores", scores(&[0.0, -1.0, -1.0])),
            ("unknown_token_id", Value::Unsigned(0)),
            ("add_eos_token", Value::Bool(false)),
            ("precompiled_charsmap", bytes(table)),
        ])
    };
    for table in [&[][..], &[4, 0, 0, 0], &[4, 0, 0, 0, 0, 4, 0, 0], &[255; 40], &[255, 255, 255, 255, 0, 0]]
    {
        refused(unigram(table), "tokenizer.ggml.precompiled_charsmap");
    }
}

fn of_json(files: &[(&str, &str)]) -> Result<Tokenizer> {
    let files = files.iter().map(|(name, text)| ((*name).to_owned(), text.as_bytes().to_vec()));
    let bundle = crate::bundle::Bundle::in_memory("tokenizer.json", files.collect::<Vec<_>>())?;
    Tokenizer::of_folder(bundle.folder())
}

/// A tokenizer.json with further members.
fn json_with(more: &str) -> String {
    let model = "{\"type\": \"BPE\", \"vocab\": {\"a\": 0, \"x\": 1}, \"merges\": []}";
    format!("{{\"version\": \"1.0\", \"model\": {model}{more}}}")
}

#[test]
fn steps_that_lengthen_a_text_without_bound_are_refused() {
    let replace = |pattern: &str, content: &str| {
        format!("{{\"type\": \"Replace\", \"pattern\": {pattern}, \"content\": \"{content}\"}}")
    };
    let made = |part: &str| of_json(&[("tokenizer.json", &json_with(&format!(", {part}")))]);
    for empty in ["{\"Regex\": \"\"}", "{\"String\": \"\"}"] {
        refused(made(&format!("\"normalizer\": {}", replace(empty, &"x".repeat(1000)))), "empty pattern");
    }
    let chain = |kind: &str, list: &str, step: &str, times: usize| {
        format!("\"{kind}\": {{\"type\": \"Sequence\", \"{list}\": [{}]}}", vec![step; times].join(", "))
    };
    let thirty = replace("{\"String\": \"x\"}", &"x".repeat(30));
    refused(made(&chain("normalizer", "normalizers", &thirty, 7)), "21870000000 times as long");
    refused(made(&chain("decoder", "decoders", &thirty, 7)), "21870000000 times as long");
    let bytes = "{\"type\": \"ByteLevel\", \"add_prefix_space\": false, \"trim_offsets\": true, \"use_regex\": false}";
    refused(made(&chain("pre_tokenizer", "pretokenizers", bytes, 30)), "1073741824 times as long");
    let nothing = replace("{\"Regex\": \"(?=x)\"}", "x");
    refused(made(&chain("normalizer", "normalizers", &nothing, 30)), "times as long");
    // What is in use, or even several times that.
    let mark = replace("{\"String\": \" \"}", "\u{2581}");
    assert!(made(&chain("normalizer", "normalizers", &mark, 3)).is_ok());
    let spaces = replace("{\"Regex\": \" {2,}\"}", " ");
    assert!(made(&chain("normalizer", "normalizers", &spaces, 30)).is_ok());
    // What the library stops at only when it comes upon such a text.
    let nothing = made(&format!("\"normalizer\": {}", replace("{\"Regex\": \"(?=x)\"}", "aaaa"))).unwrap();
    for text in ["", "x", "ax", "xxxxaaa"] {
        if let Err(error) = nothing.ids(text, Reading::PROMPT) {
            assert!(error.to_string().contains("tokenizer.json"), "{error}");
            assert!(matches!(error, Error::Malformed { .. }), "{error}");
        }
    }
}

#[test]
fn files_that_are_no_tokenizer_are_told_in_words() {
    for text in ["[]", "7", " \"x\""] {
        refused(of_json(&[("tokenizer.json", text)]), "must be an object of JSON");
    }
    for text in ["{\"model\": []}", "{\"model\": 7}", "{\"model\": {}, \"added_tokens\": [[]]}"] {
        let told = of_json(&[("tokenizer.json", text)]).map(|_| ()).unwrap_err().to_string();
        assert!(!told.contains("struct") && !told.contains("Glance"), "{told}");
    }
}

#[test]
fn added_tokens_have_the_ids_that_the_file_gives_them() {
    let added = |id: u32| {
        let flags = "\"single_word\": false, \"lstrip\": false, \"rstrip\": false, \"normalized\": false, \"special\": true";
        let token = format!("{{\"id\": {id}, \"content\": \"<end>\", {flags}}}");
        of_json(&[("tokenizer.json", &json_with(&format!(", \"added_tokens\": [{token}]")))])
    };
    assert_eq!(added(2).unwrap().id_of("<end>"), Some(2));
    refused(added(5), "added_tokens gives \"<end>\" the id 5, but by its place it has 2");
}

#[test]
fn an_end_of_text_is_a_token() {
    let made = |name: &str, said: &str| {
        let config = format!("{{\"eos_token_id\": {said}}}");
        of_json(&[("tokenizer.json", &json_with("")), (name, &config)])
    };
    for name in ["config.json", "generation_config.json"] {
        assert_eq!(made(name, "1").unwrap().end_ids(), [1]);
        assert_eq!(made(name, "[1, 0]").unwrap().end_ids(), [0, 1]);
        for none in ["null", "-1", "[]"] {
            assert!(made(name, none).unwrap().end_ids().is_empty(), "{none}");
        }
        for outside in ["2", "[0, 2]", "99999999999", "[-1]"] {
            refused(made(name, outside), "is not in the vocabulary of 2 tokens");
            refused(made(name, outside), name);
        }
        for other in ["\"a\"", "1.5", "true", "{}", "[[0]]"] {
            refused(made(name, other), "must be the whole number of a token");
        }
    }
}

#[test]
fn elements_of_the_wrong_kind_are_told_with_what_they_are() {
    let numbers = || Value::List(Arc::new(Items { kind: "i32", values: vec![Value::Unsigned(5)] }));
    let tokens = built(vec![("model", text("gpt2")), ("pre", text("gpt-2")), ("tokens", numbers())]);
    refused(tokens, "element 0 is a whole number (5), not text");
    let merges = built(vec![
        ("model", text("gpt2")),
        ("pre", text("gpt-2")),
        ("tokens", texts(&["a"])),
        ("merges", numbers()),
    ]);
    refused(merges, "element 0 is a whole number (5), not text");
}

fn template(source: &str) -> Result<ChatTemplate> {
    let tokenizer = bpe(&["a"], &[], vec![])?;
    let files = [("chat_template.jinja".to_owned(), source.as_bytes().to_vec())];
    let bundle = crate::bundle::Bundle::in_memory("chat_template.jinja", files)?;
    Ok(ChatTemplate::of_folder(bundle.folder(), &tokenizer)?.unwrap())
}

fn rendered(source: &str) -> Result<String> {
    template(source)?.render(&[Message::new("user", " hi ")], true)
}

#[test]
fn templates_have_what_transformers_gives_them() {
    let source = "{% for m in messages %}\n  {% if m['role'] == 'user' %}\n{{ m.content.strip() ~ '!' }}\n{% endif %}\n{% endfor %}";
    assert_eq!(rendered(source).unwrap(), "hi!\n");
    assert_eq!(rendered("{{ messages | tojson }}").unwrap(), "[{\"role\": \"user\", \"content\": \" hi \"}]");
    assert_eq!(rendered("{{ 'x' if tools is not none else add_generation_prompt }}").unwrap(), "True");
    assert_eq!(
        rendered("{% for i in range(9) %}{% if i == 2 %}{% break %}{% endif %}{{ i }}{% endfor %}").unwrap(),
        "01"
    );
    assert_eq!(rendered("{{ strftime_now('%Y') | length }}").unwrap(), "4");
}

#[test]
fn hostile_templates_are_stopped() {
    let told = |source: &str| rendered(source).unwrap_err().to_string();
    assert!(told("{{ raise_exception('take turns') }}").contains("take turns"));
    assert!(told("{% for").contains("chat_template.jinja"));
    let many = "{% for a in range(9999) %}".repeat(4) + &"{% endfor %}".repeat(4);
    assert!(told(&many).contains("more steps"), "{}", told(&many));
}

/// Templates that nest deeply enough to overflow a common stack where they are read, compiled, run or dropped: each
/// within the bound of length, and each beyond it.
#[test]
fn deep_templates_do_not_overflow_the_stack() {
    let chains: [(&str, &str, &str); 8] = [
        ("{{ ", "-", "1 }}"),
        ("{{ ", "not ", "1 }}"),
        ("{{ 1", "+1", " }}"),
        ("{{ a", ".a", " }}"),
        ("{{ a", "|upper", " }}"),
        ("{{ ", "1 if 1 else ", "1 }}"),
        ("{% if 0 %}", "{% elif 0 %}", "{% endif %}"),
        ("{{ 1", "~1", " }}"),
    ];
    for (before, link, after) in chains {
        let longest = (128 * 1024 - before.len() - after.len()) / link.len();
        let within = format!("{before}{}{after}", link.repeat(longest));
        match rendered(&within) {
            Ok(_) => {}
            Err(error) => assert!(error.to_string().contains("chat_template.jinja"), "{error}"),
        }
        let beyond = rendered(&format!("{before}{}{after}", link.repeat(longest + 1))).unwrap_err();
        assert!(beyond.to_string().contains("131072 are the most"), "{link}: {beyond}");
    }
}

/// Values that a loop nests as deeply as its fuel allows, and that are then dropped, printed, compared.
#[test]
fn deep_values_do_not_overflow_the_stack() {
    let ends =
        ["", "{{ ns.x }}", "{{ ns.x|tojson }}", "{{ ns.x == ns.y }}", "{{ {ns.x: 1} }}", "{{ ns.x|sort }}"];
    let inner = format!("{}ns.x{}", "[".repeat(60), "]".repeat(60));
    for (step, times) in
        [("[ns.x]", 75_000), (&inner, 5_000), (&inner, 99_999), ("{'a': ns.x}", 75_000), ("(ns.x,)", 75_000)]
    {
        for end in ends {
            let both =
                format!("{{% set ns.x = {step} %}}{{% set ns.y = {} %}}", step.replace("ns.x", "ns.y"));
            let one = format!("{{% set ns.x = {step} %}}");
            let (body, times) = if end.contains("ns.y") { (both, times / 2) } else { (one, times) };
            let source = format!(
                "{{% set ns = namespace(x=[], y=[]) %}}{{% for i in range({times}) %}}{body}{{% endfor %}}{end}"
            );
            if let Err(error) = rendered(&source) {
                assert!(error.to_string().contains("than a template may"), "{error}");
            }
        }
    }
    let indented = "{% set ns = namespace(x=[]) %}{% for i in range(75000) %}{% set ns.x = [ns.x] %}{% endfor %}{{ ns.x|";
    for (filter, told) in [("tojson(indent=2)", "than a template may"), ("pprint", "pprint")] {
        let error = rendered(&format!("{indented}{filter} }}}}")).unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    }
}

#[test]
fn templates_that_double_what_they_have_are_stopped() {
    let doubled = |how: &str, end: &str| {
        let source =
            format!("{{% set n = namespace(x={how}) %}}{{% for i in range(60) %}}{{% set n.x = n.x {end}");
        rendered(&source).unwrap_err().to_string()
    };
    let lists = doubled("[1]", "+ n.x %}{% endfor %}{{ n.x|length }}");
    assert!(lists.contains("chat_template.jinja") && lists.contains("than a template may"), "{lists}");
    let texts = doubled("'aaaaaaaa'", "~ n.x %}{% endfor %}");
    assert!(texts.contains("makes more text"), "{texts}");
    let printed = doubled("[1]", "and [n.x, n.x] %}{% endfor %}{{ n.x }}");
    assert!(printed.contains("than a template may"), "{printed}");
    let json = doubled("[1]", "and [n.x, n.x] %}{% endfor %}{{ n.x|tojson }}");
    assert!(json.contains("than a template may"), "{json}");
}
