//! Setup that test suites of this crate share: files, sockets, engines, child processes.

use std::fs::File;
use std::io::{ErrorKind, Read};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::process::{Command, Output};
use std::sync::Arc;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::Advice;
use rustix::net::sockopt;
use rustix::process::{Resource, getrlimit};

use crate::probe::{Means, Support};
use crate::sys::calls;
use crate::{Caps, Counters, Engine, Extent, Piece, Thresholds, Transfer, TransferError, Turn};

mod device;
pub(crate) mod links;
mod matrix;
pub(crate) mod ways;

/// Bytes that differ from their neighbours and from those a page or a pipe away.
pub(crate) fn content(len: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_u32;
    let next = |_| {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        state.to_be_bytes()[0]
    };
    (0..len).map(next).collect()
}

/// A temporary file that holds `bytes`.
pub(crate) fn file_of(bytes: &[u8]) -> Arc<File> {
    let file = tempfile::tempfile().unwrap();
    file.write_all_at(bytes, 0).unwrap();
    Arc::new(file)
}

/// A piece of a file.
pub(crate) fn extent(file: &Arc<File>, offset: u64, len: u64) -> Piece {
    Piece::Extent(Extent { file: Arc::clone(file), offset, len })
}

/// Capabilities with nothing left out but what the flags say.
pub(crate) fn caps(splice: bool, sendfile: bool) -> Caps {
    let off = || Support::Absent { why: "switched off".to_owned(), remedy: "none" };
    let mut caps = Caps::probe();
    if !splice {
        caps.splice = off();
    }
    if !sendfile {
        caps.sendfile = off();
    }
    caps
}

/// True if this machine lacks a path that the test `what` is about; says so then.
pub(crate) fn lacks(path: crate::Path, what: &str) -> bool {
    let lacks = !path.works(&Caps::probe());
    if lacks {
        links::skipped(what, &format!("{path} does not work here"));
    }
    lacks
}

/// True if nothing here tells the test `what` which pages are in the cache; says so then.
pub(crate) fn blind(what: &str) -> bool {
    let blind = !Caps::probe().cachestat.works();
    if blind {
        links::skipped(what, "cachestat does not work here");
    }
    blind
}

/// True if so little memory may be locked (`ulimit -l`) that tests side by side take it from each
/// other; says so then. What is done with little is tested by those that set the limit themselves.
pub(crate) fn cramped(what: &str) -> bool {
    const ENOUGH: u64 = 1 << 20;
    let limit = getrlimit(Resource::Memlock).current.unwrap_or(u64::MAX);
    if limit < ENOUGH {
        links::skipped(what, &format!("only {limit} bytes may be locked"));
    }
    limit < ENOUGH
}

/// All means of the kernel.
pub(crate) const ALL_MEANS: Means =
    Means { splice: true, sendfile: true, page_references: true, nowait_reads: true, cachestat: true };

/// Writes a file to its device and evicts its pages; whether the file system could do that.
pub(crate) fn chilled(file: &File) -> bool {
    file.sync_all().unwrap();
    rustix::fs::fadvise(file, 0, None, Advice::DontNeed).unwrap();
    calls::cached_pages(file.as_fd(), 0, 0).is_ok_and(|pages| pages == 0)
}

/// An engine with counters of its own.
pub(crate) fn engine(caps: &Caps, thresholds: Thresholds) -> Engine {
    Engine::with_thresholds(caps, Arc::new(Counters::default()), thresholds)
}

/// Two connected sockets that do not wait. The sender's buffer is as small as the kernel allows if
/// `tight`.
pub(crate) fn sockets(tcp: bool, tight: bool) -> (OwnedFd, File) {
    let (sender, receiver): (OwnedFd, OwnedFd) = if tcp {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let sender = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        sender.set_nodelay(true).unwrap();
        sender.set_nonblocking(true).unwrap();
        let (receiver, _) = listener.accept().unwrap();
        receiver.set_nonblocking(true).unwrap();
        (sender.into(), receiver.into())
    } else {
        let (sender, receiver) = UnixStream::pair().unwrap();
        sender.set_nonblocking(true).unwrap();
        receiver.set_nonblocking(true).unwrap();
        (sender.into(), receiver.into())
    };
    if tight {
        sockopt::set_socket_send_buffer_size(&sender, 1).unwrap();
    }
    (sender, File::from(receiver))
}

