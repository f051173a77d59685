//! A node of the simulation: a crash disk, the checkpoints, and a process that runs the machines on
//! a real log.

use std::path::PathBuf;
use std::sync::Arc;

use levada_log::crash_disk::{Crash, Recorder, World, lay_out};
use levada_log::disk::Disk;
use levada_log::{LogConfig, OpenOptions, OpenReport, Writer};
use levada_wire::messages::AlterPartitionRequest;
use rand::rngs::StdRng;
use tempfile::TempDir;

use super::controller::Image;
use super::harm::Harm;
use crate::Directories;
use crate::replication::commits::Commits;
use crate::replication::fetcher::{Fetcher, FetcherConfig, Local, PartitionKey, Readiness};
use crate::replication::isr::IsrUpdates;
use crate::replication::leader::Leader;
use crate::replication::recount::Recount;

/// A client that waits for an acknowledgement.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiter {
    pub(super) client: usize,
    pub(super) attempt: u64,
    pub(super) number: u64,
    pub(super) offset: i64,
    /// The high watermark that covers the batch.
    pub(super) end: i64,
}

/// Role of a process for the partition.
pub(super) enum Role {
    Idle,
    Leads(Box<Leads>),
    Follows(Box<Follows>),
}

pub(super) struct Leads {
    pub(super) machine: Leader,
    pub(super) commits: Commits<Waiter>,
}

pub(super) struct Follows {
    pub(super) leader: i32,
    pub(super) leader_epoch: i32,
    /// True if another thread fetches for a replica when it joins or leaves the ISR.
    pub(super) is_in_sync: bool,
    pub(super) fetcher: Fetcher,
    /// Number of the thread. Those before it may have tasks left.
    pub(super) thread: u64,
    /// Number of the request in flight.
    pub(super) request: Option<u64>,
    /// True while tasks of the last response are not done.
    pub(super) is_busy: bool,
    pub(super) poll_ms: i64,
}

/// Contents of a node's checkpoint files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Checkpoint {
    pub(super) recovery_point: i64,
    pub(super) high_watermark: i64,
    pub(super) log_start: i64,
    pub(super) is_clean: bool,
}

/// Circumstances in which a log is opened.
#[derive(Clone, Copy)]
pub(super) struct Opening {
    /// True if the node takes its log end for committed.
    pub(super) trusts_its_end: bool,
    /// True if the log ends where a segment has lost its end.
    pub(super) ends_at_holes: bool,
}

/// A running process.
pub(super) struct Process {
    pub(super) incarnation: u64,
    pub(super) epoch: i64,
    pub(super) image: Option<Image>,
    pub(super) log: Option<Writer>,
    pub(super) role: Role,
    pub(super) isr: IsrUpdates,
    /// The AlterPartition request in flight.
    pub(super) asked: AlterPartitionRequest,
    /// Waiters of leaderships that were lost, which only a mistake keeps.
    pub(super) kept: Vec<Waiter>,
    /// Offset up to which the log was compared with the committed records.
    pub(super) verified: i64,
    pub(super) lag_checked_ms: i64,
    /// True if the log is offline.
    pub(super) is_broken: bool,
    /// Time from the controller's report of the offline log to the restart of the process, ms.
    pub(super) repair_ms: Option<i64>,
    pub(super) directories: Directories,
    /// Number and time of the report in flight.
    pub(super) report: Option<(u64, i64)>,
    /// Present while the log lacks records that it has had.
    pub(super) doubt: Option<Recount>,
    /// True if the checkpoints stay as they were when the log was opened.
    pub(super) keeps_claims: bool,
}

pub(super) struct Node {
    pub(super) id: i32,
    home: TempDir,
    recorder: Arc<Recorder>,
    pub(super) process: Option<Process>,
    pub(super) checkpoint: Checkpoint,
    pub(super) is_clean: bool,
    pub(super) paused_until: i64,
    /// True if an unclean election has chosen another log and this one has not followed it yet.
    pub(super) is_stale: bool,
    /// Damage to the files before the next process opens them.
    pub(super) harm: Option<Harm>,
    /// True if readers may find damage that no opening has searched for.
    pub(super) is_harmed: bool,
    segment_bytes: u32,
}

fn memory() -> TempDir {
    TempDir::new_in("/dev/shm").or_else(|_| TempDir::new()).unwrap()
}

impl Node {
    pub(super) fn new(id: i32, segment_bytes: u32) -> Self {
        let home = memory();
        let recorder = Arc::new(Recorder::new(home.path()));
        Self {
            id,
            home,
            recorder,
            process: None,
            checkpoint: Checkpoint::default(),
            is_clean: false,
            paused_until: 0,
            is_stale: false,
            harm: None,
            is_harmed: false,
            segment_bytes,
        }
    }

