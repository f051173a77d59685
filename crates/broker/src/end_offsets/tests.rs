//! End offsets in responses of other leaders.

use levada_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};

use super::*;

fn topics() -> TopicPartitions {
    [("a".to_owned(), vec![0, 1]), ("b".to_owned(), vec![7])].into()
}

fn topic(name: &str, index: i32, offset: i64, code: ErrorCode) -> ListOffsetsTopicResponse {
    let mut partition = ListOffsetsPartitionResponse::default();
    (partition.partition_index, partition.offset, partition.error_code) = (index, offset, code.code());
    let mut topic = ListOffsetsTopicResponse::default();
    (topic.name, topic.partitions) = (StrBytes::from(name), vec![partition]);
    topic
}

fn check(response: Option<Vec<ListOffsetsTopicResponse>>, expected: [Result<i64, ErrorCode>; 3]) {
    let response = response.map(|topics| {
        let mut response = ListOffsetsResponse::default();
        response.topics = topics;
        response
    });
    let mut known = EndOffsets::new();
    read(topics(), response, &mut known);
    assert_eq!(known.into_values().collect::<Vec<_>>(), expected);
}

#[test]
fn end_offset_requests_go_to_leaders() {
    let request = list_offsets(&topics(), LATEST);
    let asked = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|one| (topic.name.as_str(), one.partition_index, one.timestamp))
    });
    assert_eq!(asked.collect::<Vec<_>>(), [("a", 0, -1), ("a", 1, -1), ("b", 7, -1)]);
    assert_eq!((request.replica_id, request.isolation_level), (-1, 0));
}

#[test]
fn partitions_without_a_response_have_unknown_ends() {
    let unknown = Err(ErrorCode::UnknownTopicOrPartition);
    check(None, [Err(ErrorCode::NetworkException); 3]);
    check(Some(Vec::new()), [unknown; 3]);
    let response = vec![
        topic("a", 0, 5, ErrorCode::None),
        topic("b", 7, -1, ErrorCode::NotLeaderOrFollower),
        topic("c", 1, 9, ErrorCode::None),
    ];
    check(Some(response), [Ok(5), unknown, Err(ErrorCode::NotLeaderOrFollower)]);
}

#[test]
fn responses_without_an_offset_have_no_end() {
    let response = vec![
        topic("a", 0, -1, ErrorCode::None),
        topic("a", 1, 0, ErrorCode::None),
        topic("b", 7, 3, ErrorCode::None),
    ];
    check(Some(response), [Err(ErrorCode::OffsetNotAvailable), Ok(0), Ok(3)]);
}
