//! Names of tensors taken apart, whatever family they are of.

use std::borrow::Cow;

/// A tensor's name taken apart at its layer's number.
pub struct Parted<'a> {
    /// What comes before the number.
    pub prefix: &'a str,
    /// The number.
    pub layer: usize,
    /// What comes after, the number of an expert replaced by `*`.
    pub local: String,
}

/// Parts a name at its first component that is all digits.
pub fn part(name: &str) -> Option<Parted<'_>> {
    let mut start = 0;
    let mut before = "";
    for component in name.split('.') {
        let end = start + component.len();
        if !component.is_empty() && start > 0 && component.bytes().all(|b| b.is_ascii_digit()) {
            let layer = component.parse().ok()?;
            let local = name.get(end + 1..)?;
            let prefix = name.get(..start - 1)?;
            return (before != "experts").then(|| Parted { prefix, layer, local: without_expert(local) });
        }
        before = component;
        start = end + 1;
    }
    None
}

/// `mlp.experts.*.gate_proj.weight` of `mlp.experts.17.gate_proj.weight`.
pub(crate) fn without_expert(local: &str) -> String {
    let mut parts: Vec<&str> = local.split('.').collect();
    if let Some(at) = parts.iter().position(|p| *p == "experts")
        && let Some(number) = parts.get_mut(at + 1)
        && number.bytes().all(|b| b.is_ascii_digit())
    {
        *number = "*";
    }
    parts.join(".")
}

/// A name that a message can hold without a second line: those of files may be anything.
pub fn one_line(name: &str) -> Cow<'_, str> {
    if name.contains(['\n', '\r']) {
        Cow::Owned(name.replace('\n', "\\n").replace('\r', "\\r"))
    } else {
        Cow::Borrowed(name)
    }
}

/// A word that a shell takes for one, whatever is in it: names of files and tensors may be anything.
pub fn shell_word(text: &str) -> Cow<'_, str> {
    let plain = |c: char| c.is_ascii_alphanumeric() || "_-./:@%+=,".contains(c);
    if !text.is_empty() && text.chars().all(plain) {
        Cow::Borrowed(text)
    } else {
        Cow::Owned(format!("'{}'", text.replace('\'', "'\\''")))
    }
}

/// Longer words are not compared letter by letter.
const LONGEST: usize = 300;

/// Of the names that are known those nearest to one that is not, the nearest first, so many at most: names that hold it,
/// and those that few letters tell from it.
pub fn nearest<'k>(wanted: &str, known: impl IntoIterator<Item = &'k str>, most: usize) -> Vec<&'k str> {
    let mut near: Vec<(usize, &str)> = Vec::new();
    for name in known {
        let far = name.len().abs_diff(wanted.len()).saturating_mul(2) > name.len().max(1);
        if (far || name.len() > LONGEST) && !name.contains(wanted) {
            continue;
        }
        let distance = distance(wanted, name);
        if distance.saturating_mul(2) <= name.len() {
            near.push((distance, name));
        }
    }
    near.sort_unstable();
    let nearest = near.first().map_or(0, |(distance, _)| *distance);
    near.retain(|(distance, _)| *distance <= nearest.saturating_add(1));
    near.into_iter().take(most).map(|(_, name)| name).collect()
}

/// Letters to add, drop or change to make one word of the other; a word within the other is near.
fn distance(wanted: &str, known: &str) -> usize {
    if wanted.len() >= 3 && known.contains(wanted) {
        return 1;
    }
    let known: Vec<char> = known.chars().collect();
    let mut row: Vec<usize> = (0..=known.len()).collect();
    for (i, c) in wanted.chars().take(LONGEST).enumerate() {
        let mut before = i;
        let mut left = i.saturating_add(1);
        let mut next = vec![left];
        for (d, above) in known.iter().zip(row.iter().skip(1)) {
            let change = before.saturating_add(usize::from(c != *d));
            left = change.min(left.saturating_add(1)).min(above.saturating_add(1));
            next.push(left);
            before = *above;
        }
        row = next;
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_a_shell_hold_anything() {
        let cases = [("a/b-1.gguf", "a/b-1.gguf"), ("w[1,2]", "'w[1,2]'"), ("", "''"), ("$(x)", "'$(x)'")];
        for (text, word) in cases {
            assert_eq!(shell_word(text), word);
        }
        assert_eq!(shell_word("x'; rm -r ~; y"), r"'x'\''; rm -r ~; y'");
    }

    #[test]
    fn names_part_at_the_layer() {
        let p = part("model.layers.12.self_attn.q_proj.weight").unwrap();
        assert_eq!((p.prefix, p.layer, p.local.as_str()), ("model.layers", 12, "self_attn.q_proj.weight"));
        let p = part("model.layers.3.mlp.experts.17.up_proj.weight").unwrap();
        assert_eq!((p.layer, p.local.as_str()), (3, "mlp.experts.*.up_proj.weight"));
        assert!(part("token_embd.weight").is_none());
        assert!(part("0.weight").is_none());
        assert!(part("").is_none());
        assert!(part("a.99999999999999999999999.b").is_none());
    }

    #[test]
    fn distances() {
        assert_eq!(distance("kitten", "sitting"), 3);
        assert_eq!(distance("", "abc"), 3);
        assert_eq!(distance("tensor-missing", "tensor-missing"), 1); // never asked: it would have been found
        assert_eq!(distance("tensr-mising", "tensor-missing"), 2);
    }

    #[test]
    fn the_nearest_come_first() {
        let known = ["blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.1.attn_q.weight", "output.weight"];
        assert_eq!(
            nearest("blk.0.atn_q.weight", known, 3),
            ["blk.0.attn_q.weight", "blk.0.attn_k.weight", "blk.1.attn_q.weight"]
        );
        assert_eq!(nearest("attn_q", known, 3), ["blk.0.attn_q.weight", "blk.1.attn_q.weight"]);
        assert!(nearest("nothing of the kind", known, 3).is_empty());
        assert!(nearest("x", [""], 3).is_empty());
    }
}
