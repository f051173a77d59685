//! DeleteRecords (key 21), versions 0–2.
//!
//! Moves a partition's first offset up, to any offset up to the high watermark (-1: to there);
//! segments that lie below go at once. Only topics whose `cleanup.policy` has `delete`, and none of
//! the broker's own.

use levada_wire::messages::delete_records_request::DeleteRecordsPartition;
use levada_wire::messages::delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
use levada_wire::messages::{DeleteRecordsRequest, DeleteRecordsResponse};

use crate::api::Context;
use crate::blocking::off_shard;
use crate::error_code::ErrorCode;
use crate::replica::{Replicas, is_internal};
use crate::security::acl::{Operation, ResourceType};

/// Stands for "unknown" in an answer.
const NONE: i64 = -1;

pub(crate) async fn answer(context: &Context, request: DeleteRecordsRequest) -> DeleteRecordsResponse {
    let replicas = context.broker().replicas().clone();
    let may = |name: &str| context.may(Operation::Delete, ResourceType::Topic, name);
    let asked: Vec<_> = request.topics.into_iter().map(|topic| (may(topic.name.as_str()), topic)).collect();
    let topics = off_shard(move || {
        let topics = asked.into_iter().map(|(may, topic)| {
            let name = topic.name.as_str();
            let delete = |asked| match may {
                true => delete(&replicas, name, asked),
                false => show(asked, Err(ErrorCode::TopicAuthorizationFailed)),
            };
            let partitions = topic.partitions.iter().map(delete).collect();
            message!(DeleteRecordsTopicResult { partitions: partitions, name: topic.name.clone() })
        });
        topics.collect()
    });
    message!(DeleteRecordsResponse { topics: topics.await })
}

fn delete(replicas: &Replicas, topic: &str, asked: &DeleteRecordsPartition) -> DeleteRecordsPartitionResult {
    let deleted = match replicas.partition(topic, asked.partition_index) {
        Ok(_) if is_internal(topic) => Err(ErrorCode::InvalidTopic),
        Ok(partition) => replicas.delete_records(&partition, asked.offset),
        Err(error) => Err(error),
    };
    show(asked, deleted)
}

fn show(asked: &DeleteRecordsPartition, deleted: Result<i64, ErrorCode>) -> DeleteRecordsPartitionResult {
    message!(DeleteRecordsPartitionResult {
        partition_index: asked.partition_index,
        low_watermark: deleted.unwrap_or(NONE),
        error_code: deleted.err().unwrap_or(ErrorCode::None).code(),
    })
}
