//! Numbers in rows and columns, as numpy lays them out: long axes are cut in their middle. Unlike numpy's, they are
//! written so that they read back as they are.

use crate::terminal::Screen;
use scantling_core::error::Result;
use scantling_core::show::{Values, View};
use std::fmt::Write;
use std::ops::Range;

/// As many numbers are shown without a cut.
const MOST: u64 = 1000;

/// Numbers shown at each edge of an axis that is cut.
const EDGE: usize = 3;

/// Columns of a line where the screen has no end.
const COLUMNS: usize = 100;

/// Writes the numbers that are taken of a tensor, and tells how many were shown.
pub fn write(screen: &mut Screen<'_>, view: &View<'_>, full: bool, indent: usize) -> Result<u64> {
    let shape = view.selection().shape();
    let cut = !full && view.selection().elements() > MOST;
    let mut layout = Layout { view, shape, cut, style: Style::default(), shown: 0, indent };
    layout.observe(&mut Vec::new())?;
    layout.write(screen, &mut Vec::new())?;
    let _ = screen.write_str("\n");
    Ok(layout.shown)
}

struct Layout<'v, 's> {
    view: &'v View<'s>,
    shape: Vec<usize>,
    cut: bool,
    style: Style,
    shown: u64,
    indent: usize,
}

impl Layout<'_, '_> {
    /// The places of an axis that are shown; those after a cut apart.
    fn places(&self, len: usize) -> [Range<usize>; 2] {
        if self.cut && len > 2 * EDGE { [0..EDGE, len.saturating_sub(EDGE)..len] } else { [0..len, len..len] }
    }

    /// Looks at all that is shown, to make columns wide enough.
    fn observe(&mut self, outer: &mut Vec<usize>) -> Result<()> {
        let left = self.shape.len().saturating_sub(outer.len());
        let Some(&len) = self.shape.get(outer.len()) else {
            let values = self.view.line(&[], 0..1)?;
            self.style.observe(&values);
            return Ok(());
        };
        for places in self.places(len) {
            if left == 1 {
                let values = self.view.line(outer, places)?;
                self.shown = self.shown.saturating_add(values.len() as u64);
                self.style.observe(&values);
                continue;
            }
            for place in places {
                outer.push(place);
                self.observe(outer)?;
                outer.pop();
            }
        }
        Ok(())
    }

    fn write(&mut self, screen: &mut Screen<'_>, outer: &mut Vec<usize>) -> Result<()> {
        let depth = outer.len();
        let Some(&len) = self.shape.get(depth) else {
            let values = self.view.line(&[], 0..1)?;
            self.shown = 1;
            put(screen, "", self.indent);
            put(screen, self.style.words(&values).first().map_or("", |word| word.trim()), 0);
            return Ok(());
        };
        if depth == 0 {
            put(screen, "", self.indent);
        }
        put(screen, "[", 0);
        let inside = self.indent.saturating_add(depth).saturating_add(1);
        if depth.saturating_add(1) == self.shape.len() {
            self.line(screen, outer, len, inside)?;
        } else {
            let [first, last] = self.places(len);
            let cut = !last.is_empty();
            let gap = "\n".repeat(self.shape.len().saturating_sub(depth).saturating_sub(1));
            let all = first.map(Some).chain(cut.then_some(None)).chain(last.map(Some));
            for (i, place) in all.enumerate() {
                if i > 0 {
                    put(screen, &gap, 0);
                    put(screen, "", inside);
                }
                match place {
                    None => put(screen, "...", 0),
                    Some(place) => {
                        outer.push(place);
                        self.write(screen, outer)?;
                        outer.pop();
                    }
                }
            }
        }
        put(screen, "]", 0);
        Ok(())
    }

