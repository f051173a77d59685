//! The life of a broker on a recorded disk: random work of every kind, one thing after the other,
//! or some of it at the same time.

use std::collections::{BTreeMap, HashMap};
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::BytesMut;
use levada_base::batch::Builder;
use levada_config::{BrokerConfig, Sources};
use levada_coordination::txn::request::{ProducerIdentity, Protocol};
use levada_log::crash_disk::Recorder;
use levada_log::disk::Disk;
use levada_log::{Append, Appended, Background, LogConfig};
use levada_metadata::controller::{AlterConfig, ConfigChange, MorePartitions, NewTopic, TopicKey};
use levada_metadata::image::ConfigResource;
use levada_process::clock::now_ms;
use levada_wire::Uuid;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use super::event::Event;
use super::facts::{BatchFact, Facts, Policy, Span, TopicFact};
use crate::broker::Broker;
use crate::broker::opening::beside;
use crate::controller::ConfigChanges;
use crate::quota::MutationQuota;
use crate::replica::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};
use crate::transaction::Membership;

mod transactions;
mod upkeep;

pub(super) use transactions::{copier, settle};

/// A broker's ways of writing, drawn from the seed.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::broker::tests) struct Ways {
    /// True if acknowledgements wait for the device.
    pub(super) durable: bool,
    /// True if records are copied into mappings.
    pub(super) mapped: bool,
    /// Maximum size of a segment, less than a configuration permits; logs also lose their
    /// beginnings. `None`: usual sizes, and logs stay whole.
    pub(super) segment_bytes: Option<u32>,
    /// True if background work runs on threads; then a seed does not determine the order of
    /// changes.
    pub(super) threads: bool,
    /// Files that are out of a log stay until the next start, and what is deleted from a compacted
    /// one goes with the next compaction.
    pub(in crate::broker::tests) late: bool,
    /// True if each end of a transaction increments the producer epoch (KIP-890).
    pub(super) bumps_epochs: bool,
}

impl Ways {
    /// Nothing but that acknowledgements wait for the device.
    pub(in crate::broker::tests) fn durable() -> Self {
        Self { durable: true, ..Self::default() }
    }

    pub(super) fn of(seed: u64) -> Self {
        let is_set = |bit: u32| seed >> bit & 1 == 1;
        let short = is_set(3);
        Self {
            durable: is_set(0),
            mapped: is_set(2),
            // The largest has room for more than one window of a mapping.
            segment_bytes: short.then(|| [800, 1_500, 9_000][(seed % 3) as usize]),
            threads: short && is_set(4),
            late: short && is_set(1),
            bumps_epochs: is_set(5),
        }
    }

    pub(super) fn protocol(self) -> Protocol {
        if self.bumps_epochs { Protocol::EpochBump } else { Protocol::Classic }
    }

    pub(super) fn is_short(self) -> bool {
        self.segment_bytes.is_some()
    }
}

/// A broker and what drives it.
pub(in crate::broker::tests) struct Incarnation {
    pub(in crate::broker::tests) broker: Arc<Broker>,
    ways: Ways,
    local: LocalSet,
    runtime: Runtime,
}

impl Incarnation {
    /// Opens a broker and waits until all of it is recovered.
    pub(super) fn open(disk: Arc<dyn Disk>, dir: &Path, ways: Ways) -> Result<Self, String> {
        let now = Self::begin(disk, dir, ways)?;
        let recovery = now.broker.replicas().recovery();
        assert!(recovery.wait(Duration::from_secs(60)), "{:?}", recovery.progress());
        now.shorten_segments();
        Ok(now)
    }

