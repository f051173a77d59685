//! Errors in answers to old clients.

use levada_wire::Uuid;

use super::*;

#[test]
fn storage_error_becomes_not_leader_for_old_clients() {
    let codes = [ErrorCode::KafkaStorageError, ErrorCode::None, ErrorCode::OffsetOutOfRange];
    let partition =
        |error: ErrorCode| FetchedPartition { error_code: error.code(), ..FetchedPartition::new(0) };
    let mut topics =
        [FetchedTopic { name: "t".into(), topic_id: Uuid::ZERO, partitions: codes.map(partition).to_vec() }];
    hide_storage_errors(&mut topics);
    let told = topics[0].partitions.iter().map(|partition| partition.error_code);
    let expected = [ErrorCode::NotLeaderOrFollower, ErrorCode::None, ErrorCode::OffsetOutOfRange];
    assert_eq!(told.collect::<Vec<_>>(), expected.map(ErrorCode::code));
}
