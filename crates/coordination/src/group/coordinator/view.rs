//! Read-only queries of a coordinator's groups, which need no append to the log.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;

use super::{Coordinator, Phase};
use crate::group::classic::{ClassicGroup, State};
use crate::group::consumer::ConsumerGroup;
use crate::group::error::GroupError;
use crate::group::records::{InternalTopic, Partitions, StreamsMemberMetadata, TaskSets};
use crate::group::request::TaskOffsets;
use crate::group::share::ShareGroup;
use crate::group::streams::StreamsGroup;

/// Filter of groups to list; an empty part matches every group.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Names of states in lower case.
    states: HashSet<String>,
    /// Names of group types in lower case.
    types: HashSet<String>,
}

impl ListFilter {
    /// A filter by states, with blanks around their names or without, and by group types. Names are
    /// in any case. Sets hold them: a request may have a hundred thousand.
    pub fn of<'a>(
        states: impl IntoIterator<Item = &'a str>,
        types: impl IntoIterator<Item = &'a str>,
    ) -> Self {
        Self {
            states: states.into_iter().map(|state| state.trim().to_ascii_lowercase()).collect(),
            types: types.into_iter().map(str::to_ascii_lowercase).collect(),
        }
    }

    pub(super) fn lets_through(&self, group: &ListedGroup) -> bool {
        let has = |names: &HashSet<String>, name: &str| {
            names.is_empty() || names.contains(name.to_ascii_lowercase().as_str())
        };
        has(&self.states, group.state) && has(&self.types, group.group_type)
    }
}

/// A consumer group as ConsumerGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConsumerGroup {
    /// Id of the group.
    pub group_id: String,
    /// `Empty`, `Assigning`, `Reconciling` or `Stable`.
    pub state: &'static str,
    /// Group epoch.
    pub epoch: i32,
    /// The epoch of its target assignment.
    pub target_epoch: i32,
    /// The assignor in use.
    pub assignor: String,
    /// Members of the group.
    pub members: Vec<DescribedConsumer>,
}

/// A member of a [`DescribedConsumerGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedConsumer {
    /// Id of the member.
    pub member_id: String,
    /// Name of a static member.
    pub instance_id: Option<String>,
    /// Rack of the member.
    pub rack_id: Option<String>,
    /// Epoch of the member.
    pub epoch: i32,
    /// Client id of the member.
    pub client_id: String,
    /// Address of the member.
    pub client_host: String,
    /// Names of the subscribed topics.
    pub topics: Vec<String>,
    /// The expression it selects topics by.
    pub regex: Option<String>,
    /// Partitions that are assigned to the member.
    pub assigned: Partitions,
    /// Target assignment of the member.
    pub target: Partitions,
    /// True if the member uses the classic protocol.
    pub is_classic: bool,
}

/// A share group as ShareGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedShareGroup {
    /// Id of the group.
    pub group_id: String,
    /// `Empty` or `Stable`.
    pub state: &'static str,
    /// Group epoch.
    pub epoch: i32,
    /// The epoch of its target assignment.
    pub target_epoch: i32,
    /// The assignor in use.
    pub assignor: &'static str,
    /// Members of the group.
    pub members: Vec<DescribedShareMember>,
}

/// A member of a [`DescribedShareGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedShareMember {
    /// Id of the member.
    pub member_id: String,
    /// Rack of the member.
    pub rack_id: Option<String>,
    /// Epoch of the member.
    pub epoch: i32,
    /// Client id of the member.
    pub client_id: String,
    /// Address of the member.
    pub client_host: String,
    /// Names of the subscribed topics.
    pub topics: Vec<String>,
    /// Partitions that the member may read, including those of deleted topics.
    pub assigned: Partitions,
}

/// A streams group as StreamsGroupDescribe shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedStreamsGroup {
    /// Id of the group.
    pub group_id: String,
    /// `Empty`, `NotReady`, `Assigning`, `Reconciling` or `Stable`.
    pub state: &'static str,
    /// Group epoch.
    pub epoch: i32,
    /// The epoch of its target assignment.
    pub target_epoch: i32,
    /// Topology of the group.
    pub topology: Option<DescribedTopology>,
    /// Members of the group.
    pub members: Vec<DescribedStreamsMember>,
}