    /// Opens a broker.
    pub(in crate::broker::tests) fn begin(
        disk: Arc<dyn Disk>,
        dir: &Path,
        ways: Ways,
    ) -> Result<Self, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let entered = runtime.enter();
        let background = if ways.threads { Background::new(beside) } else { Background::default() };
        let broker = Broker::open_on((disk, background), config(dir, ways), &[]);
        let broker = broker.map_err(|error| error.to_string())?;
        drop(entered);
        Ok(Self { broker, ways, local: LocalSet::new(), runtime })
    }

    pub(in crate::broker::tests) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.local.block_on(&self.runtime, work)
    }

    /// Starts the tasks that end transactions and repeat failed work.
    pub(in crate::broker::tests) fn run_transactions(&self) {
        self.local.spawn_local(self.broker.transactions().clone().run());
        let clock = self.broker.coordinators().clone();
        self.local.spawn_local(async move { clock.txns().run_clock().await });
    }

    /// Shortens the segments of new logs below the minimum that a topic's configuration permits.
    pub(super) fn shorten_segments(&self) {
        let Some(segment_bytes) = self.ways.segment_bytes else { return };
        for partition in self.broker.replicas().partitions().all() {
            let shorten = |config: &LogConfig| LogConfig { segment_bytes, ..config.clone() };
            partition.lane().with_writer(|writer| writer.set_config(shorten(writer.config())));
        }
    }

    /// Stops the broker cleanly.
    pub(in crate::broker::tests) fn close(self) {
        self.broker.coordinators().unload();
        self.broker.close();
    }
}

fn config(dir: &Path, ways: Ways) -> BrokerConfig {
    let durability = if ways.durable { "fdatasync" } else { "page-cache" };
    let append = if ways.mapped { "mapped" } else { "pwrite" };
    let flags = [
        format!("log.dirs={}", dir.display()),
        format!("levada.ack.durability={durability}"),
        format!("levada.log.append={append}"),
        // One of them may be held, on any machine.
        "num.recovery.threads.per.data.dir=2".to_owned(),
        "offsets.topic.num.partitions=2".to_owned(),
        "transaction.state.log.num.partitions=1".to_owned(),
        // As long as it can be: a start forgets producers by the time of their last batch.
        format!("producer.id.expiration.ms={}", i32::MAX),
        // An index has room for a few entries, one for each batch: segments are short.
        "log.index.interval.bytes=1".to_owned(),
        "log.index.size.max.bytes=96".to_owned(),
        format!("log.segment.delete.delay.ms={}", if ways.late { 600_000 } else { 0 }),
        format!("log.cleaner.delete.retention.ms={}", if ways.late { 0 } else { 86_400_000 }),
        "log.cleaner.min.cleanable.ratio=0".to_owned(),
        // Each round of housekeeping takes a snapshot of the metadata, and nothing older is kept.
        "metadata.log.max.record.bytes.between.snapshots=1".to_owned(),
        "metadata.max.retention.bytes=1".to_owned(),
    ];
    BrokerConfig::load(&Sources::flags(flags)).unwrap()
}

/// Work of a broker on a recorded disk, and the facts that must survive a crash.
pub(super) struct Life {
    pub(super) recorder: Arc<Recorder>,
    pub(super) facts: Facts,
    dir: PathBuf,
    ways: Ways,
    now: Option<Incarnation>,
    random: StdRng,
    /// Next sequence number by producer, epoch, topic and partition.
    sequences: HashMap<(i64, i16, Uuid, i32), i32>,
    /// The last batch of each producer in a partition of a topic, and where it went.
    sent: BTreeMap<(usize, i32, i64), (BytesMut, Appended)>,
    transactions: HashMap<String, transactions::Owned>,
    written: u64,
}

const FIRST: &str = "first";
/// Age of some batches: older than topics keep them, and not so old that their producers expire.
const OLD_MS: i64 = 20 * 86_400_000;

impl Life {
    /// Lives to the end, which is no clean one.
    pub(super) fn of(dir: &Path, seed: u64, ways: Ways, steps: usize) -> Self {
        let recorder = Arc::new(Recorder::new(dir));
        let mut life = Self {
            recorder,
            facts: Facts::default(),
            dir: dir.to_owned(),
            ways,
            now: None,
            random: StdRng::seed_from_u64(seed),
            sequences: HashMap::new(),
            sent: BTreeMap::new(),
            transactions: HashMap::new(),
            written: 0,
        };
        life.start();
        life.create(FIRST, 2, Policy::Delete);
        life.create("keys", 1, Policy::Compact);
        for topic in [OFFSETS_TOPIC, TRANSACTIONS_TOPIC] {
            let now = life.now();
            now.run(now.broker.controller().ensure_internal_topic(topic)).unwrap();
        }
        life.now().shorten_segments();
        for _ in 0..steps {
            let event = Event::draw(ways.is_short(), &mut life.random);
            if life.have(event) {
                life.facts.happened.note(event);
            }
        }
        life.now = None;
        life.facts.happened.see(&life.recorder.ops());
        life
    }

