//! Every plugin that was linked into the program. The only reader of `inventory`.

use crate::architecture::ArchitecturePlugin;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::finding::{Code, CodeEntry};
use crate::kernel::{Kernel, KernelPlugin, Make, Options, Precision};
use crate::source::FormatPlugin;

/// The wrapper that spreads a kernel over the cores.
pub const SPREADER: &str = "rayon";

/// What numbers are wanted for, which decides what the kernel named `auto` is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Work {
    /// To be compared: logits, traces, perplexity.
    Exact,
    /// To be had soon: generation, benchmarks.
    Fast,
}

/// What a kernel is on this machine.
#[derive(Clone, Debug)]
pub struct Standing {
    /// The kernel.
    pub plugin: &'static KernelPlugin,
    /// Why it cannot run here, if it cannot.
    pub why_not: Option<String>,
    /// Whether it is the leaf of `exact`, and so of `auto` where numbers are compared.
    pub exact: bool,
    /// Whether it is the leaf of `fast`, and so of `auto` where they are wanted soon.
    pub fast: bool,
}

/// The plugins of a program: sorted by name, each name once, no kind empty.
#[derive(Clone, Debug)]
pub struct Registry {
    formats: Vec<&'static FormatPlugin>,
    architectures: Vec<&'static ArchitecturePlugin>,
    kernels: Vec<&'static KernelPlugin>,
    codes: Vec<&'static Code>,
}

impl Registry {
    /// The plugins that the linker brought together. An empty kind means that a plugin crate is in the
    /// manifest but named nowhere in the code, so the linker left it out.
    pub fn linked() -> Result<Registry> {
        Registry::new(
            inventory::iter::<FormatPlugin>,
            inventory::iter::<ArchitecturePlugin>,
            inventory::iter::<KernelPlugin>,
        )
    }

