//! Every plugin that was linked into the program. The only reader of `inventory`.

use crate::architecture::ArchitecturePlugin;
use crate::config::Config;
use crate::error::{Error, Result};
use crate::finding::{Code, CodeEntry};
use crate::kernel::{Kernel, KernelPlugin, Make, MakeLeaf, Options, Precision};
use crate::source::FormatPlugin;

/// The wrapper that spreads a kernel over the cores.
pub const SPREADER: &str = "rayon";

/// Words that stand for the best kernel of a sort.
const WORDS: [&str; 3] = ["auto", "exact", "fast"];

/// Wrappers around one leaf: each calls the next, so a long chain of them would run out of stack.
const MOST_WRAPPERS: usize = 8;

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
        named(sorted("kernel", inventory::iter::<KernelPlugin>, |p| p.name)?)
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
            kernels: named(sorted("kernel", kernels, |p| p.name)?)?,
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
    /// Who says where to spread has a word mean the leaf alone: `rayon+profile+exact`.
    pub fn kernel(&self, spec: &str, work: Work, options: &Options) -> Result<Box<dyn Kernel>> {
        let mut names: Vec<&str> = spec.split('+').collect();
        let last = names.pop().unwrap_or(spec);
        self.fit(spec, &names, last)?;
        let fast = match (last, work) {
            ("exact", _) | ("auto", Work::Exact) => Some(false),
            ("fast", _) | ("auto", Work::Fast) => Some(true),
            _ => None,
        };
        let mut kernel = match fast {
            Some(fast) if names.contains(&SPREADER) => self.best_leaf(fast, options)?,
            Some(fast) => self.spread(self.best_leaf(fast, options)?, options),
            None => self.leaf(last, options)?,
        };
        for name in names.into_iter().rev() {
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

    /// Whether the names of a specification can stand together.
    fn fit(&self, spec: &str, wrappers: &[&str], last: &str) -> Result<()> {
        if wrappers.len() > MOST_WRAPPERS {
            let begin: String = spec.chars().take(40).collect();
            let count = wrappers.len();
            return Err(Error::Usage(format!(
                "\"{begin}…\": {count} wrappers stand there, and {MOST_WRAPPERS} are the most: name each once"
            )));
        }
        let wrong = |why: String| Err(Error::Usage(format!("\"{spec}\": {why}")));
        if last.is_empty() && !wrappers.is_empty() {
            let wrapper = spec.trim_end_matches('+');
            return wrong(format!(
                "a kernel has to stand after the +: write {wrapper}+LEAF, such as {wrapper}+exact"
            ));
        }
        if wrappers.contains(&"") {
            return wrong("a name is missing beside a +: write WRAPPER+LEAF, such as rayon+exact".into());
        }
        if let Some(word) = wrappers.iter().find(|name| WORDS.contains(name)) {
            return wrong(format!(
                "{word} is a whole kernel and can only stand last: write {last} or {word} alone"
            ));
        }
        let mut once: Vec<&str> = Vec::new();
        for name in wrappers {
            if !once.contains(name) {
                once.push(name);
            }
        }
        if let Some(twice) = once.iter().find(|name| wrappers.iter().filter(|w| w == name).count() > 1) {
            let why = match *twice {
                SPREADER => " and would start threads within threads",
                _ => "",
            };
            let rest = once.iter().chain([&last]).copied().collect::<Vec<_>>().join("+");
            return wrong(format!("{twice} stands there twice{why}: write {rest}"));
        }
        Ok(())
    }

    /// A leaf on its own, or why it cannot run here.
    pub fn leaf(&self, name: &str, options: &Options) -> Result<Box<dyn Kernel>> {
        let plugin = self.kernel_named(name)?;
        match plugin.make {
            Make::Leaf(make) => plugin.leaf(make, options).map_err(|why| {
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
        let made = self.ranked(fast).find_map(|(plugin, make)| plugin.leaf(make, options).ok());
        made.ok_or_else(|| Error::Usage("no kernel of this program runs on this machine".into()))
    }

    /// Which leaf that is.
    pub fn best_plugin(&self, fast: bool) -> Option<&'static KernelPlugin> {
        self.ranked(fast).map(|(plugin, _)| plugin).find(|k| k.why_not().is_none())
    }

    /// The leaves that `fast` or `exact` may be, the best first; of equal ranks the first by name.
    fn ranked(&self, fast: bool) -> impl Iterator<Item = (&'static KernelPlugin, MakeLeaf)> {
        let leaf = |plugin: &&'static KernelPlugin| match plugin.make {
            Make::Leaf(make) if fast || plugin.precision == Precision::Exact => Some((*plugin, make)),
            _ => None,
        };
        let mut leaves: Vec<_> = self.kernels.iter().filter_map(leaf).collect();
        leaves.sort_by_key(|(plugin, _)| std::cmp::Reverse(plugin.rank));
        leaves.into_iter()
    }

    /// The leaves that run here, by name.
    pub fn usable_leaves(&self) -> impl Iterator<Item = &'static KernelPlugin> {
        let leaves = self.kernels.iter().copied().filter(|k| matches!(k.make, Make::Leaf(_)));
        leaves.filter(|k| k.why_not().is_none())
    }

    /// What each kernel is on this machine, by name.
    pub fn standings(&self) -> Vec<Standing> {
        let standing = |plugin: &&'static KernelPlugin| Standing {
            plugin,
            why_not: plugin.why_not(),
            exact: false,
            fast: false,
        };
        let mut all: Vec<Standing> = self.kernels.iter().map(standing).collect();
        let best = |fast: bool| {
            let usable = |name: &str| all.iter().any(|s| s.plugin.name == name && s.why_not.is_none());
            self.ranked(fast).map(|(plugin, _)| plugin.name).find(|name| usable(name))
        };
        let (exact, fast) = (best(false), best(true));
        for standing in &mut all {
            standing.exact = exact == Some(standing.plugin.name);
            standing.fast = fast == Some(standing.plugin.name);
        }
        all
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

/// Refuses names of kernels that no specification could name.
fn named(kernels: Vec<&'static KernelPlugin>) -> Result<Vec<&'static KernelPlugin>> {
    for name in kernels.iter().map(|k| k.name) {
        if name.is_empty() || name.contains(['+', ',']) || WORDS.contains(&name) {
            let words = WORDS.join(", ");
            return Err(Error::Usage(format!(
                "a kernel is named \"{name}\": a name is none of {words}, and has neither + nor a comma in it"
            )));
        }
    }
    Ok(kernels)
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    struct Named(String);

    impl Kernel for Named {
        fn name(&self) -> String {
            self.0.clone()
        }
    }

    static MADE: AtomicUsize = AtomicUsize::new(0);

    const fn leaf(name: &'static str, rank: u8, make: MakeLeaf) -> KernelPlugin {
        KernelPlugin { name, summary: "", rank, precision: Precision::Exact, make: Make::Leaf(make) }
    }

    const fn wrapper(
        name: &'static str,
        make: fn(Box<dyn Kernel>, &Options) -> Box<dyn Kernel>,
    ) -> KernelPlugin {
        KernelPlugin { name, summary: "", rank: 0, precision: Precision::Exact, make: Make::Wrapper(make) }
    }

    static LOW: KernelPlugin = leaf("low", 1, |_| Ok(Box::new(Named("low".into()))));
    static HIGH: KernelPlugin = leaf("high", 9, |_| Ok(Box::new(Named("high".into()))));
    static COUNTED: KernelPlugin = leaf("counted", 9, |_| {
        MADE.fetch_add(1, Ordering::SeqCst);
        Ok(Box::new(Named("counted".into())))
    });
    static ABSENT: KernelPlugin = leaf("absent", 20, |_| Err("needs another processor".into()));
    static RAYON: KernelPlugin =
        wrapper("rayon", |inner, _| Box::new(Named(format!("rayon+{}", inner.name()))));
    static WATCH: KernelPlugin =
        wrapper("watch", |inner, _| Box::new(Named(format!("watch+{}", inner.name()))));

    fn registry(high: &'static KernelPlugin) -> Registry {
        let kernels = sorted("kernel", [&LOW, high, &ABSENT, &RAYON, &WATCH], |p| p.name).unwrap();
        Registry { formats: Vec::new(), architectures: Vec::new(), kernels, codes: Vec::new() }
    }

    fn name(spec: &str) -> String {
        let made = registry(&HIGH).kernel(spec, Work::Fast, &Options::default());
        made.map_or_else(|error| error.to_string(), |kernel| kernel.name())
    }

    #[test]
    fn a_word_is_spread_once_wherever_that_is_said() {
        let cases = [
            ("auto", "rayon+high"),
            ("watch+exact", "watch+rayon+high"),
            ("rayon+auto", "rayon+high"),
            ("rayon+watch+fast", "rayon+watch+high"),
            ("watch+rayon+exact", "watch+rayon+high"),
            ("rayon+low", "rayon+low"),
        ];
        for (spec, wanted) in cases {
            assert_eq!(name(spec), wanted, "{spec}");
        }
    }

    #[test]
    fn what_cannot_stand_together_is_told_with_what_to_write() {
        let cases = [
            ("rayon+", "a kernel has to stand after the +: write rayon+LEAF, such as rayon+exact"),
            ("+low", "a name is missing beside a +"),
            ("rayon++low", "a name is missing beside a +"),
            ("auto+low", "auto is a whole kernel and can only stand last: write low or auto alone"),
            ("rayon+watch+rayon+low", "write rayon+watch+low"),
            ("watch+watch+low", "watch stands there twice: write watch+low"),
            ("rayon+rayon+auto", "write rayon+auto"),
            ("low+high", "low in \"low+high\" is no wrapper"),
            ("rayon", "write rayon+LEAF"),
            ("nonesuch+low", "unknown kernel \"nonesuch\""),
        ];
        for (spec, told) in cases {
            assert!(name(spec).contains(told), "{spec}: {}", name(spec));
        }
    }

    #[test]
    fn a_long_chain_of_wrappers_is_refused_in_a_short_message() {
        let told = name(&("watch+".repeat(18_000) + "low"));
        assert!(told.contains("18000 wrappers stand there, and 8 are the most"), "{told}");
        assert!(told.len() < 200, "{told}");
    }

    #[test]
    fn a_leaf_is_tried_once() {
        let registry = registry(&COUNTED);
        let tries = |ask: &dyn Fn()| {
            let before = MADE.load(Ordering::SeqCst);
            ask();
            MADE.load(Ordering::SeqCst) - before
        };
        assert_eq!(tries(&|| drop(registry.best_leaf(true, &Options::default()).unwrap())), 1);
        assert_eq!(tries(&|| drop(registry.standings())), 1);
        let standings = registry.standings();
        let chosen: Vec<&str> =
            standings.iter().filter(|s| s.fast && s.exact).map(|s| s.plugin.name).collect();
        assert_eq!(chosen, ["counted"]);
    }

    #[test]
    fn a_kernel_that_its_plugin_is_wrong_about_is_refused() {
        struct Rounds;
        impl Kernel for Rounds {
            fn name(&self) -> String {
                "rounds".into()
            }
            fn precision(&self) -> Precision {
                Precision::Quantised { block: 32 }
            }
        }
        static ROUNDS: KernelPlugin = leaf("rounds", 200, |_| Ok(Box::new(Rounds)));
        let why = ROUNDS.why_not().unwrap();
        assert!(why.contains("Exact") && why.contains("Quantised { block: 32 }"), "{why}");
    }

    #[test]
    fn names_that_mean_something_else_are_refused() {
        static PLUS: KernelPlugin = leaf("a+b", 1, |_| Err(String::new()));
        static WORD: KernelPlugin = leaf("fast", 1, |_| Err(String::new()));
        for plugin in [&PLUS, &WORD] {
            let told = named(vec![plugin]).unwrap_err().to_string();
            assert!(told.contains(plugin.name) && told.contains("neither +"), "{told}");
        }
        assert_eq!(named(vec![&LOW]).unwrap().len(), 1);
    }
}
