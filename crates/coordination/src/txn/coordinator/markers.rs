//! Execution of a decision: every partition of the transaction gets a marker, then the log gets a
//! record of the completion.

use std::collections::BTreeMap;

use super::appends::Continuation;
use super::{Coordinator, Draft};
use crate::txn::event::{Action, MarkerResult, Markers, MarkersId, TopicPartition, Work};
use crate::txn::request::ProducerIdentity;
use crate::txn::transaction::TxnState;

/// Markers that the driver has not reported yet, with their ids.
#[derive(Debug, Default)]
pub(super) struct Marking {
    asked: u64,
    under_way: BTreeMap<MarkersId, String>,
}

impl Coordinator {
    /// Carries out a decision that is in the log. Responds with the producer's new state, if it
    /// changes.
    pub(super) fn carry_out(&mut self, transactional_id: &str, now_ms: i64) -> Option<ProducerIdentity> {
        let entry = self.entries.get_mut(transactional_id)?;
        let completed = entry.current.completed(now_ms);
        let owner = (completed.client_version > 0).then(|| completed.owner());
        entry.draft = Some(Draft::Completion(Box::new(completed)));
        self.go_on(transactional_id, now_ms);
        owner
    }

    /// Requests the missing markers, or logs that there are none.
    pub(super) fn go_on(&mut self, transactional_id: &str, now_ms: i64) {
        let Some(entry) = self.entries.get(transactional_id) else { return };
        let Some(Draft::Completion(completed)) = &entry.draft else { return };
        let current = &entry.current;
        if current.partitions.is_empty() {
            let completed = completed.as_ref().clone();
            return self.transit(transactional_id.to_owned(), completed, Continuation::Completed, now_ms);
        }
        let markers = Markers {
            producer_id: current.producer_id,
            producer_epoch: current.producer_epoch,
            coordinator_epoch: self.epoch,
            commit: current.state == TxnState::PrepareCommit,
            transaction_version: current.client_version,
            partitions: current.partitions.iter().cloned().collect(),
        };
        let id = MarkersId(self.marking.asked);
        self.marking.asked += 1;
        self.marking.under_way.insert(id, transactional_id.to_owned());
        self.actions.push(Action::Work(Work::Markers(id, markers)));
    }

    pub(super) fn markers_written(
        &mut self,
        id: MarkersId,
        results: Vec<(TopicPartition, MarkerResult)>,
        now_ms: i64,
    ) {
        let Some(transactional_id) = self.marking.under_way.remove(&id) else { return };
        let Some(entry) = self.entries.get_mut(&transactional_id) else { return };
        let mut fenced = false;
        for (partition, result) in results {
            match result {
                MarkerResult::Written | MarkerResult::Gone => {
                    entry.current.partitions.remove(&partition);
                }
                MarkerResult::Fenced => fenced = true,
                MarkerResult::Failed => {}
            }
        }
        if fenced {
            // As in Kafka: the partition's next coordinator carries out the decision.
            return;
        }
        if entry.current.partitions.is_empty() {
            self.go_on(&transactional_id, now_ms);
        } else {
            self.alarms.resume_in(self.config.retry_ms, transactional_id);
        }
    }
}
