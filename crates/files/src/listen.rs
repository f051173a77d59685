//! Listening addresses: parsed, bound, and opened on each shard.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::io;
use std::net::{SocketAddr, ToSocketAddrs};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::net::{UnixListener as StdUnixListener, UnixStream};
use std::path::PathBuf;
use std::str::FromStr;

use socket2::{Domain, Protocol, Socket as Bare, Type};

pub(crate) use self::handed::Handed;
use crate::socket::{Peer, Socket};

mod handed;

/// Number of pending connections that the kernel keeps for each queue while its shard is busy.
const BACKLOG: i32 = 1024;

/// An address to listen on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Address {
    /// A host, with all its addresses, and a port; an empty host is every address of the machine.
    Tcp(String, u16),
    /// A path of a socket of AF_UNIX.
    Unix(PathBuf),
    /// The sockets of this name that systemd, or another program that started the process, has
    /// passed to it; without a name, all sockets that no other address names.
    Inherited(Option<String>),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "systemd" {
            return Ok(Self::Inherited(None));
        }
        if let Some(name) = text.strip_prefix("systemd:") {
            return if name.is_empty() {
                Err("systemd: needs the name of a socket (FileDescriptorName=)".to_owned())
            } else {
                Ok(Self::Inherited(Some(name.to_owned())))
            };
        }
        if let Some(path) = text.strip_prefix("unix:") {
            return if path.is_empty() {
                Err("unix: needs a path".to_owned())
            } else {
                Ok(Self::Unix(path.into()))
            };
        }
        let fault = || format!("{text:?} is no HOST:PORT, unix:PATH, systemd or systemd:NAME");
        let (host, port) = text.rsplit_once(':').ok_or_else(fault)?;
        let port = port.parse().map_err(|_| fault())?;
        let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        if bracketed.is_none() && host.contains(':') {
            return Err(format!("{text:?}: an IPv6 address needs brackets"));
        }
        Ok(Self::Tcp(bracketed.unwrap_or(host).to_owned(), port))
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(host, port) if host.contains(':') => write!(f, "[{host}]:{port}"),
            Self::Tcp(host, port) => write!(f, "{host}:{port}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
            Self::Inherited(None) => f.write_str("systemd"),
            Self::Inherited(Some(name)) => write!(f, "systemd:{name}"),
        }
    }
}

impl Address {
    /// True if a socket for this address must not accept IPv4, because one of `all` uses the same
    /// port for it.
    pub(crate) fn is_v6_only<'a>(&self, all: impl IntoIterator<Item = &'a Self>) -> bool {
        let Self::Tcp(_, own) = self else { return false };
        let is_v4 = |other: &Self| match other {
            Self::Tcp(host, port) => port == own && host.parse::<std::net::Ipv4Addr>().is_ok(),
            _ => false,
        };
        *own != 0 && all.into_iter().any(is_v4)
    }
}

/// Purpose of a listener's connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Purpose {
    Files,
    /// Files, over TLS.
    SecureFiles,
    Metrics,
}

/// A bound listener.
#[derive(Debug)]
pub(crate) struct Listener {
    socket: Bound,
    purpose: Purpose,
    /// True if other sockets may be bound to the address, each with a separate queue.
    is_shared: bool,
}

#[derive(Debug)]
enum Bound {
    Tcp(std::net::TcpListener),
    Unix(StdUnixListener),
}

/// Binds an address: one listener, one for each address of a host's name, or one for each socket
/// that the service manager has passed. A socket of IPv6 also takes IPv4, unless it `is_v6_only`.
///
/// # Errors
/// The address is in use, or no socket of the name was passed to the process.
pub(crate) fn bind(
    address: &Address,
    (purpose, is_v6_only): (Purpose, bool),
    handed: &mut Handed,
) -> io::Result<Vec<Listener>> {
    let (bound, is_shared) = match address {
        Address::Tcp(host, port) => {
            (tcp(host, *port, is_v6_only)?.into_iter().map(Bound::Tcp).collect(), true)
        }
        Address::Unix(path) => (vec![Bound::Unix(unix(path)?)], false),
        Address::Inherited(name) => (inherited(handed.claim(name.as_deref())?)?, false),
    };
    let listeners = bound.into_iter().map(|socket| Listener { socket, purpose, is_shared });
    Ok(listeners.collect())
}

