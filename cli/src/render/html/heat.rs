//! Layers by kinds as a table whose cells have colours: the number stands in each, and the scale beside it.

use super::markup::Html;
use super::page::{Kind, Rows, TensorRow};
use crate::render::words::plural;
use std::collections::{BTreeMap, BTreeSet};

/// Steps of the colour scale.
const STEPS: usize = 21;
/// Kinds and layers that are drawn; files that are no models may have any number.
const ROWS: usize = 80;
const LAYERS: usize = 256;
/// So many layers leave room for numbers in the cells.
const ROOM: usize = 12;

/// The classes of the steps, lowest first.
const CLASSES: [&str; STEPS] = [
    "h0", "h1", "h2", "h3", "h4", "h5", "h6", "h7", "h8", "h9", "h10", "h11", "h12", "h13", "h14", "h15",
    "h16", "h17", "h18", "h19", "h20",
];

/// The classes of what is on no scale: nothing, and what is no number.
const ZERO: &str = "zero";
const LOST: &str = "bad";

/// A picture of layers by kinds.
#[derive(Clone, Debug)]
pub struct Map {
    about: About,
    /// What the names of the layers begin with.
    prefix: String,
    layers: Vec<usize>,
    rows: Vec<Row>,
    /// Kinds and layers that are left out.
    hidden: (usize, usize),
}

/// A kind, with a number for each layer.
#[derive(Clone, Debug)]
struct Row {
    /// Its place among the kinds.
    kind: usize,
    name: String,
    numbers: Vec<Option<f64>>,
    /// How many of the numbers behind each cell are NaN or infinite; empty where nobody counted.
    lost: Vec<u64>,
}

/// What a picture shows, and how.
#[derive(Clone, Copy, Debug)]
pub struct About {
    /// Its heading.
    pub title: &'static str,
    /// What the numbers are.
    pub explain: &'static str,
    /// How numbers become colours.
    pub scale: Scale,
    /// What stands for several tensors of a kind in one layer.
    pub fold: Fold,
    /// How a number is written.
    pub show: fn(f64) -> String,
    /// What a cell of nothing means: it is no small number, and has a grey of its own.
    pub zero: &'static str,
}

/// How numbers become colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// In proportion.
    Linear,
    /// By their logarithms; what is not above zero has the lowest colour.
    Log,
}

/// What stands for several numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fold {
    /// Their mean, weighed by elements.
    Mean,
    /// The root of the mean of their squares, weighed by elements.
    Rms,
    /// The largest.
    Largest,
}

/// Numbers of several tensors on the way to one.
#[derive(Clone, Copy, Debug, Default)]
struct Sum {
    weight: f64,
    sum: f64,
    squares: f64,
    most: Option<f64>,
}

impl Sum {
    fn add(&mut self, value: f64, weight: f64) {
        self.weight += weight;
        self.sum += value * weight;
        self.squares += value * value * weight;
        // NaN wins: it is what one wants to see.
        let larger = |most: f64| if most.is_nan() || value.is_nan() { f64::NAN } else { most.max(value) };
        self.most = Some(self.most.map_or(value, larger));
    }

    fn fold(self, fold: Fold) -> Option<f64> {
        match fold {
            Fold::Largest => self.most,
            _ if self.weight == 0.0 => None,
            Fold::Mean => Some(self.sum / self.weight),
            Fold::Rms => Some((self.squares / self.weight).sqrt()),
        }
    }
}

