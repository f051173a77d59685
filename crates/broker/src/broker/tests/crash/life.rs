//! The life of a broker on a recorded disk: random work of every kind, one thing after the other.

use std::collections::HashMap;
use std::future::Future;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use levada_log::batch::Builder;
use levada_log::disk::Disk;
use levada_log::{Append, Background};
use levada_wire::Uuid;
use rand::rngs::StdRng;
use rand::{RngExt, SeedableRng};
use tokio::runtime::Runtime;
use tokio::task::LocalSet;

use super::facts::{BatchFact, Facts, Span, TopicFact};
use super::recorder::Recorder;
use crate::broker::{Broker, ConfigChanges, Membership};
use crate::config::{BrokerConfig, Sources};
use crate::group::Producer;
use crate::group::request::{CommitPartition, CommitRequest, CommitTopic, TxnCommitRequest};
use crate::metadata::controller::{AlterConfig, ConfigChange, MorePartitions, NewTopic, TopicKey};
use crate::metadata::image::ConfigResource;
use crate::partition::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};
use crate::txn::TxnState;
use crate::txn::coordinator::Described;
use crate::txn::request::{AddRequest, EndRequest, Identity, InitRequest, Protocol};
use crate::txn::{TopicPartition, TxnError};

/// How a broker writes.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::broker::tests) struct Ways {
    /// Acknowledgements wait for the device.
    pub(super) durable: bool,
    /// Records are copied into mappings.
    pub(super) mapped: bool,
}

/// A broker and what drives it.
pub(in crate::broker::tests) struct Incarnation {
    pub(in crate::broker::tests) broker: Arc<Broker>,
    local: LocalSet,
    runtime: Runtime,
}

impl Incarnation {
    /// Opens a broker and waits until all of it is recovered.
    pub(super) fn open(disk: Arc<dyn Disk>, dir: &Path, ways: Ways) -> Result<Incarnation, String> {
        let now = Incarnation::begin(disk, dir, ways)?;
        let recovery = now.broker.recovery();
        assert!(recovery.wait(Duration::from_secs(60)), "{:?}", recovery.progress());
        Ok(now)
    }

    /// Opens a broker.
    pub(in crate::broker::tests) fn begin(
        disk: Arc<dyn Disk>,
        dir: &Path,
        ways: Ways,
    ) -> Result<Incarnation, String> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        let entered = runtime.enter();
        // Nothing is done beside: a seed means one order of changes.
        let broker = Broker::open_on((disk, Background::default()), config(dir, ways), &[]);
        let broker = broker.map_err(|error| error.to_string())?;
        drop(entered);
        Ok(Incarnation { broker, local: LocalSet::new(), runtime })
    }

    pub(in crate::broker::tests) fn run<T>(&self, work: impl Future<Output = T>) -> T {
        self.local.block_on(&self.runtime, work)
    }

    /// From now on what transactions wait for is done, and what failed is tried again.
    pub(super) fn run_transactions(&self) {
        self.local.spawn_local(self.broker.clone().run_transactions());
        let clock = self.broker.clone();
        self.local.spawn_local(async move { clock.txns().run_clock().await });
    }

    /// Stops in order.
    pub(super) fn close(self) {
        self.broker.groups().unload();
        self.broker.txns().unload();
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
        // An index has room for a few entries, one for each batch: segments are short.
        "log.index.interval.bytes=1".to_owned(),
        "log.index.size.max.bytes=96".to_owned(),
        "log.segment.delete.delay.ms=0".to_owned(),
        "log.cleaner.min.cleanable.ratio=0".to_owned(),
    ];
    BrokerConfig::load(&Sources::flags(flags)).unwrap()
}

/// See above.
pub(super) struct Life {
    pub(super) recorder: Arc<Recorder>,
    pub(super) facts: Facts,
    dir: PathBuf,
    ways: Ways,
    now: Option<Incarnation>,
    random: StdRng,
    /// Next sequence number by producer, epoch, topic and partition.
    sequences: HashMap<(i64, i16, Uuid, i32), i32>,
    transactions: HashMap<String, Identity>,
    written: u64,
}

const FIRST: &str = "first";

