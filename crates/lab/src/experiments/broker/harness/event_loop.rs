//! A bare loop of `epoll` that serves many connections on one thread, for floors that a broker of one thread is compared with.

use std::io;
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

use rustix::event::{Timespec, epoll};

/// How often the loop looks whether it is over.
const LOOK: Timespec = Timespec { tv_sec: 0, tv_nsec: 50_000_000 };

/// The number of the listener in the epoll set; connections have their index.
const LISTENER: u64 = u64::MAX;

/// What a connection waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wants {
    /// The next request.
    ToReceive,
    /// Room for the rest of an answer.
    ToSend,
    /// Nothing: the client is gone.
    Nothing,
}

/// Accepts connections, made by `open`, and gives each a `turn` whenever it is ready, until it is over. A new connection wants to receive; a
/// turn is told the connection's number, from 0.
pub(crate) fn serve<C: AsFd>(
    listener: &TcpListener,
    over: &AtomicBool,
    open: impl Fn(TcpStream) -> io::Result<C>,
    mut turn: impl FnMut(usize, &mut C) -> io::Result<Wants>,
) -> io::Result<()> {
    let set = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&set, listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<(C, Wants)> = Vec::new();
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
                let data = epoll::EventData::new_u64(connections.len() as u64);
                epoll::add(&set, &connection, data, epoll::EventFlags::IN)?;
                connections.push((connection, Wants::ToReceive));
                continue;
            }
            let at = usize::try_from(number).unwrap_or(usize::MAX);
            let Some((connection, wants)) = connections.get_mut(at) else { continue };
            let before = std::mem::replace(wants, turn(at, connection)?);
            let flags = match *wants {
                now if now == before => continue,
                Wants::ToReceive => epoll::EventFlags::IN,
                Wants::ToSend => epoll::EventFlags::OUT,
                Wants::Nothing => {
                    epoll::delete(&set, &*connection)?;
                    continue;
                }
            };
            epoll::modify(&set, &*connection, event.data, flags)?;
        }
    }
    Ok(())
}
