//! Signals and the service manager: reloads, stops under load, a terminal that is closed,
//! `sd_notify`, sockets that were handed over, and the rights of files.
//!
//! Suite: short; 6 s; needs curl, python

use std::fs::{self, File};
use std::io::Read;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixDatagram;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use levada_tests::node::{Kind, free_port};
use levada_tests::pki::{Authority, Flaw};
use levada_tests::raw::{self, Batch, Connection};
use levada_tests::tool::Conversation;
use levada_tests::{Node, Tool, await_some, journal, paths, process};
use rustix::process::Signal;
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use tempfile::TempDir;

const LIMIT: Duration = Duration::from_secs(60);
const CLEAN: &str = ".kafka_cleanshutdown";

/// A command line of `levada serve` on a separate directory.
fn serve(data: &Path, kafka: SocketAddr) -> Vec<String> {
    let options = [
        format!("listeners=PLAINTEXT://{kafka}"),
        "levada.http.listen=".to_owned(),
        format!("log.dirs={}", data.display()),
    ];
    let mut words = vec![paths::binary().display().to_string(), "serve".to_owned()];
    words.extend(options.into_iter().flat_map(|option| ["-o".to_owned(), option]));
    words
}

fn create_and_produce(address: SocketAddr, topic: &str) {
    let mut connection = Connection::open(address);
    assert_eq!(raw::topic_error(&connection.call(&raw::create_topic(topic, 1))), 0);
    let answer = connection.call(&raw::produce(topic, -1, &Batch::of(&[b"one"]).encode()));
    assert_eq!(raw::produce_error(&answer), 0);
}

fn said(node: &Node, text: &str) {
    await_some(text, LIMIT, || node.talk().contains(text).then_some(()));
}

/// The service manager's end of `NOTIFY_SOCKET`.
struct Notified {
    socket: UnixDatagram,
    home: TempDir,
}

impl Notified {
    fn new() -> Self {
        let home = tempfile::tempdir().expect("a directory");
        let socket = UnixDatagram::bind(home.path().join("notify")).expect("a socket");
        socket.set_read_timeout(Some(LIMIT)).expect("a timeout");
        Self { socket, home }
    }

    fn path(&self) -> String {
        self.home.path().join("notify").display().to_string()
    }

    /// The next message that is none for the watchdog.
    fn next(&self) -> String {
        loop {
            let message = self.any();
            if message != "WATCHDOG=1\n" {
                return message;
            }
        }
    }

    fn any(&self) -> String {
        let mut buffer = [0; 4096];
        let len = self.socket.recv(&mut buffer).expect("a message");
        String::from_utf8(buffer[..len].to_vec()).expect("text")
    }
}

#[test]
fn sighup_applies_valid_configuration_changes_only() {
    let mut node = Node::of(Kind::Levada);
    let file = node.scratch().join("server.properties");
    let write = |text: &str| fs::write(&file, text).expect("a file");
    write("log.retention.ms=1000000\nnum.partitions=3\n");
    node.arguments(&["--config", &file.display().to_string()]);
    node.start();
    create_and_produce(node.address(), "kept");
    let retention = |node: &Node| {
        let settings = node.levada_json("config get topic kept retention.ms");
        settings.to_string()
    };
    assert!(retention(&node).contains("1000000"), "{}", retention(&node));

    write("log.retention.ms=2000000\nnum.partitions=5\n");
    process::signal(node.pid(), Signal::HUP);
    said(&node, "these keys take effect at the next start of the broker keys=\"num.partitions\"");
    assert!(node.talk().contains("configuration reloaded changed=\"log.retention.ms\""), "{}", node.talk());
    assert!(retention(&node).contains("2000000"), "{}", retention(&node));

    write("log.retention.ms=3000000\nnum.partitons=5\n");
    process::signal(node.pid(), Signal::HUP);
    said(&node, "the configuration stays unchanged: unknown key num.partitons");
    assert!(retention(&node).contains("2000000"), "{}", retention(&node));
    node.stop();
}

