//! CreatePartitions (key 37), versions 0–3.
//!
//! Version 1 clients are muted after the response (KIP-219), version 2 is flexible (KIP-482), and 3
//! may be refused because of a quota (KIP-599).
//!
//! Adds partitions to topics; with `validate_only` only checks the request. With a timeout of 0 or
//! less nothing is added (REQUEST_TIMED_OUT, as from Kafka's controllers).
//! `controller_mutation_rate` counts the partitions. In version 3 a topic beyond the rate is
//! refused; up to version 2 the client is muted instead.

use std::collections::HashMap;

use levada_metadata::controller::MorePartitions;
use levada_security::acl::{Operation, ResourceType};
use levada_wire::error_code::{ErrorCode, Failure};
use levada_wire::messages::create_partitions_request::CreatePartitionsTopic;
use levada_wire::messages::create_partitions_response::CreatePartitionsTopicResult;
use levada_wire::messages::{CreatePartitionsRequest, CreatePartitionsResponse, StrBytes};

use crate::api::changes::log_change;
use crate::api::forwarding::Refusable;
use crate::api::{Context, text};

const STRICT_QUOTA_VERSION_MIN: i16 = 3;

pub(crate) async fn answer(context: &Context, request: CreatePartitionsRequest) -> CreatePartitionsResponse {
    let may = |name: &str| context.may(Operation::Alter, ResourceType::Topic, name);
    let permitted: Vec<bool> = request.topics.iter().map(|topic| may(topic.name.as_str())).collect();
    if request.timeout_ms <= 0 && names_one(&request.topics, &permitted) {
        return request.refuse_late(context.version());
    }
    let mut permitted = permitted.into_iter();
    let (topics, forbidden): (Vec<_>, Vec<_>) =
        request.topics.into_iter().partition(|_| permitted.next() == Some(true));
    let forbidden = forbidden
        .into_iter()
        .map(|topic| (topic.name.into_string(), Err(Failure::from(ErrorCode::TopicAuthorizationFailed))));
    let topics = topics.into_iter().map(|topic| MorePartitions {
        topic: topic.name.into_string(),
        count: topic.count,
        assignments: topic.assignments.map(|all| all.into_iter().map(|one| one.broker_ids).collect()),
    });
    let quota = context.mutation_quota(STRICT_QUOTA_VERSION_MIN);
    let (topics, validate_only) = (topics.collect(), request.validate_only);
    let created = context.broker().controller().create_partitions(topics, quota.clone(), validate_only).await;
    context.mute_for(quota.wait());
    let image = context.broker().metadata().image();
    let results = created.into_iter().chain(forbidden).map(|(name, created)| {
        if created.is_ok() && !request.validate_only {
            let partitions = image.topic(&name).map(|topic| topic.partition_count());
            log_change!(context, "partitions added", topic = name.as_str(), partitions,);
        }
        let mut result = message!(CreatePartitionsTopicResult { name: text(name) });
        if let Err(failure) = created {
            result.error_code = failure.code.code();
            result.error_message = failure.message.map(text);
        }
        result
    });
    message!(CreatePartitionsResponse { results: results.collect() })
}

/// True if the request names, once, a topic that the client may extend: otherwise the broker itself
/// refuses all topics.
fn names_one(topics: &[CreatePartitionsTopic], permitted: &[bool]) -> bool {
    let mut times: HashMap<&StrBytes, usize> = HashMap::new();
    topics.iter().for_each(|topic| *times.entry(&topic.name).or_default() += 1);
    topics.iter().zip(permitted).any(|(topic, permitted)| *permitted && times.get(&topic.name) == Some(&1))
}
