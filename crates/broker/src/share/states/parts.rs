//! The parts of requests to share coordinators as messages.

use std::collections::{BTreeMap, HashMap};

use levada_coordination::share_state::request::{
    DeletePart, InitializePart, ReadPart, StatePart, StateSummary, StoredState, SummaryPart, WritePart,
};
use levada_coordination::share_state::{ShareStateError, StateBatch};
use levada_wire::Uuid;
use levada_wire::api::controller::{self, ControllerApi};
use levada_wire::messages::{
    DeleteShareGroupStateRequest, DeleteShareGroupStateResponse, InitializeShareGroupStateRequest,
    InitializeShareGroupStateResponse, ReadShareGroupStateRequest, ReadShareGroupStateResponse,
    ReadShareGroupStateSummaryRequest, ReadShareGroupStateSummaryResponse, RequestResponsePair, StrBytes,
    WriteShareGroupStateRequest, WriteShareGroupStateResponse, delete_share_group_state_request,
    initialize_share_group_state_request, read_share_group_state_request, read_share_group_state_response,
    read_share_group_state_summary_request, read_share_group_state_summary_response,
    write_share_group_state_request,
};

use super::PartResult;

/// A part of a request that may go to another broker.
pub(crate) trait RemotePart: StatePart<Answer: Send> + Clone + Send + 'static {
    /// The API of the requests.
    const API: ControllerApi;

    /// The request message.
    type Request: RequestResponsePair;

    /// The message with these parts.
    fn request(group_id: &str, parts: &[Self]) -> Self::Request;

    /// The results by topic and partition.
    fn results(response: <Self::Request as RequestResponsePair>::Response) -> Results<Self>;
}

/// Results by topic and partition.
type Results<P> = HashMap<(Uuid, i32), PartResult<P>>;

/// Results in the order of the parts. A part that the response does not have may be sent again.
pub(super) fn results<P: RemotePart>(
    parts: &[P],
    response: <P::Request as RequestResponsePair>::Response,
) -> Vec<PartResult<P>> {
    let mut results = P::results(response);
    let missing = || Err(ShareStateError::CoordinatorNotAvailable);
    parts.iter().map(|part| results.remove(&part.place()).unwrap_or_else(missing)).collect()
}

/// Groups the parts by topic id.
fn by_topic<P: StatePart>(parts: &[P]) -> BTreeMap<Uuid, Vec<&P>> {
    let mut topics = BTreeMap::<_, Vec<&P>>::new();
    parts.iter().for_each(|part| topics.entry(part.place().0).or_default().push(part));
    topics
}

/// Implements [`RemotePart`]: the API, the messages, the part of a request from ours, and ours from
/// the part of a response that is no error.
macro_rules! remote_part {
    (
        $part:ty, $api:ident, $request:ident -> $response:ident, $module:ident::$topic:ident,
        |$ours:ident| { $($field:ident: $value:expr),* $(,)? },
        |$answer:ident| $shown:expr
    ) => {
        impl RemotePart for $part {
            const API: ControllerApi = controller::$api;

            type Request = $request;

            fn request(group_id: &str, parts: &[Self]) -> $request {
                let topics = by_topic(parts).into_iter().map(|(topic_id, parts)| {
                    let parts = parts.into_iter().map(|$ours| {
                        let mut part = $module::PartitionData::default();
                        $(part.$field = $value;)*
                        part
                    });
                    let mut topic = $module::$topic::default();
                    (topic.topic_id, topic.partitions) = (topic_id, parts.collect());
                    topic
                });
                let mut request = $request::default();
                (request.group_id, request.topics) = (StrBytes::from(group_id), topics.collect());
                request
            }

            fn results(response: $response) -> Results<Self> {
                let topics = response.results.into_iter();
                let results = topics.flat_map(|topic| {
                    topic.partitions.into_iter().map(move |$answer| {
                        let place = (topic.topic_id, $answer.partition);
                        let result = match $answer.error_code {
                            0 => Ok($shown),
                            code => Err(ShareStateError::of_code(code)),
                        };
                        (place, result)
                    })
                });
                results.collect()
            }
        }
    };
}

remote_part!(
    InitializePart, INITIALIZE_SHARE_GROUP_STATE,
    InitializeShareGroupStateRequest -> InitializeShareGroupStateResponse,
    initialize_share_group_state_request::InitializeStateData,
    |ours| { partition: ours.partition, state_epoch: ours.state_epoch, start_offset: ours.start_offset },
    |part| ()
);

remote_part!(
    ReadPart, READ_SHARE_GROUP_STATE, ReadShareGroupStateRequest -> ReadShareGroupStateResponse,
    read_share_group_state_request::ReadStateData,
    |ours| { partition: ours.partition, leader_epoch: ours.leader_epoch },
    |part| stored(part)
);

remote_part!(
    WritePart, WRITE_SHARE_GROUP_STATE, WriteShareGroupStateRequest -> WriteShareGroupStateResponse,
    write_share_group_state_request::WriteStateData,
    |ours| {
        partition: ours.partition,
        state_epoch: ours.state_epoch,
        leader_epoch: ours.leader_epoch,
        start_offset: ours.start_offset,
        delivery_complete_count: ours.delivery_complete_count,
        state_batches: ours.batches.iter().map(batch_to_send).collect(),
    },
    |part| ()
);

remote_part!(
    DeletePart, DELETE_SHARE_GROUP_STATE, DeleteShareGroupStateRequest -> DeleteShareGroupStateResponse,
    delete_share_group_state_request::DeleteStateData,
    |ours| { partition: ours.partition },
    |part| ()
);

remote_part!(
    SummaryPart, READ_SHARE_GROUP_STATE_SUMMARY,
    ReadShareGroupStateSummaryRequest -> ReadShareGroupStateSummaryResponse,
    read_share_group_state_summary_request::ReadStateSummaryData,
    |ours| { partition: ours.partition, leader_epoch: -1 },
    |part| summary(&part)
);

fn batch_to_send(batch: &StateBatch) -> write_share_group_state_request::StateBatch {
    let mut sent = write_share_group_state_request::StateBatch::default();
    (sent.first_offset, sent.last_offset) = (batch.first_offset, batch.last_offset);
    (sent.delivery_state, sent.delivery_count) = (batch.delivery_state, batch.delivery_count);
    sent
}

fn stored(part: read_share_group_state_response::PartitionResult) -> StoredState {
    let batches = part.state_batches.into_iter().map(|batch| StateBatch {
        first_offset: batch.first_offset,
        last_offset: batch.last_offset,
        delivery_state: batch.delivery_state,
        delivery_count: batch.delivery_count,
    });
    StoredState { state_epoch: part.state_epoch, start_offset: part.start_offset, batches: batches.collect() }
}

fn summary(part: &read_share_group_state_summary_response::PartitionResult) -> StateSummary {
    StateSummary {
        state_epoch: part.state_epoch,
        leader_epoch: part.leader_epoch,
        start_offset: part.start_offset,
        delivery_complete_count: part.delivery_complete_count,
    }
}
