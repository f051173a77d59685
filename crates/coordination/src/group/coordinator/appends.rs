//! Pending appends to the log, and their continuations.

use std::collections::{BTreeMap, BTreeSet};

use super::Coordinator;
use crate::group::classic::ClassicGroup;
use crate::group::error::GroupError;
use crate::group::event::{Action, Outcome, Payload, Producer};
use crate::group::records::{OffsetKey, Record};
use crate::group::request::{EndTxnRequest, FetchRequest};
use crate::group::topics::GoneTopic;
use crate::group::turn::{AnyGroup, Continuation, PendingWrite};
use crate::machine::{EncodedRecord, PersistFailure, PersistId, Ticket};

/// Appends that the driver has not reported yet.
#[derive(Debug, Default)]
pub(super) struct Appends {
    asked: u64,
    under_way: BTreeMap<PersistId, UnderWay>,
    /// The appends with offsets, by group. No set is empty.
    offsets: BTreeMap<String, BTreeSet<PersistId>>,
    /// Number of the appends with assignments, by classic group. No number is zero.
    assignments: BTreeMap<String, usize>,
}

/// An append, and the driver's report about it.
#[derive(Debug)]
struct UnderWay {
    write: PendingWrite,
    part: Part,
    /// Reports take effect in the order of the appends: until then this one waits here.
    reported: Option<Result<i64, PersistFailure>>,
}

/// Role of an append in a transaction.
#[derive(Clone, Copy, Debug)]
enum Part {
    /// The append is not part of a transaction.
    None,
    /// The append has offsets that are pending until the transaction of this producer id ends.
    Of(i64),
    /// The append is the end of a transaction.
    End(EndTxnRequest),
}

impl Appends {
    fn insert(&mut self, id: PersistId, append: UnderWay) {
        for key in offset_keys(&append.write) {
            match self.offsets.get_mut(&key.group_id) {
                Some(ids) => drop(ids.insert(id)),
                None => drop(self.offsets.insert(key.group_id.clone(), BTreeSet::from([id]))),
            }
        }
        if let Some(group_id) = assigned_group(&append.write) {
            *self.assignments.entry(group_id.to_owned()).or_default() += 1;
        }
        let before = self.under_way.insert(id, append);
        assert!(before.is_none(), "an append has a name of its own");
    }

    /// Removes and returns the first append if it is reported.
    fn take_reported(&mut self) -> Option<(UnderWay, Result<i64, PersistFailure>)> {
        let first = self.under_way.first_entry()?;
        let result = first.get().reported?;
        let (id, append) = first.remove_entry();
        for key in offset_keys(&append.write) {
            if let Some(ids) = self.offsets.get_mut(&key.group_id) {
                ids.remove(&id);
                if ids.is_empty() {
                    self.offsets.remove(&key.group_id);
                }
            }
        }
        if let Some(group_id) = assigned_group(&append.write)
            && let Some(count) = self.assignments.get_mut(group_id)
        {
            *count -= 1;
            if *count == 0 {
                self.assignments.remove(group_id);
            }
        }
        Some((append, result))
    }

    /// Removes and returns all appends.
    fn take_all(&mut self) -> impl Iterator<Item = UnderWay> + use<> {
        self.offsets.clear();
        self.assignments.clear();
        std::mem::take(&mut self.under_way).into_values()
    }

    /// True if offsets of the group are being written.
    pub(super) fn has_offsets(&self, group_id: &str) -> bool {
        self.offsets.contains_key(group_id)
    }

    /// True if assignments of the classic group are being written.
    pub(super) fn has_assignments(&self, group_id: &str) -> bool {
        self.assignments.contains_key(group_id)
    }

    /// True if the removal of a group of that name is being written.
    pub(super) fn is_removing(&self, group_id: &str) -> bool {
        let removed = self.under_way.values().filter_map(|append| match &append.write.then {
            Continuation::Deleted(_, _, groups) | Continuation::Expired(groups) => Some(groups),
            _ => None,
        });
        removed.flatten().any(|group| group.id() == group_id)
    }

