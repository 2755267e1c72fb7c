//! Widening by every leaf, against core's loops: the same bits, whatever the bytes are.

use proptest::prelude::*;
use scantling_core::distance::{Accumulate, Distance, Plainly};
use scantling_core::dtype::DType;
use scantling_core::kernel::{Kernel, Make, Options};
use scantling_core::quant;
use scantling_core::registry::Registry;
use scantling_core::stats::piece::tally_by;
use scantling_kernels as _;

/// The leaves that run here, but for the one that is the definition.
fn leaves() -> Vec<Box<dyn Kernel>> {
    let plugins = Registry::linked_kernels().unwrap();
    let usable = |make| match make {
        Make::Leaf(make) => make(&Options::default()).ok(),
        Make::Wrapper(_) => None,
    };
    plugins.into_iter().filter(|p| p.name != "scalar").filter_map(|p| usable(p.make)).collect()
}

/// Widens with core and with a kernel; tells the first value that differs. Any NaN equals any other, -0 equals 0.
fn difference(kernel: &dyn Kernel, dtype: DType, raw: &[u8]) -> Option<String> {
    let count = raw.len() / dtype.block_bytes() * dtype.block_values();
    let (mut found, mut expected) = (vec![f32::from_bits(0x7fc0_dead); count], vec![0.0; count]);
    kernel.decode(dtype, raw, &mut found).unwrap();
    quant::decode(dtype, raw, &mut expected).unwrap();
    let differ = |(a, b): (&f32, &f32)| {
        a.to_bits() != b.to_bits() && !(a.is_nan() && b.is_nan()) && (a, b) != (&0.0, &0.0)
    };
    let at = found.iter().zip(&expected).position(differ)?;
    let name = kernel.name();
    Some(format!("{name}, {dtype}: value {at} is {:e}, expected {:e}", found[at], expected[at]))
}

/// Random bytes: of f16 scales, one in 32 is infinite or NaN, and as many are subnormal.
fn random(seed: u64, count: usize) -> Vec<u8> {
    let mut state = seed | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state.to_le_bytes()
    };
    (0..count.div_ceil(8)).flat_map(|_| next()).take(count).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_leaf_widens_any_bytes_to_the_bits_that_core_defines(seed: u64, blocks in 0usize..70, lead in 0usize..9) {
        for kernel in leaves() {
            for dtype in DType::all().filter(|dtype| dtype.codec().is_some()) {
                let raw = random(seed, lead + blocks * dtype.block_bytes());
                prop_assert_eq!(difference(&*kernel, dtype, &raw[lead..]), None);
            }
        }
    }
}

/// Scales that are not finite, largest and smallest numbers, codes of all kinds: a third of all bytes, twice in a row, in
/// every place of a block.
#[test]
fn bytes_in_every_place_of_a_block_are_widened_as_in_core() {
    for kernel in leaves() {
        for dtype in DType::all().filter(|dtype| dtype.codec().is_some()) {
            let block = dtype.block_bytes();
            for at in 0..block {
                let mut raw = random(at as u64 + 77, block);
                for byte in (0..=255).step_by(3) {
                    raw[at..block.min(at + 2)].fill(byte);
                    assert_eq!(difference(&*kernel, dtype, &raw), None, "{byte:#x} at {at}");
                }
            }
        }
    }
}

/// Types of one byte: all bytes, at every distance from the start of a vector.
#[test]
fn every_byte_that_is_a_number_is_widened_as_in_core() {
    for kernel in leaves() {
        for dtype in DType::all().filter(|dtype| dtype.codec().is_some() && dtype.block_bytes() == 1) {
            for start in 0..=255u8 {
                let raw: Vec<u8> = (0..=255u8).map(|i| start.wrapping_add(i)).collect();
                assert_eq!(difference(&*kernel, dtype, &raw), None, "from {start:#x} on");
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Sums have one order, whatever computes them.
    #[test]
    fn every_leaf_tells_two_runs_apart_by_the_same_bits(seed: u64, count in 0usize..3000, run in 1usize..700, odd: bool) {
        let numbers = |seed: u64| {
            let raw = random(seed, 2 * count);
            let mut out = vec![0.0; count];
            quant::decode(DType::BF16, &raw, &mut out).unwrap();
            // Numbers of all sizes, and now and then one that is none.
            if !odd {
                out.iter_mut().for_each(|x| *x = if x.is_finite() { x.clamp(-1e3, 1e3) } else { 1.0 });
            }
            out
        };
        let (a, mut b) = (numbers(seed), numbers(seed ^ 0xabcd));
        b[..count / 2].copy_from_slice(&a[..count / 2]);
        for accumulate in [Accumulate::F64, Accumulate::F32] {
            let mut expected = Vec::new();
            let definition = Distance::of(Plainly, accumulate, 7, [&a, &b], run, &mut expected);
            for kernel in leaves() {
                let mut runs = Vec::new();
                let found = kernel.distance(accumulate, 7, [&a, &b], run, &mut runs);
                prop_assert_eq!(format!("{found:?}"), format!("{definition:?}"), "{}", kernel.name());
                prop_assert_eq!(format!("{runs:?}"), format!("{expected:?}"), "{}", kernel.name());
            }
        }
    }
}

/// Numbers as weights have them, and now and then what they rarely have: what is counted fast is counted so. Of random
/// bytes nearly every run holds one that is not finite.
fn weights(seed: u64, count: usize, mean: f32, odd: bool) -> Vec<f32> {
    let bytes = random(seed, 4 * count);
    let oddities = [0.0, -0.0, 1e-6, -3e-7, 1e-40, f32::NAN, f32::INFINITY, 60000.0];
    let one = |b: &[u8; 4]| {
        let word = u32::from_le_bytes(*b);
        match odd && word.is_multiple_of(701) {
            true => oddities[word as usize / 701 % oddities.len()],
            // The sum of four bytes is nearly normal.
            false => mean + (b.iter().map(|b| f32::from(*b)).sum::<f32>() - 510.0) / 4000.0,
        }
    };
    bytes.as_chunks().0.iter().map(one).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn every_leaf_tallies_weights_to_the_bits_that_core_defines(
        seed: u64,
        count in 0usize..9000,
        mean in prop::sample::select(vec![0.0f32, 0.01, 1.0, -30.0]),
        odd: bool,
    ) {
        let values = weights(seed, count, mean, odd);
        let f16 = |x: &f32| half::f16::from_f32(*x).to_le_bytes();
        let bf16 = |x: &f32| half::bf16::from_f32(*x).to_le_bytes();
        let stored = [
            (DType::F32, values.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>()),
            (DType::F16, values.iter().flat_map(f16).collect()),
            (DType::BF16, values.iter().flat_map(bf16).collect()),
        ];
        for (dtype, raw) in &stored {
            let expected = tally_by(*dtype, raw, |raw, out| quant::decode(*dtype, raw, out));
            for kernel in leaves() {
                let found = kernel.tally(*dtype, raw);
                prop_assert_eq!(format!("{found:?}"), format!("{expected:?}"), "{} {}", kernel.name(), dtype);
            }
        }
    }
}
