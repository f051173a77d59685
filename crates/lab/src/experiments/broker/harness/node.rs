//! A measured broker: a process with its own directory, addresses and processor.

use std::fs::{self, File};
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use levada_client::{Connection, ConnectionOptions};
use rustix::process::{Pid, Signal};
use tempfile::TempDir;

use crate::error::LabError;
use crate::experiments::broker::Systems;
use crate::harness::bench::Bench;
use crate::harness::process::{self, Paused};
use crate::harness::program::free_addresses;
use crate::machine::interrupt::{Interrupt, ProcessGroup};

mod kafka;
mod levada;

/// Implementation of the broker.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum System {
    /// Levada, as `levada serve` of the measured program.
    Levada,
    /// Apache Kafka, with the settings of its start script.
    Kafka,
}

impl System {
    /// Name of the system in tables.
    pub fn label(self) -> &'static str {
        match self {
            Self::Levada => "levada",
            Self::Kafka => "kafka",
        }
    }
}

/// A broker and its directory. Drop kills the process and removes the directory.
#[derive(Debug)]
pub(crate) struct Node {
    system: System,
    plan: Plan,
    child: Option<(Child, ProcessGroup)>,
}

/// Start command. Addresses and directory stay the same over restarts.
#[derive(Debug)]
struct Plan {
    systems: Systems,
    home: TempDir,
    kafka: SocketAddr,
    controller: SocketAddr,
    http: SocketAddr,
    pinned: bool,
    /// Settings in addition to the common ones.
    settings: Vec<(&'static str, String)>,
}

/// Limit for the time in which a broker starts or stops.
const LIMIT: Duration = Duration::from_secs(120);

/// Interval between two checks of a broker that starts or stops.
const KNOCK: Duration = Duration::from_micros(500);

impl Node {
    /// Prepares a broker in an empty directory of the bench, and does not start it.
    pub(crate) fn new(bench: &Bench, systems: &Systems, system: System) -> Result<Self, LabError> {
        let home = tempfile::Builder::new().prefix(system.label()).tempdir_in(bench.dir());
        let home = home.map_err(LabError::file("cannot make a directory in", bench.dir()))?;
        let [kafka, controller, http] = free_addresses()?;
        let plan = Plan {
            systems: systems.clone(),
            home,
            kafka,
            controller,
            http,
            pinned: true,
            settings: Vec::new(),
        };
        Ok(Self { system, plan, child: None })
    }

    /// Lets the broker use all processors, not only the sender's.
    #[must_use]
    pub(crate) fn anywhere(mut self) -> Self {
        self.plan.pinned = false;
        self
    }

    /// Adds a setting to the common ones.
    #[must_use]
    pub(crate) fn with(mut self, key: &'static str, value: &str) -> Self {
        self.plan.settings.push((key, value.to_owned()));
        self
    }

    /// Opens a second listener with TLS 1.3 and a cipher suite that all systems support. The broker
    /// process encrypts, not the kernel. Returns the address of the listener.
    pub(crate) fn sealed(mut self, identity: &Path) -> Result<(Self, SocketAddr), LabError> {
        let [address] = free_addresses()?;
        let mut listeners = format!("PLAINTEXT://{},SSL://{address}", self.plan.kafka);
        match self.system {
            System::Levada => self = self.with("levada.ssl.kernel.offload", "never"),
            System::Kafka => {
                listeners += &format!(",CONTROLLER://{}", self.plan.controller);
                let protocols = "PLAINTEXT:PLAINTEXT,SSL:SSL,CONTROLLER:PLAINTEXT";
                self = self.with("listener.security.protocol.map", protocols);
            }
        }
        let node = self
            .with("listeners", &listeners)
            .with("ssl.keystore.type", "PEM")
            .with("ssl.keystore.location", &identity.display().to_string())
            .with("ssl.enabled.protocols", "TLSv1.3")
            .with("ssl.cipher.suites", "TLS_AES_128_GCM_SHA256");
        Ok((node, address))
    }

    /// Prepares a start: formats the directory of Kafka, or of a Levada broker that joins a
    /// cluster.
    pub(crate) fn prepare(&self) -> Result<(), LabError> {
        let joins = self.plan.settings.iter().any(|(key, _)| *key == "process.roles");
        match self.system {
            System::Levada if joins => levada::format(&self.plan, kafka::CLUSTER_ID),
            System::Levada => Ok(()),
            System::Kafka => kafka::command(&self.plan).map(drop),
        }
    }

