//! AlterReplicaLogDirs (key 34), versions 1–2.
//!
//! Version 1 clients are muted after the response (KIP-219), and version 2 is flexible (KIP-482).
//!
//! Each partition moves to the directory in the background; DescribeLogDirs shows the progress. As
//! in Kafka, a partition that is already in the directory stays, a partition on its way elsewhere
//! turns back, and a partition that this broker does not have yet is created there later
//! (REPLICA_NOT_AVAILABLE). A cordoned directory is refused (INVALID_REPLICA_ASSIGNMENT), and so is
//! a topic whose name is too long for the name of the temporary directory of the move.

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::ops::Range;
use std::path::Path;

use bytes::Bytes;
use levada_security::acl::Operation;
use levada_wire::DecodeError;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::alter_replica_log_dirs_request::AlterReplicaLogDir;
use levada_wire::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use levada_wire::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, StrBytes};

use crate::api::{Context, Decoded};
use crate::replica::Replicas;

/// The longest name of a file or directory.
const FILE_NAME_BYTES_MAX: usize = 255;

/// Directories, each with a range of `topics`; each topic has a range of `partitions`.
pub(crate) struct AlterReplicaLogDirs {
    dirs: Vec<(StrBytes, Range<usize>)>,
    topics: Vec<(StrBytes, Range<usize>)>,
    partitions: Vec<i32>,
}

impl Decoded for AlterReplicaLogDirs {
    fn decode(body: Bytes, version: i16) -> Result<Self, DecodeError> {
        let (mut topics, mut partitions) = (Vec::new(), Vec::new());
        let keep = |dir: AlterReplicaLogDir| {
            let first = topics.len();
            topics.extend(dir.topics.into_iter().map(|topic| {
                let first = partitions.len();
                partitions.extend(topic.partitions);
                (topic.name, first..partitions.len())
            }));
            (dir.path, first..topics.len())
        };
        let dirs = levada_wire::decode_all::<AlterReplicaLogDirsRequest, _, _>(body, version, keep)?;
        Ok(Self { dirs, topics, partitions })
    }
}

pub(crate) async fn answer(context: &Context, request: AlterReplicaLogDirs) -> AlterReplicaLogDirsResponse {
    let may = context.may_cluster(Operation::Alter);
    let replicas = context.broker().replicas().clone();
    context.off_shard(move || carry_out(&replicas, may, &request)).await
}

fn carry_out(replicas: &Replicas, may: bool, request: &AlterReplicaLogDirs) -> AlterReplicaLogDirsResponse {
    let mut results: BTreeMap<StrBytes, Vec<AlterReplicaLogDirPartitionResult>> = BTreeMap::new();
    for (path, topics) in &request.dirs {
        for (name, partitions) in &request.topics[topics.clone()] {
            let verdict = |index: i32| {
                if !may {
                    Err(ErrorCode::ClusterAuthorizationFailed)
                } else if is_too_long(name.len(), index) {
                    Err(ErrorCode::InvalidTopic)
                } else {
                    replicas.move_to(name, index, Path::new(path.as_str()))
                }
            };
            let partitions = request.partitions[partitions.clone()].iter().map(|index| {
                message!(AlterReplicaLogDirPartitionResult {
                    partition_index: *index,
                    error_code: verdict(*index).map_or_else(|error| error.code(), |()| 0),
                })
            });
            match results.entry(name.clone()) {
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

/// True if the directory's name during the move, which ends with an id of 32 digits and `-future`,
/// would be too long for a file system.
fn is_too_long(topic_bytes: usize, index: i32) -> bool {
    topic_bytes + format!("-{index}.").len() + 32 + "-future".len() > FILE_NAME_BYTES_MAX
}
