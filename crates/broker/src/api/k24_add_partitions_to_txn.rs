//! AddPartitionsToTxn (key 24), versions 0–5.
//!
//! Version 2 may return PRODUCER_FENCED (KIP-588), 3 is flexible (KIP-482), 4 verifies, and has
//! several transactions, and 5 may return TRANSACTION_ABORTABLE (both KIP-890).
//!
//! Makes partitions part of a producer's open transaction, or opens it. All of a transaction's
//! partitions are added or none: a partition that does not exist, or that belongs to an internal
//! topic, makes the others `OPERATION_NOT_ATTEMPTED`. Versions 4 and 5 are for brokers: many
//! transactions in one request, also to verify only that the transactions cover the partitions;
//! their responses name an error for each partition.

use std::collections::{HashMap, VecDeque};
use std::pin::Pin;

use levada_coordination::txn::TopicPartition;
use levada_coordination::txn::request::{AddRequest, Protocol, VerifyRequest};
use levada_metadata::controller::is_internal;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::add_partitions_to_txn_request::AddPartitionsToTxnTransaction;
use levada_wire::messages::add_partitions_to_txn_response::{
    AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
};
use levada_wire::messages::{AddPartitionsToTxnRequest, AddPartitionsToTxnResponse};

use crate::api::Context;
use crate::time_slice::TimeSlice;

const BATCHED_VERSION_MIN: i16 = 4;
const EPOCH_BUMP_VERSION_MIN: i16 = 5;
/// First version in which a fenced producer gets PRODUCER_FENCED.
const FENCED_VERSION_MIN: i16 = 2;

/// Maximum number of transactions of one request that are waited for at the same time.
const AT_ONCE: usize = 1024;

pub(crate) async fn answer(
    context: &Context,
    request: AddPartitionsToTxnRequest,
) -> AddPartitionsToTxnResponse {
    let mut response = AddPartitionsToTxnResponse::default();
    context.give_turn_back();
    if context.version() < BATCHED_VERSION_MIN {
        let transaction = message!(AddPartitionsToTxnTransaction {
            transactional_id: request.v3_and_below_transactional_id,
            producer_id: request.v3_and_below_producer_id,
            producer_epoch: request.v3_and_below_producer_epoch,
            topics: request.v3_and_below_topics,
        });
        response.results_by_topic_v3_and_below = begin(context, transaction).await.topic_results;
        return response;
    }
    if !context.may_cluster(Operation::ClusterAction) {
        response.error_code = ErrorCode::ClusterAuthorizationFailed.code();
        return response;
    }
    // As in Kafka, no transaction waits until the records of another one are replicated: only the
    // response does.
    let (mut begun, mut slice) = (VecDeque::new(), TimeSlice::begin());
    for transaction in request.transactions {
        if begun.len() == AT_ONCE
            && let Some(first) = begun.pop_front()
        {
            response.results_by_transaction.push(first.await);
        }
        begun.push_back(begin(context, transaction));
        slice.yield_if_over().await;
    }
    for next in begun {
        response.results_by_transaction.push(next.await);
    }
    response
}

/// Sends the request about a transaction to its coordinator. Only the response is waited for.
fn begin(
    context: &Context,
    transaction: AddPartitionsToTxnTransaction,
) -> impl Future<Output = AddPartitionsToTxnResult> + use<> {
    let asked = match refusals(context, &transaction) {
        Some(codes) => Err(codes),
        None => Ok(ask(context, &transaction)),
    };
    async move {
        let codes = match asked {
            Ok(asked) => asked.await,
            Err(refused) => refused,
        };
        result(transaction, codes)
    }
}

fn result(transaction: AddPartitionsToTxnTransaction, codes: Vec<ErrorCode>) -> AddPartitionsToTxnResult {
    let mut codes = codes.into_iter();
    let results = transaction.topics.into_iter().map(|topic| {
        let results = topic.partitions.iter().zip(&mut codes).map(|(index, code)| {
            message!(AddPartitionsToTxnPartitionResult {
                partition_index: *index,
                partition_error_code: code.code(),
            })
        });
        let results = results.collect();
        message!(AddPartitionsToTxnTopicResult { name: topic.name, results_by_partition: results })
    });
    message!(AddPartitionsToTxnResult {
        topic_results: results.collect(),
        transactional_id: transaction.transactional_id,
    })
}

