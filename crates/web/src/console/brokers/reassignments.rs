//! Reassignments in progress: replicas that partitions get and lose, and the copied part.

use levada_wire::messages::ListPartitionReassignmentsRequest;
use levada_wire::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use maud::{Markup, html};

use super::{Logs, size_at};
use crate::console::failure::{Failed, Needing as _, check};
use crate::console::health::nodes;
use crate::console::layout::{table, topic_link};
use crate::console::visitor::Visitor;
use crate::console::{Console, format};

/// Maximum number of partitions that the page shows.
const ROWS_MAX: usize = 200;
/// Time for which the controller may take to respond, ms.
const TIMEOUT_MS: i32 = 1_500;

/// The reassignments in progress, by topic.
pub(super) async fn ongoing(
    console: &Console,
    visitor: &Visitor,
) -> Result<Vec<OngoingTopicReassignment>, Failed> {
    let mut request = ListPartitionReassignmentsRequest::default();
    request.timeout_ms = TIMEOUT_MS;
    request.topics = None;
    let doing = || "list reassignments".to_owned();
    let answer = console.ask_controller(visitor, &request, &doing()).await?;
    check(answer.error_code, answer.error_message.as_deref(), doing).needing("describe", "--cluster")?;
    Ok(answer.topics)
}

/// The part of the page about them.
pub(super) fn list(console: &Console, ongoing: &[OngoingTopicReassignment], logs: Option<&Logs>) -> Markup {
    let all =
        || ongoing.iter().flat_map(|topic| topic.partitions.iter().map(|one| (topic.name.as_str(), one)));
    let count = all().count();
    html! {
        @if count == 0 { p { "No reassignment is in progress." } }
        @else {
            (table(&["Partition", "Replicas", "Adding", "Removing", "Copied"], html! {
                @for (topic, one) in all().take(ROWS_MAX) {
                    tr {
                        th scope="row" { (topic_link(topic)) "/" (one.partition_index) }
                        td { (nodes(&one.replicas)) }
                        td { (nodes(&one.adding_replicas)) }
                        td { (nodes(&one.removing_replicas)) }
                        td { (copied(console, (topic, one), logs)) }
                    }
                }
            }))
            @if count > ROWS_MAX { p.soft { (count - ROWS_MAX) " further reassignments are not shown." } }
        }
    }
}

/// Part of the leader's log that the new replicas have, by bytes; a replica in sync has everything.
fn copied(
    console: &Console,
    (topic, one): (&str, &OngoingPartitionReassignment),
    logs: Option<&Logs>,
) -> String {
    let place = (topic.to_owned(), one.partition_index);
    let leader = console.leader(topic, one.partition_index);
    let whole = leader.and_then(|leader| size_at(logs, leader, &place)).unwrap_or(0);
    let parts = one.adding_replicas.iter().map(|node| match size_at(logs, *node, &place) {
        Some(bytes) => format!("{node}: {}", share(bytes, whole)),
        None => format!("{node}: —"),
    });
    parts.collect::<Vec<_>>().join(", ")
}

fn share(bytes: u64, whole: u64) -> String {
    match whole {
        0 => format::bytes(bytes),
        _ => format!("{} % of {}", (bytes.saturating_mul(100) / whole).min(100), format::bytes(whole)),
    }
}