    /// Starts the broker. Returns the time from the start of the process to the first response.
    pub(crate) fn start(&mut self, bench: &Bench) -> Result<Duration, LabError> {
        let mut command = match self.system {
            System::Levada => levada::command(&self.plan),
            System::Kafka => kafka::command(&self.plan)?,
        };
        let (said, home) = (self.said(), self.plan.home.path());
        let file = File::create(&said).map_err(LabError::file("cannot write", &said))?;
        command.current_dir(home).stdin(Stdio::null()).stdout(Stdio::null()).stderr(file);
        // A child process inherits the processor of the thread that starts it.
        let pinned = self.plan.pinned.then(|| bench.places().pin_sender());
        let start = Instant::now();
        let child = command.spawn().map_err(LabError::step(format!("cannot start {command:?}")))?;
        drop(pinned);
        let group = ProcessGroup::of(&child);
        self.child = Some((child, group));
        self.await_answer(start)
    }

    /// Kills the process with SIGKILL, as in a crash, and waits for its end.
    pub(crate) fn kill(&mut self) -> Result<(), LabError> {
        let Some((mut child, _group)) = self.child.take() else { return Ok(()) };
        child.kill().and_then(|()| child.wait()).map_err(LabError::step("cannot kill a broker"))?;
        Ok(())
    }

    fn await_answer(&mut self, start: Instant) -> Result<Duration, LabError> {
        let options = ConnectionOptions { timeout: LIMIT, ..ConnectionOptions::default() };
        while Connection::connect(&self.plan.kafka.to_string(), &options).is_err() {
            let ended = self.child.as_mut().and_then(|(child, _)| child.try_wait().ok().flatten());
            if ended.is_some() || start.elapsed() > LIMIT {
                return Err(self.failed("does not start"));
            }
            if Interrupt::asked() {
                return Err(LabError::Interrupted);
            }
            std::thread::sleep(KNOCK);
        }
        Ok(start.elapsed())
    }

    /// Error of this broker, with the end of its output.
    pub(crate) fn failed(&self, what: &str) -> LabError {
        const LINES: usize = 5;
        let said = fs::read_to_string(self.said()).unwrap_or_default();
        let lines: Vec<&str> = said.lines().collect();
        let last = lines[lines.len().saturating_sub(LINES)..].join("\n");
        LabError::Step { what: format!("{} {what}", self.system.label()), cause: std::io::Error::other(last) }
    }

    /// Stops the broker with SIGTERM and waits for its end.
    pub(crate) fn stop(&mut self) -> Result<(), LabError> {
        let Some((mut child, group)) = self.child.take() else { return Ok(()) };
        if let Some(pid) = Pid::from_raw(child.id().cast_signed()) {
            // The process may have ended already; the wait below detects that.
            let _ = rustix::process::kill_process(pid, Signal::TERM);
        }
        let start = Instant::now();
        while child.try_wait().map_err(LabError::step("cannot wait for a broker"))?.is_none() {
            if start.elapsed() > LIMIT {
                let error = self.failed("does not stop");
                self.child = Some((child, group));
                return Err(error);
            }
            std::thread::sleep(KNOCK);
        }
        Ok(())
    }

    /// Pauses the process until the caller drops the guard. Otherwise even an idle broker would
    /// sometimes use the processor while another broker's latency is measured.
    pub(crate) fn pause(&self) -> Paused {
        process::pause(self.pid())
    }

    pub(crate) fn system(&self) -> System {
        self.system
    }

    /// Address for clients.
    pub(crate) fn address(&self) -> SocketAddr {
        self.plan.kafka
    }

    /// Address of `/metrics`, if this broker serves it.
    pub(crate) fn http(&self) -> Option<SocketAddr> {
        (self.system == System::Levada).then_some(self.plan.http)
    }

    /// Data directory with the partitions.
    pub(crate) fn data(&self) -> PathBuf {
        data(self.plan.home.path())
    }

    /// Directory of the remote store, outside the data directory.
    pub(crate) fn store(&self) -> PathBuf {
        self.plan.home.path().join("store")
    }

    /// Process id; 0 while the broker does not run.
    pub(crate) fn pid(&self) -> u32 {
        self.child.as_ref().map_or(0, |(child, _)| child.id())
    }

    fn said(&self) -> PathBuf {
        self.plan.home.path().join("stderr")
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some((child, _)) = &mut self.child {
            // Both calls fail only if the process has ended already.
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn data(home: &Path) -> PathBuf {
    home.join("data")
}
