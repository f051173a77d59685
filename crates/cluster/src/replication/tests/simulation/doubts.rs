//! Replicas that lack records which they have had, as the broker treats them.

use levada_log::OpenReport;
use levada_wire::Uuid;
use levada_wire::fetch::FetchPartition;

use super::controller::{DIRECTORY, LOST};
use super::mutation::Mutation;
use super::node::Role;
use super::roles::{log_end, standings};
use super::world::Sim;
use crate::directories::ReplicaKey;
use crate::replication::follower::LogEnd;
use crate::replication::recount::{Recount, ReplicaEnd, Verdict};

impl Sim {
    /// Notes the losses of an opened log: if it lacks records, the replica does not lead, and its
    /// checkpoints stay.
    pub(super) fn note_losses(&mut self, id: i32, report: &OpenReport) {
        let leads_anyway = self.is_mutated(Mutation::LeadsWithLosses);
        let Some(shortfall) = report.shortfall.filter(|_| !leads_anyway) else { return };
        let node = self.node(id);
        // The opening may have removed what was evidence.
        node.checkpoint.recovery_point = node.checkpoint.recovery_point.max(shortfall.claimed);
        let process = node.process.as_mut().expect("a process has opened the log");
        let flushed = process.log.as_mut().map(|log| log.flush());
        flushed.expect("it was opened").expect("nothing lets a sync fail");
        (process.doubt, process.keeps_claims) = (Some(Recount::default()), true);
        self.figures.doubts += 1;
        self.note(|| format!("node {id}: {shortfall}"));
    }

    /// Ends a doubt with new metadata in which the replica is in sync, and reports the directory.
    pub(super) fn review_doubt(&mut self, id: i32, key: ReplicaKey, was_lost: bool) {
        let process = self.node(id).process.as_mut().expect("the caller has looked");
        let Some(image) = process.image.clone() else { return };
        let partition = &image.partition;
        let is_led_elsewhere = partition.leader >= 0 && partition.leader != id;
        if is_led_elsewhere && partition.isr.contains(&id) {
            process.doubt = None;
        }
        let others = if partition.leader == id {
            partition.isr.len() > 1
        } else {
            is_led_elsewhere || image.has_eligible_other(id)
        };
        let is_lost = image.lost.contains(&id);
        let yields = process.doubt.is_some() && image.is_complete(id) && others;
        if yields != is_lost {
            process.directories.assign(key, if yields { LOST } else { DIRECTORY });
        } else if was_lost && !is_lost && partition.leader == -1 {
            // The controller has elected by the directory of before.
            process.directories.assign(key, DIRECTORY);
        }
    }

    /// Processes the refusal of a fetch because its leader does not lead.
    pub(super) fn hear(&mut self, id: i32, (from, broker_epoch): (i32, i64), asked: &FetchPartition) {
        let process = self.node(id).process.as_mut().expect("the caller has looked");
        let Some(recount) = &mut process.doubt else { return };
        let end = LogEnd { offset: asked.fetch_offset, epoch: asked.last_fetched_epoch };
        let leader_epoch = asked.current_leader_epoch;
        recount.heard(ReplicaEnd { replica: from, broker_epoch, leader_epoch, end });
    }

    /// Decides who leads a partition whose elected leader lacks records.
    pub(super) fn settle_doubt(&mut self, id: i32, topic: Uuid) -> Result<(), String> {
        let node = self.node(id);
        let Some(process) = node.process.as_mut().filter(|process| !process.is_broken) else { return Ok(()) };
        let (Some(recount), Some(image), Some(log)) = (&process.doubt, &process.image, &process.log) else {
            return Ok(());
        };
        if image.partition.leader != id
            || image.partition.isr.len() > 1
            || !matches!(process.role, Role::Idle)
        {
            return Ok(());
        }
        let own = log_end(log.partition());
        let verdict = recount.verdict((id, own), &image.partition.led(), &standings(image));
        match verdict {
            Verdict::Wait(_) => Ok(()),
            Verdict::Yield(replica, change) => {
                process.isr.submit(ReplicaKey::new(topic, 0), change);
                self.figures.handovers += 1;
                self.note(|| format!("node {id} leaves the leadership to {replica}"));
                Ok(())
            }
            Verdict::Lead => {
                process.doubt = None;
                node.drop_claims();
                self.note(|| format!("node {id} leads with losses"));
                self.lead(id)
            }
        }
    }
}
