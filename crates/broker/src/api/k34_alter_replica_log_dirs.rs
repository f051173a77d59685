//! AlterReplicaLogDirs (key 34), versions 1–2.
//!
//! Each partition moves to the directory in the background; DescribeLogDirs shows how far it is. As
//! in Kafka, one that is there already is left as it is, one that is on its way elsewhere turns
//! round, and one that is not here yet goes there when it comes (REPLICA_NOT_AVAILABLE). A topic
//! whose name leaves no room for that of the directory that it would move through is refused.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::path::Path;

use levada_wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use levada_wire::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, StrBytes};

use crate::api::Context;
use crate::blocking::off_shard;
use crate::error_code::ErrorCode;
use crate::replica::Replicas;
use crate::security::acl::Operation;

/// The longest name of a file or directory.
const FILE_NAME_BYTES_MAX: usize = 255;

pub(crate) async fn answer(
    context: &Context,
    request: AlterReplicaLogDirsRequest,
) -> AlterReplicaLogDirsResponse {
    let may = context.may_cluster(Operation::Alter);
    let replicas = context.broker().replicas().clone();
    off_shard(move || carry_out(&replicas, may, request)).await
}

fn carry_out(replicas: &Replicas, may: bool, request: AlterReplicaLogDirsRequest) -> AlterReplicaLogDirsResponse {
    let mut results: BTreeMap<StrBytes, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for dir in request.dirs {
        for topic in dir.topics {
            let name = topic.name.as_str();
            let verdict = |index: i32| match may {
                false => Err(ErrorCode::ClusterAuthorizationFailed),
                true if is_too_long(name.len(), index) => Err(ErrorCode::InvalidTopic),
                true => replicas.move_to(name, index, Path::new(dir.path.as_str())),
            };
            let partitions = topic.partitions.iter().map(|index| {
                message!(AlterReplicaLogDirPartitionResult {
                    partition_index: *index,
                    error_code: verdict(*index).map_or_else(|error| error.code(), |()| 0),
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

/// True if the directory's name on the way, which ends with an id of 32 digits and `-future`, would
/// be too long for a file system.
fn is_too_long(topic_bytes: usize, index: i32) -> bool {
    topic_bytes + format!("-{index}.").len() + 32 + "-future".len() > FILE_NAME_BYTES_MAX
}
