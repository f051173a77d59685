//! The list of topics, and actions on whole topics: create, add partitions, delete, trim.

use std::collections::BTreeMap;
use std::sync::Arc;

use axum::Extension;
use axum::extract::{Path, State};
use axum::response::Response;
use levada_security::acl::{CLUSTER_NAME, Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::messages::create_partitions_request::CreatePartitionsTopic;
use levada_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use levada_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use levada_wire::messages::delete_topics_request::DeleteTopicState;
use levada_wire::messages::metadata_response::MetadataResponseTopic;
use levada_wire::messages::{
    CreatePartitionsRequest, CreateTopicsRequest, DeleteRecordsRequest, DeleteTopicsRequest,
};
use maud::{Markup, html};

use super::cluster::CHANGE_TIME;
use super::failure::{Failed, Needing as _, check, nothing};
use super::fields::Fields;
use super::layout::{self, Page, Section, choice, field, proof, table_of, topic_link};
use super::question::{EARLIEST, LATEST, Place};
use super::visitor::{Visit, Visiting, Visitor};
use super::{Console, format};

/// Number of topics on one page of the list.
const PAGE_TOPICS: usize = 100;
/// Kafka's number for topics as resources.
pub(super) const TOPIC: i8 = 2;
const COLUMNS: [&str; 9] =
    ["Topic", "#Partitions", "#Records", "#Size", "#Replicas", "#In", "#Out", "Policy", "Retention"];
/// Time that the broker has for a change.
const TIMEOUT_MS: i32 = 30_000;
/// Settings that the list shows.
const RETENTION: [&str; 3] = ["cleanup.policy", "retention.ms", "retention.bytes"];

/// Renders the list of topics.
pub(super) async fn list(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let page = list_page(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Topics, page)
}

async fn list_page(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let caller = &visitor.caller;
    let search = fields.text("search").to_lowercase();
    let internal = !fields.text("internal").is_empty();
    let mut topics = console.topics(caller).await?;
    let named = |topic: &MetadataResponseTopic| {
        topic.name.as_deref().is_some_and(|name| name.to_lowercase().contains(&search))
    };
    topics.retain(|topic| topic.error_code == 0 && (internal || !topic.is_internal) && named(topic));
    let found = topics.len();
    let page = fields.number::<usize>("page")?.unwrap_or(0);
    let shown: Vec<_> = topics.into_iter().skip(page.saturating_mul(PAGE_TOPICS)).take(PAGE_TOPICS).collect();
    let rows = rows(console, visitor, &shown).await?;
    let target = format!(
        "/topics?search={}{}&page=",
        format::linked(&search),
        if internal { "&internal=1" } else { "" }
    );
    let content = html! {
        (layout::done(fields.text("done")))
        form.line method="get" role="search" {
            (field("Name contains", html! { input type="search" name="search" value=(search); }))
            label.check { input type="checkbox" name="internal" value="1" checked[internal]; "Internal topics" }
            button { "Search" }
        }
        (creation(console, visitor))
        p.soft { (format::counted(found, "topic")) }
        div #topics data-refresh="5" {
            (table_of(&COLUMNS, &[5, 6, 7, 8, 9], rows))
        }
        (layout::pages(&target, page, found.div_ceil(PAGE_TOPICS)))
    };
    Ok(Page::new(Section::Topics, "Topics", content))
}

