//! Record bytes that clients have produced and fetched in the last minute, by user and by client
//! id.
//!
//! A connection looks its counters up when it first produces or fetches, and keeps them: after
//! that, a count is one relaxed addition, without a lock and without an allocation. The admin
//! thread samples the counters every ten seconds.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

/// Pairs of user and client id with separate counters: 5 MiB at most, with the longest names.
/// Clients beyond them are [`OTHER`].
const CLIENTS_MAX: usize = 5_000;

/// User and client id of clients without separate counters.
const OTHER: &str = "other";

/// Maximum number of characters of a name that are kept; a client chooses its id.
const NAME_MAX: usize = 64;

/// Time between two samples.
pub(crate) const SAMPLE_STEP: Duration = Duration::from_secs(10);

/// Number of samples that are kept: the oldest of them is a minute old, or a step more.
const SAMPLES: usize = 7;

/// A user and a client id, shortened.
type Names = (Arc<str>, Arc<str>);

/// Produced and fetched bytes.
type Bytes = [u64; 2];

/// The first characters of a name that a client has chosen, enough to recognize it.
pub(crate) fn shortened(name: &str) -> Box<str> {
    let end = name.char_indices().nth(NAME_MAX).map_or(name.len(), |(end, _)| end);
    name[..end].into()
}

/// Counters of the clients that have the same user and the same client id.
#[derive(Debug)]
pub struct ClientTraffic {
    user: Arc<str>,
    client_id: Arc<str>,
    produced: AtomicU64,
    fetched: AtomicU64,
}

impl ClientTraffic {
    fn of((user, client_id): Names) -> Self {
        let (produced, fetched) = Default::default();
        Self { user, client_id, produced, fetched }
    }

    /// Counts record bytes of the client that were appended.
    pub fn produced(&self, bytes: u64) {
        self.produced.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Counts record bytes in responses to fetches of the client.
    pub fn fetched(&self, bytes: u64) {
        self.fetched.fetch_add(bytes, Ordering::Relaxed);
    }

    fn bytes(&self) -> Bytes {
        [&self.produced, &self.fetched].map(|count| count.load(Ordering::Relaxed))
    }
}

/// Record bytes per second of the clients with one name.
#[derive(Clone, Debug, PartialEq)]
pub struct ByteRates {
    /// The name; at most 64 characters of it.
    pub name: String,
    /// Bytes per second that the clients have produced.
    pub produced: f64,
    /// Bytes per second that the clients have fetched.
    pub fetched: f64,
}

/// The clients with the highest rates, the highest sum first.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct BusiestClients {
    /// Rates by client id.
    pub client_ids: Vec<ByteRates>,
    /// Rates by user.
    pub users: Vec<ByteRates>,
}

/// The counters of all clients.
#[derive(Debug, Default)]
pub(super) struct TrafficBook(Mutex<Pages>);

#[derive(Debug, Default)]
struct Pages {
    clients: HashMap<Names, Sampled>,
    /// Counters of the clients that had no room.
    others: Option<Sampled>,
    /// Times of the last samples, the oldest first.
    taken_ms: VecDeque<i64>,
}

#[derive(Debug)]
struct Sampled {
    traffic: Arc<ClientTraffic>,
    /// Counts at the times of the samples, in the same order; 0 before the first use.
    samples: [Bytes; SAMPLES],
}

impl Sampled {
    fn of(names: Names) -> Self {
        Self { traffic: Arc::new(ClientTraffic::of(names)), samples: Default::default() }
    }

    /// True if no connection uses the counters.
    fn is_unused(&self) -> bool {
        Arc::strong_count(&self.traffic) == 1
    }
}

