//! DescribeTransactions (key 65), version 0.
//!
//! State, owner and partitions of transactional ids; while a transaction ends, the partitions whose
//! marker is not written yet. An id that is named more than once is described once.

use std::collections::HashSet;

use levada_coordination::txn::TxnError;
use levada_coordination::txn::coordinator::Described;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_transactions_response::{TopicData, TransactionState};
use levada_wire::messages::{DescribeTransactionsRequest, DescribeTransactionsResponse, StrBytes};

use crate::api::{Context, text};

pub(crate) async fn answer(
    context: &Context,
    request: DescribeTransactionsRequest,
) -> DescribeTransactionsResponse {
    let mut named = HashSet::new();
    let once = |id: &StrBytes| named.insert(id.clone());
    let states = request.transactional_ids.into_iter().filter(once).map(|id| {
        if !context.may(Operation::Describe, ResourceType::TransactionalId, id.as_str()) {
            let error_code = ErrorCode::TransactionalIdAuthorizationFailed.code();
            return message!(TransactionState { transactional_id: id, error_code: error_code });
        }
        let described = context
            .broker()
            .coordinators()
            .txns()
            .view(id.as_str(), |coordinator| coordinator.describe(id.as_str()));
        let mut state = message!(TransactionState { transactional_id: id });
        match described.unwrap_or(Err(TxnError::NotCoordinator)) {
            Ok(mut described) => {
                let visible = |topic: &str| context.might(Operation::Describe, ResourceType::Topic, topic);
                described.partitions.retain(|one| visible(&one.topic));
                show(described, &mut state);
            }
            Err(error) => state.error_code = ErrorCode::from(error).code(),
        }
        state
    });
    message!(DescribeTransactionsResponse { transaction_states: states.collect() })
}

fn show(described: Described, state: &mut TransactionState) {
    state.transaction_state = described.state.name().into();
    state.transaction_timeout_ms = described.timeout_ms;
    state.transaction_start_time_ms = described.start_ms;
    state.producer_id = described.owner.producer_id;
    state.producer_epoch = described.owner.producer_epoch;
    for one in described.partitions {
        match state.topics.last_mut() {
            Some(topic) if topic.topic.as_str() == one.topic => topic.partitions.push(one.partition),
            _ => state
                .topics
                .push(message!(TopicData { topic: text(one.topic), partitions: vec![one.partition] })),
        }
    }
}
