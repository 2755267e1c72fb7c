//! Wrong ways to relate positions and experts: rotation, attention, routing.

use crate::wrong;
use scantling_core::matrix::{Matrix, Rows, RowsMut};
use scantling_core::ops::{self, Attending, Pairing, Rotation, Routing};

wrong!(pairs_the_other_way, ["rope"], {
    fn rope(&self, x: RowsMut<'_>, rotation: &Rotation) {
        let pairing = match rotation.pairing {
            Pairing::Halves => Pairing::Neighbours,
            Pairing::Neighbours => Pairing::Halves,
        };
        ops::rope::<f32>(x, &Rotation { pairing, ..rotation.clone() });
    }
});

wrong!(turns_backwards, ["rope"], {
    fn rope(&self, x: RowsMut<'_>, rotation: &Rotation) {
        let sin = rotation.sin.iter().map(|s| -s).collect();
        ops::rope::<f32>(x, &Rotation { sin, ..rotation.clone() });
    }
});

wrong!(turns_from_the_start_of_a_head, ["rope"], {
    fn rope(&self, x: RowsMut<'_>, rotation: &Rotation) {
        ops::rope::<f32>(x, &Rotation { first: 0, ..rotation.clone() });
    }
});

wrong!(turns_the_first_head_alone, ["rope"], {
    fn rope(&self, x: RowsMut<'_>, rotation: &Rotation) {
        ops::rope::<f32>(x.split_cols(rotation.head).0, rotation);
    }
});

wrong!(turns_all_rows_like_the_first, ["rope"], {
    fn rope(&self, x: RowsMut<'_>, rotation: &Rotation) {
        let repeated = |all: &[f32]| {
            let row = &all[..rotation.half.min(all.len())];
            row.iter().copied().cycle().take(all.len()).collect()
        };
        let (cos, sin) = (repeated(&rotation.cos), repeated(&rotation.sin));
        ops::rope::<f32>(x, &Rotation { cos, sin, ..rotation.clone() });
    }
});

/// A test of attention with other settings than those asked for.
macro_rules! attends {
    ($name:ident, |$how:ident, $n:ident| $other:expr) => {
        wrong!($name, ["attention"], {
            fn attention(
                &self,
                q: Rows<'_>,
                k: Matrix<'_>,
                v: Matrix<'_>,
                how: Attending<'_>,
                out: RowsMut<'_>,
            ) {
                let ($how, $n) = (how, k.rows());
                let _ = $n;
                ops::attention::<f32>(q, k, v, $other, out);
            }
        });
    };
}

attends!(forgets_the_window, |how, _n| Attending { window: None, ..how });
attends!(sees_one_position_too_many, |how, _n| Attending { window: how.window.map(|w| w + 1), ..how });
attends!(forgets_the_cap, |how, _n| Attending { softcap: None, ..how });
attends!(forgets_the_sinks, |how, _n| Attending { sinks: None, ..how });
attends!(forgets_the_scale, |how, _n| Attending { scale: 1.0, ..how });
attends!(scales_by_the_width_instead, |how, _n| Attending { scale: 1.0 / (how.key as f32).sqrt(), ..how });
attends!(forgets_where_it_starts, |how, _n| Attending { start: 0, ..how });
attends!(sees_the_future, |how, _n| Attending { causal: false, ..how });
attends!(always_hides_the_future, |how, _n| Attending { causal: true, ..how });
attends!(sees_the_next_position, |how, n| Attending { start: (how.start + 1).min(n), ..how });

wrong!(drops_the_last_key, ["attention"], {
    fn attention(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, out: RowsMut<'_>) {
        let n = if k.rows() > 64 { k.rows() - 1 } else { k.rows() };
        ops::attention::<f32>(q, k.rows_at(0..n), v.rows_at(0..n), how, out);
    }
});

wrong!(shares_keys_among_the_wrong_heads, ["attention"], {
    fn attention(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, out: RowsMut<'_>) {
        let mut rest = out;
        for h in 0..how.heads {
            let (out, right) = rest.split_cols(how.value);
            rest = right;
            let at = |width: usize| h % how.kv_heads * width..(h % how.kv_heads + 1) * width;
            let how = Attending { heads: 1, kv_heads: 1, sinks: how.sinks.map(|s| &s[h..h + 1]), ..how };
            let q = q.cols_at(h * how.key..(h + 1) * how.key);
            ops::attention::<f32>(q, k.cols_at(at(how.key)), v.cols_at(at(how.value)), how, out);
        }
    }
});

wrong!(divides_by_one_too_many, ["attention"], {
    fn attention(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, out: RowsMut<'_>) {
        // One more key of a score of 0 in the sum.
        let zeros = vec![0.0; how.heads];
        let sinks = how.sinks.or(Some(&zeros));
        ops::attention::<f32>(q, k, v, Attending { sinks, ..how }, out);
    }
});

wrong!(halves_what_it_gathers_in_sixteen_bits, ["attention"], {
    fn attention(&self, q: Rows<'_>, k: Matrix<'_>, v: Matrix<'_>, how: Attending<'_>, mut out: RowsMut<'_>) {
        ops::attention::<f32>(q, k, v, how, out.reborrow());
        for t in 0..q.rows() {
            out.row(t).iter_mut().for_each(|y| *y = f32::from_bits(y.to_bits() & 0xffff_e000));
        }
    }
});

/// A test of routing with other settings than those asked for.
macro_rules! routes {
    ($name:ident, |$how:ident| $other:expr) => {
        wrong!($name, ["route"], {
            fn route(&self, logits: Rows<'_>, how: Routing<'_>) -> Vec<(usize, f32)> {
                let $how = how;
                ops::route::<f32>(logits, $other)
            }
        });
    };
}

routes!(does_not_normalise, |how| Routing { normalise: false, ..how });
routes!(chooses_without_bias, |how| Routing { bias: None, ..how });
routes!(chooses_from_all_groups, |how| Routing { groups: None, ..how });
routes!(does_not_scale, |how| Routing { scale: 1.0, ..how });
routes!(always_takes_the_softmax_of_all, |how| Routing { scoring: ops::Scoring::Softmax, ..how });

wrong!(chooses_the_last_of_equals, ["route"], {
    fn route(&self, logits: Rows<'_>, how: Routing<'_>) -> Vec<(usize, f32)> {
        let mut all = ops::route::<f32>(logits, how);
        let used = all.len() / logits.rows().max(1);
        for (row, chosen) in logits.iter().zip(all.chunks_mut(used.max(1))) {
            if row.windows(2).all(|w| w[0] == w[1]) {
                chosen.iter_mut().for_each(|c| c.0 = row.len() - 1 - c.0);
            }
        }
        all
    }
});

wrong!(chooses_one_too_few, ["route"], {
    fn route(&self, logits: Rows<'_>, how: Routing<'_>) -> Vec<(usize, f32)> {
        ops::route::<f32>(logits, Routing { used: how.used - 1, ..how })
    }
});
