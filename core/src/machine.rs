//! What the machine is, as far as it matters to kernels: for people who compare numbers from several.

use crate::bundle;

/// A feature of the processor, and whether it is there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Feature {
    /// The name that compilers give it: `avx512vnni`.
    pub name: &'static str,
    /// Whether this processor has it, and the system lets programs use it.
    pub here: bool,
}

/// What matters of a machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Instruction set: `x86_64`.
    pub arch: &'static str,
    /// The processor's own name, where the system tells it.
    pub processor: Option<String>,
    /// Threads that run at once.
    pub cores: usize,
    /// Features that some kernel could make use of.
    pub features: Vec<Feature>,
}

impl Machine {
    /// This one.
    pub fn here() -> Machine {
        Machine {
            arch: std::env::consts::ARCH,
            processor: bundle::system_text("/proc/cpuinfo").as_deref().and_then(processor),
            cores: std::thread::available_parallelism().map_or(1, usize::from),
            features: features(),
        }
    }
}

/// The name of the first processor in Linux's list. Arm kernels give numbers in place of a name.
fn processor(cpuinfo: &str) -> Option<String> {
    let value = |line: &str| line.split_once(':').map(|(_, value)| value.trim().to_owned());
    cpuinfo.lines().find(|line| line.starts_with("model name")).and_then(value)
}

#[cfg(target_arch = "x86_64")]
fn features() -> Vec<Feature> {
    macro_rules! detect {
        ($($name:tt),*) => {
            vec![$(Feature { name: $name, here: std::arch::is_x86_feature_detected!($name) }),*]
        };
    }
    detect!("avx2", "fma", "f16c", "avxvnni", "avx512f", "avx512bw", "avx512vl", "avx512vnni", "avx512vbmi")
}

#[cfg(target_arch = "aarch64")]
fn features() -> Vec<Feature> {
    macro_rules! detect {
        ($($name:tt),*) => {
            vec![$(Feature { name: $name, here: std::arch::is_aarch64_feature_detected!($name) }),*]
        };
    }
    detect!("neon", "fp16", "bf16", "dotprod", "i8mm", "sve")
}

#[cfg(not(any(target_arch = "x86_64", target_arch = "aarch64")))]
fn features() -> Vec<Feature> {
    Vec::new()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_processor_is_named_once() {
        let text = "processor\t: 0\nmodel name\t: AMD EPYC: 7\nprocessor\t: 1\nmodel name\t: other\n";
        assert_eq!(processor(text).as_deref(), Some("AMD EPYC: 7"));
        assert_eq!(processor("CPU implementer\t: 0x41\n"), None);
    }

    #[test]
    fn this_machine_has_a_core() {
        let here = Machine::here();
        assert!(here.cores > 0 && !here.arch.is_empty());
    }
}
