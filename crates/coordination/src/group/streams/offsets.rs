//! Offsets of tasks that members report. They are not in the log: members report them again.

use std::sync::Arc;

use super::StreamsGroup;
use crate::group::request::{StreamsHeartbeatRequest, TaskOffsets};

/// The latest report of a member.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct MemberOffsets {
    /// Progress of its restoration of the state of tasks.
    pub(super) offsets: Arc<TaskOffsets>,
    /// The ends of the changelogs.
    pub(super) ends: Arc<TaskOffsets>,
}

impl StreamsGroup {
    /// Stores the offsets that the member reports. Offsets that it does not report have not
    /// changed.
    pub(super) fn note_offsets(&mut self, request: &StreamsHeartbeatRequest) {
        let (offsets, ends) = (&request.task_offsets, &request.task_end_offsets);
        if offsets.is_none() && ends.is_none() {
            return;
        }
        let known = self.offsets.entry(request.member_id.clone()).or_default();
        if let Some(offsets) = offsets {
            known.offsets = Arc::new(offsets.clone());
        }
        if let Some(ends) = ends {
            known.ends = Arc::new(ends.clone());
        }
    }
}
