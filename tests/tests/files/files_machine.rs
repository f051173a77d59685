//! `levada files` and its machine: sockets that are handed over, files that are on the disk only,
//! and connections of several shards.
//!
//! Suite: short; 2 s

use std::fs::{self, File};
use std::io::IoSliceMut;
use std::net::TcpListener;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::process::{Command, Stdio};

use levada_tests::files::{Client, FileServer};
use levada_tests::paths;
use rustix::fs::Advice;
use rustix::io::{Errno, ReadWriteFlags};
use tempfile::TempDir;

/// Starts a program as systemd does, with the standard input as the first socket that is handed
/// over.
const HAND_OVER: &str = r#"exec 3<&0 0</dev/null; LISTEN_FDS=1 LISTEN_PID=$$ exec "$@""#;

#[test]
fn inherited_socket_is_served() {
    let home = TempDir::new().expect("a directory");
    fs::create_dir(home.path().join("root")).expect("a directory");
    fs::write(home.path().join("root/file"), "by a socket of systemd").expect("a file");
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address");
    let mut early = Client::open(address);
    early.say(b"GET /file HTTP/1.1\r\nHost: x\r\n\r\n");
    let mut command = Command::new("sh");
    command.args(["-c", HAND_OVER, "sh"]).arg(paths::binary()).arg("files").arg(home.path().join("root"));
    command.args(["--listen", "systemd", "--shards", "2"]).stdin(Stdio::from(OwnedFd::from(listener)));
    let server = FileServer::spawn(command, home);
    assert_eq!(server.addresses(), [address.to_string()]);
    // A client that came before the server is served as well.
    assert_eq!(early.answer(true).text(), "by a socket of systemd");
    assert_eq!(server.get("/file").text(), "by a socket of systemd");
    server.stop();
}

/// Starts a server with two sockets, on the standard input and output, that are handed over under
/// these names.
fn with_sockets(home: &TempDir, names: &str, sockets: [TcpListener; 2], args: &[&str]) -> Command {
    let script = r#"exec 3<&0 4<&1 0</dev/null 1>/dev/null; export LISTEN_FDS=2 LISTEN_PID=$$; exec "$@""#;
    let [first, second] = sockets.map(|socket| Stdio::from(OwnedFd::from(socket)));
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).arg(paths::binary()).arg("files").arg(home.path().join("root"));
    command.args(args).args(["--shards", "2"]).env("LISTEN_FDNAMES", names).stdin(first).stdout(second);
    command
}

#[test]
fn inherited_sockets_are_selected_by_name() {
    let directory = || {
        let home = TempDir::new().expect("a directory");
        fs::create_dir(home.path().join("root")).expect("a directory");
        fs::write(home.path().join("root/file"), "by name").expect("a file");
        home
    };
    let listeners = || [(); 2].map(|()| TcpListener::bind("127.0.0.1:0").expect("a port"));
    // The order of the options is not that of the sockets, and an address without a name leaves
    // the named sockets to the others.
    for web in ["systemd", "systemd:web"] {
        let (home, sockets) = (directory(), listeners());
        let [numbers, files] = [0, 1].map(|at: usize| sockets[at].local_addr().expect("an address"));
        let args = ["--listen", web, "--metrics", "systemd:numbers"];
        let server = FileServer::spawn(with_sockets(&home, "numbers:web", sockets, &args), home);
        assert_eq!(server.addresses(), [files.to_string()]);
        assert_eq!(server.get("/file").text(), "by name");
        let mut operator = Client::open(numbers);
        operator.say(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
        assert!(operator.answer(true).text().contains("levada_files_"));
        server.stop();
    }
    let refusals = [
        (vec!["--listen", "systemd:web"], "no option uses the socket \"numbers\""),
        (vec!["--listen", "127.0.0.1:0"], "no option uses the socket \"numbers\""),
        (vec!["--listen", "systemd:www"], "LISTEN_FDNAMES has other names: numbers, web"),
        (vec!["--listen", "systemd", "--metrics", "systemd"], "cannot listen on systemd: no socket"),
    ];
    for (args, reason) in refusals {
        let home = directory();
        let mut command = with_sockets(&home, "numbers:web", listeners(), &args);
        let output = command.stderr(Stdio::piped()).output().expect("the binary starts");
        let text = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && text.contains(reason), "{args:?}: {text}");
    }
}

