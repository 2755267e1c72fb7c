//! `kernels`: what computes, whether it is right, and how fast it is.

mod bench;
mod check;
mod model;

use super::written;
use crate::args::{KernelsCommand, ListArgs, LookArgs};
use crate::render::{json, text};
use crate::terminal::Screen;
use scantling_core::error::Result;
use scantling_core::machine::Machine;
use scantling_core::registry::Registry;
use std::fmt::{self, Write};

pub(super) fn run(
    registry: &Registry,
    command: &KernelsCommand,
    look: &LookArgs,
    screen: &mut Screen<'_>,
) -> Result<u8> {
    match command {
        KernelsCommand::List(args) => list(registry, args, screen),
        KernelsCommand::Bench(args) => bench::run(registry, args, look, screen),
        KernelsCommand::Check(args) => check::run(registry, args, screen),
    }
}

fn list(registry: &Registry, args: &ListArgs, screen: &mut Screen<'_>) -> Result<u8> {
    if args.wants_json() {
        json::kernels::kernels(screen, registry);
    } else {
        written(listed(registry, screen))?;
    }
    Ok(0)
}

fn listed(registry: &Registry, screen: &mut Screen<'_>) -> fmt::Result {
    text::kernels::machine(screen, &Machine::here())?;
    writeln!(screen)?;
    text::kernels::standings(screen, &registry.standings(), 0)
}