/// The topology of a [`DescribedStreamsGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedTopology {
    /// Topology epoch.
    pub epoch: i32,
    /// Subtopologies, by id.
    pub subtopologies: Vec<DescribedSubtopology>,
}

/// A part of a [`DescribedTopology`]; all lists are sorted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedSubtopology {
    /// Id of the subtopology.
    pub id: String,
    /// Names of the topics that the subtopology reads.
    pub source_topics: Vec<String>,
    /// The topics between parts that it writes.
    pub repartition_sink_topics: Vec<String>,
    /// The topics between parts that it reads.
    pub repartition_source_topics: Vec<InternalTopic>,
    /// Topics with the changes of its state.
    pub state_changelog_topics: Vec<InternalTopic>,
}

/// A member of a [`DescribedStreamsGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedStreamsMember {
    /// Id of the member.
    pub member_id: String,
    /// Epoch of the member.
    pub epoch: i32,
    /// Metadata of the member.
    pub metadata: StreamsMemberMetadata,
    /// Tasks that are assigned to the member.
    pub assigned: TaskSets,
    /// Target assignment of the member.
    pub target: TaskSets,
    /// Progress of its restoration of the state of tasks, as it has reported.
    pub task_offsets: Arc<TaskOffsets>,
    /// The ends of their changelogs, as it has reported.
    pub task_end_offsets: Arc<TaskOffsets>,
}

/// A group as ListGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// Id of the group.
    pub group_id: String,
    /// Type of the group; empty if it has never had a member.
    pub protocol_type: String,
    /// `Empty`, `PreparingRebalance`, `CompletingRebalance` or `Stable`; of consumer groups
    /// `Empty`, `Assigning`, `Reconciling` or `Stable`; of share groups `Empty` or `Stable`; of
    /// streams groups those of consumer groups, or `NotReady`.
    pub state: &'static str,
    /// `classic`, `consumer`, `share` or `streams`
    pub group_type: &'static str,
}

/// A group as DescribeGroups shows it. A missing group is `Dead`, with the error
/// [`GroupError::GroupIdNotFound`] that is sent from version 6 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedGroup {
    /// Error of the group; `None` if the group exists.
    pub error: Option<GroupError>,
    /// True if there is a group of another kind of that name: it is no classic group, and `Dead`.
    pub is_consumer: bool,
    /// Id of the group.
    pub group_id: String,
    /// State as in [`ListedGroup::state`], or `Dead`.
    pub state: &'static str,
    /// Type of the group; empty if it has never had a member.
    pub protocol_type: String,
    /// The chosen protocol; empty unless the group is stable.
    pub protocol_data: String,
    /// Members of the group.
    pub members: Vec<DescribedMember>,
}

/// A member of a [`DescribedGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    /// Id of the member.
    pub member_id: String,
    /// Name of a static member.
    pub group_instance_id: Option<String>,
    /// Client id of the member.
    pub client_id: String,
    /// Address of the member.
    pub client_host: String,
    /// Metadata of the member for the chosen protocol; empty unless the group is stable.
    pub metadata: Bytes,
    /// Assignment of the member.
    pub assignment: Bytes,
}

/// A group as `/metrics` shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MonitoredGroup {
    /// Name, state and kind.
    pub listed: ListedGroup,
    /// Number of members.
    pub members: usize,
    /// Number of rebalances, as the generation or the epoch of the group counts them.
    pub rebalances: i32,
    /// Committed offsets: topic, partition, offset.
    pub offsets: Vec<(String, i32, i64)>,
}

/// Number of groups, and of their committed offsets, that may still be listed.
#[derive(Clone, Copy, Debug)]
pub struct Room {
    /// Number of groups.
    pub groups: usize,
    /// Number of committed offsets of all groups.
    pub offsets: usize,
    /// Bytes of the id of a group at most; a group with a longer id is not listed.
    pub id_bytes: usize,
}

