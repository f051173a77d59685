//! Offsets of many partitions, of which leaders may not know some.

use std::collections::{BTreeMap, BTreeSet};

use levada_client::{
    ClientError, Cluster, FoundOffset, Isolation, NO_LEADER, OffsetQuery, Topic, TopicPartition,
};
use levada_wire::error_code::ErrorCode;

/// Offsets of the partitions of some topics at one time.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    pub(crate) found: BTreeMap<TopicPartition, FoundOffset>,
    /// Partitions whose leader does not know its high watermark: since its election, too few
    /// replicas were in sync.
    pub(crate) unknown: BTreeSet<TopicPartition>,
}

impl Ends {
    /// Asks the leaders of all partitions that have one.
    ///
    /// # Errors
    /// A leader does not respond, or refuses a partition for another reason than its high
    /// watermark.
    pub(crate) fn ask<'a>(
        cluster: &mut Cluster,
        topics: impl IntoIterator<Item = &'a Topic>,
        timestamp: i64,
        isolation: Isolation,
    ) -> Result<Self, ClientError> {
        let topics: Vec<&Topic> = topics.into_iter().collect();
        match cluster.offsets_at(topics.iter().copied(), timestamp, isolation) {
            Ok(found) => return Ok(Self { found, unknown: BTreeSet::new() }),
            Err(error) if is_unknown(&error) => {}
            Err(error) => return Err(error),
        }
        // One refusal hides the offsets of the other partitions of a request.
        let mut ends = Self::default();
        for topic in topics {
            for (partition, leader) in topic.leaders.iter().filter(|(_, leader)| **leader != NO_LEADER) {
                let (partition, leader) = (*partition, *leader);
                let query = OffsetQuery { topic: &topic.name, partition, leader, timestamp };
                match cluster.look_up(&[query], isolation) {
                    Ok(found) => ends.found.extend(found),
                    Err(error) if is_unknown(&error) => {
                        ends.unknown.insert((topic.name.clone(), partition));
                    }
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(ends)
    }

    /// Prints a note about the partitions whose offsets are not known.
    pub(crate) fn note(unknown: &BTreeSet<TopicPartition>) {
        let Some((topic, partition)) = unknown.first() else { return };
        let others = match unknown.len() - 1 {
            0 => String::new(),
            others => format!(" and {others} more"),
        };
        tell!(
            "note: the offsets of {topic}/{partition}{others} are not known: since the election of the leader \
             too few replicas were in sync; levada cluster health shows them"
        );
    }
}

fn is_unknown(error: &ClientError) -> bool {
    let ClientError::Refused(refusal) = error else { return false };
    refusal.error_code() == Some(ErrorCode::OffsetNotAvailable)
}

#[cfg(test)]
mod tests;
