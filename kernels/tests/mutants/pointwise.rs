//! Wrong norms, activations and arithmetic.

use crate::wrong;
use scantling_core::matrix::{Rows, RowsMut};
use scantling_core::ops::{self, Activation};

wrong!(forgets_epsilon, ["layer_norm", "rms_norm"], {
    fn rms_norm(&self, x: RowsMut<'_>, weight: &[f32], _eps: f32) {
        ops::rms_norm::<f32>(x, weight, 0.0);
    }

    fn layer_norm(&self, x: RowsMut<'_>, weight: &[f32], bias: &[f32], _eps: f32) {
        ops::layer_norm::<f32>(x, weight, bias, 0.0);
    }
});

wrong!(adds_epsilon_to_the_root, ["rms_norm"], {
    fn rms_norm(&self, mut x: RowsMut<'_>, weight: &[f32], eps: f32) {
        each_run(&mut x, weight.len(), |run| {
            let mean = run.iter().map(|v| v * v).sum::<f32>() / run.len() as f32;
            run.iter_mut().zip(weight).for_each(|(v, w)| *v = *v / (mean.sqrt() + eps) * w);
        });
    }
});

wrong!(norms_a_row_as_one_run, ["rms_norm"], {
    fn rms_norm(&self, x: RowsMut<'_>, weight: &[f32], eps: f32) {
        let repeated: Vec<f32> = weight.iter().copied().cycle().take(x.cols()).collect();
        ops::rms_norm::<f32>(x, &repeated, eps);
    }
});

wrong!(drops_the_last_square, ["rms_norm"], {
    fn rms_norm(&self, mut x: RowsMut<'_>, weight: &[f32], eps: f32) {
        each_run(&mut x, weight.len(), |run| {
            let squares: f32 = run[..run.len() - 1].iter().map(|v| v * v).sum();
            let root = (squares / run.len() as f32 + eps).sqrt();
            run.iter_mut().zip(weight).for_each(|(v, w)| *v = *v / root * w);
        });
    }
});

// As an instruction for a reciprocal root gives it, without a step to refine it.
wrong!(takes_a_root_of_twelve_bits, ["rms_norm"], {
    fn rms_norm(&self, mut x: RowsMut<'_>, weight: &[f32], eps: f32) {
        each_run(&mut x, weight.len(), |run| {
            let mean = run.iter().map(|v| v * v).sum::<f32>() / run.len() as f32;
            let root = f32::from_bits((1.0 / (mean + eps).sqrt()).to_bits() & 0xffff_f800);
            run.iter_mut().zip(weight).for_each(|(v, w)| *v *= root * w);
        });
    }
});

wrong!(divides_by_one_less, ["layer_norm"], {
    fn layer_norm(&self, x: RowsMut<'_>, weight: &[f32], bias: &[f32], eps: f32) {
        // The variance of a sample: that of all, n / (n - 1) times; so ε shrinks and all is scaled.
        let n = x.cols() as f32;
        let factor = ((n - 1.0) / n).sqrt();
        let weight: Vec<f32> = weight.iter().map(|w| w * factor).collect();
        ops::layer_norm::<f32>(x, &weight, bias, eps * factor * factor);
    }
});

wrong!(takes_the_variance_in_one_pass, ["layer_norm"], {
    fn layer_norm(&self, mut x: RowsMut<'_>, weight: &[f32], bias: &[f32], eps: f32) {
        for t in 0..x.rows() {
            let row = x.row(t);
            let n = row.len() as f32;
            let mean = row.iter().sum::<f32>() / n;
            let root = (row.iter().map(|v| v * v).sum::<f32>() / n - mean * mean + eps).abs().sqrt();
            row.iter_mut().zip(weight).zip(bias).for_each(|((v, w), b)| *v = (*v - mean) / root * w + b);
        }
    }
});

wrong!(norms_without_bias, ["layer_norm"], {
    fn layer_norm(&self, x: RowsMut<'_>, weight: &[f32], bias: &[f32], eps: f32) {
        ops::layer_norm::<f32>(x, weight, &vec![0.0; bias.len()], eps);
    }
});

fn each_run(x: &mut RowsMut<'_>, n: usize, run: impl Fn(&mut [f32])) {
    for t in 0..x.rows() {
        x.row(t).chunks_mut(n).for_each(&run);
    }
}

fn each(x: &mut RowsMut<'_>, change: impl Fn(f32) -> f32) {
    for t in 0..x.rows() {
        x.row(t).iter_mut().for_each(|v| *v = change(*v));
    }
}

