//! A bare loop of `epoll` that serves many connections on one thread, as a floor for
//! single-threaded servers.

use std::io;
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use rustix::event::{Timespec, epoll};

use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::machine::cpu;

/// Interval in which the loop checks if it must end.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// Number of the listener in the epoll set; the number of a connection is its index.
const LISTENER: u64 = u64::MAX;

/// Event for which a connection waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Interest {
    /// Waits for the next request.
    ToReceive,
    /// Waits for space in the socket for the rest of a response.
    ToSend,
    /// Waits for nothing, because the client has disconnected.
    Nothing,
}

/// Serves all connections with a loop on the sender's processor, until `clients` returns. Returns
/// the result of `clients`, and the processor time of the loop.
pub(crate) fn around<T>(
    bench: &Bench,
    serve: impl FnOnce(&TcpListener, &AtomicBool) -> io::Result<()> + Send,
    clients: impl FnOnce(SocketAddr) -> Result<T, LabError>,
) -> Result<(T, Duration), LabError> {
    let listener =
        TcpListener::bind("127.0.0.1:0").map_err(LabError::step("cannot listen on a free port"))?;
    let address = listener.local_addr().map_err(LabError::step("cannot read the address of a listener"))?;
    let over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let server: ScopedJoinHandle<'_, io::Result<Duration>> = scope.spawn(|| {
            cpu::pin(bench.places().sender());
            let before = cpu::of_this_thread();
            serve(&listener, &over)?;
            Ok(cpu::of_this_thread().saturating_sub(before))
        });
        let seen = clients(address);
        over.store(true, Ordering::Relaxed);
        let served = server.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        let spent = served.map_err(LabError::step("the bare loop failed"))?;
        Ok((seen?, spent))
    })
}

/// Accepts connections and converts each with `open`. Calls `turn` whenever a connection is ready,
/// until `over`. A new connection waits for data. A turn gets the connection's number, from 0; a
/// new connection may get the number of a closed one.
pub(crate) fn serve<C: AsFd>(
    listener: &TcpListener,
    over: &AtomicBool,
    open: impl Fn(TcpStream) -> io::Result<C>,
    mut turn: impl FnMut(usize, &mut C) -> io::Result<Interest>,
) -> io::Result<()> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&set, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<(C, Interest)>> = Vec::new();
    let mut free = Vec::new();
    let mut events = Vec::with_capacity(1024);
    while !over.load(Ordering::Relaxed) {
        events.clear();
        match epoll::wait(&set, rustix::buffer::spare_capacity(&mut events), Some(&LOOK)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(errno) => return Err(errno.into()),
        }
        for event in &events {
            let number = event.data.u64();
            if number == LISTENER {
                let (stream, _) = listener.accept()?;
                stream.set_nodelay(true)?;
                let connection = open(stream)?;
                let at = free.pop().unwrap_or_else(|| {
                    connections.push(None);
                    connections.len() - 1
                });
                let data = epoll::EventData::new_u64(at as u64);
                epoll::add(&set, &connection, data, epoll::EventFlags::IN)?;
                connections[at] = Some((connection, Interest::ToReceive));
                continue;
            }
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let Some(Some((connection, wants))) = connections.get_mut(at) else { continue };
            let before = std::mem::replace(wants, turn(at, connection)?);
            let flags = match *wants {
                now if now == before => continue,
                Interest::ToReceive => epoll::EventFlags::IN,
                Interest::ToSend => epoll::EventFlags::OUT,
                Interest::Nothing => {
                    // Close removes the descriptor from the set.
                    connections[at] = None;
                    free.push(at);
                    continue;
                }
            };
            epoll::modify(&set, &*connection, event.data, flags)?;
        }
    }
    Ok(())
}
