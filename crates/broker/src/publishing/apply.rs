//! Applies the changes from one image to the next, and publishes the next image.
//!
//! The order for each image is: stop deleted topics and removed replicas and rename their
//! directories, apply configuration and quotas, change leaders of partitions, open new partitions,
//! publish the image. After that, without a lock, [`Publisher::finish`] notifies group coordinators
//! of changed topics and removes the directories of stopped replicas. One image is applied at a
//! time.
//!
//! An image that other brokers have as well is published before it is applied: clients come with
//! it.

use std::path::PathBuf;
use std::sync::Arc;

use levada_log::LogError;
use levada_metadata::image::Image;
use levada_process::clock::uptime_ms;
use levada_wire::Uuid;
use tokio::runtime::Handle;

use crate::coordinator::Load;
use crate::publishing::Publisher;
use crate::publishing::diff::{Change, DeletedTopic, diff};
use crate::publishing::levels;
use crate::publishing::roles::Roles;
use crate::replica::{Leadership, Partition};
use crate::share_partitions::{are_dead_letters_permitted, are_permitted};

/// The rest of a publication, for [`Publisher::finish`].
#[derive(Default)]
#[must_use = "what was stopped leaves its directories, and coordinators are not told of topics"]
pub(crate) struct Aftermath {
    has_topics_changed: bool,
    doomed: Vec<PathBuf>,
    failure: Option<LogError>,
}

impl Publisher {
    /// Acts on the differences between the published image and the next one, and publishes that.
    /// Blocks.
    ///
    /// # Panics
    /// If the next image is older than the published one.
    pub(crate) fn publish(&self, next: &Image) -> Aftermath {
        self.metadata.replace(next, |before| self.apply_all(before, next))
    }

    /// Like [`Publisher::publish`], for an image of a cluster with other brokers: the image is
    /// visible before its effects. Until then clients get NOT_LEADER_OR_FOLLOWER.
    pub(crate) fn publish_shared(&self, next: &Image) -> Aftermath {
        self.metadata.replace_first(next, |before| self.apply_all(before, next))
    }

    fn apply_all(&self, before: &Image, next: &Image) -> Aftermath {
        let mut aftermath = Aftermath::default();
        levels::tell(before.features(), next.features());
        if are_permitted(before) && !are_permitted(next) {
            self.share_partitions.end_everything();
        }
        if are_dead_letters_permitted(before) != are_dead_letters_permitted(next) {
            // Before a partition may load the states of its records.
            self.apply_group_configs(next);
        }
        let changes = diff(before, next, self.config.load().node_id);
        changes.into_iter().for_each(|change| self.apply(change, next, &mut aftermath));
        aftermath
    }

    /// Does the remaining work of a publication. The error is that of the first partition that
    /// could not be opened; housekeeping retries.
    pub(crate) fn finish(&self, aftermath: Aftermath) -> Result<(), LogError> {
        let Aftermath { has_topics_changed, doomed, failure } = aftermath;
        if has_topics_changed {
            self.coordinators.topics_changed(|| self.metadata.image());
        }
        doomed.iter().for_each(|dir| self.replicas.dirs().remove(dir));
        self.coordinators.tell_resigned();
        failure.map_or(Ok(()), Err)
    }

    /// Acts on one change of those that lead to `image`.
    pub(super) fn apply(&self, change: Change, image: &Image, aftermath: &mut Aftermath) {
        match change {
            Change::Delete(topics) => aftermath.doomed.extend(self.drop_topics(&topics)),
            Change::Stop(replicas) => aftermath.doomed.extend(self.stop_replicas(image, &replicas)),
            Change::BrokerConfig => {
                self.apply_broker_config(image);
                self.apply_group_configs(image);
                image.topics().iter().for_each(|topic| self.apply_topic_config(image, topic));
                self.follow_all();
            }
            Change::GroupConfigs => self.apply_group_configs(image),
            Change::ClientMetrics => self.telemetry.configure(image),
            Change::Quotas => self.quotas.set_limits(image.quotas()),
            Change::Lead(partitions) => aftermath.failure = self.apply_leaderships(image, &partitions).err(),
            Change::Serve(topics) => {
                let served = self.serve_missing(image, &topics);
                aftermath.failure = served.err().or(aftermath.failure.take());
            }
            Change::TopicConfigs(topics) => {
                let reviewed = self.review_tiers(image, &topics);
                aftermath.failure = reviewed.err().or(aftermath.failure.take());
                let topics = topics.iter().filter_map(|id| image.topic_by_id(*id));
                topics.for_each(|topic| self.apply_topic_config(image, topic));
            }
            Change::Topics => {
                // Topics of which this node has no replica have coordinators elsewhere, but their
                // number decides which of them is whose.
                self.coordinators.provide(image);
                aftermath.has_topics_changed = true;
            }
        }
    }

