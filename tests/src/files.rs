//! `levada files` under test: a directory, the server of it, and requests made byte by byte.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{await_some, paths, process};

const LIMIT: Duration = Duration::from_secs(30);

/// A server and its directory. Dropping it kills the process and removes the directory.
pub struct FileServer {
    child: Child,
    /// Lines that it has printed on standard error.
    lines: Receiver<String>,
    addresses: Vec<String>,
    metrics: Option<String>,
    home: TempDir,
}

impl FileServer {
    /// Starts a server of a new directory, which `fill` fills, on a separate port.
    pub fn start(args: &[&str], fill: impl FnOnce(&Path)) -> Self {
        let home = TempDir::new().expect("a directory");
        let root = home.path().join("root");
        fs::create_dir(&root).expect("a directory");
        fill(&root);
        let mut command = Command::new(paths::binary());
        command.arg("files").arg(&root).args(["--listen", "127.0.0.1:0"]).args(args);
        if !args.contains(&"--shards") {
            command.args(["--shards", "2"]);
        }
        Self::spawn(command, home)
    }

    /// Starts a server by a command that names its arguments; `home` has the directory `root`.
    pub fn spawn(mut command: Command, home: TempDir) -> Self {
        command.stderr(Stdio::piped()).process_group(0);
        let mut child = command.spawn().expect("the binary starts");
        let stderr = child.stderr.take().expect("asked for");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                println!("server: {line}");
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        let mut server = Self { child, lines, addresses: Vec::new(), metrics: None, home };
        loop {
            let line = server.lines.recv_timeout(LIMIT).expect("the server says where it listens");
            if let Some(address) = line.strip_prefix("listening on ") {
                server.addresses.push(address.to_owned());
            } else if let Some(address) = line.strip_prefix("metrics on ") {
                server.metrics = Some(address.to_owned());
            } else if line == "ready" {
                return server;
            }
        }
    }

    /// The directory that is served.
    pub fn root(&self) -> PathBuf {
        self.home.path().join("root")
    }

    /// Directory for other files of the test, outside the served one.
    pub fn home(&self) -> &Path {
        self.home.path()
    }

    /// The addresses in the order of the options.
    pub fn addresses(&self) -> &[String] {
        &self.addresses
    }

    /// The first address that has a port.
    pub fn address(&self) -> SocketAddr {
        self.addresses.iter().find_map(|address| address.parse().ok()).expect("an address with a port")
    }

