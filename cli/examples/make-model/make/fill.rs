//! Numbers that could be a model's: repeatable, of a usual size, never NaN.

use half::{bf16, f16};
use scantling_core::dtype::DType;
use scantling_core::error::{Error, Result};
use scantling_core::table::Use;
use std::io::{self, Write};

/// What tensors are filled with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fill {
    /// Holes that read as zeros and take no room on disk.
    Zero,
    /// Pseudo-random numbers, the same for the same seed.
    Random {
        /// Any number.
        seed: u64,
    },
}

/// Usual size of a weight.
const SPREAD: f32 = 0.02;

/// A small generator (xorshift64*): fast and repeatable is all that is asked of it.
struct Random(u64);

impl Random {
    fn new(seed: u64, name: &str) -> Random {
        // FNV-1a, so that each tensor has its own numbers whatever the order of writing.
        let hash = name
            .bytes()
            .fold(0xcbf2_9ce4_8422_2325, |h, b| (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01b3_u64));
        Random((hash ^ seed.wrapping_mul(0x9e37_79b9_7f4a_7c15)) | 1)
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Nearly normal, mean 0, deviation 1: the sum of four even numbers.
    fn normal(&mut self) -> f32 {
        let bits = self.next();
        let sum: i32 = (0..4).map(|i| i32::from((bits >> (16 * i)) as u16)).sum();
        (sum - 2 * 65_535) as f32 * (1.732_050_8 / 65_536.0)
    }
}

/// Whether [`tensor`] knows what is sane for an element type.
pub fn check(dtype: DType) -> Result<()> {
    let known = scalar_bytes(dtype).is_some() || !scales(dtype).is_empty();
    let refuse = || Error::Usage(format!("no numbers can be made up in {dtype}; --fill zero takes any type"));
    known.then_some(()).ok_or_else(refuse)
}

/// Writes the numbers of a tensor. Those of equal `name` and seed are equal.
pub fn tensor(
    out: &mut dyn Write,
    dtype: DType,
    bytes: u64,
    usage: Use,
    name: &str,
    seed: u64,
) -> io::Result<()> {
    let mut random = Random::new(seed, name);
    // Norms scale by about one, the numbers of a helper divide by it.
    let mean = if matches!(usage, Use::Scale | Use::Helper) { 1.0 } else { 0.0 };
    let mut to_go = bytes / dtype.block_bytes() as u64;
    let mut buffer = Vec::new();
    while to_go > 0 {
        let blocks = to_go.min(16 * 1024);
        buffer.clear();
        match scalar_bytes(dtype) {
            Some(put) => (0..blocks).for_each(|_| put(mean + SPREAD * random.normal(), &mut buffer)),
            None => self::blocks(dtype, blocks as usize, &mut random, &mut buffer),
        }
        out.write_all(&buffer)?;
        to_go -= blocks;
    }
    Ok(())
}

/// How one number by itself is stored.
fn scalar_bytes(dtype: DType) -> Option<fn(f32, &mut Vec<u8>)> {
    Some(match dtype {
        DType::F32 => |x, out| out.extend(x.to_le_bytes()),
        DType::F16 => |x, out| out.extend(f16::from_f32(x).to_le_bytes()),
        DType::BF16 => |x, out| out.extend(bf16::from_f32(x).to_le_bytes()),
        DType::F64 => |x, out| out.extend(f64::from(x).to_le_bytes()),
        // The eight upper bits of an F16 are an E5M2.
        DType::F8_E5M2 => |x, out| out.push((f16::from_f32(x).to_bits() >> 8) as u8),
        _ => return None,
    })
}

/// Random codes with scales put in their places.
fn blocks(dtype: DType, blocks: usize, random: &mut Random, buffer: &mut Vec<u8>) {
    let bytes = blocks * dtype.block_bytes();
    while buffer.len() < bytes {
        buffer.extend(random.next().to_le_bytes());
    }
    buffer.truncate(bytes);
    for block in buffer.chunks_exact_mut(dtype.block_bytes()) {
        // Scales of blocks differ a little.
        let vary = 1.0 + 0.25 * random.normal().clamp(-2.0, 2.0);
        for (at, scale) in scales(dtype) {
            match scale {
                Scale::F16(x) => block[*at..][..2].copy_from_slice(&f16::from_f32(x * vary).to_le_bytes()),
                Scale::Byte(code) => block[*at] = *code,
                Scale::Nibbles(x) => {
                    let bits = f16::from_f32(x * vary).to_bits();
                    for i in 0..4 {
                        let high = &mut block[at + 2 * i + 1];
                        *high = *high & 0x0f | ((bits >> (4 * i) & 0x0f) << 4) as u8;
                    }
                }
            }
        }
    }
}

/// A scale of a block.
enum Scale {
    /// An f16 of about this size, by which the block's values are of the usual size.
    F16(f32),
    /// A code of eight bits.
    Byte(u8),
    /// An f16 in the upper four bits of four words, lowest first.
    Nibbles(f32),
}

/// Where a block keeps its scales, and what is sane for them. Empty for types whose layout is not known here.
fn scales(dtype: DType) -> &'static [(usize, Scale)] {
    use Scale::{Byte, F16, Nibbles};
    match dtype {
        DType::Q4_0 => &[(0, F16(4e-3))],
        DType::Q4_1 => &[(0, F16(4e-3)), (2, F16(-3e-2))],
        DType::Q5_0 => &[(0, F16(2e-3))],
        DType::Q5_1 => &[(0, F16(2e-3)), (2, F16(-3e-2))],
        DType::Q8_0 => &[(0, F16(2.7e-4))],
        DType::Q2_K => &[(80, F16(1.5e-3)), (82, F16(2.2e-3))],
        DType::Q3_K => &[(108, F16(5e-4))],
        DType::Q4_K => &[(0, F16(1e-4)), (2, F16(7.5e-4))],
        DType::Q5_K => &[(0, F16(5e-5)), (2, F16(7.7e-4))],
        DType::Q6_K => &[(208, F16(1.5e-5))],
        DType::IQ1_S => &[(0, F16(3e-3))],
        DType::IQ1_M => &[(48, Nibbles(3e-3))],
        DType::IQ2_XXS | DType::IQ2_XS | DType::IQ2_S => &[(0, F16(5e-4))],
        DType::IQ3_XXS | DType::IQ3_S => &[(0, F16(2e-4))],
        DType::IQ4_NL => &[(0, F16(3e-4))],
        DType::IQ4_XS => &[(0, F16(1.7e-5))],
        DType::TQ1_0 => &[(52, F16(2e-2))],
        DType::TQ2_0 => &[(64, F16(2e-2))],
        DType::Q1_0 | DType::Q2_0 => &[(0, F16(2e-2))],
        DType::MXFP4 => &[(0, Byte(120))],
        DType::NVFP4 => &[(0, Byte(3)), (1, Byte(2)), (2, Byte(3)), (3, Byte(4))],
        _ => &[],
    }
}