impl Life {
    /// Lives to the end, which is no clean one.
    pub(super) fn of(dir: &Path, seed: u64, ways: Ways, steps: usize) -> Life {
        let recorder = Arc::new(Recorder::new(dir));
        let mut life = Life {
            recorder,
            facts: Facts::default(),
            dir: dir.to_owned(),
            ways,
            now: None,
            random: StdRng::seed_from_u64(seed),
            sequences: HashMap::new(),
            transactions: HashMap::new(),
            written: 0,
        };
        life.start();
        life.create(FIRST, 2, false);
        life.create("keys", 1, true);
        for topic in [OFFSETS_TOPIC, TRANSACTIONS_TOPIC] {
            let now = life.now();
            now.run(now.broker.ensure_internal_topic(topic)).unwrap();
        }
        for _ in 0..steps {
            life.step();
        }
        life.now = None;
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

    fn step(&mut self) {
        match self.random.random_range(0..100) {
            0..45 => self.produce(),
            45..57 => self.transaction(),
            57..69 => self.commit(),
            69..72 => self.create_another(),
            72..74 => self.delete(),
            74..76 => self.grow(),
            76..79 => self.configure(),
            79..86 => self.keep_house(),
            86..90 => self.delete_records(),
            90..94 => self.compact(),
            94..98 => {
                self.now.take().expect("it runs").close();
                self.start();
            }
            _ => {
                // The process dies, the machine goes on.
                self.now = None;
                self.start();
            }
        }
    }

    /// Does something, and notes between which changes.
    fn span<T>(&mut self, act: impl FnOnce(&mut Life) -> T) -> (T, Span) {
        let began = self.recorder.count();
        let done = act(self);
        (done, Span { began, acknowledged: self.recorder.count() })
    }

    fn create(&mut self, name: &str, partitions: i32, compacted: bool) {
        let configs = match compacted {
            true => vec![("cleanup.policy".to_owned(), Some("compact".to_owned()))],
            false => Vec::new(),
        };
        let topic = NewTopic {
            name: name.to_owned(),
            partitions,
            replication_factor: 1,
            configs,
            ..NewTopic::default()
        };
        let (id, created) = self.span(|life| {
            let now = life.now();
            let created = now.run(now.broker.create_topics(vec![topic], false)).pop().unwrap();
            created.unwrap_or_else(|failure| panic!("{failure:?}")).topic_id
        });
        self.facts.topics.push(TopicFact {
            name: name.to_owned(),
            id,
            compacted,
            created,
            deleted: None,
            grown: vec![(partitions, created)],
            configured: Vec::new(),
            batches: Vec::new(),
            starts: Vec::new(),
        });
    }

    fn create_another(&mut self) {
        let taken: Vec<usize> = self.living().collect();
        // A name may come back, with another id.
        let name = format!("other{}", self.random.random_range(0..3));
        if taken.iter().all(|at| self.facts.topics[*at].name != name) {
            let partitions = self.random.random_range(1..3);
            self.create(&name, partitions, false);
        }
    }

    fn living(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.facts.topics.len()).filter(|at| self.facts.topics[*at].deleted.is_none())
    }

    fn pick(&mut self) -> usize {
        let living: Vec<usize> = self.living().collect();
        living[self.random.random_range(0..living.len())]
    }

    fn pick_partition(&mut self, topic: usize) -> i32 {
        let count = self.facts.topics[topic].grown.last().unwrap().0;
        self.random.random_range(0..count)
    }

    fn delete(&mut self) {
        let others: Vec<usize> = self.living().filter(|at| *at > 1).collect();
        let Some(at) = others.first().copied() else { return };
        let key = TopicKey { name: Some(self.facts.topics[at].name.clone()), topic_id: Uuid::ZERO };
        let ((), deleted) = self.span(|life| {
            let now = life.now();
            let (_, deleted) = now.run(now.broker.delete_topics(vec![key])).pop().unwrap();
            deleted.unwrap_or_else(|failure| panic!("{failure:?}"));
        });
        self.facts.topics[at].deleted = Some(deleted);
    }

    fn grow(&mut self) {
        let at = self.pick();
        let count = self.facts.topics[at].grown.last().unwrap().0 + 1;
        if self.facts.topics[at].compacted || count > 4 {
            return;
        }
        let more = MorePartitions { topic: self.facts.topics[at].name.clone(), count, assignments: None };
        let ((), grown) = self.span(|life| {
            let now = life.now();
            let (_, grown) = now.run(now.broker.create_partitions(vec![more], false)).pop().unwrap();
            grown.unwrap_or_else(|failure| panic!("{failure:?}"));
        });
        self.facts.topics[at].grown.push((count, grown));
    }

