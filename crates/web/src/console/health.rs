//! Partitions without a leader, and partitions with a replica that is not in sync, by name.

use std::collections::BTreeMap;

use levada_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use maud::{Markup, html};

use super::layout::{notice, table_of, topic_link};
use super::{Console, format};

/// Partitions of each kind that a page lists, and that a notice names.
const ROWS_MAX: usize = 200;
const NAMED_MAX: usize = 5;

/// Partitions that need an operator's attention, among those that the visitor may see; those of
/// internal topics come last.
#[derive(Default)]
pub(super) struct Health<'a> {
    offline: Vec<Part<'a>>,
    out_of_sync: Vec<Part<'a>>,
}

/// A partition with a problem.
struct Part<'a> {
    topic: &'a str,
    partition: &'a MetadataResponsePartition,
    /// Replicas that are not in sync.
    missing: Vec<i32>,
}

/// Replicas that reassignments add, by topic and partition. As in Kafka, a partition is not
/// under-replicated because a new replica still copies the log.
#[derive(Default)]
pub(super) struct Adding(BTreeMap<String, BTreeMap<i32, Vec<i32>>>);

impl Adding {
    /// The replicas that a partition gets.
    pub(super) fn to(&self, topic: &str, partition: i32) -> &[i32] {
        self.0.get(topic).and_then(|added| added.get(&partition)).map_or(&[], Vec::as_slice)
    }

    /// Replicas of a partition that are not in sync, without new ones.
    pub(super) fn missing(&self, topic: &str, partition: &MetadataResponsePartition) -> Vec<i32> {
        let adding = self.to(topic, partition.partition_index);
        missing(&partition.replica_nodes, &partition.isr_nodes, adding).collect()
    }
}

impl Console {
    /// Replicas that reassignments add, in all topics.
    pub(super) fn adding(&self) -> Adding {
        let image = self.door.image();
        let mut adding = Adding::default();
        for topic in image.topics().iter() {
            for (index, one) in topic.partitions().filter(|(_, one)| !one.adding_replicas.is_empty()) {
                let added = adding.0.entry(topic.name().to_string()).or_default();
                added.insert(index, one.adding_replicas.clone());
            }
        }
        adding
    }

    /// Number of partitions that this broker leads and that are under-replicated.
    pub(super) fn under_replicated(&self) -> usize {
        let (image, own) = (self.door.image(), self.own());
        let led = image.topics().iter().flat_map(|topic| topic.partitions().map(|(_, one)| one));
        led.filter(|one| one.leader == own)
            .filter(|one| missing(&one.replicas, &one.isr, &one.adding_replicas).next().is_some())
            .count()
    }
}

impl<'a> Health<'a> {
    /// The partitions of these topics that have a problem.
    pub(super) fn of(topics: &'a [MetadataResponseTopic], adding: &Adding) -> Self {
        let mut health = Self::default();
        let mut topics: Vec<&MetadataResponseTopic> = topics.iter().collect();
        topics.sort_by_key(|topic| (topic.is_internal, topic.name.as_deref()));
        for topic in topics {
            let topic_name = topic.name.as_deref().unwrap_or_default();
            let mut partitions: Vec<&MetadataResponsePartition> = topic.partitions.iter().collect();
            partitions.sort_by_key(|partition| partition.partition_index);
            for partition in partitions {
                let missing = adding.missing(topic_name, partition);
                let part = Part { topic: topic_name, partition, missing };
                if partition.leader_id < 0 {
                    health.offline.push(part);
                } else if !part.missing.is_empty() {
                    health.out_of_sync.push(part);
                }
            }
        }
        health
    }

    pub(super) fn is_good(&self) -> bool {
        self.offline.is_empty() && self.out_of_sync.is_empty()
    }

    /// Notices with the first names, which link to the list.
    pub(super) fn notices(&self) -> Markup {
        html! {
            @if !self.offline.is_empty() {
                (notice("bad", html! {
                    (format::counted(self.offline.len(), "partition")) " that you may see " (verb(self.offline.len())) " no leader: "
                    (names(&self.offline)) ". " a href="/brokers#partitions" { "Show all" }
                }))
            }
            @if !self.out_of_sync.is_empty() {
                (notice("warn", html! {
                    (format::counted(self.out_of_sync.len(), "partition")) " that you may see " (verb(self.out_of_sync.len()))
                    " a replica that is not in sync: "
                    (names(&self.out_of_sync)) ". " a href="/brokers#partitions" { "Show all" }
                }))
            }
        }
    }

    /// The list of all, partitions without a leader first.
    pub(super) fn list(&self) -> Markup {
        let rows = || {
            let offline = self.offline.iter().take(ROWS_MAX).map(|part| (part, true));
            offline.chain(self.out_of_sync.iter().take(ROWS_MAX).map(|part| (part, false)))
        };
        let left_out = [&self.offline, &self.out_of_sync].map(|list| list.len().saturating_sub(ROWS_MAX));
        html! {
            @if self.is_good() {
                p { "All partitions that you may see have a leader, and all their replicas are in sync." }
            } @else {
                (table_of(&["Partition", "State", "Leader", "Replicas", "Not in sync"], &[3, 4], html! {
                    @for (Part { topic, partition, missing }, is_offline) in rows() {
                        tr {
                            th scope="row" { (topic_link(topic)) "/" (partition.partition_index) }
                            td {
                                @if is_offline { span.bad-text { "offline" } }
                                @else { span.warn-text { "under-replicated" } }
                            }
                            td { @if is_offline { "none" } @else { (partition.leader_id) } }
                            td { (nodes(&partition.replica_nodes)) }
                            td { (nodes(missing)) }
                        }
                    }
                }))
                @for (count, state) in left_out.into_iter().zip(["offline", "under-replicated"]) {
                    @if count > 0 { p.soft { (format::count(count as i128)) " further partitions are " (state) "." } }
                }
            }
        }
    }
}

/// The verb of a sentence about this number of partitions.
pub(super) fn verb(count: usize) -> &'static str {
    if count == 1 { "has" } else { "have" }
}

fn names(parts: &[Part<'_>]) -> String {
    let mut names: Vec<String> = parts
        .iter()
        .take(NAMED_MAX)
        .map(|part| format!("{}/{}", part.topic, part.partition.partition_index))
        .collect();
    if parts.len() > NAMED_MAX {
        names.push(format!("and {} more", format::count((parts.len() - NAMED_MAX) as i128)));
    }
    names.join(", ")
}

fn missing(replicas: &[i32], in_sync: &[i32], adding: &[i32]) -> impl Iterator<Item = i32> {
    replicas.iter().copied().filter(|node| !in_sync.contains(node) && !adding.contains(node))
}

/// Ids of brokers, separated by commas.
pub(super) fn nodes(ids: &[i32]) -> String {
    if ids.is_empty() {
        return "none".to_owned();
    }
    ids.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests;
