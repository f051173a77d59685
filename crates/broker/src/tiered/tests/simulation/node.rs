//! A broker of a history: its data directory, and the process that has it open.

use std::future::Future;
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use levada_base::Append;
use levada_cluster::replication::apply::log_end;
use levada_cluster::replication::follower::{LeaderMarks, Outcome, Task};
use levada_config::{BrokerConfig, Sources};
use levada_log::disk::RealDisk;
use levada_log::{Appended, LogConfig};
use levada_metadata::controller::{Decision, controller_endpoint};
use levada_metadata::image::{Image, Position};
use levada_metadata::records::{
    ConfigRecord, Endpoint, PartitionRecord, Record, RegisterBrokerRecord, TopicRecord,
};
use levada_metadata::store::{Store, StoreOptions};
use levada_process::clock::now_ms;
use levada_tiered::SegmentState;
use levada_tiered::record::METADATA_TOPIC;
use levada_wire::Uuid;
use tempfile::TempDir;
use tokio::runtime::Runtime;

use super::world::{Life, World};
use crate::broker::{Broker, OpenError};
use crate::replica::Partition;
use crate::replica::data_dir::DataDirError;
use crate::tiered::round::Work;
use crate::tiered::{RemotePartition, Tiers};

pub(super) const TOPIC: Uuid = Uuid::from_bytes([7; 16]);
const METADATA: Uuid = Uuid::from_bytes([8; 16]);
/// Node ids of the brokers with a replica.
pub(super) const NODES: [i32; 2] = [1, 2];
/// Node id of the broker with the metadata topic.
const OTHER: i32 = 9;
const LONG: Duration = Duration::from_secs(60);

/// Configuration of the topic in one history.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    pub(super) segment_bytes: u32,
    pub(super) local_bytes: i64,
    pub(super) retention_bytes: i64,
    /// Port of the broker with the metadata topic.
    pub(super) port: u16,
}

/// Task of tiered storage of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Copy,
    Expire,
    Remove,
}

/// A task in progress.
pub(super) struct Activity {
    pub(super) kind: Kind,
    pub(super) work: Pin<Box<dyn Future<Output = ()>>>,
    /// The request to the store that it waits for.
    pub(super) waits_for: Option<u64>,
}

pub(super) struct Node {
    pub(super) id: i32,
    pub(super) life: Life,
    pub(super) activities: Vec<Activity>,
    limits: Limits,
    home: TempDir,
    now: Option<(Arc<Broker>, Image)>,
}

/// Leader of the partition, as one node knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) leader: i32,
    pub(super) epoch: i32,
}

impl Node {
    /// A broker with an empty log.
    pub(super) fn new(id: i32, limits: Limits, home: TempDir) -> Self {
        let mut store = Store::open(&store_options(home.path(), id), now_ms()).unwrap().0;
        store.update(now_ms(), |_, _| Decision { records: records_of(limits), outcome: () }).unwrap();
        drop(store);
        Self { id, life: 0, activities: Vec::new(), limits, home, now: None }
    }

    /// Starts a process, which follows the leader of this role.
    pub(super) fn start(&mut self, (life, role): (Life, Role), world: &Arc<World>) {
        self.life = life;
        world.begin(life);
        let broker = self.open();
        assert!(broker.replicas().recovery().wait(LONG), "the log is open");
        *broker.tiers().store.lock() = Some(Arc::new(world.store(life)));
        let image = Image::clone(&broker.metadata().image());
        self.now = Some((broker, image));
        self.follow(role);
        let shorten =
            |config: &LogConfig| LogConfig { segment_bytes: self.limits.segment_bytes, ..config.clone() };
        self.partition().lane().with_writer(|writer| writer.set_config(shorten(writer.config())));
    }

    /// Opens the directory once the threads of the former process have left it.
    fn open(&self) -> Arc<Broker> {
        let begun = Instant::now();
        loop {
            match Broker::open(config(self.home.path(), self.id), &[]) {
                Err(OpenError::DataDir(DataDirError::InUse { .. })) if begun.elapsed() < LONG => {
                    std::thread::yield_now();
                }
                opened => return opened.unwrap(),
            }
        }
    }

    /// Ends the process, without its tasks, which the caller has dropped.
    pub(super) fn stop(&mut self) {
        assert!(self.activities.is_empty());
        self.now = None;
    }

