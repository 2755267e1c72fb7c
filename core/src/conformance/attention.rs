//! Attention: every setting by itself and in company, over caches of all element types.

use super::data::{Placed, Pool, Random, Weights};
use super::{Case, Outcome, Scale, random};
use crate::dtype::DType;
use crate::kernel::{Kernel, Reference};
use crate::matrix::{Matrix, Rows};
use crate::ops::Attending;
use crate::tolerance;

/// One shape with its settings.
#[derive(Clone, Copy)]
struct Shape {
    heads: [usize; 2],
    key: usize,
    value: usize,
    rows: usize,
    keys: usize,
    start: usize,
    causal: bool,
    window: Option<usize>,
    softcap: Option<f32>,
    sinks: bool,
    /// The last position is NaN, which those that do not see it must not notice.
    poison: bool,
}

/// A prompt without a past; what the other shapes are variations of.
const PLAIN: Shape = Shape {
    heads: [4, 2],
    key: 32,
    value: 32,
    rows: 5,
    keys: 5,
    start: 0,
    causal: true,
    window: None,
    softcap: None,
    sinks: false,
    poison: false,
};

/// First those that a quick run takes.
const SHAPES: [Shape; 27] = [
    PLAIN,
    Shape { heads: [6, 2], key: 64, value: 64, rows: 1, keys: 100, start: 99, ..PLAIN },
    Shape { key: 20, value: 12, rows: 4, keys: 33, start: 29, window: Some(7), ..PLAIN },
    Shape { rows: 3, keys: 37, start: 34, softcap: Some(2.0), ..PLAIN },
    Shape { heads: [8, 1], key: 40, value: 24, rows: 2, keys: 19, start: 17, sinks: true, ..PLAIN },
    Shape { rows: 3, keys: 50, causal: false, ..PLAIN },
    Shape { heads: [6, 2], rows: 27, keys: 40, start: 13, poison: true, ..PLAIN },
    Shape { keys: 0, rows: 2, ..PLAIN },
    Shape { rows: 0, ..PLAIN },
    Shape { heads: [1, 1], key: 1, value: 1, rows: 1, keys: 1, ..PLAIN },
    Shape { heads: [5, 5], key: 33, value: 7, rows: 2, keys: 300, start: 298, ..PLAIN },
    Shape { heads: [4, 4], key: 128, value: 128, rows: 1, keys: 257, start: 256, ..PLAIN },
    Shape { key: 16, value: 16, rows: 33, keys: 33, ..PLAIN },
    Shape { key: 24, value: 48, rows: 17, keys: 41, start: 24, window: Some(16), sinks: true, ..PLAIN },
    Shape { rows: 9, keys: 70, start: 30, causal: false, window: Some(20), softcap: Some(3.0), ..PLAIN },
    Shape { rows: 2, keys: 5, start: 20, window: Some(4), ..PLAIN },
    Shape { rows: 2, keys: 5, start: 20, window: Some(4), sinks: true, ..PLAIN },
    Shape { rows: 3, keys: 9, start: 6, window: Some(1), ..PLAIN },
    Shape { heads: [9, 3], key: 3, value: 5, rows: 8, keys: 90, start: 82, sinks: true, ..PLAIN },
    Shape { heads: [2, 1], rows: 1, keys: 1100, start: 1099, ..PLAIN },
    Shape { heads: [2, 1], key: 64, value: 64, rows: 70, keys: 90, start: 20, ..PLAIN },
    Shape { heads: [3, 1], key: 300, value: 20, rows: 25, keys: 25, causal: false, sinks: true, ..PLAIN },
    Shape { heads: [7, 1], key: 7, value: 50, rows: 40, keys: 90, start: 50, window: Some(3), ..PLAIN },
    Shape { rows: 60, keys: 300, start: 240, window: Some(70), softcap: Some(3.0), sinks: true, ..PLAIN },
    Shape { rows: 30, keys: 9, start: 20, window: Some(4), ..PLAIN },
    Shape { rows: 3, keys: 9, start: 6, poison: true, ..PLAIN },
    Shape { heads: [12, 4], key: 64, value: 64, rows: 6, keys: 64, start: 58, softcap: Some(1.5), ..PLAIN },
];

