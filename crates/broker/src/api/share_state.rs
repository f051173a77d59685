//! Requests about the state of share groups (keys 83 to 87). Each names partitions of one group,
//! which belong to several coordinators.
//!
//! Checks ClusterAction. A request without a group id or without topics gets an empty response, as
//! in Kafka.

use std::collections::BTreeMap;

use levada_coordination::share_state::request::{StatePart, StateRequest};
use levada_coordination::share_state::{ShareKey, ShareStateError};
use levada_security::acl::Operation;
use levada_wire::Uuid;
use levada_wire::error_code::{ErrorCode, error_code};
use levada_wire::messages::StrBytes;

use crate::api::{Context, text};

/// The response to a request that changes states: an error code and a message for each part.
macro_rules! changed {
    ($responses:ident => $response:ident, $topic:ident, $partition:ident) => {{
        let results = $responses.into_iter().map(|(topic_id, partitions)| {
            let partitions = partitions.into_iter().map(|(partition, response)| {
                let (error_code, error_message) = response.err().unwrap_or_default();
                message!($partition {
                    partition: partition,
                    error_code: error_code,
                    error_message: error_message,
                })
            });
            message!($topic { topic_id: topic_id, partitions: partitions.collect() })
        });
        message!($response { results: results.collect() })
    }};
}
pub(super) use changed;

/// The response to one part: a result, or an error code and message.
pub(super) type PartResponse<A> = Result<A, (i16, Option<StrBytes>)>;

/// The partitions of a request by topic, in its order.
pub(super) type TopicParts<P> = Vec<(Uuid, Vec<P>)>;

/// Sends each part to the coordinator of its key; returns the responses in the order of the parts.
pub(super) async fn ask<P: StatePart>(
    context: &Context,
    group_id: &str,
    topics: TopicParts<P>,
) -> Vec<(Uuid, Vec<(i32, PartResponse<P::Answer>)>)> {
    if group_id.trim().is_empty() {
        return Vec::new();
    }
    let places: Vec<(Uuid, Vec<i32>)> = topics
        .iter()
        .map(|(topic, parts)| (*topic, parts.iter().map(|part| part.place().1).collect()))
        .collect();
    let parts: Vec<P> = topics.into_iter().flat_map(|(_, parts)| parts).collect();
    let mut responses = if context.may_cluster(Operation::ClusterAction) {
        let answers = ask_coordinators(context, group_id, parts).await.into_iter();
        answers.map(|answer| answer.map_err(explained)).collect()
    } else {
        let message = || Some(text("Cluster authorization failed."));
        let refused = || Err((ErrorCode::ClusterAuthorizationFailed.code(), message()));
        parts.iter().map(|_| refused()).collect::<Vec<_>>()
    }
    .into_iter();
    let topics = places.into_iter().map(|(topic, partitions)| {
        // As many responses as parts.
        (topic, partitions.into_iter().zip(&mut responses).collect())
    });
    topics.collect()
}

async fn ask_coordinators<P: StatePart>(
    context: &Context,
    group_id: &str,
    parts: Vec<P>,
) -> Vec<Result<P::Answer, ShareStateError>> {
    let shares = context.broker().coordinators().share_states();
    let mut by_coordinator: BTreeMap<Option<i32>, (Vec<usize>, Vec<P>)> = BTreeMap::new();
    let count = parts.len();
    for (place, part) in parts.into_iter().enumerate() {
        let (topic_id, partition) = part.place();
        let key = ShareKey { group_id: group_id.into(), topic_id, partition };
        let (places, parts) = by_coordinator.entry(shares.partition_of(&key.to_string())).or_default();
        places.push(place);
        parts.push(part);
    }
    let submitted: Vec<_> = by_coordinator
        .into_iter()
        .map(|(index, (places, parts))| {
            let request = StateRequest::new(group_id, parts);
            (places, shares.submit_at(index, request, ShareStateError::NotCoordinator))
        })
        .collect();
    let mut answers: Vec<_> = (0..count).map(|_| Err(ShareStateError::UnknownServerError)).collect();
    for (places, answer) in submitted {
        for (place, answer) in places.into_iter().zip(answer.await) {
            answers[place] = answer;
        }
    }
    answers
}

fn explained(error: ShareStateError) -> (i16, Option<StrBytes>) {
    (error_code(Some(error)), Some(text(error.to_string())))
}
