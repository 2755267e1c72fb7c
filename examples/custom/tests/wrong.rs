//! scantling with a kernel that is wrong: what a kernel's author sees who forgot the end of a row.
//!
//! A program of its own, so that the kernel is in no other. Run by `cargo test`, it runs itself as `kernels check`.

use scantling_cli as _;
use scantling_core::dtype::DType;
use scantling_core::inventory;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options, Precision};
use scantling_core::ops;
use std::process::{Command, ExitCode};

inventory::submit! {
    KernelPlugin {
        name: "wrong",
        summary: "leaves out what does not fill a register of eight",
        rank: 0,
        precision: Precision::Exact,
        make: Make::Leaf(make),
    }
}

fn make(_options: &Options) -> Result<Box<dyn Kernel>, String> {
    Ok(Box::new(Wrong))
}

struct Wrong;

impl Kernel for Wrong {
    fn name(&self) -> String {
        "wrong".to_owned()
    }

    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        if dtype != DType::F32 {
            return ops::dot(dtype, w, x);
        }
        let whole = x.len() / 8 * 8;
        ops::dot(dtype, &w[..4 * whole], &x[..whole])
    }
}

fn main() -> ExitCode {
    if std::env::args().nth(1).is_some_and(|word| word == "kernels") {
        return scantling_cli::main();
    }
    let program = std::env::current_exe().unwrap();
    let output =
        Command::new(program).args(["kernels", "check", "--quick", "--kernel", "scalar,wrong"]).output();
    let output = output.unwrap();
    let printed = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{printed}");
    assert!(printed.contains("✓ scalar") && printed.contains("✗ wrong"), "{printed}");
    // The ops made of dots miss for the one type, with the element that is furthest out; the others are told right.
    let line = |op: &str| {
        printed.lines().skip_while(|l| !l.starts_with('✗')).find(|l| l.trim_start().starts_with(op))
    };
    for (op, verdict) in [("matmul ", "FAIL"), ("dot ", "FAIL"), ("rms_norm ", "pass"), ("decode ", "pass")] {
        assert!(line(op).is_some_and(|l| l.ends_with(verdict)), "{op}\n{printed}");
    }
    assert!(line("matmul F32").is_some_and(|l| l.contains("expected")), "{printed}");
    println!("the wrong kernel is found: ok");
    ExitCode::SUCCESS
}
