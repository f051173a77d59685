//! Sending from memory over a separate route, as `lab send` and `lab calibrate` measure it.
//!
//! A worker does it, a [second process](crate::harness::peer) that may be root of separate
//! namespaces, because a device that takes references without a network card can only be made
//! there. The worker measures itself; its commands and results are plain data.

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

/// The way to the receiver.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Route {
    /// TCP over the loopback device: the kernel copies in the end, even with a request for a
    /// reference.
    Loopback,
    /// TCP over a pair of virtual devices between two namespaces of our own: the same.
    Veth,
    /// UDP to a device that drops all packets: there is no copy, and no receiver.
    Ifb,
}

impl Route {
    /// As in tables.
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
    /// After the result of the last message; its memory stays parked until the kernel releases it.
    Result,
    /// After the kernel has released the memory of the last message.
    Release,
}

/// Way to send a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum How {
    /// `send`: copied.
    Send,
    /// `send` with `MSG_ZEROCOPY`.
    MsgZerocopy,
    /// `SEND` through a ring: copied.
    RingSend,
    /// `SEND_ZC` through a ring.
    RingZeroCopy {
        /// From registered buffers.
        registered: bool,
        /// Condition for the next one.
        wait: Wait,
    },
    /// Many small pieces and one body, all in one `SENDMSG_ZC`.
    Whole {
        /// Condition for the next one.
        wait: Wait,
    },
    /// The same cut by size: small pieces copied together, the body by reference.
    Cut {
        /// Condition for the next one.
        wait: Wait,
    },
}

/// Work of a worker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Load {
    /// In which way.
    pub how: How,
    /// Bytes of a message, or of the body of a mixed one.
    pub bytes: usize,
    /// Small pieces before the body of a mixed message.
    pub pieces: usize,
    /// Bytes of each of those.
    pub piece_bytes: usize,
    /// Number of messages.
    pub messages: u32,
    /// True if the receiver makes a checksum; every message is different then.
    pub check: bool,
}

impl Load {
    /// Bytes of a whole message.
    pub(crate) fn message_bytes(&self) -> u64 {
        (self.bytes + self.pieces * self.piece_bytes) as u64
    }

    /// The bytes of message `index`: like every other one's, unless they are checked.
    fn fill(&self, index: u32, message: &mut [u8]) {
        Payload::new(if self.check { u64::from(index) + 1 } else { 1 }).fill(message);
    }
}

/// Result.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub(crate) struct Sent {
    /// Number of messages.
    pub messages: u32,
    /// Of the wall clock, until the last byte had arrived (with a receiver) or was sent.
    pub wall_ns: u64,
    /// Processor time of the worker.
    pub cpu_ns: u64,
    /// System calls of the sending thread.
    pub calls: u64,
    /// Messages sent by reference which the kernel copied after all.
    pub copied: u64,
    /// Bytes and checksum that were to arrive.
    pub expected: (u64, u64),
    /// Bytes and checksum that arrived; `None` without a receiver.
    pub arrived: Option<(u64, u64)>,
}

impl Sent {
    /// By the names that `lab send` uses.
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

    /// Result of the check. Without a receiver only the complete acceptance of every send can be
    /// checked.
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
    /// Starts a worker that has a route: within separate namespaces for all but loopback.
    ///
    /// # Errors In words: the missing requirement and a remedy.
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

    /// Sends.
    ///
    /// # Errors
    /// The worker or the connection failed.
    pub(crate) fn send(&mut self, load: &Load) -> Result<Sent, LabError> {
        self.process.send(load)
    }
}

/// Sends a load on a stage and measures it: the work of a worker.
pub(crate) fn run(stage: &mut Stage, load: &Load) -> Result<Sent, LabError> {
    let total = load.message_bytes() * u64::from(load.messages);
    let take = if load.check { ReceiveMode::Check } else { ReceiveMode::Discard };
    // A part goes before the clock starts: connections find their window, rings and pools their
    // memory.
    let first = Load { messages: load.messages.div_ceil(4), check: false, ..*load };
    let warm_up = load.message_bytes() * u64::from(first.messages);
    let socket = stage.connect(take, &[warm_up, total])?;
    let mut sender = Sender::new(load, socket).map_err(LabError::step("cannot prepare sending"))?;
    sender.send(&first).map_err(LabError::step("cannot send"))?;
    stage.part()?;
    let (start_ns, watch, before) = (crate::machine::cpu::monotonic_ns(), Stopwatch::start(), sender.calls());
    let copied = sender.send(load).map_err(LabError::step("cannot send"))?;
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

/// Of all messages.
fn checksum(load: &Load) -> u64 {
    let mut digest = payload::digest();
    let mut message = vec![0; usize::try_from(load.message_bytes()).unwrap_or(0)];
    for index in 0..load.messages {
        load.fill(index, &mut message);
        digest.update(&message);
    }
    digest.finalize()
}

/// Sends the start of a file by reference, out of buffers that it is read into.
pub(crate) struct FileSender {
    single: single::Single,
    how: How,
    bytes: usize,
    sent_bytes: u64,
    copied_bytes: u64,
}

impl FileSender {
    /// Over a waiting connection, in messages of this number of bytes.
    pub(crate) fn new(how: How, bytes: usize, file: Arc<File>, socket: TcpStream) -> io::Result<Self> {
        let load = Load { how, bytes, pieces: 0, piece_bytes: 0, messages: 0, check: false };
        let single = single::Single::new(&load, Arc::new(socket.into()))?.reading(file);
        Ok(Self { single, how, bytes, sent_bytes: 0, copied_bytes: 0 })
    }

    /// Sends whole messages; their memory is free when this returns.
    pub(crate) fn send(&mut self, len: u64) -> io::Result<()> {
        let messages = u32::try_from(len / self.bytes as u64).unwrap_or(u32::MAX);
        let load =
            Load { how: self.how, bytes: self.bytes, pieces: 0, piece_bytes: 0, messages, check: false };
        let copied = self.single.send(&load)?;
        self.sent_bytes += u64::from(messages) * self.bytes as u64;
        self.copied_bytes += copied * self.bytes as u64;
        Ok(())
    }

    /// System calls so far.
    pub(crate) fn calls(&self) -> u64 {
        // One for each read.
        self.single.calls() + self.sent_bytes / self.bytes as u64
    }

    pub(crate) fn sent_bytes(&self) -> u64 {
        self.sent_bytes
    }

    /// Bytes that the kernel copied although they were sent by reference.
    pub(crate) fn copied_bytes(&self) -> u64 {
        self.copied_bytes
    }
}

/// Sender, with its memory and ring.
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

    /// Sends all messages and waits until their memory is free; how many the kernel copied that
    /// were to go by reference.
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
