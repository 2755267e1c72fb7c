//! Every plugin that was linked into the program. The only reader of `inventory`.

use crate::architecture::ArchitecturePlugin;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::finding::{Code, CodeEntry};
use crate::kernel::{Kernel, KernelPlugin, Make, Options, Precision};
use crate::source::FormatPlugin;

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
    /// there is a wrapper for that (`rayon`). Otherwise names joined with `+`: wrappers, outermost first, then a leaf
    /// or one of the two words: `verify+rayon+avx2`, `profile+exact`.
    pub fn kernel(&self, spec: &str, options: &Options) -> Result<Box<dyn Kernel>> {
        let (wrappers, last) = spec.rsplit_once('+').map_or(("", spec), |(w, l)| (w, l));
        let mut kernel = match last {
            "exact" | "fast" => self.spread(self.best_leaf(last == "fast", options)?, options),
            name => self.leaf(name, options)?,
        };
        for name in wrappers.rsplit('+').filter(|name| !name.is_empty()) {
            let plugin = by_name("kernel", &self.kernels, name, |p| p.name)?;
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
        let plugin = by_name("kernel", &self.kernels, name, |p| p.name)?;
        match plugin.make {
            Make::Leaf(make) => {
                make(options).map_err(|why| Error::Usage(format!("kernel {name} cannot run here: {why}")))
            }
            Make::Wrapper(_) => Err(Error::Usage(format!(
                "kernel {name} wraps another: write {name}+LEAF, such as {name}+exact"
            ))),
        }
    }

    /// The leaf of highest rank that runs here; with rounded activations only if `fast`.
    pub fn best_leaf(&self, fast: bool, options: &Options) -> Result<Box<dyn Kernel>> {
        let mut ranked: Vec<_> =
            self.kernels.iter().filter(|k| fast || k.precision == Precision::Exact).collect();
        ranked.sort_by_key(|k| std::cmp::Reverse(k.rank));
        let made = ranked.iter().find_map(|k| match k.make {
            Make::Leaf(make) => make(options).ok(),
            Make::Wrapper(_) => None,
        });
        made.ok_or_else(|| Error::Usage("no kernel of this program runs on this machine".into()))
    }

    fn spread(&self, leaf: Box<dyn Kernel>, options: &Options) -> Box<dyn Kernel> {
        match self.kernels.iter().find(|k| k.name == "rayon").map(|k| k.make) {
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
