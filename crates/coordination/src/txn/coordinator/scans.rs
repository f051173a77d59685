//! Periodic work: aborts transactions that exceed their timeout, and removes unused transactional
//! ids.

use super::appends::Continuation;
use super::inits::decide_abort;
use super::{Coordinator, Decision, Held};
use crate::txn::transaction::TxnState;

/// Number of tombstones per batch, so that no batch exceeds the partition's limit.
const RECORDS_PER_APPEND: usize = 1_000;

impl Coordinator {
    pub(super) fn alarms(&mut self, now_ms: i64) {
        while let Some(transactional_id) = self.alarms.due_resume() {
            self.go_on(&transactional_id, now_ms);
        }
        if self.alarms.is_abort_scan_due() {
            self.abort_overdue(now_ms);
            self.watch();
        }
        if self.alarms.is_expiry_scan_due() {
            self.forget_unused(now_ms);
            self.watch();
        }
    }

    /// Sets the alarms that there is a reason for.
    pub(super) fn watch(&mut self) {
        self.watch_unused();
        if self.entries.values().any(|entry| entry.current.state == TxnState::Ongoing) {
            self.watch_open();
        }
    }

    /// Checks if a transaction is open.
    pub(super) fn watch_open(&mut self) {
        self.alarms.abort_scan_in(self.config.abort_interval_ms.max(1));
    }

    /// Checks periodically for ids to remove, if there are any.
    pub(super) fn watch_unused(&mut self) {
        if !self.entries.is_empty() {
            self.alarms.expiry_scan_in(self.config.expiration_interval_ms.max(1));
        }
    }

    fn abort_overdue(&mut self, now_ms: i64) {
        let steady_ms = self.alarms.now_ms();
        let overdue = self.entries.iter().filter(|(transactional_id, entry)| {
            let waits = |held: &Held| matches!(held, Held::Abort(id) if id == *transactional_id);
            entry.draft.is_none() && entry.is_overdue(steady_ms) && !self.held.iter().any(waits)
        });
        let overdue: Vec<String> = overdue.map(|(transactional_id, _)| transactional_id.clone()).collect();
        for transactional_id in overdue {
            self.abort(&transactional_id, now_ms);
        }
    }

    /// Aborts an open transaction that takes too long, if it still does.
    pub(super) fn abort(&mut self, transactional_id: &str, now_ms: i64) {
        let Some(entry) = self.entries.get(transactional_id) else { return };
        if entry.draft.is_some() || !entry.is_overdue(self.alarms.now_ms()) {
            return;
        }
        match decide_abort(&entry.current, &mut self.spare_ids, now_ms) {
            Decision::Prepare(next) => {
                self.transit(transactional_id.to_owned(), next, Continuation::Abort, now_ms)
            }
            _ => self.hold(Held::Abort(transactional_id.to_owned())),
        }
    }

    fn forget_unused(&mut self, now_ms: i64) {
        let since_ms = now_ms.saturating_sub(self.config.id_expiration_ms);
        let unused = self.entries.iter().filter(|(_, entry)| {
            let current = &entry.current;
            entry.draft.is_none() && current.state.is_at_rest() && current.last_update_ms <= since_ms
        });
        let unused: Vec<String> = unused.map(|(transactional_id, _)| transactional_id.clone()).collect();
        for transactional_ids in unused.chunks(RECORDS_PER_APPEND) {
            self.forget(transactional_ids.to_vec(), now_ms);
        }
    }
}
