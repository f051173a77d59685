//! The queue of events between the threads of the membership and its one consumer.
//!
//! At most one image waits in it: a newer image takes the place of one that the consumer has not
//! received yet. A slow consumer (it opens logs) therefore applies one large difference instead of
//! many small ones, and outdated images occupy no memory.

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, SendError, Sender};
use std::time::Duration;

use levada_metadata::image::Image;
use parking_lot::Mutex;

use super::ClusterEvent;

#[cfg(test)]
mod tests;

/// An entry of the queue.
enum Entry {
    /// The waiting image: the latest at the time at which the consumer receives the entry.
    Image,
    Other(ClusterEvent),
    /// Wakes the consumer without an event.
    Wake,
}

/// The end of the queue that threads of the membership have.
#[derive(Clone)]
pub(crate) struct EventSender {
    entries: Sender<Entry>,
    waiting: Arc<Mutex<Option<Image>>>,
}

/// The end of the queue that the consumer has.
pub(crate) struct EventReceiver {
    entries: Receiver<Entry>,
    waiting: Arc<Mutex<Option<Image>>>,
}

/// The consumer has dropped its end of the queue.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConsumerGone;

/// An empty queue.
pub(crate) fn queue() -> (EventSender, EventReceiver) {
    let (sender, entries) = mpsc::channel();
    let waiting = Arc::<Mutex<Option<Image>>>::default();
    (EventSender { entries: sender, waiting: waiting.clone() }, EventReceiver { entries, waiting })
}

impl EventSender {
    /// Queues an event. An image replaces an earlier queued image, in its position.
    pub(crate) fn send(&self, event: ClusterEvent) -> Result<(), ConsumerGone> {
        let entry = match event {
            ClusterEvent::Image(image) => match self.waiting.lock().replace(image) {
                Some(_) => return Ok(()),
                None => Entry::Image,
            },
            other => Entry::Other(other),
        };
        self.entries.send(entry).map_err(|SendError(_)| ConsumerGone)
    }
}

impl EventSender {
    /// Ends the wait of the consumer as if its limit were reached.
    pub(crate) fn wake(&self) {
        // A consumer that has ended does not wait.
        let _ = self.entries.send(Entry::Wake);
    }
}

impl EventReceiver {
    /// Returns the next event. Blocks until there is one, or a wake-up, for this long at most.
    pub(crate) fn recv_timeout(&self, limit: Duration) -> Result<ClusterEvent, RecvTimeoutError> {
        match self.entries.recv_timeout(limit)? {
            Entry::Other(event) => Ok(event),
            Entry::Wake => Err(RecvTimeoutError::Timeout),
            Entry::Image => {
                let image = self.waiting.lock().take();
                Ok(ClusterEvent::Image(image.expect("an entry of an image is queued with the image")))
            }
        }
    }
}
