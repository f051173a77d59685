//! Sends from memory over a separate route, for `lab send` and `lab calibrate`.
//!
//! A worker sends: a [second process](crate::harness::peer) that may be root in separate
//! namespaces. Only there can a user create a device that accepts references without a network
//! card. The worker measures itself; its commands and results are plain data.

use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::harness::payload::{self, Payload};
use crate::harness::peer::{Peer, ReceiveMode, program_by};
use crate::machine::cpu::Stopwatch;
use crate::method::experiment::Metrics;
use crate::method::metric::Verdict;

mod mixed;
mod route;
mod single;

pub(crate) use route::Stage;

/// Route to the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Route {
    /// TCP over the loopback device. The kernel copies in the end, even if the program requests a
    /// reference.
    Loopback,
    /// TCP over a pair of virtual devices between two new namespaces. The kernel copies as on
    /// loopback.
    Veth,
    /// UDP to a device that drops all packets, without a copy and without a receiver.
    Ifb,
}

impl Route {
    /// Name in tables.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Veth => "veth",
            Self::Ifb => "ifb, transmit only",
        }
    }
}

/// Condition for the next message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Wait {
    /// The previous message has a result. Its memory stays parked until the kernel releases it.
    Result,
    /// The kernel has released the memory of the previous message.
    Release,
}

/// Method to send a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// `send`, which copies.
    Send,
    /// `send` with `MSG_ZEROCOPY`.
    MsgZerocopy,
    /// `SEND` with `io_uring`, which copies.
    RingSend,
    /// `SEND_ZC` with `io_uring`.
    RingZeroCopy {
        /// True if the buffers are registered.
        registered: bool,
        /// Condition for the next message.
        wait: Wait,
    },
    /// Many small pieces and one body, all in one `SENDMSG_ZC`.
    Whole {
        /// Condition for the next message.
        wait: Wait,
    },
    /// Many small pieces and one body, cut by size: the small pieces copied together, the body by
    /// reference.
    Cut {
        /// Condition for the next message.
        wait: Wait,
    },
}

/// Messages that a worker sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Load {
    /// Method to send a message.
    pub how: How,
    /// Bytes of a message, or of the body of a mixed message.
    pub bytes: usize,
    /// Number of small pieces before the body of a mixed message.
    pub pieces: usize,
    /// Bytes of each small piece.
    pub piece_bytes: usize,
    /// Number of messages.
    pub messages: u32,
    /// True if the receiver computes a checksum. In that case every message is different.
    pub check: bool,
}

impl Load {
    /// Bytes of a message with all its pieces.
    pub(crate) fn message_bytes(&self) -> u64 {
        (self.bytes + self.pieces * self.piece_bytes) as u64
    }

    /// Writes the bytes of message `index`. All messages are equal, unless the receiver checks
    /// them.
    fn fill(&self, index: u32, message: &mut [u8]) {
        Payload::new(if self.check { u64::from(index) + 1 } else { 1 }).fill(message);
    }
}

/// Result of a load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Number of messages.
    pub messages: u32,
    /// Time until the last byte arrived, or without a receiver until it was sent.
    pub wall_ns: u64,
    /// Processor time of the worker.
    pub cpu_ns: u64,
    /// Number of system calls of the sending thread.
    pub calls: u64,
    /// Number of messages sent by reference that the kernel copied nevertheless.
    pub copied: u64,
    /// Expected bytes and checksum.
    pub expected: (u64, u64),
    /// Received bytes and checksum; none without a receiver.
    pub arrived: Option<(u64, u64)>,
}

impl Sent {
    /// Metrics by the names that `lab send` uses.
    pub(crate) fn metrics(&self) -> Metrics {
        let messages = f64::from(self.messages);
        [
            ("cpu_us", self.cpu_ns as f64 / 1e3 / messages),
            ("messages_per_s", messages / (self.wall_ns as f64 / 1e9)),
            ("calls", self.calls as f64 / messages),
            ("copied_share", self.copied as f64 / messages),
        ]
        .map(|(name, value)| (name.to_owned(), value))
        .into()
    }

    /// Result of the check. Without a receiver, the check only covers that the kernel accepted
    /// every message completely.
    pub(crate) fn verdict(&self) -> Verdict {
        match self.arrived {
            Some(arrived) => Verdict::of_bytes(self.expected, arrived),
            None => {
                Verdict { sound: true, what: format!("{} sends taken whole; nobody receives", self.messages) }
            }
        }
    }
}

/// A worker and its route.
#[derive(Debug)]
pub(crate) struct Worker {
    process: Peer,
}

impl Worker {
    /// Starts a worker with a route, in separate namespaces for all routes except loopback.
    ///
    /// # Errors
    /// The missing requirement and a remedy, as text.
    pub(crate) fn start(bench: &Bench, route: Route) -> Result<Self, String> {
        let by: &[&str] = if route == Route::Loopback { &[] } else { &["unshare", "-Urn"] };
        let start = || -> Result<Self, LabError> {
            let mut process = Peer::spawn(program_by(by)?)?;
            process.take_route(route, bench.places())?;
            Ok(Self { process })
        };
        start().map_err(|error| match route {
            Route::Loopback => error.to_string(),
            Route::Veth | Route::Ifb => format!(
                "{error}; it needs unprivileged user namespaces, and unshare and ip (util-linux, iproute2)"
            ),
        })
    }

