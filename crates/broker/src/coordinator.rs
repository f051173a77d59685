//! The coordinators of groups, of transactions and of the states of share groups: one for each
//! partition of their topics, for as long as the partition exists.
//!
//! `host` drives a state machine: that of [`group`], of [`txn`] or of [`share_state`]. `slots` is
//! the table of the coordinators of one topic and their clock, `replay` reads the logs that they
//! keep their state in, `announcements` sends metadata to coordinators, `matches` compares their
//! regular expressions with the names of topics, `prunes` deletes records of share states that are
//! no longer needed.

use std::sync::Arc;

use levada_coordination::group::{self, Event, GoneTopic, OwnSettings};
use levada_coordination::{share_state, txn};
use levada_metadata::image::Image;

use crate::live_config::LiveConfig;
use crate::replica::{OFFSETS_TOPIC, Partition, SHARE_STATES_TOPIC, TRANSACTIONS_TOPIC, TopicPartition};

mod announcements;
mod host;
mod matches;
mod prunes;
mod replay;
mod settings;
mod slots;

use self::announcements::Announcements;
use self::host::{Host, Terms};
pub(crate) use self::host::{Job, Load};
pub(crate) use self::matches::compare_names;

/// All coordinators of this broker.
pub(crate) struct Coordinators {
    config: Arc<LiveConfig>,
    groups: Host<group::Coordinator>,
    txns: Host<txn::Coordinator>,
    share_states: Host<share_state::Coordinator>,
    announcements: Announcements,
}

/// The topics of the coordinators.
const TOPICS: [&str; 3] = [OFFSETS_TOPIC, TRANSACTIONS_TOPIC, SHARE_STATES_TOPIC];

impl Coordinators {
    /// Coordinators without partitions; each partition of their topics adds one.
    pub(crate) fn new(config: Arc<LiveConfig>) -> Self {
        let loaded = config.load();
        let groups = Host::new(settings::group_config(&loaded));
        let txns = Host::new(settings::txn_config(&loaded));
        let share_states = Host::new(settings::share_state_config(&loaded));
        drop(loaded);
        Self { config, groups, txns, share_states, announcements: Announcements::new() }
    }

    /// The group coordinators.
    pub(crate) fn groups(&self) -> &Host<group::Coordinator> {
        &self.groups
    }

    /// The transaction coordinators.
    pub(crate) fn txns(&self) -> &Host<txn::Coordinator> {
        &self.txns
    }

    /// The coordinators of the states of share groups.
    pub(crate) fn share_states(&self) -> &Host<share_state::Coordinator> {
        &self.share_states
    }

    /// Coordinators of the given internal topic.
    fn of(&self, topic: &str) -> Option<&dyn Terms> {
        match topic {
            OFFSETS_TOPIC => Some(&self.groups),
            TRANSACTIONS_TOPIC => Some(&self.txns),
            SHARE_STATES_TOPIC => Some(&self.share_states),
            _ => None,
        }
    }

    /// Ensures that each partition of the coordinators' topics in the image has a coordinator,
    /// before any of them is opened, as part of the change of metadata that creates the topics.
    pub(crate) fn provide(&self, image: &Image) {
        let config = self.config.load();
        for topic in TOPICS {
            let Some(coordinators) = self.of(topic) else { continue };
            let count = image.topic(topic).map_or(0, |topic| topic.partition_count());
            let before = coordinators.provide(count);
            let (key, configured) = match topic {
                OFFSETS_TOPIC => ("offsets.topic.num.partitions", config.offsets.topic_partitions),
                TRANSACTIONS_TOPIC => {
                    ("transaction.state.log.num.partitions", config.transactions.topic_partitions)
                }
                _ => ("share.coordinator.state.topic.num.partitions", config.share_states.topic_partitions),
            };
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

    /// Notifies coordinators of topics that were created, deleted or extended. `latest` is called
    /// in the order of the changes.
    pub(crate) fn topics_changed(&self, latest: impl FnOnce() -> Arc<Image>) {
        self.announcements.topics((&self.groups, &self.share_states), latest);
    }

    /// Passes the settings of single groups to group coordinators.
    pub(crate) fn own_settings_changed(&self, latest: OwnSettings) {
        self.announcements.own_settings(&self.groups, latest);
    }

    /// Notifies coordinators of deleted topics: committed offsets of the topics and states of their
    /// partitions are deleted.
    pub(crate) fn topics_deleted(&self, topics: &[GoneTopic]) {
        self.groups.step_all_loaded(|| Event::TopicsDeleted(topics.to_vec()));
        let ids: Vec<_> = topics.iter().map(|topic| topic.topic_id).collect();
        self.share_states.step_all_loaded(|| share_state::Event::TopicsDeleted(ids.clone()));
    }

    /// Begins a term of the coordinator of this partition, if it has one: the coordinator is
    /// loading until the returned load ends. This broker leads the partition. Not at the same time
    /// as a change of leadership.
    pub(crate) fn begin(&self, partition: &Arc<Partition>) -> Option<Load> {
        let index = partition.index();
        let repeat = || match partition.topic() {
            OFFSETS_TOPIC => self.announcements.repeat_to_group(&self.groups, index),
            SHARE_STATES_TOPIC => self.announcements.repeat_to_share_state(&self.share_states, index),
            _ => {}
        };
        self.of(partition.topic())?.begin(partition, &repeat)
    }

    /// Ends the term of the coordinator of this partition, if its leadership is over, and begins a
    /// new term if this broker leads: see [`Coordinators::begin`].
    pub(crate) fn follow(&self, partition: &Arc<Partition>) -> Option<Load> {
        let coordinators = self.of(partition.topic())?;
        if !coordinators.is_outdated(partition) {
            return None;
        }
        coordinators.resign_at(partition.index());
        partition.leadership().is_leader().then(|| self.begin(partition)).flatten()
    }

    /// Ends the term of the coordinator of this partition, if it has one.
    pub(crate) fn resign_at(&self, topic: &str, index: i32) {
        if let Some(coordinators) = self.of(topic) {
            coordinators.resign_at(index);
        }
    }

    /// Logs one line for each kind of coordinator of which some have resigned since the last call.
    pub(crate) fn tell_resigned(&self) {
        TOPICS.iter().filter_map(|topic| self.of(topic)).for_each(|kind| kind.tell_resigned());
    }

    /// Marks the coordinator as loading until the log of its partition has been checked.
    pub(crate) fn expect(&self, (topic, index): &TopicPartition) {
        if let Some(coordinators) = self.of(topic) {
            coordinators.expect(*index);
        }
    }

    /// Records that the partition cannot be opened: its coordinator is not available until it can.
    pub(crate) fn give_up(&self, (topic, index): &TopicPartition) {
        if let Some(coordinators) = self.of(topic) {
            coordinators.give_up(*index);
        }
    }

    /// Removes the coordinators of a deleted topic.
    pub(crate) fn resign(&self, topic: &str) {
        if let Some(coordinators) = self.of(topic) {
            coordinators.resign();
        }
    }

    /// Completes all waiting requests; nothing is served afterwards.
    pub(crate) fn unload(&self) {
        TOPICS.iter().filter_map(|topic| self.of(topic)).for_each(Terms::unload);
    }
}

#[cfg(test)]
mod tests;
