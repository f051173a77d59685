//! StreamsGroupHeartbeat of a member that joins or stays, and the departure of members.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::configure::{Configured, configure};
use super::instances::is_relevant;
use super::reconcile::Goal;
use super::{NOT_VALID, StreamsDraft, StreamsGroup, StreamsMember};
use crate::group::error::GroupError;
use crate::group::hash::metadata_hash;
use crate::group::records::{
    HeldTasks, Record, StreamsEpochValue, StreamsMemberMetadata, StreamsRecord, TaskSets, Tasks, Topology,
};
use crate::group::request::{StreamsBeat, StreamsHeartbeatRequest, StreamsStatus};
use crate::group::topics::Topics;

/// Settings of a heartbeat, and its time.
#[derive(Clone, Debug)]
pub(in crate::group) struct StreamsLimits {
    /// Maximum number of members of the group.
    pub(in crate::group) max_size: usize,
    /// Time between two target assignments.
    pub(in crate::group) assignment_interval_ms: i32,
    /// Time that the first assignment of an empty group waits for more members.
    pub(in crate::group) initial_delay_ms: i32,
    /// Number of standby tasks for each task with state.
    pub(in crate::group) standby_replicas: i32,
    /// Keys of the tags that members must have, separated by commas; none if empty.
    pub(in crate::group) tags: Arc<str>,
    /// True while the first assignment waits.
    pub(in crate::group) is_delayed: bool,
    /// The time, by the wall clock.
    pub(in crate::group) now_ms: i64,
}

impl StreamsLimits {
    fn assignment_configs(&self) -> BTreeMap<String, String> {
        let replicas = ("num.standby.replicas".to_owned(), self.standby_replicas.to_string());
        let tags = ("rack.aware.assignment.tags".to_owned(), self.tags.to_string());
        [replicas, tags].into_iter().filter(|(_, value)| !value.is_empty()).collect()
    }
}

/// Outcome of a heartbeat.
#[derive(Debug)]
pub(in crate::group) struct StreamsBeatDraft {
    /// Changes; none if nothing changes.
    pub(in crate::group) draft: Option<StreamsDraft>,
    /// The response; it lacks the heartbeat interval.
    pub(in crate::group) beat: StreamsBeat,
    /// True if the first assignment is to wait from now on.
    pub(in crate::group) delays: bool,
    /// Static member that the member replaces.
    pub(in crate::group) replaced: Option<String>,
}

impl StreamsGroup {
    /// Processes the heartbeat of a member that joins or stays, after the checks of its fields.
    pub(in crate::group) fn heartbeat(
        &self,
        request: &StreamsHeartbeatRequest,
        topics: &dyn Topics,
        limits: &StreamsLimits,
    ) -> Result<StreamsBeatDraft, GroupError> {
        let is_joining = request.member_epoch == 0;
        if is_joining {
            self.check_room(request, limits.max_size)?;
        }
        let replaced = self.replaced(request)?;
        let known = self.members.get(&request.member_id);
        match known {
            None if !is_joining => return Err(GroupError::UnknownMemberId),
            None => {}
            Some(member) => check_epoch(member, request)?,
        }
        let mut before = known.cloned().unwrap_or_default();
        if known.is_some() && self.is_settled(&before, request, limits) {
            self.check_tasks(request)?;
            let mut beat = self.answer(request, (&before, is_uninformed(&before, request)), topics);
            beat.status.splice(0..0, self.stale_topology(&before.metadata));
            beat.status.extend(missing_tags(&before.metadata, request, limits));
            return Ok(StreamsBeatDraft { draft: None, beat, delays: false, replaced });
        }
        let mut draft = StreamsDraft::of(self);
        if let Some(old) = &replaced {
            before = draft.replace(old, request);
        }
        let mut status = self.stale_topology(&wanted(&before, request));
        let updated = draft.update(request, &before);
        let is_configured = draft.configure(request, topics)?;
        draft.group.check_tasks(request)?;
        draft.group.note_offsets(request);
        draft.raise_epoch(updated || is_configured, limits);
        let delays = self.members.is_empty() && limits.initial_delay_ms > 0;
        let is_delayed = delays || limits.is_delayed;
        status.extend(draft.assign(is_delayed, limits));
        draft.reconcile(request, is_delayed)?;
        let group = &mut draft.group;
        if request.shutdown_application && group.shutdown_by.is_none() {
            group.shutdown_by = Some(request.member_id.clone());
        }
        let after = group.members.get(&request.member_id).ok_or(GroupError::UnknownMemberId)?.clone();
        let has_new_tasks = before.current.assigned != after.current.assigned;
        let has_new_endpoint = before.metadata.user_endpoint != after.metadata.user_endpoint;
        if has_new_endpoint || (has_new_tasks && after.metadata.user_endpoint.is_some()) {
            group.endpoint_epoch = group.endpoint_epoch.wrapping_add(1);
        }
        let is_told = is_joining || has_new_tasks || is_uninformed(&before, request);
        let mut beat = group.answer(request, (&after, is_told), topics);
        beat.status.splice(0..0, status);
        beat.status.extend(missing_tags(&after.metadata, request, limits));
        if group.is_new {
            (group.endpoint_epoch, beat.endpoint_epoch) = (0, 0);
        }
        Ok(StreamsBeatDraft { draft: Some(draft), beat, delays, replaced })
    }

