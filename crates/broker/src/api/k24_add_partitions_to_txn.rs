//! AddPartitionsToTxn (key 24), versions 0–5.
//!
//! Makes partitions part of a producer's open transaction, or opens it. All of a transaction's
//! partitions are added or none: one that does not exist makes the others `OPERATION_NOT_ATTEMPTED`.
//! Versions 4 and 5 are for brokers: many transactions at once, which may also only ask whether they
//! cover the partitions; their answers name an error for each partition.

use levada_wire::messages::add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction};
use levada_wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use levada_wire::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

use crate::api::Context;
use crate::error_code::ErrorCode;
use crate::security::acl::{Operation, ResourceType};
use crate::txn::TopicPartition;
use crate::txn::request::{AddRequest, Protocol, VerifyRequest};

const BATCHED_VERSION_MIN: i16 = 4;
const EPOCH_BUMP_VERSION_MIN: i16 = 5;
/// From this version on a fenced producer is told so.
const FENCED_VERSION_MIN: i16 = 2;

pub(crate) async fn answer(context: &Context, request: AddPartitionsToTxnRequest) -> AddPartitionsToTxnResponse {
    let mut response = AddPartitionsToTxnResponse::default();
    if context.version() < BATCHED_VERSION_MIN {
        let transaction = message!(AddPartitionsToTxnTransaction {
            transactional_id: request.v3_and_below_transactional_id,
            producer_id: request.v3_and_below_producer_id,
            producer_epoch: request.v3_and_below_producer_epoch,
            topics: request.v3_and_below_topics,
        });
        response.results_by_topic_v3_and_below = add(context, transaction).await.topic_results;
        return response;
    }
    if !context.may_cluster(Operation::ClusterAction) {
        response.error_code = ErrorCode::ClusterAuthorizationFailed.code();
        return response;
    }
    for transaction in request.transactions {
        response.results_by_transaction.push(add(context, transaction).await);
    }
    response
}

async fn add(context: &Context, transaction: AddPartitionsToTxnTransaction) -> AddPartitionsToTxnResult {
    let AddPartitionsToTxnTransaction { transactional_id, producer_id, producer_epoch, topics, .. } = &transaction;
    let partitions = named(topics);
    let refusals: Vec<_> = partitions.iter().map(|one| refusal(context, one)).collect();
    let id = transactional_id.as_str();
    let of_client = context.version() < BATCHED_VERSION_MIN;
    let codes = if of_client && !context.may(Operation::Write, ResourceType::TransactionalId, id) {
        vec![ErrorCode::TransactionalIdAuthorizationFailed; partitions.len()]
    } else if refusals.iter().any(Option::is_some) {
        refusals.into_iter().map(|refusal| refusal.unwrap_or(ErrorCode::OperationNotAttempted)).collect()
    } else {
        let (id, count) = (transactional_id.as_str().to_owned(), partitions.len());
        let asked = (id, *producer_id, *producer_epoch, partitions);
        let errors = if transaction.verify_only {
            verify(context, asked).await
        } else {
            let protocol = match context.version() {
                EPOCH_BUMP_VERSION_MIN.. => Protocol::EpochBump,
                _ => Protocol::Classic,
            };
            extend(context, asked, protocol).await.map(|()| vec![ErrorCode::None; count])
        };
        errors.unwrap_or_else(|error| vec![error; count])
    };
    let mut codes = codes.into_iter();
    let results = topics.iter().map(|topic| {
        let results = topic.partitions.iter().zip(&mut codes).map(|(index, code)| {
            message!(AddPartitionsToTxnPartitionResult {
                partition_index: *index,
                partition_error_code: code.code(),
            })
        });
        message!(AddPartitionsToTxnTopicResult {
            name: topic.name.clone(),
            results_by_partition: results.collect(),
        })
    });
    message!(AddPartitionsToTxnResult { topic_results: results.collect(), transactional_id: transactional_id.clone() })
}

/// Why a partition cannot become part of a transaction of this client. Brokers have asked before they ask us.
fn refusal(context: &Context, one: &TopicPartition) -> Option<ErrorCode> {
    let forbidden = context.version() < BATCHED_VERSION_MIN
        && !context.may(Operation::Write, ResourceType::Topic, &one.topic);
    match forbidden {
        true => Some(ErrorCode::TopicAuthorizationFailed),
        false if context.broker().has_partition(&one.topic, one.partition) => None,
        false => Some(ErrorCode::UnknownTopicOrPartition),
    }
}

/// Transactional id, producer id and epoch, partitions.
type Asked = (String, i64, i16, Vec<TopicPartition>);

async fn extend(context: &Context, asked: Asked, protocol: Protocol) -> Result<(), ErrorCode> {
    let (transactional_id, producer_id, producer_epoch, partitions) = asked;
    let request = AddRequest { transactional_id, producer_id, producer_epoch, protocol, partitions };
    let added = context.broker().txns().ask(request).await;
    added.map_err(|error| match context.version() {
        FENCED_VERSION_MIN.. => error.into(),
        _ => error.before_fencing().into(),
    })
}

async fn verify(context: &Context, asked: Asked) -> Result<Vec<ErrorCode>, ErrorCode> {
    let (transactional_id, producer_id, producer_epoch, partitions) = asked;
    let request = VerifyRequest { transactional_id, producer_id, producer_epoch, partitions };
    let errors = context.broker().txns().ask(request).await?;
    Ok(errors.into_iter().map(|error| error.map_or(ErrorCode::None, Into::into)).collect())
}

fn named(topics: &[AddPartitionsToTxnTopic]) -> Vec<TopicPartition> {
    let of_topic = |topic: &AddPartitionsToTxnTopic| {
        let name = topic.name.as_str().to_owned();
        let partitions = topic.partitions.clone().into_iter();
        partitions.map(move |partition| TopicPartition { topic: name.clone(), partition })
    };
    topics.iter().flat_map(of_topic).collect()
}
