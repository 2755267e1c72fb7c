//! A kernel of scantling behind the lines of `protocol.h`. The setting is the kernel's specification (`avx2`,
//! `rayon+avx2-int8`), with `:heap` behind it if the weights are to be read into memory of their own rather than
//! used where the file is mapped.

// Linked for the plugins they register.
use scantling_architectures as _;
use scantling_formats as _;
use scantling_kernels as _;

use scantling_core::bundle::File;
use scantling_core::dtype::DType;
use scantling_core::kernel::{Kernel, Options};
use scantling_core::matrix::{Matrix, Rows, RowsBuf};
use scantling_core::ops::Linear;
use scantling_core::paging::{self, Prepared};
use scantling_core::registry::{Registry, Work};
use scantling_peers::{OUTPUTS, Peer, Task, serve};
use std::process::ExitCode;
use std::sync::Arc;

struct Scantling {
    task: Task,
    dtype: DType,
    kernel: Box<dyn Kernel>,
    weights: Arc<File>,
    pages: Prepared,
    rows: usize,
    out: RowsBuf,
    outputs: Vec<Vec<f32>>,
}

impl Scantling {
    fn load(task: Task) -> Result<Scantling, String> {
        let dtype = DType::all()
            .find(|d| d.name().eq_ignore_ascii_case(&task.dtype))
            .ok_or_else(|| format!("there is no element type {}", task.dtype))?;
        let (spec, heap) = match task.setting.strip_suffix(":heap") {
            Some(spec) => (spec, true),
            None => (task.setting.as_str(), false),
        };
        let registry = Registry::linked().map_err(|e| e.to_string())?;
        let options = Options { threads: task.threads };
        let kernel = registry.kernel(spec, Work::Fast, &options).map_err(|e| e.to_string())?;
        let weights = match heap {
            true => std::fs::read(&task.weights)
                .map(|raw| File::from_bytes("weights", raw))
                .map_err(|e| format!("{}: {e}", task.weights))?,
            false => File::on_disk("weights", &task.weights).map_err(|e| e.to_string())?,
        };
        // As a run does, and before anything has read the file.
        let weights = Arc::new(weights);
        let pages = paging::prepare(std::slice::from_ref(&weights)).map_err(|e| e.to_string())?;
        let loaded = Scantling {
            task,
            dtype,
            kernel,
            weights,
            pages,
            rows: 0,
            out: RowsBuf::zeros(0, 0),
            outputs: vec![Vec::new(); OUTPUTS],
        };
        for matrix in 0..loaded.task.count {
            loaded.matrix(matrix)?;
        }
        Ok(loaded)
    }

    fn raw(&self, matrix: usize) -> Result<&[u8], String> {
        let each = self.dtype.byte_len(&[self.task.out, self.task.inputs]).map_err(|e| e.to_string())?;
        self.weights.bytes(matrix as u64 * each..(matrix as u64 + 1) * each).map_err(|e| e.to_string())
    }

    fn matrix(&self, matrix: usize) -> Result<Matrix<'_>, String> {
        Matrix::new(self.dtype, self.task.out, self.task.inputs, self.raw(matrix)?).map_err(|e| e.to_string())
    }
}

impl Peer for Scantling {
    fn prepare(&mut self, rows: usize) -> Result<(), String> {
        if self.task.activations.len() < rows * self.task.inputs {
            return Err("too few activations".into());
        }
        if rows != self.rows {
            self.rows = rows;
            self.out = RowsBuf::zeros(rows, self.task.out);
        }
        Ok(())
    }

    fn multiply(&mut self, matrix: usize) -> Result<(), String> {
        let mut out = std::mem::replace(&mut self.out, RowsBuf::zeros(0, 0));
        let (rows, inputs) = (self.rows, self.task.inputs);
        let x = Rows::new(&self.task.activations[..rows * inputs], rows, inputs);
        self.kernel.matmul(Linear::plain(self.matrix(matrix)?), x, out.view_mut());
        self.out = out;
        Ok(())
    }

    fn product(&mut self) -> Result<Vec<f32>, String> {
        Ok(self.out.data().to_vec())
    }

    fn prepare_widening(&mut self) {
        for output in &mut self.outputs {
            output.resize(self.task.out * self.task.inputs, 0.0);
        }
    }

    fn widen(&mut self, matrix: usize, output: usize) -> Result<(), String> {
        let mut out = std::mem::take(&mut self.outputs[output]);
        let done = self.kernel.decode(self.dtype, self.raw(matrix)?, &mut out);
        self.outputs[output] = out;
        done.map_err(|e| e.to_string())
    }

    fn widened(&mut self, output: usize) -> Result<Vec<f32>, String> {
        Ok(self.outputs[output].clone())
    }
}

fn main() -> ExitCode {
    let served = Task::from_args().and_then(|task| {
        let count = task.count;
        let mut peer = Scantling::load(task)?;
        let huge = peer.pages.huge_share().map_or("?".into(), |share| format!("{:.0} %", 100.0 * share));
        eprintln!("  {}: {huge} of the weights on huge pages", peer.kernel.name());
        let about = format!("scantling {}", peer.kernel.name());
        serve(&mut peer, count, &about)
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("none: {why}");
            ExitCode::SUCCESS
        }
    }
}
