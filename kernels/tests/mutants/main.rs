//! Kernels with one thing wrong each. The suite has to find every one of them, even in its quick size, and to name
//! the op: what a bound lets pass is no bound.

mod pointwise;
mod products;
mod relations;

use scantling_core::conformance::{self, Case, Scale};
use scantling_core::kernel::Kernel;
use std::sync::LazyLock;

/// A test that a kernel which overrides the given ops fails in exactly the named ones of `all`.
macro_rules! wrong {
    ($name:ident, [$($op:literal),*], { $($method:item)* }) => {
        #[test]
        fn $name() {
            struct Wrong;
            impl scantling_core::kernel::Kernel for Wrong {
                fn name(&self) -> String {
                    stringify!($name).into()
                }
                $($method)*
            }
            crate::fails(&Wrong, &[$($op),*]);
        }
    };
}
use wrong;

static CASES: LazyLock<Vec<Case<'static>>> = LazyLock::new(|| conformance::generated(Scale::Quick));

/// Ops that have cases, in order.
fn ops() -> Vec<&'static str> {
    let mut ops: Vec<&str> = CASES.iter().map(|case| case.op).collect();
    ops.sort_unstable();
    ops.dedup();
    ops
}

/// Whether a kernel fails in an op; all cases, or every so many, until one shows it.
fn fails_in(kernel: &dyn Kernel, op: &str, every: usize) -> bool {
    let mut cases = CASES.iter().filter(|c| c.op == op).step_by(every);
    cases.any(|case| {
        let row = conformance::run(case, kernel);
        assert_eq!(row.op, op);
        !row.pass
    })
}

/// That a kernel fails in these ops and, as far as a look at some cases of each tells, in no other.
#[track_caller]
fn fails(kernel: &dyn Kernel, expected: &[&str]) {
    let every = |op: &str| if expected.is_empty() || expected.contains(&op) { 1 } else { 10 };
    let found: Vec<&str> = ops().into_iter().filter(|op| fails_in(kernel, op, every(op))).collect();
    assert_eq!(found, expected, "{}", kernel.name());
}

/// The suite covers the trait: an op without a case is an op that nobody tests. What a kernel takes for itself, and the
/// distance of numbers, whose bits are fixed, have tests of their own.
#[test]
fn every_op_of_the_trait_has_cases() {
    let source = include_str!("../../../core/src/kernel.rs");
    let body = source.split_once("pub trait Kernel").unwrap().1.split_once("\n}").unwrap().0;
    let mut methods: Vec<&str> =
        body.lines().filter_map(|l| l.strip_prefix("    fn ")?.split(['(', '<']).next()).collect();
    methods.retain(|m| {
        !["name", "base", "precision", "threads", "report", "label", "scratch", "distance"].contains(m)
    });
    methods.sort_unstable();
    assert_eq!(methods, ops());
}

/// The definition itself, and the one in f64, fail nowhere.
#[test]
fn the_definitions_are_right() {
    struct Plain;
    impl Kernel for Plain {
        fn name(&self) -> String {
            "plain".into()
        }
    }
    fails(&Plain, &[]);
    fails(&scantling_core::kernel::Reference, &[]);
}
