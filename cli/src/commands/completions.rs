//! `completions`: a script for a shell.

use crate::args::Cli;
use crate::terminal::Screen;
use clap::CommandFactory;
use scantling_core::error::Result;

pub(super) fn run(shell: clap_complete::Shell, screen: &mut Screen<'_>) -> Result<u8> {
    // Into memory first: the generator panics where it cannot write.
    let mut script = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "scantling", &mut script);
    screen.send(&script);
    Ok(0)
}