    /// The offsets of the group that are being written.
    pub(super) fn keys_of_group<'a>(&'a self, group_id: &'a str) -> impl Iterator<Item = &'a OffsetKey> {
        let appends = self.offsets.get(group_id).into_iter().flatten();
        let appends = appends.filter_map(|id| self.under_way.get(id));
        appends.flat_map(|append| offset_keys(&append.write)).filter(move |key| key.group_id == group_id)
    }

    /// The offsets of these topics that are being written.
    pub(super) fn keys_of_topics<'a>(&'a self, gone: &'a [GoneTopic]) -> impl Iterator<Item = &'a OffsetKey> {
        let records = self.under_way.values().flat_map(|append| &append.write.records);
        records.filter_map(|record| match record {
            Record::Offset(key, Some(value)) => {
                let goes =
                    |topic: &GoneTopic| topic.name == key.topic && topic.had(key.partition, value.topic_id);
                gone.iter().any(goes).then_some(key)
            }
            _ => None,
        })
    }

    /// The latest append in progress with offsets of the group.
    pub(super) fn last_offsets(&self, group_id: &str) -> Option<PersistId> {
        self.offsets.get(group_id)?.last().copied()
    }

    fn is_settled(&self, id: PersistId) -> bool {
        self.under_way.first_key_value().is_none_or(|(first, _)| *first > id)
    }
}

/// A lookup that is held until every earlier commit of its group is in the log.
#[derive(Debug)]
pub(super) struct HeldFetch {
    /// The last append to wait for.
    pub(super) after: PersistId,
    /// The request that waits.
    pub(super) ticket: Ticket,
    /// Request whose response is held.
    pub(super) request: FetchRequest,
}

impl Coordinator {
    /// Requests an append from the driver; records that are too large for any batch have failed
    /// already.
    pub(super) fn append(&mut self, write: PendingWrite, now_ms: i64) {
        match encode(&write.records) {
            Ok(records) => self.ask_for(write, Part::None, Payload::Records(records)),
            Err(failure) => self.settle(write, Part::None, Err(failure), now_ms),
        }
    }

    /// Like [`Coordinator::append`], as part of a producer's transaction.
    pub(super) fn append_in_transaction(&mut self, write: PendingWrite, producer: Producer, now_ms: i64) {
        let part = Part::Of(producer.id);
        match encode(&write.records) {
            Ok(records) => self.ask_for(write, part, Payload::Transactional(producer, records)),
            Err(failure) => self.settle(write, part, Err(failure), now_ms),
        }
    }

    /// Requests the driver to append a transaction's end.
    pub(super) fn append_marker(&mut self, end: EndTxnRequest, then: Continuation) {
        self.ask_for(PendingWrite { records: Vec::new(), then }, Part::End(end), Payload::Marker(end));
    }

    fn ask_for(&mut self, write: PendingWrite, part: Part, payload: Payload) {
        let id = PersistId(self.appends.asked);
        self.appends.asked += 1;
        self.appends.insert(id, UnderWay { write, part, reported: None });
        self.actions.push(Action::Persist(id, payload));
    }

    pub(super) fn append_some(&mut self, write: Option<PendingWrite>, now_ms: i64) {
        if let Some(write) = write {
            self.append(write, now_ms);
        }
    }

    pub(super) fn persisted(&mut self, id: PersistId, result: Result<i64, PersistFailure>, now_ms: i64) {
        let Some(append) = self.appends.under_way.get_mut(&id) else { return };
        assert!(append.reported.is_none(), "an append is reported once");
        append.reported = Some(result);
        while let Some((UnderWay { write, part, .. }, result)) = self.appends.take_reported() {
            let assigned = assigned_group(&write).map(str::to_owned);
            self.settle(write, part, result, now_ms);
            if result == Err(PersistFailure::Lost) {
                // The content of the log is unknown: no request is served from memory any more.
                return self.unload(now_ms);
            }
            if let Some(group_id) = assigned {
                self.release_upgrades(&group_id, now_ms);
            }
        }
        let (ready, held): (Vec<HeldFetch>, _) = std::mem::take(&mut self.held_fetches)
            .into_iter()
            .partition(|held| self.appends.is_settled(held.after));
        self.held_fetches = held;
        for held in ready {
            self.answer_fetch(held.ticket, &held.request);
        }
    }

