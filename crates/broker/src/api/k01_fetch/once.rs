//! Removal of repeated partitions from a fetch request: the last entry of a partition counts, at
//! the position of the first one, as in Kafka.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use levada_wire::fetch::FetchTopic;

/// Removes repeated partitions from a request.
pub(super) fn once(topics: &mut Vec<FetchTopic>) {
    if topics.iter().map(|topic| topic.partitions.len()).sum::<usize>() < 2 {
        return;
    }
    let mut first = HashMap::new();
    let mut again = Vec::new();
    for (at, topic) in topics.iter().enumerate() {
        for (within, partition) in topic.partitions.iter().enumerate() {
            match first.entry((topic.name.as_bytes(), topic.topic_id, partition.index)) {
                Entry::Vacant(place) => drop(place.insert((at, within))),
                Entry::Occupied(place) => again.push((*place.get(), (at, within))),
            }
        }
    }
    if again.is_empty() {
        return;
    }
    for (first, later) in &again {
        topics[first.0].partitions[first.1] = topics[later.0].partitions[later.1].clone();
    }
    let mut again = again.into_iter().map(|(_, later)| later).peekable();
    for (at, topic) in topics.iter_mut().enumerate() {
        let mut within = 0..;
        topic.partitions.retain(|_| again.next_if_eq(&(at, within.next().unwrap_or(usize::MAX))).is_none());
    }
    topics.retain(|topic| !topic.partitions.is_empty());
}

#[cfg(test)]
mod tests;
