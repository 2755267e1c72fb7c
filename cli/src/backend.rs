//! The kernels that a command compares: made from what was asked for, each once.

use crate::args::KernelArgs;
use scantling_core::error::{Error, Result};
use scantling_core::kernel::{Kernel, Options, Precision};
use scantling_core::parallel::worth;
use scantling_core::registry::{Registry, SPREADER, Work};

/// A kernel that is compared, made.
pub struct Backend {
    /// Its name, wrappers and all.
    pub name: String,
    /// Threads it runs on.
    pub threads: usize,
    /// Whether its products round activations.
    pub rounds_activations: bool,
    /// The kernel.
    pub kernel: Box<dyn Kernel>,
}

impl Backend {
    /// A kernel by its specification. One that is not spread runs on one thread, whatever is asked.
    pub fn new(registry: &Registry, spec: &str, work: Work, threads: usize) -> Result<Backend> {
        let kernel = registry.kernel(spec, work, &Options { threads })?;
        let name = kernel.name();
        let had = kernel.threads();
        if name.split('+').any(|part| part == SPREADER) && threads > 0 && had < worth(threads) {
            return Err(Error::Usage(format!(
                "{name}: {threads} threads were asked for, but the system lets this program start none beside the \
                 first: ask for fewer, or raise the limit on processes"
            )));
        }
        let threads = had;
        let rounds_activations = kernel.precision() != Precision::Exact;
        Ok(Backend { name, threads, rounds_activations, kernel })
    }
}

/// The one kernel that runs a model: as asked for, or `auto`.
pub fn one(args: &KernelArgs, registry: &Registry, work: Work) -> Result<Backend> {
    let mut all = backends(args, registry, work, || vec!["auto".to_owned()])?;
    match (all.pop(), all.is_empty()) {
        (Some(backend), true) => Ok(backend),
        _ => Err(Error::Usage("this runs on one kernel and one number of threads: name one each".into())),
    }
}

/// The kernels asked for, or those that `otherwise` names; each once for each number of threads that matters to it.
pub fn backends(
    args: &KernelArgs,
    registry: &Registry,
    work: Work,
    otherwise: impl FnOnce() -> Vec<String>,
) -> Result<Vec<Backend>> {
    let mut specs: Vec<String> = args.kernel.iter().filter(|s| !s.is_empty()).cloned().collect();
    if specs.is_empty() {
        specs = otherwise();
    }
    let mut backends: Vec<Backend> = Vec::new();
    for spec in &specs {
        for threads in &args.threads {
            let made = Backend::new(registry, spec, work, *threads)?;
            if !backends.iter().any(|b| (&b.name, b.threads) == (&made.name, made.threads)) {
                backends.push(made);
            }
        }
    }
    Ok(backends)
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Debug, Parser)]
    struct One {
        #[command(flatten)]
        kernel: KernelArgs,
    }

    fn names(arguments: &[&str], work: Work) -> Result<Vec<String>> {
        let one = One::try_parse_from([&["one"], arguments].concat()).unwrap();
        let made = backends(&one.kernel, &Registry::linked()?, work, || vec!["scalar".to_owned()])?;
        Ok(made.into_iter().map(|b| b.name).collect())
    }

    #[test]
    fn auto_is_exact_or_fast_by_what_is_done() {
        for work in [Work::Exact, Work::Fast] {
            let word = if work == Work::Exact { "exact" } else { "fast" };
            let wanted = names(&["--kernel", word], Work::Exact).unwrap();
            assert_eq!(names(&["--kernel", "auto"], work).unwrap(), wanted);
        }
        assert_eq!(names(&["--kernel", ""], Work::Fast).unwrap(), ["scalar"]);
        assert_eq!(names(&["--kernel", "scalar", "--threads", "3,4"], Work::Fast).unwrap(), ["scalar"]);
    }

    #[test]
    fn an_unknown_kernel_is_told_what_there_is() {
        let error = names(&["--kernel", "avx9"], Work::Fast).unwrap_err().to_string();
        assert!(error.contains("unknown kernel \"avx9\"; known: auto, exact, fast, "), "{error}");
        assert!(error.contains("scalar"), "{error}");
        assert!(names(&["--kernel", "scalar+scalar"], Work::Fast).is_err());
        assert!(names(&["--kernel", "+scalar"], Work::Fast).is_err());
        assert_eq!(names(&["--kernel", "rayon+auto,auto"], Work::Fast).unwrap().len(), 1);
    }
}
