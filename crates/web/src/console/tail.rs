//! The records of a topic as they arrive: a stream of events, which a page continues where it was
//! cut off.
//!
//! The id of an event is the position in each partition after the event's records. A browser whose
//! connection ends sends the last id with the next one.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::http::HeaderMap;
use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Value, json};

use super::failure::Failed;
use super::fields::Fields;
use super::layout::table_of;
use super::live::{self, Feed};
use super::messages::{COLUMNS, FILTERS, MINOR, PAGE_PARTITIONS, line, wanted};
use super::part::ShownPart;
use super::records::Found;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Field with the positions at which a stream continues.
pub(super) const POSITIONS: &str = "positions";

/// Header with the id of the last event of a stream that was cut off.
const LAST_EVENT: &str = "last-event-id";
/// Longest wait for records of a followed topic, and pause between two events of a busy one.
const WAIT_MS: i32 = 2000;
const PAUSE: Duration = Duration::from_millis(250);
/// Records of one event: at least one of each partition with records.
const EVENT_RECORDS: usize = PAGE_PARTITIONS;

/// The part of the page of messages that the stream fills.
pub(super) fn section(name: &str, fields: &Fields) -> Markup {
    let query: Vec<String> = FILTERS
        .iter()
        .chain(&["partition", "isolation"])
        .map(|field| format!("{field}={}", format::linked(fields.raw(field))))
        .collect();
    let target = format!("/topics/{}/tail?from=tail&{}", format::linked(name), query.join("&"));
    html! {
        p data-tail-state role="status" { "Waiting for records." }
        (live::state())
        div data-tail=(target) { (table_of(&COLUMNS, &MINOR, html! {})) }
    }
}

/// Sends new records of a topic as a stream of events.
pub(super) async fn stream(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
    Path(name): Path<String>,
    headers: HeaderMap,
) -> Response {
    let mut fields = Fields::clone(&fields);
    if let Some(last) = headers.get(LAST_EVENT).and_then(|id| id.to_str().ok()) {
        // The record is newer than the positions in the link.
        fields.0.insert(0, (POSITIONS.to_owned(), last.to_owned()));
    }
    let follower = console.clone();
    live::stream(&console, &visitor.clone(), |feed| async move {
        tokio::select! {
            ended = follow(&follower, &visitor, (&name, &fields), &feed) => {
                if let Err(failed) = ended {
                    feed.send(None, &json!({ "failed": failed.text() })).await;
                }
            }
            () = feed.closed() => {}
        }
    })
}

async fn follow(
    console: &Console,
    visitor: &Visitor,
    (name, fields): (&str, &Fields),
    feed: &Feed,
) -> Result<(), Failed> {
    let (mut wanted, _) = wanted(console, visitor, (name, fields)).await?;
    // The positions reach the page before the first record, so that no cut can lose it.
    let mut records: Vec<Value> = Vec::new();
    wanted.wait_ms = WAIT_MS;
    // An empty event detects that the page was closed or the session has ended.
    while feed.send(Some(&id(&wanted.positions)), &json!({ "records": records })).await {
        let looked = console.look(visitor, &mut wanted, EVENT_RECORDS).await?;
        if let Some(text) = looked.damaged.first() {
            return Err(Failed::Missing(format!("A batch cannot be read: {text}")));
        }
        records = looked.found.iter().map(event).collect();
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Positions as the id of an event: `PARTITION:OFFSET`, separated by commas.
fn id(positions: &BTreeMap<i32, i64>) -> String {
    let pairs: Vec<String> = positions.iter().map(|(index, offset)| format!("{index}:{offset}")).collect();
    pairs.join(",")
}

/// The positions in an id; malformed parts are omitted.
pub(super) fn positions(id: &str) -> BTreeMap<i32, i64> {
    let pairs = id.split(',').filter_map(|pair| pair.split_once(':'));
    pairs.filter_map(|(index, offset)| index.parse().ok().zip(offset.parse().ok())).collect()
}

fn event(found: &Found) -> Value {
    let part = |part: Option<&ShownPart>, absent: &str| match part {
        None => json!({ "form": absent }),
        Some(part) => {
            let text = &part.shown.text;
            json!({ "form": part.form(), "text": text, "line": line(text) })
        }
    };
    json!({
        "partition": found.partition,
        "offset": found.offset,
        "time": format::time(found.timestamp_ms),
        "key": part(found.key.as_ref(), "no key"),
        "value": part(found.value.as_ref(), "tombstone"),
        "headers": found.headers.join("\n"),
        "size": format::bytes(found.batch.bytes as u64),
    })
}

#[cfg(test)]
mod tests;
