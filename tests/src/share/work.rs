//! A queue at work: a writer of records, and processes with members that acknowledge them at
//! random.

use std::fs;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::Tool;
use crate::cluster::Tools;
use crate::tool::Conversation;

/// The topic of the writer.
pub const TOPIC: &str = "queue";
/// The group of the workers.
pub const GROUP: &str = "workers";
/// Delivery count limit of the group.
pub const LIMIT_OF_WORK: u16 = 10;
/// Configuration of the group.
pub const WORK_SETTINGS: [&str; 4] = [
    "share.auto.offset.reset=earliest",
    "share.isolation.level=read_committed",
    "share.delivery.count.limit=10",
    "share.record.lock.duration.ms=1000",
];
/// Longest way of an acquired record to the client, in microseconds.
pub const MARGIN_US: u64 = 2_000_000;

/// Starts the writer. The topic must exist.
pub fn writer(bootstrap: &str, partitions: u32, seed: u32, journal: &Path) -> Conversation {
    let mut tool = Tool::own_java("ShareWorkers");
    tool.args(["writer", bootstrap, TOPIC, &partitions.to_string(), &seed.to_string()]);
    tool.arg(journal.display().to_string()).spawn()
}

/// A process with members.
pub struct Workers {
    process: Conversation,
    accepted: u64,
}

impl Workers {
    /// Starts the process. The journal exists even if it is killed before it opens it.
    pub fn spawn(bootstrap: &str, members: usize, seed: u32, journal: &Path) -> Self {
        fs::write(journal, "").unwrap_or_else(|error| panic!("{}: {error}", journal.display()));
        let mut tool = Tool::own_java("ShareWorkers");
        tool.args(["workers", bootstrap, TOPIC, GROUP, &members.to_string(), &seed.to_string()]);
        Self { process: tool.arg(journal.display().to_string()).spawn(), accepted: 0 }
    }

    /// Number of records that the process knows to be accepted.
    pub fn accepted(&mut self) -> u64 {
        self.tend();
        self.accepted
    }

    /// Fails if the process has ended.
    pub fn tend(&mut self) {
        assert!(!self.process.has_ended(), "workers have ended");
        self.read();
    }

    fn read(&mut self) {
        while let Some(line) = self.process.line_now() {
            self.accepted = line.parse().unwrap_or_else(|error| panic!("{line}: {error}"));
        }
    }

    /// Kills the process; the number of records accepted before.
    pub fn kill(mut self) -> u64 {
        self.read();
        self.process.kill();
        self.accepted
    }

    /// Waits for the end of the process, whose members leave their group.
    pub fn finish(self, limit: Duration) {
        self.process.finish(limit);
    }
}

/// Waits until the tools describe this number of partitions of the group, each without lag, and
/// tends the workers meanwhile. Panics after `limit` with the last description.
pub fn await_no_lag(tools: &mut Tools, partitions: u32, limit: Duration, mut tend: impl FnMut()) {
    let start = Instant::now();
    loop {
        tend();
        let (_, said) = tools.outcome(&format!("ShareGroupCommand --describe --group {GROUP}"));
        let rows = said.lines().filter(|line| line.starts_with(GROUP));
        let lags: Vec<&str> = rows.filter_map(|line| line.split_whitespace().last()).collect();
        if lags.len() == partitions as usize && lags.iter().all(|lag| *lag == "0") {
            return;
        }
        assert!(start.elapsed() < limit, "the group still has lag after {limit:?}:\n{said}");
    }
}
