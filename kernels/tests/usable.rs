//! Which leaves a processor can run, where an emulator was told which processor to be.

#![allow(clippy::disallowed_methods)] // Tests are told where they run by the environment.

use scantling_core::kernel::Make;
use scantling_core::registry::Registry;
use scantling_kernels as _;

/// `SCANTLING_LEAVES` names them all. One too few and a suite would pass that never ran; one too many and a program
/// would end in an illegal instruction.
#[test]
fn these_and_no_others() {
    let Some(expected) = std::env::var_os("SCANTLING_LEAVES") else {
        eprintln!("skipped: SCANTLING_LEAVES is not set (which leaves this processor must be able to run)");
        return;
    };
    let expected = expected.into_string().unwrap();
    let mut usable = Vec::new();
    for plugin in Registry::linked_kernels().unwrap() {
        if !matches!(plugin.make, Make::Leaf(_)) {
            continue;
        }
        match plugin.why_not() {
            None => usable.push(plugin.name),
            Some(why) => assert!(!why.is_empty() && !why.ends_with('.'), "{}: {why}", plugin.name),
        }
    }
    assert_eq!(usable.join(","), expected);
}
