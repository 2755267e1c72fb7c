//! Lists of digests, as `sha256sum` and its like write them.
//!
//! | form | |
//! |---|---|
//! | `HEX  NAME`, `HEX *NAME` | of GNU |
//! | `\HEX  NAME` | the same, `\\`, `\n` and `\r` in the name escaped |
//! | `SHA256 (NAME) = HEX` | of BSD, and of `sha256sum --tag` |
//! | `HEX` | in a list of one file's own |

use super::{Digest, Said};

/// What a list says, with the number of the line.
type Lines = Vec<(Option<usize>, Said)>;

/// Characters of a file that are told of.
const TOLD: usize = 80;

/// A list as text: as UTF-8, or as UTF-16 where it is marked so, as one shell writes them.
pub(super) fn text(bytes: &[u8]) -> String {
    let wide = |of: fn([u8; 2]) -> u16, bytes: &[u8]| {
        let units: Vec<u16> = bytes.as_chunks().0.iter().map(|unit| of(*unit)).collect();
        String::from_utf16_lossy(&units)
    };
    match bytes {
        [0xff, 0xfe, rest @ ..] => wide(u16::from_le_bytes, rest),
        [0xfe, 0xff, rest @ ..] => wide(u16::from_be_bytes, rest),
        [0xef, 0xbb, 0xbf, rest @ ..] => String::from_utf8_lossy(rest).into_owned(),
        all => String::from_utf8_lossy(all).into_owned(),
    }
}

/// Why a text is no SHA-256.
pub(super) fn no_digest(text: &str) -> String {
    let told: String = text.chars().take(TOLD).collect();
    let digits = text.chars().count();
    match text.chars().all(|c| c.is_ascii_hexdigit()) {
        true => format!("\"{told}\" is hexadecimal of length {digits}, and SHA-256 is of 64"),
        false => format!("\"{told}\" is no SHA-256"),
    }
}

/// A line taken apart.
struct Entry {
    /// The word before the brackets in BSD's form.
    kind: Option<String>,
    digest: String,
    name: String,
}

/// A line that has something of the form of a record; `None` for one that has not.
fn entry(line: &str) -> Option<Entry> {
    if let Some((kind, rest)) = line.split_once(" (")
        && let Some((name, digest)) = rest.rsplit_once(") = ")
    {
        let (escaped, kind) = kind.strip_prefix('\\').map_or((false, kind), |kind| (true, kind));
        let name = if escaped { unescaped(name)? } else { name.to_owned() };
        return Some(Entry { kind: Some(kind.to_owned()), digest: digest.trim().to_owned(), name });
    }
    let (escaped, line) = line.strip_prefix('\\').map_or((false, line), |line| (true, line));
    let (digest, name) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let name = name.trim_start();
    let name = name.strip_prefix('*').unwrap_or(name).trim_end();
    let name = if escaped { unescaped(name)? } else { name.to_owned() };
    ((digest.len() >= 16 && hexadecimal(digest)) || !name.is_empty()).then(|| Entry {
        kind: None,
        digest: digest.to_owned(),
        name,
    })
}

