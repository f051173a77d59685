//! One broker under test, on a data directory that outlives it: Levada, or a real Kafka.

mod controllers;
mod kafka;
mod levada;
mod port;
mod wrapper;

use std::io::{BufRead, BufReader};
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use rustix::process::Signal;
use tempfile::TempDir;

use crate::{Tool, await_some, http, process};

pub use port::free_port;

const START_LIMIT: Duration = Duration::from_secs(180);
const STOP_LIMIT: Duration = Duration::from_secs(60);

/// Number of lines of the broker's log that a failed test shows.
const TAIL_LINES: usize = 400;

/// A broker and its data directory. Dropping it kills the process and removes the directory.
pub struct Node {
    plan: Plan,
    running: Option<Running>,
    /// Controllers of the cluster that this broker is alone in.
    controllers: Vec<Self>,
    /// Stderr of the runs that have ended.
    past: String,
    home: TempDir,
}

/// Settings of the start; the addresses stay the same over restarts.
#[derive(Clone)]
struct Plan {
    kind: Kind,
    options: Vec<(String, String)>,
    /// Further listeners: name, protocol, address.
    listeners: Vec<(String, String, SocketAddr)>,
    kafka: SocketAddr,
    http: SocketAddr,
    /// Of the controller of a real Kafka.
    controller: SocketAddr,
    /// Further arguments of `levada serve`.
    arguments: Vec<String>,
    environment: Vec<(String, String)>,
    /// A command that runs the broker as its child, such as a tracer.
    wrapper: Vec<String>,
    /// Network namespace that the broker runs in.
    namespace: Option<String>,
    /// Largest heap of a real Kafka, in MiB.
    heap_mib: u32,
    /// Level from which a real Kafka logs.
    level: &'static str,
    /// True if Levada reads the `server.properties` of the real Kafka that had the directory.
    shares_file: bool,
}

/// The broker that runs.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Kind {
    /// The release binary of this repository.
    Levada,
    /// Apache Kafka, as a reference.
    Kafka,
}

impl Kind {
    /// The broker that this run of the suites tests.
    pub fn under_test() -> Self {
        match std::env::var("LEVADA_TEST_NODE").as_deref() {
            Err(_) | Ok("levada") => Self::Levada,
            Ok("kafka") => Self::Kafka,
            Ok(other) => panic!("LEVADA_TEST_NODE={other}: levada or kafka"),
        }
    }
}

impl Plan {
    /// `listeners` and `listener.security.protocol.map`. A Kafka that is its own controller has a
    /// listener for it as well; a broker in a cluster has an entry for its protocol.
    fn listeners(&self, controller: Option<SocketAddr>) -> [String; 2] {
        let mut all = vec![("PLAINTEXT", "PLAINTEXT", self.kafka)];
        all.extend(controller.map(|address| ("CONTROLLER", "PLAINTEXT", address)));
        all.extend(self.listeners.iter().map(|(name, protocol, address)| (&**name, &**protocol, *address)));
        let addresses: Vec<_> = all.iter().map(|(name, _, address)| format!("{name}://{address}")).collect();
        let mut protocols: Vec<_> =
            all.iter().map(|(name, protocol, _)| format!("{name}:{protocol}")).collect();
        if self.is_member() {
            protocols.push("CONTROLLER:PLAINTEXT".to_string());
        }
        [addresses.join(","), protocols.join(",")]
    }

    /// True for a broker whose controllers are other processes.
    fn is_member(&self) -> bool {
        self.options.iter().any(|(key, value)| key == "process.roles" && value == "broker")
    }
}

struct Running {
    child: Child,
    /// A process that kills the broker of a cluster when this process has ended: a cluster that
    /// several tests share is never dropped.
    guard: Option<Child>,
    /// Output of the broker on stderr.
    talk: Arc<Mutex<String>>,
}

impl Node {
    /// A node that is not started yet, on an empty directory and free ports.
    pub fn new() -> Self {
        Self::of(Kind::under_test())
    }