#[test]
fn sighup_reloads_tls_keys_or_keeps_old_ones() {
    let mut node = Node::of(Kind::Levada);
    let address = node.listen("SECURE", "SSL");
    let (first, second) = (node.scratch().join("first"), node.scratch().join("second"));
    let (first, second) = (Authority::new(&first), Authority::new(&second));
    let file = node.scratch().join("server.properties");
    let write = |store: &Path| {
        let line = format!("listener.name.secure.ssl.keystore.location={}\n", store.display());
        fs::write(&file, line).expect("a file");
    };
    let trusted = |authority: &Authority| {
        let mut curl = Command::new("curl");
        curl.args(["-sS", "--cacert"]).arg(authority.certificate());
        let status = curl.arg(format!("https://localhost:{}", address.port())).status().expect("curl runs");
        // CURLE_SSL_CONNECT_ERROR (both authorities have one name) and
        // CURLE_PEER_FAILED_VERIFICATION; what fails later is HTTP.
        !matches!(status.code(), Some(35 | 60))
    };
    write(&first.issue("broker", Flaw::None));
    node.arguments(&["--config", &file.display().to_string()]);
    node.start();
    assert!(trusted(&first) && !trusted(&second));
    write(&second.issue("broker", Flaw::None));
    process::signal(node.pid(), Signal::HUP);
    said(&node, "configuration reloaded");
    assert!(trusted(&second) && !trusted(&first));
    write(Path::new("/nonexistent/broker.pem"));
    process::signal(node.pid(), Signal::HUP);
    said(
        &node,
        "the configuration stays unchanged: listener SECURE: listener.name.secure.ssl.keystore.location",
    );
    assert!(trusted(&second));
    node.stop();
}

#[test]
fn sigquit_logs_state_and_stops_sigusr1_is_ignored() {
    let mut node = Node::of(Kind::Levada);
    node.start();
    assert!(node.talk().contains("new data directory") && !node.talk().contains("clean="), "{}", node.talk());
    create_and_produce(node.address(), "seen");
    let _open = Connection::open(node.address());
    process::signal(node.pid(), Signal::USR1);
    process::signal(node.pid(), Signal::QUIT);
    said(&node, "stop finished");
    let talk = node.talk();
    for line in [
        "state: connections open=",
        "state: shard shard=0",
        "state: memory request_bytes=",
        "state: longest stall of a partition's writer work=\"append\"",
        "state: partition partition=\"seen-0\" log_start=0 last_stable=1 high_watermark=1 log_end=1",
        "state: groups coordinators=",
        "state: transactions coordinators=",
    ] {
        assert!(talk.contains(line), "{line}: {talk}");
    }
    assert!(!talk.contains("roles of partitions changed"), "a stop is no election: {talk}");
    assert!(node.wait().success());
    assert!(node.data().join(CLEAN).exists());
    node.start();
    assert!(node.talk().contains("clean=true"), "{}", node.talk());
    node.stop();
}

/// A producer that writes down every acknowledged record, and continues after a restart of the
/// broker.
struct Load {
    program: Conversation,
    bootstrap: String,
    acknowledged: PathBuf,
}

impl Load {
    const TOPIC: &str = "loaded";
    const PARTITIONS: &str = "2";

    fn start(bootstrap: &str, scratch: &Path) -> Self {
        Tool::python("topics.py").args([bootstrap, Self::TOPIC, Self::PARTITIONS]).run();
        let acknowledged = scratch.join("acknowledged");
        let mut program = Tool::python("load.py");
        let file = acknowledged.display().to_string();
        program.args([bootstrap, Self::TOPIC, Self::PARTITIONS, &file, "idempotent"]);
        Self { program: program.spawn(), bootstrap: bootstrap.to_owned(), acknowledged }
    }

    /// Waits until further records are acknowledged.
    fn goes_on(&mut self) {
        while self.program.line_now().is_some() {}
        self.program.line(LIMIT);
    }

    /// Ends the producer and compares the log with the acknowledged records: none lost, none twice,
    /// none displaced.
    fn end(mut self) {
        self.program.say("stop");
        self.program.finish(Duration::from_secs(150));
        let found = self.acknowledged.with_extension("found");
        Tool::python("journal.py")
            .args([&self.bootstrap, Self::TOPIC, Self::PARTITIONS])
            .stdout(&found)
            .run();
        let (acknowledged, log) = (journal::read(&self.acknowledged), journal::read(&found));
        assert!(!acknowledged.is_empty());
        assert_eq!(journal::lost(&acknowledged, &log), Vec::<String>::new());
        assert_eq!(journal::disorder(&log), Vec::<String>::new());
        assert_eq!(acknowledged.len(), log.len());
    }
}

