//! The first page: rates, memory, problems, and the sent bytes by transfer path.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_broker::server::Door;
use levada_broker::source::MembershipState;
use levada_client::health::FENCED;
use levada_io::Path;
use levada_process::blocking::off_shard;
use levada_process::usage::Process;
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::{DescribeClusterRequest, MetadataRequest};
use maud::{Markup, html};
use serde_json::json;

use super::brokers::quorum;
use super::failure::{Failed, Needing as _, check};
use super::health::{Health, verb};
use super::layout::{self, Page, Section, notice, tile};
use super::live;
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Time between two events of a page.
const BEAT: Duration = Duration::from_secs(1);
/// Free part of a file system below which the page warns, as the alert rule does.
const FREE_PERCENT: u64 = 10;

/// Renders the overview.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, .. }): Visiting,
) -> Response {
    let page = page(&console, &visitor).await;
    layout::respond(&visitor, Section::Overview, page)
}

/// Sends the counters once a second, as long as the page is open.
pub(super) async fn live(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, .. }): Visiting,
) -> Response {
    let own = console.clone();
    live::stream(&console, &visitor, |feed| async move {
        let mut beat = tokio::time::interval(BEAT);
        if !feed.send(None, &json!({ "history": own.history.traffic(Instant::now()) })).await {
            return;
        }
        loop {
            tokio::select! {
                _ = beat.tick() => {}
                () = feed.closed() => return,
            }
            own.keep_history();
            if !feed.send(None, &counters(&own.door)).await {
                return;
            }
        }
    })
}

fn counters(broker: &Door) -> serde_json::Value {
    let transfers = broker.source().transfers();
    let stats = broker.source().stats();
    let process = Process::read();
    let paths: serde_json::Map<String, serde_json::Value> =
        Path::ALL.iter().map(|path| (path.label().to_owned(), json!(transfers.bytes(*path)))).collect();
    let requests: u64 = stats.requests().iter().map(|(_, totals)| totals.requests).sum();
    json!({
        "produced": stats.produced_bytes(),
        "fetched": stats.fetched_bytes(),
        "requests": requests,
        "connections": stats.connections_open(),
        "partitions": broker.source().partitions(),
        "held": broker.source().request_bytes_held(),
        "resident": process.resident_bytes,
        "cpu": process.cpu_seconds,
        "files": process.open_fds,
        "paths": paths,
    })
}

async fn page(console: &Console, visitor: &Visitor) -> Result<Page, Failed> {
    let mut request = DescribeClusterRequest::default();
    request.include_fenced_brokers = true;
    let cluster = console.desk.ask(&visitor.caller, &request).await?;
    let sentence = cluster.error_message.as_deref().map(str::to_owned);
    check(cluster.error_code, sentence.as_deref(), || "describe the cluster".to_owned())
        .needing("describe", "--cluster")?;
    let mut request = MetadataRequest::default();
    request.topics = None;
    let metadata = console.desk.ask(&visitor.caller, &request).await?;
    let health = Health::of(&metadata.topics, &console.adding());
    let topics = metadata.topics.iter().filter(|topic| !topic.is_internal).count();
    let problems = console.cluster_problems(visitor, &cluster.brokers).await;
    let more = console.warnings(visitor).await;
    let content = html! {
        (wrong(&console.door, (&health, &problems, more)))
        (live::state())
        div.tiles data-stream="/live" {
            (tile("Produced", "—", Some("produced")))
            (tile("Fetched", "—", Some("fetched")))
            (tile("Requests", "—", Some("requests")))
            (tile("Connections", "—", Some("connections")))
            (tile("Memory", "—", Some("resident")))
            (tile("Processor", "—", Some("cpu")))
            (tile("Partitions", format::count(i128::from(console.door.source().partitions())), Some("partitions")))
            (tile("Your topics", format::count(topics as i128), None))
        }
        h2 { "Bytes in and out" }
        div.chart data-chart="traffic" {
            p.soft { span.legend.s0 {} "produced " span.legend.s1 {} "fetched, over the last hour; older samples exist only since this page was first opened" }
        }
        h2 { "Bytes by transfer path" }
        p.soft {
            "Bytes that left the broker, counted where they left. " code { "splice" } " and " code { "sendfile" }
            " send from the page cache without a copy. Where the kernel copies the pages, large ranges leave by "
            code { "mmap_write" } ", which copies once, and smaller ones by " code { "splice_copy" } " or "
            code { "sendfile_copy" } ". " code { "send" } " copies from memory once, " code { "read_write" } " twice."
        }
        div.chart data-chart="paths" { (paths(&console.door)) }
        @if let Some(state) = console.door.source().membership() { (membership(console, &state)) }
        h2 { "Broker" }
        (facts(console, cluster.cluster_id.as_str()))
    };
    Ok(Page::new(Section::Overview, "Overview", content))
}