    fn configure(&mut self) {
        let at = self.pick();
        let value = self.random.random_range(1_000_000_000..2_000_000_000_u64).to_string();
        let resource = ConfigResource::topic(&*self.facts.topics[at].name);
        let change = AlterConfig { key: "retention.ms".to_owned(), change: ConfigChange::Set(value.clone()) };
        let ((), configured) = self.span(|life| {
            let now = life.now();
            let changes = ConfigChanges::Single(vec![(resource, vec![change])]);
            let changed = now.run(now.broker.change_configs(changes, false)).pop().unwrap();
            changed.unwrap_or_else(|failure| panic!("{failure:?}"));
        });
        self.facts.topics[at].configured.push((value, configured));
    }

    fn produce(&mut self) {
        let at = self.pick();
        let partition = self.pick_partition(at);
        let producer = Identity { producer_id: 9_000 + self.random.random_range(0..3), producer_epoch: 0 };
        self.append(at, partition, producer, None);
    }

    /// One batch, in a transaction or outside.
    fn append(&mut self, at: usize, index: i32, producer: Identity, transactional_id: Option<&str>) {
        self.written += 1;
        let topic = self.facts.topics[at].id;
        let Identity { producer_id, producer_epoch } = producer;
        let sequence = self.sequences.entry((producer_id, producer_epoch, topic, index)).or_default();
        let mut batch = Builder::new().producer(producer_id, producer_epoch, *sequence);
        if transactional_id.is_some() {
            batch = batch.transactional();
        }
        let key = vec![b'a' + self.random.random_range(0..4_u8)];
        let mut value = format!("{}:", self.written).into_bytes();
        value.resize(self.random.random_range(8..120), b'.');
        let records = self.random.random_range(1..4);
        for _ in 0..records {
            batch.push(self.written as i64, Some(&key), Some(&value));
        }
        *sequence += records;
        let append = Append::client(batch.build().unwrap());
        let (appended, span) = self.span(|life| {
            let now = life.now();
            let partition = now.broker.partition_by_id(topic, index).unwrap();
            now.run(async {
                let submitted = match transactional_id {
                    None => partition.append(append, 0),
                    Some(transactional_id) => {
                        let claim = Membership { transactional_id, producer, protocol: Protocol::Classic };
                        now.broker.append_in_transaction(&partition, claim, append).await.unwrap()
                    }
                };
                submitted.wait().await.unwrap()
            })
        });
        let (base, last) = (appended.base_offset, appended.last_offset);
        let is_transactional = transactional_id.is_some();
        let batch = BatchFact { partition: index, base, last, key, value, is_transactional, span };
        self.facts.topics[at].batches.push(batch);
    }

    /// Takes up a transactional id: begins a transaction, writes, and mostly ends it.
    fn transaction(&mut self) {
        let id = format!("t{}", self.random.random_range(0..2));
        self.settle(&id);
        if !self.transactions.contains_key(&id) || self.random.random_bool(0.2) {
            let init = InitRequest {
                transactional_id: id.clone(),
                timeout_ms: 600_000,
                expected: None,
                enable_two_phase_commit: false,
                keep_prepared: false,
            };
            let owner = self.ask(&id, None, init);
            self.transactions.insert(id.clone(), owner);
            self.settle(&id);
        }
        let owner = self.transactions[&id];
        for _ in 0..self.random.random_range(1..3) {
            let at = self.pick();
            let partition = self.pick_partition(at);
            self.add(&id, owner, &self.facts.topics[at].name.clone(), partition);
            self.append(at, partition, owner, Some(&id));
        }
        if self.random.random_bool(0.4) {
            self.commit_in_transaction(&id, owner);
        }
        if self.random.random_bool(0.8) {
            let commit = self.random.random_bool(0.6);
            let end = EndRequest {
                transactional_id: id.clone(),
                producer_id: owner.producer_id,
                producer_epoch: owner.producer_epoch,
                protocol: Protocol::Classic,
                commit,
            };
            self.ask(&id, Some(commit), end);
        }
    }

    fn add(&mut self, id: &str, owner: Identity, topic: &str, partition: i32) {
        let add = AddRequest {
            transactional_id: id.to_owned(),
            producer_id: owner.producer_id,
            producer_epoch: owner.producer_epoch,
            protocol: Protocol::Classic,
            partitions: vec![TopicPartition { topic: topic.to_owned(), partition }],
        };
        self.ask(id, None, add);
    }