    /// True if a heartbeat changes nothing: the member has its target assignment, and the request
    /// contains no change.
    fn is_settled(
        &self,
        member: &StreamsMember,
        request: &StreamsHeartbeatRequest,
        limits: &StreamsLimits,
    ) -> bool {
        let is_same = wanted(member, request) == *member.metadata
            && request.topology.is_none()
            && request.task_offsets.is_none()
            && request.task_end_offsets.is_none();
        let is_shutdown = request.shutdown_application && self.shutdown_by.is_none();
        let is_current = !self.stale && self.configured.is_some();
        let is_assigned = !limits.is_delayed
            && self.epoch <= self.target.epoch
            && self.assignment_configs == limits.assignment_configs();
        is_same
            && !is_shutdown
            && is_current
            && is_assigned
            && self.is_validated()
            && member.is_reconciled(self.target.epoch)
    }

    /// True if the last rise of the epoch knew if tasks can be assigned.
    fn is_validated(&self) -> bool {
        self.validated_topology_epoch == self.valid_topology_epoch()
    }

    /// Epoch of the topology if its tasks can be assigned.
    fn valid_topology_epoch(&self) -> i32 {
        let is_ready = self.configured.as_ref().is_some_and(|configured| configured.is_ready());
        self.topology.as_ref().filter(|_| is_ready).map_or(NOT_VALID, |topology| topology.epoch)
    }

    fn stale_topology(&self, metadata: &StreamsMemberMetadata) -> Vec<StreamsStatus> {
        let epoch = metadata.topology_epoch;
        let newer = self.topology.as_ref().filter(|topology| epoch < topology.epoch);
        let status = newer.map(|topology| StreamsStatus {
            code: StreamsStatus::STALE_TOPOLOGY,
            detail: format!(
                "The member's topology epoch {epoch} is behind \
                 the group's topology epoch {}.",
                topology.epoch
            ),
        });
        status.into_iter().collect()
    }

    /// Checks that the tasks that the member reports exist.
    fn check_tasks(&self, request: &StreamsHeartbeatRequest) -> Result<(), GroupError> {
        let parts = self.configured.as_deref().and_then(Configured::ready_parts);
        let (Some(parts), Some(owned)) = (parts, &request.owned) else { return Ok(()) };
        for (id, tasks) in owned.active.iter().chain(&owned.standby).chain(&owned.warmup) {
            let part = parts.get(id);
            let part =
                part.ok_or(GroupError::InvalidRequest("Subtopology does not exist in the topology."))?;
            if !tasks.iter().all(|partition| (0..part.tasks).contains(partition)) {
                return Err(GroupError::InvalidRequest("Task for subtopology is invalid."));
            }
        }
        Ok(())
    }

    /// The response to a member, with the statuses of all members.
    fn answer(
        &self,
        request: &StreamsHeartbeatRequest,
        (member, is_told): (&StreamsMember, bool),
        topics: &dyn Topics,
    ) -> StreamsBeat {
        let configured = self.configured.as_ref();
        let reason = configured.and_then(|configured| Some(configured.reason.as_ref()?.0.clone()));
        let mut status: Vec<StreamsStatus> = reason.into_iter().collect();
        status.extend(self.shutdown_by.as_ref().map(|member_id| StreamsStatus {
            code: StreamsStatus::SHUTDOWN_APPLICATION,
            detail: format!(
                "Streams group member {member_id} encountered a fatal error and requested a shutdown for the entire application."
            ),
        }));
        let is_known = self.endpoint_epoch == request.endpoint_epoch;
        StreamsBeat {
            member_id: request.member_id.clone(),
            member_epoch: member.current.epoch,
            heartbeat_interval_ms: 0,
            task_offset_interval_ms: 0,
            acceptable_recovery_lag: -1,
            status,
            assigned: is_told.then(|| told(&member.current.assigned)),
            endpoint_epoch: self.endpoint_epoch,
            endpoints: (!is_known).then(|| self.endpoints(&request.member_id, topics)),
            missing_topics: configured.map(|configured| configured.missing.clone()).unwrap_or_default(),
        }
    }

