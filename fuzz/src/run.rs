//! Runs a target on one input after another, and keeps those that lead to something new.

use crate::caught::{kind, minimise, observe};
use scantling_fuzz::mutate::{MAX_LEN, Rng, mutate};
use scantling_fuzz::outcome::{Feature, Outcome, hash_of};
use scantling_fuzz::targets::Target;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// How long to run, and how.
pub struct Limits {
    /// Time for each target.
    pub time: Option<Duration>,
    /// Inputs for each target, over all threads.
    pub inputs: Option<u64>,
    /// Where the random numbers begin.
    pub seed: u64,
    /// Threads.
    pub threads: u64,
    /// Folder for inputs that were caught.
    pub crashes: PathBuf,
    /// Whether each input is written down before it is run.
    pub record: bool,
}

/// An input that was caught.
pub struct Caught {
    /// What was wrong.
    pub what: String,
    /// The input, made small.
    pub input: Vec<u8>,
    /// Where it was written.
    pub file: PathBuf,
}

/// What a run came to.
pub struct Summary {
    /// Inputs that were run.
    pub inputs: u64,
    /// How long that took.
    pub seconds: f64,
    /// Sets of things that an input led to, each counted once.
    pub outcomes: usize,
    /// Codes of findings that were met.
    pub codes: BTreeSet<&'static str>,
    /// Inputs that were kept since they led to something new.
    pub kept: usize,
    /// One input for each fault.
    pub caught: Vec<Caught>,
}

/// An input that runs longer than this never ends, as far as we can tell.
const HANG: Duration = Duration::from_secs(60);

/// Time between words on how far a long run has come.
const PROGRESS: Duration = Duration::from_secs(60);

/// What the workers share.
struct Shared<'a> {
    target: &'static Target,
    limits: &'a Limits,
    start: Instant,
    outcomes: Mutex<HashSet<u64>>,
    codes: Mutex<BTreeSet<&'static str>>,
    kept: AtomicU64,
    caught: Mutex<BTreeMap<String, Caught>>,
}

/// What the watcher sees of one worker.
#[derive(Default)]
struct Watched {
    /// Inputs begun.
    begun: AtomicU64,
    /// The input that is being run.
    input: Mutex<Vec<u8>>,
    /// Whether it is busy with something that may take long.
    excused: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Runs a target on all threads.
pub fn run(target: &'static Target, limits: &Limits) -> io::Result<Summary> {
    let shared = Shared {
        target,
        limits,
        start: Instant::now(),
        outcomes: Mutex::default(),
        codes: Mutex::default(),
        kept: AtomicU64::new(0),
        caught: Mutex::default(),
    };
    let watched: Vec<Watched> = (0..limits.threads).map(|_| Watched::default()).collect();
    let failed: Mutex<Option<io::Error>> = Mutex::new(None);
    thread::scope(|scope| {
        let workers: Vec<_> = watched
            .iter()
            .enumerate()
            .map(|(number, watched)| {
                let (shared, failed) = (&shared, &failed);
                scope.spawn(move || {
                    // In a pool of one thread, what core does in parallel runs right here.
                    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build();
                    let done = match pool {
                        Ok(pool) => pool.install(|| work(shared, watched, number as u64)),
                        Err(e) => Err(io::Error::other(e)),
                    };
                    if let Err(e) = done {
                        *lock(failed) = Some(e);
                    }
                })
            })
            .collect();
        watch(&shared, &watched, || workers.iter().all(|worker| worker.is_finished()));
    });
    if let Some(why) = lock(&failed).take() {
        return Err(why);
    }
    let inputs = watched.iter().map(|w| w.begun.load(Ordering::Relaxed)).sum();
    let caught = std::mem::take(&mut *lock(&shared.caught)).into_values().collect();
    Ok(Summary {
        inputs,
        seconds: shared.start.elapsed().as_secs_f64(),
        outcomes: lock(&shared.outcomes).len(),
        codes: std::mem::take(&mut *lock(&shared.codes)),
        kept: shared.kept.load(Ordering::Relaxed) as usize,
        caught,
    })
}

/// Says now and then how far the run has come, and ends the program if a worker does not come back from an input.
fn watch(shared: &Shared<'_>, watched: &[Watched], done: impl Fn() -> bool) {
    let mut seen: Vec<(u64, Instant)> = watched.iter().map(|_| (0, Instant::now())).collect();
    let mut told = Instant::now();
    while !done() {
        thread::sleep(Duration::from_millis(20));
        if told.elapsed() > PROGRESS {
            let inputs: u64 = watched.iter().map(|w| w.begun.load(Ordering::Relaxed)).sum();
            eprintln!("{}: {inputs} inputs so far", shared.target.name);
            told = Instant::now();
        }
        for (worker, seen) in watched.iter().zip(&mut seen) {
            let begun = worker.begun.load(Ordering::Relaxed);
            if begun != seen.0 || worker.excused.load(Ordering::Relaxed) {
                *seen = (begun, Instant::now());
            } else if seen.1.elapsed() > HANG {
                let input = lock(&worker.input).clone();
                let file = shared.write("hang", &input);
                eprintln!("{}: an input does not end: {file:?}", shared.target.name);
                std::process::exit(1);
            }
        }
    }
}

impl Shared<'_> {
    /// Writes an input that was caught, under a name that its fault gives it.
    fn write(&self, kind: &str, input: &[u8]) -> io::Result<PathBuf> {
        fs::create_dir_all(&self.limits.crashes)?;
        let name = format!("{}-{:016x}.bin", self.target.name, hash_of(kind.as_bytes()));
        let file = self.limits.crashes.join(name);
        fs::write(&file, input)?;
        Ok(file)
    }

