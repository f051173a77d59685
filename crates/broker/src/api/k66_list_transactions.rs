//! ListTransactions (key 66), versions 0–2.
//!
//! Version 1 filters by duration (KIP-994), and 2 by a regular expression (KIP-1152); the API is
//! that of KIP-664.
//!
//! The transactional ids of all coordinators of this broker, filtered by state, by producer id, by
//! the duration of the transaction (version 1), and by a regular expression for the whole id
//! (version 2). The expression is compared only with ids that the client may see, on a thread that
//! may block, in turns of the clients.

use std::collections::BTreeSet;
use std::sync::Arc;

use levada_coordination::pattern::{Comparison, whole};
use levada_coordination::txn::TxnError;
use levada_coordination::txn::coordinator::{ListFilter, Listed, Listing, is_state};
use levada_process::clock::now_ms;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::list_transactions_response::TransactionState;
use levada_wire::messages::{ListTransactionsRequest, ListTransactionsResponse};

use crate::api::{Context, text};

const DURATION_VERSION_MIN: i16 = 1;

pub(crate) async fn answer(context: &Context, request: ListTransactionsRequest) -> ListTransactionsResponse {
    match list(context, &request).await {
        Ok(listed) => {
            let unknown = states(&request).into_iter().filter(|state| !is_state(state));
            let listed = listed.into_iter().map(|listed| {
                message!(TransactionState {
                    transactional_id: text(listed.transactional_id),
                    producer_id: listed.producer_id,
                    transaction_state: listed.state.name().into(),
                })
            });
            message!(ListTransactionsResponse {
                unknown_state_filters: unknown.map(Into::into).collect(),
                transaction_states: listed.collect(),
            })
        }
        Err(error) => message!(ListTransactionsResponse { error_code: error.code() }),
    }
}

/// The transactions that the client may see, and that pass the filters of the request.
async fn list(context: &Context, request: &ListTransactionsRequest) -> Result<Vec<Listed>, ErrorCode> {
    let pattern = request.transactional_id_pattern.as_ref().map(|pattern| pattern.as_str().to_owned());
    let pattern = pattern.filter(|pattern| !pattern.is_empty());
    let turns = &context.broker().turns().comparisons;
    if let Some(pattern) = pattern.clone() {
        let compiled = context.run_in_turn(turns, move || whole(&pattern).map(drop)).await;
        compiled.map_err(|_| ErrorCode::InvalidRegularExpression)?;
    }
    let visible = visible(context, request)?;
    match pattern {
        Some(pattern) => Ok(matching(context, pattern, visible).await),
        None => Ok(visible),
    }
}

/// The transactions that the client may see, and that pass all filters but the expression.
fn visible(context: &Context, request: &ListTransactionsRequest) -> Result<Vec<Listed>, ErrorCode> {
    // One unknown name represents all unknown state names: each coordinator gets a copy of the
    // filter.
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        states(request).into_iter().partition(|state| is_state(state));
    let producer_ids: BTreeSet<i64> = request.producer_id_filters.iter().copied().collect();
    let filter = ListFilter {
        states: known.into_iter().chain(unknown.into_iter().take(1)).map(str::to_owned).collect(),
        producer_ids: producer_ids.into_iter().collect(),
        longer_than_ms: if context.version() >= DURATION_VERSION_MIN { request.duration_filter } else { -1 },
    };
    let now = now_ms();
    let listings =
        context.broker().coordinators().txns().view_all(|coordinator| coordinator.list(&filter, now));
    let listings: Vec<Listing> = listings.into_iter().collect::<Result<_, TxnError>>()?;
    let listed = listings.into_iter().flat_map(|listing| listing.transactions);
    let may_see = |one: &Listed| {
        context.might(Operation::Describe, ResourceType::TransactionalId, &one.transactional_id)
    };
    Ok(listed.filter(may_see).collect())
}

/// The transactions whose ids an expression matches. The comparison waits its turn in the client's
/// queue, and ends if the client disconnects.
async fn matching(context: &Context, pattern: String, listed: Vec<Listed>) -> Vec<Listed> {
    context.wait_for_others();
    let mut comparison = Comparison::of(vec![pattern]);
    let listed = Arc::new(listed);
    loop {
        let names = listed.clone();
        let piece = move || (comparison.go_on(&names[..], |_| true), comparison);
        let (is_more, so_far) = context.run_in_turn(&context.broker().turns().comparisons, piece).await;
        comparison = so_far;
        if !is_more {
            break;
        }
    }
    let found: BTreeSet<String> = comparison.found().into_values().flatten().collect();
    let listed = Arc::unwrap_or_clone(listed).into_iter();
    listed.filter(|one| found.contains(&one.transactional_id)).collect()
}

/// The names of the requested states, each once.
fn states(request: &ListTransactionsRequest) -> BTreeSet<&str> {
    request.state_filters.iter().map(|state| state.as_str()).collect()
}
