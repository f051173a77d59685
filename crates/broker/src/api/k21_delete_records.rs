//! DeleteRecords (key 21), versions 0–2.
//!
//! Version 1 clients are muted after the response (KIP-219), and version 2 is flexible (KIP-482).
//!
//! Raises a partition's log start offset, at most to the high watermark (-1 stands for the high
//! watermark); segments below it are deleted immediately. The response is sent once the offset is
//! in the checkpoint, so that a crash does not bring the records back, or if the disk is full. With
//! other replicas the response waits until all live replicas have deleted the records, or for
//! `timeout_ms`. Only topics whose `cleanup.policy` has `delete` are permitted, and no internal
//! topics.

use std::sync::Arc;

use levada_log::disk::is_short;
use levada_metadata::controller::is_internal;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::delete_records_request::DeleteRecordsPartition;
use levada_wire::messages::delete_records_response::{
    DeleteRecordsPartitionResult, DeleteRecordsTopicResult,
};
use levada_wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};
use tokio::time::Instant;

use crate::api::Context;
use crate::api::changes::log_change;
use crate::replica::Replicas;
use crate::replica::led::Led;
use crate::replica::submitted::SubmitError;

/// Value for "unknown" in a response.
const NONE: i64 = -1;

/// Records of one partition that are deleted here, and the leadership with the positions of the
/// other replicas.
struct Deleted {
    asked: DeleteRecordsPartition,
    result: Result<i64, ErrorCode>,
    led: Option<Arc<Led>>,
}

pub(crate) async fn answer(context: &Context, request: DeleteRecordsRequest) -> DeleteRecordsResponse {
    let replicas = context.broker().replicas().clone();
    let deadline = Instant::now() + context.patience(request.timeout_ms);
    let may = |name: &str| context.may(Operation::Delete, ResourceType::Topic, name);
    let asked: Vec<_> = request.topics.into_iter().map(|topic| (may(topic.name.as_str()), topic)).collect();
    let deleted = context.off_shard(move || {
        let topics = asked.into_iter().map(|(may, topic)| {
            let name = topic.name.as_str();
            let delete = |asked: DeleteRecordsPartition| {
                if may {
                    delete(&replicas, name, asked)
                } else {
                    Deleted { asked, result: Err(ErrorCode::TopicAuthorizationFailed), led: None }
                }
            };
            let partitions: Vec<Deleted> = topic.partitions.into_iter().map(delete).collect();
            (topic.name, partitions)
        });
        let mut topics = topics.collect::<Vec<_>>();
        let stored = replicas.checkpoints().store_misleading();
        // On a full disk the next round of housekeeping has the room that this deletion makes.
        if stored.is_err_and(|error| !error.source_io().is_some_and(is_short)) {
            let all = topics.iter_mut().flat_map(|(_, partitions)| partitions);
            all.filter(|one| one.result.is_ok())
                .for_each(|one| one.result = Err(ErrorCode::KafkaStorageError));
        }
        topics
    });
    let deleted = deleted.await;
    context.give_turn_back();
    let mut topics = Vec::new();
    for (name, deleted) in deleted {
        let mut partitions = Vec::with_capacity(deleted.len());
        for one in deleted {
            if let Ok(start) = one.result {
                let (topic, partition) = (name.as_str(), one.asked.partition_index);
                log_change!(context, "records deleted", topic, partition, start,);
            }
            let result = everywhere(one.result, one.led, deadline).await;
            partitions.push(show(&one.asked, result));
        }
        topics.push(message!(DeleteRecordsTopicResult { partitions: partitions, name: name }));
    }
    message!(DeleteRecordsResponse { topics: topics })
}

fn delete(replicas: &Replicas, topic: &str, asked: DeleteRecordsPartition) -> Deleted {
    let partition = match replicas.partition(topic, asked.partition_index) {
        Ok(_) if is_internal(topic) => Err(ErrorCode::InvalidTopic),
        Ok(partition) => partition.check_leader(-1).map(|()| partition),
        Err(error) => Err(error),
    };
    // After the check, since a change of the leadership stores `led` before the rest. Before the
    // deletion, so that the loss of the leadership during it is noticed.
    let led = partition.as_ref().ok().and_then(|partition| partition.led());
    let result = partition.and_then(|partition| replicas.delete_records(&partition, asked.offset));
    Deleted { asked, result, led }
}

/// The low watermark, once the other replicas have deleted the records as well.
async fn everywhere(
    result: Result<i64, ErrorCode>,
    led: Option<Arc<Led>>,
    deadline: Instant,
) -> Result<i64, ErrorCode> {
    let log_start = result?;
    let Some(led) = led else { return Ok(log_start) };
    led.release_deletions();
    match led.wait_for_low_watermark(log_start, deadline).await {
        Ok(()) => led.low_watermark().ok_or(ErrorCode::NotLeaderOrFollower),
        Err(failure) => Err(Failure::from(SubmitError::from(failure)).code),
    }
}

fn show(asked: &DeleteRecordsPartition, deleted: Result<i64, ErrorCode>) -> DeleteRecordsPartitionResult {
    message!(DeleteRecordsPartitionResult {
        partition_index: asked.partition_index,
        low_watermark: deleted.unwrap_or(NONE),
        error_code: deleted.err().unwrap_or(ErrorCode::None).code(),
    })
}
