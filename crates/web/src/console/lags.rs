//! Lags of many groups, from their coordinators and from the leaders of the partitions.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use levada_security::acl::{Operation, ResourceType};
use levada_wire::StrBytes;
use levada_wire::messages::describe_share_group_offsets_request::DescribeShareGroupOffsetsRequestGroup;
use levada_wire::messages::describe_share_group_offsets_response::DescribeShareGroupOffsetsResponseGroup;
use levada_wire::messages::list_groups_response::ListedGroup;
use levada_wire::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use levada_wire::messages::offset_fetch_response::OffsetFetchResponseGroup;
use levada_wire::messages::{DescribeShareGroupOffsetsRequest, ListGroupsRequest, OffsetFetchRequest};

use super::Console;
use super::failure::{Failed, check};
use super::question::{LATEST, Place};
use super::reset::NEWEST_WITH_NAMES;
use super::share::SHARE;
use super::visitor::Visitor;

/// Maximum number of groups that a page shows, and most committed offsets of all of them; a scrape
/// has the same limits.
const GROUPS_MAX: usize = 1_000;
const OFFSETS_MAX: usize = 10_000;

/// A group, and the broker that coordinates it.
#[derive(Clone, Debug)]
pub(super) struct Coordinated {
    pub(super) node: i32,
    pub(super) listed: ListedGroup,
}

impl Coordinated {
    pub(super) fn id(&self) -> &str {
        self.listed.group_id.as_str()
    }
}

/// Lag of a group in the partitions whose ends are known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct GroupLag {
    pub(super) records: u64,
    pub(super) partitions: usize,
    /// Number of partitions whose end, or whose share group position, is not known.
    pub(super) unknown: usize,
}

impl Console {
    /// Groups that the visitor may describe, of all coordinators.
    pub(super) async fn groups(&self, visitor: &Visitor) -> Result<Vec<Coordinated>, Failed> {
        let own = self.own();
        let requests = self.live_brokers().into_iter().map(|node| (node, ListGroupsRequest::default()));
        let answers = self.ask_brokers(visitor, (i16::MAX, Duration::ZERO), requests.collect()).await?;
        let mut found: BTreeMap<String, Coordinated> = BTreeMap::new();
        for (node, answer) in answers {
            if node == own {
                check(answer.error_code, None, || "list the groups".to_owned())?;
            }
            let visible = answer.groups.into_iter().filter(|one| {
                let wanted = (Operation::Describe, ResourceType::Group, one.group_id.as_str());
                node == own || self.permits(visitor, wanted)
            });
            found.extend(visible.map(|listed| (listed.group_id.to_string(), Coordinated { node, listed })));
        }
        Ok(found.into_values().collect())
    }

    /// Lag of groups that commit offsets: in all topics, or in the partitions of one.
    pub(super) async fn group_lags(
        &self,
        visitor: &Visitor,
        groups: &[Coordinated],
        topic: Option<(&str, &[i32])>,
    ) -> Result<BTreeMap<String, GroupLag>, Failed> {
        let committed = self.committed_of(visitor, groups, topic).await?;
        let places: BTreeSet<Place> = committed.iter().map(|(_, place, _)| place.clone()).collect();
        let ends = self.offsets(visitor, places.into_iter().map(|place| (place, LATEST))).await?;
        Ok(sums(&committed, &ends))
    }

    /// Lag of share groups, which their coordinators know. Groups without a known lag are omitted.
    pub(super) async fn share_lags(
        &self,
        visitor: &Visitor,
        groups: &[Coordinated],
    ) -> Result<BTreeMap<String, GroupLag>, Failed> {
        let mut requests: BTreeMap<i32, DescribeShareGroupOffsetsRequest> = BTreeMap::new();
        let shared = groups.iter().filter(|one| one.listed.group_type.as_str() == SHARE);
        for one in shared.take(GROUPS_MAX) {
            let mut asked = DescribeShareGroupOffsetsRequestGroup::default();
            (asked.group_id, asked.topics) = (one.listed.group_id.clone(), None);
            requests.entry(one.node).or_default().groups.push(asked);
        }
        let answers = self.ask_brokers(visitor, (i16::MAX, Duration::ZERO), requests).await?;
        let groups = answers.values().flat_map(|answer| &answer.groups);
        let permits = |topic: &str| self.permits(visitor, (Operation::Describe, ResourceType::Topic, topic));
        Ok(share_sums(groups, permits))
    }

