//! CreatePartitions (key 37), versions 0–3.
//!
//! Adds partitions to topics; with `validate_only` only says what would happen.

use levada_wire::messages::create_partitions_response::CreatePartitionsTopicResult;
use levada_wire::messages::{CreatePartitionsRequest, CreatePartitionsResponse};

use crate::api::{Context, text};
use crate::metadata::controller::MorePartitions;

pub(crate) async fn answer(context: &Context, request: CreatePartitionsRequest) -> CreatePartitionsResponse {
    let topics = request.topics.into_iter().map(|topic| MorePartitions {
        topic: topic.name.into_string(),
        count: topic.count,
        assignments: topic.assignments.map(|all| all.into_iter().map(|one| one.broker_ids).collect()),
    });
    let created = context.broker().create_partitions(topics.collect(), request.validate_only).await;
    let results = created.into_iter().map(|(name, created)| {
        let mut result = message!(CreatePartitionsTopicResult { name: text(name) });
        if let Err(failure) = created {
            result.error_code = failure.code.code();
            result.error_message = failure.message.map(text);
        }
        result
    });
    message!(CreatePartitionsResponse { results: results.collect() })
}
