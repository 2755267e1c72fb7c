//! What two models differ in, as text.

use super::table::Table;
use super::{findings, paragraph, strong};
use crate::render::words::{bytes, plural, ranges, shape, shortest, thousands};
use crate::terminal::{Screen, escape};
use scantling_core::diff::{Allowed, Class, Diff, FactChange, Measured, Pair, Side};
use scantling_core::metadata::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::{self, Write};

/// What of a comparison is shown.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// What is admitted.
    pub allowed: Allowed,
    /// How many of the tensors farthest apart.
    pub worst: usize,
    /// Whether pairs are listed one by one.
    pub list: bool,
    /// Whether only those that are not admitted are.
    pub only_different: bool,
    /// Whether nothing is cut.
    pub full: bool,
    /// Whether the verdict stands alone.
    pub quiet: bool,
}

/// The two models, their hyperparameters, their tensors by kind and by layer, the worst of them, the verdict.
pub fn diff(screen: &mut Screen<'_>, diff: &Diff, options: Options) -> fmt::Result {
    if options.quiet {
        return verdict(screen, diff, options.allowed);
    }
    for (letter, side) in ["A", "B"].iter().zip(&diff.sides) {
        one(screen, letter, side)?;
    }
    writeln!(screen)?;
    facts(screen, diff)?;
    if !options.only_different {
        by_kind(screen, diff)?;
        by_layer(screen, diff)?;
    }
    if options.list {
        list(screen, diff, options)?;
    }
    worst(screen, diff, options.worst)?;
    if !diff.findings.is_empty() {
        writeln!(screen)?;
        strong(screen, "findings")?;
        writeln!(screen)?;
        findings::list(screen, diff.findings.iter(), options.full)?;
    }
    writeln!(screen)?;
    verdict(screen, diff, options.allowed)
}

fn one(screen: &mut Screen<'_>, letter: &str, side: &Side) -> fmt::Result {
    let family = side.model.family.as_deref().unwrap_or("unknown family");
    let (tensors, size) = (plural(side.tensors, "tensor"), bytes(side.bytes));
    let (path, family) = (escape(&side.path), escape(family));
    strong(screen, letter)?;
    writeln!(screen, "  {path}: {}, {family}, {tensors}, {size}", side.container.format)
}

/// Hyperparameters that are not the same in both.
fn facts(screen: &mut Screen<'_>, diff: &Diff) -> fmt::Result {
    strong(screen, "hyperparameters")?;
    let count = |change: FactChange| diff.facts.iter().filter(|fact| fact.change == change).count();
    let changes = [
        (FactChange::Changed, "changed"),
        (FactChange::Lost, "lost"),
        (FactChange::Unsaid, "said by A alone"),
        (FactChange::Gained, "said by B alone"),
    ];
    write!(screen, "  {} equal", diff.facts_equal)?;
    for (change, word) in changes.iter().filter(|(change, _)| count(*change) > 0) {
        write!(screen, ", {} {word}", count(*change))?;
    }
    writeln!(screen)?;
    let shown = diff.facts.iter().filter(|f| matches!(f.change, FactChange::Changed | FactChange::Lost));
    let mut table = Table::new(&["", "A", "B", "WHAT"]);
    for fact in shown {
        let cell = |side: usize| {
            let name = fact.names[side].as_deref().map(escape);
            let value = fact.values[side].as_ref().map(Value::to_string);
            match (name, value) {
                (Some(name), Some(value)) => format!("{name} = {}", escape(&value)),
                _ => "—".to_owned(),
            }
        };
        table.row([fact.change.word().to_owned(), cell(0), cell(1), escape(&fact.meaning).into_owned()]);
    }
    if !table.is_empty() {
        table.write(screen, 2)?;
    }
    writeln!(screen)
}

/// Pairs that are shown as one.
#[derive(Default)]
struct Group<'d> {
    pairs: Vec<&'d Pair>,
}

