//! CreateTopics (key 19), versions 2–7.
//!
//! Version 4 has defaults for partitions and replicas (KIP-464), 5 returns the configuration
//! (KIP-525), 6 may be refused because of a quota (KIP-599), and 7 returns topic ids (KIP-516).
//!
//! Creates each topic or refuses it; the response is sent when the metadata log is flushed and the
//! partitions accept appends. From version 5 on it holds the topic's configuration, from 7 on its
//! id. Nothing is created with `validate_only`, or with a timeout of 0 or less (REQUEST_TIMED_OUT,
//! as from Kafka's controllers). `controller_mutation_rate` counts the partitions. From version 6
//! on a topic beyond the rate is refused; up to version 5 the client is muted instead.

use std::collections::{BTreeMap, HashSet};

use levada_metadata::controller::{CreatedTopic, METADATA_TOPIC, NewTopic};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::Uuid;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::create_topics_request::CreatableTopic;
use levada_wire::messages::create_topics_response::{CreatableTopicConfigs, CreatableTopicResult};
use levada_wire::messages::{CreateTopicsRequest, CreateTopicsResponse, StrBytes};

use crate::api::changes::log_change;
use crate::api::forwarding::Refusable;
use crate::api::{Context, text};

const DETAILS_VERSION_MIN: i16 = 5;
const ID_VERSION_MIN: i16 = 7;
const STRICT_QUOTA_VERSION_MIN: i16 = 6;

pub(crate) async fn answer(context: &Context, request: CreateTopicsRequest) -> CreateTopicsResponse {
    let names: Vec<StrBytes> = request.topics.iter().map(|topic| topic.name.clone()).collect();
    let all = context.might_cluster(Operation::Create);
    let mut seen = HashSet::new();
    let repeated: HashSet<&StrBytes> = names.iter().filter(|name| !seen.insert(*name)).collect();
    // An error that does not depend on the client's rights comes before authorization.
    let forbidden = |name: &StrBytes| {
        !all && name.as_str() != METADATA_TOPIC
            && !repeated.contains(name)
            && !context.may(Operation::Create, ResourceType::Topic, name.as_str())
    };
    let forbidden: Vec<bool> = names.iter().map(forbidden).collect();
    let mut asked = names.iter().zip(&forbidden);
    if request.timeout_ms <= 0 && asked.any(|(name, forbidden)| !forbidden && !repeated.contains(name)) {
        return request.refuse_late(context.version());
    }
    let permitted = request.topics.into_iter().zip(&forbidden).filter(|(_, forbidden)| !**forbidden);
    let topics = permitted.map(|(topic, _)| new_topic(topic)).collect();
    let validate_only = request.validate_only;
    let quota = context.mutation_quota(STRICT_QUOTA_VERSION_MIN);
    let created = context.broker().controller().create_topics(topics, quota.clone(), validate_only).await;
    context.mute_for(quota.wait());
    let mut created = created.into_iter();
    let created = forbidden.into_iter().map(|forbidden| {
        if forbidden {
            Err(Failure::new(ErrorCode::TopicAuthorizationFailed, "Authorization failed."))
        } else {
            created.next().expect("one result for each topic")
        }
    });
    // A name that came twice was refused, and is answered once.
    let mut answered = HashSet::new();
    let first = |(name, _): &(StrBytes, _)| answered.insert(name.clone());
    let results =
        names.into_iter().zip(created).filter(first).map(|(name, created)| match created {
            Ok(created) => {
                if !validate_only {
                    log_change!(
                        context,
                        "topic created",
                        topic = name.as_str(),
                        partitions = created.partitions,
                    );
                }
                show(context, name, &created)
            }
            Err(failure) => refuse(context, name, failure),
        });
    message!(CreateTopicsResponse { topics: results.collect() })
}

fn new_topic(topic: CreatableTopic) -> NewTopic {
    let assignments = topic.assignments.into_iter().map(|one| (one.partition_index, one.broker_ids));
    let configs = topic.configs.into_iter();
    let configs = configs.map(|config| (config.name.into_string(), config.value.map(StrBytes::into_string)));
    NewTopic {
        name: topic.name.into_string(),
        partitions: topic.num_partitions,
        replication_factor: topic.replication_factor,
        assignments: assignments.collect(),
        configs: configs.collect(),
    }
}

fn show(context: &Context, name: StrBytes, created: &CreatedTopic) -> CreatableTopicResult {
    let mut shown = message!(CreatableTopicResult { name: name, error_message: None });
    if context.version() >= ID_VERSION_MIN {
        shown.topic_id = created.topic_id;
    }
    if context.version() >= DETAILS_VERSION_MIN {
        if !context.might(Operation::DescribeConfigs, ResourceType::Topic, shown.name.as_str()) {
            shown.topic_config_error_code = ErrorCode::TopicAuthorizationFailed.code();
            shown.num_partitions = -1;
            shown.replication_factor = -1;
            shown.configs = Some(Vec::new());
            return shown;
        }
        shown.num_partitions = created.partitions;
        shown.replication_factor = created.replication_factor;
        shown.configs = Some(configs(context, &created.configs));
    }
    shown
}

fn configs(context: &Context, own: &BTreeMap<String, String>) -> Vec<CreatableTopicConfigs> {
    let described = context.broker().config().describe_topic(own);
    let configs = described.into_iter().map(|one| {
        message!(CreatableTopicConfigs {
            name: text(one.name),
            value: one.value.map(text),
            read_only: one.read_only,
            config_source: one.source as i8,
            is_sensitive: one.sensitive,
        })
    });
    configs.collect()
}

fn refuse(context: &Context, name: StrBytes, failure: Failure) -> CreatableTopicResult {
    let mut refused = message!(CreatableTopicResult {
        name: name,
        topic_id: Uuid::ZERO,
        error_code: failure.code.code(),
        error_message: failure.message.map(text),
    });
    if context.version() >= DETAILS_VERSION_MIN {
        refused.num_partitions = -1;
        refused.replication_factor = -1;
        refused.configs = Some(Vec::new());
    }
    refused
}
