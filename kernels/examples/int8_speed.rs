//! How fast the kernels with activations of 8 bits are, beside a plain read of the same memory:
//!
//! ```sh
//! GLIBC_TUNABLES=glibc.malloc.hugetlb=1 cargo run -p scantling-kernels --profile quick --example int8_speed -- Q4_K
//! ```
//!
//! One thread. Each figure is the best of many short repetitions that alternate with the read, and the last
//! column the median of the ratios of neighbours.
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
    println!("{:8} {:>5} {:>9} {:>9} {:>9} {:>9}", "type", "rows", "ms", "GB/s", "GOP/s", "of read");
    for dtype in DType::all().filter(|t| wanted.iter().any(|w| *w == t.to_string())) {
        let row_bytes = COLS / dtype.block_elements() * dtype.block_bytes();
        let rows = BYTES / row_bytes;
        // Bytes below 0x3c make scales in f16 that are finite.
        let raw: Vec<u8> =
            (0..rows * row_bytes).map(|i| (i.wrapping_mul(2_654_435_761) >> 7) as u8 % 0x3c).collect();
        for (m, rows) in
            [(1, rows), (2, rows / 4), (4, rows / 8), (7, rows / 16), (8, rows / 16), (64, 1024), (512, 512)]
        {
            let weight = Matrix::new(dtype, rows, COLS, &raw[..rows * row_bytes]).expect("whole rows");
            time(&*kernel, weight, m, if m == 1 { 15 } else { 7 });
        }
    }
}

fn time(kernel: &dyn Kernel, weight: Matrix<'_>, m: usize, repetitions: usize) {
    let x: Vec<f32> = (0..m * COLS).map(|i| (i % 97) as f32 / 48.0 - 1.0).collect();
    let mut out = RowsBuf::zeros(m, weight.rows());
    let (mut best, mut ratios) = (f64::MAX, Vec::new());
    for _ in 0..repetitions {
        let start = Instant::now();
        kernel.matmul(Linear::plain(weight), Rows::new(&x, m, COLS), out.view_mut());
        let took = start.elapsed().as_secs_f64();
        let start = Instant::now();
        std::hint::black_box(kernel.sweep(weight.data()));
        ratios.push(start.elapsed().as_secs_f64() / took);
        best = best.min(took);
    }
    ratios.sort_by(f64::total_cmp);
    let operations = 2.0 * (m * weight.rows() * COLS) as f64;
    println!(
        "{:8} {m:5} {:9.2} {:9.2} {:9.1} {:8.0}%",
        weight.dtype().to_string(),
        1e3 * best,
        weight.data().len() as f64 / best / 1e9,
        operations / best / 1e9,
        100.0 * ratios[ratios.len() / 2]
    );
}
