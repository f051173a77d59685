//! Creation and deletion of topics and partitions.

use std::sync::Arc;

use crate::controller::{Controller, flatten, flatten_keyed};
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
        self.embedded.change(|image| create_topics(image, topics, rules, uuid::random))
    }

    /// Sees to it that `__consumer_offsets` or `__transaction_state` exists. Some of its partitions
    /// may be offline nevertheless.
    pub(crate) async fn ensure_internal_topic(self: &Arc<Self>, topic: &str) -> Result<(), Failure> {
        let exists = || self.metadata.image().topic(topic).is_some();
        if !exists() {
            for (topic, partitions) in self.auto_create(vec![topic.to_owned()]).await {
                tracing::info!(topic, partitions, "topic created");
            }
        }
        if exists() { Ok(()) } else { Err(ErrorCode::CoordinatorNotAvailable.into()) }
    }

    /// Creates the topics that clients asked for without creating them; returns the new ones with
    /// their numbers of partitions. Failures show in the answer that looks for the topics next.
    pub(crate) async fn auto_create(self: &Arc<Self>, names: Vec<String>) -> Vec<(String, i32)> {
        let topics = names.iter().map(|name| self.auto_created(name.clone())).collect();
        let (mut created, mut failed) = (Vec::new(), Vec::new());
        for (name, outcome) in names.into_iter().zip(self.create_topics(topics, false).await) {
            match outcome {
                Ok(topic) => created.push((name, topic.partitions)),
                Err(failure) => failed.push(failure),
            }
        }
        failed.retain(|failure| failure.code != ErrorCode::TopicAlreadyExists);
        if let Some(failure) = failed.first() {
            // One line, however many names a request had.
            tracing::warn!(?failure, others = failed.len() - 1, "cannot create the topic automatically");
        }
        created
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
            controller.embedded.change(|image| create_partitions(image, &topics))
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
        let deleted =
            self.off_shard(move |controller| controller.embedded.change(|image| delete_topics(image, &keys)));
        flatten_keyed(deleted.await, asked)
    }
}
