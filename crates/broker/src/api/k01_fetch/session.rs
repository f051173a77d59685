//! The fetch session of a request: merges the session's partitions into the request, and removes
//! unchanged partitions from the response.

use std::sync::Arc;

use levada_process::clock::steady_ms;
use levada_wire::error_code::ErrorCode;
use levada_wire::fetch::{FetchPartition, FetchRequest, FetchResponse, FetchTopic, FetchedPartition};
use levada_wire::gather::HoleLen;
use levada_wire::messages::StrBytes;

use crate::api::{Context, TOPIC_ID_VERSION_MIN};
use crate::fetch_session::{
    Continued, FetchSession, PartitionKey, PartitionState, REFUSED_MAX, SessionPlan, SessionRequest,
    SessionTopic,
};

/// Effect of the response on the session.
pub(super) enum After {
    /// The response is sent unchanged.
    Nothing,
    /// The response opens a session for these partitions.
    Open(Vec<(PartitionKey, FetchPartition)>),
    /// The response omits unchanged partitions.
    Prune(Continued),
}

/// Finds the request's session and adds the partitions of the session to the request.
pub(super) fn begin(context: &Context, request: &mut FetchRequest) -> Result<After, ErrorCode> {
    // Versions without sessions, and most clients that use no session.
    if request.session_id == 0 && request.session_epoch == -1 {
        return Ok(After::Nothing);
    }
    let by_id = context.version() >= TOPIC_ID_VERSION_MIN;
    let asked = SessionRequest { session_id: request.session_id, epoch: request.session_epoch, by_id };
    let forgotten = request.forgotten.iter().flat_map(|topic| {
        let key = key(&topic.name, topic.topic_id, by_id);
        topic.partitions.iter().map(move |index| (key.clone(), *index))
    });
    let forgotten: Vec<PartitionKey> = forgotten.collect();
    let plan = {
        let mut sessions = context.broker().fetch_sessions();
        sessions.begin(asked, || wanted(request, by_id), &forgotten, steady_ms())?
    };
    Ok(match plan {
        SessionPlan::Sessionless => After::Nothing,
        SessionPlan::Open => After::Open(wanted(request, by_id)),
        SessionPlan::Continue(mut continued) => {
            continued.take_partitions();
            request.topics = topics(&continued.wanted);
            After::Prune(continued)
        }
    })
}

/// Opens the session, or omits partitions from the response that have not changed for the client.
pub(super) fn finish<H: HoleLen>(
    context: &Context,
    (after, is_follower): (After, bool),
    response: &mut FetchResponse<H>,
) {
    match after {
        After::Nothing => {}
        After::Open(_) if has_too_many_refused(response, is_follower) => {}
        After::Open(wanted) => {
            let answered = response.topics.iter().flat_map(|topic| &topic.partitions).map(seen);
            let told = wanted.into_iter().zip(answered).map(|((key, wanted), seen)| (key, wanted, seen));
            let session = FetchSession::of(context.version() >= TOPIC_ID_VERSION_MIN, told.collect());
            let random_id = || rand::random_range(1..=i32::MAX);
            let owner = context.session().requester();
            let mut sessions = context.broker().fetch_sessions();
            response.session_id = sessions.open(&owner, session, random_id, steady_ms());
        }
        After::Prune(continued) => {
            response.session_id = continued.session_id;
            if has_too_many_refused(response, is_follower) {
                // The client's next request opens another session or none.
                context.broker().fetch_sessions().remove(continued.session_id);
            }
            prune(&continued, response);
        }
    }
}

/// True if a response has more partitions that the client may not read, or that do not exist, than
/// a session may have. The metadata of a leader may be older than that of its followers.
fn has_too_many_refused<H: HoleLen>(response: &FetchResponse<H>, is_follower: bool) -> bool {
    let is_refused = |partition: &&FetchedPartition<H>| match ErrorCode::of_code(partition.error_code) {
        Some(ErrorCode::TopicAuthorizationFailed) => true,
        Some(ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId | ErrorCode::InvalidTopic) => {
            !is_follower
        }
        _ => false,
    };
    response.topics.iter().flat_map(|topic| &topic.partitions).filter(is_refused).count() > REFUSED_MAX
}

/// An empty response, which makes the client repeat the request later.
pub(super) fn postpone<H>(after: &After, response: &mut FetchResponse<H>) {
    response.topics.clear();
    if let After::Prune(continued) = after {
        response.session_id = continued.session_id;
    }
}

fn prune<H: HoleLen>(continued: &Continued, response: &mut FetchResponse<H>) {
    let answered = response.topics.iter().flat_map(|topic| &topic.partitions).map(seen);
    let answered: Vec<_> = continued.wanted.iter().map(|(key, _)| key.clone()).zip(answered).collect();
    match continued.finish(&answered) {
        Ok(told) => {
            let mut told = told.into_iter();
            for topic in &mut response.topics {
                topic.partitions.retain(|_| told.next().unwrap_or(true));
            }
            response.topics.retain(|topic| !topic.partitions.is_empty());
        }
        Err(error) => {
            response.error_code = error.code();
            response.topics.clear();
        }
    }
}

fn seen<H: HoleLen>(partition: &FetchedPartition<H>) -> PartitionState {
    PartitionState {
        high_watermark: partition.high_watermark,
        log_start: partition.log_start_offset,
        has_records: partition.records.as_ref().is_some_and(|records| records.len() > 0),
        urgent: partition.diverging_epoch.is_some() || partition.preferred_read_replica >= 0,
        failed: partition.error_code != 0,
    }
}

fn wanted(request: &FetchRequest, by_id: bool) -> Vec<(PartitionKey, FetchPartition)> {
    let wanted = request.topics.iter().flat_map(|topic| {
        let key = key(&topic.name, topic.topic_id, by_id);
        topic.partitions.iter().map(move |one| ((key.clone(), one.index), one.clone()))
    });
    wanted.collect()
}

/// A copy of the name: the original would keep the request's frame alive.
fn key(name: &StrBytes, topic_id: levada_wire::Uuid, by_id: bool) -> SessionTopic {
    if by_id { SessionTopic::Id(topic_id) } else { SessionTopic::Name(Arc::from(name.as_str())) }
}

/// Groups adjacent partitions of one topic, as in the request of a client.
fn topics(wanted: &[(PartitionKey, FetchPartition)]) -> Vec<FetchTopic> {
    let mut topics: Vec<FetchTopic> = Vec::new();
    let mut last = None;
    for ((key, _), partition) in wanted {
        if last != Some(key) {
            topics.push(match key {
                SessionTopic::Name(name) => FetchTopic { name: (&**name).into(), ..FetchTopic::default() },
                SessionTopic::Id(topic_id) => FetchTopic { topic_id: *topic_id, ..FetchTopic::default() },
            });
            last = Some(key);
        }
        topics.last_mut().expect("one was pushed just now").partitions.push(partition.clone());
    }
    topics
}
