//! What leaves say they take for themselves, against what they ask the allocator for.

use scantling_core::dtype::DType;
use scantling_core::kernel::{Job, Kernel, Make, Options};
use scantling_core::matrix::{Matrix, Rows, RowsMut};
use scantling_core::ops::{Attending, Linear};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

thread_local! {
    static LIVE: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

/// The system's allocator, with what each thread has of it counted.
struct Counting;

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn count(given: usize, taken: usize) {
    // Cells without a destructor: they can be reached as long as the thread runs, and never allocate.
    let live = LIVE.get().wrapping_add(given as isize).wrapping_sub(taken as isize);
    LIVE.set(live);
    PEAK.set(PEAK.get().max(live));
}

// SAFETY: every call goes to the system's allocator with the arguments that came in, and its answer goes back.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        // SAFETY: as the caller of this function has to ensure.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        count(0, layout.size());
        // SAFETY: as the caller of this function has to ensure.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Bytes that this thread had at most while it worked, beyond those before.
fn peak(work: impl FnOnce()) -> usize {
    let before = LIVE.get();
    PEAK.set(before);
    work();
    usize::try_from(PEAK.get() - before).unwrap()
}

/// All leaves that run here, with what makes them: a thread keeps what was used before.
fn leaves() -> Vec<(&'static str, Box<dyn Kernel>)> {
    let plugins = [
        scantling_kernels::AVX2,
        scantling_kernels::AVX512,
        scantling_kernels::NEON,
        scantling_kernels::AVX2_INT8,
        scantling_kernels::AVX512_INT8,
        scantling_kernels::NEON_INT8,
    ];
    let made = plugins.iter().filter_map(|plugin| match plugin.make {
        Make::Leaf(make) => Some((plugin.name, make(&Options::default()).ok()?)),
        Make::Wrapper(_) => None,
    });
    made.collect()
}

/// Holds what a kernel says against what it took: never less, and not much more where there are many rows.
#[track_caller]
fn hold(name: &str, kernel: &dyn Kernel, job: Job, rows: usize, work: impl FnOnce() + Send) {
    let took = std::thread::scope(|scope| scope.spawn(|| peak(work)).join().unwrap());
    let told = kernel.scratch(&job);
    // Lists of where tiles begin, and the like.
    assert!(took <= told + 8192, "{name}: {job:?} took {took} bytes, told {told}");
    assert!(rows < 64 || told <= took + took / 3 + 65536, "{name}: {job:?} took {took} bytes, told {told}");
}

#[test]
fn products_take_what_they_say() {
    let types = [
        DType::F32,
        DType::BF16,
        DType::F16,
        DType::Q8_0,
        DType::Q4_1,
        DType::Q4_K,
        DType::Q6_K,
        DType::IQ2_XS,
    ];
    for (name, kernel) in leaves() {
        for dtype in types {
            for (rows, cols) in [(1, 512), (4, 2048), (23, 768), (24, 768), (64, 1536), (200, 512)] {
                let outputs = 40;
                let bytes = vec![0; outputs * cols / dtype.block_elements() * dtype.block_bytes()];
                let weight = Matrix::new(dtype, outputs, cols, &bytes).unwrap();
                let (x, mut out) = (vec![0.5; rows * cols], vec![0.0; rows * outputs]);
                let (x, out) = (Rows::new(&x, rows, cols), RowsMut::new(&mut out, rows, outputs));
                hold(name, kernel.as_ref(), Job::Product { dtype, cols, rows }, rows, || {
                    kernel.matmul(Linear::plain(weight), x, out);
                });
            }
        }
    }
}

#[test]
fn attention_takes_what_it_says() {
    for (name, kernel) in leaves() {
        for (heads, kv_heads, key, value) in [(8, 2, 64, 64), (3, 3, 40, 24), (6, 1, 96, 64)] {
            for window in [None, Some(50)] {
                for (queries, positions) in [(1, 700), (8, 300), (23, 500), (24, 500), (100, 100), (100, 900)]
                {
                    let how = Attending {
                        heads,
                        kv_heads,
                        key,
                        value,
                        scale: 0.1,
                        start: positions - queries,
                        causal: true,
                        window,
                        softcap: None,
                        sinks: None,
                    };
                    let q = vec![0.1; queries * heads * key];
                    let (k, v) =
                        (vec![0; positions * kv_heads * key * 2], vec![0; positions * kv_heads * value * 2]);
                    let k = Matrix::new(DType::F16, positions, kv_heads * key, &k).unwrap();
                    let v = Matrix::new(DType::F16, positions, kv_heads * value, &v).unwrap();
                    let mut out = vec![0.0; queries * heads * value];
                    let q = Rows::new(&q, queries, heads * key);
                    let out = RowsMut::new(&mut out, queries, heads * value);
                    let job = Job::Attention { how, queries, positions };
                    hold(name, kernel.as_ref(), job, if window.is_none() { queries } else { 1 }, || {
                        kernel.attention(q, k, v, how, out);
                    });
                }
            }
        }
    }
}