    /// Publishes metadata of the cluster.
    pub(super) fn publish(&mut self, record: &Record) {
        let (broker, image) = self.now.as_mut().expect("it runs");
        let position = Position { offset: image.offset() + 1, ..Position::default() };
        image.apply(record, position).unwrap();
        let publisher = broker.publisher();
        publisher.finish(publisher.publish_shared(image)).unwrap();
    }

    /// The process learns the leader.
    pub(super) fn follow(&mut self, role: Role) {
        let record = registration(role);
        self.publish(&record);
    }

    pub(super) fn broker(&self) -> &Arc<Broker> {
        &self.now.as_ref().expect("it runs").0
    }

    pub(super) fn tiers(&self) -> &Arc<Tiers> {
        self.broker().tiers()
    }

    /// The only partition, unless its topic is deleted.
    pub(super) fn partition(&self) -> Arc<Partition> {
        self.broker().replicas().partition("t", 0).unwrap()
    }

    pub(super) fn remote(&self) -> Option<Arc<RemotePartition>> {
        self.tiers().partition(TOPIC, 0)
    }

    /// Does what begins a round, and begins the tasks that are due as `Tiers::begin` does.
    pub(super) fn begin_round(&mut self) {
        let tiers = self.tiers().clone();
        for work in tiers.find_work() {
            match work {
                Work::Tend(remote, partition) => {
                    let (own, of, log) = (tiers.clone(), remote.clone(), partition.clone());
                    self.begin(Kind::Copy, async move { own.copy(&of, &log).await });
                    let own = tiers.clone();
                    self.begin(Kind::Expire, async move { own.expire(&remote, &partition).await });
                }
                // As in a round, not while the partition is copied.
                Work::Remove(remote) if self.activities.is_empty() => {
                    let own = tiers.clone();
                    self.begin(Kind::Remove, async move { own.remove_all(&remote).await });
                }
                Work::Remove(_) => {}
            }
        }
    }

    /// Begins to delete the unfinished copies of the other node, if this one leads.
    pub(super) fn take_over(&mut self) {
        let (tiers, served) = (self.tiers().clone(), self.broker().replicas().partition("t", 0));
        let (Some(remote), Ok(_)) = (self.remote(), served.and_then(|own| own.check_leader(-1))) else {
            return;
        };
        let mut others = remote.segments().unwrap_or_default();
        let id = self.id;
        others.retain(|one| one.state == SegmentState::CopyStarted && one.broker_id != id);
        if others.is_empty() {
            return;
        }
        self.begin(Kind::Copy, async move {
            for segment in others {
                let _ = tiers.delete_segment(&remote, &segment).await;
            }
        });
    }

    fn begin(&mut self, kind: Kind, work: impl Future<Output = ()> + 'static) {
        let is_in_progress = |one: &Activity| one.kind == kind || one.kind == Kind::Remove;
        if !self.activities.iter().any(is_in_progress) {
            self.activities.push(Activity { kind, work: Box::pin(work), waits_for: None });
        }
    }

    /// Appends a batch as the leader.
    pub(super) fn append(&self, batch: bytes::BytesMut, runtime: &Runtime) -> Appended {
        let partition = self.partition();
        runtime.block_on(async { partition.append(Append::client(batch), now_ms()).wait().await }).unwrap()
    }

    /// Deletes local segments, as housekeeping does.
    pub(super) fn clean(&self) {
        self.broker().replicas().housekeeping().delete_old_segments(&self.partition());
    }

    /// Appends what the leader's log has, and takes its marks.
    pub(super) fn replicate(&self, leader: &Self, epoch: i32) {
        let (own, other) = (self.partition(), leader.partition());
        loop {
            let end = log_end(own.log());
            let (log, from) = (other.log(), end.offset);
            if from < log.log_start() {
                let task = Task::Restart(log.log_start());
                let restarted =
                    self.broker().replicas().follower_tasks().carry_out(&own, (epoch, end), &task);
                assert!(matches!(restarted, Outcome::Done(_)), "{restarted:?}");
                continue;
            }
            let records = if from < log.log_end() {
                log.read_batches(from, 1 << 20).unwrap()
            } else {
                bytes::Bytes::new()
            };
            let marks = LeaderMarks { high_watermark: log.high_watermark(), log_start: log.log_start() };
            let task = Task::Append { records, marks };
            match self.broker().replicas().follower_tasks().carry_out(&own, (epoch, end), &task) {
                Outcome::Done(end) if end.offset < other.log().log_end() => {}
                Outcome::Done(_) => break,
                other => panic!("{other:?}"),
            }
        }
        self.broker().replicas().checkpoints().store_misleading().unwrap();
    }