    fn now(&self) -> &Incarnation {
        self.now.as_ref().expect("it runs")
    }

    fn start(&mut self) {
        let now = Incarnation::open(self.recorder.clone(), &self.dir, self.ways).unwrap();
        now.run_transactions();
        self.now = Some(now);
    }

    /// Has something happen; returns whether it could, and had the effect that it is for.
    fn have(&mut self, event: Event) -> bool {
        match event {
            Event::Produce => self.produce(),
            Event::Retry => self.retry(),
            Event::Commit => self.transaction(Some(true)),
            Event::Abort => self.transaction(Some(false)),
            Event::LeaveOpen => self.transaction(None),
            Event::CommitOffset => self.commit(),
            Event::Create => self.create_another(),
            Event::Delete => self.delete().is_some(),
            Event::Recreate => self.recreate(),
            Event::Grow => self.grow(),
            Event::Configure => self.configure(),
            Event::KeepHouse => self.keep_house(),
            Event::Flush => self.flush(),
            Event::ExpireByAge => self.expire(),
            Event::ExpireBySize => self.expire_by_size(),
            Event::DeleteRecords => self.delete_records(),
            Event::Compact => self.compact(),
            Event::Restart => {
                self.now.take().expect("it runs").close();
                self.start();
                self.note_checkpoints();
                true
            }
            Event::Die => {
                self.now = None;
                self.start();
                true
            }
        }
    }

    /// Does something, and notes between which changes.
    fn span<T>(&mut self, act: impl FnOnce(&mut Self) -> T) -> (T, Span) {
        let began = self.recorder.count();
        let done = act(self);
        (done, Span { began, acknowledged: self.recorder.count() })
    }

