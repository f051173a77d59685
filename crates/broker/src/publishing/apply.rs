//! Applies the changes from one image to the next, and publishes the next image.
//!
//! The order for each image is: stop deleted topics and rename their directories, apply
//! configuration and quotas, change leaders of partitions, open new partitions, publish the image.
//! After that, without a lock, [`Publisher::finish`] tells group coordinators about changed topics
//! and removes the directories of deleted topics. One image is applied at a time.

use std::path::PathBuf;

use levada_log::LogError;
use levada_wire::Uuid;

use crate::metadata::image::Image;
use crate::publishing::Publisher;
use crate::publishing::diff::{Change, DeletedTopic, diff};
use crate::replica::Leadership;

/// The rest of a publication, for [`Publisher::finish`].
#[derive(Default)]
#[must_use = "deleted topics leave their directories, and coordinators are not told of topics"]
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
        let node_id = self.config.load().node_id;
        self.metadata.replace(next, |before| {
            let mut aftermath = Aftermath::default();
            diff(before, next, node_id)
                .into_iter()
                .for_each(|change| self.apply(change, next, &mut aftermath));
            aftermath
        })
    }

    /// Does what remains after a publication. The error is the first partition's that could not be
    /// opened; housekeeping tries again.
    pub(crate) fn finish(&self, aftermath: Aftermath) -> Result<(), LogError> {
        let Aftermath { has_topics_changed, doomed, failure } = aftermath;
        if has_topics_changed {
            self.coordinators.topics_changed(|| self.metadata.image());
        }
        doomed.iter().for_each(|dir| self.replicas.remove_directory(dir));
        failure.map_or(Ok(()), Err)
    }

    /// Acts on one change of those that lead to `image`.
    pub(super) fn apply(&self, change: Change, image: &Image, aftermath: &mut Aftermath) {
        match change {
            Change::Delete(topics) => aftermath.doomed = self.drop_topics(&topics),
            Change::BrokerConfig => {
                self.apply_broker_config(image);
                image.topics().iter().for_each(|topic| self.apply_topic_config(image, topic));
            }
            Change::GroupConfigs => self.apply_group_configs(image),
            Change::Quotas => self.quotas.set_limits(image.quotas()),
            Change::Lead(partitions) => {
                partitions.iter().for_each(|(id, index)| self.apply_leadership(image, *id, *index));
            }
            Change::Serve(topics) => {
                let served = self.serve_missing(image, topics.into_iter());
                aftermath.failure = served.err();
            }
            Change::TopicConfigs(topics) => {
                let topics = topics.iter().filter_map(|id| image.topic_by_id(*id));
                topics.for_each(|topic| self.apply_topic_config(image, topic));
            }
            Change::Topics => aftermath.has_topics_changed = true,
        }
    }

    /// Has a partition that is served take the leadership that it has in the image.
    fn apply_leadership(&self, image: &Image, topic: Uuid, index: i32) {
        let partition = self.replicas.partitions().by_id(topic, index);
        let registered = image.topic_by_id(topic).and_then(|topic| topic.partition(index));
        if let (Some(partition), Some(registered)) = (partition, registered) {
            partition.lead(Leadership::of(registered, self.config.load().node_id));
        }
    }

    /// Takes topics that the metadata no longer has out of service, and returns their directories
    /// for removal.
    fn drop_topics(&self, topics: &[DeletedTopic]) -> Vec<PathBuf> {
        let doomed: Vec<PathBuf> = topics.iter().flat_map(|topic| self.drop_topic(topic)).collect();
        // Or a crash would have a new topic of the same name begin where the old one did, and trust
        // it as far.
        if !doomed.is_empty() {
            self.replicas.store_checkpoints();
        }
        doomed
    }
}
