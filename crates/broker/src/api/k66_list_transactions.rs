//! ListTransactions (key 66), versions 0–2.
//!
//! The transactional ids of all coordinators of this broker, by state, by producer id, by how long
//! their transaction has been running (version 1), by a regular expression for the whole id
//! (version 2).

use levada_wire::messages::list_transactions_response::TransactionState;
use levada_wire::messages::{ListTransactionsRequest, ListTransactionsResponse};
use regex::Regex;

use crate::api::{Context, text};
use crate::broker::now_ms;
use crate::error_code::ErrorCode;
use crate::security::acl::{Operation, ResourceType};
use crate::txn::coordinator::{ListFilter, Listing};
use crate::txn::TxnError;

const DURATION_VERSION_MIN: i16 = 1;

pub(crate) async fn answer(context: &Context, request: ListTransactionsRequest) -> ListTransactionsResponse {
    match list(context, &request) {
        Ok(listings) => {
            let mut response = ListTransactionsResponse::default();
            for listing in listings {
                if response.unknown_state_filters.is_empty() {
                    response.unknown_state_filters = listing.unknown_states.into_iter().map(text).collect();
                }
                let visible = |id: &str| context.might(Operation::Describe, ResourceType::TransactionalId, id);
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

fn list(context: &Context, request: &ListTransactionsRequest) -> Result<Vec<Listing>, ErrorCode> {
    let pattern = request.transactional_id_pattern.as_ref().map(|pattern| pattern.as_str());
    let pattern = pattern.filter(|pattern| !pattern.is_empty());
    let pattern = pattern.map(|pattern| Regex::new(&format!(r"\A(?:{pattern})\z"))).transpose();
    let pattern = pattern.map_err(|_| ErrorCode::InvalidRegularExpression)?;
    let matches = pattern.map(|pattern| move |id: &str| pattern.is_match(id));
    let filter = ListFilter {
        states: request.state_filters.iter().map(|state| state.as_str().to_owned()).collect(),
        producer_ids: request.producer_id_filters.clone(),
        longer_than_ms: if context.version() >= DURATION_VERSION_MIN { request.duration_filter } else { -1 },
        pattern: matches.as_ref().map(|matches| matches as &dyn Fn(&str) -> bool),
    };
    let now = now_ms();
    let listings = context.broker().txns().view_all(|coordinator| coordinator.list(&filter, now));
    listings.into_iter().collect::<Result<_, TxnError>>().map_err(ErrorCode::from)
}
