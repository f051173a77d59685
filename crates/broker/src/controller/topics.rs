//! Creation and deletion of topics and partitions.

use std::sync::Arc;

use levada_config::{BrokerConfig, Origin, RemoteLogConfig};
use levada_metadata::controller::{
    CreatedTopic, DeletedTopic, MorePartitions, NewTopic, Refusal, TopicKey, TopicRules, create_partitions,
    create_topics, delete_topics,
};
use levada_metadata::image::Image;
use levada_metadata::uuid;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::CreateTopicsResponse;
use levada_wire::messages::create_topics_request::CreatableTopicConfig;

use crate::controller::ByConfig;
use crate::controller::remote::{CreatableTopic, Creator};
use crate::controller::{Controller, flatten, flatten_keyed};
use crate::quota::MutationQuota;
use crate::replica::{OFFSETS_TOPIC, SHARE_STATES_TOPIC, TRANSACTIONS_TOPIC};
use levada_tiered::record::METADATA_TOPIC;

/// Time that the controller of a cluster gets for a creation: the default of Kafka's
/// `request.timeout.ms`.
const CREATION_TIMEOUT_MS: i32 = 30_000;

/// Settings of topics that are created for dead letters.
const DEAD_LETTER_CONFIGS: [(&str, &str); 2] =
    [("errors.deadletterqueue.group.enable", "true"), ("message.timestamp.type", "CreateTime")];

