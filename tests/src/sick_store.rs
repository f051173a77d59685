//! A server of the S3 protocol for tests (s3s-fs), and a proxy before it that makes chosen requests
//! fail as networks and servers do.

use std::fs;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use tempfile::TempDir;

use crate::node::free_port;
use crate::tool::Conversation;
use crate::{Tool, await_some};

/// The time in which the server must answer.
const START_LIMIT: Duration = Duration::from_secs(30);
/// Longest body that the proxy takes.
const BODY_LIMIT: usize = 64 << 20;

/// Name of the bucket that exists.
pub const BUCKET: &str = "logs";
/// Credentials that the server accepts.
pub const ACCESS_KEY: &str = "AKIDEXAMPLE";
/// The secret of [`ACCESS_KEY`].
pub const SECRET_KEY: &str = "secret-of-the-tests";

/// A running server with one bucket. Dropping it kills the process and removes its data.
pub struct ObjectServer {
    address: SocketAddr,
    home: TempDir,
    _process: Conversation,
}

impl ObjectServer {
    /// Starts a server.
    pub fn start() -> Self {
        let home = tempfile::Builder::new().prefix("levada-objects-").tempdir().expect("a directory");
        fs::create_dir(home.path().join(BUCKET)).expect("a bucket");
        let address = free_port();
        let mut tool = Tool::object_server();
        tool.args(["--host", "127.0.0.1", "--port", &address.port().to_string()]);
        tool.args(["--access-key", ACCESS_KEY, "--secret-key", SECRET_KEY]);
        let process = tool.arg(home.path().display().to_string()).spawn();
        await_some("the object server", START_LIMIT, || TcpStream::connect(address).ok());
        Self { address, home, _process: process }
    }

    /// Address of the server.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// File that holds an object.
    pub fn file(&self, key: &str) -> PathBuf {
        self.home.path().join(BUCKET).join(key)
    }
}

/// Fault of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sickness {
    /// The server answers with this status instead of doing the request.
    Status(u16),
    /// No response; the connection stays open.
    Silence,
    /// The head of the response and this many bytes of its body; then nothing, and the connection
    /// stays open.
    Stall(usize),
    /// The head of the response and this many bytes of its body; then the connection ends.
    Cut(usize),
    /// The server does the request, and the connection ends without a response.
    LostAnswer,
    /// The bodies of the request and of the response pass in `SLOW_PIECES` pieces, with this pause
    /// before each.
    Slow(Duration),
}

/// Number of pieces of a body that is passed slowly.
const SLOW_PIECES: usize = 6;

/// Requests that fail: a method, a part of the path, the way, and the number of requests.
struct Rule {
    method: &'static str,
    path: String,
    sickness: Sickness,
    left: usize,
}

/// A proxy before a server.
pub struct SickStore {
    address: SocketAddr,
    rules: Arc<Mutex<Vec<Rule>>>,
}

impl SickStore {
    /// A proxy before this server. Its threads end with the process of the test.
    pub fn before(server: SocketAddr) -> Self {
        let address = free_port();
        let listener = TcpListener::bind(address).expect("a free port");
        let rules = Arc::new(Mutex::new(Vec::new()));
        let shared = Arc::clone(&rules);
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let rules = Arc::clone(&shared);
                // The client sees the end of the connection.
                thread::spawn(move || drop(serve(&client, server, &rules)));
            }
        });
        Self { address, rules }
    }

    /// URL of the proxy.
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Lets the next `count` requests of this method whose path contains `path` fail.
    pub fn fail(&self, method: &'static str, path: &str, sickness: Sickness, count: usize) {
        let rule = Rule { method, path: path.to_owned(), sickness, left: count };
        self.rules.lock().expect("nobody panics with the lock").push(rule);
    }

    /// Number of requests that should fail and did not come.
    pub fn left(&self) -> usize {
        self.rules.lock().expect("nobody panics with the lock").iter().map(|rule| rule.left).sum()
    }

    /// Ends the fault of the store.
    pub fn heal(&self) {
        self.rules.lock().expect("nobody panics with the lock").clear();
    }
}

