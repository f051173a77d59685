//! Performance: times of requests by API, cold reads, stalls of transfers, and the longest times
//! for which the writer of a partition was held.

use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_broker::server::Door;
use levada_broker::source::Work;
use levada_broker::source::{BOUNDS_US, Durations, Phase};
use levada_io::Path;
use levada_process::blocking::off_shard;
use levada_security::acl::Operation;
use maud::{Markup, html};

use super::failure::Failed;
use super::layout::{self, Page, Section, table, table_of, tile};
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Renders the page of the broker's performance.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, .. }): Visiting,
) -> Response {
    let page = page(&console, &visitor).await;
    layout::respond(&visitor, Section::Performance, page)
}

async fn page(console: &Console, visitor: &Visitor) -> Result<Page, Failed> {
    console.cluster_permission(visitor, Operation::Describe).await?;
    let broker = console.door.clone();
    let content = off_shard(move || {
        html! {
            div #performance data-refresh="5" {
                h2 { "Requests by API" }
                p.soft {
                    "Times since the start. Quantiles are upper bounds: the end of the bucket of the histogram in which they lie. "
                    "Waiting is time for records, members or the disk; Fetch waits for new records up to fetch.max.wait.ms."
                }
                (requests(&broker))
                h2 { "Shards and disk" }
                (tiles(&broker))
                h2 { "Transfers" }
                p.soft { "A stall is a system call that took longer than 1 ms: its shard served no other connection meanwhile." }
                (transfers(&broker))
            }
        }
    });
    Ok(Page::new(Section::Performance, "Performance", content.await))
}

fn requests(broker: &Door) -> Markup {
    let columns = [
        "API",
        "#Requests",
        "#Errors",
        "#Total p50",
        "#Total p99",
        "#Total mean",
        "#Busy mean",
        "#Waiting mean",
        "#Muted mean",
        "#Sending p99",
    ];
    let mut apis = broker.source().stats().requests();
    apis.sort_by_key(|(_, totals)| std::cmp::Reverse(totals.requests));
    let rows = html! {
        @for (api, totals) in &apis {
            @let phase = |phase: Phase| &totals.phases[phase as usize];
            @let errors: u64 = totals.errors.iter().filter(|(name, _)| *name != "NONE").map(|(_, count)| count).sum();
            tr {
                th scope="row" { (api) }
                td.n { (format::count(i128::from(totals.requests))) }
                td.n { (format::count(i128::from(errors))) }
                td.n { (quantile(phase(Phase::Total), 0.5)) }
                td.n { (quantile(phase(Phase::Total), 0.99)) }
                td.n { (mean(phase(Phase::Total))) }
                td.n { (mean(phase(Phase::Local))) }
                td.n { (mean(phase(Phase::Waiting))) }
                td.n { (mean(phase(Phase::Throttled))) }
                td.n { (quantile(phase(Phase::Sending), 0.99)) }
            }
        }
        @if apis.is_empty() { tr { td colspan="10" { "No client has sent a request yet." } } }
    };
    table_of(&columns, &[4, 6, 7, 9, 10], rows)
}

fn tiles(broker: &Door) -> Markup {
    let (replays, cleaner, upkeep) =
        (broker.source().replays(), broker.source().cleaner(), broker.source().upkeep());
    let transfers = broker.source().transfers();
    html! {
        div.tiles {
            @for ((_, name), longest) in Work::ALL.iter().zip(broker.source().longest_lane_turns()) {
                (tile(&format!("Longest turn: {name}"), time(longest), None))
            }
            (tile("Flush p99", quantile(&upkeep.flushes, 0.99), None))
            (tile("Flush mean", mean(&upkeep.flushes), None))
            (tile("Cold reads, kept", format::bytes(replays.admitted_bytes), None))
            (tile("Cold reads, not kept", format::bytes(replays.refused_bytes), None))
            (tile("Reads around the cache", format::bytes(replays.around_bytes), None))
            (tile("Warmed off the shards", format::bytes(transfers.warmed()), None))
            (tile("Memory pressure", pressure(&replays.memory), None))
            (tile("Compaction backlog", format::bytes(cleaner.backlog_bytes), None))
        }
    }
}

/// The name of the state that the memory has; a dash before the first look at the memory.
fn pressure(states: &[(&'static str, bool)]) -> &'static str {
    states.iter().find(|(_, is)| *is).map_or("—", |(name, _)| *name)
}

fn transfers(broker: &Door) -> Markup {
    let transfers = broker.source().transfers();
    table(
        &["Path", "#Bytes", "#Calls", "#Stalls"],
        html! {
            @for path in Path::ALL {
                tr {
                    th scope="row" { (path.label()) }
                    td.n { (format::bytes(transfers.bytes(path))) }
                    td.n { (format::count(i128::from(transfers.calls(path)))) }
                    td.n { (format::count(i128::from(transfers.stalls(path)))) }
                }
            }
        },
    )
}

/// The bound that this share of durations does not exceed.
pub(super) fn quantile(durations: &Durations, share: f64) -> String {
    let count: u64 = durations.buckets.iter().sum();
    if count == 0 {
        return "—".to_owned();
    }
    let wanted = (count as f64 * share).ceil() as u64;
    let mut sum = 0;
    let at = durations.buckets.iter().position(|bucket| {
        sum += bucket;
        sum >= wanted
    });
    match at.and_then(|at| BOUNDS_US.get(at)) {
        Some(bound) => format!("≤ {}", time(Duration::from_micros(*bound))),
        None => format!("> {}", time(Duration::from_micros(BOUNDS_US[BOUNDS_US.len() - 1]))),
    }
}

/// The mean of durations.
pub(super) fn mean(durations: &Durations) -> String {
    match durations.buckets.iter().sum::<u64>() {
        0 => "—".to_owned(),
        count => time(Duration::from_nanos(durations.sum_ns / count)),
    }
}

/// A short time, in the unit that fits.
fn time(duration: Duration) -> String {
    let us = duration.as_secs_f64() * 1e6;
    match us {
        _ if us >= 1e6 => format!("{:.2} s", us / 1e6),
        _ if us >= 1e5 => format!("{:.0} ms", us / 1e3),
        _ if us >= 1e3 => format!("{:.1} ms", us / 1e3),
        _ => format!("{us:.0} µs"),
    }
}

#[cfg(test)]
mod tests;
