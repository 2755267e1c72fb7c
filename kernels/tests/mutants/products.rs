//! Wrong ways to read and multiply what is stored.

use crate::{fails, wrong};
use scantling_core::dtype::DType;
use scantling_core::kernel::{Kernel, Precision};
use scantling_core::matrix::{Matrix, Rows, RowsBuf, RowsMut};
use scantling_core::ops::{self, Linear};
use scantling_core::quant::{self, DecodeError};

fn bf16(x: f32) -> f32 {
    f32::from_bits(x.to_bits() & 0xffff_0000)
}

fn widened(dtype: DType, w: &[u8]) -> Vec<f32> {
    let mut values = vec![0.0; w.len() / dtype.block_bytes() * dtype.block_values()];
    quant::decode(dtype, w, &mut values).unwrap();
    values
}

wrong!(drops_the_last_element, ["dot", "matmul", "matmuls"], {
    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        let values = widened(dtype, w);
        values.iter().zip(&x[..x.len() - 1]).map(|(w, x)| w * x).sum()
    }
});

wrong!(drops_what_is_left_of_eight, ["dot", "matmul", "matmuls"], {
    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        let values = widened(dtype, w);
        values.iter().zip(&x[..x.len() / 8 * 8]).map(|(w, x)| w * x).sum()
    }
});

wrong!(sums_in_bf16, ["dot", "matmul", "matmuls"], {
    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        widened(dtype, w).iter().zip(x).fold(0.0, |sum, (w, x)| bf16(sum + w * x))
    }
});

wrong!(rounds_activations_to_bf16, ["dot", "matmul", "matmuls"], {
    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        let x: Vec<f32> = x.iter().map(|x| bf16(*x)).collect();
        ops::dot(dtype, w, &x)
    }
});

wrong!(takes_signed_bytes_for_unsigned, ["dot", "matmul", "matmuls"], {
    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        ops::dot(if dtype == DType::I8 { DType::U8 } else { dtype }, w, x)
    }
});

wrong!(swaps_nibbles_of_one_type, ["dot", "matmul", "matmuls"], {
    fn dot(&self, dtype: DType, w: &[u8], x: &[f32]) -> f32 {
        let mut w = w.to_vec();
        if dtype == DType::Q4_K {
            w.chunks_mut(144).for_each(|block| block[16..].iter_mut().for_each(|b| *b = b.rotate_left(4)));
        }
        ops::dot(dtype, &w, x)
    }
});

wrong!(ignores_the_scale, ["matmul", "matmuls"], {
    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        ops::matmul::<f32>(Linear { scale: 1.0, ..linear }, x, out);
    }
});

wrong!(ignores_the_bias, ["matmul", "matmuls"], {
    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        ops::matmul::<f32>(Linear { bias: None, ..linear }, x, out);
    }
});

wrong!(scales_the_bias, ["matmul", "matmuls"], {
    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        let bias: Option<Vec<f32>> = linear.bias.map(|b| b.iter().map(|b| b * linear.scale).collect());
        ops::matmul::<f32>(Linear { bias: bias.as_deref(), ..linear }, x, out);
    }
});

wrong!(leaves_the_last_output_unwritten, ["matmul", "matmuls"], {
    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        let rows = linear.weight.rows().saturating_sub(1);
        ops::matmul::<f32>(linear.outputs(0, rows), x, out.split_cols(rows).0);
    }
});

wrong!(gives_the_last_row_what_is_the_first_ones, ["matmul", "matmuls"], {
    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, mut out: RowsMut<'_>) {
        ops::matmul::<f32>(linear, x, out.reborrow());
        if x.rows() > 4 {
            let first = out.row(0).to_vec();
            out.row(x.rows() - 1).copy_from_slice(&first);
        }
    }
});

// Within all bounds, but an output depends on where it stands in the call: what `rayon` could not cut.
wrong!(sums_backwards_at_odd_places, ["matmul"], {
    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, mut out: RowsMut<'_>) {
        ops::matmul::<f32>(linear, x, out.reborrow());
        for t in 0..x.rows() {
            for o in (1..linear.weight.rows()).step_by(2) {
                let w = widened(linear.weight.dtype(), linear.weight.row(o));
                let sum: f32 = w.iter().zip(x.row(t)).rev().map(|(w, x)| w * x).sum();
                out.row(t)[o] = sum * linear.scale + linear.bias.map_or(0.0, |b| b[o]);
            }
        }
    }
});

