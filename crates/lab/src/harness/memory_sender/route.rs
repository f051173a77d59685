//! The routes of a worker: loopback, a pair of virtual devices, and a device that takes references
//! and drops them.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;

use crate::error::LabError;
use crate::harness::memory_sender::Route;
use crate::harness::peer::{Part, Peer, ReceiveMode, program_by};

/// A connected socket that waits.
pub(super) type Socket = Arc<OwnedFd>;

/// A complete route, with the receiver at its end if there is one.
#[derive(Debug)]
pub(crate) struct Stage {
    receiver: Option<Peer>,
}

/// A device that takes references, an address after it, and a neighbour that needs no resolution.
const IFB: [&str; 4] = [
    "link add lab0 type ifb",
    "link set lab0 mtu 65535 up",
    "addr add 10.9.0.1/24 dev lab0",
    "neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev lab0 nud permanent",
];

const THERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

impl Stage {
    /// Sets the route up, in the namespaces of this process, with the receiver on a processor.
    pub(crate) fn new(route: Route, receiver_cpu: Option<usize>) -> Result<Self, LabError> {
        let receiver = match route {
            Route::Loopback => {
                let mut peer = Peer::spawn(program_by(&[])?)?;
                peer.listen(Ipv4Addr::LOCALHOST.into(), receiver_cpu)?;
                Some(peer)
            }
            Route::Veth => Some(veth(receiver_cpu)?),
            Route::Ifb => {
                IFB.iter().try_for_each(|line| ip(&[], line))?;
                None
            }
        };
        Ok(Self { receiver })
    }

    /// A connection for this number of bytes, in these parts.
    pub(super) fn connect(&mut self, take: ReceiveMode, parts: &[u64]) -> Result<Socket, LabError> {
        let failed = || LabError::step::<io::Error>("cannot open a connection");
        let Some(receiver) = &mut self.receiver else {
            let socket = UdpSocket::bind("10.9.0.1:0").map_err(failed())?;
            socket.connect("10.9.0.2:9").map_err(failed())?;
            return Ok(Arc::new(socket.into()));
        };
        let socket = receiver.connect(take, parts)?;
        socket.set_nonblocking(false).map_err(failed())?;
        Ok(Arc::new(socket.into()))
    }

    /// Waits for the next part; `None` without a receiver.
    pub(super) fn part(&mut self) -> Result<Option<Part>, LabError> {
        self.receiver.as_mut().map(Peer::part).transpose()
    }
}

/// A pair of devices: one here, the other in the receiver's namespace.
fn veth(receiver_cpu: Option<usize>) -> Result<Peer, LabError> {
    let mut peer = Peer::spawn(program_by(&["unshare", "-n"])?)?;
    // Its answer shows that it is in the namespace; there is no device there yet, so it listens on
    // all addresses.
    peer.listen(Ipv4Addr::UNSPECIFIED.into(), receiver_cpu)?;
    let pid = peer.id().to_string();
    let net = format!("--net=/proc/{pid}/ns/net");
    ip(&[], "link add lab0 type veth peer name lab1")?;
    ip(&[], &format!("link set lab1 netns {pid}"))?;
    ip(&[], "addr add 10.77.0.1/24 dev lab0")?;
    ip(&[], "link set lab0 up")?;
    ip(&["nsenter", &net], &format!("addr add {THERE}/24 dev lab1"))?;
    ip(&["nsenter", &net], "link set lab1 up")?;
    peer.is_at(IpAddr::from(THERE));
    Ok(peer)
}

/// Runs `ip`.
fn ip(by: &[&str], line: &str) -> Result<(), LabError> {
    let words = by.iter().copied().chain(["ip"]).chain(line.split(' '));
    let words: Vec<&str> = words.collect();
    let output = Command::new(words[0]).args(&words[1..]).output();
    let output = output.map_err(LabError::step(format!("cannot run {}", words[0])))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(LabError::Step { what: format!("ip {line}"), cause: io::Error::other(said) })
}

/// The borrowed form, for calls without a ring.
pub(super) fn fd(socket: &Socket) -> std::os::fd::BorrowedFd<'_> {
    socket.as_fd()
}
