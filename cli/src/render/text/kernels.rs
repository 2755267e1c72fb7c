//! Kernels: what each is on this machine.

use super::hanging;
use super::table::Table;
use crate::terminal::Screen;
use scantling_core::kernel::{Make, Precision};
use scantling_core::machine::Machine;
use scantling_core::registry::Standing;
use std::fmt::{self, Write};

/// A row for each kernel, so many columns in.
pub fn standings(screen: &mut Screen<'_>, standings: &[Standing], indent: usize) -> fmt::Result {
    let mut table = Table::new(&["NAME", ">RANK", "ACTIVATIONS", "HERE", "AUTO", "WHAT IT IS"]);
    for standing in standings {
        let plugin = standing.plugin;
        let (rank, activations) = match (plugin.make, plugin.precision) {
            (Make::Wrapper(_), _) => ("", "those of its inner kernel".to_owned()),
            (_, Precision::Exact) => (&*plugin.rank.to_string(), "f32".to_owned()),
            (_, Precision::Quantised { block }) => {
                (&*plugin.rank.to_string(), format!("8 bits, blocks of {block}"))
            }
        };
        let here = match (plugin.make, &standing.why_not) {
            (_, Some(_)) => "no",
            (Make::Leaf(_), None) => "yes",
            (Make::Wrapper(_), None) => "around any",
        };
        table.row([
            plugin.name.to_owned(),
            rank.to_owned(),
            activations,
            here.to_owned(),
            auto(standing).join(", "),
            plugin.summary.to_owned(),
        ]);
    }
    table.write(screen, indent)?;
    for standing in standings {
        if let Some(why) = &standing.why_not {
            let start = format!("{:indent$}{} cannot run here: ", "", standing.plugin.name);
            write!(screen, "{start}")?;
            hanging(screen, why, start.len(), indent + 2)?;
        }
    }
    Ok(())
}

/// For which of its two kinds of work `auto` is this kernel.
pub fn auto(standing: &Standing) -> Vec<&'static str> {
    let both = [(standing.exact, "exact"), (standing.fast, "fast")];
    both.into_iter().filter_map(|(is, word)| is.then_some(word)).collect()
}

/// The processor and those of its features that kernels ask for.
pub fn machine(screen: &mut Screen<'_>, machine: &Machine) -> fmt::Result {
    let processor = machine.processor.as_deref().unwrap_or("unnamed processor");
    let cores = crate::render::words::plural(machine.cores, "core");
    writeln!(screen, "{processor} ({}), {cores}", machine.arch)?;
    let names = |here: bool| {
        let some = machine.features.iter().filter(|f| f.here == here).map(|f| f.name);
        some.collect::<Vec<_>>().join(" ")
    };
    for (start, list) in [("  has    ", names(true)), ("  has no ", names(false))] {
        if !list.is_empty() {
            write!(screen, "{start}")?;
            hanging(screen, &list, start.len(), start.len())?;
        }
    }
    Ok(())
}
