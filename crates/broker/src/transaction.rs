//! Operations of a transaction on partitions: verification before its first records, and a marker
//! in every partition at its end.

use std::sync::Arc;
use std::time::Duration;

use levada_log::Append;
use tokio::sync::RwLockReadGuard;
use tokio::time::Instant;

use crate::clock::{now_ms, steady_ms};
use crate::config::LiveConfig;
use crate::controller::Controller;
use crate::coordinator::Coordinators;
use crate::error_code::{ErrorCode, Failure};
use crate::group::request::EndTxnRequest;
use crate::group::{GroupError, Producer};
use crate::log_pace::LogPace;
use crate::replica::lane::Submitted;
use crate::replica::{OFFSETS_TOPIC, Partition, Replicas, TRANSACTIONS_TOPIC};
use crate::txn::event::{Event, MarkerResult, Markers};
use crate::txn::request::{AddRequest, ProducerIdentity, Protocol, VerifyRequest};
use crate::txn::{TopicPartition, TxnError, Work};

/// Longest wait of a marker for the replicas in sync, as Kafka's `request.timeout.ms`.
const MARKER_WAIT: Duration = Duration::from_secs(30);

/// A partition that the transaction before it has not quite left is asked again after so long
/// (`add.partitions.to.txn.retry.backoff.ms`), and for so long in all (`….max.ms`).
const RETRY: Duration = Duration::from_millis(20);
const RETRY_MAX: Duration = Duration::from_millis(100);

/// A producer's claim that a transaction of its covers a partition.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Membership<'a> {
    pub(crate) transactional_id: &'a str,
    pub(crate) producer: ProducerIdentity,
    /// With [`Protocol::EpochBump`] the claim itself makes the partition part of the transaction.
    pub(crate) protocol: Protocol,
}

/// Transactions in the partitions of this broker.
pub(crate) struct Transactions {
    config: Arc<LiveConfig>,
    replicas: Arc<Replicas>,
    coordinators: Arc<Coordinators>,
    controller: Arc<Controller>,
    /// Pace of log lines about coordinators that are not asked.
    unasked: LogPace,
}

/// Log lines at once about coordinators that are not asked.
const UNASKED_AT_ONCE: u32 = 10;

impl Transactions {
    pub(crate) fn new(
        config: Arc<LiveConfig>,
        replicas: Arc<Replicas>,
        coordinators: Arc<Coordinators>,
        controller: Arc<Controller>,
    ) -> Self {
        Self { config, replicas, coordinators, controller, unasked: LogPace::of(UNASKED_AT_ONCE) }
    }

