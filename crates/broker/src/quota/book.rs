//! The quotas and the recent use of all clients, shared by all threads of the broker.

use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use levada_metadata::image::Quotas;
use levada_process::clock::steady_ms;
use parking_lot::Mutex;

use crate::quota::{Accounts, Client, QuotaUse, Taking, Used};

/// Seconds of a limit that one response may consume: the window of the rate.
const BURST_SECONDS: f64 = 10.0;

/// Quotas of clients, and their use.
#[derive(Default)]
pub(crate) struct QuotaBook {
    /// True if there is any limit: without one, nothing is locked or measured.
    limited: AtomicBool,
    accounts: Mutex<Accounts>,
}

impl QuotaBook {
    /// Applies the limits of the image.
    pub(crate) fn set_limits(&self, limits: &Quotas) {
        self.accounts.lock().set_limits(limits.clone());
        self.limited.store(limits.iter().next().is_some(), Ordering::Release);
    }

    /// True if the use of any client has to be measured.
    pub(crate) fn has_quotas(&self) -> bool {
        self.limited.load(Ordering::Acquire)
    }

    /// The accounts that use the largest shares of their limits, at most this number.
    pub(crate) fn uses(&self, most: usize) -> Vec<QuotaUse> {
        if self.has_quotas() { self.accounts.lock().uses(most, steady_ms()) } else { Vec::new() }
    }

    /// Books a new connection; returns the time after which it is closed, if its address opens too
    /// many.
    pub(crate) fn book_connection(&self, address: IpAddr) -> Duration {
        if !self.has_quotas() {
            return Duration::ZERO;
        }
        self.accounts.lock().book_connection(address.to_canonical(), steady_ms())
    }

    /// Books a client's use; returns the time for which its connection is to be muted.
    pub(crate) fn book(&self, used: Used, client: Client<'_>, amount: f64) -> Duration {
        if !self.has_quotas() {
            return Duration::ZERO;
        }
        self.accounts.lock().book(used, client, amount, steady_ms())
    }

    /// Takes tokens for partitions that a client creates or deletes.
    pub(super) fn take_mutations(&self, client: Client<'_>, partitions: usize, is_strict: bool) -> Taking {
        self.accounts.lock().take_mutations(client, partitions, is_strict, steady_ms())
    }

    /// Books the bytes of a response: how long the connection is to be muted, and whether the
    /// response waits as long too: then nothing is booked. The first response to a client that was
    /// idle never waits, so that one batch larger than the limit allows still comes through.
    pub(crate) fn book_answer(&self, client: Client<'_>, bytes: u64) -> (Duration, bool) {
        if !self.has_quotas() {
            return (Duration::ZERO, false);
        }
        let (bytes, now_ms) = (bytes as f64, steady_ms());
        let mut accounts = self.accounts.lock();
        let idle = accounts.is_idle(Used::Fetched, client, now_ms);
        let wait = accounts.book(Used::Fetched, client, bytes, now_ms);
        let postponed = !wait.is_zero() && !idle;
        if postponed {
            accounts.take_back(Used::Fetched, client, bytes, now_ms);
        }
        (wait, postponed)
    }

    /// Maximum number of bytes of one response to the client, so that a large response does not
    /// wait for ever.
    pub(crate) fn answer_bytes_max(&self, client: Client<'_>) -> u32 {
        if !self.has_quotas() {
            return u32::MAX;
        }
        let limit = self.accounts.lock().limit(Used::Fetched, client);
        // A float beyond the range becomes its end.
        limit.map_or(u32::MAX, |limit| (limit * BURST_SECONDS) as u32)
    }
}
