//! The second process of an experiment: the other end of a connection, whose work must not count as
//! the sender's, or a sender in separate namespaces.
//!
//! The process is this program, started with a hidden command. It reads commands from a socket pair
//! (its standard input), one JSON object per line. It ends when that socket closes, so that it
//! never outlives its parent.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use super::memory_sender::{self, Load, Route, Sent, Stage};
use crate::error::LabError;
use crate::harness::bench::Bench;
use crate::machine::cpu::{self, Places};
use crate::machine::environment::CONGESTION;

mod receive;

/// Method by which the receiver takes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReceiveMode {
    /// The kernel discards the bytes (`MSG_TRUNC`), so that the receiver costs little.
    Discard,
    /// The receiver copies the bytes into memory, as any program does.
    Copy,
    /// The receiver copies the bytes into memory and computes a checksum.
    Check,
}

/// A command to the second process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// Bind a port.
    Listen { address: IpAddr, cpu: Option<usize> },
    /// Accept connections and receive from them.
    Receive(Order),
    /// Create a route for sends.
    Route { route: Route, sender: Option<usize>, receiver: Option<usize> },
    /// Send over the route.
    Send(Load),
}

/// Bytes to receive, part by part. Each connection sends an equal share of each part.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Order {
    take: ReceiveMode,
    /// True if the bytes of the only connection are TLS records. Parts then count the contents of
    /// the records.
    sealed: bool,
    connections: usize,
    parts: Vec<u64>,
}

/// A response of the second process.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Listening {
        port: u16,
    },
    Part(Part),
    Ready,
    Sent(Sent),
    Failed {
        what: String,
        /// True if memory was missing, or permission to lock memory.
        no_memory: bool,
    },
}

/// Result of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Received bytes; fewer than requested if the connection ended.
    pub bytes: u64,
    /// CRC-64 of the bytes for [`ReceiveMode::Check`], otherwise 0.
    pub checksum: u64,
    /// Processor time of the receiver for this part.
    pub cpu_ns: u64,
    /// Number of receiving system calls.
    pub calls: u64,
    /// Time of [`cpu::monotonic_ns`] at which the last byte had arrived.
    pub done_ns: u64,
}

/// Limit for the silence of the other process, which may receive a gigabyte from a slow disk.
const PATIENCE: Duration = Duration::from_secs(120);

/// A second process and the control socket to it.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    control: BufReader<UnixStream>,
    address: SocketAddr,
}

impl Peer {
    /// Starts a receiver that listens on loopback and runs on the receiver's processor.
    ///
    /// # Errors
    /// This process cannot start the program again.
    pub fn start(bench: &Bench) -> Result<Self, LabError> {
        let mut peer = Self::spawn(program_by(&[])?)?;
        peer.listen(Ipv4Addr::LOCALHOST.into(), bench.places().receiver())?;
        Ok(peer)
    }

    /// Starts a process by a command that calls [`serve`] and waits for commands.
    ///
    /// # Errors
    /// This process cannot start the command.
    pub(crate) fn spawn(mut command: Command) -> Result<Self, LabError> {
        let failed = |what| LabError::step::<io::Error>(what);
        let (ours, theirs) = UnixStream::pair().map_err(failed("cannot make a socket pair"))?;
        ours.set_read_timeout(Some(PATIENCE)).map_err(failed("cannot limit a wait"))?;
        // Ctrl-C is only for this process. The second process ends when the socket closes.
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).stderr(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(failed("cannot start the second process"))?;
        Ok(Self { child, control: BufReader::new(ours), address: (Ipv4Addr::UNSPECIFIED, 0).into() })
    }

    /// Lets the process listen on a free port of an address and run on a processor.
    ///
    /// # Errors
    /// The process reports an error or has ended.
    pub(crate) fn listen(&mut self, address: IpAddr, cpu: Option<usize>) -> Result<(), LabError> {
        self.tell(&Request::Listen { address, cpu })?;
        match self.answer()? {
            Answer::Listening { port } => self.address = SocketAddr::new(address, port),
            other => return Err(LabError::Peer(format!("it sent {other:?} instead of its port"))),
        }
        Ok(())
    }