impl Map {
    /// Pictures of a number that tensors have: one for each run of layers of which there are two at least.
    pub fn all(
        about: About,
        kinds: &[Kind],
        tensors: &Rows<'_>,
        value: impl Fn(&TensorRow) -> Option<f64>,
    ) -> Vec<Map> {
        let mut sums: BTreeMap<(usize, usize), Sum> = BTreeMap::new();
        for tensor in tensors.iter() {
            if let (Some(layer), Some(value)) = (tensor.layer, value(&tensor)) {
                sums.entry((tensor.kind, layer)).or_default().add(value, tensor.elements as f64);
            }
        }
        let mut prefixes: Vec<&str> = Vec::new();
        for kind in kinds.iter().filter(|k| k.layers.len() > 1) {
            if !prefixes.contains(&kind.prefix.as_str()) && prefixes.len() < 4 {
                prefixes.push(&kind.prefix);
            }
        }
        let counted: BTreeSet<usize> = sums.keys().map(|(kind, _)| *kind).collect();
        let map = |prefix: &str| {
            let of: Vec<(usize, &Kind)> = kinds
                .iter()
                .enumerate()
                .filter(|(_, k)| k.prefix == prefix && !k.layers.is_empty())
                .collect();
            let all: BTreeSet<usize> = of.iter().flat_map(|(_, k)| k.layers.iter().copied()).collect();
            let layers: Vec<usize> = all.iter().copied().take(LAYERS).collect();
            let number = |kind, layer: &usize| sums.get(&(kind, *layer))?.fold(about.fold);
            let row = |(at, kind): &(usize, &Kind)| Row {
                kind: *at,
                name: kind.name.clone(),
                numbers: layers.iter().map(|layer| number(*at, layer)).collect(),
                lost: Vec::new(),
            };
            let of: Vec<_> = of.into_iter().filter(|(at, _)| counted.contains(at)).collect();
            let rows: Vec<_> = of.iter().take(ROWS).map(row).collect();
            let hidden = (of.len().saturating_sub(ROWS), all.len().saturating_sub(LAYERS));
            Map { about, prefix: prefix.to_owned(), layers, rows, hidden }
        };
        let maps = prefixes.into_iter().map(map);
        maps.filter(|map| map.rows.iter().any(|row| row.numbers.iter().any(Option::is_some))).collect()
    }

    /// Marks the cells of tensors that hold numbers which are none, whatever the others come to.
    pub fn marked(mut self, tensors: &Rows<'_>, lost: impl Fn(&TensorRow) -> u64) -> Map {
        let mut counts: BTreeMap<(usize, usize), u64> = BTreeMap::new();
        for tensor in tensors.iter() {
            if let (Some(layer), n @ 1..) = (tensor.layer, lost(&tensor)) {
                let count = counts.entry((tensor.kind, layer)).or_default();
                *count = count.saturating_add(n);
            }
        }
        for row in &mut self.rows {
            let of = |layer: &usize| counts.get(&(row.kind, *layer)).copied().unwrap_or(0);
            row.lost = self.layers.iter().map(of).collect();
        }
        self
    }

    /// Whether a kind has different numbers in different layers.
    pub fn differs(&self) -> bool {
        self.rows.iter().any(|row| {
            let mut known = row.numbers.iter().flatten();
            let first = known.next();
            known.any(|n| Some(n) != first)
        })
    }

    /// What its names begin with and which layers it has, where it stands beside others.
    fn subject(&self) -> String {
        let of = if self.prefix.is_empty() { String::new() } else { format!("{}, ", self.prefix) };
        format!("{of}{} layers", self.layers.len())
    }

    /// The picture, as a figure with its scale. `number` tells it from others on the page.
    pub(super) fn write(&self, html: &mut Html<'_>, number: usize) {
        let About { title, explain, show, .. } = self.about;
        let range = Range::of(self);
        html.open("figure", &[("class", "heat")]);
        html.open("figcaption", &[]);
        html.element("h3", &[], title);
        html.element("p", &[], explain);
        html.close("figcaption");
        html.open("div", &[("class", "key")]);
        range.legend(html, show);
        self.apart(html);
        let id = format!("numbers{number}");
        let open = self.layers.len() <= ROOM;
        html.open("label", &[("for", &id)]);
        let mut input = vec![("type", "checkbox"), ("id", id.as_str()), ("class", "numbers")];
        input.extend(open.then_some(("checked", "")));
        html.open("input", &input);
        html.text(" numbers in the cells");
        html.close("label");
        html.close("div");
        let label = format!("{title}: {}. Arrow keys go from cell to cell.", self.subject());
        html.open(
            "div",
            &[("class", "scroll"), ("tabindex", "0"), ("role", "region"), ("aria-label", &label)],
        );
        self.table(html, &range);
        html.close("div");
        html.element("p", &[("class", "readout"), ("aria-live", "polite")], &self.subject());
        self.left_out(html);
        html.close("figure");
        html.raw("\n");
    }

