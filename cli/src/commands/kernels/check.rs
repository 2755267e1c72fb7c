//! `kernels check`: whether kernels compute what the ops mean.

use super::model::{Model, Tensor};
use crate::args::KernelsCheckArgs;
use crate::backend::{Backend, backends};
use crate::bench::cases::Stored;
use crate::commands::written;
use crate::progress::Steps;
use crate::render::kernel_check::{Checked, KernelChecked, Tried};
use crate::render::{json, text};
use crate::terminal::{Look, Screen};
use scantling_core::conformance::{self, Case, Scale};
use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::index::role;
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
        None => checked(&backends, &conformance::generated(scale), None, screen.look()),
        Some(model) => on_model(&backends, model, scale, screen.look())?,
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

/// Tensors of a model that are tried at most: each takes some tenths of a second on every kernel.
const MOST_TENSORS: usize = 256;
/// Columns of a row that are tried at most.
const MOST_COLUMNS: usize = 1 << 18;

/// Products with the model's own matrices, and those ops that know no stored matrix.
fn on_model(backends: &[Backend], model: &Model, scale: Scale, look: Look) -> Result<Checked> {
    let tensors = model.tensors()?;
    let ends = sample(&tensors);
    let sampled = ends.len();
    let sample = fewer(ends, MOST_TENSORS);
    for (tensor, backend) in sample.iter().flat_map(|t| backends.iter().map(move |b| (t, b))) {
        tensor.label(backend.kernel.as_ref());
    }
    // Of a stack of experts the first.
    let matrices: Vec<(&str, Matrix<'_>)> =
        sample.iter().filter_map(|t| Some((t.name, t.matrices().into_iter().next()?))).collect();
    let narrowed = matrices.iter().filter(|(_, matrix)| matrix.cols() > MOST_COLUMNS).count();
    let mut cases: Vec<Case<'_>> =
        matrices.iter().flat_map(|(name, matrix)| conformance::given(name, narrow(*matrix), scale)).collect();
    if cases.is_empty() {
        let path = model.path.display();
        return Err(Error::Usage(format!("{path} holds no tensor that a kernel could multiply by")));
    }
    let own = |case: &Case<'_>| case.dtype.is_none() || case.op == "attention";
    cases.extend(conformance::generated(scale).into_iter().filter(own));
    let (all, unreadable) = model.all();
    let tried = Tried { tried: matrices.len(), sampled, narrowed, usable: tensors.len(), all, unreadable };
    Ok(checked(backends, &cases, Some(tried), look))
}

/// The first columns of a matrix, whole blocks.
fn narrow(matrix: Matrix<'_>) -> Matrix<'_> {
    let block = matrix.dtype().block_elements();
    matrix.cols_at(0..matrix.cols().min(MOST_COLUMNS / block * block))
}

/// At most so many tensors, of each element type as many as of others.
fn fewer<'s, 't>(tensors: Vec<&'s Tensor<'t>>, most: usize) -> Vec<&'s Tensor<'t>> {
    let mut counts: BTreeMap<DType, usize> = BTreeMap::new();
    let mut ranked: Vec<(usize, usize)> = Vec::new();
    for (i, tensor) in tensors.iter().enumerate() {
        let count = counts.entry(tensor.stored.0).or_default();
        ranked.push((*count, i));
        *count += 1;
    }
    ranked.sort_unstable();
    let mut kept: Vec<usize> = ranked.into_iter().take(most).map(|(_, i)| i).collect();
    kept.sort_unstable();
    kept.into_iter().map(|i| tensors[i]).collect()
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

/// Every case on every kernel, whatever came of those before.
fn checked(backends: &[Backend], cases: &[Case<'_>], tensors: Option<Tried>, look: Look) -> Checked {
    let steps = Steps::new(backends.len() * cases.len(), look);
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

    #[test]
    fn of_many_tensors_every_type_has_its_share() {
        let raw = vec![0; 4096];
        let names: Vec<String> = (0..1000).map(|i| format!("t{i}")).collect();
        let of = |i: usize| if i < 990 { DType::F32 } else { DType::Q8_0 };
        let tensors: Vec<Tensor<'_>> =
            names.iter().enumerate().map(|(i, name)| Tensor::new(name, (of(i), 1, 32), &raw)).collect();
        let kept = fewer(tensors.iter().collect(), 30);
        assert_eq!(kept.len(), 30);
        assert_eq!(kept.iter().filter(|t| t.stored.0 == DType::Q8_0).count(), 10);
        assert_eq!(fewer(tensors.iter().take(5).collect(), 30).len(), 5);
    }

    #[test]
    fn long_rows_are_cut_at_whole_blocks() {
        let raw = vec![0; (1 << 19) / 32 * 34];
        let long = Matrix::new(DType::Q8_0, 1, 1 << 19, &raw).unwrap();
        assert_eq!(narrow(long).cols(), MOST_COLUMNS);
        assert_eq!(narrow(long.cols_at(0..64)).cols(), 64);
    }
}