    /// Removes a member that leaves, or that an operator removes.
    ///
    /// # Errors
    /// The group has no such member.
    pub(in crate::group) fn leave(
        &self,
        member_id: &str,
        shutdown_application: bool,
    ) -> Result<StreamsDraft, GroupError> {
        if !self.members.contains_key(member_id) {
            return Err(GroupError::UnknownMemberId);
        }
        let mut draft = StreamsDraft::of(self);
        if shutdown_application && draft.group.shutdown_by.is_none() {
            draft.group.shutdown_by = Some(member_id.to_owned());
        }
        draft.write(StreamsRecord::Current(member_id.to_owned(), None));
        draft.write(StreamsRecord::Target(member_id.to_owned(), None));
        draft.write(StreamsRecord::Member(member_id.to_owned(), None));
        draft.write_epoch(self.validated_topology_epoch, self.assignment_configs.clone());
        Ok(draft)
    }

    /// The tombstones of a group without members.
    pub(in crate::group) fn tombstones(&self) -> Vec<Record> {
        let targets = self.targets.keys().map(|member_id| StreamsRecord::Target(member_id.clone(), None));
        let ends =
            [StreamsRecord::TargetEpoch(None), StreamsRecord::Epoch(None), StreamsRecord::Topology(None)];
        targets.chain(ends).map(|record| Record::Streams(self.id.clone(), record)).collect()
    }
}

impl StreamsDraft {
    /// Stores the member; true if it has changed, in ways that matter if it is static.
    fn update(&mut self, request: &StreamsHeartbeatRequest, before: &StreamsMember) -> bool {
        let metadata = wanted(before, request);
        let is_known = self.group.members.contains_key(&request.member_id);
        let is_changed = !is_known || metadata != *before.metadata;
        if is_changed {
            self.write(StreamsRecord::Member(request.member_id.clone(), Some(metadata.clone())));
        }
        is_changed && (request.instance_id.is_none() || is_relevant(&before.metadata, &metadata))
    }

    /// Stores the topology if the group has none, and compares it with the topics; true if the
    /// topics have changed.
    fn configure(
        &mut self,
        request: &StreamsHeartbeatRequest,
        topics: &dyn Topics,
    ) -> Result<bool, GroupError> {
        let topology = self.topology(request)?;
        let group = &self.group;
        if group.configured.is_some() && !group.stale {
            return Ok(false);
        }
        let metadata_hash = metadata_hash(&topology.required_topics(), topics);
        let is_changed = metadata_hash != group.metadata_hash;
        if is_changed || group.configured.is_none() {
            self.group.configured = Some(Arc::new(configure(&topology, topics)?));
        }
        self.group.metadata_hash = metadata_hash;
        self.group.stale = false;
        Ok(is_changed)
    }

    fn topology(&mut self, request: &StreamsHeartbeatRequest) -> Result<Arc<Topology>, GroupError> {
        match (&request.topology, &self.group.topology) {
            (None, Some(topology)) => Ok(topology.clone()),
            (Some(asked), Some(topology)) => {
                if asked.epoch >= topology.epoch && !topology.is_same(asked) {
                    return Err(GroupError::InvalidRequest("Topology updates are not supported yet."));
                }
                Ok(topology.clone())
            }
            (Some(asked), None) => {
                let topology = Arc::new(asked.clone());
                self.write(StreamsRecord::Topology(Some(topology.clone())));
                Ok(topology)
            }
            (None, None) => Err(GroupError::UnknownServerError),
        }
    }

    /// Raises the epoch if it must, if its topology has become assignable or is so no longer, or if
    /// the settings of the assignor have changed.
    fn raise_epoch(&mut self, must: bool, limits: &StreamsLimits) {
        let group = &self.group;
        let configs = limits.assignment_configs();
        if must || !group.is_validated() || configs != group.assignment_configs {
            self.write_epoch(group.valid_topology_epoch(), configs);
        }
    }

    fn write_epoch(&mut self, validated_topology_epoch: i32, configs: BTreeMap<String, String>) {
        let value = StreamsEpochValue {
            epoch: self.group.epoch.wrapping_add(1),
            metadata_hash: self.group.metadata_hash,
            validated_topology_epoch,
            assignment_configs: configs,
        };
        self.write(StreamsRecord::Epoch(Some(value)));
    }

