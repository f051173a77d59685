//! A listening socket: accepts connections within the limits, sets their options, and hands them to
//! the shards in turn.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, Instant};

use levada_base::log_pace::LogPace;
use levada_config::{HostPort, Listener, address_of};
use levada_process::blocking::off_shard;
use levada_process::clock::steady_ms;
use levada_process::descriptors::{self, Reserve};
use levada_process::shutdown::Stop;
use parking_lot::Mutex;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::sync::{mpsc, watch};

use crate::api::connection_info::ConnectionInfo;
use crate::broker::Broker;
use crate::server::StartError;
use crate::server::channel::Channel;
use crate::server::connection_limits::{AcceptRate, ConnectionLimits, ConnectionPermit, Full};
use crate::server::shard::{Accepted, Inbox};

/// Number of pending connections that the kernel keeps for us while every shard is busy.
const BACKLOG: i32 = 1024;

/// Pause after a failed accept (no free descriptors): other connections wait in the backlog.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// Interval between two checks for a free descriptor.
const DESCRIPTOR_PAUSE: Duration = Duration::from_millis(100);

/// Binds the address that configuration key `key` named; does not accept yet. An empty host stands
/// for every address of the machine, as does `::`, unless the socket is for IPv6 only. Of a name
/// with several addresses, the first one that the machine has counts.
pub(crate) fn bind(
    address: &HostPort,
    key: &'static str,
    is_v6_only: bool,
) -> Result<TcpListener, StartError> {
    let failed =
        |source| StartError::Bind { address: format!("{}:{}", address.host, address.port), key, source };
    if address.host.is_empty()
        && let Ok(both_families) = open((Ipv6Addr::UNSPECIFIED, address.port).into(), is_v6_only)
    {
        return Ok(both_families);
    }
    let host = if address.host.is_empty() { "0.0.0.0" } else { &address.host };
    let mut last = std::io::Error::new(std::io::ErrorKind::NotFound, "the host has no address");
    for resolved in (host, address.port).to_socket_addrs().map_err(failed)? {
        match open(resolved, is_v6_only) {
            Ok(socket) => return Ok(socket),
            Err(taken) if taken.kind() == std::io::ErrorKind::AddrInUse => return Err(failed(taken)),
            Err(error) => last = error,
        }
    }
    Err(failed(last))
}

fn open(address: SocketAddr, is_v6_only: bool) -> std::io::Result<TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        // As in Java for a wildcard listener: one socket for both families.
        socket.set_only_v6(is_v6_only)?;
    }
    socket.bind(&address.into())?;
    socket.listen(BACKLOG)?;
    socket.set_nonblocking(true)?;
    Ok(socket.into())
}

/// Accepts connections up to the limits, and passes them to the shards in turn.
#[derive(Clone)]
pub(crate) struct Acceptor {
    broker: Arc<Broker>,
    shards: Vec<Inbox>,
    /// Destination of new connections of TLS listeners.
    handshakes: Option<mpsc::Sender<Accepted>>,
    connections: Arc<ConnectionLimits>,
    rate: Arc<Mutex<AcceptRate>>,
    reserve: Reserve,
    /// Limits the log entries about connections that wait or are refused.
    told: Arc<LogPace>,
    stop: Stop,
}

impl Acceptor {
    pub(crate) fn new(
        broker: Arc<Broker>,
        (shards, handshakes): (Vec<Inbox>, Option<mpsc::Sender<Accepted>>),
        stop: Stop,
        connections: Arc<ConnectionLimits>,
    ) -> Self {
        Self {
            broker,
            shards,
            handshakes,
            connections,
            rate: Arc::default(),
            reserve: Reserve::of(descriptors::limit()),
            told: Arc::default(),
            stop,
        }
    }