    /// Sets the address under which the process is reachable, if it listens on all addresses.
    pub(crate) fn is_at(&mut self, address: IpAddr) {
        self.address.set_ip(address);
    }

    /// Lets the process create a route for sends.
    ///
    /// # Errors
    /// The process reports an error or has ended.
    pub(crate) fn take_route(&mut self, route: Route, places: &Places) -> Result<(), LabError> {
        self.tell(&Request::Route { route, sender: places.sender(), receiver: places.receiver() })?;
        match self.answer()? {
            Answer::Ready => Ok(()),
            other => Err(LabError::Peer(format!("it sent {other:?} instead of Ready"))),
        }
    }

    /// Lets the process send a load over its route.
    ///
    /// # Errors
    /// The process reports an error or has ended.
    pub(crate) fn send(&mut self, load: &Load) -> Result<Sent, LabError> {
        self.tell(&Request::Send(*load))?;
        match self.answer()? {
            Answer::Sent(sent) => Ok(sent),
            other => Err(LabError::Peer(format!("it sent {other:?} instead of Sent"))),
        }
    }

    /// Process id.
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Address at which the process listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Opens a connection that the process accepts, with [`CONGESTION`] if the kernel allows it,
    /// `TCP_NODELAY` and nonblocking. The caller then sends the parts and calls
    /// [`part`](Peer::part) once for each.
    ///
    /// # Errors
    /// The process or the connection failed.
    pub fn connect(&mut self, take: ReceiveMode, parts: &[u64]) -> Result<TcpStream, LabError> {
        self.tell(&Request::Receive(Order { take, sealed: false, connections: 1, parts: parts.to_vec() }))?;
        self.open()
    }

    /// Opens several connections. Each of them must send an equal share of each part.
    ///
    /// # Errors
    /// As for [`connect`](Peer::connect).
    pub(crate) fn connect_many(
        &mut self,
        take: ReceiveMode,
        parts: &[u64],
        connections: usize,
    ) -> Result<Vec<TcpStream>, LabError> {
        self.tell(&Request::Receive(Order { take, sealed: false, connections, parts: parts.to_vec() }))?;
        (0..connections).map(|_| self.open()).collect()
    }

    /// Opens a connection for TLS records. Parts count the bytes in the records.
    ///
    /// # Errors
    /// As for [`connect`](Peer::connect).
    pub(crate) fn connect_sealed(&mut self, take: ReceiveMode, parts: &[u64]) -> Result<TcpStream, LabError> {
        self.tell(&Request::Receive(Order { take, sealed: true, connections: 1, parts: parts.to_vec() }))?;
        self.open()
    }

    fn open(&self) -> Result<TcpStream, LabError> {
        let connect = || {
            let socket = TcpStream::connect(self.address)?;
            // If the kernel refuses, the record names the actual congestion control.
            let _ = sockopt::set_tcp_congestion(&socket, CONGESTION);
            socket.set_nodelay(true)?;
            socket.set_nonblocking(true)?;
            Ok(socket)
        };
        connect().map_err(LabError::step::<io::Error>("cannot connect to the receiving process"))
    }

    /// Waits until the next part has arrived.
    ///
    /// # Errors
    /// The process failed.
    pub fn part(&mut self) -> Result<Part, LabError> {
        match self.answer()? {
            Answer::Part(part) => Ok(part),
            other => Err(LabError::Peer(format!("it sent {other:?} instead of a part"))),
        }
    }

    fn tell(&mut self, request: &Request) -> Result<(), LabError> {
        send_line(self.control.get_mut(), request).map_err(|error| LabError::Peer(error.to_string()))
    }

