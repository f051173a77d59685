//! Writes to the metadata topic, by the leader of the metadata partition, which is this broker or
//! another one. A record takes effect once this broker has read it back.

use std::time::Duration;

use bytes::BytesMut;
use levada_base::Append;
use levada_base::batch::Builder;
use levada_process::blocking::off_shard;
use levada_process::clock::now_ms;
use levada_tiered::record::{METADATA_TOPIC, encode};
use levada_tiered::{RemoteRecord, SegmentUpdate};
use levada_wire::api::controller;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use levada_wire::messages::{ProduceRequest, ProduceResponse};
use std::sync::Arc;
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::feed::Origin;
use super::partition::Applied;
use super::{NotReady, RemotePartition, Tiers};
use crate::peers::{Peer, Subject};

/// Time that the replicas in sync get for a record.
const PATIENCE: Duration = Duration::from_secs(20);
/// Pause before the metadata partition is read again, after its leader has changed.
const READ_PAUSE: Duration = Duration::from_millis(100);
/// The first version of Produce that names topics by id.
const ID_VERSION: i16 = 13;
const ACKS_ALL: i16 = -1;

/// A record that did not get into the metadata topic, or did perhaps.
#[derive(Debug, thiserror::Error)]
pub(super) enum PublishError {
    /// The leader did not take it.
    #[error("cannot write to {METADATA_TOPIC}, partition {partition}: {}", code.name())]
    Refused {
        /// Partition of the metadata topic.
        partition: i32,
        /// Error of the leader.
        code: ErrorCode,
    },
    /// The leader did not respond, or the record could not be read back in time.
    #[error("{METADATA_TOPIC}, partition {partition}, did not store a record within {} s", PATIENCE.as_secs())]
    TimedOut {
        /// Partition of the metadata topic.
        partition: i32,
    },
    /// The metadata is read again after an election, and may lack the record.
    #[error(
        "{METADATA_TOPIC}, partition {partition}, is read again, because it has lost records in an election"
    )]
    ReadAgain {
        /// Partition of the metadata topic.
        partition: i32,
    },
    /// The metadata has not been read to its end.
    #[error(transparent)]
    NotReady(#[from] NotReady),
    /// A field does not fit into the record.
    #[error("cannot encode a record of {METADATA_TOPIC}: {0}")]
    Encoding(String),
}

impl Tiers {
    /// Notes the next state of a segment. A segment that is in the state already, or is deleted,
    /// gets no record.
    pub(super) async fn note_state(
        self: &Arc<Self>,
        partition: &Arc<RemotePartition>,
        update: SegmentUpdate,
    ) -> Result<(), PublishError> {
        let known = match partition.state_of(update.id.id) {
            // The metadata is being read again.
            Err(_) => {
                let (own, feed) = (self.clone(), partition.feed());
                off_shard(move || own.read_feed(feed, Origin::Leader)).await;
                partition.state_of(update.id.id)?
            }
            Ok(known) => known,
        };
        let Some(known) = known else { return Ok(()) };
        if known == update.state {
            return Ok(());
        }
        self.publish(partition, RemoteRecord::Update(update)).await
    }

    /// Writes a record, waits until the replicas in sync have it, and reads it back.
    pub(super) async fn publish(
        self: &Arc<Self>,
        partition: &Arc<RemotePartition>,
        record: RemoteRecord,
    ) -> Result<(), PublishError> {
        let (feed, rereads) = (partition.feed(), partition.applied().rereads);
        let encoding = |error: &dyn std::fmt::Display| PublishError::Encoding(error.to_string());
        let value = encode(&record).map_err(|error| encoding(&error))?;
        let mut builder = Builder::new();
        builder.push(now_ms(), None, Some(&value));
        let records = builder.build().map_err(|error| encoding(&error))?;
        let written = match self.replicas.partition(METADATA_TOPIC, feed) {
            Ok(own) if own.leadership().is_leader() => self.append(&own, records).await,
            _ => self.forward(feed, records).await,
        };
        let end = match written {
            Ok(end) => end,
            Err(ErrorCode::RequestTimedOut) => return Err(PublishError::TimedOut { partition: feed }),
            Err(code) => return Err(PublishError::Refused { partition: feed, code }),
        };
        self.read_back(partition, Applied { end, rereads }).await
    }

