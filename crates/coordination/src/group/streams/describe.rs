//! Description of a streams group for administrators.

use std::collections::BTreeMap;

use super::configure::{Configured, ConfiguredPart};
use super::reconcile::UNREVOKED;
use super::{StreamsGroup, StreamsMember};
use crate::group::coordinator::{
    DescribedStreamsGroup, DescribedStreamsMember, DescribedSubtopology, DescribedTopology, ListedGroup,
};
use crate::group::java_map::JavaMap;
use crate::group::records::{InternalTopic, Subtopology, Topology};

impl StreamsGroup {
    /// The name of the group's state.
    pub(in crate::group) fn state(&self) -> &'static str {
        let topology_epoch = self.topology.as_ref().map(|topology| topology.epoch);
        if self.members.is_empty() {
            "Empty"
        } else if topology_epoch != Some(self.validated_topology_epoch) {
            "NotReady"
        } else if self.epoch > self.target.epoch {
            "Assigning"
        } else if self.members.values().all(|member| member.is_reconciled(self.target.epoch)) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    /// Entry in the response to ListGroups.
    pub(in crate::group) fn listed(&self) -> ListedGroup {
        ListedGroup {
            group_id: self.id.clone(),
            protocol_type: "streams".to_owned(),
            state: self.state(),
            group_type: "streams",
        }
    }

    /// Number of members, and of rebalances as the group's epoch counts them.
    pub(in crate::group) fn counts(&self) -> (usize, i32) {
        (self.members.len(), self.epoch)
    }

    /// True if a member has yet to give tasks up, and has not left for a while.
    pub(in crate::group) fn is_revoking(&self, member_id: &str) -> bool {
        let is_it = |member: &StreamsMember| member.current.state == UNREVOKED && member.current.epoch >= 0;
        self.members.get(member_id).is_some_and(is_it)
    }

    /// True if a member's state has not changed since an earlier state of the group.
    pub(in crate::group) fn is_where(&self, before: &Self, member_id: &str) -> bool {
        let current = |group: &Self| group.members.get(member_id).map(|member| member.current.clone());
        current(self) == current(before)
    }

    /// The members, and the time that each has left to give tasks up if it must.
    pub(in crate::group) fn watched(&self) -> impl Iterator<Item = (&str, Option<i32>)> {
        self.members.iter().map(|(id, member)| {
            (id.as_str(), self.is_revoking(id).then_some(member.metadata.rebalance_timeout_ms))
        })
    }

    /// Entry in the response to StreamsGroupDescribe.
    pub(in crate::group) fn described(&self) -> DescribedStreamsGroup {
        DescribedStreamsGroup {
            group_id: self.id.clone(),
            state: self.state(),
            epoch: self.epoch,
            target_epoch: self.target.epoch,
            topology: self.described_topology(),
            members: self.members.iter().map(|(id, member)| self.described_member(id, member)).collect(),
        }
    }

    fn described_member(&self, id: &str, member: &StreamsMember) -> DescribedStreamsMember {
        let offsets = self.offsets.get(id).cloned().unwrap_or_default();
        DescribedStreamsMember {
            member_id: id.to_owned(),
            epoch: member.current.epoch,
            metadata: (*member.metadata).clone(),
            assigned: super::beat::told(&member.current.assigned),
            target: self.targets.get(id).cloned().unwrap_or_default(),
            task_offsets: offsets.offsets,
            task_end_offsets: offsets.ends,
        }
    }

    /// The topology, with the numbers of partitions that its internal topics have if its tasks can
    /// be assigned.
    fn described_topology(&self) -> Option<DescribedTopology> {
        let topology = self.topology.as_ref()?;
        let parts = self.configured.as_deref().and_then(Configured::ready_parts);
        let subtopologies = match parts {
            Some(parts) => parts.iter().map(|(id, part)| described_part(id, part)).collect(),
            None => described_as_sent(topology),
        };
        Some(DescribedTopology { epoch: topology.epoch, subtopologies })
    }
}

fn described_part(id: &str, part: &ConfiguredPart) -> DescribedSubtopology {
    let topics = |topics: &BTreeMap<String, InternalTopic>| {
        topics
            .values()
            .map(|topic| InternalTopic { configs: in_kafkas_order(topic), ..topic.clone() })
            .collect()
    };
    DescribedSubtopology {
        id: id.to_owned(),
        source_topics: part.sources.iter().cloned().collect(),
        repartition_sink_topics: part.sinks.iter().cloned().collect(),
        repartition_source_topics: topics(&part.repartition),
        state_changelog_topics: topics(&part.changelogs),
    }
}

fn in_kafkas_order(topic: &InternalTopic) -> Vec<(String, String)> {
    let mut ordered = JavaMap::new();
    topic.configs.iter().for_each(|(key, value)| ordered.insert(key.as_str(), value));
    ordered.keys().zip(ordered.values()).map(|(key, value)| ((*key).to_owned(), (*value).clone())).collect()
}

fn described_as_sent(topology: &Topology) -> Vec<DescribedSubtopology> {
    let part = |part: &Subtopology| {
        let sorted = |mut names: Vec<String>| {
            names.sort_unstable();
            names
        };
        let by_name = |mut topics: Vec<InternalTopic>| {
            topics.sort_by(|one, other| one.name.cmp(&other.name));
            topics
        };
        DescribedSubtopology {
            id: part.id.clone(),
            source_topics: sorted(part.source_topics.clone()),
            repartition_sink_topics: sorted(part.repartition_sink_topics.clone()),
            repartition_source_topics: by_name(part.repartition_source_topics.clone()),
            state_changelog_topics: by_name(part.state_changelog_topics.clone()),
        }
    };
    let mut parts: Vec<DescribedSubtopology> = topology.subtopologies.iter().map(part).collect();
    parts.sort_by(|one, other| one.id.cmp(&other.id));
    parts
}
