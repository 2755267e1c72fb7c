//! Kernels as JSON values.

use super::begin;
use crate::render::text::kernels::auto;
use crate::terminal::Screen;
use scantling_core::kernel::{Make, Precision};
use scantling_core::machine::Machine;
use scantling_core::registry::{Registry, Standing};
use serde_json::{Map, Value, json};

/// The kernels of the program, and the machine they are on.
pub fn kernels(screen: &mut Screen<'_>, registry: &Registry) {
    let mut out = begin(screen);
    out.put("machine", &machine(&Machine::here()));
    out.put_all("kernels", registry.standings().iter().map(standing));
    out.finish();
}

pub(super) fn standing(standing: &Standing) -> Value {
    let plugin = standing.plugin;
    let (kind, rank, activations, block) = match (plugin.make, plugin.precision) {
        (Make::Wrapper(_), _) => ("wrapper", None, None, None),
        (Make::Leaf(_), Precision::Exact) => ("leaf", Some(plugin.rank), Some("f32"), None),
        (Make::Leaf(_), Precision::Quantised { block }) => {
            ("leaf", Some(plugin.rank), Some("int8"), Some(block))
        }
    };
    json!({
        "name": plugin.name,
        "summary": plugin.summary,
        "kind": kind,
        "rank": rank,
        "activations": activations,
        "block": block,
        "usable": standing.why_not.is_none(),
        "why_not": standing.why_not,
        "auto": auto(standing),
    })
}

/// The machine that something was measured on.
pub fn machine(machine: &Machine) -> Value {
    let features: Map<String, Value> =
        machine.features.iter().map(|f| (f.name.to_owned(), json!(f.here))).collect();
    json!({
        "arch": machine.arch,
        "processor": machine.processor,
        "cores": machine.cores,
        "features": features,
    })
}
