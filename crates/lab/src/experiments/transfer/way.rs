//! Methods to move a file to a socket, each ready to send a part of the file and to return its
//! cost.

use std::collections::VecDeque;
use std::fs::File;
use std::io;
use std::net::TcpStream;
use std::os::fd::AsFd;
use std::sync::Arc;

use levada_io::ktls::{self, Direction};
use levada_io::probe::Support;
use levada_io::{Caps, Counters, Engine, Extent, Path, Piece, SealedTransfer, Thresholds, Transfer, Turn};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::retry_on_intr;

use super::bytes;
use crate::error::LabError;
use crate::harness::memory_sender::{FileSender, How, Wait};
use crate::harness::tls_records::{self, Sealer};

/// A method to move a file to a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct TransferMethod {
    pub(super) kind: Kind,
    /// Bytes of the buffer or of the pipe.
    pub(super) step_bytes: usize,
}

/// Implementation that moves the bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// Uses a path of the transfer engine.
    Engine(Path),
    /// Reads into buffers and sends the buffers by reference.
    Memory(How),
    /// Reads into a buffer, encrypts it in this process, and sends it.
    UserTls,
    /// Uses `splice` into a socket that encrypts.
    KernelTls,
}

const BUFFERS: [usize; 4] = [4 << 10, 8 << 10, 64 << 10, 1 << 20];
const PIPES: [usize; 5] = [64 << 10, 128 << 10, 256 << 10, 512 << 10, 1 << 20];

/// Bytes of each parked send by reference, so that all of them fit into the usual limit of locked
/// memory for users.
const REFERENCED_BYTES: usize = 256 << 10;

const REFERENCED: [(&str, How); 3] = [
    ("read+MSG_ZEROCOPY", How::MsgZerocopy),
    ("read+SEND_ZC", How::RingZeroCopy { registered: false, wait: Wait::Result }),
    ("read+SEND_ZC registered", How::RingZeroCopy { registered: true, wait: Wait::Result }),
];

impl TransferMethod {
    /// All methods; those that copy are first.
    pub(super) fn all() -> Vec<Self> {
        let of = |path: Path| move |step_bytes: usize| Self { kind: Kind::Engine(path), step_bytes };
        let mut ways: Vec<Self> = BUFFERS.into_iter().map(of(Path::ReadWrite)).collect();
        ways.push(of(Path::MmapWrite)(1 << 20));
        ways.extend(
            REFERENCED.map(|(_, how)| Self { kind: Kind::Memory(how), step_bytes: REFERENCED_BYTES }),
        );
        ways.push(of(Path::Sendfile)(64 << 10));
        ways.extend(PIPES.into_iter().map(of(Path::Splice)));
        ways.push(of(Path::SpliceCopy)(1 << 20));
        ways.push(Self { kind: Kind::UserTls, step_bytes: 128 << 10 });
        ways.push(Self { kind: Kind::KernelTls, step_bytes: 1 << 20 });
        ways
    }

    pub(super) fn name(self) -> String {
        let size = bytes(self.step_bytes);
        match self.kind {
            Kind::Engine(Path::ReadWrite) => format!("read+write {size}"),
            Kind::Engine(Path::MmapWrite) => format!("mmap+write {size}"),
            Kind::Engine(Path::Splice) => format!("splice, pipe {size}"),
            Kind::Engine(Path::SpliceCopy) => format!("splice that copies, pipe {size}"),
            Kind::Engine(path) => path.label().to_owned(),
            Kind::UserTls => format!("TLS here, {size}"),
            Kind::KernelTls => format!("TLS in the kernel, splice {size}"),
            Kind::Memory(how) => {
                let named = REFERENCED.iter().find(|(_, other)| *other == how);
                format!("{} {size}", named.map_or("read+send", |(name, _)| name))
            }
        }
    }

