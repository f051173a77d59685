//! Partitions of topics with remote storage, where the broker has none. Their directories hold only
//! the later part of a log: with the leader epochs and the log start that the part alone would
//! have, Kafka's brokers would delete the remote part. The broker does not open these logs, keeps
//! their checkpoints, and reports the replicas as lost.

use std::collections::BTreeSet;

use levada_log::{Tiering, Writer};

use crate::replica::last_shutdown::PartitionAtShutdown;
use crate::replica::opening::Missing;
use crate::replica::{Partition, Replicas, TopicPartition};

impl Partition {
    /// Raises the start of a log without a remote part to its first segment.
    pub(super) fn end_tiers(&self, writer: &mut Writer) {
        let log = writer.partition().clone();
        let (log_start, local_start) = (log.log_start(), log.local_log_start());
        if writer.config().tiering != Tiering::Local || local_start == log_start {
            return;
        }
        match writer.advance_log_start(local_start) {
            Ok(_) => tracing::info!(
                partition = self.name(),
                log_start = local_start,
                "the log no longer has a remote part"
            ),
            Err(error) => {
                tracing::error!(partition = self.name(), %error, "cannot move the start of a log to its first segment");
            }
        }
    }
}

impl Replicas {
    /// Separates the partitions of topics with remote storage from those that are to be opened.
    pub(crate) fn set_tiered_aside(
        &self,
        missing: &mut Vec<Missing>,
        left: impl Fn(&TopicPartition) -> PartitionAtShutdown,
    ) {
        let mut topics = BTreeSet::new();
        for one in missing.extract_if(.., |one| one.is_tiered) {
            let key = one.key();
            let left = left(&key);
            if self.unopened.lock().refuse(&key, left) {
                topics.insert(key.0);
            }
        }
        topics.iter().for_each(|topic| tell(topic));
    }

    /// Removes a served partition from service whose topic now has remote storage.
    pub(crate) fn close_tiered(&self, partition: &Partition) {
        self.abandon(partition);
        let left = PartitionAtShutdown::of(partition.log());
        self.unopened.lock().refuse(&partition.key(), left);
    }
}

/// Logs that a topic is not served here.
pub(crate) fn tell(topic: &str) {
    tracing::error!(
        topic,
        "the topic has remote storage (remote.storage.enable=true), and remote.log.storage.system.enable is off: the \
         broker does not open its partitions, and leaves their files as they are. Set \
         remote.log.storage.system.enable=true and the store, or let brokers that have them have its replicas: \
         turning remote.storage.enable off deletes the remote records"
    );
}