    /// Sends a load.
    ///
    /// # Errors
    /// The worker or the connection failed.
    pub(crate) fn send(&mut self, load: &Load) -> Result<Sent, LabError> {
        self.process.send(load)
    }
}

/// Sends a load on a stage and measures it. The worker calls this function.
pub(crate) fn run(stage: &mut Stage, load: &Load) -> Result<Sent, LabError> {
    let total = load.message_bytes() * u64::from(load.messages);
    let take = if load.check { ReceiveMode::Check } else { ReceiveMode::Discard };
    // Send a part before the clock starts, so that the congestion window grows and rings and pools
    // allocate their memory.
    let first = Load { messages: load.messages.div_ceil(4), check: false, ..*load };
    let warm_up = load.message_bytes() * u64::from(first.messages);
    let socket = stage.connect(take, &[warm_up, total])?;
    let mut sender = Sender::new(load, socket).map_err(LabError::step("cannot prepare the sender"))?;
    sender.send(&first).map_err(LabError::step("cannot send messages"))?;
    stage.part()?;
    let (start_ns, watch, before) = (crate::machine::cpu::monotonic_ns(), Stopwatch::start(), sender.calls());
    let copied = sender.send(load).map_err(LabError::step("cannot send messages"))?;
    let (elapsed, sent_ns) = (watch.elapsed(), crate::machine::cpu::monotonic_ns());
    let part = stage.part()?;
    let done_ns = part.map_or(sent_ns, |part| part.done_ns);
    Ok(Sent {
        messages: load.messages,
        wall_ns: done_ns.saturating_sub(start_ns),
        cpu_ns: u64::try_from(elapsed.cpu.as_nanos()).unwrap_or(u64::MAX),
        calls: sender.calls() - before,
        copied,
        expected: (total, if load.check { checksum(load) } else { 0 }),
        arrived: part.map(|part| (part.bytes, part.checksum)),
    })
}

/// Checksum of all messages.
fn checksum(load: &Load) -> u64 {
    let mut digest = payload::digest();
    let mut message = vec![0; usize::try_from(load.message_bytes()).unwrap_or(0)];
    for index in 0..load.messages {
        load.fill(index, &mut message);
        digest.update(&message);
    }
    digest.finalize()
}

/// Sends the start of a file by reference from buffers.
pub(crate) struct FileSender {
    single: single::Single,
    how: How,
    bytes: usize,
    sent_bytes: u64,
    copied_bytes: u64,
}

impl FileSender {
    /// Creates a sender over a blocking connection, with messages of this number of bytes.
    pub(crate) fn new(how: How, bytes: usize, file: Arc<File>, socket: TcpStream) -> io::Result<Self> {
        let load = Load { how, bytes, pieces: 0, piece_bytes: 0, messages: 0, check: false };
        let single = single::Single::new(&load, Arc::new(socket.into()))?.reading(file);
        Ok(Self { single, how, bytes, sent_bytes: 0, copied_bytes: 0 })
    }

    /// Sends complete messages. Returns once the kernel has released their memory.
    pub(crate) fn send(&mut self, len: u64) -> io::Result<()> {
        let messages = u32::try_from(len / self.bytes as u64).unwrap_or(u32::MAX);
        let load =
            Load { how: self.how, bytes: self.bytes, pieces: 0, piece_bytes: 0, messages, check: false };
        let copied = self.single.send(&load)?;
        self.sent_bytes += u64::from(messages) * self.bytes as u64;
        self.copied_bytes += copied * self.bytes as u64;
        Ok(())
    }

    /// Number of system calls so far.
    pub(crate) fn calls(&self) -> u64 {
        // One call reads each message.
        self.single.calls() + self.sent_bytes / self.bytes as u64
    }

    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes that the kernel copied although the sender sent them by reference.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }
}

/// Sender with its memory and ring.
enum Sender {
    Single(single::Single),
    Mixed(Box<mixed::Mixed>),
}

impl Sender {
    fn new(load: &Load, socket: route::Socket) -> io::Result<Self> {
        Ok(match load.how {
            How::Whole { .. } | How::Cut { .. } => Self::Mixed(Box::new(mixed::Mixed::new(load, socket)?)),
            _ => Self::Single(single::Single::new(load, socket)?),
        })
    }

    /// Sends all messages and waits until the kernel has released their memory. Returns the number
    /// of messages by reference that the kernel copied.
    fn send(&mut self, load: &Load) -> io::Result<u64> {
        match self {
            Self::Single(single) => single.send(load),
            Self::Mixed(mixed) => mixed.send(load),
        }
    }

    fn calls(&self) -> u64 {
        match self {
            Self::Single(single) => single.calls(),
            Self::Mixed(mixed) => mixed.calls(),
        }
    }
}