    /// A node of the given kind, independent of the node that the suites run against.
    pub fn of(kind: Kind) -> Self {
        let home = tempfile::Builder::new().prefix("levada-test-").tempdir().expect("a temporary directory");
        let plan = Plan {
            kind,
            options: Vec::new(),
            listeners: Vec::new(),
            kafka: free_port(),
            http: free_port(),
            controller: free_port(),
            arguments: Vec::new(),
            environment: Vec::new(),
            wrapper: Vec::new(),
            namespace: None,
            heap_mib: 768,
            level: "ERROR",
            shares_file: false,
        };
        Self { plan, running: None, controllers: Vec::new(), past: String::new(), home }
    }

    /// A running node with default configuration.
    pub fn started() -> Self {
        let mut node = Self::new();
        node.start();
        node
    }

    /// Sets a configuration key, by Kafka's name, for the starts to come.
    pub fn option(mut self, key: &str, value: &str) -> Self {
        self.plan.options.retain(|(other, _)| other != key);
        self.plan.options.push((key.to_string(), value.to_string()));
        self
    }

    /// A real Kafka with a heap of this many MiB, which logs from this level on.
    pub fn sized(mut self, heap_mib: u32, level: &'static str) -> Self {
        (self.plan.heap_mib, self.plan.level) = (heap_mib, level);
        self
    }

    /// Adds words to the command line of Levada, from the next start on.
    pub fn arguments(&mut self, words: &[&str]) {
        self.plan.arguments.extend(words.iter().map(|word| (*word).to_string()));
    }

    /// Sets a variable of Levada's environment, from the next start on.
    pub fn variable(&mut self, name: &str, value: &str) {
        self.plan.environment.push((name.to_string(), value.to_string()));
    }

    /// Opens another listener in addition to PLAINTEXT, from the next start on; returns its
    /// address.
    pub fn listen(&mut self, name: &str, protocol: &str) -> SocketAddr {
        let taken = [self.plan.kafka, self.plan.http, self.plan.controller];
        let taken = |port: &SocketAddr| {
            taken.contains(port) || self.plan.listeners.iter().any(|(_, _, other)| other == port)
        };
        let address = std::iter::repeat_with(free_port).find(|port| !taken(port));
        let address = address.expect("the sequence has no end");
        self.plan.listeners.push((name.to_string(), protocol.to_string(), address));
        address
    }

    /// Lets another broker have the directory, from the next start on.
    pub fn hand_over(&mut self, kind: Kind) {
        assert!(self.running.is_none(), "the node runs");
        self.plan.kind = kind;
    }

    /// Replaces the broker of the directory by another one, from the next start on: with the same
    /// `server.properties`.
    pub fn replace_by(&mut self, kind: Kind) {
        self.hand_over(kind);
        self.plan.shares_file = true;
    }

    /// Takes this port of the loopback address, for clients that can use no other.
    pub fn port(mut self, port: u16) -> Self {
        self.plan.kafka.set_port(port);
        self
    }

    /// Has the broker listen on this address, from the next start on, instead of on loopback, where
    /// the HTTP address stays.
    pub(crate) fn live_at(&mut self, address: IpAddr) {
        for own in [&mut self.plan.kafka, &mut self.plan.controller] {
            own.set_ip(address);
        }
    }

    /// Has the broker run in a network namespace, from the next start on.
    pub(crate) fn enter(&mut self, namespace: &str) {
        self.plan.namespace = Some(namespace.to_owned());
    }

    /// Starts the broker below another command, such as a tracer, from the next start on.
    pub fn wrap(&mut self, command: &[&str]) {
        self.plan.wrapper = command.iter().map(|word| (*word).to_string()).collect();
    }

    /// Starts the broker and returns when it accepts connections.
    pub fn start(&mut self) {
        self.launch();
        self.await_start();
    }

