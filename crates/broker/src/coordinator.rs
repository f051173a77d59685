//! The coordinators of groups and transactions: one for each partition of their topics, for as long
//! as the partition exists.
//!
//! `host` drives a state machine: that of [`group`], or that of
//! [`txn`]. `slots` is the table of the coordinators of one topic and
//! their clock, `replay` reads the logs that they keep their state in, `announcements` sends
//! metadata to group coordinators, `matches` compares their regular expressions with the names of
//! topics.

use std::sync::Arc;

use levada_coordination::group::{self, Event, GoneTopic, OwnSettings};
use levada_coordination::txn;
use levada_metadata::image::Image;

use crate::live_config::LiveConfig;
use crate::replica::{OFFSETS_TOPIC, Partition, TRANSACTIONS_TOPIC, TopicPartition};

mod announcements;
mod host;
mod matches;
mod replay;
mod settings;
mod slots;

use self::announcements::Announcements;
use self::host::Host;
pub(crate) use self::host::{Job, Load};

/// All coordinators of this broker.
pub(crate) struct Coordinators {
    config: Arc<LiveConfig>,
    groups: Host<group::Coordinator>,
    txns: Host<txn::Coordinator>,
    announcements: Announcements,
}

impl Coordinators {
    /// No coordinators: there are as many as their topics have partitions.
    pub(crate) fn new(config: Arc<LiveConfig>) -> Self {
        let (groups, txns) = {
            let config = config.load();
            (Host::new(settings::group_config(&config)), Host::new(settings::txn_config(&config)))
        };
        Self { config, groups, txns, announcements: Announcements::new() }
    }

    /// The group coordinators.
    pub(crate) fn groups(&self) -> &Host<group::Coordinator> {
        &self.groups
    }

    /// The transaction coordinators.
    pub(crate) fn txns(&self) -> &Host<txn::Coordinator> {
        &self.txns
    }

    /// Sees to it that each partition that `__consumer_offsets` and `__transaction_state` have by
    /// the image has a coordinator. Before any of them is opened, and as part of the change of
    /// metadata that makes them.
    pub(crate) fn provide(&self, image: &Image) {
        let count = |topic| image.topic(topic).map_or(0, |topic| topic.partition_count());
        let (offsets, states) = (count(OFFSETS_TOPIC), count(TRANSACTIONS_TOPIC));
        let config = self.config.load();
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
                    "the topic keeps its number of partitions; {key} applies only when the topic is created"
                );
            }
            if (1..count).contains(&before) {
                tracing::warn!(
                    topic,
                    before,
                    partitions = count,
                    "the topic has grown: groups or transactional ids that now belong to another partition lose their state"
                );
            }
        }
    }

    /// Notifies group coordinators of topics that were created, deleted or extended. `latest` is
    /// called in the order of the changes.
    pub(crate) fn topics_changed(&self, latest: impl FnOnce() -> Arc<Image>) {
        self.announcements.topics(&self.groups, latest);
    }

    /// Passes the settings of single groups to group coordinators.
    pub(crate) fn own_settings_changed(&self, latest: OwnSettings) {
        self.announcements.own_settings(&self.groups, latest);
    }

    /// Notifies group coordinators of deleted topics, and deletes the offsets of the topics.
    pub(crate) fn topics_deleted(&self, topics: &[GoneTopic]) {
        self.groups.step_all_loaded(|| Event::TopicsDeleted(topics.to_vec()));
    }

    /// Begins a term of the coordinator of this partition, if it has one: the coordinator is
    /// loading until the returned load ends. This broker leads the partition. Not at the same time
    /// as a change of leadership.
    pub(crate) fn begin(&self, partition: &Arc<Partition>) -> Option<Load> {
        let repeat = || self.announcements.repeat(&self.groups, partition.index());
        match partition.topic() {
            OFFSETS_TOPIC => self.groups.begin(partition, repeat),
            TRANSACTIONS_TOPIC => self.txns.begin(partition, || {}),
            _ => None,
        }
    }

    /// Ends the term of the coordinator of this partition, if its leadership is over, and begins a
    /// new term if this broker leads: see [`Coordinators::begin`].
    pub(crate) fn follow(&self, partition: &Arc<Partition>) -> Option<Load> {
        let is_outdated = match partition.topic() {
            OFFSETS_TOPIC => self.groups.is_outdated(partition),
            TRANSACTIONS_TOPIC => self.txns.is_outdated(partition),
            _ => false,
        };
        if is_outdated {
            self.resign_at(partition.topic(), partition.index());
        }
        (is_outdated && partition.leadership().is_leader()).then(|| self.begin(partition)).flatten()
    }

    /// Ends the term of the coordinator of this partition, if it has one.
    pub(crate) fn resign_at(&self, topic: &str, index: i32) {
        match topic {
            OFFSETS_TOPIC => self.groups.resign_at(index),
            TRANSACTIONS_TOPIC => self.txns.resign_at(index),
            _ => {}
        }
    }

    /// The log of this partition is checked before its coordinator answers; until then it is
    /// loading.
    pub(crate) fn expect(&self, (topic, index): &TopicPartition) {
        match topic.as_str() {
            OFFSETS_TOPIC => self.groups.expect(*index),
            TRANSACTIONS_TOPIC => self.txns.expect(*index),
            _ => {}
        }
    }

    /// This partition cannot be opened: its coordinator is not available until it can.
    pub(crate) fn give_up(&self, (topic, index): &TopicPartition) {
        match topic.as_str() {
            OFFSETS_TOPIC => self.groups.give_up(*index),
            TRANSACTIONS_TOPIC => self.txns.give_up(*index),
            _ => {}
        }
    }

    /// The topic is deleted, and with it go its coordinators.
    pub(crate) fn resign(&self, topic: &str) {
        match topic {
            OFFSETS_TOPIC => self.groups.resign(),
            TRANSACTIONS_TOPIC => self.txns.resign(),
            _ => {}
        }
    }

    /// Answers all requests that wait; nothing is served afterwards.
    pub(crate) fn unload(&self) {
        self.groups.unload();
        self.txns.unload();
    }
}
