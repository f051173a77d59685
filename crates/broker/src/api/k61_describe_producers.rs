//! DescribeProducers (key 61), version 0.
//!
//! The producer state of partitions: epoch, last sequence, and the start of an open transaction.
//! `kafka-transactions find-hanging` begins with this request. A repeated partition is described
//! once.

use std::collections::{HashMap, HashSet};

use levada_log::ProducerState as Known;
use levada_metadata::controller::check_topic_name;
use levada_metadata::image::Image;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::describe_producers_response::{PartitionResponse, ProducerState, TopicResponse};
use levada_wire::messages::{DescribeProducersRequest, DescribeProducersResponse, StrBytes};

use crate::api::access::forbidden;
use crate::api::errors::NOT_HOSTED;
use crate::api::{Context, Sentences, text};

pub(crate) async fn answer(
    context: &Context,
    request: DescribeProducersRequest,
) -> DescribeProducersResponse {
    let image = context.broker().metadata().image();
    let mut described: HashMap<StrBytes, HashSet<i32>> = HashMap::new();
    let mut sentences = Sentences::default();
    let topics = request.topics.into_iter().map(|topic| {
        let refused = refusal(context, &image, topic.name.as_str()).err();
        let refused = refused.map(|failure| (failure.code.code(), failure.message.map(text)));
        let described = described.entry(topic.name.clone()).or_default();
        // A list that grows by itself begins with room for four.
        let mut told = Vec::with_capacity(topic.partition_indexes.len());
        told.extend(topic.partition_indexes.iter().filter_map(|index| {
            let mut answer = message!(PartitionResponse { partition_index: *index });
            match &refused {
                Some((code, message)) => {
                    answer.error_code = *code;
                    answer.error_message = sentences.tell(message.as_ref());
                }
                // Once: its producers may be many.
                None if !described.insert(*index) => return None,
                None => describe(context, topic.name.as_str(), &mut answer),
            }
            Some(answer)
        }));
        message!(TopicResponse { name: topic.name, partitions: told })
    });
    message!(DescribeProducersResponse { topics: topics.collect() })
}

/// The reason why the response describes no partition of a topic.
fn refusal(context: &Context, image: &Image, name: &str) -> Result<(), Failure> {
    check_topic_name(name)?;
    if !context.may(Operation::Read, ResourceType::Topic, name) {
        return Err(forbidden(ErrorCode::TopicAuthorizationFailed));
    }
    match image.topic(name) {
        Some(_) => Ok(()),
        None => Err(Failure::new(ErrorCode::UnknownTopicOrPartition, NOT_HOSTED)),
    }
}

fn describe(context: &Context, topic: &str, answer: &mut PartitionResponse) {
    let partition = context.broker().replicas().partition(topic, answer.partition_index);
    match partition.map(|partition| partition.lane().with_writer(|writer| writer.producer_states())) {
        Err(error) => answer.error_code = error.code(),
        Ok(None) => answer.error_code = ErrorCode::KafkaStorageError.code(),
        Ok(Some(producers)) => answer.active_producers = producers.iter().map(show).collect(),
    }
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