    /// Path under which the transfer engine counts the bytes.
    pub(super) fn path(self) -> Path {
        match self.kind {
            Kind::Engine(path) => path,
            Kind::Memory(How::MsgZerocopy) => Path::MsgZerocopy,
            Kind::Memory(_) => Path::UringSendZc,
            Kind::UserTls => Path::UserTls,
            Kind::KernelTls => Path::Splice,
        }
    }

    /// Path of the bytes if the engine has no pipe left for a connection.
    fn without_pipe(self) -> Option<Path> {
        match self.kind {
            Kind::Engine(Path::Splice) => Some(Path::Sendfile),
            Kind::Engine(Path::SpliceCopy) => Some(Path::SendfileCopy),
            _ => None,
        }
    }

    /// True if the kernel copies pages for the method, because the descriptor has `O_DIRECT`.
    pub(super) fn copies_pages(self) -> bool {
        self.kind == Kind::Engine(Path::SpliceCopy)
    }

    /// True for methods that are measured with many connections: one of each path of the engine.
    pub(super) fn is_for_many(self) -> bool {
        let Kind::Engine(path) = self.kind else { return false };
        path == Path::Sendfile || self.step_bytes == 1 << 20
    }

    /// True if the received bytes are TLS records.
    pub(super) fn is_sealed(self) -> bool {
        matches!(self.kind, Kind::UserTls | Kind::KernelTls)
    }

    /// Reason why this machine cannot use the method, with a remedy.
    pub(super) fn missing(self, caps: &Caps) -> Option<String> {
        let needed = match self.path() {
            _ if self.kind == Kind::KernelTls => &caps.kernel_tls,
            Path::Sendfile => &caps.sendfile,
            Path::Splice | Path::SpliceCopy => &caps.splice,
            Path::MsgZerocopy => &caps.msg_zerocopy,
            Path::UringSendZc => &caps.ring_zero_copy,
            _ => return None,
        };
        match needed {
            Support::Works => None,
            Support::Absent { why, remedy } => Some(format!("{why}; {remedy}")),
        }
    }

    /// Prepares to send over connections. Only [methods for many connections](Self::is_for_many)
    /// use more than the first.
    pub(super) fn ready(
        self,
        caps: &Caps,
        file: &Arc<File>,
        mut sockets: Vec<TcpStream>,
    ) -> io::Result<Sender> {
        Ok(match self.kind {
            Kind::Engine(_) | Kind::UserTls | Kind::KernelTls => {
                let counters = Arc::new(Counters::default());
                let thresholds = Thresholds {
                    copy_bytes: self.step_bytes,
                    pipe_bytes: self.step_bytes,
                    pipe_floor_bytes: self.step_bytes,
                    ..Thresholds::default()
                };
                let mut caps = caps.clone();
                if self.copies_pages() {
                    caps.page_references = Support::Absent { why: "O_DIRECT".to_owned(), remedy: "none" };
                }
                let mut engine = Engine::with_thresholds(&caps, Arc::clone(&counters), thresholds);
                let path = if self.copies_pages() { Path::Splice } else { self.path() };
                engine.force(path.to_socket());
                if self.kind == Kind::KernelTls {
                    ktls::enable(sockets[0].as_fd())?;
                    ktls::install(sockets[0].as_fd(), Direction::Send, &tls_records::kernel_keys())?;
                }
                let sealer = (self.kind == Kind::UserTls).then(Sealer::new).transpose()?;
                Sender::Engine(Box::new(engine), counters, Source { file: Arc::clone(file), sockets, sealer })
            }
            Kind::Memory(how) => {
                let socket = sockets.swap_remove(0);
                socket.set_nonblocking(false)?;
                let file = Arc::clone(file);
                Sender::Memory(Box::new(FileSender::new(how, self.step_bytes, file, socket)?))
            }
        })
    }
}

/// A method that is ready to send.
pub(super) enum Sender {
    Engine(Box<Engine>, Arc<Counters>, Source),
    Memory(Box<FileSender>),
}

/// Data, destinations and encryption of an engine.
pub(super) struct Source {
    file: Arc<File>,
    sockets: Vec<TcpStream>,
    sealer: Option<Sealer>,
}

