//! One topic: its partitions and producers, and the forms that change it.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::messages::DescribeProducersRequest;
use levada_wire::messages::describe_producers_request::TopicRequest;
use levada_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use maud::{Markup, html};

use super::failure::{self, Failed, Needing as _};
use super::fields::Fields;
use super::layout::{self, Page, Section, field, notice, proof, table_of, tile};
use super::question::{EARLIEST, LATEST, Place};
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format, topics};

/// Partitions, or partitions whose producers are listed, on one page.
const PAGE_PARTITIONS: usize = 200;

/// The tabs of a topic's pages.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum Tab {
    Partitions,
    Messages,
    Groups,
    Produce,
    Settings,
    Producers,
}

impl Tab {
    const ALL: [(Self, &'static str, &'static str); 6] = [
        (Self::Partitions, "", "Partitions"),
        (Self::Messages, "/messages", "Messages"),
        (Self::Groups, "/groups", "Groups"),
        (Self::Produce, "/produce", "Produce"),
        (Self::Settings, "/settings", "Settings"),
        (Self::Producers, "/producers", "Producers"),
    ];

    /// A page of a topic with this tab.
    pub(super) fn page(self, topic: &str, content: Markup) -> Page {
        let name = Self::ALL.into_iter().find(|(tab, ..)| *tab == self).map_or("", |(.., name)| name);
        let content = html! { (tabs(topic, self)) (content) };
        Page::new(Section::Topics, topic, content).in_tab(name)
    }
}

/// Links between a topic's pages.
fn tabs(name: &str, current: Tab) -> Markup {
    html! {
        nav.tabs aria-label="Topic" {
            @for (tab, target, text) in Tab::ALL {
                a href={ "/topics/" (format::linked(name)) (target) } aria-current=[(tab == current).then_some("page")] { (text) }
            }
        }
    }
}

/// Renders the page of a topic's partitions.
pub(super) async fn show(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
    Path(name): Path<String>,
) -> Response {
    let page = page(&console, &visitor, (&name, &fields)).await;
    layout::respond(&visitor, Section::Topics, page)
}

async fn page(console: &Console, visitor: &Visitor, (name, fields): (&str, &Fields)) -> Result<Page, Failed> {
    let caller = &visitor.caller;
    let mut topic = console.topic(caller, name).await?;
    let number = fields.number::<usize>("page")?.unwrap_or(0);
    let all = [topic.clone()];
    let at = |time| topics::places(&all).map(move |place| (place, time));
    let first = console.offsets(visitor, at(EARLIEST)).await?;
    let last = console.offsets(visitor, at(LATEST)).await?;
    let sizes = console.sizes(visitor, &all).await?;
    let tiers = console.tiers(visitor, &all).await?;
    let records = |place: &Place| {
        let (first, last) = first.get(place).zip(last.get(place))?;
        u64::try_from(last - first).ok()
    };
    let count = topic.partitions.len();
    let known: Vec<u64> = topics::places(&all).filter_map(|place| records(&place)).collect();
    let offline = topic.partitions.iter().filter(|one| one.leader_id < 0).count();
    let adding = console.adding();
    topic.partitions = topic
        .partitions
        .into_iter()
        .skip(number.saturating_mul(PAGE_PARTITIONS))
        .take(PAGE_PARTITIONS)
        .collect();
    let rows = html! {
        @for partition in &topic.partitions {
            @let place = (name.to_owned(), partition.partition_index);
            tr {
                th scope="row" {
                    a href={ "/topics/" (format::linked(name)) "/messages?partition=" (partition.partition_index) "&from=end" } {
                        (partition.partition_index)
                    }
                }
                td.n { (shown(first.get(&place).copied())) }
                td.n { (shown(last.get(&place).copied())) }
                td.n { (shown(records(&place).map(u64::cast_signed))) }
                td.n { (sizes.as_ref().and_then(|sizes| sizes.get(&place)).map_or("—".to_owned(), |bytes| format::bytes(*bytes))) }
                @if let Some(tiers) = &tiers {
                    td.n { (shown(tiers.local_starts.get(&place).copied())) }
                    td.n { (shown(tiers.copied.get(&place).copied().filter(|copied| *copied >= 0))) }
                    td.n { (shown(tiers.not_copied(&place, (&first, &last)))) }
                    td.n { (tiers.bytes.get(&place).map_or("—".to_owned(), |bytes| format::bytes(*bytes))) }
                }
                td.n { (partition.leader_epoch) }
                td { @if partition.leader_id < 0 { span.bad-text { "offline" } } @else { "node " (partition.leader_id) } }
                td { (replicas(partition, adding.to(name, partition.partition_index))) }
            }
        }
    };
    let sizes: Vec<u64> = sizes.iter().flatten().map(|(_, bytes)| *bytes).collect();
    let size = of_known(&sizes, count, format::bytes);
    let target = format!("/topics/{}?page=", format::linked(name));
    let (columns, minor) = columns(tiers.is_some());
    let content = html! {
        (layout::done(fields.text("done")))
        @if offline > 0 { (notice("bad", format!("{} offline; see the broker's log", format::counted(offline, "partition")))) }
        div.tiles {
            (tile("Partitions", format::count(count as i128), None))
            (tile("Records", of_known(&known, count, |sum| format::count(i128::from(sum))), None))
            (tile("Size", size, None))
            (tile("Topic id", id(&topic), None))
        }
        (summary(console, visitor, name).await?)
        (table_of(&columns, &minor, rows))
        (layout::pages(&target, number, count.div_ceil(PAGE_PARTITIONS)))
        (changes(console, visitor, name, count))
    };
    Ok(Tab::Partitions.page(name, content))
}

