//! Where the bytes go: areas in proportion, as squared as can be. The layout is arithmetic alone, so one model has one
//! picture.

use super::markup::Html;
use super::page::{Group, Kind, Page};
use crate::render::words;

/// A place on the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Rect {
    pub x: f64,
    pub y: f64,
    pub w: f64,
    pub h: f64,
}

impl Rect {
    /// The same with an edge left free.
    fn inset(self, by: f64) -> Rect {
        let Rect { x, y, w, h } = self;
        Rect { x: x + by, y: y + by, w: (w - 2.0 * by).max(0.0), h: (h - 2.0 * by).max(0.0) }
    }
}

/// Areas below this are not drawn one by one.
const SMALL: f64 = 6.0;
/// How wide a character of a label is, about.
const GLYPH: f64 = 6.6;

/// Places for sizes, which descend: each gets its share of the area, in rows along the shorter side (Bruls, Huizing,
/// van Wijk: squarified treemaps).
pub(super) fn squarify(sizes: &[f64], into: Rect) -> Vec<Rect> {
    let total: f64 = sizes.iter().sum();
    let area = into.w * into.h;
    if total <= 0.0 || area <= 0.0 {
        return vec![Rect { w: 0.0, h: 0.0, ..into }; sizes.len()];
    }
    let areas: Vec<f64> = sizes.iter().map(|size| size / total * area).collect();
    let mut places = Vec::with_capacity(areas.len());
    let mut free = into;
    let mut rest = areas.as_slice();
    while !rest.is_empty() {
        let side = free.w.min(free.h);
        let row = row(rest, side);
        let (now, later) = rest.split_at(row);
        lay(now, &mut free, &mut places);
        rest = later;
    }
    places
}

/// How many of the areas make the best row along a side: as long as its worst ratio does not become worse.
fn row(areas: &[f64], side: f64) -> usize {
    let mut sum = 0.0;
    let mut best = f64::INFINITY;
    for (n, area) in areas.iter().enumerate() {
        sum += area;
        let (most, least) = (areas.first().copied().unwrap_or(0.0), *area);
        let square = side * side;
        let worst = (square * most / (sum * sum)).max(sum * sum / (square * least.max(f64::MIN_POSITIVE)));
        if worst > best {
            return n;
        }
        best = worst;
    }
    areas.len()
}

/// Lays a row along the shorter side of what is free, and takes it away from that.
fn lay(areas: &[f64], free: &mut Rect, places: &mut Vec<Rect>) {
    let sum: f64 = areas.iter().sum();
    let upright = free.w >= free.h;
    let side = if upright { free.h } else { free.w };
    let depth = if side > 0.0 { sum / side } else { 0.0 };
    let mut at = 0.0;
    for area in areas {
        let len = if depth > 0.0 { area / depth } else { 0.0 };
        places.push(match upright {
            true => Rect { x: free.x, y: free.y + at, w: depth, h: len },
            false => Rect { x: free.x + at, y: free.y, w: len, h: depth },
        });
        at += len;
    }
    if upright {
        free.x += depth;
        free.w = (free.w - depth).max(0.0);
    } else {
        free.y += depth;
        free.h = (free.h - depth).max(0.0);
    }
}

/// The picture, once for wide pages and once for narrow ones.
pub(super) fn write(html: &mut Html<'_>, page: &Page<'_>) {
    draw(html, page, "map wide", Rect { x: 0.0, y: 0.0, w: 1120.0, h: 560.0 });
    draw(html, page, "map slim", Rect { x: 0.0, y: 0.0, w: 360.0, h: 520.0 });
}

