//! The kernels of this crate that run on this machine.

use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options};
use scantling_core::registry::Registry;
use scantling_kernels as _;

/// Every leaf that runs here, with its plugin; says of the others why not.
#[allow(clippy::print_stderr, reason = "a test that leaves something out has to say so")]
pub fn usable() -> Vec<(&'static KernelPlugin, Box<dyn Kernel>)> {
    let mut leaves = Vec::new();
    for plugin in Registry::linked_kernels().unwrap() {
        let Make::Leaf(make) = plugin.make else { continue };
        match make(&Options::default()) {
            Ok(leaf) => leaves.push((plugin, leaf)),
            Err(why) => eprintln!("skipped: {}: {why}", plugin.name),
        }
    }
    assert!(!leaves.is_empty(), "scalar runs everywhere");
    leaves
}