    /// Moves the member as close to its target as is possible now. While the first assignment
    /// waits, the target is empty.
    fn reconcile(&mut self, request: &StreamsHeartbeatRequest, is_delayed: bool) -> Result<(), GroupError> {
        let group = &self.group;
        let Some(member) = group.members.get(&request.member_id) else { return Ok(()) };
        if member.is_reconciled(group.target.epoch) {
            return Ok(());
        }
        let none = TaskSets::default();
        let target = group.targets.get(&request.member_id).filter(|_| !is_delayed).unwrap_or(&none);
        let goal = Goal { epoch: group.target.epoch, target, owned: request.owned.as_ref() };
        let next = group.next(member, &goal)?;
        if next != member.current {
            self.write(StreamsRecord::Current(request.member_id.clone(), Some(next)));
        }
        Ok(())
    }
}

/// Checks the epoch of a member. A member with the epoch before is accepted if it has no other
/// tasks than it is assigned: the response with the newer epoch may have been lost.
fn check_epoch(member: &StreamsMember, request: &StreamsHeartbeatRequest) -> Result<(), GroupError> {
    let (current, epoch) = (&member.current, request.member_epoch);
    let is_lost = epoch < current.epoch
        && epoch == current.previous_epoch
        && request.owned.as_ref().is_some_and(|owned| is_within(owned, &told(&current.assigned)));
    if epoch == 0 || epoch == current.epoch || is_lost {
        Ok(())
    } else {
        Err(GroupError::fenced("streams", epoch, current.epoch))
    }
}

/// True if the response with the member's tasks was lost: it has the epoch before, or reports other
/// tasks than it is assigned. Kafka does not repeat such a response. A client reports its tasks
/// once after a failed heartbeat: without the response it would never take tasks that no other
/// member gets, or give up tasks that another member waits for.
fn is_uninformed(member: &StreamsMember, request: &StreamsHeartbeatRequest) -> bool {
    let Some(owned) = &request.owned else { return false };
    let assigned = told(&member.current.assigned);
    request.member_epoch < member.current.epoch
        || !is_within(&assigned, owned)
        || !is_within(owned, &assigned)
}

/// True if the first tasks are among the others.
fn is_within(few: &TaskSets, many: &TaskSets) -> bool {
    let within = |few: &Tasks, many: &Tasks| {
        few.iter().all(|(id, tasks)| many.get(id).is_some_and(|many| tasks.is_subset(many)))
    };
    within(&few.active, &many.active)
        && within(&few.standby, &many.standby)
        && within(&few.warmup, &many.warmup)
}

/// The status of a member that lacks tags that the group requires.
fn missing_tags(
    member: &StreamsMemberMetadata,
    request: &StreamsHeartbeatRequest,
    limits: &StreamsLimits,
) -> Option<StreamsStatus> {
    let required = limits.tags.split(',').filter(|tag| !tag.is_empty());
    let missing: Vec<&str> = required.filter(|tag| !member.client_tags.contains_key(*tag)).collect();
    let is_shown = request.knows_missing_tags && !missing.is_empty();
    is_shown.then(|| StreamsStatus {
        code: StreamsStatus::MISSING_CLIENT_TAGS,
        detail: format!(
            "Missing required client tags for rack-aware standby assignment: [{}]. \
             Configure them via 'client.tag.<tagKey>' in your Streams config.",
            missing.join(", ")
        ),
    })
}

/// The member with the request's changes; fields that the request lacks stay unchanged.
fn wanted(member: &StreamsMember, request: &StreamsHeartbeatRequest) -> StreamsMemberMetadata {
    let before = &member.metadata;
    let is_joining = request.member_epoch == 0;
    StreamsMemberMetadata {
        instance_id: request.instance_id.clone().or_else(|| before.instance_id.clone()),
        rack_id: request.rack_id.clone().or_else(|| before.rack_id.clone()),
        client_id: request.client_id.clone(),
        client_host: request.client_host.clone(),
        rebalance_timeout_ms: request.rebalance_timeout_ms.unwrap_or(before.rebalance_timeout_ms),
        topology_epoch: request.topology.as_ref().map_or(before.topology_epoch, |topology| topology.epoch),
        process_id: request.process_id.clone().unwrap_or_else(|| before.process_id.clone()),
        user_endpoint: match &request.user_endpoint {
            None if is_joining => None,
            sent => sent.clone().or_else(|| before.user_endpoint.clone()),
        },
        client_tags: request.client_tags.clone().unwrap_or_else(|| before.client_tags.clone()),
    }
}

/// Tasks without the epochs in which they were assigned.
pub(super) fn told(assigned: &HeldTasks) -> TaskSets {
    let active = assigned.active.iter();
    TaskSets {
        active: active.map(|(id, tasks)| (id.clone(), tasks.keys().copied().collect())).collect(),
        standby: assigned.standby.clone(),
        warmup: assigned.warmup.clone(),
    }
}