#[test]
fn stops_and_reloads_under_load_lose_nothing() {
    let mut node = Node::of(Kind::Levada).option("log.segment.bytes", "1048576");
    node.start();
    let mut load = Load::start(&node.bootstrap(), node.scratch());
    for _ in 0..4 {
        load.goes_on();
        process::signal(node.pid(), Signal::HUP);
        load.goes_on();
        node.stop();
        assert!(node.data().join(CLEAN).exists());
        node.start();
        assert!(node.talk().contains("clean=true"), "{}", node.talk());
    }
    load.end();
    node.stop();
}

#[test]
fn service_manager_is_notified_of_lifecycle_changes() {
    let manager = Notified::new();
    let mut node = Node::of(Kind::Levada);
    node.variable("NOTIFY_SOCKET", &manager.path());
    node.variable("WATCHDOG_USEC", "400000");
    node.start();
    assert_eq!(manager.next(), "READY=1\n");
    assert_eq!(manager.any(), "WATCHDOG=1\n");
    process::signal(node.pid(), Signal::HUP);
    let reloading = manager.next();
    let since = reloading.strip_prefix("RELOADING=1\nMONOTONIC_USEC=").map(str::trim_end);
    assert!(since.is_some_and(|since| since.parse::<u64>().is_ok_and(|since| since > 0)), "{reloading}");
    assert_eq!(manager.next(), "READY=1\n");
    node.stop();
    assert_eq!(manager.next(), "STOPPING=1\n");
}

#[test]
fn rapid_reloads_do_not_trigger_the_watchdog() {
    let manager = Notified::new();
    let mut node = Node::of(Kind::Levada);
    node.variable("NOTIFY_SOCKET", &manager.path());
    node.variable("WATCHDOG_USEC", "120000000");
    node.start();
    assert_eq!(manager.next(), "READY=1\n");
    for _ in 0..3 {
        process::signal(node.pid(), Signal::HUP);
        assert!(manager.next().starts_with("RELOADING=1\n"));
        assert_eq!(manager.next(), "READY=1\n");
    }
    // The alarm would stand before the third reload in the log.
    let talk = await_some("the third reload", LIMIT, || {
        let talk = node.talk();
        (talk.matches("configuration reloaded").count() == 3).then_some(talk)
    });
    assert!(!talk.contains("no sign of life"), "{talk}");
    node.stop();
}

/// A broker without the harness; dropping it kills the process.
struct Bare(Child);

impl Drop for Bare {
    fn drop(&mut self) {
        // Both fail only when the process has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Bare {
    fn stop(&mut self) {
        process::signal(self.0.id(), Signal::TERM);
        let status = await_some("the end of the broker", LIMIT, || self.0.try_wait().expect("wait"));
        assert!(status.success(), "{status}");
    }
}

#[test]
fn broker_survives_closed_terminal_without_record_loss() {
    let (home, manager, address) = (tempfile::tempdir().expect("a directory"), Notified::new(), free_port());
    let data = home.path().join("data");
    let terminal =
        openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).expect("a terminal");
    grantpt(&terminal).and_then(|()| unlockpt(&terminal)).expect("a terminal");
    let name = ptsname(&terminal, Vec::new()).expect("a name").into_string().expect("a path");
    let end = || Stdio::from(File::options().read(true).write(true).open(&name).expect("a terminal"));
    // A session of its own, whose controlling terminal this is, as a shell's window has it.
    let mut command = Command::new("setsid");
    command.arg("--ctty").args(serve(&data, address)).env("NOTIFY_SOCKET", manager.path());
    let mut broker =
        Bare(command.stdin(end()).stdout(end()).stderr(end()).spawn().expect("the broker starts"));
    drop(command);
    let (mut terminal, mut shown) = (File::from(terminal), String::new());
    while !shown.contains("ready in") {
        let mut buffer = [0; 1024];
        let len = terminal.read(&mut buffer).expect("a terminal");
        shown += &String::from_utf8_lossy(&buffer[..len]);
    }
    assert_eq!(manager.next(), "READY=1\n");
    let mut load = Load::start(&address.to_string(), home.path());
    load.goes_on();
    drop(terminal);
    // The kernel has sent SIGHUP, and writes to the log's terminal fail from now on.
    assert!(manager.next().starts_with("RELOADING=1\n"));
    assert_eq!(manager.next(), "READY=1\n");
    load.goes_on();
    broker.stop();
    assert!(data.join(CLEAN).exists());
    let words = serve(&data, address);
    let mut again = Command::new(&words[0]);
    again.args(&words[1..]).env("NOTIFY_SOCKET", manager.path()).stderr(Stdio::null());
    let mut broker = Bare(again.spawn().expect("the broker starts"));
    load.end();
    broker.stop();
}