impl TrafficBook {
    /// Counters of the clients with this user and client id.
    pub(super) fn client(&self, user: &str, client_id: &str) -> Arc<ClientTraffic> {
        let names: Names = (shortened(user).into(), shortened(client_id).into());
        let mut pages = self.0.lock();
        if pages.clients.len() >= CLIENTS_MAX && !pages.clients.contains_key(&names) {
            pages.clients.retain(|_, one| !one.is_unused());
        }
        let is_full = pages.clients.len() >= CLIENTS_MAX && !pages.clients.contains_key(&names);
        let sampled = if is_full {
            pages.others.get_or_insert_with(|| Sampled::of((OTHER.into(), OTHER.into())))
        } else {
            pages.clients.entry(names.clone()).or_insert_with(|| Sampled::of(names))
        };
        sampled.traffic.clone()
    }

    /// Takes a sample of all counters, and drops those without a connection that have counted
    /// nothing since the oldest sample.
    pub(super) fn sample(&self, now_ms: i64) {
        let mut pages = self.0.lock();
        let Pages { clients, others, taken_ms } = &mut *pages;
        taken_ms.push_back(now_ms);
        if taken_ms.len() > SAMPLES {
            taken_ms.pop_front();
        }
        clients.retain(|_, one| !one.is_unused() || one.traffic.bytes() != one.samples[0]);
        for one in clients.values_mut().chain(others) {
            one.samples.rotate_left(1);
            one.samples[SAMPLES - 1] = one.traffic.bytes();
        }
    }

    /// The names with the highest rates: at most this number of those that have produced most, and
    /// of those that have fetched most.
    pub(super) fn busiest(&self, most: usize, now_ms: i64) -> BusiestClients {
        let (oldest_ms, moved) = self.0.lock().moved();
        let seconds = (now_ms - oldest_ms.unwrap_or(now_ms)).max(1000) as f64 / 1000.0;
        let rates = |name: fn(&ClientTraffic) -> &str| {
            let mut sums: HashMap<&str, Bytes> = HashMap::new();
            for (traffic, bytes) in &moved {
                let sum = sums.entry(name(traffic)).or_default();
                *sum = [sum[0] + bytes[0], sum[1] + bytes[1]];
            }
            ranked(sums, most, seconds)
        };
        BusiestClients { client_ids: rates(|one| &one.client_id), users: rates(|one| &one.user) }
    }
}

impl Pages {
    /// Time of the oldest sample, and the counters with their bytes since then, unless there are
    /// none.
    fn moved(&self) -> (Option<i64>, Vec<(Arc<ClientTraffic>, Bytes)>) {
        // Before as many samples as are kept, the oldest one is not the first of the array.
        let oldest = SAMPLES - self.taken_ms.len().max(1);
        let since = |one: &Sampled| {
            let (now, then) = (one.traffic.bytes(), one.samples[oldest]);
            let bytes = [now[0].wrapping_sub(then[0]), now[1].wrapping_sub(then[1])];
            (bytes != [0, 0]).then(|| (one.traffic.clone(), bytes))
        };
        let moved = self.clients.values().chain(&self.others).filter_map(since).collect();
        (self.taken_ms.front().copied(), moved)
    }
}

/// Rates of the names that lead in one of the directions, the highest sum first.
fn ranked(sums: HashMap<&str, Bytes>, most: usize, seconds: f64) -> Vec<ByteRates> {
    let mut sums: Vec<(&str, Bytes)> = sums.into_iter().collect();
    let mut leading = HashSet::new();
    for direction in [0, 1] {
        sums.sort_unstable_by_key(|(name, bytes)| (Reverse(bytes[direction]), *name));
        let first = sums.iter().take(most).filter(|(_, bytes)| bytes[direction] > 0);
        leading.extend(first.map(|(name, _)| *name));
    }
    sums.retain(|(name, _)| leading.contains(name));
    sums.sort_unstable_by_key(|(name, bytes)| (Reverse(bytes[0] + bytes[1]), *name));
    let rates = sums.into_iter().map(|(name, [produced, fetched])| ByteRates {
        name: name.to_owned(),
        produced: produced as f64 / seconds,
        fetched: fetched as f64 / seconds,
    });
    rates.collect()
}

#[cfg(test)]
mod tests;
