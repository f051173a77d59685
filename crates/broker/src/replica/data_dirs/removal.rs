//! Removal of the directories of deleted partitions, which a full disk must not prevent.

use std::io;
use std::path::{Path, PathBuf};

use levada_log::checkpoint::PartitionMetadata;
use levada_wire::Uuid;

use super::DataDirs;
use crate::replica::TopicPartition;
use crate::replica::data_dir::partition_of;

/// A directory that is to be removed.
pub(super) struct Unremoved {
    path: PathBuf,
    /// The deleted topic, if the directory has the name of a partition.
    topic_id: Option<Uuid>,
}

impl DataDirs {
    /// Renames a deleted partition's directory and returns the new name, for removal. A directory
    /// that can be neither renamed nor removed is left to [`DataDirs::retry_removals`].
    pub(in crate::replica) fn mark_deleted(&self, key: &TopicPartition) -> Option<PathBuf> {
        let dir = self.of(key).filter(|dir| !dir.has_failed())?;
        let topic_id = dir.topic_id(key).ok().flatten();
        let marked = dir.mark_deleted(&key.0, key.1);
        self.forget(key);
        marked.unwrap_or_else(|error| {
            let path = dir.partition(&key.0, key.1);
            self.note_unremoved(Unremoved { path, topic_id }, &error);
            None
        })
    }

    /// Like [`DataDirs::mark_deleted`], for a partition that may have no directory yet.
    pub(in crate::replica) fn mark_deleted_if_found(&self, key: &TopicPartition) -> Option<PathBuf> {
        let is_there = self.of(key).is_some_and(|dir| dir.has_partition(&key.0, key.1));
        if !is_there {
            self.forget(key);
        }
        is_there.then(|| self.mark_deleted(key)).flatten()
    }

    /// Removes a directory that [`DataDirs::mark_deleted`] returned, or a copy that is not needed.
    pub(crate) fn remove(&self, path: &Path) {
        if let Err(error) = self.first().disk().remove_dir(path) {
            self.note_unremoved(Unremoved { path: path.to_owned(), topic_id: None }, &error);
        }
    }

    /// Notes a directory that could not be removed. One with the name of a partition is that of the
    /// named topic, which is deleted.
    fn note_unremoved(&self, one: Unremoved, error: &io::Error) {
        let directory = one.path.display();
        tracing::warn!(%directory, %error, "cannot remove the files of a deleted partition; the broker retries every few seconds");
        self.unremoved.lock().push(one);
    }

    /// Retries to remove directories that could not be removed. Blocks.
    pub(in crate::replica) fn retry_removals(&self) {
        // Locked until the end: a new log may get the name of a directory that is being removed.
        self.unremoved.lock().retain(|one| !self.is_removed(one));
    }

    /// Removes a directory; false if it is to be retried.
    fn is_removed(&self, one: &Unremoved) -> bool {
        let Some(dir) = self.online().find(|dir| one.path.parent() == Some(dir.path())) else { return true };
        let is_named = one.path.file_name().and_then(|name| partition_of(name.to_str()?)).is_some();
        if is_named {
            // The name may be another topic's by now.
            let Some(topic_id) = one.topic_id else { return true };
            let found = PartitionMetadata::load(&**dir.disk(), &one.path);
            match found.map(|found| found.map(|found| found.topic_id)) {
                Ok(Some(found)) if found == topic_id.to_bytes() => {}
                Ok(_) => return true,
                Err(_) => return false,
            }
        }
        match dir.remove_in_place(&one.path) {
            Ok(()) => {
                tracing::info!(directory = %one.path.display(), "removed the files of a deleted partition");
                true
            }
            Err(error) => error.kind() == io::ErrorKind::NotFound,
        }
    }
}
