//! Operations of a transaction on partitions: verification before its first records, and a marker
//! in every partition at its end. `verification` sends requests to coordinators on other brokers,
//! `markers` sends markers to other brokers.

use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;

use levada_coordination::group::request::EndTxnRequest;
use levada_coordination::group::{GroupError, Producer};
use levada_coordination::txn::event::{Event, MarkerResult, Markers};
use levada_coordination::txn::request::{AddRequest, ProducerIdentity, Protocol, VerifyRequest};
use levada_coordination::txn::{Coordinator, TopicPartition, TxnError, Work};
use levada_log::{Append, Passing, Writer};
use levada_metadata::Metadata;
use levada_process::clock::now_ms;
use levada_process::tasks::finished;
use levada_wire::error_code::{ErrorCode, Failure};
use tokio::sync::RwLockReadGuard;
use tokio::time::Instant;

use crate::controller::Controller;
use crate::coordinator::{Coordinators, Job};
use crate::live_config::LiveConfig;
use crate::peers::PeerRequests;
use crate::replica::submitted::Submitted;
use crate::replica::{OFFSETS_TOPIC, Partition, Replicas, TRANSACTIONS_TOPIC};

mod markers;
mod verification;

use self::markers::{RemoteMarker, RemoteMarkers};
use self::verification::{Question, RemoteVerification};

/// Longest wait of a marker for the replicas in sync, as Kafka's `request.timeout.ms`. The write of
/// a marker begins within the same time.
pub(crate) const MARKER_WAIT: Duration = Duration::from_secs(30);

/// Pause before a marker is retried.
const MARKER_BACKOFF: Duration = Duration::from_millis(100);

/// Pause before a retry for a partition that the former transaction has not quite left
/// (`add.partitions.to.txn.retry.backoff.ms`), and the limit of all retries (`….max.ms`).
const RETRY: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_millis(100);

/// Number of verification requests to a coordinator on another broker during which markers may
/// still be appended; from the next request on, markers wait for its response.
const UNHELD_QUESTIONS: usize = 3;

/// A producer's claim that a transaction of its covers a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Membership<'a> {
    pub(crate) transactional_id: &'a str,
    pub(crate) producer: ProducerIdentity,
    /// Transaction protocol of the client. With [`Protocol::EpochBump`] the claim itself adds the
    /// partition to the transaction.
    pub(crate) protocol: Protocol,
}

/// Transactions in the partitions of this broker.
pub(crate) struct Transactions {
    config: Arc<LiveConfig>,
    replicas: Arc<Replicas>,
    coordinators: Arc<Coordinators>,
    controller: Arc<Controller>,
    metadata: Arc<Metadata>,
    peers: Arc<PeerRequests>,
    markers: Arc<RemoteMarkers>,
    verification: Arc<RemoteVerification>,
}

/// Location of a transaction coordinator.
enum Seat {
    Here,
    /// The coordinator is on this node.
    Node(i32),
}

impl Transactions {
    pub(crate) fn new(
        (config, metadata): (Arc<LiveConfig>, Arc<Metadata>),
        replicas: Arc<Replicas>,
        coordinators: Arc<Coordinators>,
        controller: Arc<Controller>,
    ) -> Self {
        let peers = Arc::new(PeerRequests::new(config.clone(), metadata.clone()));
        let markers = Arc::new(RemoteMarkers::new(config.clone(), metadata.clone(), peers.clone()));
        let verification = Arc::new(RemoteVerification::new(peers.clone()));
        Self { config, replicas, coordinators, controller, metadata, peers, markers, verification }
    }

    /// Requests to other brokers.
    pub(crate) fn peers(&self) -> &PeerRequests {
        &self.peers
    }

    /// Stops all requests to other brokers.
    pub(crate) fn stop(&self) {
        self.peers.stop();
    }