wrong!(takes_a_window_of_weights_for_a_whole, ["matmul", "matmuls"], {
    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        let w = linear.weight;
        let packed = &w.data()[..w.rows() * w.row_bytes()];
        let weight = Matrix::new(w.dtype(), w.rows(), w.cols(), packed).unwrap();
        ops::matmul::<f32>(Linear { weight, ..linear }, x, out);
    }
});

wrong!(forgets_scales_of_several, ["matmuls"], {
    fn matmuls(&self, linears: &[Linear<'_>], x: Rows<'_>, outs: Vec<RowsMut<'_>>) {
        for (linear, out) in linears.iter().zip(outs) {
            self.matmul(Linear { scale: 1.0, ..*linear }, x, out);
        }
    }
});

wrong!(does_only_the_first_of_several, ["matmuls"], {
    fn matmuls(&self, linears: &[Linear<'_>], x: Rows<'_>, outs: Vec<RowsMut<'_>>) {
        linears.iter().zip(outs).take(1).for_each(|(linear, out)| self.matmul(*linear, x, out));
    }
});

wrong!(looks_up_the_row_before, ["embed"], {
    fn embed(&self, w: Matrix<'_>, ids: &[u32], out: RowsMut<'_>) {
        let ids: Vec<u32> = ids.iter().map(|id| id.saturating_sub(1)).collect();
        ops::embed(w, &ids, out);
    }
});

wrong!(decodes_one_bit_off, ["decode", "tally"], {
    fn decode(&self, dtype: DType, raw: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
        quant::decode(dtype, raw, out)?;
        out.iter_mut().filter(|x| x.is_normal()).for_each(|x| *x = f32::from_bits(x.to_bits() ^ 1));
        Ok(())
    }
});

wrong!(decodes_subnormal_halves_to_zero, ["decode"], {
    fn decode(&self, dtype: DType, raw: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
        quant::decode(dtype, raw, out)?;
        if dtype == DType::F16 {
            out.iter_mut().filter(|x| x.abs() < 6.1e-5).for_each(|x| *x = 0.0);
        }
        Ok(())
    }
});

wrong!(decodes_whatever_the_length, ["decode"], {
    fn decode(&self, dtype: DType, raw: &[u8], out: &mut [f32]) -> Result<(), DecodeError> {
        let n = out.len().min(raw.len() / dtype.block_bytes() * dtype.block_values());
        quant::decode(dtype, raw, &mut out[..n])
    }
});

wrong!(panics, ["matmul", "matmuls"], {
    fn matmul(&self, _: Linear<'_>, _: Rows<'_>, _: RowsMut<'_>) {
        panic!("not written yet");
    }
});

/// Products of activations rounded to so many bits in blocks of 32, said to be of a precision.
struct Rounded {
    levels: f32,
    precision: Precision,
}

impl Kernel for Rounded {
    fn name(&self) -> String {
        format!("rounded to {} levels, {:?}", self.levels, self.precision)
    }

    fn precision(&self) -> Precision {
        self.precision
    }

    fn matmul(&self, linear: Linear<'_>, x: Rows<'_>, out: RowsMut<'_>) {
        let mut rounded = RowsBuf::copy_of(x);
        let mut view = rounded.view_mut();
        for t in 0..x.rows() {
            for block in view.row(t).chunks_mut(32) {
                let step = block.iter().fold(0.0f32, |m, x| m.max(x.abs())) / self.levels;
                block.iter_mut().filter(|_| step > 0.0).for_each(|x| *x = (*x / step).round() * step);
            }
        }
        ops::matmul::<f32>(linear, rounded.view(), out);
    }
}

#[test]
fn rounded_activations_have_to_be_owned_up_to_and_be_of_eight_bits() {
    let block = Precision::Quantised { block: 32 };
    fails(&Rounded { levels: 127.0, precision: block }, &[]);
    fails(&Rounded { levels: 127.0, precision: Precision::Exact }, &["matmul", "matmuls"]);
    fails(&Rounded { levels: 31.0, precision: block }, &["matmul", "matmuls"]);
}
