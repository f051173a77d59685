//! The coordinator's own writes and work: snapshots of cold keys, tombstones for the keys of
//! deleted topics, and pruning of the log.
//!
//! A scan visits the keys in rounds, so that no step takes long. A key that is being written is
//! passed over: it is not cold, or the next scan finds it.

use std::collections::BTreeSet;

use levada_wire::Uuid;

use super::Coordinator;
use crate::share_state::key::ShareKey;
use crate::share_state::records::Record;
use crate::share_state::share::Share;

/// Scans of the log that have not ended.
#[derive(Debug, Default)]
pub(super) struct Scans {
    /// The scan for old snapshots and for keys without a topic.
    cold: Option<ColdScan>,
    /// Keys of deleted topics that are not removed yet.
    deleted: BTreeSet<ShareKey>,
}

#[derive(Debug)]
struct ColdScan {
    /// The last key of the last round.
    last: Option<ShareKey>,
    /// True to write old snapshots again. False while the coordinator writes nothing else.
    rewrites: bool,
}

impl Scans {
    /// Drops a removed key from the pending deletions.
    pub(super) fn removed(&mut self, key: &ShareKey) {
        self.deleted.remove(key);
    }
}

impl Coordinator {
    /// Runs the scans that are due, and schedules the others.
    pub(super) fn scan(&mut self, now_ms: i64) {
        if self.timers.is_cold_scan_due() {
            self.begin_cold_scan();
        }
        if self.timers.is_round_due() {
            self.remove_some_deleted();
            self.scan_some(now_ms);
        }
        if self.timers.is_prune_due() {
            self.prune();
        }
        if self.scans.cold.is_some() || !self.scans.deleted.is_empty() {
            self.timers.round_in(self.config.round_ms);
        }
        if self.slots.len() > 0 {
            self.timers.cold_scan_in(self.config.cold_interval_ms);
        }
        if self.floors.unpruned().is_some() {
            self.timers.prune_in(self.config.prune_interval_ms);
        }
    }

    /// Begins a scan for old snapshots; a scan in progress continues, so that it gets to the last
    /// key.
    fn begin_cold_scan(&mut self) {
        if self.scans.cold.is_none() {
            let rewrites = self.slots.all_stored().any(|(_, share)| !share.is_cold());
            self.scans.cold = Some(ColdScan { last: None, rewrites });
            self.timers.round_in(0);
        }
    }

    /// The keys of deleted topics lose their state.
    pub(super) fn topics_deleted(&mut self, topic_ids: &[Uuid]) {
        let topic_ids: BTreeSet<Uuid> = topic_ids.iter().copied().collect();
        let keys = self.slots.all_stored().map(|(key, _)| key);
        let keys = keys.filter(|key| topic_ids.contains(&key.topic_id));
        self.scans.deleted.extend(keys.cloned());
        self.timers.round_in(0);
    }

    /// A tombstone that cannot be written is tried again in the next round.
    fn remove_some_deleted(&mut self) {
        let deleted = self.scans.deleted.iter().filter(|key| !self.slots.is_busy(key));
        let keys: Vec<ShareKey> = deleted.take(self.config.round_keys).cloned().collect();
        for key in keys {
            if self.slots.latest(&key).is_some() {
                self.write_own(&key, &Record::Snapshot(key.clone(), None));
            } else {
                self.scans.removed(&key);
            }
        }
    }

    fn scan_some(&mut self, now_ms: i64) {
        let Some(ColdScan { last, rewrites }) = self.scans.cold.take() else { return };
        let keys = self.slots.keys_after(last.as_ref(), self.config.round_keys);
        for key in &keys {
            if !self.slots.is_busy(key) {
                self.visit(key, rewrites, now_ms);
            }
        }
        if keys.len() == self.config.round_keys {
            self.scans.cold = Some(ColdScan { last: keys.last().cloned(), rewrites });
        }
    }

    /// Removes a key that has no topic in two scans: its topic was deleted while no coordinator
    /// served. In a single scan, the announcement of the topic may still be pending.
    fn visit(&mut self, key: &ShareKey, rewrites: bool, now_ms: i64) {
        let is_orphan = self.topics.is_some() && self.partition_count(key.topic_id).is_none();
        if self.slots.mark_orphan(key, is_orphan) {
            self.scans.deleted.insert(key.clone());
            return;
        }
        let age_ms = |share: &Share| now_ms.saturating_sub(share.write_ms);
        let Some(share) = self.slots.latest(key).filter(|_| rewrites && !is_orphan) else { return };
        if age_ms(share) >= self.config.cold_interval_ms {
            let snapshot = share.rewritten(now_ms);
            self.write_own(key, &Record::Snapshot(key.clone(), Some(snapshot)));
        }
    }

    /// Writes a record that no request waits for.
    fn write_own(&mut self, key: &ShareKey, record: &Record) {
        if self.write(key, record).is_ok() {
            self.flush_if_large();
        }
    }
}
