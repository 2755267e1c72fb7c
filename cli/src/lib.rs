//! The command line of scantling, as a library: what a program needs to become `scantling` with plugins of its
//! own.
//!
//! Plugins register themselves when they are linked in, so a program that adds some is five lines:
//!
//! ```no_run
//! // use my_plugins as _;
//!
//! fn main() -> std::process::ExitCode {
//!     scantling_cli::main()
//! }
//! ```
//!
//! The line that is commented out here names the crate with the plugins: without it the linker would leave the
//! crate out. The plugins of this workspace come along with this crate.

#![forbid(unsafe_code)]

mod args;
mod backend;
mod bench;
mod commands;
mod interrupt;
mod output;
mod plugins;
mod progress;
mod render;
mod runner;
mod terminal;

use std::process::ExitCode;

/// Reads the arguments of the process, does what they ask and gives the exit code: 0 clean, 1 findings,
/// 2 a request that cannot be understood, 3 no model could be read.
pub fn main() -> ExitCode {
    ExitCode::from(commands::run(std::env::args_os()))
}
