//! Names of the directories of partitions: those in use, and those that are set aside with a suffix
//! and an id.

use std::path::PathBuf;

use levada_metadata::controller::{METADATA_TOPIC, check_topic_name};

use crate::replica::TopicPartition;

/// Longest name that Linux's file systems take, bytes.
const NAME_MAX: usize = 255;

/// A directory whose name has a suffix and an id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::replica) struct Found {
    pub(in crate::replica) key: TopicPartition,
    /// The id: 32 digits, the same for both directories of a log that moves.
    pub(in crate::replica) unique: String,
    pub(in crate::replica) path: PathBuf,
}

impl Found {
    pub(super) fn of(path: PathBuf, suffix: &str) -> Option<Self> {
        let (name, unique) = path.file_name()?.to_str()?.strip_suffix(suffix)?.rsplit_once('.')?;
        let is_id = unique.len() == 32 && unique.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (topic, index) = partition_of(name).filter(|_| is_id)?;
        let (key, unique) = ((topic.to_owned(), index), unique.to_owned());
        Some(Self { key, unique, path })
    }
}

/// `name` of topic `t` and partition 3 is `t-3`; none for names that are not of a partition, or of
/// the metadata log.
pub(crate) fn partition_of(name: &str) -> Option<(&str, i32)> {
    let (topic, index) = name.rsplit_once('-')?;
    let index = index.parse().ok()?;
    (check_topic_name(topic).is_ok() && topic != METADATA_TOPIC).then_some((topic, index))
}

/// A name that no partition has, unique for each call, as Kafka forms it; topics may have the
/// longest name that fits a directory, so theirs is cut.
pub(super) fn aside(topic: &str, index: i32, suffix: &str) -> String {
    let unique = ::uuid::Uuid::new_v4().simple().to_string();
    let room = NAME_MAX - unique.len() - suffix.len() - index.to_string().len() - 2;
    let topic = &topic[..topic.len().min(room)];
    format!("{topic}-{index}.{unique}{suffix}")
}
