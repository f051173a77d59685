//! ListTransactions (key 66), versions 0–2.
//!
//! The transactional ids of all coordinators of this broker, by state, by producer id, by how long
//! their transaction has been running (version 1), by a regular expression for the whole id
//! (version 2).

use std::collections::BTreeSet;

use levada_wire::messages::list_transactions_response::TransactionState;
use levada_wire::messages::{ListTransactionsRequest, ListTransactionsResponse};

use crate::api::{Context, text};
use crate::blocking::off_shard;
use crate::clock::now_ms;
use crate::error_code::ErrorCode;
use crate::pattern::whole;
use crate::security::acl::{Operation, ResourceType};
use crate::txn::TxnError;
use crate::txn::coordinator::{ListFilter, Listing, is_state};

const DURATION_VERSION_MIN: i16 = 1;

pub(crate) async fn answer(context: &Context, request: ListTransactionsRequest) -> ListTransactionsResponse {
    match list(context, &request).await {
        Ok(listings) => {
            let mut response = ListTransactionsResponse::default();
            let unknown = states(&request).into_iter().filter(|state| !is_state(state));
            response.unknown_state_filters = unknown.map(Into::into).collect();
            for listing in listings {
                let visible =
                    |id: &str| context.might(Operation::Describe, ResourceType::TransactionalId, id);
                let listed = listing.transactions.into_iter().filter(|one| visible(&one.transactional_id));
                response.transaction_states.extend(listed.map(|listed| {
                    message!(TransactionState {
                        transactional_id: text(listed.transactional_id),
                        producer_id: listed.producer_id,
                        transaction_state: listed.state.name().into(),
                    })
                }));
            }
            response
        }
        Err(error) => message!(ListTransactionsResponse { error_code: error.code() }),
    }
}

async fn list(context: &Context, request: &ListTransactionsRequest) -> Result<Vec<Listing>, ErrorCode> {
    let pattern = request.transactional_id_pattern.as_ref().map(|pattern| pattern.as_str());
    let pattern = pattern.filter(|pattern| !pattern.is_empty());
    let pattern = match pattern.map(str::to_owned) {
        // Compiling takes milliseconds at worst: not those of the shard.
        Some(pattern) => {
            let compiled = off_shard(move || whole(&pattern)).await;
            Some(compiled.map_err(|_| ErrorCode::InvalidRegularExpression)?)
        }
        None => None,
    };
    let matches = pattern.map(|pattern| move |id: &str| pattern.is_match(id));
    // One unknown name represents all unknown state names: each coordinator gets a copy of the
    // filter.
    let (known, unknown): (Vec<&str>, Vec<&str>) =
        states(request).into_iter().partition(|state| is_state(state));
    let producer_ids: BTreeSet<i64> = request.producer_id_filters.iter().copied().collect();
    let filter = ListFilter {
        states: known.into_iter().chain(unknown.into_iter().take(1)).map(str::to_owned).collect(),
        producer_ids: producer_ids.into_iter().collect(),
        longer_than_ms: if context.version() >= DURATION_VERSION_MIN { request.duration_filter } else { -1 },
        pattern: matches.as_ref().map(|matches| matches as &dyn Fn(&str) -> bool),
    };
    let now = now_ms();
    let listings =
        context.broker().coordinators().txns().view_all(|coordinator| coordinator.list(&filter, now));
    listings.into_iter().collect::<Result<_, TxnError>>().map_err(ErrorCode::from)
}

/// The names of the requested states, each once.
fn states(request: &ListTransactionsRequest) -> BTreeSet<&str> {
    request.state_filters.iter().map(|state| state.as_str()).collect()
}
