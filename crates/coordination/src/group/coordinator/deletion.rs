//! Deletion of groups. Share groups first have their state deleted at the share coordinator, and
//! groups for which that fails stay. The rest is removed with one write.

use std::collections::{BTreeMap, BTreeSet};

use super::Coordinator;
use super::held::{Held, HeldEvents};
use super::share_work::AfterWrite;
use super::shares::ShareWrite;
use crate::group::error::GroupError;
use crate::group::event::{Outcome, Ticket};
use crate::group::records::Record;
use crate::group::request::DeleteRequest;
use crate::group::turn::{AnyGroup, Continuation, PendingWrite};

/// A deletion of groups, some of which are share groups.
#[derive(Debug)]
pub(super) struct Deletion {
    ticket: Ticket,
    request: DeleteRequest,
    /// Errors of the share groups that are not deleted.
    errors: BTreeMap<String, GroupError>,
    /// Number of share groups whose state is being deleted.
    waiting: usize,
}

impl Deletion {
    /// The waiting request, and the response that refuses it.
    pub(super) fn refused(self, error: GroupError) -> (Ticket, Outcome) {
        let outcome = self.request.group_ids.into_iter().map(|group_id| (group_id, Some(error)));
        (self.ticket, Outcome::Delete(outcome.collect()))
    }
}

impl Coordinator {
    /// Deletes groups without members, with all their offsets; the others get an error.
    pub(super) fn delete(&mut self, ticket: Ticket, request: DeleteRequest, now_ms: i64) {
        let ids: BTreeSet<&String> = request.group_ids.iter().collect();
        let shares = ids.into_iter().filter_map(|group_id| self.shares.get(group_id));
        let (mut errors, mut steps) = (BTreeMap::new(), Vec::new());
        for group in shares {
            match group.validate_delete() {
                Err(error) => drop(errors.insert(group.id().to_owned(), error)),
                Ok(()) => steps.extend(group.begin_deletion(&*self.topics, self.timers.now_ms())),
            }
        }
        if steps.is_empty() {
            return self.remove_groups(ticket, request, &errors, now_ms);
        }
        let number = self.share_works.next_number();
        let deletion = Deletion { ticket, request, errors, waiting: steps.len() };
        self.share_works.deletions.insert(number, deletion);
        for (draft, partitions) in steps {
            let next = Some(AfterWrite::DeleteGroup(number, partitions));
            let write = ShareWrite { next, ..self.share_write(draft.group) };
            self.write_share(draft.records, write, now_ms);
        }
    }

    /// Processes the result of the deletion of a group's state.
    pub(super) fn deletion_step(
        &mut self,
        number: u64,
        group_id: &str,
        error: Option<GroupError>,
        now_ms: i64,
    ) {
        let Some(deletion) = self.share_works.deletions.get_mut(&number) else { return };
        if let Some(error) = error {
            deletion.errors.insert(group_id.to_owned(), error);
        }
        deletion.waiting -= 1;
        if deletion.waiting == 0 {
            self.finish_deletion(number, now_ms);
        }
    }

    /// Removes the groups of a deletion whose share state is deleted, once none of the groups is
    /// being written.
    pub(super) fn finish_deletion(&mut self, number: u64, now_ms: i64) {
        let Some(deletion) = self.share_works.deletions.get(&number) else { return };
        if let Some(group_id) = self.busy_among(&deletion.request.group_ids)
            && let Some(held) = self.writing.get_mut(group_id)
        {
            return held.push(Held::Deletion(number));
        }
        if let Some(Deletion { ticket, request, errors, .. }) = self.share_works.deletions.remove(&number) {
            self.remove_groups(ticket, request, &errors, now_ms);
        }
    }

    /// Removes the groups that are empty and have no error so far.
    fn remove_groups(
        &mut self,
        ticket: Ticket,
        request: DeleteRequest,
        errors: &BTreeMap<String, GroupError>,
        now_ms: i64,
    ) {
        let (mut records, mut deleted, mut outcome) = (Vec::new(), Vec::new(), Vec::new());
        for group_id in request.group_ids {
            let error = errors.get(&group_id).copied().or_else(|| self.validate_delete(&group_id).err());
            if error.is_none() {
                let mut keys = self.offsets.keys_of_group(&group_id);
                keys.extend(self.appends.keys_of_group(&group_id).cloned());
                keys.sort_unstable();
                keys.dedup();
                records.extend(keys.into_iter().map(|key| Record::Offset(key, None)));
                records.extend(self.end_of(&group_id));
                let group = self.remove_group(&group_id);
                // The name is not free before the end of the group is in the log.
                if let Some(AnyGroup::Share(_)) = &group {
                    self.writing.insert(group_id.clone(), HeldEvents::of_share());
                    self.share_works.forget(&group_id);
                } else if let Some(AnyGroup::Streams(_)) = &group {
                    self.writing.insert(group_id.clone(), HeldEvents::default());
                }
                deleted.extend(group);
            }
            outcome.push((group_id, error));
        }
        let outcome = Outcome::Delete(outcome);
        if records.is_empty() {
            return self.reply(ticket, outcome);
        }
        self.append(PendingWrite { records, then: Continuation::Deleted(ticket, outcome, deleted) }, now_ms);
    }

    pub(super) fn validate_delete(&self, group_id: &str) -> Result<(), GroupError> {
        if let Some(group) = self.groups.get(group_id) {
            return group.validate_delete();
        }
        if let Some(group) = self.consumers.get(group_id) {
            return group.validate_delete();
        }
        if let Some(group) = self.streams.get(group_id) {
            return group.validate_delete();
        }
        self.shares.get(group_id).ok_or(GroupError::GroupIdNotFound)?.validate_delete()
    }

    /// The records that end a group without members.
    pub(super) fn end_of(&self, group_id: &str) -> Vec<Record> {
        if let Some(group) = self.consumers.get(group_id) {
            return group.tombstones();
        }
        if let Some(group) = self.streams.get(group_id) {
            return group.tombstones();
        }
        match self.shares.get(group_id) {
            Some(group) => group.tombstones(),
            None => vec![Record::Group(group_id.to_owned(), None)],
        }
    }

    /// Handles the end of the write that removes share groups and streams groups, and then
    /// processes the events that have waited for it.
    pub(super) fn release_deleted(&mut self, group_ids: Vec<String>, now_ms: i64) {
        for group_id in group_ids {
            let held = self.writing.remove(&group_id).unwrap_or_default();
            self.resume(&group_id, held, now_ms);
        }
    }
}