async fn rows(
    console: &Console,
    visitor: &Visitor,
    topics: &[MetadataResponseTopic],
) -> Result<Markup, Failed> {
    let caller = &visitor.caller;
    let records = records(console, visitor, topics).await?;
    let traffic = traffic(console, topics);
    let sizes = console.sizes(visitor, topics).await?;
    let names: Vec<&str> = topics.iter().filter_map(|topic| topic.name.as_deref()).collect();
    let settings = console.settings(caller, (TOPIC, &names), Some(&RETENTION)).await?;
    let settings: BTreeMap<&str, _> =
        settings.iter().map(|one| (one.resource_name.as_str(), &one.configs)).collect();
    // None of a topic whose settings the visitor may not see.
    let setting = |topic: &str, key: &str| -> Option<&str> {
        let configs = settings.get(topic).copied()?;
        configs.iter().find(|config| config.name.as_str() == key)?.value.as_deref()
    };
    // None of a topic of which nothing is known here.
    let sum = |name: &str, of: &BTreeMap<Place, u64>| -> Option<u64> {
        let mut known = of.range((name.to_owned(), 0)..=(name.to_owned(), i32::MAX)).map(|(_, value)| *value);
        known.next().map(|first| first + known.sum::<u64>())
    };
    let or_unknown = |found: Option<String>| found.unwrap_or_else(|| "—".to_owned());
    Ok(html! {
        @for topic in topics {
            @let name = topic.name.as_deref().unwrap_or_default();
            tr {
                th scope="row" {
                    (topic_link(name))
                    @if topic.is_internal { " " span.form-tag { "internal" } }
                    @if topic.partitions.iter().any(|one| one.leader_id < 0) { " " span.bad-text { "offline partitions" } }
                }
                td.n { (format::count(topic.partitions.len() as i128)) }
                td.n { (or_unknown(sum(name, &records).map(|count| format::count(i128::from(count))))) }
                td.n { (or_unknown(sizes.as_ref().and_then(|sizes| sum(name, sizes)).map(format::bytes))) }
                td.n { (topic.partitions.iter().map(|one| one.replica_nodes.len()).max().unwrap_or(0)) }
                @let (bytes_in, bytes_out) = traffic.get(name).copied().unwrap_or_default();
                td.n data-rate-key={ "in/" (name) } data-rate-total=(bytes_in) { "—" }
                td.n data-rate-key={ "out/" (name) } data-rate-total=(bytes_out) { "—" }
                td { (setting(name, RETENTION[0]).unwrap_or("—")) }
                td { (retention(setting(name, RETENTION[1]).zip(setting(name, RETENTION[2])))) }
            }
        }
        @if topics.is_empty() {
            tr { td colspan="9" { (nothing("topic", visitor, console.hides(visitor, "--topic"))) " Create one above." } }
        }
    })
}

/// Record bytes since the start, in and out, of these topics.
fn traffic(console: &Console, topics: &[MetadataResponseTopic]) -> BTreeMap<String, (u64, u64)> {
    let places = places(topics);
    let mut sums: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    for (topic, index) in places {
        let Some(totals) = console.door.traffic(&topic, index) else { continue };
        let sum = sums.entry(topic).or_default();
        *sum = (sum.0 + totals.bytes_in, sum.1 + totals.bytes_out);
    }
    sums
}

/// Offsets between the start and the end of each log.
async fn records(
    console: &Console,
    visitor: &Visitor,
    topics: &[MetadataResponseTopic],
) -> Result<BTreeMap<Place, u64>, Failed> {
    let at = |time| places(topics).map(move |place| (place, time));
    let first = console.offsets(visitor, at(EARLIEST)).await?;
    let last = console.offsets(visitor, at(LATEST)).await?;
    let between = |(place, end): (Place, i64)| {
        let start = first.get(&place).copied().unwrap_or(end);
        (place, u64::try_from(end - start).unwrap_or(0))
    };
    Ok(last.into_iter().map(between).collect())
}

/// All partitions of some topics.
pub(super) fn places(topics: &[MetadataResponseTopic]) -> impl Iterator<Item = Place> {
    topics.iter().flat_map(|topic| {
        let name = topic.name.as_deref().unwrap_or_default();
        topic.partitions.iter().map(move |partition| (name.to_owned(), partition.partition_index))
    })
}

