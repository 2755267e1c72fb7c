//! `kernels check`: whether kernels compute what the ops mean.

use super::model::{Model, Tensor};
use crate::args::KernelsCheckArgs;
use crate::backend::{Backend, backends};
use crate::bench::cases::Stored;
use crate::commands::written;
use crate::progress::Steps;
use crate::render::kernel_check::{Checked, KernelChecked, Tried};
use crate::render::{json, text};
use crate::terminal::Screen;
use scantling_core::conformance::{self, Case, Scale};
use scantling_core::error::{Error, Result};
use scantling_core::matrix::Matrix;
use scantling_core::registry::{Registry, SPREADER, Work};
use std::collections::{BTreeMap, BTreeSet};

pub(super) fn run(registry: &Registry, args: &KernelsCheckArgs, screen: &mut Screen<'_>) -> Result<u8> {
    let usual = || {
        let leaves: Vec<&str> = registry.usable_leaves().map(|k| k.name).collect();
        let spread = registry.kernels().iter().any(|k| k.name == SPREADER);
        let over_threads = leaves.iter().filter(|_| spread).map(|name| format!("{SPREADER}+{name}"));
        leaves.iter().map(|name| (*name).to_owned()).chain(over_threads).collect()
    };
    let backends = backends(&args.kernels, registry, Work::Exact, usual)?;
    let scale = if args.quick { Scale::Quick } else { Scale::Full };
    let model = args.model.as_deref().map(|path| Model::open(registry, path)).transpose()?;
    let checked = match &model {
        None => checked(&backends, &conformance::generated(scale), None),
        Some(model) => on_model(&backends, model, scale)?,
    };
    if args.list.wants_json() {
        json::kernel_check::check(screen, &checked, model.as_ref().map(Model::shown));
    } else {
        if let Some(model) = &model {
            written(text::bench::mapped(screen, &model.prepared))?;
        }
        written(text::kernel_check::check(screen, &checked, args.full))?;
    }
    Ok(u8::from(!checked.ok()))
}

/// Products with the model's own matrices, and those ops that know no stored matrix.
fn on_model(backends: &[Backend], model: &Model, scale: Scale) -> Result<Checked> {
    let tensors = model.tensors()?;
    let sample = sample(&tensors);
    // Of a stack of experts the first.
    let matrices: Vec<(&str, Matrix<'_>)> =
        sample.iter().filter_map(|t| Some((t.name, t.matrices().into_iter().next()?))).collect();
    let mut cases: Vec<Case<'_>> =
        matrices.iter().flat_map(|(name, matrix)| conformance::given(name, *matrix, scale)).collect();
    if cases.is_empty() {
        let path = model.path.display();
        return Err(Error::Usage(format!("{path} holds no tensor that a kernel could multiply by")));
    }
    let own = |case: &Case<'_>| case.dtype.is_none() || case.op == "attention";
    cases.extend(conformance::generated(scale).into_iter().filter(own));
    let (all, unreadable) = model.all();
    let tried = Tried { tried: matrices.len(), usable: tensors.len(), all, unreadable };
    Ok(checked(backends, &cases, Some(tried)))
}

/// Of each role, element type and shape the first and the last tensor.
fn sample<'s, 't>(tensors: &'s [Tensor<'t>]) -> Vec<&'s Tensor<'t>> {
    let mut ends: BTreeMap<(String, Stored), (usize, usize)> = BTreeMap::new();
    for (i, tensor) in tensors.iter().enumerate() {
        ends.entry((role(tensor.name), tensor.stored)).or_insert((i, i)).1 = i;
    }
    let kept: BTreeSet<usize> = ends.into_values().flat_map(|(first, last)| [first, last]).collect();
    kept.into_iter().map(|i| &tensors[i]).collect()
}

/// A name without the numbers of layers and experts.
fn role(name: &str) -> String {
    let word =
        |part: &str| if part.bytes().all(|b| b.is_ascii_digit()) { "*".to_owned() } else { part.to_owned() };
    name.split('.').map(word).collect::<Vec<_>>().join(".")
}

/// Every case on every kernel, whatever came of those before.
fn checked(backends: &[Backend], cases: &[Case<'_>], tensors: Option<Tried>) -> Checked {
    let steps = Steps::new(backends.len() * cases.len());
    let each = backends.iter().map(|backend| {
        let rows = cases.iter().map(|case| {
            steps.next(&backend.name);
            conformance::run(case, backend.kernel.as_ref())
        });
        KernelChecked {
            name: backend.name.clone(),
            threads: backend.threads,
            rows: rows.collect(),
            report: backend.kernel.report(),
        }
    });
    Checked { kernels: each.collect(), tensors }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_have_no_numbers() {
        assert_eq!(role("model.layers.12.mlp.experts.3.w1.weight"), "model.layers.*.mlp.experts.*.w1.weight");
        assert_eq!(role("blk.0.attn_q.weight"), role("blk.27.attn_q.weight"));
    }
}
