//! Counts and times of requests by API.
//!
//! Each thread that processes requests has a separate table and is the only one that adds to it: no
//! cache line moves between processors, and adding needs no locked instruction. A scrape adds up
//! the tables of all threads.

use std::cell::Cell;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use levada_wire::ApiKey;
use levada_wire::api::APIS;
use levada_wire::error_code::ErrorCode;

use crate::stats::durations::{Durations, OwnDurations, add};

/// Numbers of APIs fit below this; checked by a test.
const API_SLOTS: usize = 128;

/// Codes of errors from -1 on fit into this number of counters; a test checks it.
const ERROR_SLOTS: usize = 160;

/// A part of the time of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Time from the receipt of the whole request until the socket has accepted the whole response.
    Total,
    /// Time during which a thread was busy with the request.
    Local,
    /// Time until the response was complete during which no thread was busy with the request.
    Waiting,
    /// Time for which the connection was muted after the response because of a quota.
    Throttled,
    /// Time from the complete response until the socket has accepted it.
    Sending,
}

impl Phase {
    /// All phases.
    pub(crate) const ALL: [Self; 5] =
        [Self::Total, Self::Local, Self::Waiting, Self::Throttled, Self::Sending];
}

/// Everything that was counted for one API.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApiTotals {
    /// Number of requests received.
    pub requests: u64,
    /// Bytes of these requests, headers included.
    pub request_bytes: u64,
    /// Bytes of responses that sockets have accepted.
    pub response_bytes: u64,
    /// Times, in the order of `Phase::ALL`.
    pub phases: [Durations; Phase::ALL.len()],
    /// Error codes in responses, `NONE` included, by name.
    pub errors: Vec<(&'static str, u64)>,
}

/// Tables of all threads.
#[derive(Debug, Default)]
pub(super) struct RequestTables(parking_lot::Mutex<Vec<Arc<Table>>>);

impl RequestTables {
    /// A new table, for one thread.
    pub(super) fn recorder(&self) -> Recorder {
        let table = Arc::<Table>::default();
        self.0.lock().push(table.clone());
        Recorder { table, _single: PhantomData }
    }

    /// Totals of each requested API, in the order of the keys.
    pub(super) fn totals(&self) -> Vec<(&'static str, ApiTotals)> {
        let tables = self.0.lock().clone();
        let totals = APIS.iter().map(|api| {
            let mut totals = ApiTotals::default();
            let mut errors = [0; ERROR_SLOTS];
            for counts in tables.iter().filter_map(|table| table.apis[slot(api.key)?].get()) {
                counts.add_to(&mut totals, &mut errors);
            }
            totals.errors = named(&errors);
            (api.name, totals)
        });
        totals.filter(|(_, totals)| totals.requests > 0).collect()
    }
}

/// Counts that are not 0, by the name of the code. Codes without a name count as
/// `UNKNOWN_SERVER_ERROR`.
fn named(errors: &[u64; ERROR_SLOTS]) -> Vec<(&'static str, u64)> {
    let mut named: Vec<(&'static str, u64)> = Vec::new();
    let counted = errors.iter().enumerate().filter(|(_, count)| **count > 0);
    for (slot, count) in counted {
        let code = i16::try_from(slot).map_or(-1, |slot| slot - 1);
        let name = ErrorCode::of_code(code).unwrap_or(ErrorCode::UnknownServerError).name();
        match named.iter_mut().find(|(known, _)| *known == name) {
            Some((_, known)) => *known += count,
            None => named.push((name, *count)),
        }
    }
    named
}

fn slot(api: ApiKey) -> Option<usize> {
    usize::try_from(api.wire()).ok().filter(|slot| *slot < API_SLOTS)
}

#[derive(Debug)]
struct Table {
    apis: [OnceLock<Box<Counts>>; API_SLOTS],
}

impl Default for Table {
    fn default() -> Self {
        Self { apis: [const { OnceLock::new() }; API_SLOTS] }
    }
}

#[derive(Debug)]
struct Counts {
    requests: AtomicU64,
    request_bytes: AtomicU64,
    response_bytes: AtomicU64,
    phases: [OwnDurations; Phase::ALL.len()],
    errors: [AtomicU64; ERROR_SLOTS],
}

impl Default for Counts {
    fn default() -> Self {
        Self {
            requests: AtomicU64::default(),
            request_bytes: AtomicU64::default(),
            response_bytes: AtomicU64::default(),
            phases: Default::default(),
            errors: [const { AtomicU64::new(0) }; ERROR_SLOTS],
        }
    }
}

impl Counts {
    fn add_to(&self, totals: &mut ApiTotals, errors: &mut [u64; ERROR_SLOTS]) {
        let read = |cell: &AtomicU64| cell.load(Ordering::Relaxed);
        totals.requests += read(&self.requests);
        totals.request_bytes += read(&self.request_bytes);
        totals.response_bytes += read(&self.response_bytes);
        totals.phases.iter_mut().zip(&self.phases).for_each(|(total, own)| own.add_to(total));
        errors.iter_mut().zip(&self.errors).for_each(|(total, cell)| *total += read(cell));
    }
}

/// The one writer of a table. It can move to a thread, but not be shared between threads.
#[derive(Debug)]
pub struct Recorder {
    table: Arc<Table>,
    _single: PhantomData<Cell<()>>,
}

/// Times of a request whose response is ready.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Answered {
    /// API of the request.
    pub(crate) api: ApiKey,
    /// Time at which the whole request was received.
    pub(crate) received: Instant,
    /// Time at which its response was complete.
    pub(crate) there: Instant,
    /// Time during which a thread was busy with it.
    pub(crate) local: Duration,
    /// Bytes of the response.
    pub(crate) bytes: u64,
}

impl Recorder {
    /// Counts a request that was received.
    pub fn received(&self, api: ApiKey, bytes: usize) {
        if let Some(counts) = self.counts(api) {
            add(&counts.requests, 1);
            add(&counts.request_bytes, bytes as u64);
        }
    }

    /// Counts a response that the socket has accepted.
    pub(crate) fn sent(&self, answered: &Answered, at: Instant) {
        let Some(counts) = self.counts(answered.api) else { return };
        let Answered { received, there, local, bytes, .. } = *answered;
        let waiting = there.duration_since(received).saturating_sub(local);
        for (phase, duration) in [
            (Phase::Total, at.duration_since(received)),
            (Phase::Local, local),
            (Phase::Waiting, waiting),
            (Phase::Sending, at.duration_since(there)),
        ] {
            counts.phases[phase as usize].add(duration);
        }
        add(&counts.response_bytes, bytes);
    }

    /// Counts the time for which a connection is muted after a response, even if it is zero.
    pub fn throttled(&self, api: ApiKey, mute: Duration) {
        if let Some(counts) = self.counts(api) {
            counts.phases[Phase::Throttled as usize].add(mute);
        }
    }

    /// Counts an error code in a response, 0 included.
    pub fn error(&self, api: ApiKey, code: i16) {
        self.errors(api, code, 1);
    }

    /// Counts an error code that a response contains this number of times.
    pub(crate) fn errors(&self, api: ApiKey, code: i16, times: u64) {
        if let Some(counts) = self.counts(api) {
            let slot = usize::try_from(code.saturating_add(1)).unwrap_or(0);
            add(counts.errors.get(slot).unwrap_or(&counts.errors[0]), times);
        }
    }

    fn counts(&self, api: ApiKey) -> Option<&Counts> {
        Some(self.table.apis[slot(api)?].get_or_init(Box::default))
    }
}

#[cfg(test)]
mod tests;