impl Coordinator {
    /// The groups of this coordinator up to the limit `room`, classic groups first, and the number
    /// of the others. None while the coordinator does not serve.
    pub fn monitored(&self, room: &mut Room) -> (Vec<MonitoredGroup>, usize) {
        if self.serving().is_err() {
            return (Vec::new(), 0);
        }
        let classic = self.groups.values().map(|group| (group.listed(), group.counts()));
        let consumer = self.consumers.values().map(|group| (group.listed(), group.counts()));
        let share = self.shares.values().map(|group| (group.listed(), group.counts()));
        let streams = self.streams.values().map(|group| (group.listed(), group.counts()));
        let modern = consumer.chain(share).chain(streams);
        let all = self.group_count();
        let id_bytes_max = room.id_bytes;
        let named = classic.chain(modern).filter(|(listed, _)| listed.group_id.len() <= id_bytes_max);
        let taken = named.take(room.groups).map(|(listed, (members, rebalances))| {
            let offsets = self.offsets.committed(&listed.group_id).take(room.offsets);
            let offsets: Vec<_> =
                offsets.map(|(topic, index, offset)| (topic.to_owned(), index, offset)).collect();
            room.offsets -= offsets.len();
            MonitoredGroup { listed, members, rebalances, offsets }
        });
        let taken: Vec<_> = taken.collect();
        room.groups -= taken.len();
        let left_out = all - taken.len();
        (taken, left_out)
    }

    /// The groups of this coordinator that pass `filter`, by id.
    ///
    /// # Errors
    /// While the coordinator loads, and when it has been unloaded.
    pub fn list(&self, filter: &ListFilter) -> Result<Vec<ListedGroup>, GroupError> {
        self.serving()?;
        let listed = self.groups.values().map(ClassicGroup::listed);
        let mut listed: Vec<ListedGroup> = listed.filter(|group| filter.lets_through(group)).collect();
        listed.extend(self.listed_consumers(filter));
        listed.extend(self.listed_shares(filter));
        listed.extend(self.listed_streams(filter));
        listed.sort_by(|a, b| a.group_id.cmp(&b.group_id));
        Ok(listed)
    }

    /// Number of groups of all kinds.
    pub fn group_count(&self) -> usize {
        self.groups.len() + self.consumers.len() + self.shares.len() + self.streams.len()
    }

    /// Describes a group with its members, for DescribeGroups.
    pub fn describe(&self, group_id: &str) -> DescribedGroup {
        let group =
            self.serving().and_then(|()| self.groups.get(group_id).ok_or(GroupError::GroupIdNotFound));
        group.map_or_else(|error| self.absent(group_id, error), ClassicGroup::described)
    }

    /// Describes a consumer group with its members.
    ///
    /// # Errors
    /// No group of this type has the name, or the coordinator [does not serve](Coordinator::list).
    pub fn describe_consumer(&self, group_id: &str) -> Result<DescribedConsumerGroup, GroupError> {
        self.serving()?;
        self.consumers.get(group_id).map(ConsumerGroup::described).ok_or(GroupError::GroupIdNotFound)
    }

    /// Describes a share group with its members.
    ///
    /// # Errors
    /// No group of this type has the name, or the coordinator [does not serve](Coordinator::list).
    pub fn describe_share(&self, group_id: &str) -> Result<DescribedShareGroup, GroupError> {
        self.serving()?;
        self.shares.get(group_id).map(ShareGroup::described).ok_or(GroupError::GroupIdNotFound)
    }

    /// Describes a streams group with its members.
    ///
    /// # Errors
    /// No group of this type has the name, or the coordinator [does not serve](Coordinator::list).
    pub fn describe_streams(&self, group_id: &str) -> Result<DescribedStreamsGroup, GroupError> {
        self.serving()?;
        self.streams.get(group_id).map(StreamsGroup::described).ok_or(GroupError::GroupIdNotFound)
    }

    /// True if there is a group of that name, of any kind.
    pub fn knows(&self, group_id: &str) -> bool {
        self.groups.contains_key(group_id)
            || self.consumers.contains_key(group_id)
            || self.shares.contains_key(group_id)
            || self.streams.contains_key(group_id)
    }

    fn absent(&self, group_id: &str, error: GroupError) -> DescribedGroup {
        let dead = error == GroupError::GroupIdNotFound;
        DescribedGroup {
            error: Some(error),
            is_consumer: dead && self.knows(group_id),
            group_id: group_id.to_owned(),
            state: if dead { State::Dead.name() } else { "" },
            protocol_type: String::new(),
            protocol_data: String::new(),
            members: Vec::new(),
        }
    }

    pub(super) fn serving(&self) -> Result<(), GroupError> {
        match self.phase {
            Phase::Serving => Ok(()),
            Phase::Loading => Err(GroupError::CoordinatorLoadInProgress),
            Phase::Unloaded => Err(GroupError::NotCoordinator),
        }
    }
}