    async fn committed_of(
        &self,
        visitor: &Visitor,
        groups: &[Coordinated],
        topic: Option<(&str, &[i32])>,
    ) -> Result<Vec<(String, Place, i64)>, Failed> {
        let mut requests: BTreeMap<i32, OffsetFetchRequest> = BTreeMap::new();
        let committing = groups.iter().filter(|one| one.listed.group_type.as_str() != SHARE);
        for one in committing.take(GROUPS_MAX) {
            let mut asked = OffsetFetchRequestGroup::default();
            asked.group_id = one.listed.group_id.clone();
            asked.member_epoch = -1;
            asked.topics = topic.map(|(name, partitions)| {
                let mut wanted = OffsetFetchRequestTopics::default();
                (wanted.name, wanted.partition_indexes) = (StrBytes::from(name), partitions.to_vec());
                vec![wanted]
            });
            requests.entry(one.node).or_default().groups.push(asked);
        }
        let limits = (NEWEST_WITH_NAMES, Duration::ZERO);
        let answers = self.ask_brokers(visitor, limits, requests).await?;
        let mut found = Vec::new();
        for group in answers.values().flat_map(|answer| &answer.groups) {
            self.take_committed(visitor, group, &mut found);
        }
        Ok(found)
    }

    fn take_committed(
        &self,
        visitor: &Visitor,
        group: &OffsetFetchResponseGroup,
        found: &mut Vec<(String, Place, i64)>,
    ) {
        for topic in &group.topics {
            let name = topic.name.as_str();
            if !self.permits(visitor, (Operation::Describe, ResourceType::Topic, name)) {
                continue;
            }
            for one in topic.partitions.iter().filter(|one| one.committed_offset >= 0) {
                if found.len() == OFFSETS_MAX {
                    return;
                }
                let place = (name.to_owned(), one.partition_index);
                found.push((group.group_id.to_string(), place, one.committed_offset));
            }
        }
    }
}

fn sums(committed: &[(String, Place, i64)], ends: &BTreeMap<Place, i64>) -> BTreeMap<String, GroupLag> {
    let mut lags: BTreeMap<String, GroupLag> = BTreeMap::new();
    for (group, place, offset) in committed {
        let lag = lags.entry(group.clone()).or_default();
        match ends.get(place) {
            Some(end) => {
                lag.records += u64::try_from(end - offset).unwrap_or(0);
                lag.partitions += 1;
            }
            None => lag.unknown += 1,
        }
    }
    lags
}

/// Lags of share groups in the topics that the visitor may describe.
fn share_sums<'a>(
    groups: impl Iterator<Item = &'a DescribeShareGroupOffsetsResponseGroup>,
    permits: impl Fn(&str) -> bool,
) -> BTreeMap<String, GroupLag> {
    let mut lags = BTreeMap::new();
    for group in groups {
        let mut lag = GroupLag::default();
        let topics = group.topics.iter().filter(|topic| permits(topic.topic_name.as_str()));
        for one in topics.flat_map(|topic| &topic.partitions) {
            match u64::try_from(one.lag).ok().filter(|_| one.error_code == 0) {
                Some(records) => {
                    lag.records += records;
                    lag.partitions += 1;
                }
                None => lag.unknown += 1,
            }
        }
        if lag.partitions > 0 {
            lags.insert(group.group_id.to_string(), lag);
        }
    }
    lags
}

#[cfg(test)]
mod tests;
