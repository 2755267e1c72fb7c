//! What a file is that is no model this program reads: told by its first bytes, in words a person can act on.

use crate::bundle::Folder;
use crate::error::{Error, Result};

/// A kind of file, its mark, and what to say of it.
struct Mark {
    /// Offset of the mark in the file.
    at: usize,
    bytes: &'static [u8],
    what: &'static str,
    advice: &'static str,
}

const CONVERT_PICKLE: &str = "loading it would run code from the file: get the safetensors version of the \
                              model, or convert it with the tool that wrote it";
const UNPACK: &str = "unpack it first";

/// Longer marks before shorter ones that they begin with.
const MARKS: [Mark; 21] = [
    Mark {
        at: 0,
        bytes: b"version https://git-lfs.github.com/spec",
        what: "a Git LFS pointer: the text that stands for the file in a repository, not the file itself",
        advice: "fetch the content (git lfs pull) or download the file anew",
    },
    Mark {
        at: 0,
        bytes: b"PK\x03\x04",
        what: "a zip archive, as PyTorch's pickled checkpoints (.bin, .pt) are",
        advice: CONVERT_PICKLE,
    },
    Mark { at: 0, bytes: b"PK\x05\x06", what: "an empty zip archive", advice: "fetch the file anew" },
    Mark {
        at: 0,
        bytes: b"\x80\x02",
        what: "a Python pickle (protocol 2), as older PyTorch checkpoints are",
        advice: CONVERT_PICKLE,
    },
    Mark { at: 0, bytes: b"\x80\x03", what: "a Python pickle (protocol 3)", advice: CONVERT_PICKLE },
    Mark { at: 0, bytes: b"\x80\x04", what: "a Python pickle (protocol 4)", advice: CONVERT_PICKLE },
    Mark { at: 0, bytes: b"\x80\x05", what: "a Python pickle (protocol 5)", advice: CONVERT_PICKLE },
    Mark {
        at: 0,
        bytes: b"\x89HDF\r\n\x1a\n",
        what: "an HDF5 file, as Keras writes",
        advice: "convert it to safetensors",
    },
    Mark { at: 0, bytes: b"\x93NUMPY", what: "a NumPy array", advice: "it holds one array and no model" },
    Mark { at: 0, bytes: b"\x1f\x8b", what: "a gzip archive", advice: UNPACK },
    Mark { at: 0, bytes: b"\x28\xb5\x2f\xfd", what: "a zstd archive", advice: UNPACK },
    Mark { at: 0, bytes: b"\xfd7zXZ\0", what: "an xz archive", advice: UNPACK },
    Mark { at: 257, bytes: b"ustar", what: "a tar archive", advice: UNPACK },
    Mark {
        at: 0,
        bytes: b"lmgg",
        what: "a GGML file, the form before GGUF",
        advice: "convert the original model to GGUF: such files hold too little to be read safely",
    },
    Mark {
        at: 0,
        bytes: b"fmgg",
        what: "a GGMF file, a form before GGUF",
        advice: "convert the original model to GGUF",
    },
    Mark {
        at: 0,
        bytes: b"tjgg",
        what: "a GGJT file, the form before GGUF",
        advice: "convert the original model to GGUF",
    },
    Mark {
        at: 0,
        bytes: b"FUGG",
        what: "a file with GGUF's mark reversed",
        advice: "no writer makes such files: fetch it anew",
    },
    Mark {
        at: 0,
        bytes: b"GGML",
        what: "a GGML file, the form before GGUF",
        advice: "convert the original model to GGUF",
    },
    Mark {
        at: 0,
        bytes: b"gguf",
        what: "a file that begins with \"gguf\" in lower case; the mark is upper case",
        advice: "fetch it anew",
    },
    Mark {
        at: 4,
        bytes: b"TFL3",
        what: "a TensorFlow Lite model",
        advice: "it is not a set of weights this program reads",
    },
    Mark { at: 0, bytes: b"%PDF", what: "a PDF document", advice: "name a model file" },
];

