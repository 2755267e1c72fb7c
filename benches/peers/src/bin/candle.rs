//! candle's CPU products behind the lines of `protocol.h`: its quantised matmul for ggml's types, its dense one for
//! f32, f16 and bf16 (the activations in the same type, as a model in that type has them). The one setting is
//! `plain`. Threads are those of rayon's global pool, which candle takes from `RAYON_NUM_THREADS`.

use candle_core::quantized::{GgmlDType, QMatMul, QTensor, ggml_file};
use candle_core::{DType, Device, Module, Tensor};
use scantling_peers::{OUTPUTS, Peer, Task, serve};
use std::fs::File;
use std::io::Read;
use std::process::ExitCode;
use std::sync::Arc;

/// A matrix as candle keeps it.
enum Weight {
    Dense(Tensor),
    Quantised(Arc<QTensor>, QMatMul),
}

struct Candle {
    task: Task,
    weights: Vec<Weight>,
    dtype: DType,
    input: Option<Tensor>,
    product: Option<Tensor>,
    outputs: Vec<Option<Tensor>>,
}

impl Candle {
    fn load(task: Task) -> Result<Candle, String> {
        let (dtype, quantised) = element_type(&task.dtype)?;
        let bytes = match quantised {
            Some(q) => task.out * task.inputs / q.block_size() * q.type_size(),
            None => task.out * task.inputs * dtype.size_in_bytes(),
        };
        let mut file = File::open(&task.weights).map_err(|e| format!("{}: {e}", task.weights))?;
        let mut raw = vec![0; bytes];
        let mut weights = Vec::new();
        for _ in 0..task.count {
            file.read_exact(&mut raw).map_err(|e| format!("{}: {e}", task.weights))?;
            weights.push(weight(&task, dtype, quantised, &raw).map_err(text)?);
        }
        let outputs = (0..OUTPUTS).map(|_| None).collect();
        Ok(Candle { task, weights, dtype, input: None, product: None, outputs })
    }
}

/// The type of the activations, and that of the weights if it is one of ggml's blocks.
fn element_type(name: &str) -> Result<(DType, Option<GgmlDType>), String> {
    use GgmlDType::*;
    let quantised = match name {
        "F32" => return Ok((DType::F32, None)),
        "F16" => return Ok((DType::F16, None)),
        "BF16" => return Ok((DType::BF16, None)),
        "Q4_0" => Q4_0,
        "Q4_1" => Q4_1,
        "Q5_0" => Q5_0,
        "Q5_1" => Q5_1,
        "Q8_0" => Q8_0,
        "Q8_1" => Q8_1,
        "Q2_K" => Q2K,
        "Q3_K" => Q3K,
        "Q4_K" => Q4K,
        "Q5_K" => Q5K,
        "Q6_K" => Q6K,
        "Q8_K" => Q8K,
        _ => return Err(format!("candle has no {name}")),
    };
    Ok((DType::F32, Some(quantised)))
}

fn weight(
    task: &Task,
    dtype: DType,
    quantised: Option<GgmlDType>,
    raw: &[u8],
) -> candle_core::Result<Weight> {
    let (shape, device) = ((task.out, task.inputs), Device::Cpu);
    Ok(match quantised {
        None => Weight::Dense(Tensor::from_raw_buffer(raw, dtype, &[task.out, task.inputs], &device)?),
        Some(q) => {
            let tensor = Arc::new(ggml_file::qtensor_from_ggml(q, raw, vec![shape.0, shape.1], &device)?);
            Weight::Quantised(tensor.clone(), QMatMul::from_arc(tensor)?)
        }
    })
}

fn text(e: candle_core::Error) -> String {
    e.to_string()
}

fn numbers(tensor: &Option<Tensor>) -> Result<Vec<f32>, String> {
    let tensor = tensor.as_ref().ok_or("nothing was computed")?;
    tensor.to_dtype(DType::F32).and_then(|t| t.flatten_all()?.to_vec1()).map_err(text)
}

impl Peer for Candle {
    fn prepare(&mut self, rows: usize) -> Result<(), String> {
        let numbers = self.task.activations.get(..rows * self.task.inputs).ok_or("too few activations")?;
        let input = Tensor::from_slice(numbers, (rows, self.task.inputs), &Device::Cpu);
        self.input = Some(input.and_then(|x| x.to_dtype(self.dtype)).map_err(text)?);
        Ok(())
    }

    fn multiply(&mut self, matrix: usize) -> Result<(), String> {
        let x = self.input.as_ref().ok_or("no activations")?;
        let product = match &self.weights[matrix] {
            Weight::Dense(w) => w.t().and_then(|w| x.matmul(&w)),
            Weight::Quantised(_, w) => w.forward(x),
        };
        self.product = Some(product.map_err(text)?);
        Ok(())
    }

    fn product(&mut self) -> Result<Vec<f32>, String> {
        numbers(&self.product)
    }

    fn widen(&mut self, matrix: usize, output: usize) -> Result<(), String> {
        // The tensor that was there goes first, so that its memory can be taken again.
        self.outputs[output] = None;
        let widened = match &self.weights[matrix] {
            Weight::Dense(w) => w.to_dtype(DType::F32),
            Weight::Quantised(w, _) => w.dequantize(&Device::Cpu),
        };
        self.outputs[output] = Some(widened.map_err(text)?);
        Ok(())
    }

    fn widened(&mut self, output: usize) -> Result<Vec<f32>, String> {
        numbers(&self.outputs[output])
    }
}

fn main() -> ExitCode {
    let served = Task::from_args().and_then(|task| {
        let (count, mut peer) = (task.count, Candle::load(task)?);
        serve(&mut peer, count, "candle")
    });
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(why) => {
            println!("none: {why}");
            ExitCode::SUCCESS
        }
    }
}