pub(super) fn cases(scale: Scale, seed: u64) -> Vec<Case<'static>> {
    let mut cases = Vec::new();
    for dtype in [DType::F32, DType::F16, DType::BF16, DType::Q8_0] {
        for (i, shape) in scale.some(&SHAPES, 8).iter().enumerate() {
            let block = dtype.block_elements();
            if shape.key.is_multiple_of(block) && shape.value.is_multiple_of(block) {
                cases.push(case(dtype, *shape, seed + 100 * i as u64));
            }
        }
    }
    cases
}

fn case(dtype: DType, shape: Shape, seed: u64) -> Case<'static> {
    Case::new("attention", Some(dtype), describe(&shape), move |kernel| {
        let mut random = random(seed, &[dtype as usize, shape.keys, shape.rows]);
        let [heads, kv_heads] = shape.heads;
        let mut k = cache(dtype, shape.keys, kv_heads * shape.key, &mut random);
        let mut v = cache(dtype, shape.keys, kv_heads * shape.value, &mut random);
        if shape.poison {
            k.poison_last();
            v.poison_last();
        }
        let q = Placed::normal(shape.rows, heads * shape.key, &mut random);
        let sinks = shape.sinks.then(|| random.normals(heads));
        let how = Attending {
            heads,
            kv_heads,
            key: shape.key,
            value: shape.value,
            scale: 1.5 / (shape.key as f32).sqrt(),
            start: shape.start,
            causal: shape.causal,
            window: shape.window,
            softcap: shape.softcap,
            sinks: sinks.as_deref(),
        };
        judge(kernel, q.view(), k.view(), v.view(), how, &mut random)
    })
}

/// Normal numbers in the types of caches; in others what blocks there are.
fn cache(dtype: DType, rows: usize, cols: usize, random: &mut Random) -> Weights {
    if dtype.is_quantised() {
        Weights::new(&Pool::new(dtype, random.bits()), rows, cols / dtype.block_elements(), random)
    } else {
        Weights::of(dtype, rows, cols, random)
    }
}

fn judge(
    kernel: &dyn Kernel,
    q: Rows<'_>,
    k: Matrix<'_>,
    v: Matrix<'_>,
    how: Attending<'_>,
    random: &mut Random,
) -> Outcome {
    let mut out = Placed::blank(q.rows(), how.heads * how.value, random);
    kernel.attention(q, k, v, how, out.view_mut());
    let mut cut = Placed::blank(q.rows(), how.heads * how.value, random);
    in_pieces(kernel, q, k, v, how, &mut cut);
    out.same(&cut, "with each head by itself")?;
    let expected = (&Reference as &dyn Kernel).attended(q, k, v, how);
    out.judge(expected.data(), &tolerance::attention(q, k, v, how))
}

/// A head has the same bits whatever stands beside it: what lets a wrapper cut them.
fn in_pieces(
    kernel: &dyn Kernel,
    q: Rows<'_>,
    k: Matrix<'_>,
    v: Matrix<'_>,
    how: Attending<'_>,
    out: &mut Placed,
) {
    let group = how.heads / how.kv_heads;
    let mut rest = out.view_mut();
    for h in 0..how.heads {
        let (head, right) = rest.split_cols(how.value);
        rest = right;
        let q = q.cols_at(h * how.key..(h + 1) * how.key);
        let at = |width: usize| h / group * width..(h / group + 1) * width;
        let (k, v) = (k.cols_at(at(how.key)), v.cols_at(at(how.value)));
        let sinks = how.sinks.map(|s| &s[h..h + 1]);
        let how = Attending { heads: 1, kv_heads: 1, sinks, ..how };
        kernel.attention(q, k, v, how, head);
    }
}

fn describe(shape: &Shape) -> String {
    let [heads, kv_heads] = shape.heads;
    let mut text = format!(
        "{heads}/{kv_heads} heads of {}/{}, {} rows at {}, {} keys",
        shape.key, shape.value, shape.rows, shape.start, shape.keys
    );
    if !shape.causal {
        text += ", not causal";
    }
    if let Some(window) = shape.window {
        text += &format!(", window {window}");
    }
    if let Some(cap) = shape.softcap {
        text += &format!(", cap {cap}");
    }
    if shape.sinks {
        text += ", sinks";
    }
    if shape.poison {
        text += ", the last key and value NaN";
    }
    text
}
