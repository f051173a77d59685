//! DescribeLogDirs (key 35), versions 1–5.
//!
//! Version 2 is flexible (KIP-482), 3 has an error for the whole response (KIP-784), 4 sizes of
//! volumes (KIP-827), and 5 cordoned directories (KIP-1066).
//!
//! Returns the data directories: the size of each requested partition (null: all), from version 4
//! on the size of the volume and the free space on it, and from version 5 on whether it is
//! cordoned. A directory that is offline has only an error; a directory that refuses records has an
//! error in addition to its data. A partition on its way to a directory is listed there with
//! `is_future_key` and the number of missing offsets.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use levada_metadata::features::METADATA_VERSION;
use levada_security::acl::Operation;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use levada_wire::messages::{DescribeLogDirsRequest, DescribeLogDirsResponse};

use crate::api::{Context, text};
use crate::replica::data_dir::DataDir;
use crate::replica::{MoveView, Partition};

const VOLUME_VERSION_MIN: i16 = 4;
const CORDONED_VERSION_MIN: i16 = 5;
/// First `metadata.version` (4.3-IV0) with cordoned directories.
const CORDONED_LEVEL_MIN: i16 = 30;
/// First version with an error for the whole request.
const ERROR_VERSION_MIN: i16 = 3;

pub(crate) async fn answer(context: &Context, request: DescribeLogDirsRequest) -> DescribeLogDirsResponse {
    if !context.may_cluster(Operation::Describe) {
        let told = context.version() >= ERROR_VERSION_MIN;
        let error = if told { ErrorCode::ClusterAuthorizationFailed } else { ErrorCode::None };
        return message!(DescribeLogDirsResponse { error_code: error.code() });
    }
    let asked = request.topics.as_ref().map(|topics| {
        let mut asked: HashMap<&str, HashSet<i32>> = HashMap::new();
        for topic in topics {
            asked.entry(topic.topic.as_str()).or_default().extend(&topic.partitions);
        }
        asked
    });
    let is_asked = |topic: &str, index: i32| match &asked {
        None => true,
        Some(asked) => asked.get(topic).is_some_and(|indexes| indexes.contains(&index)),
    };
    let replicas = context.broker().replicas();
    let mut asked_for = replicas.partitions().all();
    asked_for.retain(|partition| is_asked(partition.topic(), partition.index()));
    let online = replicas.dirs().online().map(|dir| {
        let mut coming = replicas.moves().to(dir.path());
        coming.retain(|one| is_asked(&one.topic, one.index));
        online(context, dir, (&asked_for, coming))
    });
    let offline = replicas.dirs().offline().map(|path| {
        let mut result = message!(DescribeLogDirsResult { error_code: ErrorCode::KafkaStorageError.code() });
        result.log_dir = text(path.display().to_string());
        result
    });
    message!(DescribeLogDirsResponse { results: online.chain(offline).collect() })
}

fn online(
    context: &Context,
    dir: &DataDir,
    (asked_for, coming): (&[Arc<Partition>], Vec<MoveView>),
) -> DescribeLogDirsResult {
    let mut topics: BTreeMap<String, Vec<DescribeLogDirsPartition>> = BTreeMap::new();
    for partition in asked_for.iter().filter(|one| one.log().dir().parent() == Some(dir.path())) {
        topics.entry(partition.topic().to_owned()).or_default().push(message!(DescribeLogDirsPartition {
            partition_index: partition.index(),
            partition_size: i64::try_from(partition.log().size_bytes()).unwrap_or(i64::MAX),
        }));
    }
    for one in coming {
        topics.entry(one.topic).or_default().push(message!(DescribeLogDirsPartition {
            partition_index: one.index,
            partition_size: i64::try_from(one.size_bytes).unwrap_or(i64::MAX),
            offset_lag: one.lag,
            is_future_key: true,
        }));
    }
    let topics = topics.into_iter().map(|(name, mut partitions)| {
        partitions.sort_unstable_by_key(|partition| partition.partition_index);
        message!(DescribeLogDirsTopic { name: text(name), partitions: partitions })
    });
    let mut result = message!(DescribeLogDirsResult { topics: topics.collect() });
    result.log_dir = text(dir.path().display().to_string());
    if dir.refuses_records() {
        result.error_code = ErrorCode::KafkaStorageError.code();
    }
    result.is_cordoned = context.version() >= CORDONED_VERSION_MIN && is_cordoned(context, dir);
    if context.version() >= VOLUME_VERSION_MIN {
        match rustix::fs::statvfs(dir.path()) {
            Ok(volume) => {
                let bytes = |blocks: u64| i64::try_from(blocks.saturating_mul(volume.f_frsize));
                result.total_bytes = bytes(volume.f_blocks).unwrap_or(i64::MAX);
                result.usable_bytes = bytes(volume.f_bavail).unwrap_or(i64::MAX);
            }
            Err(_) => result.error_code = ErrorCode::KafkaStorageError.code(),
        }
    }
    result
}

/// True if the controllers know that the directory takes no new replicas: metadata of earlier
/// versions has no cordoned directories.
fn is_cordoned(context: &Context, dir: &DataDir) -> bool {
    let image = context.broker().metadata().image();
    let level = image.features().get(METADATA_VERSION).copied().unwrap_or(0);
    level >= CORDONED_LEVEL_MIN && context.broker().config().is_cordoned(dir.configured())
}
