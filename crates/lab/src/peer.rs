//! The other side of a connection: a process of its own, so that its work does not count as the sender's.
//!
//! It is this same program, started again with a hidden command, and told over a socket pair (its standard input) what to do, a JSON object
//! a line. It goes when that socket closes, so that none outlives its parent.

use std::io::{self, BufRead, BufReader, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::net::sockopt;
use serde::{Deserialize, Serialize};

use crate::bench::Bench;
use crate::cpu;
use crate::environment::CONGESTION;
use crate::error::LabError;

mod receive;

/// How the receiver takes bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Take {
    /// The kernel drops them (`MSG_TRUNC`): what is left is the sender's cost.
    Discard,
    /// Into memory, as any program does.
    Copy,
    /// Into memory, and a checksum is made.
    Check,
}

/// What the receiver is told.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Request {
    /// Bind a port.
    Listen { address: IpAddr, cpu: Option<usize> },
    /// Accept a connection and take so many bytes from it, part by part.
    Receive { take: Take, parts: Vec<u64> },
}

/// What it says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
enum Answer {
    Listening { port: u16 },
    Part(Part),
    Failed { what: String },
}

/// What became of one part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// Fewer than asked for if the connection ended.
    pub bytes: u64,
    /// CRC-64 of them, for [`Take::Check`].
    pub checksum: u64,
    /// Processor time that the receiver had for it.
    pub cpu_ns: u64,
    /// Receiving calls.
    pub calls: u64,
    /// When the last byte was there, by [`cpu::monotonic_ns`].
    pub done_ns: u64,
}

/// How long the other process may be silent: a gigabyte from a slow disk fits.
const PATIENCE: Duration = Duration::from_secs(120);

/// A receiving process.
#[derive(Debug)]
pub struct Peer {
    child: Child,
    control: BufReader<UnixStream>,
    address: SocketAddr,
}

impl Peer {
    /// Starts one that listens on loopback, on the receiver's processor.
    ///
    /// # Errors
    /// The program cannot be started again.
    pub fn start(bench: &Bench) -> Result<Peer, LabError> {
        Peer::start_by(program()?, Ipv4Addr::LOCALHOST.into(), bench.places().receiver())
    }

    /// Starts one by a command of the caller's, which must lead to [`serve`].
    ///
    /// # Errors
    /// As for [`start`](Peer::start).
    pub fn start_by(mut command: Command, address: IpAddr, cpu: Option<usize>) -> Result<Peer, LabError> {
        let failed = |what| LabError::step::<io::Error>(what);
        let (ours, theirs) = UnixStream::pair().map_err(failed("cannot make a socket pair"))?;
        ours.set_read_timeout(Some(PATIENCE)).map_err(failed("cannot limit a wait"))?;
        // Ctrl-C is for us: the receiver goes with the socket.
        command.stdin(OwnedFd::from(theirs)).stdout(Stdio::null()).process_group(0);
        let child = command.spawn().map_err(failed("cannot start the receiving process"))?;
        let address = SocketAddr::new(address, 0);
        let mut peer = Peer { child, control: BufReader::new(ours), address };
        peer.tell(&Request::Listen { address: address.ip(), cpu })?;
        match peer.answer()? {
            Answer::Listening { port } => peer.address.set_port(port),
            other => return Err(LabError::Peer(format!("{other:?} instead of its port"))),
        }
        Ok(peer)
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Has it take the next connection, and opens that: with [`CONGESTION`] where that is allowed, `TCP_NODELAY`, and without waiting.
    /// Then come as many [`part`](Peer::part)s.
    ///
    /// # Errors
    /// The process or the connection failed.
    pub fn connect(&mut self, take: Take, parts: &[u64]) -> Result<TcpStream, LabError> {
        self.tell(&Request::Receive { take, parts: parts.to_vec() })?;
        let connect = || {
            let socket = TcpStream::connect(self.address)?;
            // Recorded as the environment's if it is not allowed.
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
            other => Err(LabError::Peer(format!("{other:?} instead of a part"))),
        }
    }

    fn tell(&mut self, request: &Request) -> Result<(), LabError> {
        say(self.control.get_mut(), request).map_err(|error| LabError::Peer(error.to_string()))
    }

    fn answer(&mut self) -> Result<Answer, LabError> {
        let answer = hear(&mut self.control).map_err(|error| LabError::Peer(error.to_string()))?;
        match answer {
            Some(Answer::Failed { what }) => Err(LabError::Peer(what)),
            Some(answer) => Ok(answer),
            None => Err(LabError::Peer("it has gone".to_owned())),
        }
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        // It may be in the middle of a connection that will not end.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// This program again, as a receiver.
///
/// # Errors
/// It does not know its own path.
pub fn program() -> Result<Command, LabError> {
    let path = std::env::current_exe().map_err(LabError::step("cannot find this program"))?;
    let mut command = Command::new(path);
    if cfg!(test) {
        // A test program has no commands, but a test that does the same.
        command.args(["--exact", "peer::tests::serves_when_asked", "--nocapture"]).env(ROLE, "peer");
    } else {
        command.args(["lab", "peer"]);
    }
    Ok(command)
}

/// Tells a test program that it is the second process.
const ROLE: &str = "LEVADA_LAB_ROLE";

/// What the second process does: obeys its standard input until that closes.
///
/// # Errors
/// The socket to the parent failed.
pub fn serve() -> io::Result<()> {
    let control = UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?);
    let mut requests = BufReader::new(control.try_clone()?);
    let mut answers = control;
    let mut listener = None;
    while let Some(request) = hear(&mut requests)? {
        let answer = match request {
            Request::Listen { address, cpu } => {
                cpu::pin(cpu);
                listen(address).map(|(bound, port)| {
                    listener = Some(bound);
                    Answer::Listening { port }
                })
            }
            Request::Receive { take, parts } => {
                receive::all(listener.as_ref(), take, &parts, |part| say(&mut answers, &Answer::Part(part)))
                    .map(Answer::Part)
            }
        };
        let answer = answer.unwrap_or_else(|error| Answer::Failed { what: error.to_string() });
        say(&mut answers, &answer)?;
    }
    Ok(())
}

fn listen(address: IpAddr) -> io::Result<(TcpListener, u16)> {
    let listener = TcpListener::bind((address, 0))?;
    // What it accepts inherits that; recorded as the environment's if it is not allowed.
    let _ = sockopt::set_tcp_congestion(&listener, CONGESTION);
    let port = listener.local_addr()?.port();
    Ok((listener, port))
}

fn say(to: &mut UnixStream, what: &impl Serialize) -> io::Result<()> {
    let mut line = serde_json::to_vec(what)?;
    line.push(b'\n');
    to.write_all(&line)
}

/// The next line; `None` at the end.
fn hear<T: for<'a> Deserialize<'a>>(from: &mut BufReader<UnixStream>) -> io::Result<Option<T>> {
    let mut line = String::new();
    if from.read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line)?))
}

#[cfg(test)]
mod tests;
