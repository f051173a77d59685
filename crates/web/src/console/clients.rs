//! Clients that push their metrics (KIP-714): the latencies that they measure, beside those of the
//! broker, and all metrics of one client.

use std::sync::Arc;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_base::{id_text, parse_id};
use levada_broker::server::Door;
use levada_broker::source::Phase;
use levada_process::blocking::off_shard;
use levada_process::clock::steady_ms;
use levada_security::acl::Operation;
use levada_telemetry::{About, Client, ClientRow};
use levada_wire::Uuid;
use maud::{Markup, html};

use super::failure::Failed;
use super::fields::Fields;
use super::layout::{self, Page, Section, field, notice, table_of, tile};
use super::performance::{mean, quantile};
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Maximum number of clients that the page shows.
const CLIENTS_MAX: usize = 200;

/// Metrics of producers and consumers that the list shows, in this order. KIP-714 gives them the
/// same names in all clients; times are in milliseconds.
const SHOWN: [&str; 9] = [
    "org.apache.kafka.producer.node.request.latency.avg",
    "org.apache.kafka.consumer.node.request.latency.avg",
    "org.apache.kafka.producer.node.request.latency.max",
    "org.apache.kafka.consumer.node.request.latency.max",
    "org.apache.kafka.producer.produce.throttle.time.avg",
    "org.apache.kafka.producer.record.queue.time.avg",
    "org.apache.kafka.consumer.fetch.manager.fetch.latency.avg",
    "org.apache.kafka.consumer.coordinator.commit.latency.avg",
    "org.apache.kafka.consumer.poll.idle.ratio.avg",
];

/// The page of all clients.
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let page = page(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Clients, page)
}

async fn page(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    console.cluster_permission(visitor, Operation::Describe).await?;
    let (broker, search) = (console.door.clone(), fields.text("search").to_owned());
    let content = off_shard(move || {
        let clients = broker.telemetry_clients(&search, CLIENTS_MAX, &SHOWN);
        html! {
            (tabs("/clients"))
            form.line method="get" role="search" {
                (field("Client, user, software or group contains", html! { input type="search" name="search" value=(search); }))
                button { "Search" }
            }
            div #clients data-refresh="5" {
                @if !broker.is_telemetry_offered() { (notice("warn", OFF)) }
                h2 { "Seen by this broker" }
                p.soft { "Times since the start. Fetch waits for new records up to fetch.max.wait.ms." }
                (own_times(&broker))
                h2 { "Seen by the clients" }
                p.soft {
                    "The last push of each client, latest first. Latencies have the network in them; of several nodes, the slowest one is shown. "
                    "Each client pushes to one broker; the console of that broker shows it."
                }
                @if clients.len() == CLIENTS_MAX { (notice("warn", format!("The first {CLIENTS_MAX} clients are shown; search for others."))) }
                (rows(&clients))
            }
        }
    });
    Ok(Page::new(Section::Clients, "Clients", content.await))
}

/// Links between the pages about clients.
pub(super) fn tabs(current: &str) -> Markup {
    html! {
        nav.tabs aria-label="Clients" {
            @for (target, text) in [("/clients", "Metrics"), ("/connections", "Connections"), ("/quotas", "Quotas")] {
                a href=(target) aria-current=[(target == current).then_some("page")] { (text) }
            }
        }
    }
}

/// The next step while no client is to push metrics.
const OFF: &str = "Clients that connect are not asked for metrics: there is no client-metrics subscription. Next: \
                   kafka-client-metrics.sh --alter --generate-name --metrics org.apache.kafka. --interval 30000; then restart \
                   the Java clients, which ask only when they connect.";

/// The broker's times of the requests that the clients time as well.
fn own_times(broker: &Door) -> Markup {
    let apis = broker.source().stats().requests();
    let shown = |name: &str| ["Produce", "Fetch", "OffsetCommit"].contains(&name);
    let rows = html! {
        @for (api, totals) in apis.iter().filter(|(api, _)| shown(api)) {
            @let phase = |phase: Phase| &totals.phases[phase as usize];
            tr {
                th scope="row" { (api) }
                td.n { (format::count(i128::from(totals.requests))) }
                td.n { (mean(phase(Phase::Total))) }
                td.n { (quantile(phase(Phase::Total), 0.99)) }
                td.n { (mean(phase(Phase::Waiting))) }
                td.n { (mean(phase(Phase::Throttled))) }
            }
        }
    };
    table_of(&["API", "#Requests", "#Mean", "#p99", "#Waiting mean", "#Muted mean"], &[2, 5, 6], rows)
}

