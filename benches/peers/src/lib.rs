//! The lines that every harness here understands (see `protocol.h`), for those written in Rust.

use std::fs;
use std::io::{BufRead, Write};
use std::time::Instant;

/// What a harness was asked to hold: `count` matrices `[out, inputs]` of an element type in one file.
#[derive(Clone, Debug)]
pub struct Task {
    /// Element type, as its users write it.
    pub dtype: String,
    /// Rows of a matrix, the outputs of a product.
    pub out: usize,
    /// Columns of a matrix.
    pub inputs: usize,
    /// Matrices in the file.
    pub count: usize,
    /// The file of matrices.
    pub weights: String,
    /// Rows of `inputs` numbers.
    pub activations: Vec<f32>,
    /// Threads to use.
    pub threads: usize,
    /// Whatever the harness lets one choose.
    pub setting: String,
}

impl Task {
    /// From the arguments of the process.
    pub fn from_args() -> Result<Task, String> {
        let args: Vec<String> = std::env::args().skip(1).collect();
        let [dtype, out, inputs, count, weights, activations, threads, setting] = args.as_slice() else {
            return Err("usage: TYPE OUT IN COUNT WEIGHTS ACTIVATIONS THREADS SETTING".into());
        };
        let number = |s: &String| s.parse::<usize>().map_err(|e| format!("{s}: {e}"));
        let raw = fs::read(activations).map_err(|e| format!("{activations}: {e}"))?;
        Ok(Task {
            dtype: dtype.clone(),
            out: number(out)?,
            inputs: number(inputs)?,
            count: number(count)?,
            weights: weights.clone(),
            activations: floats(&raw),
            threads: number(threads)?,
            setting: setting.clone(),
        })
    }
}

/// Raw little-endian f32.
fn floats(raw: &[u8]) -> Vec<f32> {
    raw.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect()
}

/// Buffers that widened matrices are written to in turn, larger together than any cache.
pub const OUTPUTS: usize = 8;

/// A library that multiplies.
pub trait Peer {
    /// Makes ready for products of that many rows, outside of what is timed.
    fn prepare(&mut self, rows: usize) -> Result<(), String>;
    /// The product of the prepared rows with a matrix.
    fn multiply(&mut self, matrix: usize) -> Result<(), String>;
    /// What the last product made.
    fn product(&mut self) -> Result<Vec<f32>, String>;
    /// Makes ready for widening, outside of what is timed: memory that was never used before is slow to write to.
    fn prepare_widening(&mut self) {}
    /// Widens a matrix to f32, into one of [`OUTPUTS`] buffers; says so if it cannot.
    fn widen(&mut self, matrix: usize, output: usize) -> Result<(), String>;
    /// What was last written to an output.
    fn widened(&mut self, output: usize) -> Result<Vec<f32>, String>;
}

/// Obeys standard input until it ends. `about` says what was loaded.
pub fn serve(peer: &mut dyn Peer, count: usize, about: &str) -> Result<(), String> {
    let say = |line: &str| {
        let mut out = std::io::stdout().lock();
        writeln!(out, "{line}").and_then(|()| out.flush()).map_err(|e| format!("standard output: {e}"))
    };
    say(&format!("ready {about}"))?;
    let mut next = 0;
    for line in std::io::stdin().lock().lines() {
        let line = line.map_err(|e| format!("standard input: {e}"))?;
        match obey(peer, count, &mut next, &line) {
            Ok(answer) => say(&answer)?,
            Err(why) => say(&format!("none: {why}"))?,
        }
    }
    Ok(())
}

fn obey(peer: &mut dyn Peer, count: usize, next: &mut usize, line: &str) -> Result<String, String> {
    let number = |s: &str| s.parse::<usize>().map_err(|e| format!("{s}: {e}"));
    match line.split_whitespace().collect::<Vec<_>>().as_slice() {
        ["matmul", rows, calls, groups] => {
            peer.prepare(number(rows)?)?;
            timed(number(calls)?, number(groups)?, || {
                let matrix = *next;
                *next = (matrix + 1) % count;
                peer.multiply(matrix)
            })
        }
        ["decode", calls, groups] => {
            peer.prepare_widening();
            timed(number(calls)?, number(groups)?, || {
                let matrix = *next;
                *next = (matrix + 1) % count;
                peer.widen(matrix, matrix % OUTPUTS)
            })
        }
        ["write", "matmul", rows, path] => {
            peer.prepare(number(rows)?)?;
            peer.multiply(0)?;
            write(path, &peer.product()?)
        }
        ["write", "decode", path] => {
            peer.prepare_widening();
            peer.widen(0, 0)?;
            write(path, &peer.widened(0)?)
        }
        _ => Err(format!("not understood: {line}")),
    }
}

/// Nanoseconds that one call took on average, for each group.
fn timed(
    calls: usize,
    groups: usize,
    mut call: impl FnMut() -> Result<(), String>,
) -> Result<String, String> {
    let mut answer = String::new();
    for _ in 0..groups {
        let start = Instant::now();
        for _ in 0..calls {
            call()?;
        }
        answer += &format!("{:.1} ", start.elapsed().as_nanos() as f64 / calls as f64);
    }
    Ok(answer)
}

fn write(path: &str, values: &[f32]) -> Result<String, String> {
    let raw: Vec<u8> = values.iter().flat_map(|v| v.to_le_bytes()).collect();
    fs::write(path, raw).map_err(|e| format!("{path}: {e}"))?;
    Ok("done".into())
}