    pub(super) fn begin(&mut self, incarnation: u64) {
        self.process = Some(Process {
            incarnation,
            epoch: -1,
            image: None,
            log: None,
            role: Role::Idle,
            isr: IsrUpdates::new(),
            asked: AlterPartitionRequest::default(),
            kept: Vec::new(),
            verified: 0,
            lag_checked_ms: 0,
            is_broken: false,
            repair_ms: None,
            directories: Directories::new(),
            report: None,
            doubt: None,
            keeps_claims: false,
        });
    }

    fn dir(&self) -> PathBuf {
        self.home.path().join("t-0")
    }

    /// Opens the log as the checkpoints have it.
    pub(super) fn open(&self, opening: Opening, now_ms: i64) -> (Writer, OpenReport) {
        let config = LogConfig {
            segment_bytes: self.segment_bytes,
            index_interval_bytes: 300,
            segment_index_bytes: 600,
            segment_ms: i64::MAX,
            ..LogConfig::default()
        };
        let options = OpenOptions {
            config,
            recovery_point: self.checkpoint.recovery_point,
            log_start: self.checkpoint.log_start,
            high_watermark: (!opening.trusts_its_end).then_some(self.checkpoint.high_watermark),
            gapless_from: opening.ends_at_holes.then_some(0),
            clean: self.checkpoint.is_clean,
            disk: self.recorder.clone(),
            ..OpenOptions::new(self.dir())
        };
        let opened = Writer::open(options, now_ms);
        let (mut writer, report) = opened.expect("a log that a crash left can be opened");
        self.recorder.sync_dir(self.home.path()).expect("the directory is there");
        writer.resign();
        (writer, report)
    }

    /// Removes the replica of the partition from this node.
    pub(super) fn delete(&mut self) {
        if self.dir().is_dir() {
            self.recorder.remove_dir(&self.dir()).expect("the directory of the log can be removed");
        }
        self.checkpoint = Checkpoint::default();
    }

    /// Stores what the checkpoints have of a log.
    pub(super) fn store_checkpoint(&mut self) {
        let process = self.process.as_ref().filter(|process| !process.keeps_claims);
        let Some(log) = process.and_then(|process| process.log.as_ref()) else { return };
        let partition = log.partition();
        self.checkpoint = Checkpoint {
            recovery_point: partition.recovery_point(),
            high_watermark: partition.high_watermark(),
            log_start: partition.log_start(),
            is_clean: false,
        };
    }

    /// Stores the checkpoints if the high watermark has fallen below its own, because the log lost
    /// its end: after a crash the old one would count for the records that come there since.
    pub(super) fn store_fallen(&mut self, high_watermark: i64) {
        if high_watermark < self.checkpoint.high_watermark {
            self.store_checkpoint();
        }
    }

    /// The checkpoints follow the log from now on.
    pub(super) fn drop_claims(&mut self) {
        let Some(process) = &mut self.process else { return };
        if std::mem::take(&mut process.keeps_claims) {
            self.store_checkpoint();
        }
    }

    /// Damages the files as `harm` says.
    pub(super) fn suffer(&mut self, random: &mut StdRng) {
        let Some(harm) = self.harm.take() else { return };
        self.is_harmed = true;
        if harm.cuts_checkpoints {
            let is_clean = self.checkpoint.is_clean;
            self.checkpoint = Checkpoint { is_clean, ..Checkpoint::default() };
        }
        harm.befall(&self.dir(), random);
    }

    /// Ends the process. With a lossy crash the disk keeps the synced data and a random part of the
    /// rest.
    pub(super) fn crash(&mut self, crash: Crash, random: &mut StdRng) {
        self.process = None;
        self.is_clean = false;
        if crash == Crash::Killed {
            return;
        }
        let mut world = World::new();
        self.recorder.ops().iter().for_each(|op| world.apply(op));
        let home = memory();
        lay_out(&world.crash(crash, None, random), home.path());
        self.recorder = Arc::new(Recorder::new(home.path()));
        self.home = home;
    }
}

/// This node's part of a fetch.
pub(super) struct Here {
    pub(super) epoch: i64,
    pub(super) log_start: i64,
}

impl Local for Here {
    fn broker_epoch(&self) -> i64 {
        self.epoch
    }

    fn readiness(&self, _: &PartitionKey, _: bool) -> Readiness {
        Readiness::Ready { log_start: self.log_start }
    }
}

pub(super) fn fetcher(node_id: i32) -> Fetcher {
    Fetcher::new(FetcherConfig {
        node_id,
        max_wait_ms: 100,
        min_bytes: 1,
        max_bytes: 10_000,
        partition_max_bytes: 900,
        backoff_ms: 60,
    })
}