    /// Returns when a launched broker accepts connections.
    pub fn await_start(&mut self) {
        let ready = match self.plan.kind {
            Kind::Levada if self.logs_json() => {
                format!(r#""message":"listening","address":"{}""#, self.plan.kafka)
            }
            Kind::Levada => format!("listening on {}", self.plan.kafka),
            Kind::Kafka => kafka::READY.to_string(),
        };
        await_some(&ready, START_LIMIT, || {
            self.assert_running("start");
            self.talk().lines().any(|line| line.contains(&ready)).then_some(())
        });
        if !self.controllers.is_empty() {
            controllers::await_service(self);
        }
    }

    fn logs_json(&self) -> bool {
        self.plan.options.iter().any(|(key, value)| key == "levada.log.format" && value == "json")
    }

    /// Writes the configuration of a real Kafka, for who formats the directory before the start.
    pub fn configure(&self) {
        if self.plan.kind == Kind::Kafka {
            kafka::configure(&self.plan, self.home.path());
        }
    }

    /// Starts the broker and returns immediately.
    pub fn launch(&mut self) {
        assert!(self.running.is_none(), "the node runs already");
        if controllers::is_wanted(self) {
            self.controllers = controllers::join(self);
        }
        let command = match self.plan.kind {
            Kind::Levada => levada::command(&self.plan, self.home.path()),
            Kind::Kafka => kafka::command(&self.plan, self.home.path()),
        };
        let mut running = Running::launch(wrapper::surround(&self.plan, command));
        if self.plan.options.iter().any(|(key, _)| key == "process.roles") {
            running.guard = Some(process::guard(running.child.id()));
        }
        self.running = Some(running);
    }

    /// Stops the broker as an operator does, by SIGTERM, and waits for it.
    pub fn stop(&mut self) -> ExitStatus {
        let pid = self.pid();
        process::signal(pid, Signal::TERM);
        let status = self.wait();
        let fine = status.success() || self.plan.kind == Kind::Kafka && status.code() == Some(143);
        assert!(fine, "after SIGTERM: {status}\n{}", self.talk());
        status
    }

    /// Ends the broker by SIGKILL, as a crash would.
    pub fn kill(&mut self) {
        let pid = self.pid();
        process::signal(pid, Signal::KILL);
        self.wait();
    }

    /// Stops the process without ending it (SIGSTOP).
    pub fn suspend(&self) {
        process::signal(self.pid(), Signal::STOP);
    }

    /// Continues a suspended process (SIGCONT).
    pub fn resume(&self) {
        process::signal(self.pid(), Signal::CONT);
    }

    /// Waits for the end of the broker, which something else has caused.
    pub fn wait(&mut self) -> ExitStatus {
        let running = self.running.as_mut().expect("the node runs");
        let status =
            await_some("the end of the broker", STOP_LIMIT, || running.child.try_wait().expect("wait"));
        if self.plan.kind == Kind::Levada {
            let talk = self.talk();
            assert!(!talk.contains("panicked"), "{talk}");
        }
        self.past += &self.talk();
        self.running = None;
        status
    }

    /// Stops by SIGTERM and starts again, on the same addresses.
    pub fn restart(&mut self) {
        self.stop();
        self.start();
    }

    /// True if the broker has ended by itself, and [`Node::wait`] returns immediately.
    pub fn has_ended(&mut self) -> bool {
        self.running.as_mut().is_some_and(|running| running.child.try_wait().expect("wait").is_some())
    }

    /// Fails, with the broker's output, unless the broker still runs and has not panicked.
    pub fn assert_running(&mut self, when: &str) {
        let running = self.running.as_mut().expect("the node runs");
        let ended = running.child.try_wait().expect("wait");
        let talk = self.talk();
        assert!(ended.is_none(), "{when}: the broker ended: {}\n{talk}", ended.unwrap_or_default());
        assert!(!talk.contains("panicked"), "{when}: {talk}");
    }

    /// The broker's kind.
    pub fn kind(&self) -> Kind {
        self.plan.kind
    }

    /// The address for Kafka clients.
    pub fn address(&self) -> SocketAddr {
        self.plan.kafka
    }

    /// The address for Kafka clients, in the usual form.
    pub fn bootstrap(&self) -> String {
        self.plan.kafka.to_string()
    }

    /// The address of the controller of a real Kafka.
    pub fn controller_address(&self) -> SocketAddr {
        self.plan.controller
    }

    /// The address of `/healthz` and `/metrics`.
    pub fn http_address(&self) -> SocketAddr {
        self.plan.http
    }

    /// The directory of the logs.
    pub fn data(&self) -> PathBuf {
        self.home.path().join("data")
    }

    /// A command of the binary itself, with this broker; the words are separated by spaces.
    pub fn levada(&self, line: &str) -> Tool {
        let mut tool = Tool::levada();
        for word in line.split(' ') {
            tool.arg(word);
        }
        tool.args(["--brokers", &self.bootstrap()]);
        tool
    }

    /// JSON output of a reading command.
    pub fn levada_json(&self, line: &str) -> serde_json::Value {
        let said = self.levada(&format!("{line} --output json")).run();
        serde_json::from_str(&said.stdout).unwrap_or_else(|error| panic!("{line}: {error}: {}", said.stdout))
    }

    /// A directory for the test's own files.
    pub fn scratch(&self) -> &Path {
        self.home.path()
    }

    /// The broker itself, even below a wrapper.
    pub fn pid(&self) -> u32 {
        let child = self.running.as_ref().expect("the node runs").child.id();
        if self.plan.wrapper.is_empty() {
            return child;
        }
        await_some("the wrapped broker", START_LIMIT, || process::first_child(child))
    }

    /// Output of the broker on stderr since its start.
    pub fn talk(&self) -> String {
        let talk = self.running.as_ref().map(|running| running.talk.lock().expect("no panic").clone());
        talk.unwrap_or_default()
    }

    /// True between a start and the end that the test has waited for.
    pub fn is_running(&self) -> bool {
        self.running.is_some()
    }

    /// Text that the broker has written to stderr in all its runs.
    pub fn history(&self) -> String {
        format!("{}{}", self.past, self.talk())
    }

    /// GET over HTTP: status and body.
    pub fn http(&self, path: &str) -> (u16, String) {
        http::call(self.plan.http, "GET", path, "").expect("the HTTP address answers")
    }

    /// Every sample of `/metrics`: name with labels, and value.
    pub fn metrics(&self) -> Vec<(String, f64)> {
        let (status, body) = self.http("/metrics");
        assert_eq!(status, 200, "{body}");
        let samples = body.lines().filter(|line| !line.starts_with('#') && !line.is_empty());
        samples
            .map(|line| {
                let (name, value) = line.rsplit_once(' ').expect("a sample has a value");
                (name.to_string(), value.parse().expect("a value is a number"))
            })
            .collect()
    }

    /// The time from the launch to the first connection that is accepted and answered.
    pub fn time_to_answer(&mut self) -> Duration {
        let start = Instant::now();
        self.launch();
        loop {
            if let Ok(mut connection) = crate::raw::Connection::try_open(self.address())
                && connection.try_call(&crate::raw::api_versions(0)).is_ok()
            {
                return start.elapsed();
            }
            self.assert_running("start");
            assert!(start.elapsed() < START_LIMIT, "no answer: {}", self.talk());
            std::thread::sleep(Duration::from_micros(500));
        }
    }
}

impl Default for Node {
    fn default() -> Self {
        Self::new()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            controllers::assert_no_errors(&self.controllers);
        }
        if std::thread::panicking() && self.running.is_some() {
            let talk = self.talk();
            let left_out = talk.lines().count().saturating_sub(TAIL_LINES);
            let tail = talk.lines().skip(left_out).collect::<Vec<_>>().join("\n");
            eprintln!("---- the broker said (without {left_out} lines before):\n{tail}\n----");
        }
        // Killing a wrapper would leave the broker behind.
        if let Some(pid) = self.running.as_ref().and_then(|running| process::first_child(running.child.id()))
        {
            process::signal_if_there(pid, Signal::KILL);
        }
    }
}

impl Running {
    fn launch(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
        let mut child = command.spawn().expect("the broker starts");
        let stderr = child.stderr.take().expect("stderr was asked for");
        let talk = Arc::new(Mutex::new(String::new()));
        let record = Arc::clone(&talk);
        std::thread::spawn(move || {
            for line in BufReader::new(stderr).lines().map_while(Result::ok) {
                record.lock().expect("no panic").push_str(&(line + "\n"));
            }
        });
        Self { child, guard: None, talk }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Both fail only if the process has ended already, which is the goal.
        let _ = self.child.kill();
        let _ = self.child.wait();
        if let Some(guard) = &mut self.guard {
            let _ = guard.kill();
            let _ = guard.wait();
        }
    }
}
