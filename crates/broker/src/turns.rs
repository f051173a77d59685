//! Queues of the clients of one broker.

use levada_process::turns::Turns;

/// Expansions of batches off the shards at one time; each may take some hundred megabytes.
const EXPANSIONS_AT_ONCE: usize = 2;

/// Searches by timestamp at one time; each may hold one expanded batch.
const SEARCHES_AT_ONCE: usize = 4;

/// Pieces of comparisons of clients' expressions with names at one time; each takes some tens of
/// milliseconds.
const COMPARISONS_AT_ONCE: usize = 2;

/// Payloads of clients' metrics that are read at one time; each may take some megabytes, and the
/// next one waits for the metrics.
const PAYLOADS_AT_ONCE: usize = 2;

/// Batches of dead letters at one time; each may take some ten megabytes.
const DEAD_LETTERS_AT_ONCE: usize = 8;

/// Maximum number of large requests that are processed at the same time, by one thread: each of
/// them delays the next client's.
pub(crate) const LARGE_REQUESTS_AT_ONCE: usize = 2;

/// The queues of the clients of one broker.
pub(crate) struct WorkTurns {
    /// Batches that are expanded, or compressed, off the shards.
    pub(crate) expansions: SizedTurns,
    /// Searches by timestamp, which read from the disk and expand batches.
    pub(crate) searches: SizedTurns,
    /// Comparisons of regular expressions with names, one piece per turn.
    pub(crate) comparisons: Turns,
    /// Batches of dead letters that are made and sent.
    pub(crate) dead_letters: Turns,
    /// Payloads of clients' metrics.
    pub(crate) telemetry: Turns,
    /// Large requests, except those for records.
    pub(crate) large_requests: Turns,
}

impl Default for WorkTurns {
    fn default() -> Self {
        Self {
            expansions: SizedTurns::of(EXPANSIONS_AT_ONCE),
            searches: SizedTurns::of(SEARCHES_AT_ONCE),
            comparisons: Turns::of(COMPARISONS_AT_ONCE),
            dead_letters: Turns::of(DEAD_LETTERS_AT_ONCE),
            telemetry: Turns::of(PAYLOADS_AT_ONCE),
            large_requests: Turns::of(LARGE_REQUESTS_AT_ONCE),
        }
    }
}

/// Queues for work that turns out to be small or large. Large work has as many places as small
/// work, which never waits for it.
pub(crate) struct SizedTurns {
    /// Queue for work that stops at a limit within milliseconds.
    pub(crate) small: Turns,
    /// Queue for work that has reached that limit.
    pub(crate) large: Turns,
}

impl SizedTurns {
    fn of(places: usize) -> Self {
        Self { small: Turns::of(places), large: Turns::of(places) }
    }
}