    /// Appends a batch of a transaction whose claim holds. If the partition has records of the
    /// transaction already, nobody is asked.
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
        let is_open = partition
            .lane()
            .with_writer(|writer| writer.has_open_transaction(producer_id, producer_epoch))
            .unwrap_or(false);
        if is_open {
            return Ok(partition.append(append, now_ms()));
        }
        drop(held);
        let _held = self.hold(partition, claim).await?;
        Ok(partition.append(append, now_ms()))
    }

    /// Makes sure that the claim holds, and for as long as the answer is kept: no marker gets into
    /// the partition meanwhile.
    ///
    /// # Errors
    /// If the claim does not hold.
    pub(crate) async fn hold<'a>(
        &self,
        partition: &'a Partition,
        claim: Membership<'_>,
    ) -> Result<RwLockReadGuard<'a, ()>, TxnError> {
        let until = Instant::now() + RETRY_MAX;
        loop {
            let held = partition.transactions().read().await;
            match self.confirm(partition, claim).await {
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

    async fn confirm(&self, partition: &Partition, claim: Membership<'_>) -> Result<(), TxnError> {
        let transactional_id = claim.transactional_id.to_owned();
        let ProducerIdentity { producer_id, producer_epoch } = claim.producer;
        let coordinator = self.coordinators.txns().partition_of(&transactional_id);
        let is_asked =
            claim.protocol == Protocol::EpochBump || self.config.load().transactions.verify_partitions;
        if is_asked
            && coordinator.is_some_and(|index| self.replicas.is_led_elsewhere(TRANSACTIONS_TOPIC, index))
        {
            self.tell_unasked(partition);
            return Err(TxnError::TransactionAbortable);
        }
        let partitions =
            vec![TopicPartition { topic: partition.topic().to_owned(), partition: partition.index() }];
        if claim.protocol == Protocol::EpochBump {
            let protocol = claim.protocol;
            let add = AddRequest { transactional_id, producer_id, producer_epoch, protocol, partitions };
            return self.coordinators.txns().ask(add).await;
        }
        if !self.config.load().transactions.verify_partitions {
            return Ok(());
        }
        let verify = VerifyRequest { transactional_id, producer_id, producer_epoch, partitions };
        let missing = self.coordinators.txns().ask(verify).await?.into_iter().flatten().next();
        missing.map_or(Ok(()), Err)
    }

    /// Logs that a coordinator on another broker cannot be asked, unless that was logged a moment
    /// ago.
    fn tell_unasked(&self, partition: &Partition) {
        if let Some(left_out) = self.unasked.admit(steady_ms()) {
            tracing::warn!(
                partition = partition.name(),
                left_out,
                "refused a transaction: its coordinator is on another broker, which Levada does not ask yet"
            );
        }
    }

    /// Does what the transaction coordinators have to wait for, until the broker stops.
    pub(crate) async fn run(self: Arc<Self>) {
        let Some(mut jobs) = self.coordinators.txns().take_jobs() else { return };
        while let Some(job) = jobs.recv().await {
            let transactions = self.clone();
            tokio::task::spawn_local(async move {
                let ended = match job.work() {
                    Work::ProducerId => {
                        let found = transactions.controller.next_producer_id().await;
                        Event::ProducerId(found.map_err(|failure| {
                            tracing::error!(?failure, "cannot allocate a producer id for a transaction");
                            TxnError::CoordinatorLoadInProgress
                        }))
                    }
                    Work::Markers(id, markers) => {
                        Event::MarkersWritten(*id, transactions.write_markers(markers).await)
                    }
                };
                job.done(ended);
            });
        }
    }

    async fn write_markers(self: &Arc<Self>, markers: &Markers) -> Vec<(TopicPartition, MarkerResult)> {
        let end = EndTxnRequest {
            producer: Producer { id: markers.producer_id, epoch: markers.producer_epoch },
            coordinator_epoch: markers.coordinator_epoch,
            commit: markers.commit,
            transaction_version: u8::try_from(markers.transaction_version).unwrap_or(0),
        };
        let mut under_way = Vec::with_capacity(markers.partitions.len());
        for partition in &markers.partitions {
            let (transactions, target) = (self.clone(), partition.clone());
            under_way.push(tokio::task::spawn_local(async move {
                let is_elsewhere = transactions.replicas.is_led_elsewhere(&target.topic, target.partition);
                let partition = match transactions.replicas.partition(&target.topic, target.partition) {
                    Ok(partition) => partition,
                    Err(ErrorCode::UnknownTopicOrPartition) if !is_elsewhere => {
                        return (target, MarkerResult::Gone);
                    }
                    // Offline, or led by another broker since: the transaction ends there once the
                    // partition is back.
                    Err(_) => return (target, MarkerResult::Failed),
                };
                let result = match transactions.write_marker(&partition, end).await {
                    Ok(()) => MarkerResult::Written,
                    Err(error) => failed(&partition, error),
                };
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

    /// Ends a producer's transaction in one partition; offsets that were committed in it become
    /// valid, or void.
    ///
    /// # Errors
    /// The log's or the group coordinator's: the marker has not been written.
    pub(crate) async fn write_marker(
        &self,
        partition: &Arc<Partition>,
        end: EndTxnRequest,
    ) -> Result<(), ErrorCode> {
        let alone = partition.transactions().write().await;
        if partition.topic() == OFFSETS_TOPIC {
            // The coordinator writes the marker itself: its memory follows its log.
            let (groups, at) = (self.coordinators.groups(), Some(partition.index()));
            return Ok(groups.ask_at(at, end, GroupError::CoordinatorNotAvailable).await?);
        }
        let led = partition.led();
        if led.as_ref().is_some_and(|led| led.shortage().is_some()) {
            return Err(ErrorCode::NotEnoughReplicas);
        }
        let append = end.append(now_ms()).expect("a batch of one small record can be built");
        // A batch that came before the marker is in the log would find the transaction open, and
        // open it again behind the marker.
        let submitted = partition.append(append, now_ms()).committed(led, || Instant::now() + MARKER_WAIT);
        let written = submitted.written().await;
        drop(alone);
        written.wait().await.map(drop).map_err(|error| Failure::from(error).code)
    }
}

fn failed(partition: &Partition, error: ErrorCode) -> MarkerResult {
    // It is tried again ten times a second.
    if partition.untold_marker(now_ms()) {
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
