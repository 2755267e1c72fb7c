//! `plugins arch`: the architectures, and what one must hold by a config.

use super::{plugins, written};
use crate::args::ArchArgs;
use crate::render::{fails, json, text};
use crate::terminal::Screen;
use scantling_core::architecture::ArchitecturePlugin;
use scantling_core::derived;
use scantling_core::error::Result;
use scantling_core::finding::Severity;
use scantling_core::registry::Registry;

pub(super) fn run(registry: &Registry, args: &ArchArgs, screen: &mut Screen<'_>) -> Result<u8> {
    let Some(file) = &args.config else { return list(registry, args, screen) };
    let derived = derived::of(registry, args.name.as_deref(), file)?;
    if args.list.wants_json() {
        json::arch::derived(screen, &derived);
    } else {
        written(text::arch::derived(screen, &derived))?;
    }
    let worst = derived.findings.iter().map(|f| f.severity).max();
    Ok(u8::from(fails(worst, Some(Severity::Error))))
}

/// All architectures, or the one that is named.
fn list(registry: &Registry, args: &ArchArgs, screen: &mut Screen<'_>) -> Result<u8> {
    let chosen: Vec<&'static ArchitecturePlugin> = match &args.name {
        Some(name) => vec![registry.architecture(name)?],
        None => registry.architectures().to_vec(),
    };
    if args.list.wants_json() {
        json::arch::list(screen, &chosen);
    } else {
        written(chosen.iter().try_for_each(|plugin| plugins::architecture(screen, plugin)))?;
    }
    Ok(0)
}
