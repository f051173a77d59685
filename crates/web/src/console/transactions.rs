//! Transactions: the open transactions of their coordinators, and their abort. [`hanging`] has
//! those that no coordinator will end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_process::clock::now_ms;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::messages::describe_transactions_response::TransactionState;
use levada_wire::messages::list_transactions_response::TransactionState as ListedTransaction;
use levada_wire::messages::{
    DescribeTransactionsRequest, FindCoordinatorRequest, InitProducerIdRequest, ListTransactionsRequest,
};
use maud::{Markup, html};

use super::cluster::CHANGE_TIME;
use super::failure::{Failed, Needing as _, check, nothing};
use super::fields::Fields;
use super::layout::{self, Page, Section, choice, field, notice, proof, table_of};
use super::topics::confirmed;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format, hanging};

/// Maximum number of transactional ids that the page shows.
const IDS_MAX: usize = 200;
/// Kafka's number for transactional ids where coordinators are searched.
const TRANSACTIONS: i8 = 1;
/// State of a transactional id with an open transaction.
const ONGOING: &str = "Ongoing";

/// Renders the page of transactional ids.
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let page = page(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Transactions, page)
}

async fn page(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let (search, which) = (fields.text("search").to_lowercase(), fields.text("which"));
    let (mut shown, is_cut) = states(console, visitor, (&search, which)).await?;
    // A transaction may have ended since.
    shown.retain(|one| which == "all" || one.transaction_state.as_str() == ONGOING);
    let hanging = hanging::section(console, visitor).await?;
    let kinds = [("", "open"), ("all", "all ids")];
    let content = html! {
        (layout::done(fields.text("done")))
        form.line method="get" role="search" {
            (field("Id contains", html! { input type="search" name="search" value=(search); }))
            (field("Transactions", choice("which", kinds, which)))
            button { "Search" }
        }
        @if is_cut { (notice("warn", format!("The first {IDS_MAX} transactional ids are shown; levada transaction list has all."))) }
        (table_of(&["Transactional id", "State", "Open since (UTC)", "Timeout", "Producer", "Partitions", "Abort"], &[4, 5, 6], html! {
            @for one in &shown { (row(console, visitor, one)) }
            @if shown.is_empty() {
                @let subject = if which == "all" { "transactional id" } else { "open transaction" };
                tr { td colspan="7" { (nothing(subject, visitor, console.hides(visitor, "--transactional-id"))) } }
            }
        }))
        (hanging)
    };
    Ok(Page::new(Section::Transactions, "Transactions", content))
}

fn row(console: &Console, visitor: &Visitor, one: &TransactionState) -> Markup {
    let id = one.transactional_id.as_str();
    let open = one.transaction_state.as_str() == ONGOING;
    let wanted = (Operation::Write, ResourceType::TransactionalId, id);
    let form = || ("Abort", abort_form(visitor, "/transactions/abort", &[("id", id)]));
    let since = now_ms().saturating_sub(one.transaction_start_time_ms);
    html! {
        tr {
            th.wide scope="row" { (id) }
            td { (one.transaction_state.as_str()) }
            td { @if open { (format::time(one.transaction_start_time_ms)) span.hint { "for " (format::millis(since)) } } @else { "—" } }
            td { (format::millis(i64::from(one.transaction_timeout_ms))) }
            td { (one.producer_id) ", epoch " (one.producer_epoch) }
            td.wide { @for (topic, partition) in places(one).take(20) { div { (topic) "/" (partition) } } }
            td { @if open { (console.offered(visitor, wanted, form())) } }
        }
    }
}

/// The form of an abort, which requires the word "abort" for confirmation.
pub(super) fn abort_form(visitor: &Visitor, action: &str, hidden: &[(&str, &str)]) -> Markup {
    html! {
        details {
            summary { "Abort" }
            form.card method="post" action=(action) {
                (proof(visitor))
                @for (name, value) in hidden { input type="hidden" name=(name) value=(value); }
                p { "Its records are never delivered to read_committed consumers, and its producer is fenced." }
                (field("Type abort to confirm", html! { input name="confirm" autocomplete="off" required; }))
                button.danger { "Abort" }
            }
        }
    }
}

/// Partitions of a transaction.
fn places(one: &TransactionState) -> impl Iterator<Item = (&str, i32)> {
    one.topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(|partition| (topic.topic.as_str(), *partition)))
}

