//! The hash of the subscribed topics, by which consumer groups and share groups detect changes, as
//! Kafka 4.3 computes it (KIP-1101).

use std::collections::BTreeSet;

use twox_hash::XxHash3_64;

use crate::group::topics::Topics;

/// Hash of the existing topics among these; 0 if none exists.
pub(super) fn metadata_hash(names: &BTreeSet<String>, topics: &dyn Topics) -> i64 {
    let mut group = Vec::new();
    for name in names {
        if let Some((id, partitions)) = topics.by_name(name) {
            group.extend(topic_hash(name, id, partitions).to_le_bytes());
        }
    }
    if group.is_empty() { 0 } else { XxHash3_64::oneshot(&group).cast_signed() }
}

/// Version, id, name, partitions. The racks of the replicas would follow each partition; there are
/// none.
fn topic_hash(name: &str, id: levada_wire::Uuid, partitions: i32) -> u64 {
    let mut topic = vec![0];
    // As two 64-bit numbers, lowest byte first.
    topic.extend(id.as_bytes()[..8].iter().rev());
    topic.extend(id.as_bytes()[8..].iter().rev());
    let units: Vec<u16> = name.encode_utf16().collect();
    topic.extend(units.iter().flat_map(|unit| unit.to_le_bytes()));
    topic.extend(u32::try_from(units.len()).unwrap_or(u32::MAX).to_le_bytes());
    topic.extend(partitions.to_le_bytes());
    for partition in 0..partitions {
        topic.extend(partition.to_le_bytes());
    }
    XxHash3_64::oneshot(&topic)
}
