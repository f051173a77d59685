//! A connection that sends produce requests without waiting for the responses to earlier ones.

use std::collections::VecDeque;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use bytes::Bytes;
use levada_client::{Acks, Cluster, Connection, Topic, producer};
use levada_wire::messages::ProduceRequest;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::meter::{Done, Meter};
use crate::kafka_error;
use levada_terminal::failure::Failure;

/// The longest wait between two checks of the limits of the measurement.
pub(super) const LOOK: Duration = Duration::from_millis(50);

/// A connection to the leader of partitions.
pub(super) struct Pipeline<'a> {
    client: Connection,
    socket: TcpStream,
    version: i16,
    topic: &'a Topic,
    acks: Acks,
    meter: &'a Meter,
    in_flight: VecDeque<(i32, Done)>,
}

impl<'a> Pipeline<'a> {
    pub(super) fn open(
        cluster: &mut Cluster,
        topic: &'a Topic,
        leader: i32,
        acks: Acks,
        meter: &'a Meter,
    ) -> Result<Self, Failure> {
        let (client, socket) = cluster.separate(leader)?;
        let version = client.best_version::<ProduceRequest>()?;
        Ok(Self { client, socket, version, topic, acks, meter, in_flight: VecDeque::new() })
    }

    /// The number of requests without a response.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Sends a batch. Blocks only while the socket buffer is full.
    pub(super) fn send(&mut self, partition: i32, batch: Bytes, mut done: Done) -> Result<(), Failure> {
        let request = producer::request(self.topic, self.version, (partition, batch), self.acks);
        let correlation_id = self.client.send_request(self.version, &request)?;
        done.is_answered = self.acks != Acks::Nobody;
        if done.is_answered {
            self.in_flight.push_back((correlation_id, done));
        } else {
            self.meter.note(&done);
        }
        Ok(())
    }

    /// Waits until a response arrives or the time has passed, and processes all responses that have
    /// arrived.
    pub(super) fn take(&mut self, wait: Duration) -> Result<(), Failure> {
        let mut wait = wait;
        while self.client.has_frame() || is_readable(&self.socket, wait)? {
            self.take_one()?;
            wait = Duration::ZERO;
        }
        Ok(())
    }

    /// Waits for every response.
    pub(super) fn drain(&mut self) -> Result<(), Failure> {
        while !self.in_flight.is_empty() {
            self.take_one()?;
        }
        Ok(())
    }

    fn take_one(&mut self) -> Result<(), Failure> {
        let (received, response) = self.client.receive_response::<ProduceRequest>(self.version)?;
        producer::check(&response, &self.topic.name, None)?;
        match self.in_flight.pop_front() {
            Some((sent, done)) if sent == received => self.meter.note(&done),
            _ => {
                return Err(Failure::new(format!(
                    "the response has correlation id {received}, which no request had"
                )));
            }
        }
        Ok(())
    }
}

/// Fails with the permission that is missing, if that is the reason.
pub(super) fn allowed<T, E: Into<Failure>>(done: Result<T, E>, topic: &str) -> Result<T, Failure> {
    kafka_error::needing(done, "write", &format!("--topic {topic}"))
}

/// The time until a moment, and never longer than [`LOOK`].
pub(super) fn until(due: Instant, now: Instant) -> Duration {
    due.saturating_duration_since(now).min(LOOK)
}

/// Waits until the socket has bytes, an end or an error.
fn is_readable(socket: &TcpStream, wait: Duration) -> Result<bool, Failure> {
    let timeout = Timespec {
        tv_sec: i64::try_from(wait.as_secs()).unwrap_or(i64::MAX),
        tv_nsec: i64::from(wait.subsec_nanos()),
    };
    match poll(&mut [PollFd::new(socket, PollFlags::IN)], Some(&timeout)) {
        Ok(count) => Ok(count > 0),
        Err(rustix::io::Errno::INTR) => Ok(false),
        Err(error) => Err(Failure::new(format!("cannot wait for the broker's response: {error}"))),
    }
}