    /// Accepts until the stop signal.
    pub(crate) async fn accept(self, listener: Arc<Listener>, socket: Rc<tokio::net::TcpListener>) {
        let (mut turn, mut own_pace) = (self.shards.iter().cycle(), AcceptRate::default());
        let mut changes = self.broker.live_config().changes();
        loop {
            let accepted = tokio::select! {
                accepted = socket.accept() => accepted,
                () = self.stop.signalled() => return,
            };
            let (stream, peer) = match accepted {
                Ok(accepted) => accepted,
                Err(error) => {
                    self.tell(|left_out| {
                        tracing::warn!(%error, left_out, "accept failed; if the process is out of file descriptors, raise `ulimit -n`");
                    });
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            // The options of a closed connection cannot be set.
            let Ok(stream) = tune(stream) else { continue };
            let admitted = tokio::select! {
                admitted = self.admit(stream, (peer, &listener), &mut changes) => admitted,
                () = self.stop.signalled() => return,
            };
            let Some((stream, permit)) = admitted else { continue };
            self.keep_rate(&listener, &mut own_pace).await;
            let info = ConnectionInfo::new(listener.clone(), peer);
            let accepted = Accepted { stream: Arc::new(stream), info, permit, channel: Channel::Plain };
            let is_sent = match &self.handshakes {
                Some(handshakes) if listener.protocol.has_tls() => handshakes.send(accepted).await.is_ok(),
                _ => turn.next().expect("a broker has at least one shard").send(accepted).await,
            };
            if !is_sent {
                return;
            }
        }
    }

    /// Waits until the limits admit a connection; none if it is refused.
    async fn admit(
        &self,
        stream: std::net::TcpStream,
        (peer, listener): (SocketAddr, &Arc<Listener>),
        changes: &mut watch::Receiver<()>,
    ) -> Option<(std::net::TcpStream, ConnectionPermit)> {
        let permit = self.permit((peer.ip(), listener), changes).await?;
        let stream = self.spared(stream).await;
        let wait = self.broker.quotas().book_connection(peer.ip());
        if wait.is_zero() {
            return Some((stream, permit));
        }
        self.tell(|left_out| {
            tracing::info!(%peer, left_out, "connection closed: connection_creation_rate is reached");
        });
        // Closed immediately, it would be back immediately.
        tokio::task::spawn_local(turn_away((stream, permit), wait, self.stop.clone()));
        None
    }

    /// Waits until enough descriptors for files are free, in addition to that of the connection.
    async fn spared(&self, mut stream: std::net::TcpStream) -> std::net::TcpStream {
        loop {
            match self.reserve.spare(stream) {
                Ok(stream) => return stream,
                Err(kept) => stream = kept,
            }
            let kept = self.reserve.kept;
            self.tell(|left_out| {
                tracing::warn!(
                    left_out,
                    "connections wait: the last {kept} file descriptors are reserved for log files; raise `ulimit -n`"
                );
            });
            tokio::time::sleep(DESCRIPTOR_PAUSE).await;
        }
    }

    fn tell_wait(&self, full: Full, listener: &Listener) {
        self.tell(|left_out| {
            let listener = &listener.name;
            if full == Full::Listener {
                tracing::warn!(
                    listener,
                    left_out,
                    "connections wait: max.connections of the listener is reached"
                );
            } else {
                tracing::warn!(listener, left_out, "connections wait: max.connections is reached");
            }
        });
    }

    /// Looks up the hosts of `max.connections.per.ip.overrides`, unless it has looked up the same
    /// hosts before. Waits for the name service.
    pub(crate) async fn look_up_hosts(&self) {
        let names = self.broker.config().max_connections_of.names.clone();
        if self.connections.has_looked_up(&names) {
            return;
        }
        let mut limits = BTreeMap::new();
        for (name, limit) in &names {
            let host = name.clone();
            // One at a time: a stop waits for the end of one lookup at most.
            match off_shard(move || address_of(&host)).await {
                Ok(address) => limits.insert(address, *limit),
                Err(error) => {
                    tracing::error!(
                        host = name,
                        %error,
                        "cannot look up a host of max.connections.per.ip.overrides; the broker applies max.connections.per.ip to it until the value changes or the broker starts again"
                    );
                    continue;
                }
            };
        }
        self.connections.limit_hosts(names, limits);
    }

    /// Looks up the hosts after each change of the configuration, until the stop signal.
    pub(crate) async fn follow_hosts(self) {
        let mut changes = self.broker.live_config().changes();
        loop {
            tokio::select! {
                () = async {
                    self.look_up_hosts().await;
                    let _ = changes.changed().await;
                } => {}
                () = self.stop.signalled() => return,
            }
        }
    }

    /// Logs an event that any client can cause, unless the rate limit is reached.
    fn tell(&self, line: impl FnOnce(u64)) {
        if let Some(left_out) = self.told.admit(steady_ms()) {
            line(left_out);
        }
    }

    /// Keeps to `max.connection.creation.rate`, that of all listeners and that of one: faster
    /// connections wait in the backlog.
    async fn keep_rate(&self, listener: &Listener, own_pace: &mut AcceptRate) {
        let wait = {
            let (config, now, unlimited) = (self.broker.config(), Instant::now(), i32::MAX.unsigned_abs());
            let own = config.limits_of(&listener.name);
            let mut wait = Duration::ZERO;
            if own.creation_rate != unlimited {
                wait = own_pace.take(own.creation_rate, now);
            }
            if config.connection_creation_rate_max != unlimited && !own.is_protected {
                wait = wait.max(self.rate.lock().take(config.connection_creation_rate_max, now));
            }
            wait
        };
        if !wait.is_zero() {
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                () = self.stop.signalled() => {}
            }
        }
    }

    /// Waits for a permit among all connections, and among those of the listener; none if this
    /// address alone has too many.
    async fn permit(
        &self,
        origin: (IpAddr, &Arc<Listener>),
        changes: &mut watch::Receiver<()>,
    ) -> Option<ConnectionPermit> {
        let (mut freed, mut is_told) = (self.connections.freed(), false);
        loop {
            let taken = self.connections.take(origin, &self.broker.config());
            match taken {
                Ok(permit) => return Some(permit),
                Err(Full::Address) => {
                    let address = origin.0;
                    self.tell(|left_out| {
                        tracing::info!(%address, left_out, "connection closed: max.connections.per.ip is reached");
                    });
                    return None;
                }
                Err(full @ (Full::Broker | Full::Listener)) => {
                    if !std::mem::replace(&mut is_told, true) {
                        self.tell_wait(full, origin.1);
                    }
                    tokio::select! {
                        _ = freed.changed() => {}
                        _ = changes.changed() => {}
                    }
                }
            }
        }
    }
}

/// Closes a connection after a while.
async fn turn_away(connection: (std::net::TcpStream, ConnectionPermit), wait: Duration, stop: Stop) {
    tokio::select! {
        () = tokio::time::sleep(wait) => {}
        () = stop.signalled() => {}
    }
    drop(connection);
}

/// Configures the socket so that small responses are sent immediately; the code that writes large
/// responses batches them with MSG_MORE.
fn tune(stream: tokio::net::TcpStream) -> std::io::Result<std::net::TcpStream> {
    stream.set_nodelay(true)?;
    SockRef::from(&stream).set_keepalive(true)?;
    stream.into_std()
}

#[cfg(test)]
mod tests;