    /// The numbers of the innermost axis, over as many lines as they take.
    fn line(&self, screen: &mut Screen<'_>, outer: &[usize], len: usize, inside: usize) -> Result<()> {
        let [first, last] = self.places(len);
        let width = screen.width().min(COLUMNS);
        let mut at = inside;
        let mut word = |screen: &mut Screen<'_>, word: &str| {
            let wide = word.len();
            if at > inside && at.saturating_add(wide).saturating_add(2) > width {
                put(screen, "\n", 0);
                put(screen, "", inside);
                at = inside;
            }
            if at > inside {
                put(screen, " ", 0);
            }
            put(screen, word, 0);
            at = at.saturating_add(wide).saturating_add(1);
        };
        for (i, places) in [first, last].into_iter().enumerate() {
            if i > 0 && !places.is_empty() {
                word(screen, "...");
            }
            // A line may be long, so that it is read in pieces.
            let mut from = places.start;
            while from < places.end {
                let past = from.saturating_add(PIECE).min(places.end);
                let words = self.style.words(&self.view.line(outer, from..past)?);
                words.iter().for_each(|text| word(screen, text));
                from = past;
            }
        }
        Ok(())
    }
}

/// Numbers that are made into words at a time.
const PIECE: usize = 1 << 16;

fn put(screen: &mut Screen<'_>, text: &str, indent: usize) {
    // A fault of the screen is told when it is finished.
    let _ = write!(screen, "{:indent$}{text}", "");
}

/// How numbers are written, so that they line up.
#[derive(Clone, Debug, Default)]
pub struct Style {
    /// The smallest and the largest that is not 0.
    range: Option<(f64, f64)>,
    /// Columns before the point and from it on, where no number has an exponent.
    plain: (usize, usize),
    /// Columns before the exponent: before the point, and from it on.
    mantissa: (usize, usize),
    /// Columns of what has no point.
    other: usize,
}

impl Style {
    /// Takes numbers into account.
    pub fn observe(&mut self, values: &Values) {
        match values {
            Values::F32(all) => all.iter().for_each(|v| self.float(*v)),
            Values::F64(all) => all.iter().for_each(|v| self.float(*v)),
            Values::Signed(all) => all.iter().for_each(|v| self.wide(v)),
            Values::Unsigned(all) => all.iter().for_each(|v| self.wide(v)),
            Values::Bool(all) => all.iter().for_each(|v| self.wide(&truth(*v))),
            Values::Complex(all) => all.iter().for_each(|v| self.wide(&complex(*v))),
        }
    }

    fn wide(&mut self, shown: &impl ToString) {
        self.other = self.other.max(shown.to_string().len());
    }

    fn float<F: Float>(&mut self, value: F) {
        let size: f64 = value.into().abs();
        if !size.is_finite() {
            return self.wide(&special(value.into()));
        }
        if size > 0.0 {
            let (low, high) = self.range.unwrap_or((size, size));
            self.range = Some((low.min(size), high.max(size)));
        }
        let widest = |(a, b): (usize, usize), text: &str| {
            let (whole, rest) = text.split_at(text.find('.').unwrap_or(text.len()));
            (a.max(whole.len()), b.max(rest.len()))
        };
        self.plain = widest(self.plain, &plain(value));
        self.mantissa = widest(self.mantissa, &scientific(value).0);
    }

    /// Numpy's rule: beyond a thousand between the largest and the smallest, or very large, or very small.
    fn has_exponents(&self) -> bool {
        self.range.is_some_and(|(low, high)| high >= 1e8 || low < 1e-4 || high / low > 1000.0)
    }

    /// The numbers, each as wide as the widest.
    pub fn words(&self, values: &Values) -> Vec<String> {
        let right = |text: String| format!("{text:>wide$}", wide = self.other);
        match values {
            Values::F32(all) => all.iter().map(|v| self.word(*v)).collect(),
            Values::F64(all) => all.iter().map(|v| self.word(*v)).collect(),
            Values::Signed(all) => all.iter().map(|v| right(v.to_string())).collect(),
            Values::Unsigned(all) => all.iter().map(|v| right(v.to_string())).collect(),
            Values::Bool(all) => all.iter().map(|v| right(truth(*v).to_owned())).collect(),
            Values::Complex(all) => all.iter().map(|v| right(complex(*v))).collect(),
        }
    }

