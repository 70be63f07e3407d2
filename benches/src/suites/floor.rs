//! What any queue of distinct keys costs at least: insert into a hash set, push to a ring, pop, remove.
//!
//! No engine, no locks, no tasks. The first round pays for growing and for fresh pages, the warm ones do not,
//! and the small window stays in the processor's cache.

use std::{
    collections::VecDeque,
    hash::{BuildHasher, BuildHasherDefault, Hash, Hasher},
    sync::Arc,
};

use anyhow::{Context, Result, ensure};
use hashbrown::HashSet;

use super::Plan;
use crate::{
    clock::Stopwatch,
    progress,
    report::{Report, figure, plain},
    samples,
};

/// Rounds after the first one.
const WARM_ROUNDS: usize = 5;
/// Keys of the window that stays in the cache.
const WINDOW: usize = 1000;

/// Nanoseconds per key for the whole cycle.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Floor {
    pub(crate) first: f64,
    pub(crate) warm: f64,
    pub(crate) window: f64,
}

pub(crate) fn run(plan: &Plan) -> Result<Report> {
    let mut report = Report::new(
        "floor",
        "one key through a hash set and a ring: insert, push, pop, remove",
        vec![
            plain("key"),
            plain("keys"),
            figure("first round", "ns/key"),
            figure("warm rounds", "ns/key"),
            figure("window of 1k", "ns/key"),
        ],
    );
    for count in plan.sizes(&[10_000], &[10_000, 100_000, 1_000_000]) {
        progress::step("floor", format!("{count} keys"));
        let numbers: Vec<u64> =
            (0..u64::from(count)).map(|id| id.wrapping_mul(0x9E37_79B9_7F4A_7C15)).collect();
        let texts: Vec<Arc<str>> =
            (0..count).map(|id| format!("ns-{:02}/object-{id:07}", id % 100).into()).collect();
        let hashed: Vec<StoredHash> = texts.iter().map(StoredHash::new).collect();
        let rows = [
            ("u64, foldhash", measure(&numbers, foldhash::fast::RandomState::default())?),
            ("(namespace, name) of Arc<str>, foldhash", pair_keys(count)?),
            ("Arc<str>, foldhash", measure(&texts, foldhash::fast::RandomState::default())?),
            ("Arc with stored hash", measure(&hashed, BuildHasherDefault::<PassOn>::default())?),
        ];
        for (key, floor) in rows {
            report.row([
                key.into(),
                count.into(),
                floor.first.into(),
                floor.warm.into(),
                floor.window.into(),
            ]);
        }
    }
    report.note(format!("Wall time of one thread; warm and window are medians of {WARM_ROUNDS} rounds."));
    Ok(report)
}

/// The floor for the keys that the engines have: a namespace and a name.
pub(crate) fn pair_keys(count: u32) -> Result<Floor> {
    let keys: Vec<(Arc<str>, Arc<str>)> = (0..count)
        .map(|id| (format!("ns-{:02}", id % 100).into(), format!("object-{id:07}").into()))
        .collect();
    measure(&keys, foldhash::fast::RandomState::default())
}

fn measure<K: Clone + Eq + Hash, S: BuildHasher + Clone>(keys: &[K], hasher: S) -> Result<Floor> {
    let mut set = HashSet::with_hasher(hasher);
    let mut ring = VecDeque::new();
    let first = cycle(keys, &mut set, &mut ring)?;
    let mut warm = Vec::with_capacity(WARM_ROUNDS);
    let mut window = Vec::with_capacity(WARM_ROUNDS);
    for _ in 0..WARM_ROUNDS {
        warm.push(cycle(keys, &mut set, &mut ring)?);
    }
    // The set of the window is small too: a large table would spread a thousand keys over all its pages.
    let mut set = HashSet::with_hasher(set.hasher().clone());
    let mut ring = VecDeque::new();
    for _ in 0..WARM_ROUNDS {
        let mut sum = 0.0;
        let mut chunks = 0.0;
        for chunk in keys.chunks(WINDOW) {
            sum += cycle(chunk, &mut set, &mut ring)?;
            chunks += 1.0;
        }
        window.push(sum / chunks);
    }
    let middle = |samples: &[f64]| samples::median(samples).context("no rounds were measured");
    Ok(Floor { first, warm: middle(&warm)?, window: middle(&window)? })
}

/// Nanoseconds per key.
fn cycle<K: Clone + Eq + Hash, S: BuildHasher>(
    keys: &[K],
    set: &mut HashSet<K, S>,
    ring: &mut VecDeque<K>,
) -> Result<f64> {
    let started = Stopwatch::start();
    let mut came = 0;
    for key in keys {
        if set.insert(key.clone()) {
            ring.push_back(key.clone());
        }
    }
    while let Some(key) = ring.pop_front() {
        came += usize::from(set.remove(&key));
    }
    let spent = started.spent().wall;
    ensure!(came == keys.len(), "only {came} of {} keys came through the floor's queue", keys.len());
    Ok(spent.as_secs_f64() * 1e9 / keys.len() as f64)
}

/// A shared key that knows its hash.
#[derive(Debug, Clone, PartialEq, Eq)]
struct StoredHash(Arc<(u64, Arc<str>)>);

impl StoredHash {
    fn new(text: &Arc<str>) -> Self {
        // The fixed state, so that all keys are hashed alike.
        StoredHash(Arc::new((foldhash::fast::FixedState::default().hash_one(text), text.clone())))
    }
}

impl Hash for StoredHash {
    fn hash<H: Hasher>(&self, state: &mut H) {
        state.write_u64(self.0.0);
    }
}

/// Passes a stored hash on.
#[derive(Debug, Default)]
struct PassOn(u64);

impl Hasher for PassOn {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        // Only stored hashes come here, as `write_u64`; anything else still gets some hash.
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, hash: u64) {
        self.0 = hash;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_that_comes_twice_fails_the_floor() {
        let mut set = HashSet::with_hasher(foldhash::fast::RandomState::default());
        let mut ring = VecDeque::new();
        assert!(cycle(&[1, 2, 3], &mut set, &mut ring).is_ok());
        assert!(set.is_empty() && ring.is_empty());
        let error = cycle(&[1, 1, 3], &mut set, &mut ring).unwrap_err().to_string();
        assert!(error.contains("only 2 of 3"), "{error}");
    }
}