impl Group<'_> {
    /// "28 identical, 1 different".
    fn classes(&self) -> String {
        let count = |class: Class| self.pairs.iter().filter(|p| p.class == class).count();
        let counted = Class::ALL.map(|class| (class, count(class)));
        let words: Vec<String> = counted
            .iter()
            .filter(|(_, n)| *n > 0)
            .map(|(class, n)| {
                if *n == self.pairs.len() { class.word().to_owned() } else { format!("{n} {}", class.word()) }
            })
            .collect();
        words.join(", ")
    }

    fn measured(&self) -> impl Iterator<Item = &Measured> {
        self.pairs.iter().filter_map(|p| p.measured.as_ref())
    }

    /// The largest relative RMS, the least cosine, the largest error; empty where nothing had to be measured.
    fn figures(&self) -> [String; 3] {
        // A figure that is none shows as such, whatever the others are.
        let first_none =
            |a: f64, b: f64, better: f64| if a.is_nan() || b.is_nan() { f64::NAN } else { better };
        let most = |of: fn(&Measured) -> f64| {
            self.measured().map(of).fold(0.0f64, |a, b| first_none(a, b, a.max(b)))
        };
        let cosines = self.measured().map(|m| m.distance.cosine());
        let least = cosines.fold(1.0f64, |a, b| first_none(a, b, a.min(b)));
        if self.measured().all(|m| m.distance.differing == 0) {
            return [const { String::new() }; 3];
        }
        [figure(most(|m| m.distance.relative())), cosine(least), figure(most(|m| m.distance.max()))]
    }

    /// "BF16", or "BF16 → Q4_K, Q6_K".
    fn types(&self) -> String {
        let side = |side: usize| {
            let mut all: Vec<&str> =
                self.pairs.iter().filter_map(|p| p.stored[side].as_ref()).map(|s| s.dtype.as_str()).collect();
            all.sort_unstable();
            all.dedup();
            escape(&all.join(", ")).into_owned()
        };
        let (a, b) = (side(0), side(1));
        if a == b { a } else { format!("{a} → {b}") }
    }
}

fn figure(x: f64) -> String {
    match x {
        x if x.is_nan() => "—".to_owned(),
        0.0 => "0".to_owned(),
        x => format!("{x:.2e}"),
    }
}

fn cosine(x: f64) -> String {
    if x.is_nan() { "—".to_owned() } else { format!("{x:.6}") }
}

fn by_kind(screen: &mut Screen<'_>, diff: &Diff) -> fmt::Result {
    let mut order: Vec<&str> = Vec::new();
    let mut groups: BTreeMap<&str, Group<'_>> = BTreeMap::new();
    for pair in &diff.pairs {
        let group = groups.entry(&pair.kind).or_insert_with(|| {
            order.push(&pair.kind);
            Group::default()
        });
        group.pairs.push(pair);
    }
    let mut table =
        Table::new(&["KIND", ">TENSORS", "TYPES", "CLASS", ">REL RMS", ">COSINE", ">MAX", "DONE BEFORE"]);
    for kind in order {
        let group = &groups[kind];
        let [relative, cosine, max] = group.figures();
        let count = thousands(group.pairs.len() as u64);
        let steps = group.pairs.first().map_or_else(String::new, |pair| steps(pair));
        table.row([
            escape(kind).into_owned(),
            count,
            group.types(),
            group.classes(),
            relative,
            cosine,
            max,
            steps,
        ]);
    }
    table.write(screen, 0)
}

/// What was done to either side's numbers before they were compared.
pub(in crate::render) fn steps(pair: &Pair) -> String {
    if pair.steps[0] == pair.steps[1] {
        return String::new();
    }
    let done = ["A", "B"].iter().zip(&pair.steps).filter(|(_, steps)| !steps.is_empty());
    let words = done.map(|(letter, steps)| {
        let steps: Vec<String> = steps.iter().map(ToString::to_string).collect();
        format!("{letter}: {}", steps.join(", "))
    });
    words.collect::<Vec<_>>().join("; ")
}