/// The listeners of each of this number of shards. Those of a TCP address have a queue each, so
/// that a connection wakes exactly one shard; the kernel selects the queue by the addresses of the
/// connection. Other listeners share one queue.
///
/// # Errors
/// The address of which a further socket cannot be bound.
pub(crate) fn for_shards(
    first: Vec<Listener>,
    count: usize,
) -> Result<Vec<Vec<Listener>>, (Address, io::Error)> {
    let mut all = Vec::with_capacity(count);
    for _ in 1..count {
        let another = |listener: &Listener| {
            let failed = |error| (listener.address().unwrap_or(Address::Inherited(None)), error);
            listener.another().map_err(failed)
        };
        all.push(first.iter().map(another).collect::<Result<Vec<_>, _>>()?);
    }
    // Connections in a queue that no shard reads would wait forever: the first sockets belong to a
    // shard as well.
    all.push(first);
    Ok(all)
}

fn tcp(host: &str, port: u16, is_v6_only: bool) -> io::Result<Vec<std::net::TcpListener>> {
    if host.is_empty()
        && let Ok(both_families) = open(SocketAddr::from(([0_u16; 8], port)), Claim::Alone, is_v6_only)
    {
        return Ok(vec![both_families]);
    }
    let host = if host.is_empty() { "0.0.0.0" } else { host };
    let mut addresses: Vec<_> = (host, port).to_socket_addrs()?.collect();
    // A repeated address is bound once; the order stays.
    let mut seen = HashSet::new();
    addresses.retain(|address| seen.insert(*address));
    // The kernel chooses the port for the first address only.
    const ATTEMPTS: u32 = 16;
    for _ in 1..ATTEMPTS {
        match open_all(&addresses, is_v6_only) {
            Err(error) if port == 0 && error.kind() == io::ErrorKind::AddrInUse => {}
            outcome => return outcome,
        }
    }
    open_all(&addresses, is_v6_only)
}

/// Binds all addresses of a host to one port. An address that the machine does not have, as that of
/// IPv6 on a machine without it, is left out if it has another one.
fn open_all(addresses: &[SocketAddr], is_v6_only: bool) -> io::Result<Vec<std::net::TcpListener>> {
    let mut port = None;
    let mut bound: Vec<std::net::TcpListener> = Vec::with_capacity(addresses.len());
    let mut absent = io::Error::new(io::ErrorKind::NotFound, "the host has no address");
    for address in addresses {
        let address = SocketAddr::new(address.ip(), port.unwrap_or(address.port()));
        match open(address, Claim::Alone, is_v6_only) {
            Ok(listener) => {
                port = Some(listener.local_addr()?.port());
                bound.push(listener);
            }
            Err(error) if is_absent(&error) => absent = error,
            Err(error) => return Err(error),
        }
    }
    if bound.is_empty() { Err(absent) } else { Ok(bound) }
}

/// True if the machine does not have an address or its family.
fn is_absent(error: &io::Error) -> bool {
    let errno = rustix::io::Errno::from_io_error(error);
    matches!(errno, Some(rustix::io::Errno::ADDRNOTAVAIL | rustix::io::Errno::AFNOSUPPORT))
}

/// The way to bind an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Claim {
    /// No other process may have bound the address.
    Alone,
    /// The address is bound already, by another socket of this process.
    Beside,
}

