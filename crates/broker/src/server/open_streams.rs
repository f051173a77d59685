//! The sockets of a shard, for another thread: it closes them if the shard does not respond,
//! because it waits for a write to frozen storage. Their clients then connect to the new leaders.

use std::collections::HashMap;
use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::Shutdown;
use tokio::net::TcpStream;
use tokio::sync::Notify;

use crate::broker::Broker;

/// Time within which a shard must respond.
const PATIENCE: Duration = Duration::from_secs(1);

/// The sockets of one shard.
#[derive(Default)]
pub(crate) struct OpenStreams {
    /// Sockets that the shard has not picked up yet.
    waiting: Mutex<Vec<Weak<std::net::TcpStream>>>,
    streams: Mutex<HashMap<u64, Weak<TcpStream>>>,
    registered: AtomicU64,
    asked: Notify,
    answers: AtomicU64,
}

/// A socket that another thread may close.
pub(crate) struct OpenStream {
    stream: Arc<TcpStream>,
    among: Arc<OpenStreams>,
    number: u64,
}

impl OpenStreams {
    /// Registers a socket that is on its way to the shard.
    pub(crate) fn expect(&self, stream: &Arc<std::net::TcpStream>) {
        let mut waiting = self.waiting.lock();
        waiting.retain(|other| other.strong_count() > 0);
        waiting.push(Arc::downgrade(stream));
    }

    /// Registers a socket with the runtime of this thread.
    pub(crate) fn register(
        self: &Arc<Self>,
        stream: Arc<std::net::TcpStream>,
    ) -> std::io::Result<OpenStream> {
        let stream = Arc::into_inner(stream).ok_or(std::io::ErrorKind::ConnectionAborted)?;
        let stream = Arc::new(TcpStream::from_std(stream)?);
        let number = self.registered.fetch_add(1, Ordering::Relaxed);
        self.streams.lock().insert(number, Arc::downgrade(&stream));
        Ok(OpenStream { stream, among: self.clone(), number })
    }

    /// Responds to the checks of another thread; never returns.
    pub(crate) async fn answer(&self) {
        loop {
            self.asked.notified().await;
            self.answers.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Closes the sockets that no earlier call has closed; returns their number.
    fn close(&self) -> usize {
        let open = std::mem::take(&mut *self.streams.lock()).into_values();
        let open: Vec<Arc<TcpStream>> = open.filter_map(|stream| stream.upgrade()).collect();
        let waiting = std::mem::take(&mut *self.waiting.lock()).into_iter();
        let waiting: Vec<_> = waiting.filter_map(|stream| stream.upgrade()).collect();
        // A socket whose peer has disconnected is closed already.
        for stream in &open {
            let _ = rustix::net::shutdown(&**stream, Shutdown::Both);
        }
        for stream in &waiting {
            let _ = rustix::net::shutdown(&**stream, Shutdown::Both);
        }
        open.len() + waiting.len()
    }
}

impl Deref for OpenStream {
    type Target = TcpStream;

    fn deref(&self) -> &TcpStream {
        &self.stream
    }
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.among.streams.lock().remove(&self.number);
    }
}

/// Closes the sockets of shards that do not respond while a writer waits for its storage; never
/// returns.
pub(crate) async fn close_stuck(broker: Arc<Broker>, shards: Arc<[Arc<OpenStreams>]>) {
    loop {
        broker.replicas().blocked().notified().await;
        let answers = |shard: &Arc<OpenStreams>| shard.answers.load(Ordering::Relaxed);
        let before: Vec<u64> = shards.iter().map(answers).collect();
        shards.iter().for_each(|shard| shard.asked.notify_one());
        tokio::time::sleep(PATIENCE).await;
        for (number, (shard, before)) in shards.iter().zip(before).enumerate() {
            if answers(shard) == before {
                let connections = shard.close();
                if connections == 0 {
                    continue;
                }
                tracing::warn!(
                    shard = number,
                    connections,
                    "a thread waits for storage that does not return; its connections are closed, so that clients connect to \
                     other brokers"
                );
            }
        }
    }
}

#[cfg(test)]
mod tests;