/// The settings that most readers look for; empty for a visitor who may not see settings.
async fn summary(console: &Console, visitor: &Visitor, name: &str) -> Result<Markup, Failed> {
    const KEYS: [&str; 4] = ["cleanup.policy", "retention.ms", "retention.bytes", "min.insync.replicas"];
    let answers = console.settings(&visitor.caller, (topics::TOPIC, &[name]), Some(&KEYS)).await?;
    let setting = |key: &str| -> Option<&str> {
        let configs = &answers.first()?.configs;
        configs.iter().find(|config| config.name.as_str() == key)?.value.as_deref()
    };
    let [policy, ms, bytes, replicas] = KEYS.map(setting);
    Ok(html! {
        @if let (Some(policy), Some(replicas)) = (policy, replicas) {
            p {
                "Cleanup policy: " (policy) " · Retention: " (topics::retention(ms.zip(bytes)))
                " · Minimum of replicas in sync: " (replicas)
            }
        }
    })
}

/// Names of the columns, and the numbers of those that a narrow window omits.
fn columns(is_tiered: bool) -> (Vec<&'static str>, Vec<usize>) {
    let mut columns = vec!["Partition", "#Start", "#End", "#Records", "#Size"];
    let mut minor = vec![2, 3, 5, 6];
    if is_tiered {
        columns.extend(["#Local start", "#Copied to", "#Not copied", "#Remote size"]);
        minor.extend([7, 9, 10]);
    }
    columns.extend(["#Epoch", "Leader", "Replicas"]);
    (columns, minor)
}

/// The nodes of the replicas; those that are not in sync or still copy the log are marked.
fn replicas(partition: &MetadataResponsePartition, adding: &[i32]) -> Markup {
    html! {
        @for (at, node) in partition.replica_nodes.iter().enumerate() {
            @if at > 0 { ", " }
            @if partition.isr_nodes.contains(node) { (node) }
            @else if adding.contains(node) { (node) " (being added)" }
            @else { span.bad-text { (node) " (not in sync)" } }
        }
    }
}

/// The id in the form that Kafka's tools print.
fn id(topic: &MetadataResponseTopic) -> Markup {
    use base64::Engine as _;
    let id = base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(topic.topic_id.to_bytes());
    html! { code { (id) } }
}

/// A sum over the partitions with a known value on this broker, and their number if it is not
/// `all`.
fn of_known(known: &[u64], all: usize, shown: impl FnOnce(u64) -> String) -> String {
    let sum = shown(known.iter().sum());
    match known.len() {
        0 if all > 0 => "—".to_owned(),
        some if some < all => format!("{sum} in {some} of {all} partitions"),
        _ => sum,
    }
}

fn shown(offset: Option<i64>) -> String {
    offset.map_or("—".to_owned(), |offset| format::count(i128::from(offset)))
}

fn changes(console: &Console, visitor: &Visitor, name: &str, partitions: usize) -> Markup {
    let offered = |operation, title, form| {
        console.offered(visitor, (operation, ResourceType::Topic, name), (title, form))
    };
    html! {
        h2 { "Changes" }
        (offered(Operation::Alter, "Add partitions", extend_form(visitor, name, partitions)))
        (offered(Operation::Delete, "Delete records", trim_form(visitor, name, partitions)))
        (offered(Operation::Delete, "Delete the topic", delete_form(visitor, name)))
    }
}

/// The address of an action on the topic.
fn action(name: &str, what: &str) -> String {
    format!("/topics/{}/{what}", format::linked(name))
}