impl Console {
    /// Problems of the controllers, and brokers that are fenced. The state of this broker has its
    /// own notice.
    async fn cluster_problems(&self, visitor: &Visitor, brokers: &[DescribeClusterBroker]) -> Vec<String> {
        let mut found = Vec::new();
        // A single broker is its own controller.
        if self.door.source().membership().is_some() {
            found.extend(quorum::problem(self, visitor).await.map(|problem| problem.to_string()));
        }
        found.extend(fenced(brokers, self.own()));
        found
    }

    /// Warnings about disk space, late transactions, and groups that the visitor may describe.
    async fn warnings(&self, visitor: &Visitor) -> Vec<Markup> {
        let broker = self.door.clone();
        let (volumes, late) = off_shard(move || {
            (broker.source().upkeep().volumes, broker.source().transactions().late_partitions)
        })
        .await;
        let scarce = volumes.iter().filter_map(scarce);
        let mut found: Vec<Markup> = scarce.map(|text| html! { (text) }).collect();
        found.extend((late > 0).then(|| overdue(late as usize)));
        let rows = self.group_rows(visitor).await.unwrap_or_default();
        let abandoned = rows.iter().filter(|row| row.is_abandoned()).count();
        if abandoned > 0 {
            found.push(html! {
                "Groups with lag and without a member: " (abandoned) ". "
                a href="/groups" { "Show the groups" }
            });
        }
        found
    }
}

/// The warning about transactions in this number of partitions.
fn overdue(partitions: usize) -> Markup {
    html! {
        (format::counted(partitions, "partition")) " " (verb(partitions))
        " a transaction that its coordinator should have ended. "
        a href="/transactions" { "Show hanging transactions" }
    }
}

/// A sentence for each fenced broker but this one.
fn fenced(brokers: &[DescribeClusterBroker], own: i32) -> impl Iterator<Item = String> {
    let fenced = brokers.iter().filter(move |one| one.is_fenced && one.broker_id != own);
    fenced.map(|one| format!("Broker {} is {FENCED}", one.broker_id))
}

/// The warning about a directory whose file system has little free space: free bytes, and total.
fn scarce((directory, free, size): &(String, u64, u64)) -> Option<String> {
    let percent = free.saturating_mul(100).checked_div(*size)?;
    (percent < FREE_PERCENT).then(|| {
        format!("The file system of {directory} has {} free, {percent} % of its size", format::bytes(*free))
    })
}

