//! Turns at something scarce that clients queue for: threads that expand batches, searches, live
//! streams, connections. The waiting principals take turns, so that the number of requests of one
//! does not decide how long the others wait.
//!
//! A turn belongs to its work, not to the client that waits for the work: a client that disconnects
//! makes no room for another request before its work has ended.

use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::oneshot;

use levada_base::Requester;

mod line;
#[cfg(test)]
mod tests;

use crate::blocking::off_shard;

use self::line::{Entry, Line};

/// A limited number of places for work, and a fair queue for them; clones share both.
#[derive(Clone, Debug)]
pub struct Turns(Arc<Mutex<Line<oneshot::Sender<Turn>>>>);

/// A place, which is released when this value is dropped.
#[derive(Debug)]
pub struct Turn {
    turns: Turns,
    requester: Requester,
}

/// The number of requests of one requester that wait is at its limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{waiting_max} requests of this client wait already, which is the limit; repeat the request later")]
pub struct TooMany {
    /// Maximum number of requests of one requester that wait.
    pub waiting_max: usize,
}

impl Turns {
    /// A number of `places` for work of limited duration. A single requester may have all places
    /// while no other requester waits, and gets no further place while another with fewer places
    /// waits.
    pub fn of(places: usize) -> Self {
        Self::shared(places, places)
    }

    /// A number of `places` for clients that keep a place for an unlimited time: one requester has
    /// at most half of them.
    pub fn halved(places: usize) -> Self {
        Self::shared(places, places.div_ceil(2))
    }

    /// A number of places, of which one requester has at most `share`.
    pub fn shared(places: usize, share: usize) -> Self {
        Self(Arc::new(Mutex::new(Line::new(places, share))))
    }

    /// Waits for a place.
    pub async fn take(&self, requester: Requester) -> Turn {
        let taken = self.take_if_few(requester, usize::MAX).await;
        taken.expect("no number of requests exceeds the limit")
    }

    /// Waits for a place, unless `waiting_max` requests of the requester wait already.
    pub async fn take_if_few(&self, requester: Requester, waiting_max: usize) -> Result<Turn, TooMany> {
        let (sender, receiver) = oneshot::channel();
        let entry = self.0.lock().enter(&requester, waiting_max, sender);
        match entry {
            Entry::Place => Ok(self.turn(requester)),
            Entry::Full => Err(TooMany { waiting_max }),
            Entry::Waits(ticket) => {
                let _waits = Waiting { turns: self, requester, ticket };
                Ok(receiver.await.expect("a place comes before its line ends"))
            }
        }
    }

    /// A place, if one is free now.
    pub fn try_take(&self, requester: Requester) -> Option<Turn> {
        let is_in = self.0.lock().enter_now(&requester);
        is_in.then(|| self.turn(requester))
    }

    /// Runs work on a thread that may block, once it has a place. A request that is cancelled
    /// before that leaves the queue; work that has begun keeps its place until it ends.
    pub async fn run<T: Send + 'static>(
        &self,
        requester: Requester,
        work: impl FnOnce() -> T + Send + 'static,
    ) -> T {
        let turn = self.take(requester).await;
        off_shard(move || {
            let _turn = turn;
            work()
        })
        .await
    }

    fn turn(&self, requester: Requester) -> Turn {
        Turn { turns: self.clone(), requester }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        let next = self.turns.0.lock().leave(&self.requester);
        if let Some((requester, waits)) = next {
            // A request that was abandoned meanwhile releases the place immediately.
            drop(waits.send(self.turns.turn(requester)));
        }
    }
}

/// A request in a line.
struct Waiting<'a> {
    turns: &'a Turns,
    requester: Requester,
    ticket: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.turns.0.lock().give_up(&self.requester, self.ticket);
    }
}
