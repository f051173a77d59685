//! Identity files: `meta.properties` of a data directory, `partition.metadata` of a partition.

use std::path::Path;

use levada_base::{IdBytes, id_text, parse_id};

use super::{Replacement, Rights, lines, replace};
use crate::LogError;
use crate::disk::Disk;

/// `partition.metadata`: which topic a partition's directory belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartitionMetadata {
    /// Id of the topic.
    pub topic_id: IdBytes,
}

impl PartitionMetadata {
    /// The file's name in a partition's directory.
    pub const FILE_NAME: &'static str = "partition.metadata";

    /// Replaces the file. Syncs it and its directory; blocks.
    ///
    /// # Errors
    /// A failing disk.
    pub fn store(&self, disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
        replace(disk, &dir.join(Self::FILE_NAME), self.text().as_bytes(), Rights::Writable)
    }

    /// Writes the file for a caller that publishes it, and syncs it with others if at all.
    ///
    /// # Errors
    /// A failing disk.
    pub fn prepare<'a>(&self, disk: &'a dyn Disk, dir: &Path) -> Result<Replacement<'a>, LogError> {
        Replacement::write(disk, &dir.join(Self::FILE_NAME), self.text().as_bytes(), Rights::Writable)
    }

    fn text(&self) -> String {
        format!("version: 0\ntopic_id: {}", id_text(self.topic_id))
    }

    /// Reads the file, `None` if there is none, or none with content.
    ///
    /// # Errors
    /// A failing disk, or a file of another kind.
    pub fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, LogError> {
        let path = dir.join(Self::FILE_NAME);
        let Some(text) = lines::read_content(disk, &path)? else { return Ok(None) };
        let damaged = |detail: &str| LogError::corrupt(&path, detail);
        if value_of(&text, "version", ':') != Some("0") {
            return Err(damaged("version is not 0"));
        }
        let id = value_of(&text, "topic_id", ':').ok_or_else(|| damaged("there is no topic_id"))?;
        let topic_id = parse_id(id).ok_or_else(|| damaged(&format!("{id:?} is not an id")))?;
        Ok(Some(Self { topic_id }))
    }
}

/// `meta.properties`, version 1: the identity of a data directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaProperties {
    /// Id of the cluster.
    pub cluster_id: String,
    /// Id of the broker.
    pub node_id: i32,
    /// Id of the directory, or [`MetaProperties::NO_ID`].
    pub directory_id: IdBytes,
}

impl MetaProperties {
    /// The file's name in a data directory.
    pub const FILE_NAME: &'static str = "meta.properties";

    /// The id of a directory whose file has none, as Kafka before 3.7 writes it.
    pub const NO_ID: IdBytes = [0; 16];

    /// Replaces the file. Syncs it and its directory; blocks.
    ///
    /// # Errors
    /// A failing disk.
    pub fn store(&self, disk: &dyn Disk, dir: &Path) -> Result<(), LogError> {
        let Self { cluster_id, node_id, directory_id } = self;
        let directory_id = id_text(*directory_id);
        let text =
            format!("cluster.id={cluster_id}\ndirectory.id={directory_id}\nnode.id={node_id}\nversion=1\n");
        replace(disk, &dir.join(Self::FILE_NAME), text.as_bytes(), Rights::Writable)
    }

    /// Reads the file, `None` if there is none. Comments and unknown keys are passed over.
    ///
    /// # Errors
    /// A failing disk, or a file of another version.
    pub fn load(disk: &dyn Disk, dir: &Path) -> Result<Option<Self>, LogError> {
        let path = dir.join(Self::FILE_NAME);
        let Some(text) = lines::read_text(disk, &path)? else { return Ok(None) };
        let value = |key: &str| {
            value_of(&text, key, '=').ok_or_else(|| LogError::corrupt(&path, format!("there is no {key}")))
        };
        let damaged = |detail: String| LogError::corrupt(&path, detail);
        match value("version")? {
            "1" => {}
            "0" => return Err(LogError::Format { path, reason: ZOOKEEPER }),
            version => return Err(damaged(format!("version is {version:?}, not 1"))),
        }
        let cluster_id = value("cluster.id")?.to_owned();
        let node_id = value("node.id")?.parse().map_err(|_| damaged("node.id is not a number".to_owned()))?;
        let directory_id = match value_of(&text, "directory.id", '=') {
            Some(id) => parse_id(id).ok_or_else(|| damaged(format!("{id:?} is not an id")))?,
            None => Self::NO_ID,
        };
        Ok(Some(Self { cluster_id, node_id, directory_id }))
    }
}

const ZOOKEEPER: &str = "version=0 is the format of a Kafka broker of a ZooKeeper cluster; migrate the cluster to KRaft with Kafka 3.9 first, or name an empty directory in log.dirs";

fn value_of<'a>(text: &'a str, key: &str, separator: char) -> Option<&'a str> {
    let pairs =
        text.lines().filter(|line| !line.starts_with('#')).filter_map(|line| line.split_once(separator));
    pairs.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).next_back()
}
