//! Directories of partitions that leave the broker, or that the metadata does not have.

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use levada_log::LogError;
use levada_log::checkpoint::PartitionMetadata;
use levada_log::disk::{Kind, is_short};
use levada_wire::Uuid;

use super::names::aside;
use super::{DELETED, DataDir, DataDirError, Found, STRAY, partition_of};
use crate::replica::TopicPartition;

impl DataDir {
    /// Moves a directory that belongs to an older topic of the same name out of the way; true if
    /// there was one.
    pub(in crate::replica) fn displace_stale(
        &self,
        topic: &str,
        index: i32,
        topic_id: Uuid,
    ) -> Result<bool, LogError> {
        let dir = self.partition(topic, index);
        match PartitionMetadata::load(&*self.disk, &dir)? {
            Some(found) if found.topic_id != topic_id.to_bytes() => {
                self.set_aside(&dir, topic, index).map(|()| true)
            }
            _ => Ok(false),
        }
    }

    pub(in crate::replica) fn set_aside(&self, dir: &Path, topic: &str, index: i32) -> Result<(), LogError> {
        let stray = self.path.join(aside(topic, index, STRAY));
        tracing::warn!(directory = %dir.display(), moved_to = %stray.display(), "the metadata does not contain this partition");
        self.disk.rename(dir, &stray).map_err(|source| LogError::Io {
            operation: "move aside",
            path: dir.to_owned(),
            source: Arc::new(source),
        })
    }

    /// Renames a deleted partition's directory, for removal; the next start removes it otherwise. A
    /// directory that cannot be renamed is removed immediately: on a full disk there may be no
    /// space for the new name.
    pub(in crate::replica) fn mark_deleted(&self, topic: &str, index: i32) -> io::Result<Option<PathBuf>> {
        let (dir, doomed) = (self.partition(topic, index), self.path.join(aside(topic, index, DELETED)));
        let Err(error) = self.disk.rename(&dir, &doomed) else { return Ok(Some(doomed)) };
        tracing::warn!(directory = %dir.display(), %error, "cannot rename the directory of a deleted partition; it is removed in place");
        self.remove_in_place(&dir).map(|()| None)
    }

    /// Removes the directory of a partition, the file that names its topic last: after an
    /// interrupted removal the file still names the topic.
    pub(in crate::replica) fn remove_in_place(&self, dir: &Path) -> io::Result<()> {
        for entry in self.disk.list(dir)? {
            if entry.path.file_name() != Some(OsStr::new(PartitionMetadata::FILE_NAME)) {
                let is_dir = entry.kind == Kind::Dir;
                if is_dir { self.disk.remove_dir(&entry.path)? } else { self.disk.remove(&entry.path)? }
            }
        }
        self.disk.remove_dir(dir)
    }

    /// Finishes interrupted deletions, and moves the directories of partitions that are not `known`
    /// (left by a crash amid a deletion, or foreign) out of the way, as Kafka does.
    pub(in crate::replica) fn quarantine_strays(
        &self,
        known: impl Fn(&str, i32) -> bool,
        is_kept: impl Fn(&TopicPartition) -> bool,
    ) -> Result<(), DataDirError> {
        let failed = |source| DataDirError::Unusable { path: self.path.clone(), source };
        for path in self.subdirectories()? {
            let own = path.file_name().and_then(|name| partition_of(name.to_str()?));
            if let Some(Found { key, .. }) = Found::of(path.clone(), DELETED) {
                if !(known(&key.0, key.1) && is_kept(&key)) {
                    self.disk.remove_dir(&path).map_err(failed)?;
                }
            } else if let Some((topic, index)) = own.filter(|(topic, index)| !known(topic, *index))
                && self.holds_partition(&path)
            {
                self.set_stray_aside(&path, topic, index)?;
            }
        }
        Ok(())
    }

    /// Like [`DataDir::set_aside`]. A full disk may have no space for the new name: the directory
    /// keeps its name, and a later topic of that name has another id.
    pub(in crate::replica) fn set_stray_aside(
        &self,
        dir: &Path,
        topic: &str,
        index: i32,
    ) -> Result<(), LogError> {
        match self.set_aside(dir, topic, index) {
            Err(error)
                if error.source_io().is_some_and(is_short)
                    && self.topic_id(&(topic.to_owned(), index))?.is_some() =>
            {
                tracing::warn!(%error, "the next start of the broker moves the directory aside");
                Ok(())
            }
            other => other,
        }
    }

    /// True if a directory has files of a partition, or none. Others may have such names too.
    fn holds_partition(&self, path: &Path) -> bool {
        let files = self.disk.list(path).unwrap_or_default();
        let mut names = files.iter().filter_map(|file| file.path.file_name()?.to_str());
        files.is_empty() || names.any(|name| name == PartitionMetadata::FILE_NAME || name.ends_with(".log"))
    }
}
