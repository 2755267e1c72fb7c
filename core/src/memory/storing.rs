//! How the weights of a model that is not there would be stored, and what they would come to.

use crate::dtype::{Class, DType};
use crate::source::Dialect;
use crate::table::{Absence, Expected, TensorTable, Use};

/// A way to store the weights of a model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Storing {
    /// Everything in one type, as checkpoints are.
    Plain(DType),
    /// Matrices in a block-quantised type where their rows are whole blocks of it, or else in the next larger one; the
    /// rest in f32: as GGUF files are.
    Blocks(DType),
    /// The usual mix of 4 and 6 bits, as llama.cpp's `Q4_K_M` has it.
    Mixed,
}

/// The ways that are told of a config alone.
pub const USUAL: [Storing; 4] =
    [Storing::Plain(DType::BF16), Storing::Blocks(DType::Q8_0), Storing::Blocks(DType::Q6_K), Storing::Mixed];

impl Storing {
    /// By its name, in any case: that of an element type that weights are stored in, or `q4_k_m`.
    pub fn named(name: &str) -> Option<Storing> {
        if name.eq_ignore_ascii_case("q4_k_m") {
            return Some(Storing::Mixed);
        }
        let dtype = DType::all().find(|d| d.name().eq_ignore_ascii_case(name) && d.codec().is_some())?;
        let held = matches!(dtype.class(), Class::Float | Class::Quantised) && dtype != DType::F64;
        if !held {
            return None;
        }
        let plain = dtype.safetensors_name().is_some() && dtype.block_elements() == 1;
        Some(if plain { Storing::Plain(dtype) } else { Storing::Blocks(dtype) })
    }

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Storing::Plain(dtype) | Storing::Blocks(dtype) => dtype.name(),
            Storing::Mixed => "Q4_K_M",
        }
    }

    /// Whose names and stacks the tensors have.
    pub fn dialect(self) -> Dialect {
        match self {
            Storing::Plain(_) => Dialect::Hf,
            Storing::Blocks(_) | Storing::Mixed => Dialect::Gguf,
        }
    }

    /// What it comes to for the tensors of one table.
    pub(super) fn choice(self, table: &TensorTable) -> Choice {
        let rows = table.rows();
        let named = |name: &str| rows.iter().find(|row| row.gguf == name);
        // The embedding does the head's work where there is no head.
        let tied = named("output.weight").is_none_or(|head| head.absence != Absence::Fault);
        let experts = rows.iter().find(|row| row.used.is_some()).and_then(|row| row.shape.first());
        Choice { storing: self, layers: table.layers(), tied, experts: experts.map_or(0, |e| e.len) }
    }
}

/// A way to store, with what it depends on.
pub(super) struct Choice {
    storing: Storing,
    layers: usize,
    tied: bool,
    experts: usize,
}

impl Choice {
    /// The element type of a tensor whose rows are so long.
    pub(super) fn dtype(&self, row: &Expected, cols: usize) -> DType {
        let matrix = matches!(row.usage, Use::Embedding | Use::Matrix);
        match self.storing {
            Storing::Plain(dtype) => dtype,
            // Vectors are kept as they are, and so are matrices of next to nothing whose errors cost much.
            _ if !matrix || KEPT.contains(&row.gguf) => DType::F32,
            Storing::Blocks(dtype) => fitting(dtype, cols),
            Storing::Mixed => fitting(self.mixed(row), cols),
        }
    }

    /// What `Q4_K_M` has a matrix in: most in 4 bits, the head and half of what errors cost most in in 6.
    fn mixed(&self, row: &Expected) -> DType {
        let layer = row.layer.unwrap_or(0);
        let more = |better: DType| if self.more_bits(layer) { better } else { DType::Q4_K };
        match row.gguf {
            "output.weight" => DType::Q6_K,
            "token_embd.weight" if self.tied => DType::Q6_K,
            "attn_v.weight" | "attn_k.weight" if self.experts == 8 => DType::Q8_0,
            "attn_output.weight" if self.experts == 8 => DType::Q5_K,
            "attn_qkv.weight" => DType::Q5_K,
            "attn_v.weight" | "ffn_down.weight" | "ffn_down_exps.weight" | "ffn_down_shexp.weight" => {
                more(DType::Q6_K)
            }
            _ => DType::Q4_K,
        }
    }

    /// The first and the last eighth of the layers, and every third between.
    fn more_bits(&self, layer: usize) -> bool {
        let eighth = self.layers / 8;
        layer < eighth
            || layer >= self.layers.saturating_mul(7) / 8
            || layer.saturating_sub(eighth).checked_rem(3) == Some(2)
    }
}

/// Matrices that no quantised file has quantised: routers, and tables of positions.
const KEPT: [&str; 3] = ["ffn_gate_inp.weight", "position_embd.weight", "token_types.weight"];

/// The type, or the one that takes its place for rows that are no whole blocks of it.
fn fitting(dtype: DType, cols: usize) -> DType {
    let fits = |dtype: DType| cols.is_multiple_of(dtype.block_elements());
    let smaller = match dtype {
        DType::Q4_K => DType::Q5_0,
        DType::Q5_K => DType::Q5_1,
        DType::Q6_K => DType::Q8_0,
        _ => DType::IQ4_NL,
    };
    [dtype, smaller].into_iter().find(|dtype| fits(*dtype)).unwrap_or(DType::F16)
}
