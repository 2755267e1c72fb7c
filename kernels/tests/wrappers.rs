//! What holds of every wrapper: nothing is lost on the way to the kernel within, and its bits stay the same.

mod leaves;

use scantling_core::conformance::{self, Scale};
use scantling_core::dtype::DType;
use scantling_core::kernel::{Kernel, KernelPlugin, Make, Options, Precision};
use scantling_core::matrix::{Matrix, Rows, RowsBuf, RowsMut};
use scantling_core::ops::{self, Activation, Attending, Linear, Pairing, Rotation, Routing, Scoring};
use scantling_core::quant::DecodeError;
use scantling_core::stats::piece::tally_by;
use scantling_core::stats::tally::Tally;
use scantling_kernels::{PROFILE, RAYON, VERIFY};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use std::thread::{self, ThreadId};

fn wrap(plugin: &KernelPlugin, inner: Box<dyn Kernel>, threads: usize) -> Box<dyn Kernel> {
    match plugin.make {
        Make::Wrapper(make) => make(inner, &Options { threads }),
        Make::Leaf(_) => panic!("{} is no wrapper", plugin.name),
    }
}

/// Which ops reached it, and on which threads.
type Calls = Arc<Mutex<BTreeMap<&'static str, Vec<ThreadId>>>>;

/// Overrides every op, and notes that it was asked.
struct Recorder(Calls);

/// Overrides of the listed ops that note the call and do what the definition does.
macro_rules! recorded {
    ($($op:ident($($arg:ident: $type:ty),*) $(-> $result:ty)? = $definition:expr;)*) => {
        impl Kernel for Recorder {
            fn name(&self) -> String {
                "recorder".into()
            }

            fn precision(&self) -> Precision {
                Precision::Quantised { block: 7 }
            }

            fn report(&self) -> Vec<String> {
                vec!["recorded".into()]
            }

            $(fn $op(&self, $($arg: $type),*) $(-> $result)? {
                self.0.lock().unwrap().entry(stringify!($op)).or_default().push(thread::current().id());
                $definition
            })*
        }
    };
}