/// What the first bytes give away, if they are those of a known kind of file that is not a model.
pub fn sniff(head: &[u8]) -> Option<(&'static str, &'static str)> {
    let marked = MARKS.iter().find(|m| head.get(m.at..).is_some_and(|rest| rest.starts_with(m.bytes)));
    if let Some(mark) = marked {
        return Some((mark.what, mark.advice));
    }
    let text = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head).trim_ascii_start();
    let begins = |word: &[u8]| text.get(..word.len()).is_some_and(|t| t.eq_ignore_ascii_case(word));
    if [&b"<!doctype html"[..], b"<html", b"<head", b"<?xml"].iter().any(|word| begins(word)) {
        let what = "a web page: a server's error or log-in page was saved in place of the file";
        return Some((what, "download the file anew, with the access it asks for"));
    }
    if text.starts_with(b"{") && (finds(text, b"\"model_type\"") || finds(text, b"\"architectures\"")) {
        return Some((
            "a config, not the weights it belongs to",
            "name its folder, or the weight file beside it",
        ));
    }
    if begins(b"Invalid username or password") || begins(b"Access to model") || begins(b"Entry not found") {
        return Some((
            "a server's refusal saved in place of the file",
            "download it with the access it asks for",
        ));
    }
    None
}

fn finds(text: &[u8], word: &[u8]) -> bool {
    text.windows(word.len()).any(|part| part == word)
}

/// Why a folder holds no model this program reads.
pub fn folder(shown: &str, folder: &Folder, names: &[String]) -> Result<Error> {
    let some = |suffixes: &[&str]| {
        names.iter().find(|n| suffixes.iter().any(|s| n.to_ascii_lowercase().ends_with(s)))
    };
    let (what, advice): (String, &str) = if names.is_empty() {
        ("an empty folder".into(), "the download may not have begun: fetch the model")
    } else if names.iter().any(|n| n == "model_index.json") {
        (
            "a diffusers pipeline: its models lie in folders of their own".into(),
            "name one of the folders below it (transformer, text_encoder, unet, vae)",
        )
    } else if let Some(name) = some(&[".bin", ".pt", ".pth", ".pkl", ".ckpt"]) {
        (format!("it holds a pickled checkpoint ({name}) and no safetensors or GGUF file"), CONVERT_PICKLE)
    } else if let Some(name) = some(&[".h5", ".msgpack", ".onnx", ".tflite", ".npz"]) {
        (
            format!("it holds {name}, and no safetensors or GGUF file"),
            "get the model in safetensors or GGUF form",
        )
    } else if let Some(name) = some(&[".incomplete", ".part", ".crdownload", ".aria2", ".download"]) {
        (
            format!("it holds an unfinished download ({name}) and no whole model file"),
            "let the download finish",
        )
    } else {
        let below = subfolders_with_models(folder, names);
        match below.first() {
            Some(_) => {
                (format!("no model lies in it, but below it: {}", below.join(", ")), "name one of them")
            }
            None => (
                format!("none of its {} entries is a safetensors or GGUF file", names.len()),
                "name the folder that holds the weights",
            ),
        }
    };
    Ok(Error::Foreign { file: shown.to_owned(), what, advice: advice.to_owned() })
}

/// Entries that are folders with something that looks like weights, at most eight.
fn subfolders_with_models(folder: &Folder, names: &[String]) -> Vec<String> {
    let Folder::Disk(path) = folder else { return Vec::new() };
    let holds_weights = |name: &&String| {
        let inside = Folder::Disk(path.join(name)).names().unwrap_or_default();
        inside.iter().any(|n| n.ends_with(".safetensors") || n.ends_with(".gguf"))
    };
    names.iter().take(1000).filter(holds_weights).take(8).cloned().collect()
}