/// Time that records stay, as text, by `retention.ms` and `retention.bytes`.
pub(super) fn retention(known: Option<(&str, &str)>) -> String {
    let Some((ms, bytes)) = known else { return "—".to_owned() };
    let time = ms.parse::<i64>().ok().filter(|ms| *ms >= 0).map(format::millis);
    let size = bytes.parse::<u64>().ok().map(|bytes| format!("{} a partition", format::bytes(bytes)));
    match (time, size) {
        (Some(time), Some(size)) => format!("{time}, {size}"),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => "unlimited".to_owned(),
    }
}

/// The form of a new topic, for visitors who may create one: with any name, or with some.
fn creation(console: &Console, visitor: &Visitor) -> Markup {
    let offer = ("Create a topic", create_form(visitor));
    if console.permits(visitor, (Operation::Create, ResourceType::Cluster, CLUSTER_NAME)) {
        return offer.1;
    }
    console.offered_for_some(visitor, (Operation::Create, ResourceType::Topic), offer)
}

fn create_form(visitor: &Visitor) -> Markup {
    let policies = [("delete", "delete"), ("compact", "compact"), ("compact,delete", "compact and delete")];
    html! {
        details {
            summary { "Create a topic" }
            form.card method="post" action="/topics/create" {
                (proof(visitor))
                (field("Name", html! { input name="name" maxlength="249" required pattern="[a-zA-Z0-9._\\-]+"; }))
                (field("Partitions", html! { input type="number" name="partitions" min="1" placeholder="default"; }))
                (field("Cleanup policy", choice("cleanup.policy", policies, "delete")))
                (field("Retention in milliseconds (retention.ms; -1: unlimited)", html! {
                    input type="number" name="retention.ms" min="-1" placeholder="default";
                }))
                button { "Create" }
            }
        }
    }
}

/// Creates a topic.
pub(super) async fn create(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
) -> Response {
    let created = create_topic(&console, &visitor, &fields).await;
    layout::respond(&visitor, Section::Topics, created)
}

async fn create_topic(console: &Console, visitor: &Visitor, fields: &Fields) -> Result<Page, Failed> {
    let name = fields.required("name")?;
    let mut topic = CreatableTopic::default();
    topic.name = StrBytes::from(name);
    topic.num_partitions = fields.number("partitions")?.unwrap_or(-1);
    topic.replication_factor = -1;
    let chosen = ["cleanup.policy", "retention.ms"].into_iter().filter(|key| !fields.text(key).is_empty());
    topic.configs = chosen
        .map(|key| {
            let mut config = CreatableTopicConfig::default();
            config.name = StrBytes::from(key);
            config.value = Some(StrBytes::from(fields.text(key)));
            config
        })
        .collect();
    let mut request = CreateTopicsRequest::default();
    request.topics = vec![topic];
    request.timeout_ms = TIMEOUT_MS;
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    for one in &answer.topics {
        check(one.error_code, one.error_message.as_deref(), || format!("create topic {name}"))
            .needing("create", format!("--topic {name}"))?;
    }
    Err(Failed::Redirect(format!("/topics/{}?done=created", format::linked(name))))
}

/// Deletes a topic whose name was typed for confirmation.
pub(super) async fn delete(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
    Path(name): Path<String>,
) -> Response {
    let deleted = delete_topic(&console, &visitor, (&name, &fields)).await;
    layout::respond(&visitor, Section::Topics, deleted)
}

async fn delete_topic(
    console: &Console,
    visitor: &Visitor,
    (name, fields): (&str, &Fields),
) -> Result<Page, Failed> {
    confirmed(fields, name)?;
    let mut topic = DeleteTopicState::default();
    topic.name = Some(StrBytes::from(name));
    let mut request = DeleteTopicsRequest::default();
    request.topics = vec![topic];
    request.timeout_ms = TIMEOUT_MS;
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    for one in &answer.responses {
        check(one.error_code, one.error_message.as_deref(), || format!("delete topic {name}"))
            .needing("delete", format!("--topic {name}"))?;
    }
    Err(Failed::Redirect("/topics?done=deleted".to_owned()))
}

