//! End offsets in responses of other leaders.

use levada_wire::messages::list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};

use super::*;

fn topics() -> TopicPartitions {
    [("a".to_owned(), vec![0, 1]), ("b".to_owned(), vec![7])].into()
}

#[test]
fn end_offset_requests_go_to_leaders() {
    let request = list_offsets(&topics());
    let asked = request.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|one| (topic.name.as_str(), one.partition_index, one.timestamp))
    });
    assert_eq!(asked.collect::<Vec<_>>(), [("a", 0, -1), ("a", 1, -1), ("b", 7, -1)]);
    assert_eq!((request.replica_id, request.isolation_level), (-1, 0));
}

#[test]
fn partitions_without_a_response_have_unknown_ends() {
    let of = |name: &str, index: i32, offset: i64, code: ErrorCode| {
        message!(ListOffsetsTopicResponse {
            name: name.into(),
            partitions: vec![message!(ListOffsetsPartitionResponse {
                partition_index: index,
                offset: offset,
                error_code: code.code(),
            })],
        })
    };
    let responses = [
        (None, [Err(ErrorCode::NetworkException); 3]),
        (Some(Vec::new()), [Err(ErrorCode::UnknownTopicOrPartition); 3]),
        (
            Some(vec![
                of("a", 0, 5, ErrorCode::None),
                of("b", 7, -1, ErrorCode::NotLeaderOrFollower),
                of("c", 1, 9, ErrorCode::None),
            ]),
            [Ok(5), Err(ErrorCode::UnknownTopicOrPartition), Err(ErrorCode::NotLeaderOrFollower)],
        ),
    ];
    for (topics_in_response, expected) in responses {
        let response = topics_in_response.map(|topics| message!(ListOffsetsResponse { topics: topics }));
        let mut known = EndOffsets::new();
        read(topics(), response, &mut known);
        assert_eq!(known.into_values().collect::<Vec<_>>(), expected);
    }
}
