//! The arguments of `memory`.

use super::{KvWish, RunArgs};
use clap::Args;
use scantling_core::memory::Storing;
use std::path::PathBuf;

const EXAMPLES: &str = "\
Examples:
  scantling memory model.gguf
  scantling memory Qwen3-0.6B/ --context 32768 --kv-type f16
  scantling memory Qwen3-32B/config.json --weights q4_k_m --fit 24GiB
  scantling memory model.gguf --fit 8GiB --json | jq .fit.context

MODEL may be a config.json alone, or a folder with one and no weights: --weights then says how they would be stored.
Weights are mapped from their file: they count in the total, and are the first to go where memory is short. Keys and
values are those that a run here allocates: every position of every layer, also where attention has a window.
Buffers are those of --batch tokens read at once, with all of them sent to the same experts. A generate whose --context
is the same takes that much at most.
Sizes: 512M and 512MiB are 512 x 1024 x 1024 bytes, 512MB are 512,000,000. With --fit and without --context what is shown
is the longest context that fits, whether or not the model was made for so long a one.
Exit codes: 0 it fits, 1 it does not fit into the memory that is free, or into what --fit says, 2 a wrong
request, 3 something cannot be read.";

/// Arguments of `memory`.
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct MemoryArgs {
    /// The model: a folder, a file, or a config.json
    pub model: PathBuf,
    /// Tokens that there is room for [default: 4096, or what the model was made for if that is less]
    #[arg(long, value_name = "N", value_parser = tokens())]
    pub context: Option<usize>,
    /// Tokens that are computed at once
    #[arg(long, value_name = "N", default_value_t = scantling_core::model::BATCH, value_parser = tokens())]
    pub batch: usize,
    /// How keys and values are stored [default: f32 for exact kernels, f16 for others]
    #[arg(long, value_enum, value_name = "TYPE")]
    pub kv_type: Option<KvWish>,
    /// Tell the longest context that takes no more than so many bytes, as 8GiB or 512M
    #[arg(long, value_name = "BYTES", value_parser = bytes)]
    pub fit: Option<u64>,
    /// How the weights would be stored, of a config alone: an element type, or q4_k_m [default: bf16]
    #[arg(long, value_name = "TYPE", value_parser = storing)]
    pub weights: Option<Storing>,
    /// Say only whether it fits
    #[arg(long, short)]
    pub quiet: bool,
    /// What commands that run a model share; `auto` is `fast` here.
    #[command(flatten)]
    pub run: RunArgs,
}

fn tokens() -> clap::builder::RangedU64ValueParser<usize> {
    clap::builder::RangedU64ValueParser::new().range(1..=1 << 31)
}

fn storing(text: &str) -> Result<Storing, String> {
    Storing::named(text).ok_or_else(|| {
        "expected an element type that weights are stored in, such as bf16, q8_0 or q4_k, or q4_k_m"
            .to_owned()
    })
}

/// The units that are understood.
const UNITS: &str = "KiB, MiB, GiB, TiB or kB, MB, GB, TB";

/// A count of bytes below this has lost its unit: 1 MiB.
const LEAST: f64 = 1024.0 * 1024.0;

/// A size with a unit; bytes without one, as other programs print them.
fn bytes(text: &str) -> Result<u64, String> {
    let at = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let step: f64 = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => 1.0,
        "k" | "kib" => 1024.0,
        "m" | "mib" => 1024.0 * 1024.0,
        "g" | "gib" => 1024.0 * 1024.0 * 1024.0,
        "t" | "tib" => 1024.0 * 1024.0 * 1024.0 * 1024.0,
        "kb" => 1e3,
        "mb" => 1e6,
        "gb" => 1e9,
        "tb" => 1e12,
        _ => return Err(format!("{unit:?} is no unit of bytes: {UNITS} are")),
    };
    let number: f64 = number.parse().map_err(|_| "expected a size, such as 8GiB".to_owned())?;
    let size = number * step;
    if unit.is_empty() && (1.0..LEAST).contains(&size) {
        return Err(format!(
            "{text} bytes are less than any run takes: say the unit, as {text}GiB ({UNITS})"
        ));
    }
    if (1.0..1e18).contains(&size) {
        Ok(size as u64)
    } else {
        Err("expected from 1 byte to 10^18".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        let fine = [
            ("8GiB", 8_589_934_592),
            ("512M", 536_870_912),
            ("512MB", 512_000_000),
            ("1.5g", 1_610_612_736),
            ("123456789", 123_456_789),
            ("2 TB", 2_000_000_000_000),
        ];
        for (text, size) in fine {
            assert_eq!(bytes(text), Ok(size), "{text}");
        }
        for lost in ["2", "24", "1.5", "1048575"] {
            let told = bytes(lost).unwrap_err();
            assert!(told.contains(&format!("{lost}GiB")) && told.contains("KiB, MiB"), "{told}");
        }
        assert_eq!((bytes("1048576"), bytes("2b")), (Ok(1 << 20), Ok(2)));
        for wrong in ["", "GiB", "8 apples", "-1", "0", "1e30", "1.2.3M", "99999999999T"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