/// Starts a broker as a service manager does that has opened these sockets.
fn with_sockets(words: &[String], names: &str, first: TcpListener, second: TcpListener) -> Command {
    let script = "exec 3<&0 4<&1 0</dev/null 1>/dev/null; \
        export LISTEN_PID=$$ LISTEN_FDS=2; exec \"$@\"";
    let mut command = Command::new("sh");
    command.args(["-c", script, "sh"]).args(words).env("LISTEN_FDNAMES", names);
    command.stdin(OwnedFd::from(first)).stdout(OwnedFd::from(second)).stderr(Stdio::piped());
    command
}

#[test]
fn inherited_sockets_are_assigned_by_listener_name() {
    let home = tempfile::tempdir().expect("a directory");
    let listen = || TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = |socket: &TcpListener| socket.local_addr().expect("an address");
    let mut words = serve(&home.path().join("data"), SocketAddr::from(([127, 0, 0, 1], 1)));
    words.extend(["-o".to_owned(), "levada.http.listen=127.0.0.1:1".to_owned()]);
    let (http, kafka) = (listen(), listen());
    let (http_address, kafka_address) = (address(&http), address(&kafka));
    let child = with_sockets(&words, "http:plaintext", http, kafka).spawn().expect("the broker starts");
    let mut broker = Bare(child);
    // Both ports can be connected to before the broker serves them.
    create_and_produce(kafka_address, "handed");
    let (status, body) = levada_tests::http::call(http_address, "GET", "/healthz", "").expect("an answer");
    assert_eq!((status, body.as_str()), (200, "ok\n"));
    broker.stop();

    let output = with_sockets(&words, "http:replication", listen(), listen()).output().expect("it runs");
    assert_eq!(output.status.code(), Some(1));
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(talk.contains("no listener has the name of socket \"replication\""), "{talk}");
    assert!(talk.contains("one of PLAINTEXT, http"), "{talk}");

    let output = with_sockets(&words, "plaintext:plaintext", listen(), listen()).output().expect("it runs");
    let talk = String::from_utf8_lossy(&output.stderr);
    assert!(talk.contains("listener plaintext was passed more than one socket"), "{talk}");
}

/// The rights of everything below a directory, each with its path.
fn rights(dir: &Path) -> Vec<(String, u32)> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let entry = entry.expect("an entry");
        let meta = entry.metadata().expect("an entry");
        found.push((entry.path().display().to_string(), meta.permissions().mode() & 0o777));
        if meta.is_dir() {
            found.extend(rights(&entry.path()));
        }
    }
    found
}

#[test]
fn data_is_private_under_any_umask() {
    for (umask, most) in [("000", 0o750), ("077", 0o700)] {
        let mut node = Node::of(Kind::Levada);
        node.wrap(&["sh", "-c", &format!("umask {umask}; \"$@\"; exit $?"), "sh"]);
        node.start();
        create_and_produce(node.address(), "mine");
        node.stop();
        let found = rights(&node.data());
        assert!(found.iter().any(|(path, _)| path.ends_with("mine-0/00000000000000000000.log")), "{found:?}");
        let too_many: Vec<_> = found.iter().filter(|(_, rights)| rights & !most != 0).collect();
        assert!(too_many.is_empty(), "umask {umask}: {too_many:?}");
    }
}
