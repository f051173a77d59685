//! A replica that has lost records which it had promised, and that the metadata has as the leader:
//! it compares the ends of all replicas before any of them truncates its log to this one.
//!
//! Followers fetch from the leader that the metadata names, and each fetch names the end of the
//! follower's log. The driver refuses these fetches, and passes their positions to
//! [`Recount::heard`]. Once every replica was heard, [`Recount::verdict`] is either that this
//! replica has the most records, and leads, or a change of the ISR that makes another replica
//! eligible. The driver then reports its own replica as lost, so that the controller elects the
//! other one.

use std::collections::BTreeMap;

use super::follower::LogEnd;
use super::leader::{IsrChange, LedRegistration, NO_BROKER_EPOCH, Standings};

#[cfg(test)]
mod tests;

/// End of another replica's log, from its fetch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReplicaEnd {
    /// Broker id of the replica.
    pub replica: i32,
    /// Broker epoch of the replica; [`NO_BROKER_EPOCH`] if the fetch has none.
    pub broker_epoch: i64,
    /// Leader epoch of the fetch.
    pub leader_epoch: i32,
    /// Log end offset of the replica and its leader epoch.
    pub end: LogEnd,
}

/// Result of the comparison.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Replicas of these registered brokers have not fetched yet, or cannot join the ISR.
    Wait(Vec<i32>),
    /// No other replica has more records: this broker leads.
    Lead,
    /// This replica has more records, and the controller has to commit it as one of the ISR.
    Yield(i32, IsrChange),
}

/// The ends of the other replicas, as of their last fetches.
#[derive(Clone, Debug, Default)]
pub struct Recount {
    heard: BTreeMap<i32, ReplicaEnd>,
}

impl Recount {
    /// Processes the position of a follower from a fetch that is refused.
    pub fn heard(&mut self, found: ReplicaEnd) {
        self.heard.insert(found.replica, found);
    }

    /// Compares this broker's log, which ends at `own`, with the others. Brokers that are not
    /// registered are ignored: an operator unregisters a broker that does not return.
    pub fn verdict(
        &self,
        (node_id, own): (i32, LogEnd),
        registered: &LedRegistration,
        standings: Standings<'_>,
    ) -> Verdict {
        let mut missing = Vec::new();
        let mut most: Option<(&ReplicaEnd, bool)> = None;
        let end = |of: &LogEnd| (of.epoch, of.offset);
        for replica in registered.replicas.iter().copied().filter(|replica| *replica != node_id) {
            let Some(standing) = standings(replica) else { continue };
            let is_current = |found: &&ReplicaEnd| {
                let is_same_process = [standing.epoch, NO_BROKER_EPOCH].contains(&found.broker_epoch);
                is_same_process && found.leader_epoch == registered.leader_epoch
            };
            let Some(found) = self.heard.get(&replica).filter(is_current) else {
                missing.push(replica);
                continue;
            };
            if most.is_none_or(|(largest, _)| end(&found.end) > end(&largest.end)) {
                most = Some((found, !standing.is_fenced && !standing.is_stopping));
            }
        }
        if !missing.is_empty() {
            return Verdict::Wait(missing);
        }
        match most {
            Some((found, can_join)) if end(&found.end) > end(&own) => {
                if !can_join {
                    return Verdict::Wait(vec![found.replica]);
                }
                let change = IsrChange {
                    // A leader's machine begins with the next one.
                    number: u64::from(registered.leader_epoch.unsigned_abs()) << 32,
                    leader_epoch: registered.leader_epoch,
                    partition_epoch: registered.partition_epoch,
                    isr: vec![(node_id, NO_BROKER_EPOCH), (found.replica, found.broker_epoch)],
                };
                Verdict::Yield(found.replica, change)
            }
            _ => Verdict::Lead,
        }
    }
}
