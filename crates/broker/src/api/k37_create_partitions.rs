//! CreatePartitions (key 37), versions 0–3.
//!
//! Adds partitions to topics; with `validate_only` only says what would happen.
//! `controller_mutation_rate` counts them; in version 3 a topic beyond it is refused, before that
//! its client is muted.

use levada_wire::messages::create_partitions_response::CreatePartitionsTopicResult;
use levada_wire::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

use crate::api::changes::log_change;
use crate::api::{Context, text};
use crate::error_code::{ErrorCode, Failure};
use crate::metadata::controller::MorePartitions;
use crate::security::acl::{Operation, ResourceType};

const STRICT_QUOTA_VERSION_MIN: i16 = 3;

pub(crate) async fn answer(context: &Context, request: CreatePartitionsRequest) -> CreatePartitionsResponse {
    let may = |name: &str| context.may(Operation::Alter, ResourceType::Topic, name);
    let (topics, forbidden): (Vec<_>, Vec<_>) =
        request.topics.into_iter().partition(|topic| may(topic.name.as_str()));
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
    let throttle_time_ms = context.mute_for(quota.wait());
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
    message!(CreatePartitionsResponse { throttle_time_ms: throttle_time_ms, results: results.collect() })
}