/// The first transactional ids that a search finds among those that the visitor may describe, open
/// transactions first; the flag is true if there are more.
async fn states(
    console: &Console,
    visitor: &Visitor,
    search: (&str, &str),
) -> Result<(Vec<TransactionState>, bool), Failed> {
    let mut request = ListTransactionsRequest::default();
    request.duration_filter = -1;
    let requests = console.live_brokers().into_iter().map(|node| (node, request.clone())).collect();
    let answers = console.ask_brokers(visitor, (i16::MAX, Duration::ZERO), requests).await?;
    let (mut listed, mut nodes, own) = (Vec::new(), BTreeMap::new(), console.own());
    for (node, answer) in answers {
        if node == own {
            check(answer.error_code, None, || "list the transactions".to_owned())?;
        }
        let visible = answer.transaction_states.into_iter().filter(|one| {
            let wanted = (Operation::Describe, ResourceType::TransactionalId, one.transactional_id.as_str());
            node == own || console.permits(visitor, wanted)
        });
        for one in visible {
            nodes.insert(one.transactional_id.clone(), node);
            listed.push(one);
        }
    }
    let (ids, is_cut) = found(listed, search);
    let mut requests: BTreeMap<i32, DescribeTransactionsRequest> = BTreeMap::new();
    for id in ids {
        let Some(node) = nodes.get(&id) else { continue };
        requests.entry(*node).or_default().transactional_ids.push(id);
    }
    let answers = console.ask_brokers(visitor, (i16::MAX, Duration::ZERO), requests).await?;
    let described = answers.into_values().flat_map(|answer| answer.transaction_states);
    let mut described: Vec<_> = described.filter(|one| one.error_code == 0).collect();
    described
        .sort_by_key(|one| (one.transaction_state.as_str() != ONGOING, one.transactional_id.to_string()));
    Ok((described, is_cut))
}

/// The first ids that a search for a text finds, of open transactions or of all, open ones first;
/// the flag is true if it finds more.
fn found(mut listed: Vec<ListedTransaction>, (text, which): (&str, &str)) -> (Vec<StrBytes>, bool) {
    let is_open = |one: &ListedTransaction| one.transaction_state.as_str() == ONGOING;
    listed
        .retain(|one| (which == "all" || is_open(one)) && one.transactional_id.to_lowercase().contains(text));
    listed.sort_by_key(|one| (!is_open(one), one.transactional_id.as_str().to_owned()));
    let is_cut = listed.len() > IDS_MAX;
    (listed.into_iter().take(IDS_MAX).map(|one| one.transactional_id).collect(), is_cut)
}

/// The broker that coordinates a transactional id.
async fn coordinator(console: &Console, visitor: &Visitor, id: &str) -> Result<i32, Failed> {
    let mut request = FindCoordinatorRequest::default();
    request.key_type = TRANSACTIONS;
    request.coordinator_keys = vec![StrBytes::from(id)];
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    let found = answer.coordinators.into_iter().next();
    let found = found.ok_or_else(|| Failed::Missing(format!("Transactional id {id} has no coordinator.")))?;
    check(found.error_code, found.error_message.as_deref(), || format!("abort the transaction of {id}"))
        .needing("describe", format!("--transactional-id {id}"))?;
    Ok(found.node_id)
}

/// Aborts the open transaction of an id, and fences its producer.
pub(super) async fn abort(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let done = abort_id(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Transactions, done)
}

async fn abort_id(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    confirmed(fields, "abort")?;
    let id = fields.raw("id");
    let node = coordinator(console, visitor, id).await?;
    let doing = || format!("abort the transaction of {id}");
    for (operation, name) in [(Operation::Describe, "describe"), (Operation::Write, "write")] {
        let wanted = (operation, ResourceType::TransactionalId, id);
        console.permitted(visitor, node, wanted, doing).needing(name, format!("--transactional-id {id}"))?;
    }
    // A request for an epoch would create an id that does not exist.
    let mut request = DescribeTransactionsRequest::default();
    request.transactional_ids = vec![StrBytes::from(id)];
    let asked = (request, Duration::ZERO);
    for one in &console.ask_broker(visitor, (node, i16::MAX), asked).await?.transaction_states {
        check(one.error_code, None, doing).needing("describe", format!("--transactional-id {id}"))?;
    }
    let mut request = InitProducerIdRequest::default();
    request.transactional_id = Some(StrBytes::from(id));
    // No producer uses the new epoch: a transaction under it would end immediately.
    request.transaction_timeout_ms = 1;
    (request.producer_id, request.producer_epoch) = (-1, -1);
    let answer = console.ask_broker(visitor, (node, i16::MAX), (request, CHANGE_TIME)).await?;
    // The coordinator is writing the end of the transaction: that is the abort.
    if answer.error_code != levada_wire::error_code::ErrorCode::ConcurrentTransactions.code() {
        check(answer.error_code, None, doing).needing("write", format!("--transactional-id {id}"))?;
    }
    Err(Failed::Redirect("/transactions?done=aborted".to_owned()))
}

#[cfg(test)]
mod tests;
