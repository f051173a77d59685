//! Hanging transactions: a partition holds them open, their producers are silent, and no
//! coordinator will end them. Their abort writes a marker into the partition.
//!
//! A transaction that a coordinator of another broker may have is no candidate for an abort here:
//! its marker would cut a live transaction in two.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_broker::server::Door;
use levada_coordination::txn::LATE_AFTER_MS;
use levada_process::clock::now_ms;
use levada_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_producers_request::TopicRequest;
use levada_wire::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
use levada_wire::messages::{DescribeProducersRequest, WriteTxnMarkersRequest};
use maud::{Markup, html};

use super::allowed::ALTER_CLUSTER;
use super::failure::{Failed, Needing as _, check};
use super::fields::Fields;
use super::layout::{self, Page, Section, notice, table_of, topic_link};
use super::question::Place;
use super::topics::confirmed;
use super::transactions::abort_form;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Maximum number of partitions with an open transaction that are checked.
const PARTITIONS_MAX: usize = 1000;

/// Topic of the coordinators of transactions.
const COORDINATORS: &str = "__transaction_state";

/// A transaction that a partition holds open.
struct Held {
    place: Place,
    producer_id: i64,
    producer_epoch: i32,
    coordinator_epoch: i32,
    start: i64,
    last_ms: i64,
}

/// The hanging transactions, and the limits of the search.
struct Hanging {
    held: Vec<Held>,
    /// False if a coordinator was not queried, so that one of these transactions may be live.
    certain: bool,
    /// True if there are more partitions with open transactions than were checked.
    cut: bool,
    /// Number of partitions with open transactions whose producers the visitor may not see.
    refused: usize,
}

/// The part of the page of transactions.
pub(super) async fn section(console: &Console, visitor: &Visitor) -> Result<Markup, Failed> {
    let hanging = hanging(console, visitor).await?;
    let silent = format::millis(silent_ms(&console.door));
    Ok(html! {
        h2 { "Hanging" }
        p.soft {
            "These transactions are open in a partition, their producers have written nothing for " (silent)
            ", and no coordinator will end them. Consumers with read_committed and compaction stop at their start."
        }
        @if hanging.cut {
            (notice("warn", format!("Only the first {PARTITIONS_MAX} partitions with open transactions were checked; levada transaction hanging checks all.")))
        }
        @if hanging.refused > 0 {
            (notice("warn", format!("{} partitions with open transactions were not checked: User:{} may not read their topics.", hanging.refused, visitor.caller.session().user())))
        }
        @if !hanging.certain && !hanging.held.is_empty() {
            div.notice.warn role="status" {
                p { "Not every transaction coordinator could be queried: one that is on another broker or still loading may end one of these transactions. This page cannot abort them now." }
                p { "Next: " code { "levada transaction hanging" } " asks every coordinator." }
            }
        }
        div #hanging {
            (table_of(&["Topic", "#Partition", "#Start offset", "#Producer", "#Epoch", "Last write (UTC)", "Abort"], &[3, 4, 5], html! {
                @for one in &hanging.held { (row(console, visitor, (one, hanging.certain))) }
                @if hanging.held.is_empty() {
                    tr { td colspan="7" {
                        @if hanging.refused == 0 { "No transaction hangs." }
                        @else { "No transaction hangs in the other partitions." }
                    } }
                }
            }))
        }
    })
}

fn row(console: &Console, visitor: &Visitor, (one, certain): (&Held, bool)) -> Markup {
    let (topic, partition) = &one.place;
    let numbers = [i64::from(*partition), one.producer_id, one.start].map(|number| number.to_string());
    let hidden = [
        ("topic", topic.as_str()),
        ("partition", &numbers[0]),
        ("producer", &numbers[1]),
        ("start", &numbers[2]),
    ];
    let may_mark = console.permits(visitor, (Operation::ClusterAction, ResourceType::Cluster, CLUSTER_NAME));
    let form = || abort_form(visitor, "/transactions/abort-hanging", &hidden);
    html! {
        tr {
            th scope="row" { (topic_link(topic)) }
            td.n { (partition) }
            td.n { (format::count(i128::from(one.start))) }
            td.n { (one.producer_id) }
            td.n { (one.producer_epoch) }
            td { (format::time(one.last_ms)) }
            td {
                @if certain && may_mark { (form()) }
                @else if certain { (console.offered(visitor, ALTER_CLUSTER, ("Abort", form()))) }
                @else { "—" }
            }
        }
    }
}

