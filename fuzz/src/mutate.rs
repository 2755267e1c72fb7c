//! How inputs are made of other inputs.

/// A small generator of numbers (xorshift64*): the same seed gives the same inputs on every machine.
#[derive(Clone, Debug)]
pub struct Rng(u64);

impl Rng {
    /// Any seed will do.
    pub fn new(seed: u64) -> Rng {
        Rng(seed.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    /// The next number.
    pub fn draw(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `n`; 0 if there is none.
    pub fn below(&mut self, n: usize) -> usize {
        (self.draw() >> 32).checked_rem(n as u64).unwrap_or(0) as usize
    }
}

/// Longest input that is made.
pub const MAX_LEN: usize = 64 * 1024;

/// Bytes that are apt to be treated as special.
const BYTES: [u8; 17] = *b"\x00\x01\x02\x7f\x80\xff\xfe0919-.,\"{}";

/// Words that the readers look for.
pub const WORDS: [&str; 79] = [
    // safetensors and its index
    "data_offsets",
    "dtype",
    "shape",
    "__metadata__",
    "weight_map",
    "metadata",
    "total_size",
    "F64",
    "F32",
    "BF16",
    "F4",
    "F6_E2M3",
    "F8_E8M0",
    "C64",
    "BOOL",
    "I64",
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
    "model.safetensors.index.json",
    "<<model.safetensors>>",
    "<<config.json>>",
    "../",
    // config.json
    "model_type",
    "architectures",
    "text_config",
    "vocab_size",
    "hidden_size",
    "num_hidden_layers",
    "num_attention_heads",
    "num_key_value_heads",
    "head_dim",
    "intermediate_size",
    "tie_word_embeddings",
    "rope_parameters",
    "rope_scaling",
    "rope_theta",
    "rope_type",
    "llama3",
    "attention_bias",
    "quantization_config",
    "quant_method",
    "eos_token_id",
    "qwen3",
    "qwen2",
    "llama",
    // GGUF
    "GGUF",
    "general.alignment",
    "general.architecture",
    "general.type",
    "adapter",
    "split.no",
    "split.count",
    "split.tensors.count",
    "qwen3.block_count",
    "qwen3.attention.head_count",
    "qwen3.vocab_size",
    "tokenizer.ggml.model",
    "tokenizer.ggml.pre",
    "tokenizer.ggml.tokens",
    "tokenizer.ggml.token_type",
    "tokenizer.ggml.scores",
    "tokenizer.ggml.merges",
    "tokenizer.ggml.eos_token_id",
    "tokenizer.chat_template",
    // tokenizer.json
    "added_tokens",
    "content",
    "vocab",
    "merges",
    "unk_token",
    // names
    "model.embed_tokens.weight",
    "model.layers.0.",
    "lm_head.weight",
    "token_embd.weight",
    "output.weight",
    "blk.0.",
    // JSON
    "null",
    "true",
    "1e999",
    "\\u0000\\ud800",
];

/// Makes a new input of `base`, with parts of `other`, in one to eight steps.
pub fn mutate(rng: &mut Rng, base: &[u8], other: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(base.get(..base.len().min(MAX_LEN)).unwrap_or_default());
    loop {
        step(rng, other, out);
        out.truncate(MAX_LEN);
        if rng.below(8) < 3 {
            return;
        }
    }
}

fn step(rng: &mut Rng, other: &[u8], out: &mut Vec<u8>) {
    let at = rng.below(out.len());
    match rng.below(16) {
        0 | 1 => {
            if let Some(byte) = out.get_mut(at) {
                *byte ^= 1 << rng.below(8);
            }
        }
        2 => overwrite(out, at, &[BYTES[rng.below(BYTES.len())]]),
        3 => overwrite(out, at, &[rng.draw() as u8]),
        4 => {
            let number = number(rng, out, at);
            overwrite(out, at, &number.to_le_bytes());
        }
        5 => {
            let number = number(rng, out, at) as u32;
            overwrite(out, at, &number.to_le_bytes());
        }
        6 => delete(out, at, length(rng)),
        7 => {
            // A part of this input or of another, once more.
            let from = if rng.below(2) == 0 { out.clone() } else { other.to_vec() };
            let begin = rng.below(from.len());
            let end = begin.saturating_add(length(rng)).min(from.len());
            insert(out, at, from.get(begin..end).unwrap_or_default());
        }
        8 => {
            let filler = vec![BYTES[rng.below(BYTES.len())]; length(rng)];
            insert(out, at, &filler);
        }
        9 if rng.below(4) == 0 => out.truncate(at),
        9 => splice(rng, other, out),
        10 => digits(rng, out, at),
        11 | 12 => word(rng, out, at),
        13 => clause(rng, out, at),
        _ => resize_string(rng, other, out, at),
    }
}

/// Mostly short.
fn length(rng: &mut Rng) -> usize {
    let most = 1 << (1 + rng.below(8));
    1 + rng.below(most)
}

/// A number that is apt to overflow something, or one near to what stands here or near to the input's length.
fn number(rng: &mut Rng, out: &[u8], at: usize) -> u64 {
    let edges = [0, 1, 2, 4, 8, 32, 255, 1 << 31, 1 << 32, 1 << 53, 1 << 62, 1 << 63, u64::MAX];
    let near = |n: u64, rng: &mut Rng| n.wrapping_add(rng.below(5) as u64).wrapping_sub(2);
    match rng.below(4) {
        0 => near(out.len() as u64, rng),
        1 => {
            let here = out.get(at..).and_then(|rest| rest.first_chunk()).copied();
            near(here.map_or(0, u64::from_le_bytes), rng)
        }
        2 => near(edges[rng.below(edges.len())], rng),
        _ => edges[rng.below(edges.len())],
    }
}

fn overwrite(out: &mut [u8], at: usize, bytes: &[u8]) {
    let room = out.get_mut(at..).unwrap_or_default();
    room.iter_mut().zip(bytes).for_each(|(to, from)| *to = *from);
}

fn delete(out: &mut Vec<u8>, at: usize, len: usize) {
    let end = at.saturating_add(len).min(out.len());
    out.drain(at.min(end)..end);
}

fn insert(out: &mut Vec<u8>, at: usize, bytes: &[u8]) {
    let at = at.min(out.len());
    out.splice(at..at, bytes.iter().copied());
}

/// The beginning of this input, the end of another.
fn splice(rng: &mut Rng, other: &[u8], out: &mut Vec<u8>) {
    out.truncate(rng.below(out.len().saturating_add(1)));
    out.extend_from_slice(other.get(rng.below(other.len())..).unwrap_or_default());
}

/// Changes a number written in digits, the next after `at`.
fn digits(rng: &mut Rng, out: &mut Vec<u8>, at: usize) {
    let after = out.get(at..).unwrap_or_default();
    let Some(begin) = after.iter().position(u8::is_ascii_digit).map(|i| at.saturating_add(i)) else { return };
    let run = out.get(begin..).unwrap_or_default().iter().take_while(|b| b.is_ascii_digit()).count();
    let end = begin.saturating_add(run);
    let text = out.get(begin..end).and_then(|digits| std::str::from_utf8(digits).ok());
    let old: u64 = text.and_then(|text| text.parse().ok()).unwrap_or(0);
    let new = match rng.below(6) {
        0 => old.wrapping_add(1).to_string(),
        1 => old.wrapping_sub(1).to_string(),
        2 => old.wrapping_mul(2).to_string(),
        3 => format!("-{old}"),
        4 => format!("{old}.5"),
        _ => number(rng, out, 0).to_string(),
    };
    out.splice(begin..end, new.bytes());
}

/// Puts a word in, over others or between them; half of the time in the place of a quoted one.
fn word(rng: &mut Rng, out: &mut Vec<u8>, at: usize) {
    let word = WORDS[rng.below(WORDS.len())].as_bytes();
    match rng.below(4) {
        0 => overwrite(out, at, word),
        1 => insert(out, at, word),
        _ => {
            let quote = |from: usize| {
                let rest = out.get(from..).unwrap_or_default();
                rest.iter().position(|&b| b == b'"').map(|i| from.saturating_add(i))
            };
            let Some(open) = quote(at) else { return };
            let begin = open.saturating_add(1);
            let Some(close) = quote(begin) else { return };
            out.splice(begin..close, word.iter().copied());
        }
    }
}

/// Deletes, doubles or moves what lies between two punctuation marks of JSON.
fn clause(rng: &mut Rng, out: &mut Vec<u8>, at: usize) {
    let mark = |from: usize| {
        let rest = out.get(from..).unwrap_or_default();
        rest.iter().position(|b| b",{}[]:".contains(b)).map(|i| from.saturating_add(i))
    };
    let Some(begin) = mark(at) else { return };
    let Some(mut end) = mark(begin.saturating_add(1)) else { return };
    for _ in 0..rng.below(6) {
        end = mark(end.saturating_add(1)).unwrap_or(end);
    }
    let part = out.get(begin..end).unwrap_or_default().to_vec();
    match rng.below(3) {
        0 => delete(out, begin, part.len()),
        1 => insert(out, begin, &part),
        _ => {
            delete(out, begin, part.len());
            let to = rng.below(out.len());
            insert(out, to, &part);
        }
    }
}

/// Changes the text behind a 64-bit length and the length with it, so that what follows can still be read.
fn resize_string(rng: &mut Rng, other: &[u8], out: &mut Vec<u8>, at: usize) {
    let string = (at..out.len().min(at.saturating_add(64))).find_map(|at| {
        let len = u64::from_le_bytes(*out.get(at..)?.first_chunk()?);
        let begin = at.checked_add(8)?;
        let end = begin.checked_add(usize::try_from(len).ok()?)?;
        ((1..1024).contains(&len) && end <= out.len()).then_some((at, begin, end))
    });
    let Some((at, begin, end)) = string else { return };
    let mut text = out.get(begin..end).unwrap_or_default().to_vec();
    match rng.below(4) {
        0 => text.clear(),
        1 => text = WORDS[rng.below(WORDS.len())].as_bytes().to_vec(),
        2 => {
            let from = rng.below(other.len());
            text.extend(other.iter().skip(from).take(length(rng)));
        }
        _ => {
            let from = rng.below(text.len());
            delete(&mut text, from, length(rng));
        }
    }
    overwrite(out, at, &(text.len() as u64).to_le_bytes());
    out.splice(begin..end, text);
}

/// Sets the length that a `.safetensors` header has from `start` on to that of the JSON object that follows it.
pub fn repair_header(input: &mut [u8], start: usize) {
    let Some(header) = start.checked_add(8).and_then(|begin| input.get(begin..)) else { return };
    let (mut depth, mut quoted, mut escaped) = (0usize, false, false);
    let end = header.iter().position(|&b| {
        match b {
            _ if escaped => escaped = false,
            b'\\' => escaped = quoted,
            b'"' => quoted = !quoted,
            b'{' if !quoted => depth = depth.saturating_add(1),
            b'}' if !quoted => depth = depth.saturating_sub(1),
            _ => {}
        }
        !quoted && depth == 0
    });
    if let Some(end) = end {
        let padding = header.get(end.saturating_add(1)..).unwrap_or_default();
        let padding = padding.iter().take_while(|b| **b == b' ').count();
        let len = end.saturating_add(1).saturating_add(padding) as u64;
        overwrite(input, start, &len.to_le_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_run() {
        let run = || {
            let (mut rng, mut all) = (Rng::new(7), Vec::new());
            for _ in 0..1000 {
                let mut out = Vec::new();
                mutate(&mut rng, b"{\"a\": [1, 2], \"b\": {\"c\": 3}}", b"\x03\0\0\0\0\0\0\0abc", &mut out);
                all.push(out);
            }
            all
        };
        assert_eq!(run(), run());
    }

    #[test]
    fn nothing_can_be_made_of_nothing() {
        let (mut rng, mut out) = (Rng::new(0), Vec::new());
        for _ in 0..10_000 {
            mutate(&mut rng, b"", b"", &mut out);
            assert!(out.len() <= MAX_LEN);
        }
    }

    #[test]
    fn the_length_of_a_header_is_found() {
        let mut input = b"12345678{\"a}\\\"\": {}}  data".to_vec();
        repair_header(&mut input, 0);
        assert_eq!(input[..8], 14u64.to_le_bytes());
        let mut hopeless = b"12345678{".to_vec();
        repair_header(&mut hopeless, 0);
        assert_eq!(hopeless, b"12345678{");
    }
}