/// Serves one request of a connection and ends it, so that each request has a connection of its
/// own.
fn serve(client: &TcpStream, server: SocketAddr, rules: &Mutex<Vec<Rule>>) -> io::Result<()> {
    let mut reader = BufReader::new(client);
    let head = read_head(&mut reader)?;
    let mut words = head.split(' ');
    let (method, path) = (words.next().unwrap_or(""), words.next().unwrap_or(""));
    let sickness = take(&mut rules.lock().expect("nobody panics with the lock"), method, path);
    let pause = if let Some(Sickness::Slow(pause)) = sickness { pause } else { Duration::ZERO };
    let body = read_body(&mut reader, &head, pause)?;
    let mut client_side = client;
    match sickness {
        Some(Sickness::Status(status)) => {
            let answer = format!("HTTP/1.1 {status} Sick\r\ncontent-length: 0\r\nconnection: close\r\n\r\n");
            return client_side.write_all(answer.as_bytes());
        }
        Some(Sickness::Silence) => return until_closed(client),
        _ => {}
    }
    if is_gone(client)? {
        // A request that takes effect long after the end of its client would undo later ones.
        return Ok(());
    }
    let answer = forward(server, &head, &body)?;
    let text_end = answer.windows(4).position(|four| four == b"\r\n\r\n").map_or(answer.len(), |at| at + 4);
    match sickness {
        Some(Sickness::LostAnswer) => client.shutdown(Shutdown::Both),
        Some(Sickness::Cut(count) | Sickness::Stall(count)) => {
            let end = answer.len().min(text_end + count);
            client_side.write_all(&answer[..end])?;
            if matches!(sickness, Some(Sickness::Stall(_))) { until_closed(client) } else { Ok(()) }
        }
        Some(Sickness::Slow(pause)) => {
            for piece in answer.chunks(answer.len().div_ceil(SLOW_PIECES).max(1)) {
                thread::sleep(pause);
                client_side.write_all(piece)?;
            }
            Ok(())
        }
        _ => client_side.write_all(&answer),
    }
}

/// The first rule for this request, which is one request less now.
fn take(rules: &mut [Rule], method: &str, path: &str) -> Option<Sickness> {
    let meant = |rule: &&mut Rule| rule.left > 0 && rule.method == method && path.contains(&rule.path);
    let rule = rules.iter_mut().find(meant)?;
    rule.left -= 1;
    Some(rule.sickness)
}

fn read_head(reader: &mut impl BufRead) -> io::Result<String> {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head)? == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
    }
    Ok(head)
}

/// Reads a body, with a pause before each of its pieces.
fn read_body(reader: &mut impl Read, head: &str, pause: Duration) -> io::Result<Vec<u8>> {
    let length = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    let length = length.unwrap_or(0);
    assert!(length <= BODY_LIMIT, "a body of {length} bytes");
    let mut body = vec![0; length];
    for piece in body.chunks_mut(length.div_ceil(SLOW_PIECES).max(1)) {
        thread::sleep(pause);
        reader.read_exact(piece)?;
    }
    Ok(body)
}

/// The whole answer of the server.
fn forward(server: SocketAddr, head: &str, body: &[u8]) -> io::Result<Vec<u8>> {
    let mut upstream = TcpStream::connect(server)?;
    // Clients do not sign this header.
    let head = head.replacen("\r\n", "\r\nconnection: close\r\n", 1);
    upstream.write_all(head.as_bytes())?;
    upstream.write_all(body)?;
    let mut answer = Vec::new();
    upstream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// True if the client has closed the connection.
fn is_gone(client: &TcpStream) -> io::Result<bool> {
    client.set_nonblocking(true)?;
    let next = client.peek(&mut [0]);
    client.set_nonblocking(false)?;
    Ok(!matches!(next, Err(error) if error.kind() == io::ErrorKind::WouldBlock))
}

/// Waits until the client closes the connection.
fn until_closed(client: &TcpStream) -> io::Result<()> {
    let mut rest = client;
    io::copy(&mut rest, &mut io::sink()).map(drop)
}