/// The field in which the user types the name to confirm an action.
fn confirm(name: &str) -> Markup {
    field(&format!("Type {name} to confirm"), html! { input name="confirm" autocomplete="off" required; })
}

fn extend_form(visitor: &Visitor, name: &str, partitions: usize) -> Markup {
    html! {
        details {
            summary { "Add partitions" }
            form.card method="post" action=(action(name, "extend")) {
                (proof(visitor))
                p { "Records with a key may go to another partition from then on. Partitions cannot be removed again." }
                (field("Partitions in all", html! { input type="number" name="count" min=(partitions + 1) required; }))
                button { "Add partitions" }
            }
        }
    }
}

fn trim_form(visitor: &Visitor, name: &str, partitions: usize) -> Markup {
    html! {
        details {
            summary { "Delete records" }
            form.card method="post" action=(action(name, "trim")) {
                (proof(visitor))
                p { "Deletes records from the start of the log. They cannot be restored." }
                (field("Partition (empty: all)", html! { input type="number" name="partition" min="0" max=(partitions.saturating_sub(1)); }))
                (field("Before this offset (empty: all records)", html! { input type="number" name="offset" min="0"; }))
                (confirm(name))
                button.danger { "Delete records" }
            }
        }
    }
}

fn delete_form(visitor: &Visitor, name: &str) -> Markup {
    html! {
        details {
            summary { "Delete the topic" }
            form.card method="post" action=(action(name, "delete")) {
                (proof(visitor))
                p { "Deletes the topic with all its records. They cannot be restored." }
                (confirm(name))
                button.danger { "Delete the topic" }
            }
        }
    }
}

/// The idempotent and transactional producers with state in the partitions.
pub(super) async fn producers(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
    Path(name): Path<String>,
) -> Response {
    let page = producers_page(&console, &visitor, (&name, &fields)).await;
    layout::respond(&visitor, Section::Topics, page)
}

async fn producers_page(
    console: &Console,
    visitor: &Visitor,
    (name, fields): (&str, &Fields),
) -> Result<Page, Failed> {
    let topic = console.topic(&visitor.caller, name).await?;
    let number = fields.number::<usize>("page")?.unwrap_or(0);
    let indexes = topic.partitions.iter().map(|partition| partition.partition_index);
    let wanted = (Operation::Read, ResourceType::Topic, name);
    let mut requests: BTreeMap<i32, DescribeProducersRequest> = BTreeMap::new();
    for index in indexes.skip(number.saturating_mul(PAGE_PARTITIONS)).take(PAGE_PARTITIONS) {
        let Some(leader) = console.leader(name, index) else { continue };
        console
            .permitted(visitor, leader, wanted, || format!("list the producers of {name}"))
            .needing("read", format!("--topic {name}"))?;
        let request = requests.entry(leader).or_default();
        if request.topics.is_empty() {
            request.topics.push(TopicRequest::default());
        }
        request.topics[0].name = StrBytes::from(name);
        request.topics[0].partition_indexes.push(index);
    }
    let answers = console.ask_brokers(visitor, (i16::MAX, Duration::ZERO), requests).await?;
    let mut partitions: Vec<_> =
        answers.values().flat_map(|answer| &answer.topics).flat_map(|topic| &topic.partitions).collect();
    partitions.sort_by_key(|one| one.partition_index);
    let partitions = || partitions.iter().copied();
    for one in partitions() {
        failure::check(one.error_code, one.error_message.as_deref(), || {
            format!("list the producers of {name}/{}", one.partition_index)
        })
        .needing("read", format!("--topic {name}"))?;
    }
    let rows = html! {
        @for partition in partitions() {
            @for producer in &partition.active_producers {
                tr {
                    th scope="row" { (partition.partition_index) }
                    td.n { (producer.producer_id) }
                    td.n { (producer.producer_epoch) }
                    td.n { (producer.last_sequence) }
                    td { (format::time(producer.last_timestamp)) }
                    td { @if producer.current_txn_start_offset >= 0 { "since offset " (producer.current_txn_start_offset) } @else { "none" } }
                }
            }
        }
        @if partitions().all(|one| one.active_producers.is_empty()) {
            tr { td colspan="6" { "No idempotent or transactional producer has written here lately." } }
        }
    };
    let target = format!("/topics/{}/producers?page=", format::linked(name));
    let content = html! {
        p.soft { "Producers without idempotence leave no trace and are not listed. Times are in UTC." }
        (table_of(&["Partition", "#Producer id", "#Epoch", "#Last sequence", "Last write", "Open transaction"], &[3, 4], rows))
        (layout::pages(&target, number, topic.partitions.len().div_ceil(PAGE_PARTITIONS)))
    };
    Ok(Tab::Producers.page(name, content))
}