    /// Reads the metadata partition from its leader, until the partition has the records that are
    /// wanted.
    async fn read_back(
        self: &Arc<Self>,
        partition: &Arc<RemotePartition>,
        wanted: Applied,
    ) -> Result<(), PublishError> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let (own, feed) = (self.clone(), partition.feed());
            off_shard(move || own.read_feed(feed, Origin::Leader)).await;
            let applied = partition.applied();
            if applied.rereads != wanted.rereads {
                return Err(PublishError::ReadAgain { partition: partition.feed() });
            }
            if applied.end >= wanted.end {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(PublishError::TimedOut { partition: partition.feed() });
            }
            tokio::time::sleep(READ_PAUSE).await;
        }
    }

    /// Appends a batch to a partition that this broker leads; returns the next offset.
    async fn append(
        &self,
        own: &Arc<crate::replica::Partition>,
        records: BytesMut,
    ) -> Result<i64, ErrorCode> {
        own.check_leader(-1)?;
        if own.shortage().is_some() {
            return Err(ErrorCode::NotEnoughReplicas);
        }
        let leader_epoch = own.leadership().leader_epoch();
        // Before the append: a role that changes during the append ends this leadership.
        let led = own.led();
        let batch = Append { leader_epoch, ..Append::client(records) };
        let submitted = own.append(batch, now_ms()).committed(led, || Instant::now() + PATIENCE);
        let appended = tokio::select! {
            biased;
            result = submitted.wait() => result.map_err(|error| Failure::from(error).code)?,
            () = own.lane().waits_in_vain() => return Err(ErrorCode::NotLeaderOrFollower),
        };
        Ok(appended.last_offset + 1)
    }

    /// Sends a batch to another broker, which appends it; returns the next offset.
    async fn forward(&self, index: i32, records: BytesMut) -> Result<i64, ErrorCode> {
        let image = self.metadata.image();
        let topic = image.topic(METADATA_TOPIC).ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let registered = topic.partition(index).filter(|found| found.has_leader());
        let leader = registered.ok_or(ErrorCode::LeaderNotAvailable)?.leader;
        if leader == self.node_id() {
            return Err(ErrorCode::NotLeaderOrFollower);
        }
        let (topic_id, (sender, answer)) = (topic.id(), oneshot::channel());
        let call = move |peer: Option<Peer<'_>>| {
            let request = |version| request(version, (topic_id, index), records);
            let response = peer.and_then(|peer| peer.ask(controller::PRODUCE, request));
            // The attempt may have been given up.
            let _ = sender.send(response.map(|response| result(&response)));
        };
        self.transactions.peers().call(leader, Subject::RemoteSegments, Box::new(call));
        answer.await.ok().flatten().unwrap_or(Err(ErrorCode::RequestTimedOut))
    }
}

fn request(version: i16, (topic_id, index): (levada_wire::Uuid, i32), records: BytesMut) -> ProduceRequest {
    let mut partition = PartitionProduceData::default();
    (partition.index, partition.records) = (index, Some(records.freeze()));
    let mut topic = TopicProduceData::default();
    if version >= ID_VERSION {
        topic.topic_id = topic_id;
    } else {
        topic.name = METADATA_TOPIC.into();
    }
    topic.partition_data = vec![partition];
    let mut request = ProduceRequest::default();
    (request.acks, request.topic_data) = (ACKS_ALL, vec![topic]);
    request.timeout_ms = i32::try_from(PATIENCE.as_millis()).unwrap_or(i32::MAX);
    request
}

/// Offset after the only record.
fn result(response: &ProduceResponse) -> Result<i64, ErrorCode> {
    let partition = response.responses.first().and_then(|topic| topic.partition_responses.first());
    let partition = partition.ok_or(ErrorCode::UnknownServerError)?;
    match ErrorCode::of_code(partition.error_code).unwrap_or(ErrorCode::UnknownServerError) {
        ErrorCode::None => Ok(partition.base_offset + 1),
        code => Err(code),
    }
}