fn rows(clients: &[ClientRow]) -> Markup {
    let columns = [
        "Client",
        "Software",
        "User",
        "Last push",
        "#Request mean",
        "#Request max",
        "#Throttled mean",
        "#Queued mean",
        "#Fetch mean",
        "#Commit mean",
        "#Idle",
        "#Series",
    ];
    let rows = html! {
        @for one in clients {
            @let [producer, consumer, producer_max, consumer_max, throttled, queued, fetch, commit, idle] = values(one);
            tr {
                th.wide scope="row" { (link(one)) span.hint { (one.about.source.to_string()) } }
                td { (one.about.software) " " (one.about.version) }
                td { (one.about.user) }
                td { (last_push(&one.about)) }
                td.n { (millis(producer.or(consumer))) }
                td.n { (millis(producer_max.or(consumer_max))) }
                td.n { (millis(throttled)) }
                td.n { (millis(queued)) }
                td.n { (millis(fetch)) }
                td.n { (millis(commit)) }
                td.n { (idle.map_or_else(none, |ratio| format!("{:.0} %", ratio * 100.0))) }
                td.n { (format::count(one.series_count as i128)) }
            }
        }
        @if clients.is_empty() { tr { td colspan="12" { "No client has pushed metrics of late." } } }
    };
    table_of(&columns, &[2, 3, 6, 7, 8, 9, 10, 11, 12], rows)
}

/// The values in the order of [`SHOWN`].
fn values(row: &ClientRow) -> [Option<f64>; SHOWN.len()] {
    std::array::from_fn(|at| row.largest.get(at).copied().flatten())
}

fn link(row: &ClientRow) -> Markup {
    let name = if row.about.client_id.is_empty() { "(no client id)" } else { &row.about.client_id };
    html! { a href={ "/client?id=" (id_text(row.instance_id.to_bytes())) } { (name) } }
}

fn last_push(about: &About) -> String {
    let ago = format::millis(steady_ms().saturating_sub(about.pushed_ms));
    if about.ended { format!("{ago} ago, the last one") } else { format!("{ago} ago") }
}

fn none() -> String {
    "—".to_owned()
}

fn millis(value: Option<f64>) -> String {
    value.map_or_else(none, |value| format!("{value:.1} ms"))
}

/// The page of one client.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let page = one(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Clients, page)
}

async fn one(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    console.cluster_permission(visitor, Operation::Describe).await?;
    let text = fields.text("id");
    let id = parse_id(text).map(Uuid::from_bytes);
    let client = id.and_then(|id| console.door.telemetry_client(id));
    let client = client
        .ok_or_else(|| Failed::Missing(format!("No client instance {text} has pushed metrics of late.")))?;
    let about = &client.about;
    let content = html! {
        div #client data-refresh="5" {
            div.tiles {
                (tile("Client instance", text, None))
                (tile("Software", format!("{} {}", about.software, about.version), None))
                (tile("User", &about.user, None))
                (tile("Address", about.source.to_string(), None))
                (tile("Last push", last_push(about), None))
                (tile("Interval", format::millis(i64::from(about.interval_ms)), None))
                @for (name, value) in &about.labels { (tile(name, value, None)) }
            }
            @if about.left_out > 0 {
                (notice("warn", format!("{} values of the last push were left out: see levada.client.telemetry.max.series.", about.left_out)))
            }
            h2 { "Metrics" }
            p.soft { "Sums begin with the first push that this broker has kept." }
            (series(&client))
        }
    };
    let name = if about.client_id.is_empty() { text } else { &about.client_id };
    Ok(Page::new(Section::Clients, format!("Client {name}"), content))
}

fn series(client: &Client) -> Markup {
    let mut series: Vec<_> = client.series().collect();
    series.sort_by_key(|(name, attributes, _)| (*name, *attributes));
    let rows = html! {
        @for (name, attributes, one) in &series {
            tr {
                th.wide scope="row" { (name.strip_prefix("org.apache.kafka.").unwrap_or(name)) }
                td.wide { (attributes) }
                td { @if one.is_counter { "sum" } @else { "value" } }
                td.n { (number(one.value)) }
            }
        }
        @if series.is_empty() { tr { td colspan="4" { "The last push had no values." } } }
    };
    table_of(&["Metric", "Attributes", "Kind", "#Value"], &[3], rows)
}

/// A value with at most three decimals.
fn number(value: f64) -> String {
    if !value.is_finite() {
        return none();
    }
    let text = format!("{value:.3}");
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

#[cfg(test)]
mod tests;