/// Waits until the sender can send or the receiver can receive.
pub(crate) fn wait(sender: BorrowedFd<'_>, receiver: BorrowedFd<'_>) {
    let mut both =
        [PollFd::from_borrowed_fd(sender, PollFlags::OUT), PollFd::from_borrowed_fd(receiver, PollFlags::IN)];
    let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
    assert!(poll(&mut both, Some(&limit)).unwrap() > 0, "nothing moved for ten seconds");
}

/// Reads what is there, at most `count` bytes; whether the sender has closed.
pub(crate) fn read_some(receiver: &mut File, count: usize, into: &mut Vec<u8>) -> bool {
    let mut bytes = vec![0; count.max(1)];
    match receiver.read(&mut bytes) {
        Ok(0) => true,
        Ok(got) => {
            into.extend_from_slice(&bytes[..got]);
            false
        }
        Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionReset) => false,
        Err(error) => panic!("receiving: {error}"),
    }
}

/// Steps until the end, with a reader that takes everything; what arrived, and the error if there
/// was one.
pub(crate) fn deliver(
    engine: &mut Engine,
    mut transfer: Transfer,
    (sender, mut receiver): (OwnedFd, File),
) -> (Vec<u8>, Result<(), TransferError>) {
    let mut arrived = Vec::new();
    let outcome = loop {
        match transfer.step(engine, sender.as_fd(), 1 << 20) {
            Ok(Turn::Done) => break Ok(()),
            Ok(Turn::Yield | Turn::Cold) => {}
            Ok(Turn::Blocked) => {
                wait(sender.as_fd(), receiver.as_fd());
                read_some(&mut receiver, 1 << 20, &mut arrived);
            }
            Err(error) => break Err(error),
        }
    };
    drop((transfer, sender));
    read_to_end(&mut receiver, &mut arrived);
    (arrived, outcome)
}

/// Reads until the sender has closed.
pub(crate) fn read_to_end(receiver: &mut File, into: &mut Vec<u8>) {
    while !read_some(receiver, 1 << 20, into) {
        wait_readable(receiver.as_fd());
    }
}

/// Waits until the receiver can receive.
pub(crate) fn wait_readable(receiver: BorrowedFd<'_>) {
    wait_for(receiver, PollFlags::IN);
}

/// True if the kernel holds back nothing of what a TCP socket took.
pub(crate) fn all_left(sender: BorrowedFd<'_>) -> bool {
    calls::unsent_low_water(sender, 1).unwrap();
    let mut one = [PollFd::from_borrowed_fd(sender, PollFlags::OUT)];
    poll(&mut one, Some(&Timespec::default())).unwrap() > 0
}

/// Waits until a socket is ready, or broken.
pub(crate) fn wait_for(socket: BorrowedFd<'_>, events: PollFlags) {
    let mut one = [PollFd::from_borrowed_fd(socket, events)];
    let limit = Timespec { tv_sec: 10, tv_nsec: 0 };
    assert!(poll(&mut one, Some(&limit)).unwrap() > 0, "nothing moved for ten seconds");
}

/// The role that a test plays in a child process, if this is one.
pub(crate) fn role() -> Option<String> {
    std::env::var("LEVADA_IO_TEST_ROLE").ok()
}

/// Runs the test `name` alone in a child process, where it may change what belongs to the whole
/// process.
pub(crate) fn child(name: &str, role: &str) -> Output {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name, "--nocapture", "--test-threads=1"]).env("LEVADA_IO_TEST_ROLE", role);
    command.output().unwrap()
}
