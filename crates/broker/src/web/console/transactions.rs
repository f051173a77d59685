//! Transactions: the open ones as their coordinators know them, those that hang in a partition, and
//! their abort.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_wire::StrBytes;
use levada_wire::messages::describe_producers_request::TopicRequest;
use levada_wire::messages::describe_transactions_response::TransactionState;
use levada_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use levada_wire::messages::{
    DescribeProducersRequest, DescribeTransactionsRequest, InitProducerIdRequest, ListTransactionsRequest,
    WriteTxnMarkersRequest,
};
use maud::{Markup, html};

use super::failure::{Failed, check};
use super::fields::Fields;
use super::layout::{self, Page, Section, choice, field, notice, proof, table, topic_link};
use super::question::Place;
use super::topics::confirmed;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};
use crate::clock::now_ms;

/// Transactional ids that the page shows.
const IDS_MAX: usize = 200;
/// Partitions with an open transaction that are looked at for hanging ones.
const PARTITIONS_MAX: usize = 1000;
/// State of a transactional id with an open transaction.
const ONGOING: &str = "Ongoing";

/// A transaction that a partition holds open.
struct OpenTransaction {
    place: Place,
    producer_id: i64,
    producer_epoch: i32,
    coordinator_epoch: i32,
    start: i64,
    last_ms: i64,
}

/// The page.
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let page = page(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Transactions, page)
}

async fn page(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let (search, which) = (fields.text("search").to_lowercase(), fields.text("which"));
    let known = states(console, visitor).await?;
    let ongoing: BTreeSet<(i64, Place)> =
        known.iter().filter(|one| one.transaction_state.as_str() == ONGOING).flat_map(places).collect();
    let mut hanging = open(console, visitor).await?;
    hanging.retain(|one| !ongoing.contains(&(one.producer_id, one.place.clone())));
    let wanted = |one: &&TransactionState| {
        one.transactional_id.to_lowercase().contains(&search)
            && (which == "all" || one.transaction_state.as_str() == ONGOING)
    };
    let shown: Vec<&TransactionState> = known.iter().filter(wanted).collect();
    let kinds = [("", "open"), ("all", "all ids")];
    let content = html! {
        (layout::done(fields.text("done")))
        form.line method="get" role="search" {
            (field("Id contains", html! { input type="search" name="search" value=(search); }))
            (field("Transactions", choice("which", kinds, which)))
            button { "Search" }
        }
        @if known.len() >= IDS_MAX { (notice("warn", format!("The first {IDS_MAX} transactional ids are shown; levada transaction list has all."))) }
        (table(&["Transactional id", "State", "Open since (UTC)", "Timeout", "Producer", "Partitions", "Abort"], html! {
            @for one in &shown { (row(visitor, one)) }
            @if shown.is_empty() { tr { td colspan="7" { "No transaction is open." } } }
        }))
        h2 { "Hanging" }
        p.soft {
            "A partition holds these open, and no coordinator will end them. Consumers with read_committed and compaction stop at their start."
        }
        (table(&["Topic", "#Partition", "#Start offset", "#Producer", "#Epoch", "Last write (UTC)", "Abort"], html! {
            @for one in &hanging { (hanging_row(visitor, one)) }
            @if hanging.is_empty() { tr { td colspan="7" { "No transaction hangs." } } }
        }))
    };
    Ok(Page::new(Section::Transactions, "Transactions", content))
}

fn row(visitor: &Visitor, one: &TransactionState) -> Markup {
    let id = one.transactional_id.as_str();
    let open = one.transaction_state.as_str() == ONGOING;
    let since = now_ms().saturating_sub(one.transaction_start_time_ms);
    html! {
        tr {
            th.wide scope="row" { (id) }
            td { (one.transaction_state.as_str()) }
            td { @if open { (format::time(one.transaction_start_time_ms)) span.hint { "for " (format::millis(since)) } } @else { "—" } }
            td { (format::millis(i64::from(one.transaction_timeout_ms))) }
            td { (one.producer_id) ", epoch " (one.producer_epoch) }
            td.wide { @for (_, (topic, partition)) in places(one).take(20) { div { (topic) "/" (partition) } } }
            td { @if open { (abort_form(visitor, "/transactions/abort", &[("id", id)])) } }
        }
    }
}

fn hanging_row(visitor: &Visitor, one: &OpenTransaction) -> Markup {
    let (topic, partition) = &one.place;
    let numbers = [i64::from(*partition), one.producer_id, one.start].map(|number| number.to_string());
    let hidden = [
        ("topic", topic.as_str()),
        ("partition", &numbers[0]),
        ("producer", &numbers[1]),
        ("start", &numbers[2]),
    ];
    html! {
        tr {
            th scope="row" { (topic_link(topic)) }
            td.n { (partition) }
            td.n { (format::count(i128::from(one.start))) }
            td.n { (one.producer_id) }
            td.n { (one.producer_epoch) }
            td { (format::time(one.last_ms)) }
            td { (abort_form(visitor, "/transactions/abort-hanging", &hidden)) }
        }
    }
}