    fn answer(&mut self) -> Result<Answer, LabError> {
        let answer = recv_line(&mut self.control).map_err(|error| LabError::Peer(error.to_string()))?;
        match answer {
            Some(Answer::Failed { what, no_memory: true }) => {
                Err(LabError::Step { what, cause: io::ErrorKind::OutOfMemory.into() })
            }
            Some(Answer::Failed { what, .. }) => Err(LabError::Peer(what)),
            Some(answer) => Ok(answer),
            None => Err(LabError::Peer("the process has ended".to_owned())),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // The process may wait for bytes of a connection that stays open.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns the command that starts this program as a second process, through the program `by` (such
/// as `unshare`) if there is one.
///
/// # Errors
/// The path of this program is not known.
pub(crate) fn program_by(by: &[&str]) -> Result<Command, LabError> {
    let path = std::env::current_exe().map_err(LabError::step("cannot find this program"))?;
    let mut command = match by.split_first() {
        Some((first, rest)) => {
            let mut command = Command::new(first);
            command.args(rest).arg(path);
            command
        }
        None => Command::new(path),
    };
    if cfg!(test) {
        // A test program has no commands, so a test takes the place of the command.
        command.args(["--exact", "harness::peer::tests::peer_serves_requested_bytes", "--nocapture"]);
    } else {
        command.arg("peer");
    }
    command.env(ROLE, "peer");
    Ok(command)
}

/// Variable that is set in the second process, because a test program gets no command.
const ROLE: &str = "LEVADA_LAB_ROLE";

/// Runs the second process, which executes commands from its standard input until that closes.
///
/// # Errors
/// The socket to the parent failed.
pub fn serve() -> io::Result<()> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut requests = BufReader::new(control.try_clone()?);
    let mut process = PeerProcess { answers: control, listener: None, stage: None };
    while let Some(request) = recv_line(&mut requests)? {
        let answer = process.handle(request).unwrap_or_else(|error| Answer::Failed {
            what: error.to_string(),
            no_memory: error.is_no_memory(),
        });
        send_line(&mut process.answers, &answer)?;
    }
    Ok(())
}

/// State of the second process.
struct PeerProcess {
    answers: UnixStream,
    listener: Option<TcpListener>,
    stage: Option<Stage>,
}

impl PeerProcess {
    fn handle(&mut self, request: Request) -> Result<Answer, LabError> {
        let failed = |what| LabError::step::<io::Error>(what);
        Ok(match request {
            Request::Listen { address, cpu } => {
                cpu::pin(cpu);
                let (listener, port) = listen(address).map_err(failed("cannot listen"))?;
                self.listener = Some(listener);
                Answer::Listening { port }
            }
            Request::Receive(order) => {
                let each = |part| send_line(&mut self.answers, &Answer::Part(part));
                let last = receive::all(self.listener.as_ref(), &order, each);
                Answer::Part(last.map_err(failed("cannot receive"))?)
            }
            Request::Route { route, sender, receiver } => {
                // First the route: the receiver would inherit the processor of this thread.
                self.stage = Some(Stage::new(route, receiver)?);
                cpu::pin(sender);
                Answer::Ready
            }
            Request::Send(load) => {
                let stage = self.stage.as_mut();
                let stage = stage
                    .ok_or_else(|| LabError::Peer("a command to send came before a route".to_owned()))?;
                Answer::Sent(memory_sender::run(stage, &load)?)
            }
        })
    }
}

fn listen(address: IpAddr) -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((address, 0))?;
    // Accepted sockets inherit this setting. If the kernel refuses, the record names the actual
    // congestion control.
    let _ = sockopt::set_tcp_congestion(&listener, CONGESTION);
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

fn send_line(to: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// Reads the next line; none at the end.
fn recv_line<T: for<'a> Deserialize<'a>>(from: &mut BufReader<UnixStream>) -> io::Result<Option<T>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

#[cfg(test)]
mod tests;