    /// Keeps an input that was caught, if it is the first with its fault or has become shorter.
    fn catch(&self, what: String, input: &[u8]) -> io::Result<()> {
        let kind = kind(&what).to_owned();
        let better = |known: Option<&Caught>| known.is_none_or(|known| input.len() < known.input.len());
        if !better(lock(&self.caught).get(&kind)) {
            return Ok(());
        }
        let input = minimise(self.target, input, &what);
        let file = self.write(&kind, &input)?;
        lock(&self.caught).insert(kind, Caught { what, input, file });
        Ok(())
    }
}

/// Most inputs that one worker keeps.
const KEPT: usize = 4096;
/// Features of one kind that count as new; after so many they are the input's own words.
const OF_A_KIND: usize = 64;
/// Most outcomes that one worker remembers.
const OUTCOMES: usize = 1 << 20;

/// Inputs to make others of.
struct Corpus {
    inputs: Vec<Vec<u8>>,
    /// How many of them are seeds, which are never given up.
    seeds: usize,
    features: HashSet<Feature>,
    /// How many features of each kind were met.
    kinds: HashMap<u64, usize>,
    outcomes: HashSet<u64>,
}

impl Corpus {
    fn new(seeds: Vec<Vec<u8>>) -> Corpus {
        let count = seeds.len();
        Corpus {
            inputs: seeds,
            seeds: count,
            features: HashSet::new(),
            kinds: HashMap::new(),
            outcomes: HashSet::new(),
        }
    }

    /// Whether an outcome has anything in it that none before had; a new set of known things counts as long as
    /// there is room.
    fn is_new(&mut self, outcome: &Outcome, shared: &Shared<'_>) -> bool {
        let mut new = false;
        for feature in outcome.features() {
            let met = self.kinds.entry(feature.kind).or_insert(0);
            if *met < OF_A_KIND && self.features.insert(*feature) {
                *met += 1;
                new = true;
            }
        }
        if self.outcomes.len() < OUTCOMES && self.outcomes.insert(outcome.hash()) {
            lock(&shared.outcomes).insert(outcome.hash());
            lock(&shared.codes).extend(outcome.codes());
            new |= self.inputs.len() < KEPT;
        }
        new
    }

    /// One of the inputs; of two, mostly the shorter.
    fn pick(&self, rng: &mut Rng) -> &[u8] {
        let mut one = || self.inputs.get(rng.below(self.inputs.len())).map_or(&[][..], Vec::as_slice);
        let (a, b) = (one(), one());
        if a.len() <= b.len() || rng.below(8) == 0 { a } else { b }
    }

    /// Keeps an input in the place of another, once there are many.
    fn keep(&mut self, rng: &mut Rng, input: &[u8]) {
        if self.inputs.len() < KEPT {
            self.inputs.push(input.to_vec());
        } else {
            let at = self.seeds.saturating_add(rng.below(KEPT.saturating_sub(self.seeds)));
            if let Some(old) = self.inputs.get_mut(at) {
                *old = input.to_vec();
            }
        }
    }
}

