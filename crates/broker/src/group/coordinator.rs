//! The coordinator of one partition of `__consumer_offsets`: the groups whose id hashes to it.
//!
//! A driver uses it like this: make one with [`Coordinator::new`], replay the partition's records
//! through [`Coordinator::replay`], step [`Event::Loaded`], and from then on step every request, every
//! finished append and every due [`Coordinator::deadline`]. Until it is loaded it answers every
//! request with COORDINATOR_LOAD_IN_PROGRESS. It needs exclusive access: one task or one lock each.

use bytes::Bytes;

use super::config::GroupConfig;
use super::error::GroupError;
use super::event::{Action, Event};
use super::records::RecordError;

/// The groups of one partition of `__consumer_offsets`.
#[derive(Debug)]
pub struct Coordinator {
    config: GroupConfig,
}

/// A record of the partition's log, for [`Coordinator::replay`].
#[derive(Clone, Debug)]
pub struct Replayed {
    /// Offset of the record.
    pub offset: i64,
    /// Producer id of the record's batch if the batch is transactional.
    pub transaction: Option<i64>,
    /// The key.
    pub key: Bytes,
    /// The value; none for a tombstone.
    pub value: Option<Bytes>,
}

/// Which groups to list; empty filters let everything through.
#[derive(Clone, Debug, Default)]
pub struct ListFilter {
    /// Names of states, any case.
    pub states: Vec<String>,
    /// Names of group types, any case.
    pub types: Vec<String>,
}

/// A group as ListGroups shows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ListedGroup {
    /// The group.
    pub group_id: String,
    /// Kind of group; empty if it has never had a member.
    pub protocol_type: String,
    /// `Empty`, `PreparingRebalance`, `CompletingRebalance` or `Stable`.
    pub state: &'static str,
    /// `classic`
    pub group_type: &'static str,
}

/// A group as DescribeGroups shows it. One that does not exist is `Dead`, with the error
/// [`GroupError::GroupIdNotFound`] that is sent from version 6 on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedGroup {
    /// None: the group exists.
    pub error: Option<GroupError>,
    /// The group.
    pub group_id: String,
    /// As in [`ListedGroup::state`], or `Dead`.
    pub state: &'static str,
    /// Kind of group; empty if it has never had a member.
    pub protocol_type: String,
    /// The chosen protocol; empty unless the group is stable.
    pub protocol_data: String,
    /// The members.
    pub members: Vec<DescribedMember>,
}

/// A member of a [`DescribedGroup`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DescribedMember {
    /// The member's id.
    pub member_id: String,
    /// Name of a static member.
    pub group_instance_id: Option<String>,
    /// Its client id.
    pub client_id: String,
    /// Where it connects from.
    pub client_host: String,
    /// Its metadata for the chosen protocol; empty unless the group is stable.
    pub metadata: Bytes,
    /// Its assignment.
    pub assignment: Bytes,
}

impl Coordinator {
    /// A coordinator that has replayed nothing yet.
    pub fn new(config: GroupConfig) -> Self {
        Self { config }
    }

    /// Takes in one record of the partition's log; only before [`Event::Loaded`].
    ///
    /// # Errors
    /// If the record cannot be read. It has then changed nothing; the driver may report it and go on. A
    /// record of a kind that this broker has no use for is no error.
    pub fn replay(&mut self, record: Replayed) -> Result<(), RecordError> {
        let _ = record;
        Ok(())
    }

    /// Takes in a transaction marker of the partition's log: the producer's pending commits become
    /// valid, or are dropped.
    pub fn replay_marker(&mut self, producer_id: i64, committed: bool) {
        let _ = (producer_id, committed);
    }

    /// Takes in what happened at `now_ms` (milliseconds since the epoch, not earlier than before) and
    /// says what to do about it. Never blocks.
    pub fn step(&mut self, event: Event, now_ms: i64) -> Vec<Action> {
        let _ = (&self.config, now_ms);
        let answer = event.refused(GroupError::CoordinatorLoadInProgress);
        answer.into_iter().map(|(ticket, outcome)| Action::Reply(ticket, outcome)).collect()
    }

    /// When to step [`Event::Tick`] at the latest; none if nothing is to happen by itself.
    pub fn deadline(&self) -> Option<i64> {
        None
    }

    /// The groups this coordinator has and `filter` lets through, by id.
    ///
    /// # Errors
    /// While the coordinator loads.
    pub fn list(&self, filter: &ListFilter) -> Result<Vec<ListedGroup>, GroupError> {
        let _ = filter;
        Err(GroupError::CoordinatorLoadInProgress)
    }

    /// One group with its members.
    pub fn describe(&self, group_id: &str) -> DescribedGroup {
        DescribedGroup {
            error: Some(GroupError::CoordinatorLoadInProgress),
            group_id: group_id.to_owned(),
            state: "",
            protocol_type: String::new(),
            protocol_data: String::new(),
            members: Vec::new(),
        }
    }
}

/// The partition of `__consumer_offsets` that coordinates a group, of `partitions` (at least 1).
pub fn partition_for(group_id: &str, partitions: i32) -> i32 {
    let hash =
        group_id.encode_utf16().fold(0_i32, |hash, unit| hash.wrapping_mul(31).wrapping_add(i32::from(unit)));
    hash.checked_abs().unwrap_or(0) % partitions.max(1)
}
