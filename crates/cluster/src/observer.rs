//! Follows the log `__cluster_metadata` of a KRaft quorum as a replica that does not vote.
//!
//! One request is in flight at a time: a Fetch to the leader (or to any known node while there is
//! none), or a FetchSnapshot. Fetched batches are uncommitted; [`ObserverAction::Publish`] gives
//! out committed records only, in order, each once, and never part of a metadata transaction. A
//! snapshot is given out in pieces between `SnapshotBegins` and `SnapshotEnds`; a replayer builds a
//! fresh state from it and swaps at the end.

mod download;
mod requests;
mod tail;
#[cfg(test)]
mod tests;
mod transactions;

use bytes::Bytes;
use levada_wire::fetch::{FetchRequest, FetchResponse, FetchedPartition, SnapshotId};
use levada_wire::messages::{FetchSnapshotRequest, FetchSnapshotResponse, Uuid};
use levada_wire::produce::{LeaderEpoch, NodeEndpoint};

use self::download::Download;
pub use self::download::DownloadLimits;
pub use self::requests::{METADATA_TOPIC, METADATA_TOPIC_ID};
pub use self::tail::LogPosition;
use self::tail::Tail;
use self::transactions::Transactions;
pub use self::transactions::{Committed, MetadataRecord, QuorumChange, RecordFault};
use crate::errors::{self, Reaction};
use crate::quorum::{Address, Quorum, Target, Told};

/// Identity, times and limits of an observer.
#[derive(Clone, Debug)]
pub struct ObserverConfig {
    /// This broker's id. Must not be a voter's.
    pub node_id: i32,
    /// The directory that would hold the metadata log. A quorum lists each directory as a separate
    /// observer.
    pub directory_id: Uuid,
    /// The cluster's id, if known.
    pub cluster_id: Option<String>,
    /// The first of `controller.listener.names`: the name of the endpoints at which voters are
    /// reached.
    pub listener: String,
    /// Longest wait of a leader for new records, ms.
    pub max_wait_ms: i32,
    /// Time after which a request without a response counts as failed, ms; longer than
    /// `max_wait_ms`.
    pub request_timeout_ms: i64,
    /// The pause after a first failure. It doubles with each further one.
    pub retry_ms: i64,
    /// Maximum pause before a request is repeated, ms.
    pub retry_max_ms: i64,
    /// Requested limit of a response, in bytes.
    pub max_bytes: i32,
    /// Maximum number of bytes of uncommitted batches.
    pub tail_bytes: usize,
    /// Maximum number of bytes of an open metadata transaction.
    pub transaction_bytes: usize,
    /// Bounds of a snapshot.
    pub download: DownloadLimits,
}

impl ObserverConfig {
    /// Kafka's times and sizes, and limits far above the needs of real clusters.
    pub fn new(node_id: i32, directory_id: Uuid) -> Self {
        Self {
            node_id,
            directory_id,
            cluster_id: None,
            listener: "CONTROLLER".into(),
            max_wait_ms: 500,
            request_timeout_ms: 2000,
            retry_ms: 20,
            retry_max_ms: 500,
            max_bytes: 8 << 20,
            tail_bytes: 64 << 20,
            transaction_bytes: 256 << 20,
            download: DownloadLimits { snapshot_bytes: 4 << 30, batch_bytes: 16 << 20 },
        }
    }
}

/// Input of an observer. Responses carry the number of their request.
#[derive(Clone, Debug)]
pub enum ObserverEvent {
    /// The driver starts the machine, or the deadline has passed.
    Tick,
    /// Response to a Fetch.
    Fetched(u64, FetchResponse<Bytes>),
    /// Response to a FetchSnapshot.
    SnapshotFetched(u64, FetchSnapshotResponse),
    /// A request got no response: no connection, a lost one, or bytes that are no response.
    Failed(u64),
}

/// Task for the driver.
#[derive(Clone, Debug, PartialEq)]
pub enum ObserverAction {
    /// Send a Fetch.
    Fetch(u64, Target, FetchRequest),
    /// Send a FetchSnapshot.
    FetchSnapshot(u64, Target, FetchSnapshotRequest),
    /// Apply committed records.
    Publish(Committed),
    /// Start a new state; the state in force stays until it is complete.
    SnapshotBegins(SnapshotId),
    /// Add records to the fresh state.
    SnapshotRecords(Vec<MetadataRecord>),
    /// Put the fresh state, which is complete, in force.
    SnapshotEnds(SnapshotId),
    /// Drop the new state: the download failed.
    SnapshotDropped(SnapshotId),
    /// The quorum has a new epoch or leader.
    LeaderChanged {
        /// Epoch of the quorum.
        epoch: i32,
        /// Node id of the leader, if it is known.
        leader: Option<i32>,
    },
    /// Log that a node's response was useless; another node is next.
    Unusable {
        /// The node that responded.
        from: Target,
        /// Reason for which the response is useless.
        reason: String,
    },
    /// Stop: an operator has to change something. The observer does nothing afterwards.
    Stop(String),
}

