//! The order in which Kafka answers a request about several groups. Kafka collects the groups by
//! their partition of `__consumer_offsets` in a Java hash map, which iterates in the order of its
//! slots; groups in one slot keep the order of the request.

use std::collections::HashMap;

use levada_wire::messages::StrBytes;

use crate::api::Context;
use crate::group::partition_for;
use crate::replica::OFFSETS_TOPIC;

/// Slots of a new map; a map has twice as many as soon as more than three quarters of them would be
/// taken.
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

/// The slot of a partition of `__consumer_offsets` in a map with this number of slots.
fn slot(partition: i32, slots: usize) -> usize {
    let topic =
        OFFSETS_TOPIC.bytes().fold(0_u32, |hash, byte| hash.wrapping_mul(31).wrapping_add(byte.into()));
    let hash = partition.cast_unsigned().wrapping_add(31).wrapping_mul(31).wrapping_add(topic);
    (hash ^ (hash >> 16)) as usize & (slots - 1)
}

#[cfg(test)]
mod tests;
