//! `plugins`: what was linked into this program.

use super::{arch, written};
use crate::args::{PluginsArgs, PluginsCommand};
use crate::render::{json, text};
use crate::terminal::Screen;
use scantling_core::architecture::ArchitecturePlugin;
use scantling_core::error::Result;
use scantling_core::registry::Registry;
use std::fmt::{self, Write};

pub(super) fn run(registry: &Registry, args: &PluginsArgs, screen: &mut Screen<'_>) -> Result<u8> {
    if let Some(PluginsCommand::Arch(args)) = &args.command {
        return arch::run(registry, args, screen);
    }
    if args.list.wants_json() {
        json::plugins(screen, registry);
    } else {
        written(list(registry, screen))?;
    }
    Ok(0)
}

fn list(registry: &Registry, screen: &mut Screen<'_>) -> fmt::Result {
    text::strong(screen, "formats\n")?;
    for plugin in registry.formats() {
        entry(screen, plugin.name, plugin.summary)?;
        let extensions: Vec<String> = plugin.extensions.iter().map(|e| format!(".{e}")).collect();
        detail(screen, "extensions", &extensions)?;
    }
    text::strong(screen, "architectures\n")?;
    registry.architectures().iter().try_for_each(|plugin| architecture(screen, plugin))?;
    text::strong(screen, "kernels\n")?;
    text::kernels::standings(screen, &registry.standings(), 2)
}

/// One family, and how files call it.
pub(super) fn architecture(screen: &mut Screen<'_>, plugin: &ArchitecturePlugin) -> fmt::Result {
    entry(screen, plugin.name, plugin.summary)?;
    detail(screen, "model_type", plugin.model_types)?;
    detail(screen, "GGUF", plugin.gguf)
}

fn entry(screen: &mut Screen<'_>, name: &str, summary: &str) -> fmt::Result {
    writeln!(screen, "  {name:12}  {summary}")
}

fn detail<S: AsRef<str>>(screen: &mut Screen<'_>, key: &str, values: &[S]) -> fmt::Result {
    if values.is_empty() {
        return Ok(());
    }
    let values: Vec<&str> = values.iter().map(AsRef::as_ref).collect();
    writeln!(screen, "  {:12}  {key} {}", "", values.join(", "))
}