/// Bytes that a connection sends before the turn of the next one.
const TURN_BYTES: u64 = 1 << 20;

impl Source {
    /// Sends adjacent parts of the file, each of `share` bytes, one over each connection.
    fn send(&mut self, engine: &mut Engine, share: u64) -> Result<(), LabError> {
        let failed = |error| LabError::Step {
            what: "cannot send the file".to_owned(),
            cause: io::Error::other(error),
        };
        let piece = |index: usize| {
            let offset = index as u64 * share;
            Piece::Extent(Extent { file: Arc::clone(&self.file), offset, len: share })
        };
        if let Some(sealer) = &mut self.sealer {
            let mut transfer = SealedTransfer::new([piece(0)]);
            let socket = self.sockets[0].as_fd();
            while transfer.step(engine, (socket, &mut *sealer), u64::MAX).map_err(failed)? != Turn::Done {
                await_any(&self.sockets, &[0])?;
            }
            return Ok(());
        }
        let mut transfers: Vec<Transfer> =
            (0..self.sockets.len()).map(|index| Transfer::new([piece(index)])).collect();
        let budget = if transfers.len() > 1 { TURN_BYTES } else { u64::MAX };
        let (mut ready, mut blocked): (VecDeque<usize>, Vec<usize>) =
            ((0..transfers.len()).collect(), Vec::new());
        loop {
            while let Some(index) = ready.pop_front() {
                let socket = self.sockets[index].as_fd();
                match transfers[index].step(engine, socket, budget).map_err(failed)? {
                    Turn::Done => {}
                    Turn::Yield => ready.push_back(index),
                    _ => blocked.push(index),
                }
            }
            if blocked.is_empty() {
                return Ok(());
            }
            let is_ready = await_any(&self.sockets, &blocked)?;
            let (now, later): (Vec<_>, Vec<_>) =
                blocked.into_iter().zip(is_ready).partition(|(_, is_ready)| *is_ready);
            ready.extend(now.into_iter().map(|(index, _)| index));
            blocked = later.into_iter().map(|(index, _)| index).collect();
        }
    }
}

/// Waits until one of these connections is writable. Returns true for each writable connection. A
/// signal that requests a stop takes effect after the run.
fn await_any(sockets: &[TcpStream], indices: &[usize]) -> Result<Vec<bool>, LabError> {
    let mut polled: Vec<PollFd<'_>> =
        indices.iter().map(|index| PollFd::new(&sockets[*index], PollFlags::OUT)).collect();
    retry_on_intr(|| poll(&mut polled, None)).map_err(LabError::step("cannot wait for the socket"))?;
    Ok(polled.iter().map(|polled| !polled.revents().is_empty()).collect())
}

/// Progress of a sender.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Tally {
    /// Number of system calls.
    pub(super) calls: u64,
    /// Bytes that took the path of the method.
    pub(super) by_way: u64,
    /// Bytes copied by the process or by the kernel.
    pub(super) copies: u64,
}

impl Sender {
    /// Sends `share` bytes over each connection, and waits while all connections are full.
    pub(super) fn send(&mut self, share: u64) -> Result<(), LabError> {
        match self {
            Self::Engine(engine, _, source) => source.send(engine, share),
            Self::Memory(sender) => sender.send(share).map_err(LabError::step("cannot send the file")),
        }
    }

    pub(super) fn tally(&self, way: TransferMethod) -> Tally {
        match self {
            Self::Engine(_, counters, ..) => {
                let seen = counters.snapshot();
                Tally {
                    calls: Path::ALL.iter().map(|path| seen.calls(*path)).sum(),
                    by_way: seen.bytes(way.path()) + way.without_pipe().map_or(0, |path| seen.bytes(path)),
                    copies: seen.copied() + seen.copied_by_kernel(),
                }
            }
            Self::Memory(sender) => Tally {
                calls: sender.calls(),
                by_way: sender.sent_bytes(),
                // The sender has read each byte into a buffer.
                copies: sender.sent_bytes() + sender.copied_bytes(),
            },
        }
    }
}