/// Time without a write after which an open transaction may count as hanging: no coordinator keeps
/// a transaction open that long.
fn silent_ms(broker: &Door) -> i64 {
    i64::from(broker.config().transactions.max_timeout_ms) + LATE_AFTER_MS
}

/// The hanging transactions, as far as the visitor may see the producers of their topics.
async fn hanging(console: &Console, visitor: &Visitor) -> Result<Hanging, Failed> {
    let latest_ms = now_ms() - silent_ms(&console.door);
    let mut found = open(console, visitor).await?;
    found.held.retain(|one| one.last_ms <= latest_ms);
    let producers: BTreeSet<i64> = found.held.iter().map(|one| one.producer_id).collect();
    if producers.is_empty() {
        return Ok(found);
    }
    let (unfinished, certain) = unfinished(&console.door, &producers);
    found.held.retain(|one| !unfinished.contains(&(one.producer_id, one.place.clone())));
    Ok(Hanging { certain, ..found })
}

/// Partitions in which coordinators will end transactions of these producers; the flag is false if
/// a coordinator is on another broker or is loading. All transactional ids count, including those
/// that the visitor may not describe: the result only removes rows.
fn unfinished(broker: &Door, producers: &BTreeSet<i64>) -> (BTreeSet<(i64, Place)>, bool) {
    let image = broker.image();
    let coordinators = image.topic(COORDINATORS).map_or(0, |topic| topic.partition_count());
    let asked = broker.unfinished(producers);
    let certain = asked.iter().filter(|answer| answer.is_some()).count() >= coordinators;
    let places = asked.into_iter().flatten().flatten();
    (places.map(|(producer, place)| (producer, (place.topic, place.partition))).collect(), certain)
}

/// Open transactions in partitions, as far as the visitor may see the producers of their topics,
/// before coordinators are queried.
async fn open(console: &Console, visitor: &Visitor) -> Result<Hanging, Failed> {
    let mut topics: BTreeMap<String, Vec<i32>> = BTreeMap::new();
    let waiting = console.door.partitions_held_open();
    let cut = waiting.len() > PARTITIONS_MAX;
    for (topic, index) in waiting.into_iter().take(PARTITIONS_MAX) {
        topics.entry(topic).or_default().push(index);
    }
    let mut found = Hanging { held: Vec::new(), certain: true, cut, refused: 0 };
    if topics.is_empty() {
        return Ok(found);
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
    for topic in &answer.topics {
        for partition in &topic.partitions {
            let is_refused = partition.error_code == ErrorCode::TopicAuthorizationFailed.code();
            found.refused += usize::from(is_refused);
            let open = partition.active_producers.iter().filter(|one| one.current_txn_start_offset >= 0);
            found.held.extend(open.map(|one| Held {
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

/// Ends a hanging transaction in its partition.
pub(super) async fn abort(
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
    let hanging = hanging(console, visitor).await?;
    let found = hanging
        .held
        .iter()
        .find(|one| one.place == place && Some(one.producer_id) == producer && Some(one.start) == start);
    let (name, partition) = &place;
    let found = found
        .ok_or_else(|| Failed::Missing(format!("No such transaction hangs in {name}/{partition} now.")))?;
    if !hanging.certain {
        let sentence = format!(
            "Not every transaction coordinator could be queried: one that is on another broker or still loading may end this \
             transaction. Check: `levada \
             transaction hanging --topic {name}`. Abort: `levada transaction abort --topic {name} -p {partition} \
             --start-offset {}`.",
            found.start,
        );
        let code = ErrorCode::CoordinatorNotAvailable.code();
        check(code, Some(&sentence), || format!("abort the transaction in {name}/{partition}"))?;
    }
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
        check(one.error_code, None, || format!("abort the transaction in {name}/{partition}"))
            .needing("alter", "--cluster")?;
    }
    Err(Failed::Redirect("/transactions?done=aborted".to_owned()))
}