    /// The kernels that the linker brought together, by name: for programs that have no other plugins.
    pub fn linked_kernels() -> Result<Vec<&'static KernelPlugin>> {
        sorted("kernel", inventory::iter::<KernelPlugin>, |p| p.name)
    }

    /// A registry made by hand, for programs whose linker drops what is not named (a static library linked
    /// into another language's program).
    pub fn new(
        formats: impl IntoIterator<Item = &'static FormatPlugin>,
        architectures: impl IntoIterator<Item = &'static ArchitecturePlugin>,
        kernels: impl IntoIterator<Item = &'static KernelPlugin>,
    ) -> Result<Registry> {
        Ok(Registry {
            formats: sorted("format", formats, |p| p.name)?,
            architectures: sorted("architecture", architectures, |p| p.name)?,
            kernels: sorted("kernel", kernels, |p| p.name)?,
            codes: sorted("finding code", inventory::iter::<CodeEntry>.into_iter().map(|e| e.0), |c| c.id)?,
        })
    }

    /// File formats.
    pub fn formats(&self) -> &[&'static FormatPlugin] {
        &self.formats
    }

    /// Families of models.
    pub fn architectures(&self) -> &[&'static ArchitecturePlugin] {
        &self.architectures
    }

    /// Numeric backends.
    pub fn kernels(&self) -> &[&'static KernelPlugin] {
        &self.kernels
    }

    /// Codes of findings.
    pub fn codes(&self) -> &[&'static Code] {
        &self.codes
    }

    /// The family of a config, if it is known; the first by name should two claim it.
    pub fn architecture_of(&self, config: &Config) -> Option<&'static ArchitecturePlugin> {
        self.architectures.iter().copied().find(|a| a.claims(config))
    }

    /// A family by its name.
    pub fn architecture(&self, name: &str) -> Result<&'static ArchitecturePlugin> {
        by_name("architecture", &self.architectures, name, |p| p.name)
    }

    /// A finding code by its name.
    pub fn code(&self, id: &str) -> Result<&'static Code> {
        by_name("finding code", &self.codes, id, |c| c.id)
    }

    /// A kernel by its specification.
    ///
    /// `exact` is the best leaf with f32 activations, `fast` the best leaf of all, both spread over the cores where
    /// there is a wrapper for that (`rayon`); `auto` is the one of the two that suits the work. Otherwise names joined
    /// with `+`: wrappers, outermost first, then a leaf or one of the three words: `verify+rayon+avx2`, `profile+exact`.
    pub fn kernel(&self, spec: &str, work: Work, options: &Options) -> Result<Box<dyn Kernel>> {
        let (wrappers, last) = spec.rsplit_once('+').map_or((None, spec), |(w, l)| (Some(w), l));
        let mut kernel = match (last, work) {
            ("exact", _) | ("auto", Work::Exact) => self.spread(self.best_leaf(false, options)?, options),
            ("fast", _) | ("auto", Work::Fast) => self.spread(self.best_leaf(true, options)?, options),
            (name, _) => self.leaf(name, options)?,
        };
        for name in wrappers.into_iter().flat_map(|names| names.rsplit('+')) {
            let plugin = self.kernel_named(name)?;
            let Make::Wrapper(make) = plugin.make else {
                return Err(Error::Usage(format!(
                    "{name} in \"{spec}\" is no wrapper: it can only stand last"
                )));
            };
            kernel = make(kernel, options);
        }
        Ok(kernel)
    }

    /// A leaf on its own, or why it cannot run here.
    pub fn leaf(&self, name: &str, options: &Options) -> Result<Box<dyn Kernel>> {
        let plugin = self.kernel_named(name)?;
        match plugin.make {
            Make::Leaf(make) => make(options).map_err(|why| {
                let usable = self.usable_leaves().map(|k| k.name).collect::<Vec<_>>().join(", ");
                Error::Usage(format!("kernel {name} cannot run here: {why}; usable here: {usable}"))
            }),
            Make::Wrapper(_) => Err(Error::Usage(format!(
                "kernel {name} wraps another: write {name}+LEAF, such as {name}+exact"
            ))),
        }
    }

    /// The leaf of highest rank that runs here; with rounded activations only if `fast`.
    pub fn best_leaf(&self, fast: bool, options: &Options) -> Result<Box<dyn Kernel>> {
        let best = self.best_plugin(fast).map(|k| self.leaf(k.name, options));
        best.unwrap_or_else(|| Err(Error::Usage("no kernel of this program runs on this machine".into())))
    }

    /// Which leaf that is.
    pub fn best_plugin(&self, fast: bool) -> Option<&'static KernelPlugin> {
        let fit = self.usable_leaves().filter(|k| fast || k.precision == Precision::Exact);
        // Of equal ranks the first by name.
        fit.reduce(|best, k| if k.rank > best.rank { k } else { best })
    }

    /// The leaves that run here, by name.
    pub fn usable_leaves(&self) -> impl Iterator<Item = &'static KernelPlugin> {
        let leaves = self.kernels.iter().copied().filter(|k| matches!(k.make, Make::Leaf(_)));
        leaves.filter(|k| k.why_not().is_none())
    }

    /// What each kernel is on this machine, by name.
    pub fn standings(&self) -> Vec<Standing> {
        let chosen = |fast: bool| self.best_plugin(fast).map(|k| k.name);
        let (exact, fast) = (chosen(false), chosen(true));
        let standing = |plugin: &&'static KernelPlugin| Standing {
            plugin,
            why_not: plugin.why_not(),
            exact: exact == Some(plugin.name),
            fast: fast == Some(plugin.name),
        };
        self.kernels.iter().map(standing).collect()
    }

    fn kernel_named(&self, name: &str) -> Result<&'static KernelPlugin> {
        self.kernels.iter().copied().find(|k| k.name == name).ok_or_else(|| {
            let known = self.standings().into_iter().map(|s| match (s.plugin.make, s.why_not) {
                (Make::Wrapper(_), _) => format!("{}+…", s.plugin.name),
                (Make::Leaf(_), None) => s.plugin.name.to_owned(),
                (Make::Leaf(_), Some(_)) => format!("{} (not usable here)", s.plugin.name),
            });
            let known: Vec<String> = known.collect();
            Error::Usage(format!("unknown kernel \"{name}\"; known: auto, exact, fast, {}", known.join(", ")))
        })
    }

    fn spread(&self, leaf: Box<dyn Kernel>, options: &Options) -> Box<dyn Kernel> {
        match self.kernels.iter().find(|k| k.name == SPREADER).map(|k| k.make) {
            Some(Make::Wrapper(make)) => make(leaf, options),
            _ => leaf,
        }
    }
}

fn sorted<T>(
    kind: &str,
    all: impl IntoIterator<Item = &'static T>,
    name: fn(&T) -> &'static str,
) -> Result<Vec<&'static T>> {
    let mut all: Vec<&'static T> = all.into_iter().collect();
    all.sort_by_key(|p| name(p));
    if all.is_empty() {
        return Err(Error::Usage(format!(
            "this program was built without any {kind}: name its plugin crates in the code (use the_crate as _;)"
        )));
    }
    for pair in all.windows(2) {
        if let [a, b] = pair
            && name(a) == name(b)
        {
            return Err(Error::Usage(format!("two plugins of kind {kind} are named \"{}\"", name(a))));
        }
    }
    Ok(all)
}

fn by_name<T>(
    kind: &str,
    all: &[&'static T],
    wanted: &str,
    name: fn(&T) -> &'static str,
) -> Result<&'static T> {
    all.iter().copied().find(|p| name(p) == wanted).ok_or_else(|| {
        let known: Vec<&str> = all.iter().map(|p| name(p)).collect();
        Error::Usage(format!("unknown {kind} \"{wanted}\"; known: {}", known.join(", ")))
    })
}