fn open(address: SocketAddr, claim: Claim, is_v6_only: bool) -> io::Result<std::net::TcpListener> {
    let socket = Bare::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(is_v6_only)?;
    }
    socket.set_reuse_port(claim == Claim::Beside)?;
    socket.bind(&address.into())?;
    // If it were set before binding, the address could be shared with another process.
    socket.set_reuse_port(true)?;
    // Connections inherit it.
    socket.set_tcp_nodelay(true)?;
    socket.listen(BACKLOG)?;
    Ok(socket.into())
}

/// Binds a path. Replaces the socket of a dead server, and refuses one that still accepts
/// connections.
fn unix(path: &PathBuf) -> io::Result<StdUnixListener> {
    match StdUnixListener::bind(path) {
        Err(error) if error.kind() == io::ErrorKind::AddrInUse => {
            let is_socket = fs::symlink_metadata(path).is_ok_and(|meta| meta.file_type().is_socket());
            let refused = || {
                UnixStream::connect(path).is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
            };
            if !is_socket || !refused() {
                return Err(error);
            }
            fs::remove_file(path)?;
            StdUnixListener::bind(path)
        }
        outcome => outcome,
    }
}

/// Inherited sockets, with the option that [`open`] sets on its own sockets.
fn inherited(sockets: Vec<Bound>) -> io::Result<Vec<Bound>> {
    for socket in &sockets {
        if let Bound::Tcp(listener) = socket {
            socket2::SockRef::from(listener).set_tcp_nodelay(true)?;
        }
    }
    Ok(sockets)
}

impl Listener {
    /// Opens or duplicates the listener for another shard.
    fn another(&self) -> io::Result<Self> {
        let socket = match &self.socket {
            Bound::Tcp(listener) if self.is_shared => {
                let address = listener.local_addr()?;
                let is_v6_only = address.is_ipv6() && socket2::SockRef::from(listener).only_v6()?;
                Bound::Tcp(open(address, Claim::Beside, is_v6_only)?)
            }
            Bound::Tcp(listener) => Bound::Tcp(listener.try_clone()?),
            Bound::Unix(listener) => Bound::Unix(listener.try_clone()?),
        };
        Ok(Self { socket, purpose: self.purpose, is_shared: self.is_shared })
    }

    /// The address after binding.
    pub(crate) fn address(&self) -> io::Result<Address> {
        Ok(match &self.socket {
            Bound::Tcp(listener) => {
                let address = listener.local_addr()?;
                Address::Tcp(address.ip().to_string(), address.port())
            }
            Bound::Unix(listener) => {
                let address = listener.local_addr()?;
                Address::Unix(address.as_pathname().map(PathBuf::from).unwrap_or_default())
            }
        })
    }

    /// Watches it on this thread.
    pub(crate) fn open(self) -> io::Result<WatchedListener> {
        let socket = match self.socket {
            Bound::Tcp(listener) => {
                listener.set_nonblocking(true)?;
                Watched::Tcp(tokio::net::TcpListener::from_std(listener)?)
            }
            Bound::Unix(listener) => {
                listener.set_nonblocking(true)?;
                Watched::Unix(tokio::net::UnixListener::from_std(listener)?)
            }
        };
        Ok(WatchedListener { socket, purpose: self.purpose })
    }
}

/// A listener that a shard watches.
#[derive(Debug)]
pub(crate) struct WatchedListener {
    socket: Watched,
    pub(crate) purpose: Purpose,
}

#[derive(Debug)]
enum Watched {
    Tcp(tokio::net::TcpListener),
    Unix(tokio::net::UnixListener),
}

impl WatchedListener {
    /// The next connection.
    pub(crate) async fn accept(&self) -> io::Result<(Socket, Peer)> {
        match &self.socket {
            Watched::Tcp(listener) => {
                let (stream, peer) = listener.accept().await?;
                Ok((Socket::Tcp(stream), Peer::Address(peer.ip().to_canonical(), peer.port())))
            }
            Watched::Unix(listener) => Ok((Socket::Unix(listener.accept().await?.0), Peer::Local)),
        }
    }
}

#[cfg(test)]
mod tests;
