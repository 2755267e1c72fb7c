//! One run of one input, and what may be wrong with it.

use crate::allocations;
use scantling_fuzz::outcome::Outcome;
use scantling_fuzz::targets::Target;
use std::panic::{self, AssertUnwindSafe};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// An input may not take longer.
const SLOW: Duration = Duration::from_secs(1);
/// An input may not have more bytes in use at one time.
const MEMORY: usize = 256 << 20;

/// What the last panic said.
static LAST: Mutex<String> = Mutex::new(String::new());

/// Keeps what panics say to ourselves.
pub fn install() {
    panic::set_hook(Box::new(|info| {
        let place = info.location().map_or_else(String::new, ToString::to_string);
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_default();
        *LAST.lock().unwrap_or_else(PoisonError::into_inner) = format!("panic at {place}: {text}");
    }));
}

/// What one run of an input was like.
pub struct Seen {
    /// What it led to.
    pub outcome: Outcome,
    /// How long it took.
    pub time: Duration,
    /// The most bytes in use at one time, beyond those in use before.
    pub memory: usize,
    /// What was wrong, in words.
    pub caught: Option<String>,
}

/// Runs a target on an input. One that seems slow is run twice more, since the machine may have been busy.
pub fn observe(target: &Target, input: &[u8]) -> Seen {
    let mut seen = once(target, input);
    for _ in 0..2 {
        if seen.caught.is_none() && seen.time > SLOW {
            seen.time = seen.time.min(once(target, input).time);
        }
    }
    if seen.caught.is_none() && seen.time > SLOW {
        seen.caught = Some(format!("slow: {:.1} s", seen.time.as_secs_f64()));
    }
    if seen.caught.is_none() && seen.memory > MEMORY {
        seen.caught = Some(format!("memory: {} MiB", seen.memory >> 20));
    }
    seen
}

fn once(target: &Target, input: &[u8]) -> Seen {
    allocations::reset();
    let start = Instant::now();
    let result = panic::catch_unwind(AssertUnwindSafe(|| (target.run)(input)));
    let time = start.elapsed();
    let memory = allocations::peak();
    match result {
        Ok(outcome) => Seen { outcome, time, memory, caught: None },
        Err(_) => {
            let what = LAST.lock().unwrap_or_else(PoisonError::into_inner).clone();
            Seen { outcome: Outcome::default(), time, memory, caught: Some(what) }
        }
    }
}

/// The part of what was caught that tells one fault from another: where it panicked, without what it said.
pub fn kind(what: &str) -> &str {
    let place = what.strip_prefix("panic at ").and_then(|rest| rest.split(": ").next());
    place.unwrap_or_else(|| what.split(':').next().unwrap_or(what))
}

/// Runs spent on making one input smaller.
const TRIES: usize = 20_000;
/// Time spent on it.
const PATIENCE: Duration = Duration::from_secs(20);

/// The smallest input found that has the same fault: parts are left out, then bytes set to zero.
pub fn minimise(target: &Target, input: &[u8], what: &str) -> Vec<u8> {
    let (start, mut tries) = (Instant::now(), 0usize);
    let mut same = |candidate: &[u8]| {
        tries = tries.saturating_add(1);
        let still = tries < TRIES && start.elapsed() < PATIENCE;
        still && observe(target, candidate).caught.is_some_and(|other| kind(&other) == kind(what))
    };
    let mut best = input.to_vec();
    let mut part = best.len() / 2;
    while part > 0 {
        let mut at = 0;
        while at < best.len() {
            let mut candidate = best.clone();
            candidate.drain(at..at.saturating_add(part).min(best.len()));
            if same(&candidate) {
                best = candidate;
            } else {
                at = at.saturating_add(part);
            }
        }
        part /= 2;
    }
    for at in 0..best.len() {
        if best[at] != 0 {
            let mut candidate = best.clone();
            candidate[at] = 0;
            if same(&candidate) {
                best = candidate;
            }
        }
    }
    best
}
