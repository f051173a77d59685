//! The brokers of the cluster: their state, leaderships, replicas and directories, the quorum of
//! the controllers, partitions with problems, and reassignments.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::State;
use axum::response::Response;
use levada_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::describe_log_dirs_response::DescribeLogDirsResult;
use levada_wire::messages::metadata_response::MetadataResponseTopic;
use levada_wire::messages::{DescribeClusterRequest, DescribeLogDirsRequest, DescribeLogDirsResponse};
use maud::{Markup, html};

use super::failure::{Failed, Needing as _, check};
use super::health::{Adding, Health};
use super::layout::{self, Page, Section, table_of};
use super::question::{Place, sizes};
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

pub(super) mod quorum;
mod reassignments;

/// Maximum number of directories that the page shows.
const DIRECTORIES_MAX: usize = 500;
/// The feature whose range shows which metadata a broker can read.
const METADATA_VERSION: &str = "metadata.version";

/// Leaderships and replicas of one broker, among the topics that the visitor may see.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Load {
    leaders: usize,
    replicas: usize,
    out_of_sync: usize,
}

/// State of a broker that no request returns.
struct Registration {
    is_leaving: bool,
    version: Option<(i16, i16)>,
}

/// Renders the page of all brokers.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, .. }): Visiting,
) -> Response {
    let page = page(&console, &visitor).await;
    layout::respond(&visitor, Section::Brokers, page)
}

async fn page(console: &Console, visitor: &Visitor) -> Result<Page, Failed> {
    let mut request = DescribeClusterRequest::default();
    request.include_fenced_brokers = true;
    let cluster = console.desk.ask(&visitor.caller, &request).await?;
    check(cluster.error_code, cluster.error_message.as_deref(), || "describe the cluster".to_owned())
        .needing("describe", "--cluster")?;
    let topics = console.topics(&visitor.caller).await?;
    // Together, so that a broker and a controller without a response cost the page no more than
    // one.
    let (dirs, quorum, ongoing) = tokio::join!(
        directories(console, visitor),
        quorum::section(console, visitor),
        reassignments::ongoing(console, visitor)
    );
    let (dirs, adding) = (dirs?, console.adding());
    let user = visitor.caller.session().user();
    let needs = |failed: &Failed| failed.explained(user);
    let logs = dirs.as_ref().ok();
    let content = html! {
        div #brokers data-refresh="5" {
            (brokers(console, visitor, (&cluster.brokers, &loads(&topics, &adding), logs)))
            p.soft {
                "Leaders and replicas count the topics that you may see. The version is the range of "
                code { (METADATA_VERSION) } " that the broker supports."
            }
            h2 { "Directories" }
            @match &dirs {
                Ok(logs) => (directory_table(logs)),
                Err(failed) => (needs(failed)),
            }
            h2 { "Quorum" }
            (quorum.unwrap_or_else(|failed| needs(&failed)))
            h2 #partitions { "Partitions with problems" }
            (Health::of(&topics, &adding).list())
            h2 { "Reassignments" }
            @match &ongoing {
                Ok(ongoing) => (reassignments::list(console, ongoing, logs)),
                Err(failed) => (needs(failed)),
            }
        }
    };
    Ok(Page::new(Section::Brokers, "Brokers", content))
}

/// Logs of each broker that responded, by directory.
type Logs = BTreeMap<i32, DescribeLogDirsResponse>;

/// Logs of all directories. The inner error is a refusal, which only concerns parts of the page.
async fn directories(console: &Console, visitor: &Visitor) -> Result<Result<Logs, Failed>, Failed> {
    let allowed = console.permits(visitor, (Operation::Describe, ResourceType::Cluster, CLUSTER_NAME));
    let asked = if allowed { console.live_brokers() } else { vec![console.own()] };
    let mut request = DescribeLogDirsRequest::default();
    request.topics = None;
    let requests = asked.into_iter().map(|node| (node, request.clone())).collect();
    let answers = console.ask_brokers(visitor, (i16::MAX, Duration::ZERO), requests).await?;
    let refused =
        answers.values().find(|answer| answer.error_code != 0).map_or(0, |answer| answer.error_code);
    let refused = if allowed { 0 } else { refused };
    let checked = check(refused, None, || "list the directories".to_owned());
    Ok(checked.needing("describe", "--cluster").map(|()| answers))
}

/// Leaderships and replicas by broker.
fn loads(topics: &[MetadataResponseTopic], adding: &Adding) -> BTreeMap<i32, Load> {
    let mut loads: BTreeMap<i32, Load> = BTreeMap::new();
    for topic in topics {
        let name = topic.name.as_deref().unwrap_or_default();
        for partition in &topic.partitions {
            loads.entry(partition.leader_id).or_default().leaders += 1;
            for node in &partition.replica_nodes {
                loads.entry(*node).or_default().replicas += 1;
            }
            for node in adding.missing(name, partition) {
                loads.entry(node).or_default().out_of_sync += 1;
            }
        }
    }
    loads
}

