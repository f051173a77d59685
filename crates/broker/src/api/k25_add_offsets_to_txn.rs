//! AddOffsetsToTxn (key 25), versions 0–4.
//!
//! Version 2 may return PRODUCER_FENCED (KIP-588), 3 is flexible (KIP-482), and 4 may return
//! TRANSACTION_ABORTABLE (KIP-890).
//!
//! Adds a group's partition of `__consumer_offsets` to a producer's transaction, before offsets are
//! committed in it. Clients of the second protocol (KIP-890) omit this request: TxnOffsetCommit
//! adds the partition.

use levada_coordination::txn::TopicPartition;
use levada_coordination::txn::request::{AddRequest, Protocol};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use crate::api::Context;
use crate::replica::OFFSETS_TOPIC;

/// First version in which a fenced producer gets PRODUCER_FENCED.
const FENCED_VERSION_MIN: i16 = 2;

pub(crate) async fn answer(context: &Context, request: AddOffsetsToTxnRequest) -> AddOffsetsToTxnResponse {
    let broker = context.broker();
    let (id, group) = (request.transactional_id.as_str(), request.group_id.as_str());
    if !context.may(Operation::Write, ResourceType::TransactionalId, id) {
        let error = ErrorCode::TransactionalIdAuthorizationFailed;
        return message!(AddOffsetsToTxnResponse { error_code: error.code() });
    }
    if !context.may(Operation::Read, ResourceType::Group, group) {
        return message!(AddOffsetsToTxnResponse { error_code: ErrorCode::GroupAuthorizationFailed.code() });
    }
    context.give_turn_back();
    if let Err(failure) = broker.controller().ensure_internal_topic(OFFSETS_TOPIC).await {
        return message!(AddOffsetsToTxnResponse { error_code: failure.code.code() });
    }
    let Some(partition) = broker.coordinators().groups().partition_of(group) else {
        return message!(AddOffsetsToTxnResponse { error_code: ErrorCode::CoordinatorNotAvailable.code() });
    };
    let asked = AddRequest {
        transactional_id: request.transactional_id.into_string(),
        producer_id: request.producer_id,
        producer_epoch: request.producer_epoch,
        protocol: Protocol::Classic,
        partitions: vec![TopicPartition { topic: OFFSETS_TOPIC.to_owned(), partition }],
    };
    let added = broker.coordinators().txns().ask(asked).await.map_err(|error| match context.version() {
        FENCED_VERSION_MIN.. => error,
        _ => error.before_fencing(),
    });
    message!(AddOffsetsToTxnResponse {
        error_code: added.map_or_else(ErrorCode::from, |()| ErrorCode::None).code()
    })
}