#[derive(Debug)]
struct Pending {
    request: u64,
    to: Target,
    sent_ms: i64,
}

/// The state of an observer.
#[derive(Debug)]
pub struct Observer {
    config: ObserverConfig,
    quorum: Quorum,
    kraft_version: i16,
    tail: Tail,
    transactions: Transactions,
    download: Option<Download>,
    /// True while the download requests its next chunk, false while a Fetch checks if the leader
    /// still has the snapshot.
    downloads: bool,
    pending: Option<Pending>,
    last_request: u64,
    next_ms: i64,
    failures: u32,
    stopped: bool,
    actions: Vec<ObserverAction>,
}

/// Result of a response or of its absence.
enum Outcome {
    /// The response led to progress: fetch again immediately.
    Advanced,
    /// The response was valid, without new records.
    Idle,
    /// The node is of no use now, for this reason.
    Failed(String),
    /// The observer must stop, for this reason.
    Stop(String),
}

impl Observer {
    /// An observer at the start, without any part of the log. It sends its first request with the
    /// first `Tick`.
    pub fn new(config: ObserverConfig, quorum: Quorum) -> Self {
        Self {
            tail: Tail::new(config.tail_bytes),
            transactions: Transactions::new(&config.listener, config.transaction_bytes),
            config,
            quorum,
            kraft_version: 0,
            download: None,
            downloads: false,
            pending: None,
            last_request: 0,
            next_ms: i64::MIN,
            failures: 0,
            stopped: false,
            actions: Vec::new(),
        }
    }

    /// Leader, epoch and addresses of the quorum. The leader is the active controller.
    pub fn quorum(&self) -> &Quorum {
        &self.quorum
    }

    /// The level of `kraft.version` in the control records up to the end of the published records:
    /// 1 if the log names the voters, 0 if the configuration does.
    pub fn kraft_version(&self) -> i16 {
        self.kraft_version
    }

    /// The end of the published records.
    pub fn published(&self) -> LogPosition {
        self.transactions.through()
    }

    /// The highest offset below which everything is known to be committed.
    pub fn high_watermark(&self) -> i64 {
        self.tail.high_watermark()
    }

    /// The time of the next `Tick`; `None` when stopped.
    pub fn deadline(&self) -> Option<i64> {
        let deadline = match &self.pending {
            Some(pending) => pending.sent_ms.saturating_add(self.config.request_timeout_ms),
            None => self.next_ms,
        };
        (!self.stopped).then_some(deadline)
    }

    /// Processes an event. Ignores responses to requests that are not in flight.
    pub fn step(&mut self, event: ObserverEvent, now_ms: i64) -> Vec<ObserverAction> {
        if self.stopped {
            return Vec::new();
        }
        match event {
            ObserverEvent::Tick => {
                let expired = self.pending.is_some() && self.deadline().is_some_and(|at| at <= now_ms);
                if let Some(pending) = self.pending.take_if(|_| expired) {
                    let waited = self.config.request_timeout_ms;
                    self.conclude(
                        pending,
                        Outcome::Failed(format!("no response within {waited} ms")),
                        now_ms,
                    );
                }
            }
            ObserverEvent::Fetched(request, response) => {
                if let Some(pending) = self.pending.take_if(|pending| pending.request == request) {
                    let outcome = self.on_fetched(&pending, response);
                    self.conclude(pending, outcome, now_ms);
                }
            }
            ObserverEvent::SnapshotFetched(request, response) => {
                if let Some(pending) = self.pending.take_if(|pending| pending.request == request) {
                    let outcome = self.on_chunk(response);
                    if matches!(outcome, Outcome::Failed(_)) {
                        self.drop_download();
                    }
                    self.conclude(pending, outcome, now_ms);
                }
            }
            ObserverEvent::Failed(request) => {
                if let Some(pending) = self.pending.take_if(|pending| pending.request == request) {
                    self.conclude(pending, Outcome::Failed("no connection, or it was lost".into()), now_ms);
                }
            }
        }
        if !self.stopped && self.pending.is_none() && self.next_ms <= now_ms {
            self.send(now_ms);
        }
        std::mem::take(&mut self.actions)
    }

