//! The places of HTTP connections. A connection that owes the broker a request, or the rest of one,
//! gives way to a new connection when no place is free, so that silent clients keep no other out.
//! While none gives way, new connections wait; half of those that wait may be of one address. Some
//! places are reserved for clients of this machine, such as probes.

use std::collections::HashMap;
use std::net::IpAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use hyper::body::{Body, Frame, SizeHint};
use levada_base::Requester;
use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};

use levada_process::turns::{Turn, Turns};

#[cfg(test)]
mod tests;

/// Share of all places, as a divisor, that only clients of this machine may use.
const RESERVED_PART: usize = 8;

/// Time that each client has before its connection can be closed for a new one.
const GRACE: Duration = Duration::from_millis(100);

/// Longest time for which a new connection waits.
const WAIT: Duration = Duration::from_secs(10);

/// All places, and the connections that have one.
pub(super) struct Places {
    common: Turns,
    /// Places for clients of this machine.
    reserved: Turns,
    /// Places for waiting connections.
    waiting: Turns,
    /// Wakes waiting connections when one ends.
    freed: Notify,
    /// Maximum number of common places of one address.
    share: usize,
    open: Mutex<OpenConnections>,
}

#[derive(Default)]
struct OpenConnections {
    by_id: HashMap<u64, OpenConnection>,
    next_id: u64,
}

struct OpenConnection {
    requester: Requester,
    is_reserved: bool,
    progress: Arc<Progress>,
    /// Closes the connection.
    close: oneshot::Sender<()>,
    turn: Turn,
}

/// The place of one connection, released when this value is dropped.
pub(super) struct Place {
    places: Arc<Places>,
    id: u64,
    pub(super) progress: Arc<Progress>,
    closed: oneshot::Receiver<()>,
}

/// The side, client or broker, that must act next on a connection.
pub(super) struct Progress {
    /// Time since which the client must act; none while the broker processes a request.
    awaited_since: Mutex<Option<Instant>>,
}

impl Places {
    /// This number of free places in total.
    pub(super) fn new(places: usize) -> Self {
        let reserved = places.div_ceil(RESERVED_PART);
        let common = (places - reserved).max(1);
        Self {
            common: Turns::halved(common),
            reserved: Turns::of(reserved),
            waiting: Turns::halved(places),
            freed: Notify::new(),
            share: common.div_ceil(2),
            open: Mutex::default(),
        }
    }

    /// Waits for a place for a connection from this address. None if that takes too long. If many
    /// wait already, the oldest connection is closed for it without the usual delay.
    pub(super) async fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        if let Some(place) = self.admit(address, Instant::now(), GRACE) {
            return Some(place);
        }
        let Some(_waits) = self.waiting.try_take(Requester::at(address)) else {
            return self.admit(address, Instant::now(), Duration::ZERO);
        };
        let last = Instant::now() + WAIT;
        loop {
            let freed = self.freed.notified();
            let now = Instant::now();
            if let Some(place) = self.admit(address, now, GRACE) {
                return Some(place);
            }
            if now >= last {
                return None;
            }
            // A client may have been silent for long enough meanwhile.
            let _ = tokio::time::timeout(GRACE, freed).await;
        }
    }

    /// The place of a connection from this address. If none is free, the connection that has waited
    /// longest for its client is closed: one of the address itself if the address has its share,
    /// otherwise one of the address with most places. None if all are being answered, or have
    /// waited for less than `grace`.
    fn admit(self: &Arc<Self>, address: IpAddr, now: Instant, grace: Duration) -> Option<Place> {
        let requester = Requester::at(address);
        let is_own = address.to_canonical().is_loopback();
        let mut open = self.open.lock();
        let (turn, is_reserved) = self.take(&requester, is_own).or_else(|| {
            let idlest = open.idlest(&requester, is_own, (self.share, now.checked_sub(grace)?))?;
            let idlest = open.by_id.remove(&idlest)?;
            // The connection may have ended.
            let _ = idlest.close.send(());
            drop(idlest.turn);
            self.take(&requester, is_own)
        })?;
        let progress = Arc::new(Progress { awaited_since: Mutex::new(Some(now)) });
        let (close, closed) = oneshot::channel();
        let id = open.next_id;
        open.next_id += 1;
        let connection = OpenConnection { requester, is_reserved, progress: progress.clone(), close, turn };
        open.by_id.insert(id, connection);
        Some(Place { places: self.clone(), id, progress, closed })
    }

    fn take(&self, requester: &Requester, is_own: bool) -> Option<(Turn, bool)> {
        if let Some(turn) = self.common.try_take(requester.clone()) {
            return Some((turn, false));
        }
        if is_own { Some((self.reserved.try_take(requester.clone())?, true)) } else { None }
    }
}

impl OpenConnections {
    /// The connection that gives way to a new one: silent since `before`, or longer.
    fn idlest(&self, requester: &Requester, is_own: bool, (share, before): (usize, Instant)) -> Option<u64> {
        let mut counts: HashMap<&Requester, usize> = HashMap::new();
        for one in self.by_id.values().filter(|one| !one.is_reserved) {
            *counts.entry(&one.requester).or_default() += 1;
        }
        let count = |one: &Requester| counts.get(one).copied().unwrap_or(0);
        let has_share = count(requester) >= share;
        let fits = |one: &OpenConnection| {
            if one.is_reserved { is_own } else { !has_share || one.requester == *requester }
        };
        let idle = self.by_id.iter().filter(|(_, one)| fits(one)).filter_map(|(id, one)| {
            let since = (*one.progress.awaited_since.lock())?;
            (since <= before).then(|| (std::cmp::Reverse(count(&one.requester)), since, *id))
        });
        idle.min().map(|(.., id)| id)
    }
}

impl Place {
    /// Completes when the place has been given to another connection.
    pub(super) async fn lost(&mut self) {
        // The sender is dropped only after it has sent.
        let _ = (&mut self.closed).await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.open.lock().by_id.remove(&self.id);
        self.places.freed.notify_waiters();
    }
}

impl Progress {
    /// Records that the broker has the whole request.
    fn received(&self) {
        *self.awaited_since.lock() = None;
    }

    /// Records that the client has the whole response, or must send its next request.
    fn answered(&self) {
        *self.awaited_since.lock() = Some(Instant::now());
    }
}

/// The body of a request or of a response, which records its end.
pub(super) struct Tracked<B> {
    body: B,
    progress: Arc<Progress>,
    is_answer: bool,
}

impl<B: Body> Tracked<B> {
    /// The body of a request.
    pub(super) fn request(body: B, progress: Arc<Progress>) -> Self {
        if body.is_end_stream() {
            progress.received();
        }
        Self { body, progress, is_answer: false }
    }

    /// The body of a response.
    pub(super) fn answer(body: B, progress: Arc<Progress>) -> Self {
        Self { body, progress, is_answer: true }
    }
}

impl<B: Body + Unpin> Body for Tracked<B> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let polled = Pin::new(&mut self.body).poll_frame(context);
        if !self.is_answer && (matches!(polled, Poll::Ready(None)) || self.body.is_end_stream()) {
            self.progress.received();
        }
        polled
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

impl<B> Drop for Tracked<B> {
    fn drop(&mut self) {
        if self.is_answer {
            self.progress.answered();
        }
    }
}
