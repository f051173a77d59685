//! The target assignment of a streams group.

use super::assignor::{TaskMember, TaskSource, assign};
use super::beat::{StreamsLimits, told};
use super::configure::Configured;
use super::{StreamsDraft, StreamsGroup};
use crate::group::records::{StreamsRecord, TargetEpoch, TaskSets};
use crate::group::request::StreamsStatus;

impl StreamsDraft {
    /// Computes the target assignment of the group's epoch, unless there is one; returns the status
    /// if that must wait.
    pub(super) fn assign(&mut self, is_delayed: bool, limits: &StreamsLimits) -> Option<StreamsStatus> {
        let delayed = |detail: &str| {
            Some(StreamsStatus { code: StreamsStatus::ASSIGNMENT_DELAYED, detail: detail.to_owned() })
        };
        if is_delayed {
            return delayed("Assignment delayed due to the configured initial rebalance delay.");
        }
        if self.group.target.epoch >= self.group.epoch {
            return None;
        }
        if self.group.is_early(limits) {
            return delayed("Assignment delayed due to the configured assignment interval.");
        }
        let replicas = usize::try_from(limits.standby_replicas).unwrap_or_default();
        self.make_target(replicas, limits.now_ms);
        None
    }

    fn make_target(&mut self, standby_replicas: usize, now_ms: i64) {
        let group = &self.group;
        let members: Vec<TaskMember> = group.members.keys().map(|id| group.task_member(id)).collect();
        // Without valid topics, no member has tasks.
        let targets = assign(&members, &group.task_sources(), standby_replicas);
        let changed: Vec<(String, TaskSets)> =
            targets.into_iter().filter(|(id, target)| group.targets.get(id) != Some(target)).collect();
        let epoch = group.epoch;
        for (member_id, target) in changed {
            self.write(StreamsRecord::Target(member_id, Some(target)));
        }
        self.write(StreamsRecord::TargetEpoch(Some(TargetEpoch { epoch, timestamp_ms: now_ms })));
    }
}

impl StreamsGroup {
    /// Ends the wait of the first assignment for more members; none if there is nothing to assign.
    pub(in crate::group) fn delay_over(&self, now_ms: i64) -> Option<StreamsDraft> {
        let is_due = !self.members.is_empty() && self.epoch > self.target.epoch && self.configured.is_some();
        is_due.then(|| {
            let mut draft = StreamsDraft::of(self);
            let replicas = self.assignment_configs.get("num.standby.replicas");
            let replicas = replicas.and_then(|number| number.parse().ok()).unwrap_or_default();
            draft.make_target(replicas, now_ms);
            draft
        })
    }

    /// True if the last target assignment was computed less than an interval ago. A clock that was
    /// set back does not delay the next one.
    fn is_early(&self, limits: &StreamsLimits) -> bool {
        let since_ms = limits.now_ms.saturating_sub(self.target.timestamp_ms);
        self.target.timestamp_ms != 0 && (0..i64::from(limits.assignment_interval_ms)).contains(&since_ms)
    }

    fn task_member(&self, id: &str) -> TaskMember {
        let process_id = self.members.get(id).map(|member| member.metadata.process_id.clone());
        TaskMember {
            id: id.to_owned(),
            process_id: process_id.unwrap_or_default(),
            before: self.members.get(id).map(|member| told(&member.current.assigned)).unwrap_or_default(),
            offsets: self.offsets.get(id).map(|member| member.offsets.clone()).unwrap_or_default(),
        }
    }

    fn task_sources(&self) -> Vec<TaskSource> {
        let parts = self.configured.as_deref().and_then(Configured::ready_parts);
        let sources = parts.into_iter().flatten().map(|(id, part)| TaskSource {
            subtopology_id: id.clone(),
            tasks: part.tasks,
            is_stateful: !part.changelogs.is_empty(),
        });
        sources.collect()
    }
}
