//! Numbers and lists as people read them.

use std::fmt::Write;

/// 155582464 → 155,582,464.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len().saturating_mul(2));
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && digits.len().saturating_sub(i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// 1503300328 → 1.40 GiB.
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if n < 1024 {
        return format!("{n} bytes");
    }
    let mut size = n as f64 / 1024.0;
    let mut units = UNITS.iter();
    let mut unit = units.next().unwrap_or(&"");
    while size >= 1000.0
        && let Some(next) = units.next()
    {
        size /= 1024.0;
        unit = next;
    }
    let decimals = if size < 10.0 { 2 } else { usize::from(size < 100.0) };
    format!("{size:.decimals$} {unit}")
}

/// A share in per cent, one decimal; empty if there is no whole.
pub fn percent(part: u64, whole: u64) -> String {
    if whole == 0 { String::new() } else { format!("{:.1}%", part as f64 * 100.0 / whole as f64) }
}

/// "1 error", "2 errors".
pub fn plural(n: usize, word: &str) -> String {
    if n == 1 { format!("1 {word}") } else { format!("{} {word}s", thousands(n as u64)) }
}

/// [151936, 1024]; cut after eight axes.
pub fn shape(axes: &[usize]) -> String {
    format!("{:?}", scantling_core::index::Shape(axes))
}

/// 0–3, 7; cut after a dozen runs. The numbers ascend.
pub fn ranges(numbers: &[usize]) -> String {
    const SHOWN: usize = 12;
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for &n in numbers {
        match runs.last_mut() {
            Some((_, last)) if n == last.saturating_add(1) => *last = n,
            _ => runs.push((n, n)),
        }
    }
    let mut out = String::new();
    for (i, (first, last)) in runs.iter().take(SHOWN).enumerate() {
        let comma = if i == 0 { "" } else { ", " };
        let _ = match last.saturating_sub(*first) {
            0 => write!(out, "{comma}{first}"),
            1 => write!(out, "{comma}{first}, {last}"),
            _ => write!(out, "{comma}{first}–{last}"),
        };
    }
    if runs.len() > SHOWN {
        let _ = write!(out, ", … {} in all", numbers.len());
    }
    out
}

/// Columns a text takes. Each character counts as one.
pub fn columns(text: &str) -> usize {
    if text.is_ascii() { text.len() } else { text.chars().count() }
}

/// A text cut in its middle to so many columns, since names differ at their ends.
pub fn cut_middle(text: &str, width: usize, mark: &str) -> String {
    let have = columns(text);
    if have <= width {
        return text.to_owned();
    }
    let keep = width.saturating_sub(columns(mark));
    let front = keep / 3;
    let back = keep.saturating_sub(front);
    let head: String = text.chars().take(front).collect();
    let tail: String = text.chars().skip(have.saturating_sub(back)).collect();
    format!("{head}{mark}{tail}")
}

/// A text cut at its end to so many columns.
pub fn cut_end(text: &str, width: usize, mark: &str) -> String {
    if columns(text) <= width {
        return text.to_owned();
    }
    let head: String = text.chars().take(width.saturating_sub(columns(mark))).collect();
    format!("{head}{mark}")
}

/// Lines of at most `width` columns, broken at spaces alone: neither a number nor a name is ever broken. The
/// first line has `used` columns less.
pub fn wrap(text: &str, width: usize, used: usize) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    let mut at = used;
    for word in text.split(' ') {
        let len = columns(word);
        let fits = at.saturating_add(len).saturating_add(usize::from(!line.is_empty())) <= width;
        if !line.is_empty() && !fits {
            lines.push(std::mem::take(&mut line));
            at = 0;
        }
        if !line.is_empty() {
            line.push(' ');
            at = at.saturating_add(1);
        }
        line.push_str(word);
        at = at.saturating_add(len);
    }
    lines.push(line);
    lines
}

/// A number in as few digits as tell it, fewer where f32 holds it.
pub fn shortest(x: f64) -> String {
    let short = x as f32;
    match f64::from(short) == x {
        true if (1e-5..1e16).contains(&x.abs()) || x == 0.0 => short.to_string(),
        true => format!("{short:e}"),
        false if (1e-5..1e17).contains(&x.abs()) => x.to_string(),
        false => format!("{x:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers() {
        assert_eq!(thousands(0), "0");
        assert_eq!(thousands(999), "999");
        assert_eq!(thousands(1_000), "1,000");
        assert_eq!(thousands(155_582_464), "155,582,464");
        assert_eq!(thousands(u64::MAX), "18,446,744,073,709,551,615");
        assert_eq!(bytes(1023), "1023 bytes");
        assert_eq!(bytes(1_503_300_328), "1.40 GiB");
        assert_eq!(bytes(u64::MAX), "16.0 EiB");
        assert_eq!(percent(155_582_464, 596_049_920), "26.1%");
        assert_eq!(plural(1, "error"), "1 error");
        assert_eq!(plural(0, "error"), "0 errors");
    }

    #[test]
    fn layers_as_ranges() {
        assert_eq!(ranges(&[0, 1, 2, 3, 7]), "0–3, 7");
        assert_eq!(ranges(&[4, 5]), "4, 5");
        assert_eq!(ranges(&[]), "");
        let even: Vec<usize> = (0..40).map(|n| n * 2).collect();
        assert_eq!(ranges(&even), "0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, … 40 in all");
    }

    #[test]
    fn wrapping_breaks_at_spaces_alone() {
        assert_eq!(wrap("one two three", 7, 0), ["one two", "three"]);
        assert_eq!(wrap("one two three", 7, 4), ["one", "two", "three"]);
        assert_eq!(wrap("151,936,000,000 b", 4, 0), ["151,936,000,000", "b"]);
        assert_eq!(wrap("", 4, 0), [""]);
    }

    #[test]
    fn cuts() {
        assert_eq!(cut_middle("model.layers.0.weight", 10, "…"), "mod…weight");
        assert_eq!(cut_middle("short", 10, "…"), "short");
        assert_eq!(cut_end("a long text", 6, "…"), "a lon…");
    }
}
