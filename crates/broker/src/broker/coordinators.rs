//! The coordinators of groups and transactions as the broker has them: as many as their topics have partitions, there as long as the
//! partitions are.

use std::sync::Arc;

use crate::broker::Broker;
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::image::Image;
use crate::partition::{Key, OFFSETS_TOPIC, TRANSACTIONS_TOPIC};

impl Broker {
    /// Sees to it that `__consumer_offsets` or `__transaction_state` exists. Some of its partitions may be offline nevertheless.
    pub(crate) async fn ensure_internal_topic(self: &Arc<Self>, topic: &str) -> Result<(), Failure> {
        let exists = || self.metadata.image().topic(topic).is_some();
        if !exists() {
            self.auto_create(vec![topic.to_owned()]).await;
        }
        if exists() { Ok(()) } else { Err(ErrorCode::CoordinatorNotAvailable.into()) }
    }

    /// Whether the coordinator that lives in this partition serves, or will as soon as its log is checked.
    pub(crate) fn has_coordinator(&self, topic: &str, index: i32) -> bool {
        let partition = self.partitions.by_name(topic, index);
        partition.map_or_else(|| self.is_recovering(topic, index), |partition| !partition.log().is_offline())
    }

    /// Sees to it that each partition that `__consumer_offsets` and `__transaction_state` have by the image has a coordinator. Before any of
    /// them is opened, and as part of the change of metadata that makes them.
    pub(super) fn provide_coordinators(&self, image: &Image) {
        let count = |topic| image.topic(topic).map_or(0, |topic| topic.partition_count());
        let (offsets, states) = (count(OFFSETS_TOPIC), count(TRANSACTIONS_TOPIC));
        let config = self.config();
        let (groups, txns) = (config.offsets.topic_partitions, config.transactions.topic_partitions);
        for (topic, before, count, key, configured) in [
            (OFFSETS_TOPIC, self.groups.provide(offsets), offsets, "offsets.topic.num.partitions", groups),
            (
                TRANSACTIONS_TOPIC,
                self.txns.provide(states),
                states,
                "transaction.state.log.num.partitions",
                txns,
            ),
        ] {
            if before < count && i32::try_from(count) != Ok(configured) {
                tracing::warn!(
                    topic,
                    partitions = count,
                    configured,
                    "the topic's number of partitions is in force; {key} holds only when the topic is created"
                );
            }
            if (1..count).contains(&before) {
                tracing::warn!(
                    topic,
                    before,
                    partitions = count,
                    "the topic has grown: groups or transactional ids that now belong to another partition begin anew"
                );
            }
        }
    }

    /// The log of this partition is checked before its coordinator answers; until then it is loading.
    pub(super) fn expect_coordinator(&self, (topic, index): &Key) {
        match topic.as_str() {
            OFFSETS_TOPIC => self.groups.expect(*index),
            TRANSACTIONS_TOPIC => self.txns.expect(*index),
            _ => {}
        }
    }

    /// This partition cannot be opened: its coordinator is not available until it can.
    pub(super) fn give_coordinator_up(&self, (topic, index): &Key) {
        match topic.as_str() {
            OFFSETS_TOPIC => self.groups.give_up(*index),
            TRANSACTIONS_TOPIC => self.txns.give_up(*index),
            _ => {}
        }
    }

    /// The topic is deleted, and with it go its coordinators.
    pub(super) fn resign_coordinators(&self, topic: &str) {
        match topic {
            OFFSETS_TOPIC => self.groups.resign(),
            TRANSACTIONS_TOPIC => self.txns.resign(),
            _ => {}
        }
    }
}
