//! Committed offsets: the code that OffsetCommit and TxnOffsetCommit share.

use levada_coordination::group::GroupError;
use levada_coordination::group::request::{CommitTopic, CommittedTopic};
use levada_wire::error_code::ErrorCode;

/// Largest commit, in bytes. A larger one is refused before its records are built, each of which
/// repeats the names of its group and topic. No log accepts as much: `max.message.bytes` of
/// `__consumer_offsets` limits a commit.
const COMMIT_BYTES_MAX: usize = 16 << 20;

/// Refuses commits that are too large for any log.
pub(crate) fn check_size(group_id: &str, topics: &[CommitTopic]) -> Result<(), ErrorCode> {
    let names =
        |topic: &CommitTopic| topic.partitions.len().saturating_mul(group_id.len() + topic.name.len());
    match topics.iter().map(names).fold(0, usize::saturating_add) {
        0..=COMMIT_BYTES_MAX => Ok(()),
        _ => Err(ErrorCode::InvalidCommitOffsetSize),
    }
}

/// One code for each of `count` partitions to commit, in their order.
pub(crate) fn codes(
    committed: Result<Vec<CommittedTopic>, GroupError>,
    count: usize,
    code: impl Fn(Option<GroupError>) -> i16,
) -> Vec<i16> {
    match committed {
        Ok(topics) => {
            let each = topics.into_iter().flat_map(|topic| topic.partitions);
            each.map(|(_, error)| code(error)).collect()
        }
        Err(error) => vec![code(Some(error)); count],
    }
}
