//! scantling with the plugins of this crate as well as its own.

use custom as _;

fn main() -> std::process::ExitCode {
    scantling_cli::main()
}
