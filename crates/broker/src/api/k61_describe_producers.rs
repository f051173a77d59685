//! DescribeProducers (key 61), version 0.
//!
//! The producers that partitions remember: epoch, last sequence, and where an open transaction began.
//! What `kafka-transactions find-hanging` starts from.

use levada_log::ProducerState as Known;
use levada_wire::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use levada_wire::messages::{DescribeProducersRequest, DescribeProducersResponse};

use crate::api::{Context, text};
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::controller::check_topic_name;
use crate::security::acl::{Operation, ResourceType};

pub(crate) async fn answer(context: &Context, request: DescribeProducersRequest) -> DescribeProducersResponse {
    let image = context.broker().metadata().image();
    let topics = request.topics.into_iter().map(|topic| {
        let unknown = match check_topic_name(topic.name.as_str()) {
            Err(refusal) => Some(Failure::from(refusal)),
            Ok(()) if !context.may(Operation::Read, ResourceType::Topic, topic.name.as_str()) => {
                Some(Failure::new(ErrorCode::TopicAuthorizationFailed, "Topic authorization failed."))
            }
            Ok(()) if image.topic(topic.name.as_str()).is_some() => None,
            Ok(()) => Some(Failure::new(
                ErrorCode::UnknownTopicOrPartition,
                "This server does not host this topic-partition.",
            )),
        };
        let partitions = topic.partition_indexes.iter().map(|index| {
            let mut answer = message!(PartitionResponse { partition_index: *index });
            if let Some(failure) = &unknown {
                answer.error_code = failure.code.code();
                answer.error_message = failure.message.clone().map(text);
                return answer;
            }
            let partition = context.broker().partition(topic.name.as_str(), *index);
            match partition.map(|partition| partition.lane().with_writer(|writer| writer.producer_states())) {
                Err(error) => answer.error_code = error.code(),
                Ok(None) => answer.error_code = ErrorCode::KafkaStorageError.code(),
                Ok(Some(producers)) => answer.active_producers = producers.iter().map(show).collect(),
            }
            answer
        });
        message!(TopicResponse { name: topic.name.clone(), partitions: partitions.collect() })
    });
    message!(DescribeProducersResponse { topics: topics.collect() })
}

fn show(producer: &Known) -> ProducerState {
    message!(ProducerState {
        producer_id: producer.producer_id,
        producer_epoch: i32::from(producer.epoch),
        last_sequence: producer.last_sequence,
        last_timestamp: producer.last_timestamp,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.transaction_start.unwrap_or(-1),
    })
}
