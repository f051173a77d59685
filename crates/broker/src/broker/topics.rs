//! Creating and deleting topics and partitions: the decision goes into the metadata log first, then
//! the partitions enter or leave service. All of it happens off the shards, one change at a time.

use std::path::PathBuf;
use std::sync::Arc;

use levada_wire::Uuid;

use crate::blocking::off_shard;
use crate::broker::Broker;
use crate::broker::data_dir::Left;
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::controller::{
    CreatedTopic, DeletedTopic, MorePartitions, NewTopic, Refusal, TopicKey, TopicRules, create_partitions,
    create_topics, delete_topics,
};
use crate::metadata::image::Image;
use crate::metadata::uuid;
use crate::partition::{OFFSETS_TOPIC, TRANSACTIONS_TOPIC};

impl Broker {
    /// Runs `work` on a thread that may block, so that no shard does.
    pub(crate) async fn off_shard<T: Send + 'static>(
        self: &Arc<Self>,
        work: impl FnOnce(&Arc<Self>) -> T + Send + 'static,
    ) -> T {
        let broker = self.clone();
        off_shard(move || work(&broker)).await
    }

    /// Creates topics, each or not at all; results in the order of `topics`.
    pub(crate) async fn create_topics(
        self: &Arc<Self>,
        topics: Vec<NewTopic>,
        validate_only: bool,
    ) -> Vec<Result<CreatedTopic, Failure>> {
        let count = topics.len();
        let created = self.off_shard(move |broker| broker.create_topics_now(&topics, validate_only)).await;
        flatten(created, count)
    }

    fn create_topics_now(
        &self,
        topics: &[NewTopic],
        validate_only: bool,
    ) -> Result<Vec<Result<CreatedTopic, Refusal>>, Failure> {
        let config = self.config();
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
                self.serve_missing(next, ids)
            },
        );
        self.groups.topics_changed(|| self.metadata.image());
        created
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
            tracing::warn!(?failure, others, "topic not created on demand");
        }
    }

    fn auto_created(&self, name: String) -> NewTopic {
        let config = self.config();
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
        let created = self.off_shard(move |broker| {
            if validate_only {
                return Ok(create_partitions(&broker.metadata.image(), &topics).outcome);
            }
            let created = broker.metadata.change(
                |image| create_partitions(image, &topics),
                |next, _| {
                    let ids =
                        topics.iter().filter_map(|topic| next.topic(&topic.topic)).map(|topic| topic.id());
                    broker.serve_missing(next, ids)
                },
            );
            broker.groups.topics_changed(|| broker.metadata.image());
            created
        });
        flatten_keyed(created.await, names)
    }

    /// Deletes topics; results in the order of `keys`, without repetitions.
    pub(crate) async fn delete_topics(
        self: &Arc<Self>,
        keys: Vec<TopicKey>,
    ) -> Vec<(TopicKey, Result<DeletedTopic, Failure>)> {
        if !self.config().delete_topics {
            let refused = || Failure::new(ErrorCode::TopicDeletionDisabled, "Topic deletion is disabled.");
            return keys.into_iter().map(|key| (key, Err(refused()))).collect();
        }
        let asked = keys.clone();
        let deleted = self.off_shard(move |broker| {
            let mut doomed = Vec::new();
            let deleted = broker.metadata.change(
                |image| delete_topics(image, &keys),
                |_, deleted| {
                    let topics = deleted.iter().flat_map(|(_, deleted)| deleted);
                    doomed.extend(topics.flat_map(|topic| broker.drop_topic(topic)));
                    // Or a crash would have a new topic of the same name begin where the old one did, and trust it as far.
                    if !doomed.is_empty() {
                        broker.store_checkpoints();
                    }
                    Ok(())
                },
            );
            broker.groups.topics_changed(|| broker.metadata.image());
            for dir in doomed {
                if let Err(error) = broker.data_dir.disk().remove_dir(&dir) {
                    tracing::warn!(directory = %dir.display(), %error, "files of a deleted partition remain");
                }
            }
            deleted
        });
        flatten_keyed(deleted.await, asked)
    }

    /// Takes a topic that the metadata no longer has out of service, and its directories out of the way of
    /// a new topic of the same name; returns them for removal. Only as part of the change that deletes it:
    /// later the name may be another topic's.
    fn drop_topic(&self, topic: &DeletedTopic) -> Vec<PathBuf> {
        let removed = self.partitions.remove(topic.topic_id);
        self.resign_coordinators(&topic.name);
        // Those too that are not served yet: their logs are being checked, or cannot be opened.
        self.groups.partitions_deleted(&[(topic.name.clone(), topic.partitions.clone())]);
        let mut doomed = Vec::with_capacity(removed.len());
        for partition in removed.iter() {
            drop(partition.lane().take_writer());
            self.cleaner.forget(&(partition.topic().to_owned(), partition.index()));
            match self.data_dir.doom_partition(partition.topic(), partition.index()) {
                Ok(dir) => doomed.push(dir),
                Err(error) => {
                    tracing::warn!(partition = partition.name(), %error, "files of a deleted partition remain");
                }
            }
        }
        doomed
    }

    /// Opens those partitions of the topics that are not served yet.
    fn serve_missing(&self, image: &Image, topics: impl Iterator<Item = Uuid>) -> Result<(), Failure> {
        self.provide_coordinators(image);
        let missing = self.missing_partitions(image, topics);
        self.open_and_serve(missing, |_| Left::default())
            .map_err(|error| Failure::new(ErrorCode::KafkaStorageError, error.to_string()))
    }
}

/// One failure of the whole change becomes one for each item.
pub(super) fn flatten<T>(
    results: Result<Vec<Result<T, Refusal>>, Failure>,
    count: usize,
) -> Vec<Result<T, Failure>> {
    match results {
        Ok(results) => results.into_iter().map(|result| result.map_err(Failure::from)).collect(),
        Err(failure) => (0..count).map(|_| Err(failure.clone())).collect(),
    }
}

/// What a change of the metadata says of each item.
pub(super) type Keyed<K, T, E> = Vec<(K, Result<T, E>)>;

/// Like [`flatten`], for results that name their item.
pub(super) fn flatten_keyed<K, T>(
    results: Result<Keyed<K, T, Refusal>, Failure>,
    keys: Vec<K>,
) -> Keyed<K, T, Failure> {
    match results {
        Ok(results) => {
            results.into_iter().map(|(key, result)| (key, result.map_err(Failure::from))).collect()
        }
        Err(failure) => keys.into_iter().map(|key| (key, Err(failure.clone()))).collect(),
    }
}