    /// Has the broker do something that it does beside its clients, with some of whom it has to do
    /// meanwhile.
    fn beside<T: 'static>(&mut self, work: impl Future<Output = T> + 'static) -> T {
        let now = self.now();
        let job = now.local.spawn_local(work);
        if self.ways.threads {
            // The life begins.
            now.run(tokio::task::yield_now());
            for _ in 0..self.random.random_range(0..5) {
                let event = match self.random.random_range(0..10) {
                    0..6 => Event::Produce,
                    6 => Event::CommitOffset,
                    7 => Event::Commit,
                    8 => Event::Recreate,
                    _ => Event::Delete,
                };
                self.have(event);
            }
        }
        self.now().run(job).unwrap()
    }

    fn create(&mut self, name: &str, partitions: i32, policy: Policy) {
        let topic = NewTopic {
            name: name.to_owned(),
            partitions,
            replication_factor: 1,
            configs: vec![("cleanup.policy".to_owned(), Some(policy.name().to_owned()))],
            ..NewTopic::default()
        };
        let (id, created) = self.span(|life| {
            let now = life.now();
            let created = now
                .run(now.broker.controller().create_topics(vec![topic], MutationQuota::default(), false))
                .pop()
                .unwrap();
            created.unwrap_or_else(|failure| panic!("{failure:?}")).topic_id
        });
        self.now().shorten_segments();
        self.facts.topics.push(TopicFact {
            name: name.to_owned(),
            id,
            policy,
            created,
            deleted: None,
            grown: vec![(partitions, created)],
            configured: Vec::new(),
            batches: Vec::new(),
            starts: Vec::new(),
            kept_starts: Vec::new(),
            flushed: Vec::new(),
        });
    }

    fn create_another(&mut self) -> bool {
        // A name may come back, with another id.
        let name = format!("other{}", self.random.random_range(0..3));
        let is_free = self.living().all(|at| self.facts.topics[at].name != name);
        if is_free {
            self.create_some(&name);
        }
        is_free
    }

    fn create_some(&mut self, name: &str) {
        let partitions = self.random.random_range(1..3);
        let policy = match self.random.random_range(0..4) {
            0 if self.ways.is_short() => Policy::Compact,
            1 if self.ways.is_short() => Policy::Both,
            _ => Policy::Delete,
        };
        self.create(name, partitions, policy);
    }

    fn recreate(&mut self) -> bool {
        let deleted = self.delete();
        if let Some(at) = deleted {
            let name = self.facts.topics[at].name.clone();
            self.create_some(&name);
        }
        deleted.is_some()
    }

    fn living(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.facts.topics.len()).filter(|at| self.lives(*at))
    }

    fn lives(&self, at: usize) -> bool {
        self.facts.topics[at].deleted.is_none()
    }

    fn pick(&mut self) -> usize {
        self.pick_of(|_| true)
    }

    /// One of the topics that can lose records: the first always can.
    fn pick_to_shorten(&mut self) -> usize {
        self.pick_of(Policy::deletes)
    }

    fn pick_of(&mut self, wanted: impl Fn(Policy) -> bool) -> usize {
        let living: Vec<usize> = self.living().filter(|at| wanted(self.facts.topics[*at].policy)).collect();
        living[self.random.random_range(0..living.len())]
    }

    fn pick_partition(&mut self, topic: usize) -> i32 {
        let count = self.facts.topics[topic].grown.last().unwrap().0;
        self.random.random_range(0..count)
    }

    /// Deletes the oldest topic but the first two; returns which.
    fn delete(&mut self) -> Option<usize> {
        let at = self.living().find(|at| *at > 1)?;
        let key = TopicKey { name: Some(self.facts.topics[at].name.clone()), topic_id: Uuid::ZERO };
        let ((), deleted) = self.span(|life| {
            let now = life.now();
            let (_, deleted) = now
                .run(now.broker.controller().delete_topics(vec![key], MutationQuota::default()))
                .pop()
                .unwrap();
            deleted.unwrap_or_else(|failure| panic!("{failure:?}"));
        });
        self.facts.topics[at].deleted = Some(deleted);
        Some(at)
    }

    fn grow(&mut self) -> bool {
        let at = self.pick();
        let count = self.facts.topics[at].grown.last().unwrap().0 + 1;
        if at == 1 || count > 4 {
            return false;
        }
        let more = MorePartitions { topic: self.facts.topics[at].name.clone(), count, assignments: None };
        let ((), grown) = self.span(|life| {
            let now = life.now();
            let (_, grown) = now
                .run(now.broker.controller().create_partitions(vec![more], MutationQuota::default(), false))
                .pop()
                .unwrap();
            grown.unwrap_or_else(|failure| panic!("{failure:?}"));
        });
        self.now().shorten_segments();
        self.facts.topics[at].grown.push((count, grown));
        true
    }

    fn configure(&mut self) -> bool {
        let at = self.pick();
        let value = self.random.random_range(1_000_000_000..2_000_000_000_u64).to_string();
        self.set(at, "retention.ms", value);
        true
    }

    fn set(&mut self, at: usize, key: &'static str, value: String) {
        let resource = ConfigResource::topic(&*self.facts.topics[at].name);
        let change = AlterConfig { key: key.to_owned(), change: ConfigChange::Set(value.clone()) };
        let ((), configured) = self.span(|life| {
            let now = life.now();
            let changes = ConfigChanges::Single(vec![(resource, vec![change])]);
            let changed = now.run(now.broker.controller().change_configs(changes, false)).pop().unwrap();
            changed.unwrap_or_else(|failure| panic!("{failure:?}"));
        });
        self.now().shorten_segments();
        self.facts.topics[at].configured.push((key, value, configured));
    }

    fn produce(&mut self) -> bool {
        let at = self.pick();
        let partition = self.pick_partition(at);
        let producer =
            ProducerIdentity { producer_id: 9_000 + self.random.random_range(0..3), producer_epoch: 0 };
        self.append(at, partition, producer, None);
        true
    }

    /// A producer that has had no response asks again, and has the one it should have had.
    fn retry(&mut self) -> bool {
        let living: Vec<_> = self.sent.keys().filter(|(at, ..)| self.lives(*at)).copied().collect();
        if living.is_empty() {
            return false;
        }
        let key @ (at, index, _) = living[self.random.random_range(0..living.len())];
        let (bytes, before) = self.sent[&key].clone();
        let now = self.now();
        let partition = now.broker.replicas().partition_by_id(self.facts.topics[at].id, index).unwrap();
        if before.base_offset < partition.log().log_start() {
            return false;
        }
        let again =
            now.run(async { partition.append(Append::client(bytes), now_ms()).wait().await }).unwrap();
        assert!(again.duplicate, "{key:?} is written again: {again:?}");
        assert_eq!((again.base_offset, again.last_offset), (before.base_offset, before.last_offset));
        true
    }

    /// One batch, in a transaction or outside.
    fn append(
        &mut self,
        at: usize,
        index: i32,
        producer: ProducerIdentity,
        transaction: Option<(&str, usize)>,
    ) {
        let topic = self.facts.topics[at].id;
        let ProducerIdentity { producer_id, producer_epoch } = producer;
        let sequence = *self.sequences.entry((producer_id, producer_epoch, topic, index)).or_default();
        let mut batch = Builder::new().producer(producer_id, producer_epoch, sequence);
        if transaction.is_some() {
            batch = batch.transactional();
        }
        let (key, value, records) = self.records(at);
        let is_old = self.ways.is_short() && self.random.random_bool(0.6);
        let timestamp = now_ms() - if is_old { OLD_MS } else { 0 };
        for _ in 0..records {
            batch.push(timestamp, Some(&key), value.as_deref());
        }
        *self.sequences.get_mut(&(producer_id, producer_epoch, topic, index)).unwrap() += records;
        let last_sequence = sequence + records - 1;
        let protocol = self.ways.protocol();
        let bytes = batch.build().unwrap();
        let (appended, span) = self.span(|life| {
            let now = life.now();
            let partition = now.broker.replicas().partition_by_id(topic, index).unwrap();
            now.run(async {
                let submitted = match transaction {
                    None => partition.append(Append::client(bytes.clone()), now_ms()),
                    Some((transactional_id, _)) => {
                        let claim = Membership { transactional_id, producer, protocol };
                        let append = || Append::client(bytes.clone());
                        let broker = &now.broker;
                        transactions::until_taken(|| {
                            broker.transactions().append(&partition, claim, append())
                        })
                        .await
                    }
                };
                submitted.wait().await.unwrap()
            })
        });
        if transaction.is_none() {
            self.sent.insert((at, index, producer_id), (bytes, appended));
        }
        let (base, last) = (appended.base_offset, appended.last_offset);
        let transaction = transaction.map(|(_, number)| number);
        let producer = (producer_id, producer_epoch);
        let batch = BatchFact {
            partition: index,
            base,
            last,
            key,
            value,
            producer,
            last_sequence,
            transaction,
            span,
        };
        self.facts.topics[at].batches.push(batch);
    }

    /// The key and the value of a batch's records, and how many there are.
    fn records(&mut self, at: usize) -> (Vec<u8>, Option<Vec<u8>>, i32) {
        self.written += 1;
        let key = vec![b'a' + self.random.random_range(0..4_u8)];
        let is_large =
            self.ways.segment_bytes.is_some_and(|bytes| bytes > 4_096) && self.random.random_bool(0.15);
        let size = if is_large { 1_000..2_500 } else { 8..120 };
        let mut value = format!("{}:", self.written).into_bytes();
        value.resize(self.random.random_range(size), b'.');
        let compacts = self.facts.topics[at].policy.compacts();
        let is_tombstone = self.ways.is_short() && self.random.random_bool(0.15) && compacts;
        (key, Some(value).filter(|_| !is_tombstone), self.random.random_range(1..4))
    }
}