/// All problems that need an operator's attention.
fn wrong(broker: &Door, (health, problems, more): (&Health<'_>, &[String], Vec<Markup>)) -> Markup {
    let recovery = broker.source().recovery();
    let cleaner = broker.source().cleaner();
    let unhealthy = broker.source().unhealthy();
    let refused = broker.source().membership().and_then(|state| state.reason());
    let replication = broker.source().replication();
    let fine = unhealthy.is_none()
        && refused.is_none()
        && problems.is_empty()
        && health.is_good()
        && recovery.left == 0
        && cleaner.uncleanable == 0
        && more.is_empty();
    html! {
        @if let Some(reason) = &unhealthy { (notice("bad", reason)) }
        @if let Some(reason) = &refused { (notice("bad", reason)) }
        @for problem in problems { (notice("bad", problem)) }
        (health.notices())
        @if replication.under_min_insync > 0 {
            @let count = replication.under_min_insync as usize;
            (notice("bad", format!(
                "{} that this broker leads {} fewer replicas in sync than min.insync.replicas: acks=all is refused",
                format::counted(count, "partition"), verb(count),
            )))
        }
        @if recovery.left > 0 {
            (notice("warn", format!("The broker checks {} after an unclean stop", format::counted(recovery.left, "log"))))
        }
        @if cleaner.uncleanable > 0 {
            (notice("warn", format!(
                "{} cannot be compacted; the broker's log names the reason",
                format::counted(cleaner.uncleanable as usize, "partition"),
            )))
        }
        @for text in &more { (notice("warn", text)) }
        @if fine { (notice("good", "No problems: all partitions are served.")) }
    }
}

/// The broker's state in a cluster with controllers, and its replicas.
fn membership(console: &Console, state: &MembershipState) -> Markup {
    let following = console.door.source().following();
    let behind = following.lags.iter().map(|(_, _, lag)| *lag).max().unwrap_or(0).max(0);
    let controller = state.controller.map_or("none known".to_owned(), |id| format!("node {id}"));
    let heartbeat = state.since_heartbeat_ms.map_or("—".to_owned(), format::millis);
    html! {
        h2 { "Cluster" }
        div.tiles {
            (tile("Active controller", controller, None))
            (tile("Phase", state.phase.replace('_', " "), None))
            (tile("Fenced", if state.is_fenced { "yes" } else { "no" }, None))
            (tile("Last heartbeat", heartbeat, None))
            (tile("Metadata records behind", format::count(state.lag()), None))
            (tile("Requests forwarded", format::count(i128::from(state.forwarded)), None))
            (tile("Under-replicated", format::count(console.under_replicated() as i128), None))
            (tile("Followed partitions", format::count(following.lags.len() as i128), None))
            (tile("Largest lag as a follower", format::count(behind), None))
        }
    }
}

/// The table of the chart; the script keeps it current.
fn paths(broker: &Door) -> Markup {
    let transfers = broker.source().transfers();
    let rows = html! {
        // Bytes of reads count again where they leave.
        @for path in Path::ALL.into_iter().filter(|path| *path != Path::UringRead) {
            tr data-path=(path.label()) {
                th scope="row" { (path.label()) }
                td.n data-rate { "—" }
                td.n data-total { (format::bytes(transfers.bytes(path))) }
                td.bar { progress max="1" value="0" aria-label={ "share of " (path.label()) } {} }
            }
        }
    };
    layout::table_of(&["Path", "#Now", "#Since the start", "Share of the last minute"], &[3], rows)
}

fn facts(console: &Console, cluster_id: &str) -> Markup {
    let broker = &console.door;
    let config = broker.config();
    let started = broker.source().stats().started();
    let up = SystemTime::now().duration_since(started).unwrap_or_default();
    html! {
        dl.facts {
            dt { "Version" } dd { (env!("CARGO_PKG_VERSION")) }
            dt { "Cluster" } dd { (cluster_id) }
            dt { "Node" } dd { (config.node_id) }
            dt { "Running for" } dd { (format::duration(up)) }
            dt { "Listeners" } dd {
                @for listener in &config.listeners {
                    div { (listener.name) " · " (listener.protocol) " · " (listener.bind) }
                }
            }
            dt { "Data" } dd { @for directory in &config.log_dirs { div { (directory.display()) } } }
        }
    }
}

#[cfg(test)]
mod tests;