/// The form of an abort, which asks for the word once more.
fn abort_form(visitor: &Visitor, action: &str, hidden: &[(&str, &str)]) -> Markup {
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

/// Producer and partitions of a transaction.
fn places(one: &TransactionState) -> impl Iterator<Item = (i64, Place)> {
    one.topics.iter().flat_map(|topic| {
        topic
            .partitions
            .iter()
            .map(|partition| (one.producer_id, (topic.topic.as_str().to_owned(), *partition)))
    })
}

/// Transactional ids that the visitor may describe, the open ones first.
async fn states(console: &Console, visitor: &Visitor) -> Result<Vec<TransactionState>, Failed> {
    let mut request = ListTransactionsRequest::default();
    request.duration_filter = -1;
    let listed = console.desk.ask(&visitor.caller, &request).await?;
    check(listed.error_code, None, || "list the transactions".to_owned())?;
    let mut listed = listed.transaction_states;
    listed.sort_by_key(|one| {
        (one.transaction_state.as_str() != ONGOING, one.transactional_id.as_str().to_owned())
    });
    let mut request = DescribeTransactionsRequest::default();
    request.transactional_ids = listed.into_iter().take(IDS_MAX).map(|one| one.transactional_id).collect();
    if request.transactional_ids.is_empty() {
        return Ok(Vec::new());
    }
    let mut described = console.desk.ask(&visitor.caller, &request).await?.transaction_states;
    described.retain(|one| one.error_code == 0);
    Ok(described)
}

/// Transactions that partitions hold open, as far as the visitor may see the producers of their
/// topics.
async fn open(console: &Console, visitor: &Visitor) -> Result<Vec<OpenTransaction>, Failed> {
    let mut topics: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    let all = console.broker.replicas().partitions().all();
    let waiting =
        all.iter().filter(|partition| partition.log().last_stable() < partition.log().high_watermark());
    for partition in waiting.take(PARTITIONS_MAX) {
        topics.entry(partition.topic().to_owned()).or_default().push(partition.index());
    }
    if topics.is_empty() {
        return Ok(Vec::new());
    }
    let mut request = DescribeProducersRequest::default();
    request.topics = topics
        .into_iter()
        .map(|(name, partitions)| {
            let mut topic = TopicRequest::default();
            (topic.name, topic.partition_indexes) = (StrBytes::from(name), partitions);
            topic
        })
        .collect();
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    let mut found = Vec::new();
    for topic in &answer.topics {
        for partition in topic.partitions.iter().filter(|one| one.error_code == 0) {
            let open = partition.active_producers.iter().filter(|one| one.current_txn_start_offset >= 0);
            found.extend(open.map(|one| OpenTransaction {
                place: (topic.name.as_str().to_owned(), partition.partition_index),
                producer_id: one.producer_id,
                producer_epoch: one.producer_epoch,
                coordinator_epoch: one.coordinator_epoch,
                start: one.current_txn_start_offset,
                last_ms: one.last_timestamp,
            }));
        }
    }
    Ok(found)
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
    // A request for an epoch would create an id that does not exist.
    let mut request = DescribeTransactionsRequest::default();
    request.transactional_ids = vec![StrBytes::from(id)];
    for one in &console.desk.ask(&visitor.caller, &request).await?.transaction_states {
        check(one.error_code, None, || format!("abort the transaction of {id}"))?;
    }
    let mut request = InitProducerIdRequest::default();
    request.transactional_id = Some(StrBytes::from(id));
    // Nobody uses the new epoch: a transaction under it would end at once.
    request.transaction_timeout_ms = 1;
    (request.producer_id, request.producer_epoch) = (-1, -1);
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    // The coordinator is writing the end of the transaction: that is the abort.
    if answer.error_code != crate::error_code::ErrorCode::ConcurrentTransactions.code() {
        check(answer.error_code, None, || format!("abort the transaction of {id}"))?;
    }
    Err(Failed::Redirect("/transactions?done=aborted".to_owned()))
}

/// Ends a hanging transaction in its partition.
pub(super) async fn abort_hanging(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let done = abort_in_partition(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Transactions, done)
}

async fn abort_in_partition(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    confirmed(fields, "abort")?;
    let place =
        (fields.required("topic")?.to_owned(), fields.number::<i32>("partition")?.unwrap_or_default());
    let (producer, start) = (fields.number::<i64>("producer")?, fields.number::<i64>("start")?);
    let open = open(console, visitor).await?;
    let found = open
        .iter()
        .find(|one| one.place == place && Some(one.producer_id) == producer && Some(one.start) == start);
    let (name, partition) = &place;
    let found = found.ok_or_else(|| {
        Failed::Missing(format!("{name}/{partition} no longer holds this transaction open."))
    })?;
    let mut topic = WritableTxnMarkerTopic::default();
    (topic.name, topic.partition_indexes) = (StrBytes::from(name.as_str()), vec![*partition]);
    let mut marker = WritableTxnMarker::default();
    marker.producer_id = found.producer_id;
    marker.producer_epoch = i16::try_from(found.producer_epoch).unwrap_or(i16::MAX);
    // A producer that has never ended a transaction there has -1; 0 is not above any coordinator's.
    marker.coordinator_epoch = found.coordinator_epoch.max(0);
    marker.topics = vec![topic];
    let mut request = WriteTxnMarkersRequest::default();
    request.markers = vec![marker];
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    for one in answer.markers.iter().flat_map(|marker| &marker.topics).flat_map(|topic| &topic.partitions) {
        check(one.error_code, None, || format!("abort the transaction in {name}/{partition}"))?;
    }
    Err(Failed::Redirect("/transactions?done=aborted".to_owned()))
}