/// The shape of an internal topic.
struct Internal {
    partitions: i32,
    replication_factor: i16,
    configs: Vec<(&'static str, String)>,
    /// Settings that matter only where there are several brokers.
    of_cluster: Vec<(&'static str, String)>,
}

/// Partitions and replicas of a topic whose creation a client causes: the values that are set on
/// this broker. Where none is set, -1 leaves the choice to the controller, as in Kafka.
fn own_shape(config: &BrokerConfig) -> (i32, i16) {
    let is_set = |key: &str| *config.settings().origin(key) != Origin::Default;
    let partitions = if is_set("num.partitions") { config.num_partitions } else { -1 };
    let is_replicated = is_set("default.replication.factor");
    (partitions, if is_replicated { config.default_replication_factor } else { -1 })
}

/// Outcome of the creation of a topic.
#[derive(Debug)]
pub(crate) struct Created {
    pub(crate) topic: String,
    /// The number of partitions, or the reason of the failure.
    pub(crate) outcome: Result<i32, String>,
}

impl Created {
    /// The outcomes in the response of a controller. Topics that already exist are omitted.
    fn by_controller(names: Vec<String>, answer: &Result<CreateTopicsResponse, ErrorCode>) -> Vec<Self> {
        let response = match answer {
            Ok(response) => response,
            Err(error) => {
                let failed = |topic| Self { topic, outcome: Err(reason(*error, None)) };
                return names.into_iter().map(failed).collect();
            }
        };
        // The controller has created a topic at the latest now, and the log has a line of it.
        let failed = response.topics.iter().filter(|topic| topic.error_code != 0);
        let failed = failed.filter(|topic| topic.error_code != ErrorCode::TopicAlreadyExists.code());
        let outcome = failed.map(|topic| {
            let error = ErrorCode::of_code(topic.error_code).unwrap_or(ErrorCode::UnknownServerError);
            let message = topic.error_message.as_ref().map(|message| message.as_str());
            Self { topic: topic.name.as_str().to_owned(), outcome: Err(reason(error, message)) }
        });
        outcome.collect()
    }
}

/// The sentence of an error, or its name.
fn reason(error: ErrorCode, message: Option<&str>) -> String {
    message.filter(|message| !message.is_empty()).unwrap_or(error.name()).to_owned()
}

/// A topic in a request to the controller of a cluster.
fn creatable_topic(topic: NewTopic) -> CreatableTopic {
    let mut creatable = CreatableTopic::default();
    (creatable.num_partitions, creatable.replication_factor) = (topic.partitions, topic.replication_factor);
    let configs = topic.configs.into_iter().map(|(name, value)| {
        let mut config = CreatableTopicConfig::default();
        config.name = name.into();
        config.value = value.map(Into::into);
        config
    });
    creatable.configs = configs.collect();
    creatable.name = topic.name.into();
    creatable
}

/// The topic with the metadata of remote segments, as Kafka's brokers create it.
fn remote_log_metadata(config: &RemoteLogConfig) -> Internal {
    Internal {
        partitions: config.topic_partitions,
        replication_factor: config.topic_replication_factor,
        configs: vec![
            ("cleanup.policy", "delete".to_owned()),
            ("retention.ms", config.topic_retention_ms.to_string()),
            ("remote.storage.enable", "false".to_owned()),
        ],
        of_cluster: vec![("min.insync.replicas", config.topic_min_insync_replicas.to_string())],
    }
}

/// Settings of the metadata topic of tiered storage where no other broker can have a replica.
pub(crate) fn remote_log_metadata_configs(config: &RemoteLogConfig) -> Vec<(String, String)> {
    let configs = remote_log_metadata(config).configs.into_iter();
    configs.map(|(name, value)| (name.to_owned(), value)).collect()
}

fn creatable_config((key, value): (&'static str, String)) -> CreatableTopicConfig {
    let mut config = CreatableTopicConfig::default();
    config.name = key.into();
    config.value = Some(value.into());
    config
}

impl Controller {
    /// Creates topics, each or not at all; results in the order of `topics`.
    pub(crate) async fn create_topics(
        self: &Arc<Self>,
        topics: Vec<NewTopic>,
        quota: MutationQuota,
        validate_only: bool,
    ) -> Vec<Result<CreatedTopic, Failure>> {
        let count = topics.len();
        let create = move |controller: &Self| controller.create_topics_now(&topics, &quota, validate_only);
        let created = self.off_shard(create).await;
        flatten(created, count)
    }

    fn create_topics_now(
        &self,
        topics: &[NewTopic],
        quota: &MutationQuota,
        validate_only: bool,
    ) -> Result<Vec<Result<CreatedTopic, Refusal>>, Failure> {
        let config = self.config.load();
        let rules = TopicRules {
            default_partitions: config.num_partitions,
            default_replication_factor: config.default_replication_factor,
            clamp_replication_factor: config.clamp_replication_factor,
            configs: &ByConfig(&config),
            permit: &|partitions| quota.permits(partitions),
        };
        if validate_only {
            let image = self.metadata.image();
            return Ok(create_topics(&image, topics, rules, uuid::random).outcome);
        }
        let embedded = self.embedded()?;
        embedded.refuse_growth()?;
        embedded.change(|image| create_topics(image, topics, rules, uuid::random))
    }

    /// Sees to it that the topic of a kind of coordinators exists. Some of its partitions
    /// may be offline nevertheless. In a cluster the creation begins, and is not waited for.
    pub(crate) async fn ensure_internal_topic(self: &Arc<Self>, topic: &str) -> Result<(), Failure> {
        let exists = || self.metadata.image().topic(topic).is_some();
        if !exists() {
            for (topic, partitions) in
                self.auto_create(vec![topic.to_owned()], None, MutationQuota::default()).await
            {
                tracing::info!(topic, partitions, "topic created");
            }
        }
        if exists() { Ok(()) } else { Err(ErrorCode::CoordinatorNotAvailable.into()) }
    }

    /// Creates topics on demand; returns the new topics with their numbers of partitions. A failure
    /// shows in the response to the next request for the topics. In a cluster the creation begins,
    /// with the rights of `client` if there is one, and this function does not wait for it.
    pub(crate) async fn auto_create(
        self: &Arc<Self>,
        names: Vec<String>,
        client: Option<Creator>,
        quota: MutationQuota,
    ) -> Vec<(String, i32)> {
        if let Some(remote) = self.remote() {
            let topics = names.into_iter().map(|name| self.creatable(name)).collect();
            remote.begin_creation(topics, CREATION_TIMEOUT_MS, client);
            return Vec::new();
        }
        let topics = names.iter().map(|name| self.auto_created(name.clone())).collect();
        let (mut created, mut failed) = (Vec::new(), Vec::new());
        for (name, outcome) in names.into_iter().zip(self.create_topics(topics, quota, false).await) {
            match outcome {
                Ok(topic) => created.push((name, topic.partitions)),
                Err(failure) => failed.push(failure),
            }
        }
        failed.retain(|failure| failure.code != ErrorCode::TopicAlreadyExists);
        if let Some(failure) = failed.first() {
            // One line, independent of the number of names in a request.
            tracing::warn!(?failure, others = failed.len() - 1, "cannot create the topic automatically");
        }
        created
    }

    /// Creates a topic for dead letters of share groups. In a cluster the creation begins, with the
    /// broker's own rights, and is not waited for.
    pub(crate) async fn create_dead_letter_topic(self: &Arc<Self>, name: &str) -> Result<(), Failure> {
        let configs = DEAD_LETTER_CONFIGS.map(|(key, value)| (key, value.to_owned()));
        if let Some(remote) = self.remote() {
            let mut topic = self.creatable(name.to_owned());
            topic.configs = configs.into_iter().map(creatable_config).collect();
            remote.begin_creation(vec![topic], CREATION_TIMEOUT_MS, None);
            return Ok(());
        }
        let mut topic = self.auto_created(name.to_owned());
        topic.configs = configs.into_iter().map(|(key, value)| (key.to_owned(), Some(value))).collect();
        let mut created = self.create_topics(vec![topic], MutationQuota::default(), false).await;
        match created.pop() {
            Some(Err(failure)) if failure.code != ErrorCode::TopicAlreadyExists => Err(failure),
            Some(Ok(topic)) => {
                tracing::info!(topic = name, partitions = topic.partitions, "topic created");
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Begins to create topics of this shape with the rights of a client. `ended` gets the outcomes
    /// for topics that were created, or could not be created.
    pub(crate) fn begin_creation(
        self: &Arc<Self>,
        (topics, client): (Vec<NewTopic>, Creator),
        quota: MutationQuota,
        ended: impl FnOnce(Vec<Created>) + Send + 'static,
    ) {
        if let Some(remote) = self.remote() {
            let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
            let topics = topics.into_iter().map(creatable_topic).collect();
            let ended = move |answer: &Result<CreateTopicsResponse, ErrorCode>| {
                ended(Created::by_controller(names, answer));
            };
            return remote.begin_reported_creation(topics, CREATION_TIMEOUT_MS, Some(client), ended);
        }
        let controller = self.clone();
        tokio::spawn(async move {
            let names: Vec<String> = topics.iter().map(|topic| topic.name.clone()).collect();
            let outcomes = controller.create_topics(topics, quota, false).await;
            let created = names.into_iter().zip(outcomes).filter_map(|(topic, outcome)| {
                let outcome = match outcome {
                    Ok(created) => Ok(created.partitions),
                    Err(failure) if failure.code == ErrorCode::TopicAlreadyExists => return None,
                    Err(failure) => Err(reason(failure.code, failure.message.as_deref())),
                };
                Some(Created { topic, outcome })
            });
            ended(created.collect());
        });
    }

    fn auto_created(&self, name: String) -> NewTopic {
        let Some(internal) = self.internal(&name) else {
            return NewTopic {
                name,
                partitions: -1,
                replication_factor: -1,
                assignments: Vec::new(),
                configs: Vec::new(),
            };
        };
        let configs =
            internal.configs.into_iter().map(|(key, value)| (key.to_owned(), Some(value))).collect();
        NewTopic {
            name,
            partitions: internal.partitions,
            replication_factor: 1,
            assignments: Vec::new(),
            configs,
        }
    }

    /// The topic in a request to the controller of a cluster.
    fn creatable(&self, name: String) -> CreatableTopic {
        let mut topic = CreatableTopic::default();
        match self.internal(&name) {
            Some(internal) => {
                topic.num_partitions = internal.partitions;
                topic.replication_factor = internal.replication_factor;
                let of_cluster = internal.of_cluster.into_iter();
                topic.configs =
                    internal.configs.into_iter().chain(of_cluster).map(creatable_config).collect();
            }
            None => (topic.num_partitions, topic.replication_factor) = own_shape(&self.config.load()),
        }
        topic.name = name.into();
        topic
    }

    /// The shape of a topic of coordinators; none for other topics.
    fn internal(&self, name: &str) -> Option<Internal> {
        let config = self.config.load();
        if name == METADATA_TOPIC {
            return Some(remote_log_metadata(&config.remote_log));
        }
        let (offsets, transactions, states) = (&config.offsets, &config.transactions, &config.share_states);
        let (partitions, replication_factor, segment_bytes, compression) = match name {
            OFFSETS_TOPIC => (
                offsets.topic_partitions,
                offsets.topic_replication_factor,
                offsets.topic_segment_bytes,
                "producer",
            ),
            TRANSACTIONS_TOPIC => (
                transactions.topic_partitions,
                transactions.topic_replication_factor,
                transactions.topic_segment_bytes,
                "uncompressed",
            ),
            SHARE_STATES_TOPIC => (
                states.topic_partitions,
                states.topic_replication_factor,
                states.topic_segment_bytes,
                "producer",
            ),
            _ => return None,
        };
        // Share coordinators delete records themselves.
        let policy = if name == SHARE_STATES_TOPIC { "delete" } else { "compact" };
        let mut configs = vec![
            ("cleanup.policy", policy.to_owned()),
            ("compression.type", compression.to_owned()),
            ("segment.bytes", segment_bytes.to_string()),
        ];
        if name == SHARE_STATES_TOPIC {
            configs.push(("retention.ms", "-1".to_owned()));
        }
        let of_cluster = match name {
            TRANSACTIONS_TOPIC => vec![
                ("min.insync.replicas", transactions.topic_min_insync_replicas.to_string()),
                ("unclean.leader.election.enable", "false".to_owned()),
            ],
            SHARE_STATES_TOPIC => {
                vec![("min.insync.replicas", states.topic_min_insync_replicas.to_string())]
            }
            _ => Vec::new(),
        };
        Some(Internal { partitions, replication_factor, configs, of_cluster })
    }

    /// Adds partitions to topics; results in the order of `topics`, without repetitions.
    pub(crate) async fn create_partitions(
        self: &Arc<Self>,
        topics: Vec<MorePartitions>,
        quota: MutationQuota,
        validate_only: bool,
    ) -> Vec<(String, Result<(), Failure>)> {
        let names: Vec<_> = topics.iter().map(|topic| topic.topic.clone()).collect();
        let created = self.off_shard(move |controller| {
            let create = |image: &Image| create_partitions(image, &topics, &|count| quota.permits(count));
            if validate_only {
                return Ok(create(&controller.metadata.image()).outcome);
            }
            let embedded = controller.embedded()?;
            embedded.refuse_growth()?;
            embedded.change(create)
        });
        flatten_keyed(created.await, names)
    }

    /// Deletes topics; results in the order of `keys`, without repetitions.
    pub(crate) async fn delete_topics(
        self: &Arc<Self>,
        keys: Vec<TopicKey>,
        quota: MutationQuota,
    ) -> Vec<(TopicKey, Result<DeletedTopic, Failure>)> {
        if !self.config.load().delete_topics {
            let refused = || Failure::new(ErrorCode::TopicDeletionDisabled, "Topic deletion is disabled.");
            return keys.into_iter().map(|key| (key, Err(refused()))).collect();
        }
        let asked = keys.clone();
        let deleted = self.off_shard(move |controller| {
            let delete = |image: &Image| delete_topics(image, &keys, &|count| quota.permits(count));
            controller.embedded()?.change(delete)
        });
        flatten_keyed(deleted.await, asked)
    }
}

#[cfg(test)]
mod tests;