    /// Appends a batch of a transaction whose claim holds. If the partition has records of the
    /// transaction already, no request is sent.
    ///
    /// # Errors
    /// If the claim does not hold: nothing has been appended.
    pub(crate) async fn append(
        &self,
        partition: &Arc<Partition>,
        claim: Membership<'_>,
        append: Append,
    ) -> Result<Submitted, TxnError> {
        let ProducerIdentity { producer_id, producer_epoch } = claim.producer;
        let held = partition.transactions().read().await;
        let has_records = || {
            let look = |writer: &mut Writer| writer.has_open_transaction(producer_id, producer_epoch);
            partition.lane().with_writer(look).unwrap_or(false)
        };
        // A marker of a coordinator's own partition may still be in the lane.
        let is_open = partition.topic() != OFFSETS_TOPIC && has_records();
        if is_open {
            return Ok(partition.append(append, now_ms()));
        }
        drop(held);
        let _held = self.hold(partition, claim).await.inspect_err(|error| {
            if error.is_repeated() {
                partition.log().note_refused(&append.records, Passing::Replicas);
            }
        })?;
        Ok(partition.append(append, now_ms()))
    }

    /// Verifies the claim, and keeps it valid while the result is held: no marker enters the
    /// partition during that time.
    ///
    /// # Errors
    /// If the claim does not hold.
    pub(crate) async fn hold<'a>(
        &self,
        partition: &'a Partition,
        claim: Membership<'_>,
    ) -> Result<RwLockReadGuard<'a, u64>, TxnError> {
        let until = Instant::now() + RETRY_MAX;
        let mut questions = 0;
        loop {
            let held = partition.transactions().read().await;
            let (held, answer) = match self.seat(claim)? {
                Some(Seat::Node(node)) if questions < UNHELD_QUESTIONS => {
                    // A response may take as long as a network does: markers do not wait for it,
                    // and it counts if there was none.
                    questions += 1;
                    let seen = (*held, partition.leadership().leader_epoch());
                    drop(held);
                    let answer = self.verification.ask(node, question(partition, claim)).await;
                    let held = partition.transactions().read().await;
                    let is_overtaken = seen != (*held, partition.leadership().leader_epoch());
                    if answer.is_ok() && is_overtaken {
                        continue;
                    }
                    (held, answer)
                }
                Some(Seat::Node(node)) => {
                    let answer = self.verification.ask(node, question(partition, claim)).await;
                    (held, answer)
                }
                Some(Seat::Here) => {
                    let answer = self.confirm(partition, claim).await;
                    (held, answer)
                }
                None => (held, Ok(())),
            };
            match answer {
                Ok(()) => return Ok(held),
                Err(TxnError::ConcurrentTransactions)
                    if claim.protocol == Protocol::EpochBump && Instant::now() + RETRY < until =>
                {
                    drop(held);
                    tokio::time::sleep(RETRY).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Broker of the coordinator that has to verify a claim; none if none has to.
    fn seat(&self, claim: Membership<'_>) -> Result<Option<Seat>, TxnError> {
        let config = self.config.load();
        if claim.protocol == Protocol::Classic && !config.transactions.verify_partitions {
            return Ok(None);
        }
        let image = self.metadata.image();
        let index = self.coordinators.txns().partition_of(claim.transactional_id);
        let registered = index.and_then(|index| image.topic(TRANSACTIONS_TOPIC)?.partition(index));
        match registered {
            Some(partition) if !partition.has_leader() => Err(TxnError::CoordinatorNotAvailable),
            Some(partition) if partition.leader != config.node_id => Ok(Some(Seat::Node(partition.leader))),
            // Before the topic exists, the coordinators refuse.
            _ => Ok(Some(Seat::Here)),
        }
    }

    /// Sends the request to the coordinator of this broker.
    async fn confirm(&self, partition: &Partition, claim: Membership<'_>) -> Result<(), TxnError> {
        let transactional_id = claim.transactional_id.to_owned();
        let ProducerIdentity { producer_id, producer_epoch } = claim.producer;
        let partitions =
            vec![TopicPartition { topic: partition.topic().to_owned(), partition: partition.index() }];
        if claim.protocol == Protocol::EpochBump {
            let protocol = claim.protocol;
            let add = AddRequest { transactional_id, producer_id, producer_epoch, protocol, partitions };
            return self.coordinators.txns().ask(add).await;
        }
        let verify = VerifyRequest { transactional_id, producer_id, producer_epoch, partitions };
        let missing = self.coordinators.txns().ask(verify).await?.into_iter().flatten().next();
        missing.map_or(Ok(()), Err)
    }

    /// Runs the jobs of the transaction coordinators until the broker stops.
    pub(crate) async fn run(self: Arc<Self>) {
        let Some(mut jobs) = self.coordinators.txns().take_jobs() else { return };
        let work = async {
            while let Some(job) = jobs.recv().await {
                tokio::task::spawn_local(self.clone().work(job));
            }
        };
        tokio::select! {
            () = work => {}
            () = self.markers.clone().run() => {}
        }
    }

    /// Runs a job. A job that panics has failed, and its coordinator requests it again.
    async fn work(self: Arc<Self>, job: Job<Coordinator>) {
        let job = Rc::new(job);
        let own = job.clone();
        let work = async move {
            match own.work() {
                Work::ProducerId => {
                    let found = self.controller.next_producer_id().await;
                    Event::ProducerId(found.map_err(|failure| {
                        tracing::error!(?failure, "cannot allocate a producer id for a transaction");
                        TxnError::CoordinatorLoadInProgress
                    }))
                }
                Work::Markers(id, markers) => {
                    let is_over = Arc::new(own.is_over());
                    Event::MarkersWritten(*id, self.write_markers(markers, is_over).await)
                }
            }
        };
        match finished("work for a transaction coordinator", work).await {
            Ok(Some(ended)) => job.done(ended),
            Ok(None) => {}
            Err(_) => job.done(match job.work() {
                Work::ProducerId => Event::ProducerId(Err(TxnError::CoordinatorLoadInProgress)),
                Work::Markers(id, _) => Event::MarkersWritten(*id, Vec::new()),
            }),
        }
    }

    /// Writes markers until each is written, or has to be requested again.
    async fn write_markers(
        self: &Arc<Self>,
        markers: &Markers,
        is_over: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> Vec<(TopicPartition, MarkerResult)> {
        let end = EndTxnRequest {
            producer: Producer { id: markers.producer_id, epoch: markers.producer_epoch },
            coordinator_epoch: markers.coordinator_epoch,
            commit: markers.commit,
            transaction_version: u8::try_from(markers.transaction_version).unwrap_or(0),
        };
        let mut under_way = Vec::with_capacity(markers.partitions.len());
        for partition in &markers.partitions {
            let (transactions, target, is_over) = (self.clone(), partition.clone(), is_over.clone());
            under_way.push(tokio::task::spawn_local(async move {
                let mut result = transactions.end_in(&target, end, is_over.clone()).await;
                // Another broker may need long to answer for its partition: this partition's result
                // is reported without waiting.
                while result == MarkerResult::Failed && transactions.peers.is_in_use() && !is_over() {
                    tokio::time::sleep(MARKER_BACKOFF).await;
                    result = transactions.end_in(&target, end, is_over.clone()).await;
                }
                (target, result)
            }));
        }
        let mut results = Vec::with_capacity(under_way.len());
        for one in under_way {
            // A task that panicked has written nothing that counts: its partition is tried again.
            results.extend(one.await);
        }
        results
    }

    /// Ends a producer's transaction in a partition of this broker or of another one.
    async fn end_in(
        &self,
        target: &TopicPartition,
        end: EndTxnRequest,
        is_over: Arc<dyn Fn() -> bool + Send + Sync>,
    ) -> MarkerResult {
        let is_elsewhere = self.replicas.is_led_elsewhere(&target.topic, target.partition);
        if is_elsewhere {
            return self.markers.write(RemoteMarker { target: target.clone(), end, is_over }).await;
        }
        let partition = match self.replicas.partition(&target.topic, target.partition) {
            Ok(partition) => partition,
            Err(ErrorCode::UnknownTopicOrPartition) => return MarkerResult::Gone,
            // Offline: the transaction ends there once the partition is back.
            Err(_) => return MarkerResult::Failed,
        };
        match self.write_marker(&partition, end, Instant::now() + MARKER_WAIT).await {
            Ok(()) => MarkerResult::Written,
            Err(error) => failed(&partition, error),
        }
    }

    /// Ends a producer's transaction in one partition of this broker; offsets that were committed
    /// in it become valid, or void. The write begins before `until`.
    ///
    /// # Errors
    /// The log's or the group coordinator's, or `UnknownServerError` for a negative producer id or
    /// epoch, as in Kafka: the marker has not been written. `RequestTimedOut` if the write could
    /// not begin in time, or if the replicas did not have the marker in time.
    pub(crate) async fn write_marker(
        &self,
        partition: &Arc<Partition>,
        end: EndTxnRequest,
        until: Instant,
    ) -> Result<(), ErrorCode> {
        // A control batch without a producer ends no transaction, and stays in the log.
        if end.producer.id < 0 || end.producer.epoch < 0 {
            return Err(ErrorCode::UnknownServerError);
        }
        let mut alone = partition.transactions().write().await;
        // The coordinator may have repeated the marker, and the producer begun its next
        // transaction, which this marker would end.
        if Instant::now() >= until {
            return Err(ErrorCode::RequestTimedOut);
        }
        *alone += 1;
        partition.log().forget_refused(end.producer.id);
        if partition.topic() == OFFSETS_TOPIC {
            // The coordinator writes the marker itself: its memory follows its log. Later commits
            // get after the marker in the lane.
            let (groups, at) = (self.coordinators.groups(), Some(partition.index()));
            let written = groups.submit_at(at, end, GroupError::CoordinatorNotAvailable);
            drop(alone);
            return Ok(written.await?);
        }
        // In this order, as a change of the leadership stores `led` first. A marker of another
        // leader epoch than that of `led` is refused: nothing would wait for its replicas.
        let leader_epoch = partition.leadership().leader_epoch();
        partition.check_leader(leader_epoch)?;
        let led = partition.led();
        if led.as_ref().is_some_and(|led| led.shortage().is_some()) {
            return Err(ErrorCode::NotEnoughReplicas);
        }
        let marker = end.append(now_ms()).expect("a batch of one small record can be built");
        let append = Append { leader_epoch, ..marker };
        // A batch that came before the marker is in the log would find the transaction open, and
        // open it again after the marker.
        let submitted = partition.append(append, now_ms()).committed(led, || Instant::now() + MARKER_WAIT);
        let written = submitted.written().await;
        drop(alone);
        written.wait().await.map(drop).map_err(|error| Failure::from(error).code)
    }
}

/// Sequence number of the first record of a checked batch.
fn question(partition: &Partition, claim: Membership<'_>) -> Question {
    Question {
        transactional_id: claim.transactional_id.to_owned(),
        producer: claim.producer,
        adds: claim.protocol == Protocol::EpochBump,
        partition: TopicPartition { topic: partition.topic().to_owned(), partition: partition.index() },
    }
}

fn failed(partition: &Partition, error: ErrorCode) -> MarkerResult {
    // The broker retries ten times a second.
    if partition.take_marker_warning(now_ms()) {
        tracing::warn!(
            partition = partition.name(),
            error = error.name(),
            "cannot write a transaction marker; the broker retries"
        );
    }
    match error {
        ErrorCode::InvalidProducerEpoch | ErrorCode::TransactionCoordinatorFenced => MarkerResult::Fenced,
        _ => MarkerResult::Failed,
    }
}