    fn send(&mut self, now_ms: i64) {
        self.last_request += 1;
        let (request, to, epoch) = (self.last_request, self.quorum.target(), self.quorum.epoch());
        let download = self.download.as_ref().filter(|_| self.downloads);
        self.actions.push(match download {
            Some(Download { id, .. }) => {
                let position = download.map_or(0, Download::position);
                let body = requests::fetch_snapshot(&self.config, epoch, *id, position);
                ObserverAction::FetchSnapshot(request, to.clone(), body)
            }
            None => {
                let high_watermark = match self.tail.high_watermark() {
                    0 => -1,
                    known => known,
                };
                let body = requests::fetch(&self.config, epoch, self.tail.end(), high_watermark);
                ObserverAction::Fetch(request, to.clone(), body)
            }
        });
        self.pending = Some(Pending { request, to, sent_ms: now_ms });
    }

    /// Determines the time and the node of the next request.
    fn conclude(&mut self, pending: Pending, outcome: Outcome, now_ms: i64) {
        match outcome {
            Outcome::Advanced => {
                self.failures = 0;
                self.next_ms = now_ms;
            }
            Outcome::Idle => {
                self.failures = 0;
                self.next_ms = now_ms.max(pending.sent_ms.saturating_add(self.config.retry_ms));
            }
            Outcome::Failed(reason) => {
                self.downloads = false;
                self.quorum.failed();
                let pause = self.config.retry_ms << self.failures.min(16);
                self.failures = self.failures.saturating_add(1);
                self.next_ms = now_ms.saturating_add(pause.min(self.config.retry_max_ms));
                self.actions.push(ObserverAction::Unusable { from: pending.to, reason });
            }
            Outcome::Stop(reason) => {
                self.stopped = true;
                self.actions.push(ObserverAction::Stop(reason));
            }
        }
    }

    fn on_fetched(&mut self, pending: &Pending, mut response: FetchResponse<Bytes>) -> Outcome {
        if let Some(outcome) = unless_ok(response.error_code, "Fetch") {
            return outcome;
        }
        let Some(partition) = requests::fetched(&mut response) else {
            return Outcome::Failed("the response is not only about the metadata log".into());
        };
        let reaction = Reaction::to(partition.error_code);
        let Some(leader) = partition.current_leader else {
            return unless_ok(partition.error_code, "Fetch")
                .unwrap_or_else(|| Outcome::Failed("the response names no leader".into()));
        };
        let before = self.quorum.epoch();
        let told = self.told(leader, &response.node_endpoints);
        match (told, reaction) {
            (Told::Conflict, _) => Outcome::Failed(format!(
                "the response names node {} as leader of epoch {}, which has another leader",
                leader.leader_id, leader.leader_epoch
            )),
            (Told::Stale, _) => Outcome::Failed(format!("the response is of epoch {}", leader.leader_epoch)),
            // A node that has just taught the leader has done all that it can.
            (Told::Changed, Reaction::Learn | Reaction::Proceed) if leader.leader_epoch > before => {
                self.learned("the response is of a later epoch")
            }
            (Told::Changed, Reaction::Learn) => self.learned("the node does not lead"),
            (Told::Same, Reaction::Learn) => Outcome::Failed("the node does not lead the quorum".into()),
            (_, Reaction::Proceed) => {
                self.quorum.served(&pending.to);
                self.on_log(partition)
            }
            _ => unless_ok(partition.error_code, "Fetch").unwrap_or(Outcome::Idle),
        }
    }

    /// Continues with a new leader; without one another node is next after a pause.
    fn learned(&self, reason: &str) -> Outcome {
        match self.quorum.leader_target() {
            Some(_) => Outcome::Advanced,
            None => Outcome::Failed(format!("{reason}, and the leader's address is not known")),
        }
    }

    fn told(&mut self, leader: LeaderEpoch, nodes: &[NodeEndpoint]) -> Told {
        let endpoint = nodes.iter().find(|node| node.node_id == leader.leader_id);
        let address = endpoint.and_then(|node| {
            let port = u16::try_from(node.port).ok()?;
            Some(Address { host: node.host.as_str().to_owned(), port })
        });
        let told = self.quorum.told(leader.leader_epoch, leader.leader_id, address);
        if told == Told::Changed {
            let (epoch, leader) = (self.quorum.epoch(), self.quorum.leader());
            self.actions.push(ObserverAction::LeaderChanged { epoch, leader });
        }
        told
    }

