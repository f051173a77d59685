//! Logs of followers whose leader has moved the next records to remote storage: the remote segment
//! before the leader's local log contains the state of the log after these records. The records
//! stay in remote storage.

use std::sync::Arc;

use levada_cluster::Address;
use levada_cluster::replication::fetcher::FetcherTask;
use levada_cluster::replication::follower::{Outcome, TieredStart};
use levada_log::TieredState;
use levada_log::checkpoint::parse_leader_epochs;
use levada_metadata::uuid;
use levada_process::clock::now_ms;
use levada_remote::{IndexKind, RemoteError};
use levada_tiered::RemoteSegment;
use levada_wire::StrBytes;
use levada_wire::api::controller;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::OffsetForLeaderEpochRequest;
use levada_wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderPartition, OffsetForLeaderTopic,
};

use super::worker::Follow;
use crate::remote_reads::{RemoteFault, RemoteSegments};

/// The reason why the state of a log is not available.
#[derive(Debug, thiserror::Error)]
enum Unbuilt {
    #[error("{0}")]
    Remote(#[from] RemoteFault),
    #[error(
        "the leader refuses OffsetForLeaderEpoch of epoch {epoch} (error {code}, {})",
        ErrorCode::of_code(*code).map_or("unknown", ErrorCode::name)
    )]
    Leader { epoch: i32, code: i16 },
    #[error("the leader at {0} does not respond to OffsetForLeaderEpoch")]
    NoAnswer(Address),
    #[error("the response of the leader at {0} to OffsetForLeaderEpoch lacks the partition")]
    NoPartition(Address),
    #[error("the metadata has no address of the leader, node {0}")]
    NoAddress(i32),
    #[error("the metadata has no topic with id {0}")]
    NoTopic(String),
    #[error("no remote segment has offset {offset} of leader epoch {epoch}; it may be copied soon")]
    NoSegment { epoch: i32, offset: i64 },
    #[error("remote segment {0} has damaged leader epochs: {1}")]
    Epochs(String, String),
}

impl From<RemoteError> for Unbuilt {
    fn from(error: RemoteError) -> Self {
        Self::Remote(error.into())
    }
}

impl Follow {
    /// Begins the log of a task after the remote segments that end before the leader's local log.
    /// Blocks on the leader, on the store and on the disk.
    pub(super) fn rebuild(&mut self, task: &FetcherTask, start: TieredStart) -> Outcome {
        let Some(partition) = self.partitions.get(&task.partition).cloned() else {
            return Outcome::Superseded;
        };
        let Some(remote) = self.rooms.remote.get().cloned() else {
            return Outcome::Refused(ErrorCode::OffsetMovedToTieredStorage.code());
        };
        match self.state_behind(&remote, task, start) {
            Ok(state) => self.rooms.replicas.follower_tasks().begin_behind(
                &partition,
                (task.leader_epoch, task.end),
                &state,
            ),
            Err(error) => {
                if partition.take_replication_warning(now_ms()) {
                    tracing::warn!(
                        partition = partition.name(),
                        leader = self.leader,
                        %error,
                        "cannot get the state of a log from remote storage; the broker repeats the attempt"
                    );
                }
                Outcome::Refused(ErrorCode::UnknownServerError.code())
            }
        }
    }

    fn state_behind(
        &mut self,
        remote: &Arc<dyn RemoteSegments>,
        task: &FetcherTask,
        start: TieredStart,
    ) -> Result<TieredState, Unbuilt> {
        let offset = start.local_start - 1;
        let epoch = self.epoch_before(task, start)?;
        let segment = remote.segment_for(task.partition, epoch, offset)?;
        let segment = segment.ok_or(Unbuilt::NoSegment { epoch, offset })?;
        let store = remote.store()?;
        let read = |kind| Ok::<_, Unbuilt>(store.fetch_index(&segment, kind)?.unwrap_or_default());
        let local_start = segment.end_offset.saturating_add(1);
        let mut epochs = epochs_of(&segment, &read(IndexKind::LeaderEpochs)?)?;
        epochs.retain(|(_, first)| *first < local_start);
        let producers = read(IndexKind::ProducerSnapshot)?;
        Ok(TieredState { log_start: start.log_start, local_start, epochs, producers })
    }

    /// The leader epoch of the last offset before the leader's local log. The first local offset
    /// may be the first of its epoch.
    fn epoch_before(&mut self, task: &FetcherTask, start: TieredStart) -> Result<i32, Unbuilt> {
        if start.epoch == 0 {
            return Ok(0);
        }
        let (topic_id, index) = task.partition;
        let name = self.rooms.metadata.image().topic_by_id(topic_id).map(|topic| topic.name().to_owned());
        let mut partition = OffsetForLeaderPartition::default();
        (partition.partition, partition.current_leader_epoch) = (index, task.leader_epoch);
        partition.leader_epoch = start.epoch - 1;
        let mut topic = OffsetForLeaderTopic::default();
        topic.topic = StrBytes::from(&*name.ok_or_else(|| Unbuilt::NoTopic(uuid::text(topic_id)))?);
        topic.partitions.push(partition);
        let mut request = OffsetForLeaderEpochRequest::default();
        request.replica_id = self.rooms.config.load().node_id;
        request.topics.push(topic);
        let target = self.target().ok_or(Unbuilt::NoAddress(self.leader))?;
        let answer = self.connection.request(&target, controller::OFFSET_FOR_LEADER_EPOCH, &request);
        let answer = answer.ok_or_else(|| Unbuilt::NoAnswer(target.address.clone()))?;
        let mut ends = answer.topics.iter().flat_map(|topic| &topic.partitions);
        let end = ends.find(|end| end.partition == index);
        let end = end.ok_or_else(|| Unbuilt::NoPartition(target.address.clone()))?;
        match end.error_code {
            0 if end.end_offset >= start.local_start => Ok(end.leader_epoch),
            0 => Ok(start.epoch),
            code => Err(Unbuilt::Leader { epoch: start.epoch - 1, code }),
        }
    }
}

fn epochs_of(segment: &RemoteSegment, file: &[u8]) -> Result<Vec<(i32, i64)>, Unbuilt> {
    let text = std::str::from_utf8(file).map_err(|error| error.to_string());
    let epochs = text.and_then(parse_leader_epochs);
    epochs.map_err(|fault| Unbuilt::Epochs(segment.id.to_string(), fault))
}
