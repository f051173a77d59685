//! Partitions without a leader, and partitions with a replica that is not in sync, by name.

use levada_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use maud::{Markup, html};

use super::format;
use super::layout::{notice, table_of, topic_link};

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

/// The name of a topic, and one of its partitions.
type Part<'a> = (&'a str, &'a MetadataResponsePartition);

impl<'a> Health<'a> {
    /// The partitions of these topics that have a problem.
    pub(super) fn of(topics: &'a [MetadataResponseTopic]) -> Self {
        let mut health = Self::default();
        let mut topics: Vec<&MetadataResponseTopic> = topics.iter().collect();
        topics.sort_by_key(|topic| (topic.is_internal, topic.name.as_deref()));
        for topic in topics {
            let name = topic.name.as_deref().unwrap_or_default();
            let mut partitions: Vec<&MetadataResponsePartition> = topic.partitions.iter().collect();
            partitions.sort_by_key(|partition| partition.partition_index);
            for partition in partitions {
                if partition.leader_id < 0 {
                    health.offline.push((name, partition));
                } else if !is_in_sync(partition) {
                    health.out_of_sync.push((name, partition));
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
                    @for ((name, partition), is_offline) in rows() {
                        tr {
                            th scope="row" { (topic_link(name)) "/" (partition.partition_index) }
                            td {
                                @if is_offline { span.bad-text { "offline" } }
                                @else { span.warn-text { "under-replicated" } }
                            }
                            td { @if is_offline { "none" } @else { (partition.leader_id) } }
                            td { (nodes(&partition.replica_nodes)) }
                            td { (nodes(&missing(partition))) }
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

fn verb(count: usize) -> &'static str {
    if count == 1 { "has" } else { "have" }
}

fn names(parts: &[Part<'_>]) -> String {
    let mut names: Vec<String> = parts
        .iter()
        .take(NAMED_MAX)
        .map(|(name, partition)| format!("{name}/{}", partition.partition_index))
        .collect();
    if parts.len() > NAMED_MAX {
        names.push(format!("and {} more", format::count((parts.len() - NAMED_MAX) as i128)));
    }
    names.join(", ")
}

fn is_in_sync(partition: &MetadataResponsePartition) -> bool {
    partition.replica_nodes.iter().all(|node| partition.isr_nodes.contains(node))
}

fn missing(partition: &MetadataResponsePartition) -> Vec<i32> {
    partition.replica_nodes.iter().copied().filter(|node| !partition.isr_nodes.contains(node)).collect()
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
