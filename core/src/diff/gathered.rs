//! What many tensors have in common, told once.

use super::causes::{FAR, NEAR, is_near};
use super::{Class, Pair};
use crate::distance::Distance;
use crate::finding::{Finding, Findings};
use std::collections::HashMap;

/// Findings of one code that say the same of many tensors, as one.
pub(super) fn together(findings: Vec<Finding>) -> Vec<Finding> {
    let mut order: Vec<(&'static str, String)> = Vec::new();
    let mut groups: HashMap<(&'static str, String), Vec<Finding>> = HashMap::new();
    for finding in findings {
        let key = (finding.code.id, finding.message.clone());
        let group = groups.entry(key.clone()).or_default();
        if group.is_empty() {
            order.push(key);
        }
        group.push(finding);
    }
    let one = |mut group: Vec<Finding>| {
        let first = group.first()?.clone();
        if group.len() < 3 || group.iter().any(|f| f.place.tensor.is_none() || !f.symptoms.is_empty()) {
            return Some(group);
        }
        let message = format!("in {} tensors: {}", group.len(), first.message);
        for finding in &mut group {
            finding.advice = None;
        }
        let mut f = Finding::new(first.code, message).severity(first.severity).because_of_this(group);
        f.advice = first.advice;
        Some(vec![f])
    };
    order.into_iter().filter_map(|key| one(groups.remove(&key)?)).flatten().collect()
}

/// What is left without a cause of its own: near numbers, and others.
pub(super) fn spread(pairs: &[Pair], left: &[usize]) -> Vec<Finding> {
    let each =
        left.iter().filter_map(|i| pairs.get(*i)).filter_map(|pair| Some((pair, pair.measured.as_ref()?)));
    let (near, far): (Vec<_>, Vec<_>) = each.partition(|(_, measured)| is_near(measured));
    let compared = pairs.iter().filter(|p| p.measured.is_some() || p.class == Class::Identical).count();
    let mut findings = Vec::new();
    for (code, group, what) in [
        (&NEAR, near, "near those of the first model, but not those"),
        (&FAR, far, "not those of the first model"),
    ] {
        if group.is_empty() {
            continue;
        }
        let cosines = || group.iter().map(|(_, measured)| measured.distance.cosine());
        let (least, most) =
            (cosines().fold(f64::INFINITY, f64::min), cosines().fold(f64::NEG_INFINITY, f64::max));
        let message = format!(
            "{} of {compared} tensors hold numbers that are {what} (cosine {least:.4} to {most:.4})",
            group.len()
        );
        let each = group.iter().map(|(pair, measured)| {
            let d = &measured.distance;
            let message = format!(
                "{}relative RMS {:.4}, cosine {:.4}, largest difference {:.3e}",
                few_differ(d),
                d.relative(),
                d.cosine(),
                d.max()
            );
            Finding::new(code, message).tensor(&pair.name)
        });
        let mut kept = Findings::new();
        kept.extend(each);
        findings.push(Finding::new(code, message).because_of_this(kept.into_vec()));
    }
    findings
}

/// How many values differ and between which, where most are the same.
fn few_differ(d: &Distance) -> String {
    match d.span {
        Some((first, last)) if d.differing < d.count / 2 => {
            format!("only {} of {} values differ, the elements {first} to {last}; ", d.differing, d.count)
        }
        _ => String::new(),
    }
}