    fn word<F: Float>(&self, value: F) -> String {
        let exponents = self.has_exponents();
        let (whole, rest) = if exponents { self.mantissa } else { self.plain };
        let tail = if exponents { 4 } else { 0 };
        let wide = whole.saturating_add(rest).saturating_add(tail).max(self.other);
        if !value.into().is_finite() {
            return format!("{:>wide$}", special(value.into()));
        }
        let text = if exponents {
            let (mantissa, exponent) = scientific(value);
            let (sign, exponent) = if exponent < 0 { ('-', -exponent) } else { ('+', exponent) };
            let point = mantissa.find('.').unwrap_or(mantissa.len());
            let zeros = "0".repeat(rest.saturating_sub(mantissa.len().saturating_sub(point)));
            format!("{mantissa}{zeros}e{sign}{exponent:02}")
        } else {
            let text = plain(value);
            let point = text.find('.').unwrap_or(text.len());
            let spaces = " ".repeat(rest.saturating_sub(text.len().saturating_sub(point)));
            format!("{text}{spaces}")
        };
        format!("{text:>wide$}")
    }
}

trait Float: Copy + Into<f64> + std::fmt::Display + std::fmt::LowerExp {}

impl Float for f32 {}
impl Float for f64 {}

/// 0.5, 3.0: as few digits as lead back to the number.
fn plain(value: impl Float) -> String {
    let text = value.to_string();
    if text.contains('.') { text } else { format!("{text}.0") }
}

/// 1.5 and -7: mantissa and exponent.
fn scientific(value: impl Float) -> (String, i32) {
    let text = format!("{value:e}");
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    let mantissa = if mantissa.contains('.') { mantissa.to_owned() } else { format!("{mantissa}.0") };
    (mantissa, exponent.parse().unwrap_or(0))
}

fn special(value: f64) -> &'static str {
    match value {
        v if v.is_nan() => "nan",
        v if v > 0.0 => "inf",
        _ => "-inf",
    }
}

fn truth(value: bool) -> &'static str {
    if value { "True" } else { "False" }
}

fn complex([real, imaginary]: [f32; 2]) -> String {
    let part = |v: f32| if v.is_finite() { plain(v) } else { special(v.into()).to_owned() };
    let sign = if imaginary.is_sign_negative() && !imaginary.is_nan() { "" } else { "+" };
    format!("{}{sign}{}j", part(real), part(imaginary))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(values: Values) -> Vec<String> {
        let mut style = Style::default();
        style.observe(&values);
        style.words(&values)
    }

    #[test]
    fn points_line_up() {
        assert_eq!(words(Values::F32(vec![1.0, -0.25, 12.5])), [" 1.0 ", "-0.25", "12.5 "]);
        assert_eq!(words(Values::F32(vec![0.0, f32::NAN, f32::NEG_INFINITY])), [" 0.0", " nan", "-inf"]);
        assert_eq!(words(Values::Signed(vec![-1, 10])), ["-1", "10"]);
        assert_eq!(words(Values::Bool(vec![true, false])), [" True", "False"]);
        assert_eq!(words(Values::Complex(vec![[1.0, -2.5], [0.0, 3.0]])), ["1.0-2.5j", "0.0+3.0j"]);
    }

    #[test]
    fn numbers_of_very_different_sizes_have_exponents() {
        assert_eq!(words(Values::F32(vec![1e-5, 0.25])), ["1.0e-05", "2.5e-01"]);
        assert_eq!(words(Values::F64(vec![1e100, -1.0])), ["1.0e+100", "-1.0e+00"]);
        assert_eq!(words(Values::F32(vec![999.0, 1.0])), ["999.0", "  1.0"]);
    }

    #[test]
    fn what_is_shown_reads_back() {
        let all: Vec<f32> = (0..2000u32).map(|i| f32::from_bits(i.wrapping_mul(2_654_435_761))).collect();
        for some in all.chunks(7) {
            for (word, value) in words(Values::F32(some.to_vec())).iter().zip(some) {
                let read: f32 = word.trim().parse().unwrap();
                assert!(read == *value || read.is_nan() && value.is_nan(), "{word} is not {value}");
            }
        }
    }
}
