//! The program with every plugin of this workspace.

fn main() -> std::process::ExitCode {
    scantling_cli::main()
}