wrong!(takes_gelu_by_a_sigmoid, ["activate"], {
    fn activate(&self, activation: Activation, mut x: RowsMut<'_>) {
        match activation {
            Activation::GeluTanh => each(&mut x, |v| v / (1.0 + (-1.702 * v).exp())),
            other => ops::activate::<f32>(other, x),
        }
    }
});

wrong!(forgets_the_limit, ["activate"], {
    fn activate(&self, activation: Activation, x: RowsMut<'_>) {
        let activation = match activation {
            Activation::Clamped { alpha, .. } => Activation::Clamped { alpha, limit: f32::MAX },
            other => other,
        };
        ops::activate::<f32>(activation, x);
    }
});

wrong!(lets_no_nan_through, ["activate"], {
    fn activate(&self, activation: Activation, mut x: RowsMut<'_>) {
        each(&mut x, |v| v.max(-1e30));
        ops::activate::<f32>(activation, x);
    }
});

wrong!(makes_nan_of_what_overflows, ["activate"], {
    fn activate(&self, activation: Activation, mut x: RowsMut<'_>) {
        match activation {
            Activation::Silu => each(&mut x, |v| v * v.exp() / (1.0 + v.exp())),
            other => ops::activate::<f32>(other, x),
        }
    }
});

wrong!(takes_an_exponential_of_sixteen_bits, ["activate"], {
    fn activate(&self, activation: Activation, mut x: RowsMut<'_>) {
        match activation {
            Activation::Silu => {
                each(&mut x, |v| v / (1.0 + f32::from_bits((-v).exp().to_bits() & 0xffff_ff80)))
            }
            other => ops::activate::<f32>(other, x),
        }
    }
});

wrong!(skips_the_last_of_odd_rows, ["activate"], {
    fn activate(&self, activation: Activation, x: RowsMut<'_>) {
        let even = x.cols() / 2 * 2;
        ops::activate::<f32>(activation, x.split_cols(even).0);
    }
});

wrong!(adds_nothing_to_the_partner, ["gate"], {
    fn gate(&self, activation: Activation, mut gate: RowsMut<'_>, up: Rows<'_>) {
        ops::activate::<f32>(activation, gate.reborrow());
        multiply(&mut gate, up);
    }
});

wrong!(activates_the_other_half, ["gate"], {
    fn gate(&self, activation: Activation, mut gate: RowsMut<'_>, up: Rows<'_>) {
        let mut other = scantling_core::matrix::RowsBuf::copy_of(up);
        ops::activate::<f32>(activation, other.view_mut());
        multiply(&mut gate, other.view());
    }
});

fn multiply(x: &mut RowsMut<'_>, y: Rows<'_>) {
    for t in 0..x.rows() {
        x.row(t).iter_mut().zip(y.row(t)).for_each(|(x, y)| *x *= y);
    }
}

wrong!(adds_without_the_factor, ["add"], {
    fn add(&self, x: RowsMut<'_>, y: Rows<'_>, _factor: f32) {
        ops::add::<f32>(x, y, 1.0);
    }
});

wrong!(adds_the_first_row_to_all, ["add"], {
    fn add(&self, mut x: RowsMut<'_>, y: Rows<'_>, factor: f32) {
        for t in 0..x.rows() {
            x.row(t).iter_mut().zip(y.row(0)).for_each(|(x, y)| *x += factor * y);
        }
    }
});

wrong!(scales_in_bf16, ["scale"], {
    fn scale(&self, mut x: RowsMut<'_>, factor: f32) {
        each(&mut x, |v| f32::from_bits((v * factor).to_bits() & 0xffff_0000));
    }
});

wrong!(scales_by_the_size, ["scale"], {
    fn scale(&self, x: RowsMut<'_>, factor: f32) {
        ops::scale::<f32>(x, factor.abs());
    }
});

wrong!(cuts_where_it_should_cap, ["softcap"], {
    fn softcap(&self, mut x: RowsMut<'_>, cap: f32) {
        each(&mut x, |v| v.clamp(-cap, cap));
    }
});

wrong!(caps_at_one, ["softcap"], {
    fn softcap(&self, mut x: RowsMut<'_>, cap: f32) {
        each(&mut x, |v| (v / cap).tanh());
    }
});

wrong!(skips_the_tail_of_a_sweep, ["sweep"], {
    fn sweep(&self, data: &[u8]) -> u64 {
        ops::sweep(&data[..data.len() / 8 * 8])
    }
});

wrong!(counts_rounds_it_does_not_do, ["saturate"], {
    fn saturate(&self, rounds: u64) -> u64 {
        ops::saturate(rounds.min(100))
    }
});
