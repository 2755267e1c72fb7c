//! How fast the kernels with activations of 8 bits are, beside a plain read of the same memory:
//!
//! ```sh
//! GLIBC_TUNABLES=glibc.malloc.hugetlb=1 cargo run -p scantling-kernels --profile quick --example int8_speed -- Q4_K
//! ```
//!
//! One thread. Each repetition takes about a millisecond and alternates with a read of other weights, so that the
//! best of many is right on a busy machine too; with one row of activations every repetition takes weights that
//! have not been used for long.
#![allow(clippy::print_stdout)] // it is a report

use scantling_core::dtype::DType;
use scantling_core::kernel::{Kernel, Make, Options};
use scantling_core::matrix::{Matrix, Rows, RowsBuf};
use scantling_core::ops::Linear;
use std::time::Instant;

const COLS: usize = 4096;
/// Far more than the caches hold.
const BYTES: usize = 256 << 20;

fn main() {
    let wanted: Vec<String> = std::env::args().skip(1).collect();
    let Make::Leaf(make) = scantling_kernels::AVX2_INT8.make else { unreachable!("it is a leaf") };
    let kernel = match make(&Options::default()) {
        Ok(kernel) => kernel,
        Err(why) => return println!("cannot run here: {why}"),
    };
    println!("type      rows        ms      GB/s read GB/s  of read    GOP/s");
    for dtype in DType::all().filter(|t| wanted.iter().any(|w| *w == t.to_string())) {
        let row_bytes = COLS / dtype.block_elements() * dtype.block_bytes();
        let rows = BYTES / row_bytes;
        // Bytes below 0x3c make scales in f16 that are finite.
        let raw: Vec<u8> =
            (0..rows * row_bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8 % 0x3c).collect();
        for (m, outputs) in [(1, 1024), (2, 512), (4, 256), (7, 160), (8, 160), (16, 96), (64, 32), (512, 16)]
        {
            time(&*kernel, Matrix::new(dtype, rows, COLS, &raw).expect("whole rows"), m, outputs);
        }
    }
}

fn time(kernel: &dyn Kernel, weight: Matrix<'_>, m: usize, outputs: usize) {
    let x: Vec<f32> = (0..m * COLS).map(|i| (i % 97) as f32 / 48.0 - 1.0).collect();
    let mut out = RowsBuf::zeros(m, outputs);
    let (mut best, mut read) = (f64::MAX, f64::MAX);
    for repetition in 0..200 {
        let part = weight_part(weight, 2 * repetition, outputs);
        let start = Instant::now();
        kernel.matmul(Linear::plain(part), Rows::new(&x, m, COLS), out.view_mut());
        best = best.min(start.elapsed().as_secs_f64());
        let part = weight_part(weight, 2 * repetition + 1, outputs);
        let start = Instant::now();
        std::hint::black_box(kernel.sweep(part.data()));
        read = read.min(start.elapsed().as_secs_f64());
    }
    let operations = 2.0 * (m * outputs * COLS) as f64;
    let bytes = (outputs * weight.row_bytes()) as f64;
    println!(
        "{:8} {m:5} {:9.3} {:9.2} {:9.2} {:8.0}% {:9.1}",
        weight.dtype().to_string(),
        1e3 * best,
        bytes / best / 1e9,
        bytes / read / 1e9,
        100.0 * read / best,
        operations / best / 1e9,
    );
}

/// Some rows of a matrix, others each time until all have had their turn.
fn weight_part(weight: Matrix<'_>, turn: usize, outputs: usize) -> Matrix<'_> {
    let first = turn % (weight.rows() / outputs) * outputs;
    weight.rows_at(first..first + outputs)
}
