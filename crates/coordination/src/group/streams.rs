//! A streams group (KIP-1071): members send the topology of their application, and the broker
//! assigns its tasks.
//!
//! As in consumer groups, the group's state is the state of its records, and a request works on a
//! copy, a `StreamsDraft`, which replaces the group once its records are in the log. Not in
//! records, and lost with the coordinator, are the configured topology, the request to shut the
//! application down, the epoch of the endpoints for interactive queries, and the offsets of tasks.
//!
//! `configure` decides if the topics of a topology are as it needs them, [`assignor`] assigns
//! tasks to members, and `reconcile` brings a member to its target in steps: it gives tasks up, and
//! then gets those that no other process still has.

pub mod assignor;
mod beat;
mod commit;
mod configure;
mod describe;
mod endpoints;
mod instances;
mod offsets;
mod queue;
mod reason;
mod reconcile;
mod target;

use std::collections::BTreeMap;
use std::sync::Arc;

pub(in crate::group) use self::beat::StreamsLimits;
use self::configure::Configured;
use self::offsets::MemberOffsets;
use super::records::{
    Record, StreamsCurrentValue, StreamsEpochValue, StreamsMemberMetadata, StreamsRecord, TargetEpoch,
    TaskSets, Topology,
};

/// The epochs of a new group, and of its target assignment.
const FIRST_EPOCH: i32 = 1;
/// Epoch of a topology that is not valid.
const NOT_VALID: i32 = -1;

/// A streams group and its members.
#[derive(Clone, Debug)]
pub(super) struct StreamsGroup {
    id: String,
    epoch: i32,
    metadata_hash: i64,
    validated_topology_epoch: i32,
    /// Settings of the assignor at the last rise of the epoch.
    assignment_configs: BTreeMap<String, String>,
    target: TargetEpoch,
    members: BTreeMap<String, StreamsMember>,
    targets: BTreeMap<String, TaskSets>,
    topology: Option<Arc<Topology>>,
    /// Topology, configured for the topics that exist now.
    configured: Option<Arc<Configured>>,
    /// True if topics may have changed since the hash was last compared.
    stale: bool,
    /// The member that has requested all members to shut down.
    shutdown_by: Option<String>,
    /// Raised when the tasks of a member with an endpoint change.
    endpoint_epoch: i32,
    /// Offsets of tasks, as members have reported them.
    offsets: BTreeMap<String, MemberOffsets>,
    /// True if the log has no record of the group.
    is_new: bool,
}

/// A member, and its tasks.
#[derive(Clone, Debug, PartialEq, Eq)]
struct StreamsMember {
    metadata: Arc<StreamsMemberMetadata>,
    current: StreamsCurrentValue,
}

impl Default for StreamsMember {
    fn default() -> Self {
        // Kafka's values for a member that has not sent any.
        let metadata = StreamsMemberMetadata {
            rebalance_timeout_ms: -1,
            topology_epoch: -1,
            ..StreamsMemberMetadata::default()
        };
        let current = StreamsCurrentValue { state: reconcile::STABLE, ..StreamsCurrentValue::default() };
        Self { metadata: Arc::new(metadata), current }
    }
}

impl StreamsMember {
    fn is_reconciled(&self, epoch: i32) -> bool {
        self.current.state == reconcile::STABLE && self.current.epoch == epoch
    }
}

impl StreamsGroup {
    /// A group that has never had a member.
    pub(super) fn new(id: String) -> Self {
        Self {
            id,
            epoch: FIRST_EPOCH,
            metadata_hash: 0,
            validated_topology_epoch: NOT_VALID,
            assignment_configs: BTreeMap::new(),
            target: TargetEpoch { epoch: FIRST_EPOCH, timestamp_ms: 0 },
            members: BTreeMap::new(),
            targets: BTreeMap::new(),
            topology: None,
            configured: None,
            stale: true,
            shutdown_by: None,
            endpoint_epoch: 0,
            offsets: BTreeMap::new(),
            is_new: true,
        }
    }

    /// The group's id.
    pub(super) fn id(&self) -> &str {
        &self.id
    }

    /// The group's epoch.
    pub(super) fn epoch(&self) -> i32 {
        self.epoch
    }

    /// Notes that topics were created, deleted or extended.
    pub(super) fn topics_changed(&mut self) {
        self.stale = true;
    }

    /// Records that the group is in the log.
    pub(super) fn stored(&mut self) {
        self.is_new = false;
    }

    /// Applies a record.
    pub(super) fn apply(&mut self, record: StreamsRecord) {
        match record {
            StreamsRecord::Epoch(value) => {
                let value = value.unwrap_or(StreamsEpochValue {
                    epoch: FIRST_EPOCH,
                    metadata_hash: 0,
                    validated_topology_epoch: NOT_VALID,
                    assignment_configs: BTreeMap::new(),
                });
                (self.epoch, self.metadata_hash) = (value.epoch, value.metadata_hash);
                self.validated_topology_epoch = value.validated_topology_epoch;
                self.assignment_configs = value.assignment_configs;
            }
            StreamsRecord::Member(member_id, Some(metadata)) => {
                self.members.entry(member_id).or_default().metadata = Arc::new(metadata);
            }
            StreamsRecord::Member(member_id, None) => {
                self.members.remove(&member_id);
                self.offsets.remove(&member_id);
                if self.members.is_empty() {
                    self.shutdown_by = None;
                }
            }
            StreamsRecord::TargetEpoch(value) => {
                self.target = value.unwrap_or(TargetEpoch { epoch: -1, timestamp_ms: 0 });
            }
            StreamsRecord::Target(member_id, Some(target)) => {
                self.targets.insert(member_id, target);
            }
            StreamsRecord::Target(member_id, None) => {
                self.targets.remove(&member_id);
            }
            StreamsRecord::Current(member_id, Some(current)) => {
                self.members.entry(member_id).or_default().current = current;
            }
            StreamsRecord::Current(member_id, None) => {
                if let Some(member) = self.members.get_mut(&member_id) {
                    member.current = StreamsMember::default().current;
                }
            }
            StreamsRecord::Topology(topology) => {
                self.topology = topology;
                self.configured = None;
            }
        }
    }
}

/// A streams group in the making: the group as it will be, and the records that make it so.
#[derive(Debug)]
pub(super) struct StreamsDraft {
    /// The group as it will be.
    pub(super) group: StreamsGroup,
    /// Records to append.
    pub(super) records: Vec<Record>,
}

impl StreamsDraft {
    /// A draft that begins with the state of the group.
    fn of(group: &StreamsGroup) -> Self {
        Self { group: group.clone(), records: Vec::new() }
    }

    /// Writes a record, and applies it to the draft.
    fn write(&mut self, record: StreamsRecord) {
        self.records.push(Record::Streams(self.group.id.clone(), record.clone()));
        self.group.apply(record);
    }
}

#[cfg(test)]
pub(in crate::group) mod tests;