    /// Refuses the members that wait for a write which takes too long. The host refuses requests of
    /// other kinds.
    pub(super) fn overdue(&mut self, id: PersistId, now_ms: i64) {
        let Some(append) = self.appends.under_way.get_mut(&id) else { return };
        let error = GroupError::NotCoordinator;
        match &mut append.write.then {
            Continuation::Draft(draft) => {
                if let Some((ticket, outcome)) = draft.take_answer() {
                    self.reply(ticket, outcome.failed(error));
                }
            }
            Continuation::Share(write) => {
                if let Some((ticket, outcome)) = write.take_answer() {
                    self.reply(ticket, outcome.failed(error));
                }
            }
            Continuation::Assign(assignment) => {
                let (group_id, generation) = (assignment.group_id.clone(), assignment.generation);
                let (groups, mut turn) = self.turn(now_ms);
                if let Some(group) = groups.get_mut(&group_id) {
                    group.assignment_overdue(&mut turn, generation, error);
                }
            }
            // The members of the other writes do not wait for them, or wait for each other.
            Continuation::Nothing
            | Continuation::Reply(..)
            | Continuation::Deleted(..)
            | Continuation::Expired(_)
            | Continuation::NewGroup(_)
            | Continuation::Returned(_) => {}
        }
    }

    /// Refuses the requests of writes in progress: the next coordinator learns from the log which
    /// of them took effect.
    pub(super) fn abandon_appends(&mut self) {
        let error = GroupError::NotCoordinator;
        for append in self.appends.take_all() {
            match append.write.then {
                Continuation::Reply(ticket, outcome) | Continuation::Deleted(ticket, outcome, _) => {
                    self.reply(ticket, outcome.failed(error));
                }
                Continuation::Draft(mut draft) => {
                    if let Some((ticket, outcome)) = draft.take_answer() {
                        self.reply(ticket, outcome.failed(error));
                    }
                }
                Continuation::Share(write) => {
                    for (ticket, outcome) in write.refused(error) {
                        self.reply(ticket, outcome);
                    }
                }
                // Members that wait are answered by their groups.
                Continuation::Nothing
                | Continuation::Expired(_)
                | Continuation::NewGroup(_)
                | Continuation::Assign(_)
                | Continuation::Returned(_) => {}
            }
        }
        for held in std::mem::take(&mut self.held_fetches) {
            self.reply(held.ticket, Outcome::Fetch(Err(error)));
        }
    }

    pub(super) fn reply(&mut self, ticket: Ticket, outcome: Outcome) {
        self.actions.push(Action::Reply(ticket, outcome));
    }

    /// Handles the end of a write: the records are in the log, or never will be.
    fn settle(&mut self, write: PendingWrite, part: Part, result: Result<i64, PersistFailure>, now_ms: i64) {
        let error = result.err().map(GroupError::from);
        let transaction = match part {
            Part::None => None,
            Part::Of(producer_id) => Some(producer_id),
            Part::End(end) => {
                if result.is_ok() {
                    self.offsets.end_transaction(end.producer.id, end.commit);
                }
                None
            }
        };
        for (index, record) in (0_i64..).zip(write.records) {
            match (record, result) {
                (Record::Offset(key, value), Ok(base_offset)) => {
                    self.apply_offset(base_offset + index, transaction, key, value);
                }
                (Record::Offset(key, _), Err(_)) => self.drop_unused(&key.group_id),
                (
                    Record::Group(..)
                    | Record::Consumer(..)
                    | Record::Share(..)
                    | Record::Streams(..)
                    | Record::Other(_),
                    _,
                ) => {}
            }
        }
        let next = self.follow(write.then, error, now_ms);
        self.append_some(next, now_ms);
    }