/// The error code of each partition, if the request is refused without the coordinator; none if the
/// coordinator has to decide. Partitions are added all or none: if one is refused, the others get
/// OPERATION_NOT_ATTEMPTED.
fn refusals(context: &Context, transaction: &AddPartitionsToTxnTransaction) -> Option<Vec<ErrorCode>> {
    let id = transaction.transactional_id.as_str();
    let count = transaction.topics.iter().map(|topic| topic.partitions.len()).sum();
    let of_client = context.version() < BATCHED_VERSION_MIN;
    if of_client && !context.may(Operation::Write, ResourceType::TransactionalId, id) {
        return Some(vec![ErrorCode::TransactionalIdAuthorizationFailed; count]);
    }
    let image = context.broker().metadata().image();
    let mut codes = Vec::with_capacity(count);
    for topic in &transaction.topics {
        let name = topic.name.as_str();
        let found = if of_client && !may_write(context, name) {
            Err(ErrorCode::TopicAuthorizationFailed)
        } else {
            image.topic(name).ok_or(ErrorCode::UnknownTopicOrPartition)
        };
        codes.extend(topic.partitions.iter().map(|index| match &found {
            Ok(topic) if topic.partition(*index).is_some() => ErrorCode::OperationNotAttempted,
            Ok(_) => ErrorCode::UnknownTopicOrPartition,
            Err(error) => *error,
        }));
    }
    let refused = codes.iter().any(|code| *code != ErrorCode::OperationNotAttempted);
    refused.then_some(codes)
}

/// Only the broker writes to internal topics, as in Kafka. Brokers have made this check before they
/// send the request.
fn may_write(context: &Context, topic: &str) -> bool {
    !is_internal(topic) && context.may(Operation::Write, ResourceType::Topic, topic)
}

/// Sends the coordinator a request to add partitions that all exist. The response has one code for
/// each partition of the request; a repeated partition is requested once.
fn ask(
    context: &Context,
    transaction: &AddPartitionsToTxnTransaction,
) -> impl Future<Output = Vec<ErrorCode>> + use<> {
    let AddPartitionsToTxnTransaction { producer_id, producer_epoch, topics, .. } = transaction;
    let (mut places, mut partitions) = (HashMap::new(), Vec::new());
    let mut asked = Vec::new();
    for topic in topics {
        for index in &topic.partitions {
            asked.push(*places.entry((topic.name.as_bytes(), *index)).or_insert_with(|| {
                let topic = topic.name.as_str().to_owned();
                partitions.push(TopicPartition { topic, partition: *index });
                partitions.len() - 1
            }));
        }
    }
    let question =
        (transaction.transactional_id.as_str().to_owned(), *producer_id, *producer_epoch, partitions);
    let answer = if transaction.verify_only { verify(context, question) } else { extend(context, question) };
    async move {
        match answer.await {
            Ok(codes) => asked.into_iter().map(|place| codes[place]).collect(),
            Err(error) => vec![error; asked.len()],
        }
    }
}

/// Transactional id, producer id and epoch, partitions.
type PartitionsToAdd = (String, i64, i16, Vec<TopicPartition>);

/// One code for each of the partitions, or the error of all.
type Answer = Pin<Box<dyn Future<Output = Result<Vec<ErrorCode>, ErrorCode>>>>;

fn extend(context: &Context, asked: PartitionsToAdd) -> Answer {
    let (transactional_id, producer_id, producer_epoch, partitions) = asked;
    let (version, count) = (context.version(), partitions.len());
    let protocol = if version >= EPOCH_BUMP_VERSION_MIN { Protocol::EpochBump } else { Protocol::Classic };
    let request = AddRequest { transactional_id, producer_id, producer_epoch, protocol, partitions };
    let added = context.broker().coordinators().txns().submit(request);
    Box::pin(async move {
        added.await.map(|()| vec![ErrorCode::None; count]).map_err(|error| match version {
            FENCED_VERSION_MIN.. => error.into(),
            _ => error.before_fencing().into(),
        })
    })
}

fn verify(context: &Context, asked: PartitionsToAdd) -> Answer {
    let (transactional_id, producer_id, producer_epoch, partitions) = asked;
    let request = VerifyRequest { transactional_id, producer_id, producer_epoch, partitions };
    let verified = context.broker().coordinators().txns().submit(request);
    Box::pin(async move {
        let errors = verified.await?;
        Ok(errors.into_iter().map(|error| error.map_or(ErrorCode::None, Into::into)).collect())
    })
}