fn draw(html: &mut Html<'_>, page: &Page<'_>, class: &str, whole: Rect) {
    let view = format!("0 0 {} {}", whole.w, whole.h);
    let total = page.bytes();
    let label = format!(
        "Areas in proportion to bytes, {} in all; the table of kinds has the numbers",
        words::bytes(total)
    );
    html.open("svg", &[("viewBox", &view), ("class", class), ("role", "img"), ("aria-label", &label)]);
    let mut groups: Vec<(Group, Vec<(usize, &Kind)>)> = Group::ALL.map(|group| (group, Vec::new())).to_vec();
    for numbered in page.kinds.iter().enumerate() {
        if let Some((_, kinds)) = groups.iter_mut().find(|(group, _)| *group == numbered.1.group) {
            kinds.push(numbered);
        }
    }
    let bytes = |kinds: &[(usize, &Kind)]| kinds.iter().map(|(_, k)| k.bytes as f64).sum::<f64>();
    groups.retain(|(_, kinds)| bytes(kinds) > 0.0);
    // A stable sort: where sizes are the same, the order of the model stays.
    groups.sort_by(|a, b| bytes(&b.1).total_cmp(&bytes(&a.1)));
    let sizes: Vec<f64> = groups.iter().map(|(_, kinds)| bytes(kinds)).collect();
    for ((group, kinds), place) in groups.iter_mut().zip(squarify(&sizes, whole)) {
        self::group(html, page, *group, kinds, place.inset(1.5), total);
    }
    html.close("svg");
    html.raw("\n");
}

fn group(
    html: &mut Html<'_>,
    page: &Page<'_>,
    group: Group,
    kinds: &mut [(usize, &Kind)],
    place: Rect,
    total: u64,
) {
    kinds.sort_by_key(|(_, kind)| std::cmp::Reverse(kind.bytes));
    let sizes: Vec<f64> = kinds.iter().map(|(_, k)| k.bytes as f64).collect();
    let places = squarify(&sizes, place);
    let is_small = |place: &Rect| place.w * place.h < SMALL || place.w.min(place.h) < 1.0;
    let mut folded: Vec<(&Kind, Rect)> = Vec::new();
    for ((number, kind), place) in kinds.iter().zip(places) {
        if is_small(&place) {
            folded.push((kind, place));
        } else {
            self::kind(html, page, *number, kind, place.inset(0.5), total);
        }
    }
    let Some(around) = folded.iter().map(|(_, place)| *place).reduce(around) else { return };
    // What is too small by itself is one area.
    let bytes = folded.iter().fold(0u64, |n, (k, _)| n.saturating_add(k.bytes));
    html.open("g", &[("class", group.class())]);
    let what = format!("{} kinds of {}", folded.len(), group.word());
    let title = format!("{what}: {} ({})", words::bytes(bytes), words::percent(bytes, total));
    rect(html, "c", around, &title);
    html.close("g");
}

fn around(a: Rect, b: Rect) -> Rect {
    let (x, y) = (a.x.min(b.x), a.y.min(b.y));
    Rect { x, y, w: (a.x + a.w).max(b.x + b.w) - x, h: (a.y + a.h).max(b.y + b.h) - y }
}

fn kind(html: &mut Html<'_>, page: &Page<'_>, number: usize, kind: &Kind, place: Rect, total: u64) {
    let share = words::percent(kind.bytes, total);
    let name = kind.full_name();
    html.open("g", &[("class", kind.group.class()), ("data-kind", &number.to_string())]);
    let mut pieces: Vec<_> = kind.pieces.iter().collect();
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.bytes));
    let sizes: Vec<f64> = pieces.iter().map(|p| p.bytes as f64).collect();
    let places = squarify(&sizes, place);
    if places.iter().any(|p| p.w.min(p.h) < 2.5) {
        let title = format!(
            "{name}, {}: {} ({share})",
            words::plural(kind.tensors, "tensor"),
            words::bytes(kind.bytes)
        );
        let dtype = pieces.first().map_or(0, |p| p.dtype);
        rect(html, &format!("c t{}", colour(dtype)), place, &title);
    } else {
        for (piece, place) in pieces.iter().zip(places) {
            let dtype = page.types.get(piece.dtype).map_or("", |t| t.name.as_str());
            let layer = piece.layer.map(|n| format!(" of layer {n}")).unwrap_or_default();
            let several = if piece.tensors > 1 {
                format!(", {} tensors", words::thousands(piece.tensors as u64))
            } else {
                String::new()
            };
            let title = format!(
                "{name}{layer}{several}, {dtype}: {} of {} ({share} of all)",
                words::bytes(piece.bytes),
                words::bytes(kind.bytes)
            );
            rect(html, &format!("c t{}", colour(piece.dtype)), place, &title);
        }
    }
    label(html, &kind.name, &format!("{} · {share}", words::bytes(kind.bytes)), place);
    html.close("g");
}