/// Layers, those that follow each other and are alike in one row.
fn by_layer(screen: &mut Screen<'_>, diff: &Diff) -> fmt::Result {
    let mut layers: BTreeMap<usize, Group<'_>> = BTreeMap::new();
    for pair in &diff.pairs {
        if let Some(layer) = pair.layer {
            layers.entry(layer).or_default().pairs.push(pair);
        }
    }
    if layers.len() < 2 {
        return Ok(());
    }
    let mut runs: Vec<(Vec<usize>, Group<'_>)> = Vec::new();
    for (layer, group) in layers {
        match runs.last_mut() {
            Some((numbers, last)) if last.classes_each() == group.classes_each() => {
                numbers.push(layer);
                last.pairs.extend(group.pairs);
            }
            _ => runs.push((vec![layer], group)),
        }
    }
    writeln!(screen)?;
    let mut table = Table::new(&["LAYERS", ">TENSORS", "CLASS", ">REL RMS", ">COSINE", ">MAX"]);
    for (numbers, group) in &runs {
        let [relative, cosine, max] = group.figures();
        table.row([
            ranges(numbers),
            thousands(group.pairs.len() as u64),
            group.classes(),
            relative,
            cosine,
            max,
        ]);
    }
    table.write(screen, 0)
}

impl<'d> Group<'d> {
    /// Which classes there are, whatever their number.
    fn classes_each(&self) -> Vec<Class> {
        let mut all: Vec<Class> = self.pairs.iter().map(|p| p.class).collect();
        all.sort_unstable();
        all.dedup();
        all
    }
}

/// Whether a pair is admitted.
fn admitted(pair: &Pair, allowed: Allowed) -> bool {
    match pair.class {
        Class::Quantised => allowed.quantised,
        Class::Uncompared => allowed.uncompared,
        class => class.is_same(),
    }
}

/// Each pair.
fn list(screen: &mut Screen<'_>, diff: &Diff, options: Options) -> fmt::Result {
    writeln!(screen)?;
    let mut table =
        Table::new(&["TENSOR", "SHAPE", "TYPES", "CLASS", ">REL RMS", ">COSINE", ">MAX", "REMARK"]);
    let shown = diff.pairs.iter().filter(|p| !options.only_different || !admitted(p, options.allowed));
    let mut left = 0usize;
    for pair in shown {
        let group = Group { pairs: vec![pair] };
        let [relative, cosine, max] = group.figures();
        let stored = pair.stored.iter().flatten().next();
        let remark = pair.why.clone().or_else(|| no_numbers(pair)).unwrap_or_else(|| steps(pair));
        left = left.saturating_add(1);
        table.row([
            escape(&pair.name).into_owned(),
            stored.map_or_else(String::new, |s| shape(&s.shape)),
            group.types(),
            pair.class.word().to_owned(),
            relative,
            cosine,
            max,
            escape(&remark).into_owned(),
        ]);
    }
    if left == 0 {
        return writeln!(screen, "no pair that is not admitted");
    }
    table.write(screen, 0)
}

/// What of a pair is no number.
fn no_numbers(pair: &Pair) -> Option<String> {
    let d = &pair.measured.as_ref()?.distance;
    let [a, b] = d.not_finite;
    d.not_finite_apart().then(|| format!("NaN or infinite: {} in A, {} in B", thousands(a), thousands(b)))
}

/// The pairs farthest apart, with the values that are.
fn worst(screen: &mut Screen<'_>, diff: &Diff, most: usize) -> fmt::Result {
    let apart = diff.pairs.iter().filter_map(|p| Some((p, p.measured.as_ref()?)));
    let mut apart: Vec<(&Pair, &Measured)> = apart.filter(|(_, m)| m.distance.differing > 0).collect();
    // What is no number has no distance, and is worse than any.
    let rank = |m: &Measured| match m.distance.not_finite_apart() {
        true => f64::INFINITY,
        false => m.distance.relative(),
    };
    apart.sort_by(|(_, a), (_, b)| rank(b).total_cmp(&rank(a)));
    apart.truncate(most);
    if apart.is_empty() {
        return Ok(());
    }
    writeln!(screen)?;
    strong(screen, "farthest apart")?;
    writeln!(screen)?;
    let heads = ["TENSOR", "CLASS", ">REL RMS", ">RMS", ">COSINE", ">MAX", ">AT", ">A", ">B"];
    let mut table = Table::new(&heads);
    for (pair, measured) in apart {
        let d = &measured.distance;
        // Where some are no numbers, the first of them is farther apart than any that are.
        let worst = d.worst.filter(|_| !d.not_finite_apart());
        let value = |of: fn(&scantling_core::distance::Worst) -> f64| {
            worst.as_ref().map_or_else(String::new, |w| shortest(of(w)))
        };
        table.row([
            escape(&pair.name).into_owned(),
            pair.class.word().to_owned(),
            figure(d.relative()),
            figure(d.rms()),
            cosine(d.cosine()),
            figure(d.max()),
            worst.map(|w| w.index).or(d.first_not_finite).map_or_else(String::new, |at| pair.place_of(at)),
            value(|w| w.a),
            value(|w| w.b),
        ]);
    }
    table.write(screen, 2)
}

/// Whether it is the same model, and what that rests on.
fn verdict(screen: &mut Screen<'_>, diff: &Diff, allowed: Allowed) -> fmt::Result {
    let mark = if diff.passes(allowed) { "✓" } else { "✗" };
    paragraph(screen, &format!("{mark} {}", headline(diff, allowed)), 0)?;
    paragraph(screen, &looked_at(diff), 0)
}

/// Whether it is the same model, in one line.
pub(in crate::render) fn headline(diff: &Diff, allowed: Allowed) -> String {
    let counted: Vec<String> = Class::ALL
        .iter()
        .filter(|class| diff.count(**class) > 0)
        .map(|class| format!("{} {}", thousands(diff.count(*class) as u64), class.word()))
        .collect();
    let passes = diff.passes(allowed);
    let same = Class::ALL.iter().filter(|c| c.is_same()).map(|c| diff.count(*c)).sum::<usize>();
    let against = diff.findings.iter().filter(|f| diff.counts(f, allowed));
    let codes: BTreeSet<&str> = against.clone().map(|f| f.code.title).collect();
    let errors = against.count();
    let what = match (passes, diff.pairs.is_empty()) {
        (_, true) => "no tensor was compared",
        (true, _) if diff.unwanted > 0 => "what was looked at of B holds the numbers of A",
        (true, _) if same == diff.pairs.len() => "B holds the numbers of A",
        (true, _) if diff.count(Class::Uncompared) > 0 => {
            "B holds the numbers of A, as far as they were compared"
        }
        (true, _) => "B holds the numbers of A, rounded to its element types",
        (false, _) if errors == 0 && diff.count(Class::Uncompared) == 0 => {
            "B is A only as far as its element types round (--allow quantised admits that)"
        }
        (false, _) => "B is not A",
    };
    let tensors = plural(diff.pairs.len(), "tensor");
    let counted = if counted.is_empty() { String::new() } else { format!(": {}", counted.join(", ")) };
    // Where every tensor is the same, it is another thing that is not.
    let why = if passes || codes.is_empty() { String::new() } else { format!("; {}", list_of(&codes)) };
    format!("{what}: {tensors}{counted}{why}")
}

/// What findings say in general, the first few.
fn list_of(codes: &BTreeSet<&str>) -> String {
    const SHOWN: usize = 3;
    let shown: Vec<&str> = codes.iter().copied().take(SHOWN).collect();
    let more = codes.len().saturating_sub(SHOWN);
    let more = if more > 0 { format!("; {more} more") } else { String::new() };
    format!("{}{more}", shown.join("; "))
}

/// What was compared, and what was not.
pub(in crate::render) fn looked_at(diff: &Diff) -> String {
    let tensors = plural(diff.pairs.len(), "tensor");
    let mut line = format!(
        "compared {} of {tensors} by every value, and {} hyperparameters",
        diff.compared(),
        diff.facts_equal.saturating_add(
            diff.facts.iter().filter(|f| matches!(f.change, FactChange::Changed | FactChange::Lost)).count()
        )
    );
    if diff.unwanted > 0 {
        line.push_str(&format!(
            "; not looked at: {} by --include and --exclude",
            plural(diff.unwanted, "tensor")
        ));
    }
    if !diff.left_out.is_empty() {
        let names: Vec<&str> = diff.left_out.iter().map(|(name, _)| name.as_str()).take(4).collect();
        let more = if diff.left_out.len() > names.len() { ", …" } else { "" };
        line.push_str(&format!("; left out: {}{more}", escape(&names.join(", "))));
    }
    let across = diff.sides[0].container.dialect != diff.sides[1].container.dialect;
    match (&diff.vocabulary.tokens, &diff.vocabulary.why) {
        (Some(tokens), _) => line.push_str(&format!("; {} of the vocabularies", plural(*tokens, "id"))),
        (None, Some(why)) => line.push_str(&format!("; not compared: vocabularies ({})", escape(why))),
        _ => {}
    }
    line.push_str(if across {
        "; not compared: chat templates"
    } else {
        "; not compared: further files beside the weights"
    });
    line
}