    fn table(&self, html: &mut Html<'_>, range: &Range) {
        let About { title, show, .. } = self.about;
        let every = [1, 2, 4, 8, 16, 32].into_iter().find(|n| self.layers.len() / n <= 24).unwrap_or(64);
        html.open("table", &[]);
        html.element(
            "caption",
            &[("class", "unseen")],
            &format!("{title} by kind (rows) and layer (columns)"),
        );
        html.raw("<thead><tr><th scope=\"col\">layer</th>");
        for (at, layer) in self.layers.iter().enumerate() {
            let class = if at % every == 0 { "n" } else { "n skip" };
            html.open("th", &[("scope", "col"), ("class", class)]);
            html.element("span", &[], &layer.to_string());
            html.close("th");
        }
        html.raw("</tr></thead><tbody>");
        for row in &self.rows {
            let name = &row.name;
            html.raw("<tr>");
            html.element("th", &[("scope", "row")], name.strip_suffix(".weight").unwrap_or(name));
            let lost = row.lost.iter().copied().chain(std::iter::repeat(0));
            for ((layer, value), lost) in self.layers.iter().zip(&row.numbers).zip(lost) {
                let Some(value) = value else {
                    html.raw("<td class=\"none\"><span>–</span></td>");
                    continue;
                };
                let (mut text, mut class) = (show(*value), range.class(*value));
                let mut title = format!("layer {layer}, {name}: {text}");
                if lost > 0 {
                    let others = if value.is_nan() { "" } else { " of the others" };
                    title.push_str(&format!(
                        "{others}; NaN or infinite: {}",
                        plural(usize::try_from(lost).unwrap_or(usize::MAX), "number")
                    ));
                    (text, class) = ("NaN".to_owned(), LOST);
                }
                html.open("td", &[("class", class), ("title", &title)]);
                html.element("span", &[], &text);
                html.close("td");
            }
            html.raw("</tr>");
        }
        html.raw("</tbody></table>");
    }

    /// What has a colour beside the scale.
    fn apart(&self, html: &mut Html<'_>) {
        let cells = || self.rows.iter().flat_map(|row| &row.numbers);
        let marked = self.rows.iter().flat_map(|row| &row.lost).filter(|n| **n > 0).count();
        let lost = marked.max(cells().flatten().filter(|n| !n.is_finite()).count());
        let mut swatch = |class: &str, text: &str| {
            html.open("span", &[("class", "apart")]);
            html.element("i", &[("class", class), ("aria-hidden", "true")], "");
            html.text(text);
            html.close("span");
        };
        if cells().flatten().any(|n| *n == 0.0) {
            swatch(ZERO, &format!("0: {}", self.about.zero));
        }
        if lost > 0 {
            swatch(LOST, &format!("NaN or infinite: {}", plural(lost, "cell")));
        }
    }

    fn left_out(&self, html: &mut Html<'_>) {
        let (kinds, layers) = self.hidden;
        let say = |n: usize, what: &str| (n > 0).then(|| format!("{n} more {what}"));
        let more: Vec<String> = [say(kinds, "kinds"), say(layers, "layers")].into_iter().flatten().collect();
        if !more.is_empty() {
            html.element("p", &[("class", "note")], &format!("Not drawn: {}.", more.join(", ")));
        }
    }
}

/// From the lowest number to the highest.
struct Range {
    low: f64,
    high: f64,
    log: bool,
}

impl Range {
    fn of(map: &Map) -> Range {
        let log = map.about.scale == Scale::Log;
        let all = map.rows.iter().flat_map(|row| row.numbers.iter().flatten());
        let shown = all.copied().filter(|n| n.is_finite() && *n != 0.0 && (!log || *n > 0.0));
        let (low, high) = shown.fold((f64::INFINITY, f64::NEG_INFINITY), |(l, h), n| (l.min(n), h.max(n)));
        if low > high { Range { low: 0.0, high: 0.0, log: false } } else { Range { low, high, log } }
    }

