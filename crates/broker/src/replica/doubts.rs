//! Replicas that lack records: which of them leads, and the log lines about it.

use levada_cluster::directories::ReplicaKey;
use levada_cluster::replication::recount::Verdict;
use levada_log::{Evidence, OpenReport, Shortfall};
use levada_process::clock::now_ms;

use crate::replica::last_shutdown::PartitionAtShutdown;
use crate::replica::partition::Doubt;
use crate::replica::{Partition, PartitionIdentity, Replicas};

impl Replicas {
    /// Logs the losses of an opened log. `claims` contains the offsets of its checkpoints, and the
    /// flag is true if the log's whole directory is missing. Returns the doubt about a replica
    /// whose records another one may have.
    pub(super) fn note_losses(
        &self,
        identity: &PartitionIdentity,
        report: &OpenReport,
        (claims, is_missing): (PartitionAtShutdown, bool),
    ) -> Option<Doubt> {
        let partition = format!("{}-{}", identity.topic, identity.index);
        if !report.gaps.is_empty() {
            self.gaps.lock().insert((identity.topic_id, identity.index), report.gaps.clone());
        }
        let claimed = claims.recovery_point.max(claims.high_watermark).max(claims.log_start);
        let without_directory = Shortfall { end: 0, claimed, evidence: Evidence::RecoveryPoint };
        let shortfall = if is_missing { Some(without_directory) } else { report.shortfall };
        let Some(shortfall) = shortfall else {
            if let Some(cut) = &report.cut {
                tracing::warn!(%partition, ?cut, "truncated a torn batch at the end of the log");
            }
            return None;
        };
        let cut = report.cut.as_ref();
        let is_other =
            |replica: &i32| *replica != self.node_id && self.replication.broker_standing(*replica).is_some();
        if identity.leadership.replicas().iter().any(is_other) {
            tracing::error!(
                %partition,
                lacks = %shortfall,
                ?cut,
                "the log of a replica lacks records: its files are damaged or missing, or were not on the device when the \
                 machine stopped. The replica does not lead until it is in sync again, or no other replica has more; \
                 check the disk"
            );
            return Some(Doubt::new(shortfall, claims));
        }
        tracing::error!(
            %partition,
            lost = %shortfall,
            ?cut,
            "records of the log are lost: its files are damaged or missing, or were not on the device when the machine \
             stopped. Check the disk; to recover the records, stop the broker and restore the files of the partition \
             from a backup"
        );
        self.losses.lock().insert((identity.topic_id, identity.index), shortfall);
        None
    }

    /// Partitions whose logs lack records or segments, and those of topics with remote storage,
    /// each with a text.
    pub(crate) fn warnings(&self) -> Vec<String> {
        let in_doubt = self.partitions.all().into_iter().filter_map(|partition| {
            let shortfall = partition.shortfall()?;
            Some(format!("the log of {} lacks records: {shortfall}", partition.name()))
        });
        let losses = self.losses.lock().clone();
        let lost = losses.into_iter().filter_map(|((topic_id, index), shortfall)| {
            let partition = self.partitions.by_id(topic_id, index)?;
            Some(format!("records of {} are lost: {shortfall}", partition.name()))
        });
        let gaps = self.gaps.lock().clone();
        let gaps = gaps.into_iter().filter_map(|((topic_id, index), bases)| {
            let partition = self.partitions.by_id(topic_id, index)?;
            Some(format!("{} lacks the segments that begin at offsets {bases:?}", partition.name()))
        });
        let unopened = self.unopened.lock().clone();
        let tiered = unopened.tiered().map(|(topic, index)| {
            format!("{topic}-{index} is not served: its topic has remote storage, and remote.log.storage.system.enable is off")
        });
        in_doubt.chain(lost).chain(gaps).chain(tiered).collect()
    }

    /// Compares the replicas of the partitions that this node is to lead with a log that lacks
    /// records. True if this node is to lead some of them after all. Blocks.
    pub(crate) fn settle_doubts(&self) -> bool {
        let in_doubt = self.partitions.find(Partition::is_in_doubt);
        let mut leads = false;
        for partition in &in_doubt {
            // A replica that is reported as lost may be in doubt as well, and have more records.
            let standings = |broker| self.replication.broker_standing(broker);
            let Some(verdict) = partition.recount(self.node_id, &standings) else { continue };
            let (name, shortfall) = (partition.name(), partition.shortfall());
            let lacks = shortfall.map(|shortfall| shortfall.to_string()).unwrap_or_default();
            match verdict {
                Verdict::Wait(brokers) if partition.take_replication_warning(now_ms()) => tracing::error!(
                    partition = name,
                    lacks,
                    ?brokers,
                    "the log of the elected leader lacks records: no broker leads the partition until these brokers \
                     have reported the ends of their logs. Start them; unregister a broker that is permanently lost"
                ),
                Verdict::Wait(_) => {}
                Verdict::Yield(replica, change) => {
                    tracing::warn!(
                        partition = name,
                        lacks,
                        leader = replica,
                        "the log of the elected leader lacks records that another replica has: that replica is to lead"
                    );
                    let key = ReplicaKey::new(partition.topic_id(), partition.index());
                    self.replication.submit(key, change);
                }
                Verdict::Lead => {
                    tracing::error!(
                        partition = name,
                        lacks,
                        "records are lost: no replica of a registered broker has more, and this one leads"
                    );
                    partition.accept_loss();
                    self.checkpoints.store();
                    leads = true;
                }
            }
        }
        // The controllers may have a former report of the directory.
        let keys: Vec<_> = in_doubt.iter().map(|partition| partition.key()).collect();
        self.dirs.note_placed(&keys);
        leads
    }
}