fn work(shared: &Shared<'_>, watched: &Watched, number: u64) -> io::Result<()> {
    let (target, limits) = (shared.target, shared.limits);
    let mut rng = Rng::new(limits.seed.wrapping_mul(0x1_0001).wrapping_add(number));
    let mut corpus = Corpus::new((target.seeds)());
    let mut record = Record::new(shared, number)?;
    // What does not divide evenly falls to the first.
    let share = limits.inputs.map(|n| n / limits.threads + if number == 0 { n % limits.threads } else { 0 });
    let over = |done: u64| {
        share.is_some_and(|share| done >= share)
            || limits.time.is_some_and(|time| shared.start.elapsed() >= time)
    };
    let mut input = Vec::with_capacity(MAX_LEN);
    for done in 0.. {
        if over(done) {
            break;
        }
        let seed = done < corpus.seeds as u64;
        if seed {
            corpus.inputs[done as usize].clone_into(&mut input);
        } else {
            let (base, other) = (corpus.pick(&mut rng), corpus.pick(&mut rng));
            mutate(&mut rng, base, other, &mut input);
            if rng.below(4) > 0 {
                (target.repair)(&mut input);
            }
        }
        lock(&watched.input).clone_from(&input);
        watched.begun.store(done + 1, Ordering::Relaxed);
        record.write(&input)?;
        let seen = observe(target, &input);
        if let Some(what) = seen.caught {
            watched.excused.store(true, Ordering::Relaxed);
            shared.catch(what, &input)?;
            watched.excused.store(false, Ordering::Relaxed);
        } else if corpus.is_new(&seen.outcome, shared) && !seed {
            shared.kept.fetch_add(1, Ordering::Relaxed);
            corpus.keep(&mut rng, &input);
        }
    }
    Ok(())
}

/// Writes each input down before it is run, if that is wanted.
struct Record(Option<File>);

impl Record {
    fn new(shared: &Shared<'_>, number: u64) -> io::Result<Record> {
        if !shared.limits.record {
            return Ok(Record(None));
        }
        fs::create_dir_all(&shared.limits.crashes)?;
        let name = format!("{}-current-{number}.bin", shared.target.name);
        File::create(shared.limits.crashes.join(name)).map(|file| Record(Some(file)))
    }

    fn write(&mut self, input: &[u8]) -> io::Result<()> {
        let Some(file) = &mut self.0 else { return Ok(()) };
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(input)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(crashes: PathBuf) -> Limits {
        Limits { time: None, inputs: Some(20_000), seed: 1, threads: 2, crashes, record: false }
    }

    /// Two faults in one target: both are found, made small and written down.
    #[test]
    fn faults_are_caught() {
        static FAULTY: Target = Target {
            name: "faulty",
            run: |input| {
                assert!(!input.contains(&b'!'), "an exclamation");
                if input.starts_with(b"{{") {
                    std::hint::black_box(Vec::<u8>::with_capacity(300 << 20));
                }
                Outcome::default()
            },
            seeds: || vec![b"good day{".to_vec(), b"{\"a\": \"F32!\"}".to_vec()],
            repair: |_| {},
        };
        let folder = std::env::temp_dir().join(format!("scantling-fuzz-{}", std::process::id()));
        crate::caught::install();
        let summary = run(&FAULTY, &limits(folder.clone())).unwrap();
        let mut caught: Vec<(&[u8], &str)> =
            summary.caught.iter().map(|c| (c.input.as_slice(), c.what.as_str())).collect();
        caught.sort_unstable();
        assert_eq!(caught.len(), 2, "{caught:?}");
        assert_eq!(caught[0].0, b"!");
        assert!(caught[0].1.contains("run.rs") && caught[0].1.ends_with("an exclamation"), "{caught:?}");
        assert_eq!(caught[1], (&b"{{"[..], "memory: 300 MiB"));
        for caught in &summary.caught {
            assert_eq!(fs::read(&caught.file).unwrap(), caught.input);
        }
        fs::remove_dir_all(folder).unwrap();
    }

    #[test]
    fn a_run_can_be_repeated() {
        static STEADY: Target = Target {
            name: "steady",
            run: |input| {
                let mut outcome = Outcome::default();
                outcome.add("sum", &input.iter().fold(0u8, |a, b| a.wrapping_add(*b)).to_string());
                outcome
            },
            seeds: || vec![b"{\"a\": 1}".to_vec()],
            repair: |_| {},
        };
        let once = || run(&STEADY, &limits(PathBuf::from("unused"))).unwrap();
        let (a, b) = (once(), once());
        assert_eq!((a.inputs, a.outcomes, a.kept), (20_000, b.outcomes, b.kept));
    }
}
