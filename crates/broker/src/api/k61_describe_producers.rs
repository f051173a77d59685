//! DescribeProducers (key 61), version 0.
//!
//! The producers that partitions remember: epoch, last sequence, and where an open transaction began.
//! What `kafka-transactions find-hanging` starts from.

use levada_log::ProducerState as Known;
use levada_wire::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use levada_wire::messages::{DescribeProducersRequest, DescribeProducersResponse};

use crate::api::Context;
use crate::error_code::ErrorCode;

pub(crate) async fn answer(context: &Context, request: DescribeProducersRequest) -> DescribeProducersResponse {
    let topics = request.topics.into_iter().map(|topic| {
        let partitions = topic.partition_indexes.iter().map(|index| {
            let mut answer = message!(PartitionResponse { partition_index: *index });
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