    /// Processes a response of the leader of the requested epoch.
    fn on_log(&mut self, partition: FetchedPartition<Bytes>) -> Outcome {
        if let Some(end) = partition.diverging_epoch {
            return match self.tail.truncate(end) {
                Ok(()) => Outcome::Advanced,
                Err(error) => Outcome::Stop(format!("{error}: the quorum has lost committed metadata")),
            };
        }
        if let Some(id) = partition.snapshot_id {
            return self.on_snapshot_id(id);
        }
        self.drop_download();
        let (end, known) = (self.tail.end(), self.tail.high_watermark());
        let appended = self.tail.append(partition.records.unwrap_or_default(), self.quorum.epoch());
        let covered = self.tail.commit(partition.high_watermark);
        match self.transactions.take(&covered) {
            Ok(None) => {}
            Ok(Some(committed)) => {
                let QuorumChange { kraft_version, voters } = committed.quorum.clone();
                self.kraft_version = kraft_version.unwrap_or(self.kraft_version);
                if let Some(voters) = voters {
                    self.quorum.set_voters(voters);
                }
                self.actions.push(ObserverAction::Publish(committed));
            }
            Err(fault) => return Outcome::Stop(format!("cannot read the metadata log: {fault}")),
        }
        match appended {
            Err(error) => Outcome::Failed(error.to_string()),
            Ok(()) if (end, known) == (self.tail.end(), self.tail.high_watermark()) => Outcome::Idle,
            Ok(()) => Outcome::Advanced,
        }
    }

    fn on_snapshot_id(&mut self, id: SnapshotId) -> Outcome {
        let committed = self.tail.committed();
        if id.end_offset <= committed.offset || id.epoch < committed.epoch || id.epoch > self.quorum.epoch() {
            return Outcome::Failed(format!(
                "the response names a snapshot that ends at offset {} of epoch {}; committed is offset {} of epoch {}",
                id.end_offset, id.epoch, committed.offset, committed.epoch
            ));
        }
        let source = (self.quorum.leader(), self.quorum.epoch());
        if self.download.as_ref().is_none_or(|download| (download.id, download.source) != (id, source)) {
            self.drop_download();
            self.download = Some(Download::new(id, source, self.config.download));
            self.actions.push(ObserverAction::SnapshotBegins(id));
        }
        self.downloads = true;
        Outcome::Advanced
    }

    /// Processes a chunk of a snapshot. After any fault the observer fetches again, which detects a
    /// new leader: Kafka 4.3.1 returns each error of a partition as an unknown error without its
    /// leader.
    fn on_chunk(&mut self, mut response: FetchSnapshotResponse) -> Outcome {
        if let Some(outcome) = unless_ok(response.error_code, "FetchSnapshot") {
            return outcome;
        }
        let Some(chunk) = requests::snapshot_chunk(&mut response) else {
            return Outcome::Failed("the response is not only about the metadata log".into());
        };
        if let Some(outcome) = unless_ok(chunk.error_code, "FetchSnapshot") {
            return outcome;
        }
        let leader = LeaderEpoch {
            leader_id: chunk.current_leader.leader_id,
            leader_epoch: chunk.current_leader.leader_epoch,
        };
        if !matches!(self.told(leader, &[]), Told::Same) {
            return Outcome::Failed("the leader has changed during the snapshot".into());
        }
        let Some(download) = &mut self.download else {
            return Outcome::Failed("no snapshot is being fetched".into());
        };
        let id = SnapshotId { end_offset: chunk.snapshot_id.end_offset, epoch: chunk.snapshot_id.epoch };
        if id != download.id || u64::try_from(chunk.position) != Ok(download.position()) {
            return Outcome::Failed("the response is of another snapshot, or of another position".into());
        }
        match download.push(chunk.size, &chunk.unaligned_records, &self.config.listener) {
            Ok(progress) => {
                if !progress.records.is_empty() {
                    self.actions.push(ObserverAction::SnapshotRecords(progress.records));
                }
                if progress.is_complete {
                    self.finish_download();
                }
                Outcome::Advanced
            }
            Err(fault) => Outcome::Failed(fault.to_string()),
        }
    }

    fn finish_download(&mut self) {
        let Some(download) = self.download.take() else { return };
        self.downloads = false;
        let id = download.id;
        let QuorumChange { kraft_version, voters } = download.into_quorum();
        // A snapshot contains the levels that are not 0.
        self.kraft_version = kraft_version.unwrap_or(0);
        if let Some(voters) = voters {
            self.quorum.set_voters(voters);
        }
        let position = LogPosition { offset: id.end_offset, epoch: id.epoch };
        self.tail.restart(position);
        self.transactions.restart(position);
        self.actions.push(ObserverAction::SnapshotEnds(id));
    }

    fn drop_download(&mut self) {
        self.downloads = false;
        if let Some(download) = self.download.take() {
            self.actions.push(ObserverAction::SnapshotDropped(download.id));
        }
    }
}

/// The outcome of an error code; `None` if there is no error.
fn unless_ok(code: i16, api: &str) -> Option<Outcome> {
    match Reaction::to(code) {
        Reaction::Proceed => None,
        Reaction::Stop => Some(Outcome::Stop(format!("{api}: {}", errors::remedy(code)))),
        Reaction::Learn | Reaction::OtherNode => Some(Outcome::Failed(format!("{api}: error code {code}"))),
    }
}
