//! The quota `controller_mutation_rate`: partitions that a client creates and deletes, per second.
//! It is a bucket of tokens, as in Kafka (KIP-599). A strict request is refused while the client
//! owes tokens; a permissive one is granted and its client is muted.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

use levada_process::clock::steady_ms;

use crate::quota::{Client, QuotaBook, SAMPLE_MS, SAMPLES};

/// Partitions that a client may create and delete in a burst, refilled at the rate of its limit. A
/// request may take more than there are; the client owes them then.
#[derive(Debug)]
pub(super) struct TokenBucket {
    tokens: f64,
    /// Time of the last refill.
    pub(super) refilled_ms: i64,
}

/// Result of a request for tokens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Taking {
    /// True if the request was refused; no tokens were taken then.
    pub(crate) is_refused: bool,
    /// Time until the client has compensated for the tokens; zero if it need not wait.
    pub(crate) wait: Duration,
}

impl TokenBucket {
    /// A full bucket.
    pub(super) fn full(limit: f64, now_ms: i64) -> Self {
        Self { tokens: capacity(limit), refilled_ms: now_ms }
    }

    /// Takes tokens; a strict request gets none while the bucket is in debt.
    pub(super) fn take(&mut self, tokens: f64, is_strict: bool, (limit, now_ms): (f64, i64)) -> Taking {
        let since_ms = (now_ms - self.refilled_ms).max(0);
        self.tokens = (self.tokens + limit * since_ms as f64 / 1000.0).min(capacity(limit));
        self.refilled_ms = now_ms;
        let owes = |tokens: f64| {
            // A limit of zero is never made up for: a float beyond the range becomes its end.
            let wait_ms = (-tokens / limit * 1000.0).round().min(f64::from(i32::MAX));
            Duration::from_millis(wait_ms.max(1.0) as u64)
        };
        if is_strict && self.tokens < 0.0 {
            return Taking { is_refused: true, wait: owes(self.tokens) };
        }
        self.tokens -= tokens;
        let waits = !is_strict && self.tokens < 0.0;
        Taking { is_refused: false, wait: if waits { owes(self.tokens) } else { Duration::ZERO } }
    }
}

fn capacity(limit: f64) -> f64 {
    limit * SAMPLES as f64 * SAMPLE_MS as f64 / 1000.0
}

/// The quota of the client of one request that creates or deletes partitions; by default no quota
/// applies.
#[derive(Clone, Debug, Default)]
pub(crate) struct MutationQuota(Option<Arc<OfRequest>>);

struct OfRequest {
    book: Arc<QuotaBook>,
    user: String,
    client_id: String,
    is_strict: bool,
    /// The client is muted until then.
    until_ms: AtomicI64,
}

impl fmt::Debug for OfRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "mutations of {} as {}", self.user, self.client_id)
    }
}

impl MutationQuota {
    /// The quota of a client. Strict: a request over the quota is refused with an error.
    pub(crate) fn of(book: &Arc<QuotaBook>, client: Client<'_>, is_strict: bool) -> Self {
        let of_request = || OfRequest {
            book: book.clone(),
            user: client.user.to_owned(),
            client_id: client.client_id.to_owned(),
            is_strict,
            until_ms: AtomicI64::new(i64::MIN),
        };
        Self(book.has_quotas().then(|| Arc::new(of_request())))
    }

    /// True if the client may create or delete this number of partitions now.
    pub(crate) fn permits(&self, partitions: usize) -> bool {
        let Some(quota) = &self.0 else { return true };
        let client = Client { user: &quota.user, client_id: &quota.client_id };
        let taking = quota.book.take_mutations(client, partitions, quota.is_strict);
        if !taking.wait.is_zero() {
            let wait_ms = i64::try_from(taking.wait.as_millis()).unwrap_or(i64::MAX);
            quota.until_ms.fetch_max(steady_ms().saturating_add(wait_ms), Ordering::Relaxed);
        }
        !taking.is_refused
    }

    /// Time for which the client's connection is muted after the response.
    pub(crate) fn wait(&self) -> Duration {
        let until_ms = self.0.as_ref().map_or(i64::MIN, |quota| quota.until_ms.load(Ordering::Relaxed));
        let wait_ms = until_ms.saturating_sub(steady_ms()).max(0);
        Duration::from_millis(u64::try_from(wait_ms).unwrap_or(0))
    }
}