recorded! {
    decode(dtype: DType, raw: &[u8], out: &mut [f32]) -> Result<(), DecodeError> =
        scantling_core::quant::decode(dtype, raw, out);
    tally(dtype: DType, raw: &[u8]) -> Result<Tally, DecodeError> =
        tally_by(dtype, raw, |raw, out| scantling_core::quant::decode(dtype, raw, out));
    dot(dtype: DType, w: &[u8], x: &[f32]) -> f32 = ops::dot(dtype, w, x);
    matmul(linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) = ops::matmul::<f32>(linear, x, out);
    matmuls(linears: &[Linear<'_>], x: Rows<'_>, outs: Vec<RowsMut<'_>>) =
        linears.iter().zip(outs).for_each(|(linear, out)| ops::matmul::<f32>(*linear, x, out));
    embed(w: Matrix<'_>, ids: &[u32], out: RowsMut<'_>) = ops::embed(w, ids, out);
    rms_norm(x: RowsMut<'_>, weight: &[f32], eps: f32) = ops::rms_norm::<f32>(x, weight, eps);
    layer_norm(x: RowsMut<'_>, weight: &[f32], bias: &[f32], eps: f32) =
        ops::layer_norm::<f32>(x, weight, bias, eps);
    rope(x: RowsMut<'_>, rotation: &Rotation) = ops::rope::<f32>(x, rotation);
    attention(q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, out: RowsMut<'_>) =
        ops::attention::<f32>(q, k, v, how, out);
    activate(activation: Activation, x: RowsMut<'_>) = ops::activate::<f32>(activation, x);
    gate(activation: Activation, gate: RowsMut<'_>, up: Rows<'_>) = ops::gate::<f32>(activation, gate, up);
    add(x: RowsMut<'_>, y: Rows<'_>, factor: f32) = ops::add::<f32>(x, y, factor);
    scale(x: RowsMut<'_>, factor: f32) = ops::scale::<f32>(x, factor);
    softcap(x: RowsMut<'_>, cap: f32) = ops::softcap::<f32>(x, cap);
    saturate(rounds: u64) -> u64 = ops::saturate(rounds);
    sweep(data: &[u8]) -> u64 = ops::sweep(data);
    route(logits: Rows<'_>, how: Routing<'_>) -> Vec<(usize, f32)> = ops::route::<f32>(logits, how);
}

/// Numbers that look random.
fn numbers(n: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..n).map(|_| next()).collect()
}

/// Numbers of which every op on `size` rows makes something: enough for the work to be cut, if `size` is large.
struct Input {
    rows: usize,
    weights: Vec<u8>,
    x: RowsBuf,
    bias: Vec<f32>,
}

const OUT: usize = 300;
const IN: usize = 256;

impl Input {
    fn new(rows: usize) -> Input {
        let bytes = |values: Vec<f32>| values.iter().flat_map(|x| x.to_le_bytes()).collect();
        let x = numbers(rows * IN, 3);
        Input {
            rows,
            weights: bytes(numbers(OUT * IN, 1)),
            x: RowsBuf::copy_of(Rows::new(&x, rows, IN)),
            bias: numbers(OUT, 2),
        }
    }

    fn matrix(&self) -> Matrix<'_> {
        Matrix::new(DType::F32, OUT, IN, &self.weights).unwrap()
    }

    /// All numbers that every op gives, by its name.
    fn all(&self, kernel: &dyn Kernel) -> BTreeMap<&'static str, Vec<f32>> {
        let mut all = BTreeMap::new();
        self.stored(kernel, &mut all);
        self.changed(kernel, &mut all);
        let logits = self.x.view().cols_at(0..64);
        let how = Routing {
            used: 4,
            scoring: Scoring::Softmax,
            bias: None,
            groups: None,
            normalise: true,
            scale: 1.0,
        };
        let routed = kernel.route(logits, how);
        all.insert("route", routed.iter().flat_map(|(e, w)| [*e as f32, *w]).collect());
        assert!(kernel.saturate(10) > 0);
        kernel.sweep(&self.weights);
        all
    }

    fn stored(&self, kernel: &dyn Kernel, all: &mut BTreeMap<&'static str, Vec<f32>>) {
        let (w, x) = (self.matrix(), self.x.view());
        let linear = Linear { weight: w, bias: Some(&self.bias), scale: 0.5 };
        let mut out = vec![0.0; OUT * IN];
        kernel.decode(DType::F32, &self.weights, &mut out).unwrap();
        all.insert("decode", out);
        let tally = kernel.tally(DType::F32, &self.weights).unwrap();
        all.insert("tally", vec![tally.count as f32, tally.mean as f32, tally.spread as f32]);
        all.insert("dot", vec![kernel.dot(DType::F32, w.row(1), &self.bias[..IN])]);
        all.insert("matmul", kernel.project(linear, x).data().to_vec());
        let mut outs = [RowsBuf::zeros(self.rows, OUT), RowsBuf::zeros(self.rows, 5)];
        let linears = [linear, Linear::plain(w.rows_at(3..8))];
        kernel.matmuls(&linears, x, outs.iter_mut().map(RowsBuf::view_mut).collect());
        all.insert("matmuls", outs.iter().flat_map(|o| o.data().to_vec()).collect());
        let ids: Vec<u32> = (0..self.rows as u32).map(|i| i * 7 % OUT as u32).collect();
        all.insert("embed", kernel.embedded(w, &ids).data().to_vec());
        let sinks = numbers(6, 9);
        let how = Attending {
            heads: 6,
            kv_heads: 3,
            key: 32,
            value: 16,
            scale: 0.2,
            start: OUT - self.rows.min(OUT),
            causal: true,
            window: Some(100),
            softcap: Some(3.0),
            sinks: Some(&sinks),
        };
        let (k, v) = (w.cols_at(0..96), w.cols_at(100..148));
        all.insert("attention", kernel.attended(x.cols_at(0..192), k, v, how).data().to_vec());
    }

    fn changed(&self, kernel: &dyn Kernel, all: &mut BTreeMap<&'static str, Vec<f32>>) {
        let x = self.x.view();
        let mut change = |name, op: &dyn Fn(RowsMut<'_>)| {
            let mut out = RowsBuf::copy_of(x);
            op(out.view_mut());
            all.insert(name, out.data().to_vec());
        };
        let weight = &self.bias[..64];
        let frequencies: Vec<f64> = (1..=16).map(|i| 1.0 / f64::from(i)).collect();
        let rotation = Rotation::new(&frequencies, 1.0, 5, self.rows, Pairing::Halves, 64);
        let gelu = Activation::GeluTanh;
        change("rms_norm", &|x| kernel.rms_norm(x, weight, 1e-5));
        change("layer_norm", &|x| kernel.layer_norm(x, &self.bias[..IN], &self.bias[1..IN + 1], 1e-5));
        change("rope", &|x| kernel.rope(x, &rotation));
        change("activate", &|x| kernel.activate(Activation::Silu, x));
        change("gate", &|y| kernel.gate(gelu, y, x));
        change("add", &|y| kernel.add(y, x, 0.3));
        change("scale", &|x| kernel.scale(x, 0.7));
        change("softcap", &|x| kernel.softcap(x, 0.9));
    }
}

/// Ops of the trait, as its text has them.
fn ops_of_the_trait() -> Vec<&'static str> {
    let source = include_str!("../../core/src/kernel.rs");
    let body = source.split_once("pub trait Kernel").unwrap().1.split_once("\n}").unwrap().0;
    let methods = body.lines().filter_map(|l| l.strip_prefix("    fn ")?.split(['(', '<']).next());
    let mut ops: Vec<&str> = methods
        .filter(|m| {
            !["name", "base", "precision", "threads", "report", "label", "scratch", "distance"].contains(m)
        })
        .collect();
    ops.sort_unstable();
    ops
}

/// Exactly the op that was asked for reaches the kernel within: none is lost, none made of others on the way. This
/// fails when the trait gains an op, until it is called here too.
#[test]
fn every_op_reaches_the_kernel_within() {
    for plugin in [&RAYON, &VERIFY, &PROFILE] {
        for rows in [1, 200] {
            let calls = Calls::default();
            let kernel = wrap(plugin, Box::new(Recorder(Arc::clone(&calls))), 3);
            assert_eq!(kernel.name(), format!("{}+recorder", plugin.name));
            assert_eq!(kernel.precision(), Precision::Quantised { block: 7 });
            assert!(kernel.report().contains(&"recorded".to_owned()), "{}", plugin.name);
            let input = Input::new(rows);
            assert_eq!(input.all(&*kernel), input.all(&Recorder(Calls::default())), "{}", plugin.name);
            let reached: Vec<&str> = calls.lock().unwrap().keys().copied().collect();
            assert_eq!(reached, ops_of_the_trait(), "{} with {rows} rows", plugin.name);
        }
    }
}

/// With much to do, every op that can be cut is, and the caller works too.
#[test]
fn work_is_spread_over_as_many_threads_as_asked_for() {
    let calls = Calls::default();
    let kernel = wrap(&RAYON, Box::new(Recorder(Arc::clone(&calls))), 3);
    assert_eq!(kernel.threads(), 3);
    assert_eq!(wrap(&VERIFY, kernel, 1).threads(), 3, "a wrapper tells what it wraps");
    let kernel = wrap(&RAYON, Box::new(Recorder(Arc::clone(&calls))), 3);
    Input::new(200).all(&*kernel);
    for (op, threads) in calls.lock().unwrap().iter() {
        let pieces = threads.len();
        match *op {
            "dot" | "route" | "tally" => assert_eq!(pieces, 1, "{op}"),
            "attention" => assert!(pieces >= 3, "{op}: {pieces} pieces"),
            _ => assert_eq!(pieces, 3, "{op}: one piece to a thread"),
        }
        assert!(threads.contains(&thread::current().id()), "{op}: the caller does its part");
    }
}

/// One row of little work is not worth waking anyone.
#[test]
fn little_work_stays_on_the_thread_that_asked() {
    let calls = Calls::default();
    let kernel = wrap(&RAYON, Box::new(Recorder(Arc::clone(&calls))), 3);
    let input = Input::new(1);
    kernel.project(Linear::plain(input.matrix().rows_at(0..20)), input.x.view());
    kernel.scale(input.x.clone().view_mut(), 2.0);
    for threads in calls.lock().unwrap().values() {
        assert_eq!(*threads, [thread::current().id()]);
    }
}

/// A leaf by its name, anew.
fn leaf(name: &str) -> Box<dyn Kernel> {
    leaves::usable().into_iter().find(|(plugin, _)| plugin.name == name).unwrap().1
}

fn bits(all: &BTreeMap<&'static str, Vec<f32>>) -> BTreeMap<&'static str, Vec<u32>> {
    all.iter().map(|(op, values)| (*op, values.iter().map(|x| x.to_bits()).collect())).collect()
}

#[test]
fn any_number_of_threads_gives_the_same_bits() {
    for (KernelPlugin { name, .. }, leaf) in leaves::usable() {
        let inputs = [1, 3, 33, 200].map(Input::new);
        let alone: Vec<_> = inputs.iter().map(|input| bits(&input.all(&*leaf))).collect();
        for threads in [1, 2, 3, 7] {
            let spread = wrap(&RAYON, self::leaf(name), threads);
            for (input, alone) in inputs.iter().zip(&alone) {
                for (op, found) in bits(&input.all(&*spread)) {
                    assert!(found == alone[op], "{op} of {name}, {} rows, {threads} threads", input.rows);
                }
            }
        }
    }
}

/// Products of every element type and of many shapes, in pieces of every number.
#[test]
fn every_type_gives_the_same_bits_on_any_number_of_threads() {
    for (KernelPlugin { name, .. }, leaf) in leaves::usable() {
        let spread = [2, 3, 7].map(|threads| wrap(&RAYON, self::leaf(name), threads));
        for dtype in DType::all().filter(|d| d.codec().is_some() && d.block_values() == d.block_elements()) {
            let cols = 512usize.next_multiple_of(dtype.block_elements());
            let row = cols / dtype.block_elements() * dtype.block_bytes();
            // Any bytes will do: what is no number in one is none in the other.
            let raw: Vec<u8> = numbers(270 * row, 5).iter().map(|x| (x * 1e4) as i32 as u8 & 0x3f).collect();
            let w = Matrix::new(dtype, 270, cols, &raw).unwrap();
            for rows in [1, 2, 5] {
                let x = numbers(rows * cols, 6);
                let x = Rows::new(&x, rows, cols);
                let alone = leaf.project(Linear::plain(w), x);
                for spread in &spread {
                    let found = spread.project(Linear::plain(w), x);
                    let same = |(a, b): (&f32, &f32)| a.to_bits() == b.to_bits() || a.is_nan() && b.is_nan();
                    assert!(
                        found.data().iter().zip(alone.data()).all(same),
                        "{dtype}, {rows} rows, {}",
                        spread.name()
                    );
                }
            }
        }
    }
}

#[test]
fn a_wrapped_kernel_still_conforms() {
    let cases = conformance::generated(Scale::Quick);
    for (plugin, threads) in [(&RAYON, 3), (&VERIFY, 1), (&PROFILE, 1)] {
        let kernel = wrap(plugin, leaf("scalar"), threads);
        for case in &cases {
            let row = conformance::run(case, &*kernel);
            assert!(row.pass, "{}: {row}", kernel.name());
        }
        if plugin.name == "verify" {
            let report = kernel.report();
            assert!(report[0].ends_with("ops, all within their bounds"), "{report:?}");
        }
    }
}

/// Gets the last output of products with Q8_0 wrong, and the gate of the second row.
struct Slips;

impl Kernel for Slips {
    fn name(&self) -> String {
        "slips".into()
    }

    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, mut out: RowsMut<'_>) {
        ops::matmul::<f32>(linear, x, out.reborrow());
        if linear.weight.dtype() == DType::Q8_0 {
            *out.row(1).last_mut().unwrap() += 0.5;
        }
    }

    fn gate(&self, activation: Activation, mut gate: RowsMut<'_>, up: Rows<'_>) {
        ops::gate::<f32>(activation, gate.reborrow(), up);
        gate.row(1)[7] = f32::NAN;
    }
}

#[test]
fn verify_names_the_first_op_that_goes_wrong() {
    let input = Input::new(3);
    let kernel = wrap(&VERIFY, Box::new(Slips), 1);
    let raw: Vec<u8> =
        (0..5 * 8 * 34).map(|i| if i % 34 < 2 { 0x20 } else { (i * 31 % 251) as u8 }).collect();
    let w = Matrix::new(DType::Q8_0, 5, IN, &raw).unwrap();
    kernel.project(Linear::plain(input.matrix()), input.x.view());
    assert_eq!(kernel.report(), ["verify: 1 ops, all within their bounds"]);
    kernel.project(Linear::plain(w), input.x.view());
    kernel.gate(Activation::Silu, input.x.clone().view_mut(), input.x.view());
    kernel.scale(input.x.clone().view_mut(), 2.0);
    let report = kernel.report();
    let [line] = &report[..] else { panic!("{report:?}") };
    assert!(
        line.starts_with("verify: 2 of 4 ops beyond their bounds; first: matmul of Q8_0 [5, 256]"),
        "{line}"
    );
    assert!(line.contains("row 1, column 4 is "), "{line}");

    let kernel = wrap(&PROFILE, wrap(&VERIFY, Box::new(Slips), 1), 1);
    kernel.label(&raw, "blk.3.ffn_up.weight");
    kernel.project(Linear::plain(w.rows_at(2..5)), input.x.view());
    let work = &kernel.report()[1];
    assert!(work.contains("matmul blk.*.ffn_up.weight Q8_0 [3, 256]"), "all layers as one: {work}");
    let line = kernel.report().pop().unwrap();
    assert!(line.contains("first: matmul of blk.3.ffn_up.weight (Q8_0 [3, 256]) with 3 rows"), "{line}");

    let kernel = wrap(&VERIFY, Box::new(Slips), 1);
    kernel.gate(Activation::Silu, input.x.clone().view_mut(), input.x.view());
    let line = &kernel.report()[0];
    assert!(line.contains("first: gate of [3, 256], the 1. op: row 1, column 7 is NaN, expected "), "{line}");
}

#[test]
fn profile_tells_calls_and_rates_by_op_and_matrix() {
    let input = Input::new(3);
    let kernel = wrap(&PROFILE, Box::new(Recorder(Calls::default())), 1);
    for _ in 0..4 {
        kernel.project(Linear::plain(input.matrix()), input.x.view());
    }
    kernel.project(Linear::plain(input.matrix().rows_at(0..9)), input.x.view());
    kernel.scale(input.x.clone().view_mut(), 2.0);
    let report = kernel.report();
    let words = |what: &str| -> Vec<String> {
        let line = report.iter().find(|l| l.contains(what)).unwrap_or_else(|| panic!("{what}: {report:#?}"));
        line.split_once(what).unwrap().1.split_whitespace().map(str::to_owned).collect()
    };
    let large = words("matmul F32 [300, 256]");
    let number = |text: &str| text.trim_end_matches('%').parse::<f64>().unwrap();
    assert_eq!((large[0].as_str(), words("matmul F32 [9, 256]")[0].as_str()), ("4", "1"));
    assert_eq!(words("scale")[3..], ["-".to_owned(), words("scale")[4].clone()], "reads nothing stored");
    let (ms, gigabytes, gigaflops) = (number(&large[1]), number(&large[3]), number(&large[4]));
    // Two for each weight and row, four calls; the weights once a call. The report rounds.
    let near = |rate: f64, count: usize| {
        (rate * ms * 1e6 - count as f64).abs() <= 0.02 * ms * 1e6 + 0.1 * count as f64
    };
    assert!(near(gigaflops, 4 * 2 * 3 * OUT * IN) && near(gigabytes, 4 * 4 * OUT * IN), "{report:#?}");
    let shares: f64 = ["[300, 256]", "[9, 256]", "scale"].map(|w| number(&words(w)[2])).iter().sum();
    assert!((shares - 100.0).abs() < 0.5 && words("total")[0] == "6", "{report:#?}");
}

struct Panics;

impl Kernel for Panics {
    fn name(&self) -> String {
        "panics".into()
    }

    fn matmul(&self, linear: Linear<'_>, _: Rows<'_>, _: RowsMut<'_>) {
        // Only in the last piece, which is on another thread.
        assert!(linear.bias.is_none_or(|b| b.last() != Some(&7.0)), "the last piece");
    }
}

#[test]
fn a_panic_on_another_thread_comes_back_and_leaves_the_threads_usable() {
    let kernel = wrap(&RAYON, Box::new(Panics), 3);
    let mut input = Input::new(9);
    input.bias[OUT - 1] = 7.0;
    for _ in 0..3 {
        let linear = Linear { weight: input.matrix(), bias: Some(&input.bias), scale: 1.0 };
        let run = std::panic::AssertUnwindSafe(|| kernel.project(linear, input.x.view()));
        let panic = std::panic::catch_unwind(run).unwrap_err();
        assert_eq!(panic.downcast_ref::<&str>(), Some(&"the last piece"));
    }
    kernel.project(Linear::plain(input.matrix()), input.x.view());
}
