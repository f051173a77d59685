//! AlterReplicaLogDirs (key 34), versions 1–2.
//!
//! Partitions are not moved between directories: one that is in the directory already is moved at
//! once, and another one is refused with UNSUPPORTED_VERSION. As in Kafka, a topic whose name
//! leaves no room for that of the directory that it would move through is refused first.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

use levada_wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use levada_wire::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, StrBytes};

use crate::api::Context;
use crate::error_code::ErrorCode;
use crate::replica::Partition;
use crate::replica::data_dir::DataDir;
use crate::security::acl::Operation;

/// The longest name of a file or directory.
const FILE_NAME_BYTES_MAX: usize = 255;

pub(crate) async fn answer(
    context: &Context,
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse {
    let may = context.may_cluster(Operation::Alter);
    let dirs = context.broker().replicas().dirs();
    let image = context.broker().metadata().image();
    let mut results: BTreeMap<StrBytes, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for dir in request.dirs {
        let own = dirs.online().find(|own| own.path().as_os_str() == dir.path.as_str());
        for topic in dir.topics {
            let name = topic.name.as_str();
            let found = |index| context.broker().replicas().partitions().by_name(name, index);
            let is_there = |found: &Partition| found.log().dir().parent() == own.map(DataDir::path);
            let exists = |index| image.topic(name).is_some_and(|topic| topic.partition(index).is_some());
            // A name may be long and its partitions many: it is looked at for those alone that may
            // be there.
            let verdict = |index: i32| match may {
                false => Some(ErrorCode::ClusterAuthorizationFailed),
                true if is_too_long(name.len(), index) => Some(ErrorCode::InvalidTopic),
                true if own.is_none() => Some(ErrorCode::LogDirNotFound),
                true => match found(index) {
                    Some(found) if is_there(&found) => None,
                    Some(_) => Some(ErrorCode::UnsupportedVersion),
                    None if exists(index) => Some(ErrorCode::KafkaStorageError),
                    None => Some(ErrorCode::UnknownTopicOrPartition),
                },
            };
            let partitions = topic.partitions.iter().map(|index| {
                message!(AlterReplicaLogDirPartitionResult {
                    partition_index: *index,
                    error_code: verdict(*index).map_or(0, |error| error.code()),
                })
            });
            match results.entry(topic.name.clone()) {
                // With room for no more: most topics are named once.
                Entry::Vacant(first) => drop(first.insert(partitions.collect())),
                Entry::Occupied(mut earlier) => earlier.get_mut().extend(partitions),
            }
        }
    }
    let results = results.into_iter().map(|(name, partitions)| {
        message!(AlterReplicaLogDirTopicResult { topic_name: name, partitions: partitions })
    });
    message!(AlterReplicaLogDirsResponse { results: results.collect() })
}

/// True if the directory's name on the way, which Kafka ends with an id of 32 digits and `-future`,
/// would be too long for a file system.
fn is_too_long(topic_bytes: usize, index: i32) -> bool {
    topic_bytes + format!("-{index}.").len() + 32 + "-future".len() > FILE_NAME_BYTES_MAX
}