    /// A URL of the server.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address())
    }

    /// The sum of the samples of a metric, which is a number without a fraction; `name` may have
    /// labels at its end.
    pub fn metric(&self, name: &str) -> u64 {
        let address = self.metrics.as_ref().expect("metrics were asked for").parse().expect("an address");
        let mut client = Client::open(address);
        client.say(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        let text = client.answer(true).text();
        let mut values = Vec::new();
        for rest in text.lines().filter_map(|line| line.strip_prefix(name)) {
            if rest.starts_with([' ', '{']) {
                let value = rest.rsplit(' ').next().expect("a value");
                values.push(value.parse::<u64>().expect("a number"));
            }
        }
        assert!(!values.is_empty(), "{name}: {text}");
        values.iter().sum()
    }

    /// Process id of the server.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits for a line on standard error.
    pub fn await_line(&self, part: &str) {
        while !self
            .lines
            .recv_timeout(LIMIT)
            .unwrap_or_else(|_| panic!("no line with {part:?}"))
            .contains(part)
        {}
    }

    /// A new connection.
    pub fn connect(&self) -> Client {
        Client::open(self.address())
    }

    /// One answer on a separate connection.
    pub fn get(&self, target: &str) -> Answer {
        self.ask(&format!("GET {target} HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    }

    /// The response to a request, on a separate connection.
    pub fn ask(&self, request: &str) -> Answer {
        let mut client = self.connect();
        client.say(request.as_bytes());
        client.answer(!request.starts_with("HEAD"))
    }

    /// Requests the stop, and waits for it.
    pub fn stop(mut self) {
        process::signal(self.pid(), Signal::TERM);
        let status = await_some("the end of the server", LIMIT, || self.child.try_wait().expect("wait"));
        assert!(status.success(), "{status}");
    }

    /// True if the server has ended.
    pub fn has_ended(&mut self) -> bool {
        self.child.try_wait().expect("wait").is_some()
    }
}

impl Drop for FileServer {
    fn drop(&mut self) {
        // Both fail only when the process has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A connection that is spoken byte by byte.
pub struct Client {
    stream: TcpStream,
    received: Vec<u8>,
}

/// Response of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// Names in lower case, and values.
    pub fields: Vec<(String, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Answer {
    /// The value of a field.
    pub fn field(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(other, _)| other == name).map(|(_, value)| &**value)
    }

    /// The body as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

impl Client {
    /// Connects.
    pub fn open(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("the server listens");
        stream.set_read_timeout(Some(LIMIT)).expect("a socket");
        Self { stream, received: Vec::new() }
    }

    /// The socket.
    pub fn stream(&self) -> &TcpStream {
        &self.stream
    }

    /// Ends the stream of requests.
    pub fn end(&self) {
        // A server that has hung up is found out by reading.
        let _ = self.stream.shutdown(Shutdown::Write);
    }

    /// Has the connection reset when it is dropped, so that its port is free immediately for tests
    /// of very many.
    pub fn leave_no_trace(&self) {
        rustix::net::sockopt::set_socket_linger(&self.stream, Some(Duration::ZERO)).expect("a socket");
    }

    /// Sends bytes. A server that has hung up is found out by reading.
    pub fn say(&mut self, bytes: &[u8]) {
        let _ = self.stream.write_all(bytes);
    }

    /// The next response, which must come whole.
    pub fn answer(&mut self, has_body: bool) -> Answer {
        self.try_answer(has_body).expect("an answer")
    }

    /// The next response; nothing if the connection ends before it is whole.
    pub fn try_answer(&mut self, has_body: bool) -> Option<Answer> {
        let end = loop {
            if let Some(at) = self.received.windows(4).position(|four| four == b"\r\n\r\n") {
                break at + 4;
            }
            self.more()?;
        };
        let head = String::from_utf8(self.received.drain(..end).collect()).expect("a head is text");
        let mut lines = head.lines();
        let first = lines.next().expect("a status line");
        let status = first.strip_prefix("HTTP/1.1 ").and_then(|rest| rest.get(..3)).expect("a status");
        let status = status.parse().expect("a number");
        let field = |line: &str| {
            let (name, value) = line.split_once(": ")?;
            Some((name.to_ascii_lowercase(), value.to_owned()))
        };
        let fields: Vec<_> = lines.filter_map(field).collect();
        let mut answer = Answer { status, fields, body: Vec::new() };
        let len = answer.field("content-length").map_or(0, |len| len.parse().expect("a number"));
        let len = if has_body && !matches!(status, 204 | 304) { len } else { 0 };
        while self.received.len() < len {
            self.more()?;
        }
        answer.body = self.received.drain(..len).collect();
        Some(answer)
    }

    /// Waits for the end of the connection; returns the bytes before it.
    pub fn rest(&mut self) -> Vec<u8> {
        while self.more().is_some() {}
        std::mem::take(&mut self.received)
    }

    fn more(&mut self) -> Option<()> {
        let mut some = [0; 64 << 10];
        match self.stream.read(&mut some) {
            Ok(count) if count > 0 => {
                self.received.extend_from_slice(&some[..count]);
                Some(())
            }
            Err(error)
                if matches!(error.kind(), std::io::ErrorKind::WouldBlock | std::io::ErrorKind::TimedOut) =>
            {
                panic!("nothing came for {LIMIT:?}")
            }
            _ => None,
        }
    }
}