    fn follow(&mut self, then: Continuation, error: Option<GroupError>, now_ms: i64) -> Option<PendingWrite> {
        let result_of = |outcome: Outcome| match error {
            Some(error) => outcome.failed(error),
            None => outcome,
        };
        match then {
            Continuation::Nothing => {}
            Continuation::Reply(ticket, outcome) => self.reply(ticket, result_of(outcome)),
            Continuation::Deleted(ticket, outcome, deleted) => {
                self.reply(ticket, result_of(outcome));
                // A commit that was in the log before the removal has made the group again.
                deleted.iter().filter(|_| error.is_none()).for_each(|group| self.drop_unused(group.id()));
                let is_held = |group: &&AnyGroup| matches!(group, AnyGroup::Share(_) | AnyGroup::Streams(_));
                let held = deleted.iter().filter(is_held).map(|group| group.id().to_owned()).collect();
                self.restore(deleted, error);
                self.release_deleted(held, now_ms);
            }
            Continuation::Expired(expired) => self.restore(expired, error),
            Continuation::Draft(draft) => self.draft_written(*draft, error, now_ms),
            Continuation::Share(write) => self.share_written(*write, error, now_ms),
            Continuation::NewGroup(group_id) => self.unmake(&group_id, error, now_ms),
            Continuation::Assign(assignment) => {
                let (groups, mut turn) = self.turn(now_ms);
                let group = groups.get_mut(&assignment.group_id)?;
                return group.assigned(&mut turn, assignment, error);
            }
            Continuation::Returned(returned) => {
                let (groups, mut turn) = self.turn(now_ms);
                groups.get_mut(&returned.group_id)?.returned(&mut turn, *returned, error);
            }
        }
        None
    }

    /// Restores groups whose removal could not be written, unless new groups have taken their
    /// names.
    fn restore(&mut self, groups: Vec<AnyGroup>, error: Option<GroupError>) {
        for group in groups.into_iter().filter(|_| error.is_some()) {
            if self.knows(group.id()) {
                continue;
            }
            match group {
                AnyGroup::Classic(group) => {
                    self.groups.insert(group.id().to_owned(), *group);
                }
                AnyGroup::Consumer(group) => {
                    self.consumers.insert(group.id().to_owned(), *group);
                }
                AnyGroup::Share(group) => {
                    self.shares.insert(group.id().to_owned(), *group);
                }
                AnyGroup::Streams(group) => {
                    self.streams.insert(group.id().to_owned(), *group);
                }
            }
        }
    }

    /// Removes a group that could not be written and has not changed since.
    fn unmake(&mut self, group_id: &str, error: Option<GroupError>, now_ms: i64) {
        let Some(error) = error else { return };
        let (groups, mut turn) = self.turn(now_ms);
        if let Some(group) = groups.get_mut(group_id)
            && group.is_unborn()
        {
            group.forget_alarms(&mut turn);
            group.dissolve(&mut turn, error);
            groups.remove(group_id);
        }
    }

    /// A group that was made for a commit, and has no offset, does not exist: the commit could not
    /// be written, or was removed.
    fn drop_unused(&mut self, group_id: &str) {
        let simple = self.groups.get(group_id).is_some_and(ClassicGroup::is_simple);
        if simple && !self.offsets.has_group(group_id) && !self.appends.has_offsets(group_id) {
            self.groups.remove(group_id);
        }
    }
}

/// The classic group whose assignments a write contains.
fn assigned_group(write: &PendingWrite) -> Option<&str> {
    match &write.then {
        Continuation::Assign(assignment) => Some(&assignment.group_id),
        Continuation::Returned(returned) => Some(&returned.group_id),
        _ => None,
    }
}

fn offset_keys(write: &PendingWrite) -> impl Iterator<Item = &OffsetKey> {
    write.records.iter().filter_map(|record| match record {
        Record::Offset(key, _) => Some(key),
        _ => None,
    })
}

fn encode(records: &[Record]) -> Result<Vec<EncodedRecord>, PersistFailure> {
    records.iter().map(Record::encode).collect::<Result<_, _>>().map_err(|_| PersistFailure::TooLarge)
}