    /// Applies the leaderships of the image to partitions. Their coordinators end or begin their
    /// terms; new terms are loaded in the background. Partitions that were out of service may enter
    /// it now.
    fn apply_leaderships(&self, image: &Image, partitions: &[(Uuid, i32)]) -> Result<(), LogError> {
        let (mut unserved, mut to_load, mut roles) = (Vec::new(), Vec::new(), Roles::default());
        for (topic, index) in partitions {
            let Some(topic) = image.topic_by_id(*topic) else { continue };
            let Some(registered) = topic.partition(*index) else { continue };
            let leadership = Leadership::of(registered, self.config.load().node_id);
            let Some(partition) = self.replicas.partitions().by_id(topic.id(), *index) else {
                self.lead_unserved(topic, *index, &leadership);
                unserved.push(topic.id());
                continue;
            };
            let role = partition.leadership();
            partition.lead(leadership);
            self.share_partitions.leadership_changed((topic.id(), *index));
            roles.note(&partition, Some(&role));
            self.follow(&partition);
            to_load.extend(self.coordinators.follow(&partition));
        }
        // Partitions of a broker that is its own controller lose their leader only when it stops.
        if self.fetchers.is_some() {
            roles.tell(&self.role_log);
        }
        self.load_beside(to_load);
        unserved.dedup();
        self.serve_missing(image, &unserved)
    }

    /// Retries to lead the partitions whose leader epoch could not be stored. Blocks.
    pub(crate) fn lead_unstored(&self) {
        let now_ms = uptime_ms();
        let due = |partition: &Arc<Partition>| partition.is_epoch_to_be_stored(now_ms);
        let unstored = self.replicas.partitions().all().into_iter().filter(due);
        let unstored: Vec<(Uuid, i32)> =
            unstored.map(|partition| (partition.topic_id(), partition.index())).collect();
        if !unstored.is_empty() {
            // A failure has its line of the log, and the next round.
            let _ = self.metadata.hold(|image| self.apply_leaderships(image, &unstored));
        }
    }

    /// Loads coordinators one after the other, on a thread that may block; on this one where there
    /// is no runtime.
    pub(super) fn load_beside(&self, loads: Vec<Load>) {
        let load = move || loads.into_iter().for_each(|load| load());
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn_blocking(load)),
            Err(_) => load(),
        }
    }

    /// Takes replicas that have left this node out of service, and returns their directories for
    /// removal. Kafka deletes them too.
    fn stop_replicas(&self, image: &Image, replicas: &[(Uuid, i32)]) -> Vec<PathBuf> {
        let (mut stopped, mut doomed) = (Vec::with_capacity(replicas.len()), Vec::new());
        for (topic, index) in replicas {
            let Some(topic) = image.topic_by_id(*topic) else { continue };
            if let Some(partition) = self.replicas.partitions().by_id(topic.id(), *index) {
                let registered = topic.partition(*index);
                let node_id = self.config.load().node_id;
                registered.into_iter().for_each(|one| partition.lead(Leadership::of(one, node_id)));
                self.coordinators.resign_at(topic.name(), *index);
                stopped.extend(self.replicas.partitions().remove_one(topic.id(), *index));
                self.share_partitions.partition_left((topic.id(), *index));
            } else {
                doomed.extend(self.stop_unserved(topic, *index));
            }
            self.replicas.dirs().forget_if_failed(&(topic.name().to_string(), *index));
        }
        self.unfollow(&stopped);
        doomed.extend(self.replicas.mark_deleted(&stopped));
        // As with a deleted topic: the replica may be assigned again, and then begins empty.
        self.replicas.checkpoints().store();
        doomed
    }

    /// Takes topics that the metadata no longer has out of service, and returns their directories
    /// for removal.
    fn drop_topics(&self, topics: &[DeletedTopic]) -> Vec<PathBuf> {
        let doomed: Vec<PathBuf> = topics.iter().flat_map(|topic| self.drop_topic(topic)).collect();
        // Otherwise, after a crash, a new topic of the same name would start at the old offset, and
        // use the old recovery point.
        self.replicas.checkpoints().store();
        doomed
    }
}