/// Types beyond those that have a colour share the last.
pub(super) fn colour(dtype: usize) -> usize {
    dtype.min(7)
}

fn rect(html: &mut Html<'_>, class: &str, place: Rect, title: &str) {
    let [x, y, w, h] = [place.x, place.y, place.w, place.h].map(|n| format!("{n:.1}"));
    html.open("rect", &[("class", class), ("x", &x), ("y", &y), ("width", &w), ("height", &h)]);
    html.element("title", &[], title);
    html.close("rect");
}

/// A name, and below it how much, where there is room.
fn label(html: &mut Html<'_>, name: &str, share: &str, place: Rect) {
    let room = ((place.w - 12.0) / GLYPH).max(0.0) as usize;
    let short = name.strip_suffix(".weight").unwrap_or(name);
    let fits = words::columns(short) <= room;
    if room < 6 || place.h < 18.0 || (!fits && room < 10) {
        return;
    }
    let (x, y) = (place.x + 6.0, place.y + 14.5);
    let name = words::cut_middle(short, room, "…");
    html.element("text", &[("class", "l"), ("x", &format!("{x:.1}")), ("y", &format!("{y:.1}"))], &name);
    if place.h >= 34.0 && words::columns(share) <= room {
        let y = y + 15.0;
        html.element("text", &[("class", "s"), ("x", &format!("{x:.1}")), ("y", &format!("{y:.1}"))], share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIX: Rect = Rect { x: 0.0, y: 0.0, w: 6.0, h: 4.0 };

    #[track_caller]
    fn near(found: Rect, expected: [f64; 4]) {
        let found = [found.x, found.y, found.w, found.h];
        assert!(found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-9), "{found:?} {expected:?}");
    }

    #[test]
    fn the_example_of_the_paper() {
        // Bruls et al., figure 4: 6 6 4 3 2 2 1 in a rectangle of 6 by 4.
        let places = squarify(&[6.0, 6.0, 4.0, 3.0, 2.0, 2.0, 1.0], SIX);
        near(places[0], [0.0, 0.0, 3.0, 2.0]);
        near(places[1], [0.0, 2.0, 3.0, 2.0]);
        near(places[2], [3.0, 0.0, 12.0 / 7.0, 7.0 / 3.0]);
        near(places[3], [3.0 + 12.0 / 7.0, 0.0, 9.0 / 7.0, 7.0 / 3.0]);
        near(places[4], [3.0, 7.0 / 3.0, 6.0 / 5.0, 5.0 / 3.0]);
    }

    #[test]
    fn areas_are_in_proportion_and_fill_all() {
        let sizes = [500.0, 30.0, 30.0, 30.0, 7.0, 1.0, 1e-9, 0.0];
        let places = squarify(&sizes, SIX);
        let total: f64 = sizes.iter().sum();
        for (size, place) in sizes.iter().zip(&places) {
            assert!((place.w * place.h - size / total * 24.0).abs() < 1e-9, "{size} {place:?}");
            assert!(place.x >= -1e-9 && place.x + place.w <= 6.0 + 1e-9, "{place:?}");
            assert!(place.y >= -1e-9 && place.y + place.h <= 4.0 + 1e-9, "{place:?}");
        }
    }

    #[test]
    fn nothing_has_no_area() {
        assert!(squarify(&[], SIX).is_empty());
        assert_eq!(squarify(&[0.0, 0.0], SIX)[1].w, 0.0);
        assert_eq!(squarify(&[1.0], Rect { w: 0.0, ..SIX })[0].w, 0.0);
    }
}