fn hexadecimal(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// A name with its escapes read; `None` where one is no escape.
fn unescaped(name: &str) -> Option<String> {
    let mut chars = name.chars();
    let mut text = String::with_capacity(name.len());
    while let Some(c) = chars.next() {
        text.push(match c {
            '\\' => match chars.next()? {
                '\\' => '\\',
                'n' => '\n',
                'r' => '\r',
                _ => return None,
            },
            c => c,
        });
    }
    Some(text)
}

/// What the lines of a list of one file's own say. There every line is of that file, or says why it is not.
pub(super) fn own(text: &str, file: &str) -> Lines {
    let mut all = Lines::new();
    for (number, line) in lines(text) {
        let said = match entry(line) {
            Some(entry)
                if entry.name.is_empty() || is(&entry.name, file) || last(&entry.name) == last(file) =>
            {
                judged(&entry, false)
            }
            Some(entry) if Digest::parse(&entry.digest).is_some() => Said::Unused(another(&entry.name)),
            _ => Said::Malformed(no_form(line)),
        };
        all.push((Some(number), said));
    }
    if all.is_empty() {
        all.push((None, Said::Malformed("it is empty".to_owned())));
    }
    all
}

/// What the lines of a list of many files say of one of them. Those of others are passed over; `leads` says whether a path
/// leads to the file, and `any` is a list that may hold digests of other kinds.
pub(super) fn of(text: &str, file: &str, leads: &dyn Fn(&str) -> bool, any: bool) -> Lines {
    // Only where the name is that of the file is anything looked up.
    let spelt = |name: &str| last(name) == last(file) && (leads(name) || leads(&name.replace('\\', "/")));
    let judge = |(number, line): (usize, &str)| {
        let said = match entry(line) {
            Some(entry) if is(&entry.name, file) || is(unquoted(&entry.name), file) => judged(&entry, any),
            Some(entry) if spelt(unquoted(&entry.name)) => judged(&entry, any),
            // The same file perhaps, or one of the same name in another folder.
            Some(entry) if last(unquoted(&entry.name)) == last(file) => Said::Unused(another(&entry.name)),
            // What is wrong with records of others is not asked.
            Some(entry) if !entry.name.is_empty() && hexadecimal(&entry.digest) => return None,
            Some(entry) if entry.kind.is_some() => return None,
            _ if line.contains(last(file)) => Said::Malformed(no_form(line)),
            _ => return None,
        };
        Some((Some(number), said))
    };
    lines(text).filter_map(judge).collect()
}

/// Lines with their numbers, without comments and empty ones.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate();
    numbered
        .map(|(number, line)| (number.saturating_add(1), line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn is(name: &str, file: &str) -> bool {
    name.trim_start_matches("./") == file
}

/// A name without the quotes that some programs put around it.
fn unquoted(name: &str) -> &str {
    let between = |quote: char| name.strip_prefix(quote)?.strip_suffix(quote);
    between('"').or_else(|| between('\'')).unwrap_or(name)
}

fn last(name: &str) -> &str {
    name.rsplit(['/', '\\']).next().unwrap_or(name)
}

/// What a line of the file itself says.
fn judged(entry: &Entry, any: bool) -> Said {
    let plain = |kind: &str| kind.to_ascii_uppercase().replace('-', "");
    if let Some(kind) = entry.kind.as_deref().filter(|kind| plain(kind) != "SHA256") {
        return Said::Unused(format!("{} is not checked here", kind.chars().take(TOLD).collect::<String>()));
    }
    match Digest::parse(&entry.digest) {
        Some(digest) => Said::Sha256(digest),
        None if any && OTHERS.contains(&entry.digest.len()) => {
            Said::Unused(format!("{} digits are of another digest than SHA-256", entry.digest.len()))
        }
        None => Said::Malformed(no_digest(&entry.digest)),
    }
}

/// Digits of MD5, SHA-1, SHA-224, SHA-384 and SHA-512.
const OTHERS: [usize; 5] = [32, 40, 56, 96, 128];

fn another(name: &str) -> String {
    format!("it names another file, \"{}\"", name.chars().take(TOLD).collect::<String>())
}

fn no_form(line: &str) -> String {
    let told: String = line.chars().take(TOLD).collect();
    format!("\"{told}\" is of no form that sha256sum writes")
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEX: &str = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";

    /// What a list says, each record as a word and what is with it.
    fn words(lines: Lines) -> Vec<String> {
        let word = |said: Said| match said {
            Said::Sha256(digest) if digest == Digest::of(b"abc") => "abc".to_owned(),
            Said::Sha256(_) => "other".to_owned(),
            Said::GitBlob(_) => "git".to_owned(),
            Said::Unused(why) => format!("unused: {why}"),
            Said::Malformed(why) => format!("malformed: {why}"),
        };
        lines.into_iter().map(|(_, said)| word(said)).collect()
    }

    /// Of a file that no path leads to.
    fn nowhere(_: &str) -> bool {
        false
    }

    #[test]
    fn other_spellings_of_a_file_are_of_it() {
        let leads = |path: &str| ["/x/m", "../fs/m", "sub/../m"].contains(&path);
        for name in ["/x/m", "../fs/m", "sub\\..\\m", "\"m\"", "'./m'", "\"/x/m\""] {
            assert_eq!(words(of(&format!("{HEX}  {name}"), "m", &leads, false)), ["abc"], "{name}");
        }
        // One of the same name elsewhere is told of, and one of another name is not looked up.
        assert!(words(of(&format!("{HEX}  \"y/m\""), "m", &leads, false))[0].starts_with("unused"));
        assert_eq!(words(of(&format!("{HEX}  n"), "m", &|_| unreachable!(), false)), [""; 0]);
    }

    #[test]
    fn all_forms_that_are_written_are_read() {
        let forms = [
            format!("{HEX}  m.gguf"),
            format!("{HEX} *./m.gguf\r"),
            format!("{}\tm.gguf", HEX.to_uppercase()),
            format!("SHA256 (m.gguf) = {HEX}"),
            format!("SHA2-256 (x) = 1\nSHA-256 (./m.gguf) = {HEX}"),
            format!("# of today\n\n{HEX}  other\n{HEX}  m.gguf\n"),
        ];
        for form in forms {
            assert_eq!(words(of(&form, "m.gguf", &nowhere, false)), ["abc"], "{form}");
        }
        assert_eq!(words(of(&format!("\\{HEX}  a\\\\b\\nc"), "a\\b\nc", &nowhere, false)), ["abc"]);
        assert_eq!(words(of(&format!("\\SHA256 (a\\\\b) = {HEX}"), "a\\b", &nowhere, false)), ["abc"]);
        assert_eq!(words(own(HEX, "m.gguf")), ["abc"]);
        assert_eq!(words(own(&format!("{HEX}  /where/it/was/m.gguf"), "m.gguf")), ["abc"]);
        assert_eq!(words(of(&format!("{HEX}  other"), "m.gguf", &nowhere, false)), [""; 0]);
        assert_eq!(words(of(HEX, "m.gguf", &nowhere, false)), [""; 0]);
    }

    #[test]
    fn marks_of_encodings_are_no_part_of_a_digest() {
        let line = format!("{HEX}  m");
        let wide = |of: fn(u16) -> [u8; 2]| -> Vec<u8> {
            "\u{feff}".encode_utf16().chain(line.encode_utf16()).flat_map(of).collect()
        };
        let marked = [format!("\u{feff}{line}").into_bytes(), wide(u16::to_le_bytes), wide(u16::to_be_bytes)];
        for bytes in marked {
            assert_eq!(text(&bytes), line);
        }
        assert_eq!(text(b"\xff"), "\u{fffd}");
    }

    #[test]
    fn what_is_not_used_is_told() {
        let cut = &HEX[1..];
        let zero = "0".repeat(64);
        let cases = [
            (
                format!("{cut}  m"),
                "malformed: \"a7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\" \
              is hexadecimal of length 63, and SHA-256 is of 64",
            ),
            (
                format!("x{cut}  m"),
                "malformed: \"xa7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\" \
              is no SHA-256",
            ),
            (
                format!("SHA256 (m) = {cut}"),
                "malformed: \"a7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad\" \
              is hexadecimal of length 63, and SHA-256 is of 64",
            ),
            (format!("MD5 (m) = {cut}"), "unused: MD5 is not checked here"),
            (format!("{HEX}  b/m"), "unused: it names another file, \"b/m\""),
        ];
        for (list, told) in cases {
            assert_eq!(words(of(&list, "m", &nowhere, false)), [told], "{list}");
        }
        assert_eq!(words(of(&format!("{HEX}  m\n{zero}  m"), "m", &nowhere, false)), ["abc", "other"]);
        assert_eq!(words(own(&format!("{HEX}  n"), "m")), ["unused: it names another file, \"n\""]);
        assert_eq!(words(own("", "m")), ["malformed: it is empty"]);
        let md5 = "d41d8cd98f00b204e9800998ecf8427e  m";
        assert!(words(of(md5, "m", &nowhere, true))[0].starts_with("unused: 32 digits"));
        assert!(words(of(md5, "m", &nowhere, false))[0].starts_with("malformed"));
    }
}
