//! DeleteTopics (key 20), versions 1–6.
//!
//! Version 3 has an error for disabled deletion (KIP-322), 4 is flexible (KIP-482), 5 has messages
//! and may be refused because of a quota (KIP-599), and 6 has topic ids (KIP-516).
//!
//! Deletes topics by name, or from version 6 on by id, unless `delete.topic.enable` forbids it. The
//! partitions leave service immediately; their files are removed in the background. With a timeout
//! of 0 or less nothing is deleted (REQUEST_TIMED_OUT, as from Kafka's controllers).
//! `controller_mutation_rate` counts the partitions. From version 5 on a topic beyond the rate is
//! refused; up to version 4 the client is muted instead.

use std::collections::HashMap;

use levada_metadata::controller::{DeletedTopic, TopicKey};
use levada_security::acl::{Operation, ResourceType};
use levada_wire::Uuid;
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::delete_topics_request::DeleteTopicState;
use levada_wire::messages::delete_topics_response::DeletableTopicResult;
use levada_wire::messages::{DeleteTopicsRequest, DeleteTopicsResponse, StrBytes};

use crate::api::changes::log_change;
use crate::api::errors::NOT_HOSTED;
use crate::api::forwarding::Refusable;
use crate::api::{Context, text};

const BY_ID_VERSION_MIN: i16 = 6;
/// The first version whose clients know TOPIC_DELETION_DISABLED.
const DISABLED_VERSION_MIN: i16 = 3;
const MESSAGE_VERSION_MIN: i16 = 5;
const STRICT_QUOTA_VERSION_MIN: i16 = 5;

pub(crate) async fn answer(context: &Context, request: DeleteTopicsRequest) -> DeleteTopicsResponse {
    let late = (request.timeout_ms <= 0).then(|| request.clone());
    let keys: Vec<TopicKey> = if context.version() >= BY_ID_VERSION_MIN {
        let by_either = |topic: DeleteTopicState| TopicKey {
            name: topic.name.map(StrBytes::into_string),
            topic_id: topic.topic_id,
        };
        request.topics.into_iter().map(by_either).collect()
    } else {
        let by_name = |name: StrBytes| TopicKey { name: Some(name.into_string()), topic_id: Uuid::ZERO };
        request.topic_names.into_iter().map(by_name).collect()
    };
    if let Some(request) = late.filter(|_| context.broker().config().delete_topics && names_one(&keys)) {
        return request.refuse_late(context.version());
    }
    let (permitted, mut refused) = sort_out(context, keys);
    let quota = context.mutation_quota(STRICT_QUOTA_VERSION_MIN);
    refused.extend(context.broker().controller().delete_topics(permitted, quota.clone()).await);
    context.mute_for(quota.wait());
    let deleted = refused;
    let results = deleted.into_iter().map(|(key, deleted)| {
        let mut result = message!(DeletableTopicResult { name: key.name.map(text), topic_id: key.topic_id });
        match deleted {
            Ok(topic) => {
                log_change!(context, "topic deleted", topic = topic.name.as_str(),);
                result.name = Some(text(topic.name));
                result.topic_id = topic.topic_id;
            }
            Err(failure) => {
                result.error_code = known(context.version(), failure.code).code();
                let message = failure.message.or_else(|| unexplained(failure.code).map(Into::into));
                result.error_message = message.filter(|_| context.version() >= MESSAGE_VERSION_MIN).map(text);
            }
        }
        if context.version() < BY_ID_VERSION_MIN {
            result.topic_id = Uuid::ZERO;
        }
        result
    });
    message!(DeleteTopicsResponse { responses: results.collect() })
}

/// True if each key names a topic in one way, and once: otherwise the broker itself refuses all
/// keys.
fn names_one(keys: &[TopicKey]) -> bool {
    let mut times: HashMap<&TopicKey, usize> = HashMap::new();
    keys.iter().for_each(|key| *times.entry(key).or_default() += 1);
    times.into_iter().any(|(key, times)| times == 1 && key.name.is_some() == key.topic_id.is_zero())
}

/// Result of the deletion of one topic.
type TopicDeletion = (TopicKey, Result<DeletedTopic, Failure>);

/// The topics that the client may delete, and refusals of the others. A client that may not
/// describe a topic gets neither its existence nor the name of its id.
fn sort_out(context: &Context, keys: Vec<TopicKey>) -> (Vec<TopicKey>, Vec<TopicDeletion>) {
    if context.might_cluster(Operation::Delete) || !context.broker().config().delete_topics {
        return (keys, Vec::new());
    }
    let image = context.broker().metadata().image();
    let (mut permitted, mut refused) = (Vec::new(), Vec::new());
    for mut key in keys {
        let named = key.name.is_some();
        let name = key.name.clone().or_else(|| Some(image.topic_by_id(key.topic_id)?.name().to_string()));
        // An error that does not depend on the client's rights comes before authorization.
        let (Some(name), false) = (name, named && !key.topic_id.is_zero()) else {
            permitted.push(key);
            continue;
        };
        let describes = context.may(Operation::Describe, ResourceType::Topic, &name);
        let absent = image.topic(&name).is_none();
        if describes && (absent || context.may(Operation::Delete, ResourceType::Topic, &name)) {
            permitted.push(key);
            continue;
        }
        if describes {
            key.name = Some(name);
        }
        refused.push((key, Err(ErrorCode::TopicAuthorizationFailed.into())));
    }
    (permitted, refused)
}

/// The error as clients of this version know it.
fn known(version: i16, code: ErrorCode) -> ErrorCode {
    match code {
        ErrorCode::TopicDeletionDisabled if version < DISABLED_VERSION_MIN => ErrorCode::InvalidRequest,
        code => code,
    }
}

/// Kafka's message for an unknown topic.
fn unexplained(code: ErrorCode) -> Option<&'static str> {
    match code {
        ErrorCode::UnknownTopicOrPartition => Some(NOT_HOSTED),
        ErrorCode::UnknownTopicId => Some("This server does not host this topic ID."),
        ErrorCode::TopicAuthorizationFailed => Some("Topic authorization failed."),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn delete_topics_needs_controllers_for_any_unambiguous_key() {
        let key = |name: Option<&str>, topic_id| TopicKey { name: name.map(str::to_owned), topic_id };
        let id = Uuid::from_bytes([3; 16]);
        assert!(names_one(&[key(Some("a"), Uuid::ZERO)]) && names_one(&[key(None, id)]));
        let (both, neither) = (key(Some("a"), id), key(None, Uuid::ZERO));
        let twice = key(Some("b"), Uuid::ZERO);
        assert!(!names_one(&[both.clone(), neither.clone(), twice.clone(), twice.clone()]));
        assert!(names_one(&[both, neither, twice.clone(), twice, key(None, id)]));
    }
}
