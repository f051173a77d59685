//! Offsets of many partitions, of which leaders may not know some, or may not respond.

use std::collections::{BTreeMap, BTreeSet};
use std::slice;

use levada_client::{
    Cause, Caused, ClientError, Cluster, FoundOffset, Isolation, NO_LEADER, OffsetQuery, Topic,
    TopicPartition,
};
use levada_terminal::failure::Failure;
use levada_wire::error_code::ErrorCode;

/// Requests for offsets, and the places whose offsets no leader has named.
#[derive(Debug, Default)]
pub(crate) struct Ends {
    /// Partitions whose leader does not know its high watermark: since its election, too few
    /// replicas were in sync.
    unknown: BTreeSet<TopicPartition>,
    /// Leaders that do not respond, with the error. A leader has failed before the controllers
    /// have noticed it, for example. They get no further request.
    silent: BTreeMap<i32, String>,
}

impl Ends {
    /// Asks the leaders of all partitions that have one, by one request to each.
    ///
    /// # Errors
    /// A leader refuses a partition for another reason than its high watermark.
    pub(crate) fn ask<'a>(
        &mut self,
        cluster: &mut Cluster,
        topics: impl IntoIterator<Item = &'a Topic>,
        timestamp: i64,
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, FoundOffset>, ClientError> {
        let mut by_leader: BTreeMap<i32, Vec<OffsetQuery<'a>>> = BTreeMap::new();
        for topic in topics {
            for (partition, leader) in &topic.leaders {
                let (partition, leader) = (*partition, *leader);
                if leader != NO_LEADER && !self.silent.contains_key(&leader) {
                    let query = OffsetQuery { topic: &topic.name, partition, leader, timestamp };
                    by_leader.entry(leader).or_default().push(query);
                }
            }
        }
        let mut found = BTreeMap::new();
        for (leader, asked) in by_leader {
            match cluster.look_up(&asked, isolation) {
                Ok(offsets) => found.extend(offsets),
                Err(error) if is_unknown(&error) => {
                    found.extend(self.ask_each(cluster, &asked, isolation)?);
                }
                Err(error) if error.cause() == Cause::Connection => {
                    self.silent.insert(leader, Failure::from(error).line().to_owned());
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Sends a request for each partition: one refusal hides the offsets of the other partitions of
    /// a request.
    fn ask_each(
        &mut self,
        cluster: &mut Cluster,
        asked: &[OffsetQuery<'_>],
        isolation: Isolation,
    ) -> Result<BTreeMap<TopicPartition, FoundOffset>, ClientError> {
        let mut found = BTreeMap::new();
        for one in asked {
            match cluster.look_up(slice::from_ref(one), isolation) {
                Ok(offsets) => found.extend(offsets),
                Err(error) if is_unknown(&error) => {
                    self.unknown.insert((one.topic.to_owned(), one.partition));
                }
                Err(error) => return Err(error),
            }
        }
        Ok(found)
    }

    /// Prints notes about the partitions whose offsets are not known.
    pub(crate) fn note(&self) {
        for (leader, error) in &self.silent {
            tell!("note: the offsets on broker {leader} are not known: {error}");
        }
        let Some((topic, partition)) = self.unknown.first() else { return };
        let others = match self.unknown.len() - 1 {
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
