//! The suite, over every kernel of this crate that runs here: whoever registers one has it tested.

use scantling_core::conformance::{self, Scale};
use scantling_core::kernel::{KernelPlugin, Make, Options};
use scantling_core::registry::Registry;
use scantling_kernels as _;

/// The kernels that are linked. The other kinds of plugins are not needed here, but a registry wants some.
fn linked() -> Vec<&'static KernelPlugin> {
    Registry::linked_kernels().unwrap()
}

#[test]
fn every_kernel_is_right() {
    let cases = conformance::generated(Scale::Full);
    let mut wrong = Vec::new();
    for plugin in linked() {
        let Make::Leaf(make) = plugin.make else { continue };
        match make(&Options::default()) {
            Err(why) => eprintln!("skipped: {}: {why}", plugin.name),
            Ok(kernel) => {
                let start = std::time::Instant::now();
                let rows: Vec<_> = cases.iter().map(|c| conformance::run(c, &*kernel)).collect();
                eprintln!("{}: {} cases in {:?}", plugin.name, rows.len(), start.elapsed());
                wrong.extend(rows.iter().filter(|r| !r.pass).map(|r| format!("{}: {r}", kernel.name())));
            }
        }
    }
    assert!(wrong.is_empty(), "{} cases failed:\n{}", wrong.len(), wrong[..wrong.len().min(40)].join("\n"));
}
