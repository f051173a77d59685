//! Kinds of connections that the matrix runs over: loopback, AF_UNIX, and a veth pair between two
//! network namespaces of our own.

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::process::{Child, Command, Output, Stdio};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::role;

/// A connection of two ends.
#[derive(Debug)]
pub(crate) enum Link {
    Loopback,
    Unix,
    Veth(Veth),
}

impl Link {
    /// Two connected sockets that wait.
    pub(crate) fn connect(&self) -> (OwnedFd, OwnedFd) {
        match self {
            Self::Unix => {
                let (one, other) = UnixStream::pair().unwrap();
                (one.into(), other.into())
            }
            Self::Loopback => tcp(&TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()),
            Self::Veth(veth) => tcp(&veth.listener),
        }
    }

    pub(crate) fn is_tcp(&self) -> bool {
        !matches!(self, Self::Unix)
    }

    pub(crate) fn name(&self) -> &'static str {
        match self {
            Self::Loopback => "loopback",
            Self::Unix => "AF_UNIX",
            Self::Veth(_) => "veth",
        }
    }
}

fn tcp(listener: &TcpListener) -> (OwnedFd, OwnedFd) {
    let one = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    one.set_nodelay(true).unwrap();
    (one.into(), listener.accept().unwrap().0.into())
}

/// A pair of devices: one in the namespace of this process, the other in one that a child keeps
/// alive.
#[derive(Debug)]
pub(crate) struct Veth {
    listener: TcpListener,
    keeper: Child,
}

impl Veth {
    /// For a process that is root of a network namespace of its own: see [`in_namespaces`].
    pub(crate) fn new() -> Self {
        run("ip link set lo up && ip link add lv0 type veth peer name lv1");
        let mut keeper = Command::new("unshare");
        keeper
            .args(["-n", "sh", "-c", "echo there && exec cat"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped());
        let mut keeper = keeper.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(keeper.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "there\n");
        let there = format!("/proc/{}/ns/net", keeper.id());
        run(&format!(
            "ip link set lv1 netns {} && ip addr add 10.77.0.1/24 dev lv0 && ip link set lv0 up && \
             nsenter --net={there} sh -c 'ip addr add 10.77.0.2/24 dev lv1 && ip link set lv1 up'",
            keeper.id()
        ));
        let namespace = File::open(there).unwrap();
        // A socket stays in the namespace where it was made; the thread that went there ends.
        let listen = move || {
            move_into_link_name_space(namespace.as_fd(), Some(LinkNameSpaceType::Network)).unwrap();
            TcpListener::bind((Ipv4Addr::new(10, 77, 0, 2), 0)).unwrap()
        };
        let listener = std::thread::spawn(listen).join().unwrap();
        Self { listener, keeper }
    }
}

impl Drop for Veth {
    fn drop(&mut self) {
        drop(self.keeper.stdin.take());
        let _ = self.keeper.wait();
    }
}

/// Runs a command line of the shell that must succeed.
pub(crate) fn run(command: &str) {
    let output = Command::new("sh").args(["-c", command]).output().unwrap();
    assert!(output.status.success(), "{command}: {}", String::from_utf8_lossy(&output.stderr));
}

/// State of a test that needs separate namespaces: still outside, outside after it has run itself
/// inside, or inside.
pub(crate) enum Place {
    Outside,
    Inside,
}

/// Runs the test `name` again as root of a new user and network namespace. Where that is not
/// allowed, says so.
pub(crate) fn in_namespaces(name: &str) -> Place {
    if role().is_some() {
        return Place::Inside;
    }
    let unshare = |command: &mut Command| -> std::io::Result<Output> { command.output() };
    match unshare(Command::new("unshare").args(["-Urn", "ip", "link"])) {
        Err(error) => skipped(name, &error.to_string()),
        Ok(output) if !output.status.success() => skipped(name, &String::from_utf8_lossy(&output.stderr)),
        Ok(_) => {
            let mut command = Command::new("unshare");
            command.arg("-Urn").arg(std::env::current_exe().unwrap());
            command.args(["--exact", name, "--nocapture"]).env("LEVADA_IO_TEST_ROLE", "inside");
            let output = unshare(&mut command).unwrap();
            let said = format!(
                "{}{}",
                String::from_utf8_lossy(&output.stdout),
                String::from_utf8_lossy(&output.stderr)
            );
            assert!(output.status.success() && said.contains("1 passed"), "{said}");
            for line in
                said.lines().filter(|line| line.starts_with("measured") || line.starts_with("skipped"))
            {
                let _ = writeln!(std::io::stderr(), "{line}");
            }
        }
    }
    Place::Outside
}

/// Writes to the standard error directly, which the test harness does not capture, what was not
/// tested and why.
pub(crate) fn skipped(what: &str, why: &str) {
    let _ = writeln!(std::io::stderr(), "skipped: {what}: {}", why.trim_end());
}
