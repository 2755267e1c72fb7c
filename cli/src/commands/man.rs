//! `man`: the manual page.

use crate::args::Cli;
use crate::terminal::Screen;
use clap::CommandFactory;
use scantling_core::error::{Error, Result};

pub(super) fn run(command: Option<&str>, screen: &mut Screen<'_>) -> Result<u8> {
    let mut program = Cli::command();
    program.build();
    let page = match command {
        None => clap_mangen::Man::new(program),
        Some(name) => {
            let command = program.find_subcommand(name);
            let command = command.ok_or_else(|| Error::Usage(format!("unknown command \"{name}\"")))?;
            clap_mangen::Man::new(command.clone())
        }
    };
    page.render(screen).map_err(|e| Error::io("standard output", "writing", e))?;
    Ok(0)
}