    /// True if the process copied, or found the reach of copies, as the leader of this epoch.
    pub(super) fn has_begun(&self, epoch: i32) -> bool {
        self.remote().is_some_and(|remote| remote.begun_in.load(Ordering::Relaxed) == epoch)
    }
}

/// Creation of the topics, and the registration of the broker with the metadata topic.
fn records_of(limits: Limits) -> Vec<Record> {
    let settings = [
        ("remote.storage.enable", "true".to_owned()),
        ("remote.copy.lag.ms", "0".to_owned()),
        ("local.retention.bytes", limits.local_bytes.to_string()),
        ("retention.bytes", limits.retention_bytes.to_string()),
        ("retention.ms", super::ledger::RETENTION_MS.to_string()),
    ];
    let setting = |(name, value): (&str, String)| ConfigRecord {
        resource_type: 2,
        resource_name: "t".to_owned(),
        name: name.to_owned(),
        value: Some(value),
    };
    let endpoint = Endpoint {
        name: "PLAINTEXT".to_owned(),
        host: "127.0.0.1".to_owned(),
        port: limits.port,
        security_protocol: 0,
    };
    let other = RegisterBrokerRecord {
        broker_id: OTHER,
        end_points: vec![endpoint],
        ..RegisterBrokerRecord::default()
    };
    let metadata = PartitionRecord {
        topic_id: METADATA,
        partition_id: 0,
        replicas: vec![OTHER],
        isr: vec![OTHER],
        leader: OTHER,
        ..PartitionRecord::default()
    };
    let mut records: Vec<Record> = vec![
        other.into(),
        TopicRecord { name: METADATA_TOPIC.to_owned(), topic_id: METADATA }.into(),
        metadata.into(),
        TopicRecord { name: "t".to_owned(), topic_id: TOPIC }.into(),
        registration(Role { leader: OTHER, epoch: 0 }),
    ];
    records.extend(settings.into_iter().map(|one| setting(one).into()));
    records
}

/// The partition in a leader epoch. The follower's progress does not hold the leader up: a history
/// replicates each record before it counts the record as acknowledged.
fn registration(role: Role) -> Record {
    let partition = PartitionRecord {
        topic_id: TOPIC,
        partition_id: 0,
        replicas: NODES.to_vec(),
        isr: vec![role.leader],
        leader: role.leader,
        leader_epoch: role.epoch,
        // Each start of a broker records its directory as one more change.
        partition_epoch: role.epoch * 1_000,
        ..PartitionRecord::default()
    };
    partition.into()
}

fn store_options(dir: &Path, node_id: i32) -> StoreOptions {
    StoreOptions {
        disk: Arc::new(RealDisk),
        dir: dir.to_owned(),
        node_id,
        cluster_id: Some("simulatedClusterIdAAAA".to_owned()),
        controller: controller_endpoint(),
        min_insync_replicas: 1,
        users: Vec::new(),
        limits: config(dir, node_id).metadata_log,
        others: None,
        other_dirs: Vec::new(),
        serves_tiers: true,
    }
}

fn config(dir: &Path, node_id: i32) -> BrokerConfig {
    let flags = [
        format!("log.dirs={}", dir.display()),
        format!("node.id={node_id}"),
        // As in a cluster: otherwise a broker has no connections to others.
        "process.roles=broker".to_owned(),
        "controller.quorum.bootstrap.servers=localhost:1".to_owned(),
        "controller.listener.names=CONTROLLER".to_owned(),
        "listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT".to_owned(),
        "remote.log.storage.system.enable=true".to_owned(),
        // Never opened: the history has its own.
        format!("levada.remote.store=file://{}/store", dir.display()),
        "num.recovery.threads.per.data.dir=1".to_owned(),
        "log.index.size.max.bytes=1024".to_owned(),
        "log.segment.delete.delay.ms=0".to_owned(),
    ];
    BrokerConfig::load(&Sources::flags(flags)).unwrap()
}
