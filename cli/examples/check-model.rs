//! The library without the command line: link the plugins, open a model, check it.

#![allow(clippy::disallowed_macros, clippy::print_stdout)]

use scantling_core::{check, finding::Severity, registry::Registry};
use {scantling_architectures as _, scantling_formats as _, scantling_kernels as _}; // link the plugins

fn main() -> Result<(), scantling_core::error::Error> {
    let path = std::env::args().nth(1).unwrap_or("testdata/qwen3-tiny".into());
    let checked =
        check::run(&Registry::linked()?, path.as_ref(), &check::Request::default(), &check::Silent)?;
    println!("{} tensors, {} errors", checked.report.counts.tensors, checked.report.count(Severity::Error));
    Ok(())
}