    /// How far up the scale a number is, from 0 to 1.
    fn part(&self, value: f64) -> f64 {
        let f = |n: f64| if self.log { n.max(f64::MIN_POSITIVE).ln() } else { n };
        let (low, high) = (f(self.low), f(self.high));
        if self.log && value <= 0.0 {
            return 0.0;
        }
        if high > low { ((f(value) - low) / (high - low)).clamp(0.0, 1.0) } else { 0.5 }
    }

    fn class(&self, value: f64) -> &'static str {
        if !value.is_finite() {
            return LOST;
        }
        if value == 0.0 {
            return ZERO;
        }
        let step = (self.part(value) * (STEPS - 1) as f64).round() as usize;
        CLASSES.get(step).copied().unwrap_or("h20")
    }

    fn middle(&self) -> f64 {
        if self.log {
            (self.low.ln() * 0.5 + self.high.ln() * 0.5).exp()
        } else {
            self.low * 0.5 + self.high * 0.5
        }
    }

    fn legend(&self, html: &mut Html<'_>, show: fn(f64) -> String) {
        if self.low == 0.0 && self.high == 0.0 {
            return; // Nothing is on the scale.
        }
        html.raw("<div class=\"legend\">");
        html.raw("<span class=\"ramp\" aria-hidden=\"true\">");
        for class in CLASSES {
            html.element("i", &[("class", class)], "");
        }
        html.raw("</span>");
        html.raw("<span class=\"ends\">");
        html.element("b", &[], &show(self.low));
        html.element("b", &[], &show(self.middle()));
        html.element("b", &[], &show(self.high));
        html.raw("</span>");
        html.close("div");
        html.element(
            "span",
            &[("class", "note")],
            if self.log { "logarithmic scale" } else { "linear scale" },
        );
    }
}

/// Three digits that count: 0.0123, 1.23, 123, 1.2e-7.
pub(super) fn digits(n: f64) -> String {
    let size = n.abs();
    if size == 0.0 || !size.is_finite() {
        return n.to_string();
    }
    match size.log10().floor() as i32 {
        power @ -4..=2 => format!("{n:.*}", usize::try_from(2 - power).unwrap_or(0)),
        _ => format!("{n:.1e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits() {
        let cases = [0.0, 0.012345, 1.2345, 12.345, 123.45, 1234.5, 0.00012345, 1.2345e-7, -0.5];
        let shown = ["0", "0.0123", "1.23", "12.3", "123", "1.2e3", "0.000123", "1.2e-7", "-0.500"];
        assert_eq!(cases.map(digits), shown);
        assert_eq!(digits(f64::NAN), "NaN");
    }

    #[test]
    fn several_numbers_become_one() {
        let mut sum = Sum::default();
        sum.add(3.0, 1.0);
        sum.add(1.0, 3.0);
        assert_eq!(sum.fold(Fold::Mean), Some(1.5));
        assert_eq!(sum.fold(Fold::Rms), Some(3f64.sqrt()));
        assert_eq!(sum.fold(Fold::Largest), Some(3.0));
        sum.add(f64::NAN, 1.0);
        sum.add(9.0, 1.0);
        assert!(sum.fold(Fold::Largest).is_some_and(f64::is_nan));
        assert_eq!(Sum::default().fold(Fold::Mean), None);
    }

    #[test]
    fn colours_follow_the_scale() {
        let linear = Range { low: 0.0, high: 10.0, log: false };
        assert_eq!([0.0, 5.0, 10.0, 99.0].map(|n| linear.class(n)), ["zero", "h10", "h20", "h20"]);
        assert_eq!(linear.class(f64::NAN), "bad");
        let log = Range { low: 0.01, high: 100.0, log: true };
        assert_eq!([0.0, 0.01, 1.0, 100.0].map(|n| log.class(n)), ["zero", "h0", "h10", "h20"]);
        assert!((log.middle() - 1.0).abs() < 1e-12);
        let one = Range { low: 2.0, high: 2.0, log: false };
        assert_eq!(one.class(2.0), "h10");
        let only = Range { low: 2.0, high: 2.0, log: true };
        assert_eq!([0.0, 2.0].map(|n| only.class(n)), ["zero", "h10"]);
    }
}
