//! The routes of a worker: loopback, a pair of virtual devices, and a device that accepts
//! references and drops the packets.

use std::io;
use std::net::{IpAddr, Ipv4Addr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::process::Command;
use std::sync::Arc;

use crate::error::LabError;
use crate::harness::memory_sender::Route;
use crate::harness::peer::{Part, Peer, ReceiveMode, program_by};

/// A connected blocking socket.
pub(super) type Socket = Arc<OwnedFd>;

/// A complete route, with the receiver at its end if there is one.
#[derive(Debug)]
pub(crate) struct Stage {
    receiver: Option<Peer>,
}

/// `ip` commands for a device that accepts references, its address, and a neighbour that needs no
/// address resolution.
const IFB: [&str; 4] = [
    "link add lab0 type ifb",
    "link set lab0 mtu 65535 up",
    "addr add 10.9.0.1/24 dev lab0",
    "neigh add 10.9.0.2 lladdr 02:00:00:00:00:01 dev lab0 nud permanent",
];

const THERE: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);

impl Stage {
    /// Creates the route in the namespaces of this process, with the receiver on a processor.
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

    /// Opens a connection over which parts of these lengths arrive.
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

    /// Waits for the next part; none without a receiver.
    pub(super) fn part(&mut self) -> Result<Option<Part>, LabError> {
        self.receiver.as_mut().map(Peer::part).transpose()
    }
}

/// Creates a pair of devices: one in this namespace, the other in the receiver's.
fn veth(receiver_cpu: Option<usize>) -> Result<Peer, LabError> {
    let mut peer = Peer::spawn(program_by(&["unshare", "-n"])?)?;
    // The response of the receiver shows that it is in its namespace. The namespace has no device
    // yet, so the receiver listens on all addresses.
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

/// Runs `ip` with the words of `line`, through the program `by` if there is one.
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

/// Borrows the descriptor, for calls without a ring.
pub(super) fn fd(socket: &Socket) -> std::os::fd::BorrowedFd<'_> {
    socket.as_fd()
}
