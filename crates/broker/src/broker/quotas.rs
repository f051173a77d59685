//! Client quotas of the running broker: changing them, and booking what clients use.

use std::net::{IpAddr, ToSocketAddrs};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;

use crate::broker::Broker;
use crate::broker::topics::flatten_keyed;
use crate::clock::now_ms;
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::controller::{AlterQuota, alter_client_quotas};
use crate::metadata::image::{QuotaEntity, Quotas};
use crate::quota::{Accounts, Client, Used};

/// Seconds of a limit that a single answer may be worth: what the rate is measured over.
const BURST_SECONDS: f64 = 10.0;

/// What clients may use and have used.
#[derive(Default)]
pub(super) struct QuotaBook {
    /// Whether there is any limit: without one, nothing is locked or measured.
    limited: AtomicBool,
    accounts: Mutex<Accounts>,
}

impl QuotaBook {
    /// Takes the limits of the image.
    pub(super) fn set_limits(&self, limits: &Quotas) {
        self.accounts.lock().set_limits(limits.clone());
        self.limited.store(limits.iter().next().is_some(), Ordering::Release);
    }
}

impl Broker {
    /// Whether anybody's use has to be measured.
    pub(crate) fn has_quotas(&self) -> bool {
        self.quota_book.limited.load(Ordering::Acquire)
    }

    /// Books a new connection; how long it has to wait to be closed, if its address opens too many.
    pub(crate) fn book_connection(&self, address: IpAddr) -> Duration {
        if !self.has_quotas() {
            return Duration::ZERO;
        }
        self.quota_book.accounts.lock().book_connection(address.to_canonical(), now_ms())
    }

    /// Books what a client has used; how long its connection is to be muted.
    pub(crate) fn book(&self, used: Used, client: Client<'_>, amount: f64) -> Duration {
        if !self.has_quotas() {
            return Duration::ZERO;
        }
        self.quota_book.accounts.lock().book(used, client, amount, now_ms())
    }

    /// Books the bytes of an answer: how long the connection is to be muted, and whether the answer waits as long too:
    /// then nothing is booked. The first answer to a client that was idle never waits, so that one batch larger than
    /// the limit allows still comes through.
    pub(crate) fn book_answer(&self, client: Client<'_>, bytes: u64) -> (Duration, bool) {
        if !self.has_quotas() {
            return (Duration::ZERO, false);
        }
        let (bytes, now_ms) = (bytes as f64, now_ms());
        let mut accounts = self.quota_book.accounts.lock();
        let idle = accounts.is_idle(Used::Fetched, client, now_ms);
        let wait = accounts.book(Used::Fetched, client, bytes, now_ms);
        let postponed = !wait.is_zero() && !idle;
        if postponed {
            accounts.take_back(Used::Fetched, client, bytes, now_ms);
        }
        (wait, postponed)
    }

    /// The most bytes of one answer to the client, so that a large one does not wait for ever.
    pub(crate) fn answer_bytes_max(&self, client: Client<'_>) -> u32 {
        if !self.has_quotas() {
            return u32::MAX;
        }
        let limit = self.quota_book.accounts.lock().limit(Used::Fetched, client);
        // A float beyond the range becomes its end.
        limit.map_or(u32::MAX, |limit| (limit * BURST_SECONDS) as u32)
    }

    /// Changes the limits of each entity or refuses to; results without repetitions.
    pub(crate) async fn alter_client_quotas(
        self: &Arc<Self>,
        requests: Vec<AlterQuota>,
        validate_only: bool,
    ) -> Vec<(QuotaEntity, Result<(), Failure>)> {
        self.off_shard(move |broker| {
            let (requests, mut refused) = resolvable(requests);
            let entities = requests.iter().map(|request| request.entity.clone()).collect();
            let changed = if validate_only {
                Ok(alter_client_quotas(&broker.metadata.image(), &requests).outcome)
            } else {
                broker.metadata.change(
                    |image| alter_client_quotas(image, &requests),
                    |next, _| {
                        broker.quota_book.set_limits(next.quotas());
                        Ok(())
                    },
                )
            };
            refused.extend(flatten_keyed(changed, entities));
            refused
        })
        .await
    }
}

type Outcomes = Vec<(QuotaEntity, Result<(), Failure>)>;

/// Refuses addresses that no name service knows, before anything is locked.
fn resolvable(requests: Vec<AlterQuota>) -> (Vec<AlterQuota>, Outcomes) {
    let is_known = |request: &AlterQuota| match request.entity.get("ip") {
        Some(Some(host)) if request.entity.len() == 1 && !host.is_empty() => {
            (&**host, 0).to_socket_addrs().is_ok()
        }
        _ => true,
    };
    let (known, unknown): (Vec<_>, Vec<_>) = requests.into_iter().partition(is_known);
    let refused = unknown.into_iter().map(|request| {
        let host = request.entity.get("ip").cloned().flatten().unwrap_or_default();
        let text = format!("{host} is not a valid IP or resolvable host.");
        (request.entity, Err(Failure::new(ErrorCode::InvalidRequest, text)))
    });
    (known, refused.collect())
}