/// True if the kernel has let go of the file's pages.
fn evict(path: &Path) -> bool {
    let file = File::open(path).expect("the file");
    // The question below must not start the kernel's read-ahead.
    rustix::fs::fadvise(&file, 0, None, Advice::Random).expect("advice");
    file.sync_data().expect("written back");
    rustix::fs::fadvise(&file, 0, None, Advice::DontNeed).expect("advice");
    let mut byte = [0];
    let read = rustix::io::preadv2(&file, &mut [IoSliceMut::new(&mut byte)], 0, ReadWriteFlags::NOWAIT);
    read == Err(Errno::AGAIN)
}

fn content(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|at| (at / 4096 * 31 + at + number) as u8).collect()
}

#[test]
fn cold_files_are_read_whole_by_other_threads() {
    const FILES: [usize; 6] = [100, 16_384, 16_385, 1 << 20, 3_000_000, 9_999_999];
    let server = FileServer::start(&["--metrics", "127.0.0.1:0"], |root| {
        for (number, len) in FILES.into_iter().enumerate() {
            fs::write(root.join(number.to_string()), content(number, len)).expect("a file");
        }
    });
    let is_cold = (0..FILES.len()).all(|number| evict(&server.root().join(number.to_string())));
    let mut clients: Vec<Client> = FILES.iter().map(|_| server.connect()).collect();
    for (number, client) in clients.iter_mut().enumerate() {
        client.say(format!("GET /{number} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
    }
    for (number, client) in clients.iter_mut().enumerate() {
        let answer = client.answer(true);
        assert_eq!(answer.status, 200, "{number}");
        assert!(answer.body == content(number, FILES[number]), "{number}");
    }
    if !is_cold {
        return println!("skipped: the count of bytes waited for, since this file system keeps its pages");
    }
    let warmed = server.metric("levada_transfer_warmed_bytes_total");
    // The kernel reads ahead of the requested pages.
    assert!(warmed > 1 << 20, "{warmed} bytes were waited for by other threads");
    server.stop();
}

/// Listening sockets of a port of 127.0.0.1.
fn queues(port: u16) -> usize {
    let table = fs::read_to_string("/proc/net/tcp").expect("the kernel's table of sockets");
    let (address, listening) = (format!("0100007F:{port:04X}"), "0A");
    let fields = table.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
    fields.filter(|fields| fields[1] == address && fields[3] == listening).count()
}

#[test]
fn each_shard_has_its_own_connection_queue() {
    const CONNECTIONS: usize = 200;
    let server = FileServer::start(&["--shards", "3", "--metrics", "127.0.0.1:0"], |root| {
        fs::write(root.join("file"), "small").expect("a file");
    });
    assert_eq!(queues(server.address().port()), 3);
    let mut clients: Vec<Client> = (0..CONNECTIONS).map(|_| server.connect()).collect();
    for client in &mut clients {
        client.say(b"GET /file HTTP/1.1\r\nHost: x\r\n\r\n");
    }
    for client in &mut clients {
        assert_eq!(client.answer(true).text(), "small");
    }
    server.stop();
}

#[test]
fn address_in_use_is_refused() {
    let server = FileServer::start(&["--shards", "2"], |root| fs::write(root.join("a"), "").expect("a file"));
    let mut second = Command::new(paths::binary());
    second.arg("files").arg(server.root()).args(["--listen", &server.address().to_string()]);
    let said = second.args(["--shards", "2"]).output().expect("the binary starts");
    assert!(!said.status.success());
    let text = String::from_utf8_lossy(&said.stderr);
    assert!(text.contains(&format!("cannot listen on {}", server.address())), "{text}");
    server.stop();
}
