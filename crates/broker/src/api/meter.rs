//! The time that threads spend on a request, without its waits, and the quota against which that
//! time counts. Also the longest time for which a request waits, and the record bytes of requests
//! by client.

use std::cell::Cell;
use std::time::{Duration, Instant};

use levada_process::blocking::off_shard;
use levada_process::turns::Turns;
use levada_wire::ApiKey;

use crate::api::Context;
use crate::quota::{Client, Used};
use crate::stats::{Answered, ClientTraffic};

/// The meter of one request. A request that does not wait costs one reading of the clock in
/// addition to the first.
#[derive(Debug)]
pub(crate) struct Meter {
    /// Arrival of the request.
    received: Instant,
    /// Start of the current step, or of the first one.
    begun: Cell<Instant>,
    /// True once a step has begun.
    is_under_way: Cell<bool>,
    /// End of the last step.
    ended: Cell<Instant>,
    busy: Cell<Duration>,
    /// The time that another thread was busy with the request.
    elsewhere: Cell<Duration>,
    /// The part of the measured time that has been booked.
    booked: Cell<Duration>,
    /// True if the time counts against no quota.
    is_exempt: Cell<bool>,
    /// Time for which the connection is muted after the response.
    mute: Cell<Duration>,
}

impl Meter {
    /// The meter of a request that was received at this time and is processed immediately.
    pub(super) fn new(received: Instant) -> Self {
        let (is_under_way, busy, elsewhere, booked, is_exempt, mute) = Default::default();
        let (begun, ended) = (Cell::new(received), Cell::new(received));
        Self { received, begun, is_under_way, ended, busy, elsewhere, booked, is_exempt, mute }
    }

    /// Measures the steps of `work`.
    pub(crate) async fn measure<T>(&self, work: impl Future<Output = T>) -> T {
        let mut work = std::pin::pin!(work);
        std::future::poll_fn(|context| {
            if self.is_under_way.replace(true) {
                self.begun.set(Instant::now());
            }
            let polled = work.as_mut().poll(context);
            let ended = Instant::now();
            self.ended.set(ended);
            self.busy.set(self.busy.get() + ended.duration_since(self.begun.get()));
            polled
        })
        .await
    }

    /// Time in which threads were busy with the request, without the current step.
    fn spent(&self) -> Duration {
        self.busy.get() + self.elsewhere.get()
    }

    /// Times of a request of this API whose response has this number of bytes.
    pub(crate) fn answered(&self, api: ApiKey, bytes: u64) -> Answered {
        Answered { api, received: self.received, there: self.ended.get(), local: self.spent(), bytes }
    }

    /// Adds the time that another thread was busy with the request.
    fn add_elsewhere(&self, spent: Duration) {
        self.elsewhere.set(self.elsewhere.get() + spent);
    }

    /// Adds the steps that another thread has done for the request.
    pub(super) fn add(&self, other: &Self) {
        self.add_elsewhere(other.spent());
        self.booked.set(self.booked.get() + other.booked.get());
        self.is_exempt.set(other.is_exempt.get());
        self.mute_for(other.mute());
    }

    /// Time for which the connection is muted after the response.
    pub(crate) fn mute(&self) -> Duration {
        self.mute.get()
    }

    /// True if the time counts against no quota.
    pub(super) fn is_exempt(&self) -> bool {
        self.is_exempt.get()
    }

    fn mute_for(&self, wait: Duration) {
        self.mute.set(self.mute.get().max(wait));
    }
}

/// Does work, and measures its time.
fn timed<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    let begun = Instant::now();
    (work(), begun.elapsed())
}

impl Context {
    /// Runs work of the request on a thread that may block. Its time counts as time of the request.
    pub(super) async fn off_shard<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> T {
        let (result, spent) = off_shard(move || timed(work)).await;
        self.meter.add_elsewhere(spent);
        result
    }

    /// Like [`Context::off_shard`], after a wait in the client's queue.
    pub(super) async fn run_in_turn<T: Send + 'static>(
        &self,
        turns: &Turns,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let (result, spent) = turns.run(self.session().requester(), move || timed(work)).await;
        self.meter.add_elsewhere(spent);
        result
    }

    /// Maximum time for which a request with this timeout waits: the idle limit of a connection. A
    /// connection whose client has disappeared unnoticed is kept no longer than that.
    pub(super) fn patience(&self, timeout_ms: i32) -> Duration {
        let timeout = Duration::from_millis(u64::from(timeout_ms.max(0).unsigned_abs()));
        self.broker().config().connections_max_idle.map_or(timeout, |idle| timeout.min(idle))
    }

    /// Notes that the request waits for other clients from now on, so that it ends when its own
    /// client disconnects. Before this call, a disconnected client does not end it.
    pub(super) fn wait_for_others(&self) {
        self.waits.set(true);
    }

    /// True once the request waits for other clients.
    pub(crate) fn waits_for_others(&self) -> bool {
        self.waits.get()
    }

    /// Mutes the connection for at least this time after the response.
    pub(super) fn mute_for(&self, wait: Duration) {
        self.meter.mute_for(wait);
    }

    /// Excludes the time of the request from quotas, as in Kafka: another broker has sent it, it
    /// has no response, or its client is not yet authenticated.
    pub(crate) fn exempt_time(&self) {
        self.meter.is_exempt.set(true);
    }

    /// Books the time that the request has taken so far, the current step included. Returns the
    /// time of the mute in milliseconds, for the response.
    pub(super) fn throttle_ms(&self) -> i32 {
        if self.broker().quotas().has_quotas() {
            self.book(self.meter.spent() + self.meter.begun.get().elapsed());
        }
        i32::try_from(self.meter.mute().as_millis()).unwrap_or(i32::MAX)
    }

    /// Books the time that threads were busy with the request, except for the part that is booked.
    pub(crate) fn book_time(&self) {
        self.book(self.meter.spent());
    }

    /// Counts record bytes that the client has produced.
    pub(super) fn count_produced(&self, bytes: u64) {
        self.broker().stats().produced(bytes);
        self.traffic().produced(bytes);
    }

    /// Counts record bytes of a response to a fetch of the client.
    pub(super) fn count_fetched(&self, bytes: u64) {
        self.broker().stats().fetched(bytes);
        self.traffic().fetched(bytes);
    }

    fn traffic(&self) -> &ClientTraffic {
        self.info.traffic.get_or_init(|| {
            let Client { user, client_id } = self.client();
            self.broker().stats().client(user, client_id)
        })
    }

    /// Books the time of the request up to now; mutes a client that has exceeded its quota.
    pub(super) fn book(&self, spent: Duration) {
        if self.meter.is_exempt() {
            return;
        }
        let rest = spent.saturating_sub(self.meter.booked.replace(spent));
        self.mute_for(self.broker().quotas().book(Used::Time, self.client(), rest.as_secs_f64() * 100.0));
    }
}

#[cfg(test)]
mod tests;