fn registration(console: &Console, node: i32) -> Option<Registration> {
    let image = console.door.image();
    let found = image.brokers().broker(node)?;
    let version = found.features.iter().find(|one| one.name == METADATA_VERSION);
    let version = version.map(|one| (one.min_version, one.max_version));
    Some(Registration { is_leaving: found.in_controlled_shutdown, version })
}

fn brokers(
    console: &Console,
    visitor: &Visitor,
    (listed, loads, logs): (&[DescribeClusterBroker], &BTreeMap<i32, Load>, Option<&Logs>),
) -> Markup {
    let (own, unheard) = (console.own(), visitor.others.unheard());
    let columns = [
        "Broker",
        "State",
        "Address",
        "Rack",
        "#Leaders",
        "#Replicas",
        "#Not in sync",
        "#Logs",
        "#Free",
        "Version",
    ];
    table_of(
        &columns,
        &[3, 4, 6, 8, 9, 10],
        html! {
            @for one in listed {
                @let node = one.broker_id;
                @let load = loads.get(&node).copied().unwrap_or_default();
                @let known = registration(console, node);
                @let logs = logs.and_then(|logs| logs.get(&node));
                tr data-broker=(node) {
                    th scope="row" { (node) @if node == own { " " span.form-tag { "this console" } } }
                    td {
                        @if one.is_fenced { span.bad-text { "fenced: it is down or starting" } }
                        @else if unheard.contains_key(&node) { span.bad-text { "no response" } }
                        @else if known.as_ref().is_some_and(|known| known.is_leaving) { span.warn-text { "stopping" } }
                        @else { "in service" }
                    }
                    td { (one.host.as_str()) ":" (one.port) }
                    td { (one.rack.as_deref().unwrap_or("—")) }
                    td.n { (format::count(load.leaders as i128)) }
                    td.n { (format::count(load.replicas as i128)) }
                    td.n { @if load.out_of_sync > 0 { span.warn-text { (format::count(load.out_of_sync as i128)) } } @else { "0" } }
                    td.n { (logs.map_or("—".to_owned(), |logs| format::bytes(sizes(logs).map(|(_, bytes)| bytes).sum()))) }
                    td.n { (logs.and_then(|logs| least_free(&logs.results)).map_or("—".to_owned(), format::bytes)) }
                    td { (known.and_then(|known| known.version).map_or("—".to_owned(), |(min, max)| format!("{min}–{max}"))) }
                }
            }
        },
    )
}

/// Free bytes of the directory with the least.
fn least_free(directories: &[DescribeLogDirsResult]) -> Option<u64> {
    directories.iter().filter_map(|one| u64::try_from(one.usable_bytes).ok()).min()
}

fn directory_table(logs: &Logs) -> Markup {
    let directories =
        || logs.iter().flat_map(|(node, answer)| answer.results.iter().map(move |one| (node, one)));
    let bytes = |bytes: i64| u64::try_from(bytes).map_or("—".to_owned(), format::bytes);
    html! {
        (table_of(&["#Broker", "Directory", "State", "#Partitions", "#Logs", "#Free", "#Size"], &[4, 5, 7], html! {
            @for (node, one) in directories().take(DIRECTORIES_MAX) {
                @let partitions: usize = one.topics.iter().map(|topic| topic.partitions.len()).sum();
                @let sum: i64 = one.topics.iter().flat_map(|topic| &topic.partitions).map(|log| log.partition_size).sum();
                tr {
                    td.n { (node) }
                    th scope="row" { (one.log_dir.as_str()) }
                    td {
                        @if one.error_code != 0 { span.bad-text { "offline, or refuses records" } }
                        @else if one.is_cordoned { span.warn-text { "takes no new replicas" } }
                        @else { "in service" }
                    }
                    td.n { (format::count(partitions as i128)) }
                    td.n { (bytes(sum)) }
                    td.n { (bytes(one.usable_bytes)) }
                    td.n { (bytes(one.total_bytes)) }
                }
            }
        }))
        @let count = directories().count();
        @if count > DIRECTORIES_MAX { p.soft { (count - DIRECTORIES_MAX) " further directories are not shown." } }
    }
}

/// Bytes of a log at a broker.
fn size_at(logs: Option<&Logs>, node: i32, place: &Place) -> Option<u64> {
    sizes(logs?.get(&node)?).find(|(found, _)| found == place).map(|(_, bytes)| bytes)
}

#[cfg(test)]
mod tests;
