//! Creating and deleting topics and partitions: the decision goes into the metadata log first, then the partitions enter or leave
//! service.

use std::sync::Arc;

use crate::controller::{Controller, flatten, flatten_keyed, storage_failure};
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::controller::{
    CreatedTopic, DeletedTopic, MorePartitions, NewTopic, Refusal, TopicKey, TopicRules, create_partitions,
    create_topics, delete_topics,
};
use crate::metadata::uuid;
use crate::replica::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};

impl Controller {
    /// Creates topics, each or not at all; results in the order of `topics`.
    pub(crate) async fn create_topics(
        self: &Arc<Self>,
        topics: Vec<NewTopic>,
        validate_only: bool,
    ) -> Vec<Result<CreatedTopic, Failure>> {
        let count = topics.len();
        let created =
            self.off_shard(move |controller| controller.create_topics_now(&topics, validate_only)).await;
        flatten(created, count)
    }

    fn create_topics_now(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Result<Vec<Result<CreatedTopic, Refusal>>, Failure> {
        let config = self.config.load();
        let rules = TopicRules {
            default_partitions: config.num_partitions,
            default_replication_factor: config.default_replication_factor,
            clamp_replication_factor: config.clamp_replication_factor,
            configs: &**config,
        };
        if validate_only {
            let image = self.metadata.image();
            return Ok(create_topics(&image, topics, rules, uuid::random).outcome);
        }
        let created = self.metadata.change(
            |image| create_topics(image, topics, rules, uuid::random),
            |next, created| {
                let ids = created.iter().flatten().map(|topic| topic.topic_id);
                self.publisher.serve_missing(next, ids).map_err(storage_failure)
            },
        );
        self.publisher.topics_changed(|| self.metadata.image());
        created
    }

    /// Sees to it that `__consumer_offsets` or `__transaction_state` exists. Some of its partitions may be offline nevertheless.
    pub(crate) async fn ensure_internal_topic(self: &Arc<Self>, topic: &str) -> Result<(), Failure> {
        let exists = || self.metadata.image().topic(topic).is_some();
        if !exists() {
            self.auto_create(vec![topic.to_owned()]).await;
        }
        if exists() { Ok(()) } else { Err(ErrorCode::CoordinatorNotAvailable.into()) }
    }

    /// Creates the topics that clients asked for without creating them. Failures show in the answer
    /// that looks for the topics next.
    pub(crate) async fn auto_create(self: &Arc<Self>, names: Vec<String>) {
        let topics = names.into_iter().map(|name| self.auto_created(name)).collect();
        let created = self.create_topics(topics, false).await.into_iter();
        let mut failed =
            created.filter_map(Result::err).filter(|one| one.code != ErrorCode::TopicAlreadyExists);
        if let Some(failure) = failed.next() {
            // One line, however many names a request had.
            let others = failed.count();
            tracing::warn!(?failure, others, "cannot create the topic automatically");
        }
    }

    fn auto_created(&self, name: String) -> NewTopic {
        let config = self.config.load();
        let (offsets, transactions) = (&config.offsets, &config.transactions);
        let internal = match name.as_str() {
            OFFSETS_TOPIC => Some((offsets.topic_partitions, offsets.topic_segment_bytes, "producer")),
            TRANSACTIONS_TOPIC => {
                Some((transactions.topic_partitions, transactions.topic_segment_bytes, "uncompressed"))
            }
            _ => None,
        };
        let Some((partitions, segment_bytes, compression)) = internal else {
            return NewTopic {
                name,
                partitions: -1,
                replication_factor: -1,
                assignments: Vec::new(),
                configs: Vec::new(),
            };
        };
        let configs = [
            ("cleanup.policy", "compact"),
            ("compression.type", compression),
            ("segment.bytes", &segment_bytes.to_string()),
        ];
        let configs = configs.map(|(key, value)| (key.to_owned(), Some(value.to_owned()))).into();
        NewTopic { name, partitions, replication_factor: 1, assignments: Vec::new(), configs }
    }

    /// Adds partitions to topics; results in the order of `topics`, without repetitions.
    pub(crate) async fn create_partitions(
        self: &Arc<Self>,
        topics: Vec<MorePartitions>,
        validate_only: bool,
    ) -> Vec<(String, Result<(), Failure>)> {
        let names: Vec<_> = topics.iter().map(|topic| topic.topic.clone()).collect();
        let created = self.off_shard(move |controller| {
            if validate_only {
                return Ok(create_partitions(&controller.metadata.image(), &topics).outcome);
            }
            let created = controller.metadata.change(
                |image| create_partitions(image, &topics),
                |next, _| {
                    let ids =
                        topics.iter().filter_map(|topic| next.topic(&topic.topic)).map(|topic| topic.id());
                    controller.publisher.serve_missing(next, ids).map_err(storage_failure)
                },
            );
            controller.publisher.topics_changed(|| controller.metadata.image());
            created
        });
        flatten_keyed(created.await, names)
    }

    /// Deletes topics; results in the order of `keys`, without repetitions.
    pub(crate) async fn delete_topics(
        self: &Arc<Self>,
        keys: Vec<TopicKey>,
    ) -> Vec<(TopicKey, Result<DeletedTopic, Failure>)> {
        if !self.config.load().delete_topics {
            let refused = || Failure::new(ErrorCode::TopicDeletionDisabled, "Topic deletion is disabled.");
            return keys.into_iter().map(|key| (key, Err(refused()))).collect();
        }
        let asked = keys.clone();
        let deleted = self.off_shard(move |controller| {
            let mut doomed = Vec::new();
            let deleted = controller.metadata.change(
                |image| delete_topics(image, &keys),
                |_, deleted| {
                    let topics = deleted.iter().flat_map(|(_, deleted)| deleted);
                    doomed.extend(topics.flat_map(|topic| controller.publisher.drop_topic(topic)));
                    // Or a crash would have a new topic of the same name begin where the old one did, and trust it as far.
                    if !doomed.is_empty() {
                        controller.replicas.store_checkpoints();
                    }
                    Ok(())
                },
            );
            controller.publisher.topics_changed(|| controller.metadata.image());
            for dir in doomed {
                controller.replicas.remove_directory(&dir);
            }
            deleted
        });
        flatten_keyed(deleted.await, asked)
    }
}