/// Fails unless the name was typed for confirmation.
pub(super) fn confirmed(fields: &Fields, name: &str) -> Result<(), Failed> {
    // A field has no space around its text, and the name of a group may have some.
    if fields.text("confirm") == name.trim() {
        Ok(())
    } else {
        Err(Failed::Input(format!("Type {name} to confirm. Nothing was changed.")))
    }
}

/// Adds partitions to a topic.
pub(super) async fn extend(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
    Path(name): Path<String>,
) -> Response {
    let extended = extend_topic(&console, &visitor, (&name, &fields)).await;
    layout::respond(&visitor, Section::Topics, extended)
}

async fn extend_topic(
    console: &Console,
    visitor: &Visitor,
    (name, fields): (&str, &Fields),
) -> Result<Page, Failed> {
    fields.required("count")?;
    let mut topic = CreatePartitionsTopic::default();
    topic.name = StrBytes::from(name);
    topic.count = fields.number("count")?.unwrap_or_default();
    let mut request = CreatePartitionsRequest::default();
    request.topics = vec![topic];
    request.timeout_ms = TIMEOUT_MS;
    let answer = console.desk.ask(&visitor.caller, &request).await?;
    for one in &answer.results {
        check(one.error_code, one.error_message.as_deref(), || format!("add partitions to topic {name}"))
            .needing("alter", format!("--topic {name}"))?;
    }
    Err(Failed::Redirect(format!("/topics/{}?done=partitions", format::linked(name))))
}

/// Deletes the records of a partition, or of all, before an offset.
pub(super) async fn trim(
    State(console): State<Arc<Console>>,
    Extension(Visit { visitor, fields }): Visiting,
    Path(name): Path<String>,
) -> Response {
    let trimmed = trim_topic(&console, &visitor, (&name, &fields)).await;
    layout::respond(&visitor, Section::Topics, trimmed)
}

async fn trim_topic(
    console: &Console,
    visitor: &Visitor,
    (name, fields): (&str, &Fields),
) -> Result<Page, Failed> {
    confirmed(fields, name)?;
    let partition = fields.number::<i32>("partition")?;
    // Without an offset all records that there are.
    let offset = fields.number::<i64>("offset")?.unwrap_or(-1);
    let indexes: Vec<i32> = match partition {
        Some(partition) => vec![partition],
        None if offset >= 0 => {
            return Err(Failed::Input("An offset belongs to one partition; choose which.".to_owned()));
        }
        None => {
            let topic = console.topic(&visitor.caller, name).await?;
            topic.partitions.iter().map(|partition| partition.partition_index).collect()
        }
    };
    let wanted = (Operation::Delete, ResourceType::Topic, name);
    let mut leaders: BTreeMap<i32, Vec<DeleteRecordsPartition>> = BTreeMap::new();
    for index in indexes {
        let leader = console.leader(name, index).ok_or_else(|| {
            Failed::Missing(format!("Partition {name}/{index} has no leader; nothing was deleted."))
        })?;
        let mut partition = DeleteRecordsPartition::default();
        (partition.partition_index, partition.offset) = (index, offset);
        leaders.entry(leader).or_default().push(partition);
    }
    for (leader, partitions) in leaders {
        console
            .permitted(visitor, leader, wanted, || format!("delete records of {name}"))
            .needing("delete", format!("--topic {name}"))?;
        let mut topic = DeleteRecordsTopic::default();
        (topic.name, topic.partitions) = (StrBytes::from(name), partitions);
        let mut request = DeleteRecordsRequest::default();
        request.topics = vec![topic];
        request.timeout_ms = TIMEOUT_MS;
        let answer = console.ask_broker(visitor, (leader, i16::MAX), (request, CHANGE_TIME)).await?;
        for one in answer.topics.iter().flat_map(|topic| &topic.partitions) {
            check(one.error_code, None, || format!("delete records of {name}/{}", one.partition_index))
                .needing("delete", format!("--topic {name}"))?;
        }
    }
    Err(Failed::Redirect(format!("/topics/{}?done=trimmed", format::linked(name))))
}

#[cfg(test)]
mod tests;