    /// Asks the transaction coordinator until it has time.
    fn ask<R: crate::txn::Request + Clone>(
        &mut self,
        id: &str,
        decision: Option<bool>,
        request: R,
    ) -> R::Answer {
        let (answer, span) = self.span(|life| {
            let now = life.now();
            now.run(async {
                loop {
                    match now.broker.txns().ask(request.clone()).await {
                        Ok(answer) => return answer,
                        Err(TxnError::ConcurrentTransactions) => tokio::task::yield_now().await,
                        Err(error) => panic!("{error:?}"),
                    }
                }
            })
        });
        self.facts.transactions.push((id.to_owned(), decision, span));
        answer
    }

    /// Waits until the last transaction has all its markers.
    fn settle(&self, id: &str) {
        settle(self.now(), id);
    }

    fn commit_in_transaction(&mut self, id: &str, owner: Identity) {
        let group = "copier";
        let partition = self.now().broker.groups().partition_of(group);
        self.add(id, owner, OFFSETS_TOPIC, partition);
        let request = TxnCommitRequest {
            group_id: group.to_owned(),
            member_id: String::new(),
            group_instance_id: None,
            generation: -1,
            producer: Producer { id: owner.producer_id, epoch: owner.producer_epoch },
            topics: vec![commit_of(0, self.written as i64)],
        };
        let now = self.now();
        now.run(now.broker.groups().ask(request)).unwrap();
    }

    fn commit(&mut self) {
        let group = format!("g{}", self.random.random_range(0..3));
        let (partition, offset) = (self.random.random_range(0..2), self.random.random_range(0..1_000));
        let request = CommitRequest {
            api_version: 8,
            group_id: group.clone(),
            member_id: String::new(),
            group_instance_id: None,
            generation: -1,
            retention_ms: None,
            topics: vec![commit_of(partition, offset)],
        };
        let ((), span) = self.span(|life| {
            let now = life.now();
            let committed = now.run(now.broker.groups().ask(request)).unwrap();
            assert!(committed.iter().flat_map(|topic| &topic.partitions).all(|(_, error)| error.is_none()));
        });
        self.facts.commits.push((group, partition, offset, span));
    }

    fn keep_house(&mut self) {
        let now = self.now();
        now.run(now.broker.keep_house());
    }

    fn delete_records(&mut self) {
        let at = self.pick();
        if self.facts.topics[at].compacted {
            return;
        }
        let index = self.pick_partition(at);
        let broker = self.now().broker.clone();
        let partition = broker.partition_by_id(self.facts.topics[at].id, index).unwrap();
        let (start, end) = (partition.log().log_start(), partition.log().last_stable());
        let offset = self.random.random_range(start..=end);
        let ((), span) = self.span(|_| {
            let discarded = partition.lane().with_writer(|writer| writer.advance_log_start(offset)).unwrap();
            broker.retire(&partition, discarded.unwrap()).unwrap();
            broker.remove_discarded();
        });
        self.facts.topics[at].starts.push((index, offset, span));
    }

    fn compact(&mut self) {
        let broker = &self.now().broker;
        while let Some(chosen) = broker.choose() {
            broker.compact(&chosen);
        }
        broker.remove_discarded();
    }
}

fn commit_of(index: i32, offset: i64) -> CommitTopic {
    let partitions = vec![CommitPartition { index, offset, leader_epoch: -1, metadata: None }];
    CommitTopic { name: FIRST.to_owned(), topic_id: uuid::Uuid::nil(), partitions }
}

/// Waits until the transaction of an id that was decided has all its markers.
pub(super) fn settle(now: &Incarnation, id: &str) {
    let coordinator = || now.broker.txns().view(id, |one| one.describe(id));
    let is_ending = || {
        let state = coordinator().and_then(Result::ok).map(|described: Described| described.state);
        matches!(state, Some(TxnState::PrepareCommit | TxnState::PrepareAbort))
    };
    now.run(async {
        let ended = async {
            while is_ending() {
                tokio::task::yield_now().await;
            }
        };
        let ended = tokio::time::timeout(Duration::from_secs(60), ended).await;
        assert!(ended.is_ok(), "transaction {id} does not end: {:?}", coordinator());
    });
}
