//! The order in which Kafka responds to requests about groups. Kafka collects the groups of a
//! request by their partition of `__consumer_offsets` in a Java hash map, which iterates in the
//! order of its slots; groups in one slot keep the order of the request. It lists groups and
//! members in the order of its own hash tables, whose sizes follow from the number of entries.
//! Entries of one slot come in the order in which they were added there, and by their names here.

use std::collections::HashMap;

use levada_coordination::group::partition_for;
use levada_wire::messages::StrBytes;

use crate::api::Context;
use crate::replica::OFFSETS_TOPIC;

/// Number of slots of a new map; the map doubles when more than three quarters of its slots would
/// be occupied.
const SLOTS_MIN: usize = 16;

/// The groups in Kafka's order. Before the topic exists, they have the partitions that they will
/// have.
pub(super) fn in_kafkas_order(context: &Context, groups: Vec<StrBytes>) -> Vec<StrBytes> {
    let broker = context.broker();
    let planned = broker.config().offsets.topic_partitions;
    ordered(groups, |id| {
        let partition = broker.coordinators().groups().partition_of(id.as_str());
        partition.unwrap_or_else(|| partition_for(id.as_str(), planned))
    })
}

fn ordered<T>(mut groups: Vec<T>, partition_of: impl Fn(&T) -> i32) -> Vec<T> {
    let mut first = HashMap::new();
    for group in &groups {
        let next = first.len();
        first.entry(partition_of(group)).or_insert(next);
    }
    let mut slots = SLOTS_MIN;
    while first.len() > slots / 4 * 3 {
        slots *= 2;
    }
    groups.sort_by_cached_key(|group| {
        let partition = partition_of(group);
        (slot(partition, slots), first[&partition])
    });
    groups
}

/// Sorts the groups of all coordinators into the order in which Kafka lists them. Each group comes
/// with the number of groups of its coordinator.
pub(super) fn list_in_kafkas_order<T>(
    groups: &mut [(T, usize)],
    coordinators: usize,
    of_group: impl Fn(&T) -> (i32, &str),
) {
    // A concurrent map grows as soon as three quarters of it are taken.
    let mut slots = SLOTS_MIN;
    while coordinators >= slots / 4 * 3 {
        slots *= 2;
    }
    groups.sort_by_cached_key(|(group, count)| {
        let (partition, id) = of_group(group);
        ((slot(partition, slots), partition), (table_slot(id, *count), id.to_owned()))
    });
}

/// Sorts all members of a group into the order in which Kafka describes them.
pub(super) fn members_in_kafkas_order<T>(members: &mut [T], id: impl Fn(&T) -> &str) {
    let count = members.len();
    members.sort_by_cached_key(|member| (table_slot(id(member), count), id(member).to_owned()));
}

/// The slot of a text in one of Kafka's tables with this number of entries: the highest bits of a
/// product. A table doubles when three quarters of the entries are more than its slots.
fn table_slot(text: &str, count: usize) -> u64 {
    const FACTOR: i64 = -7_046_029_254_386_353_131;
    let mut bits = 1;
    while count * 3 > (4 << bits) {
        bits += 1;
    }
    i64::from(java_hash(text)).wrapping_mul(FACTOR).cast_unsigned() >> (64 - bits)
}

/// The hash of a text in Java.
fn java_hash(text: &str) -> i32 {
    let next = |hash: i32, unit: u16| hash.wrapping_mul(31).wrapping_add(i32::from(unit));
    text.encode_utf16().fold(0, next)
}

/// The slot of a partition of `__consumer_offsets` in a map with this number of slots.
fn slot(partition: i32, slots: usize) -> usize {
    let topic = java_hash(OFFSETS_TOPIC).cast_unsigned();
    let hash = partition.cast_unsigned().wrapping_add(31).wrapping_mul(31).wrapping_add(topic);
    (hash ^ (hash >> 16)) as usize & (slots - 1)
}

#[cfg(test)]
mod tests;
