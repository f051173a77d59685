//! A data directory: locked while the broker runs, with the checkpoints that describe its state.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use levada_log::checkpoint::{CleanShutdown, MetaProperties, OffsetCheckpoint, PartitionMetadata};
use levada_log::disk::{self, Disk, Kind, is_short};
use levada_log::{Background, FailedWork, FailureWatch, LogError};
use levada_wire::Uuid;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::replica::TopicPartition;
use crate::replica::last_shutdown::{DirectoryAtShutdown, Offsets};

mod acceptance;
mod device;
mod names;
mod strays;

use self::acceptance::Acceptance;
use self::device::is_device_failure;
pub(super) use self::names::Found;
use self::names::aside;
pub(crate) use self::names::partition_of;

/// Kafka's name for the lock file, so that Kafka and Levada keep out of each other's way.
pub(crate) const LOCK_FILE: &str = ".lock";

/// Suffix of the directories of deleted partitions.
pub(crate) const DELETED: &str = "-delete";
pub(crate) const STRAY: &str = "-stray";

/// Suffix of the directories of logs that are being moved here from another directory.
pub(crate) const FUTURE: &str = "-future";

/// The reason why a data directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DataDirError {
    /// The directory itself cannot be used.
    #[error("cannot use data directory {}: {source}", path.display())]
    Unusable {
        /// The directory, or a file in it.
        path: PathBuf,
        /// Error of the operating system.
        source: io::Error,
    },
    /// Another process has locked the directory.
    #[error("data directory {} is in use by another process; stop that process, or choose another directory with -o log.dirs=…", path.display())]
    InUse {
        /// The locked directory.
        path: PathBuf,
    },
    /// Two directories have the same partition.
    #[error(
        "partition {partition} exists in both {} and {}, probably because one failed during a move; \
         remove the copy in the directory that has failed, or the older one",
        one.display(),
        other.display()
    )]
    Twice {
        /// Topic and index of the partition.
        partition: String,
        /// First directory with the partition.
        one: PathBuf,
        /// Second directory with the partition.
        other: PathBuf,
    },
    /// Two directories have one id.
    #[error(
        "{} and {} have the same directory.id in meta.properties; one of them is a copy: take it out of log.dirs",
        one.display(),
        other.display()
    )]
    SameId {
        /// First directory with the id.
        one: PathBuf,
        /// Second directory with the id.
        other: PathBuf,
    },
    /// Each directory is offline.
    #[error("none of the directories of log.dirs can be used ({}): check the disks", listed(dirs))]
    NoneUsable {
        /// Directories that cannot be used.
        dirs: Vec<PathBuf>,
    },
    /// A file in it cannot be read, written or moved.
    #[error(transparent)]
    Log(#[from] LogError),
}

fn listed(dirs: &[PathBuf]) -> String {
    let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
    dirs.join(", ")
}

impl DataDirError {
    /// True if the kernel has refused an operation on the directory.
    pub(super) fn is_of_storage(&self) -> bool {
        matches!(self, Self::Unusable { .. } | Self::Log(LogError::Io { .. }))
    }
}

/// An open data directory.
pub(crate) struct DataDir {
    disk: Arc<dyn Disk>,
    background: Background,
    path: PathBuf,
    /// Hash of each checkpoint that this process has written, by file name.
    stored: Mutex<BTreeMap<&'static str, u64>>,
    /// True if there may be directories whose names are not on the device: those found at the
    /// start, and those made since.
    has_new_names: Mutex<bool>,
    /// True from [`DataDir::begin`] on. Until then nothing is written.
    is_in_use: AtomicBool,
    /// The path in the configuration.
    configured: PathBuf,
    id: OnceLock<Uuid>,
    state: Arc<State>,
    /// A log in it was not closed cleanly.
    unclean: AtomicBool,
    /// Holds the lock; the kernel releases it when the process ends.
    lock: File,
}

/// Receivers of the troubles of directories.
#[derive(Clone, Default)]
pub(crate) struct Troubles {
    /// Notified when a directory has failed; none where only one partition is concerned.
    pub(crate) failures: Option<Arc<Notify>>,
    /// Notified when a directory begins to refuse records.
    pub(crate) refusals: Arc<Notify>,
    /// True if other brokers may lead the partitions of a directory that refuses records.
    pub(crate) has_other_brokers: bool,
}

/// Failure of a directory, which its logs report.
struct State {
    path: PathBuf,
    has_failed: AtomicBool,
    acceptance: Mutex<Acceptance>,
    /// True while the logs of the directory, which share this, accept no records.
    refuses: Arc<AtomicBool>,
    troubles: Troubles,
}

impl State {
    fn report(&self, error: &LogError, work: FailedWork) {
        self.note_refusal(error, work);
        let Some(news) = self.troubles.failures.as_ref().filter(|_| is_device_failure(error)) else { return };
        if !self.has_failed.swap(true, Ordering::AcqRel) {
            let directory = self.path.display();
            tracing::error!(%directory, %error, "log directory failed: its partitions are offline until the next start");
            news.notify_one();
        }
    }
}

impl DataDir {
    /// Creates the directory if it is missing, and locks it without another change.
    pub(crate) fn open(
        (disk, background): (Arc<dyn Disk>, Background),
        configured: &Path,
        troubles: Troubles,
    ) -> Result<Self, DataDirError> {
        let path = configured;
        let failed = |source| DataDirError::Unusable { path: path.to_owned(), source };
        disk.create_dir(path).map_err(failed)?;
        let lock = lock(path)?;
        let path = std::path::absolute(path).map_err(failed)?;
        let state = State {
            path: path.clone(),
            has_failed: AtomicBool::new(false),
            acceptance: Mutex::default(),
            refuses: Arc::default(),
            troubles,
        };
        Ok(Self {
            path,
            configured: configured.to_owned(),
            id: OnceLock::new(),
            state: Arc::new(state),
            unclean: AtomicBool::new(false),
            disk,
            background,
            stored: Mutex::default(),
            has_new_names: Mutex::new(true),
            is_in_use: AtomicBool::new(false),
            lock,
        })
    }

    /// Removes the clean-shutdown marker: from now on the directory counts as in use.
    pub(super) fn begin(&self) -> Result<DirectoryAtShutdown, DataDirError> {
        self.release_reserve();
        let left = self.left(CleanShutdown::take)?;
        self.is_in_use.store(true, Ordering::Release);
        Ok(left)
    }

    /// State of the directory at the last stop. The function does not change the directory.
    pub(super) fn look(&self) -> Result<DirectoryAtShutdown, DataDirError> {
        self.left(CleanShutdown::load)
    }

    fn left(
        &self,
        mark: fn(&dyn Disk, &Path) -> Result<Option<CleanShutdown>, LogError>,
    ) -> Result<DirectoryAtShutdown, DataDirError> {
        let (disk, path) = (&*self.disk, &*self.path);
        let checkpoint = |which| checkpoint(disk, which, path);
        let (recovery_points, log_starts) =
            (checkpoint(OffsetCheckpoint::RecoveryPoint), checkpoint(OffsetCheckpoint::LogStart));
        let (high_watermarks, cleaned) =
            (checkpoint(OffsetCheckpoint::Replication), checkpoint(OffsetCheckpoint::Cleaner));
        let mark = mark(disk, path)?;
        let broker_epoch = mark.map(|mark| mark.broker_epoch).filter(|epoch| *epoch >= 0);
        let clean = mark.is_some();
        Ok(DirectoryAtShutdown { clean, broker_epoch, recovery_points, log_starts, high_watermarks, cleaned })
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The directory as the configuration names it.
    pub(crate) fn configured(&self) -> &Path {
        &self.configured
    }

    /// The directory's id in `meta.properties`; zero before it is known.
    pub(crate) fn id(&self) -> Uuid {
        self.id.get().copied().unwrap_or(Uuid::ZERO)
    }

    pub(super) fn identify_as(&self, id: Uuid) {
        self.id.get_or_init(|| id);
    }

    /// The contents of `meta.properties`.
    pub(super) fn identity(&self) -> Result<Option<MetaProperties>, LogError> {
        MetaProperties::load(&*self.disk, &self.path)
    }

    /// True once its device has failed: nothing is written to it any more.
    pub(crate) fn has_failed(&self) -> bool {
        self.state.has_failed.load(Ordering::Acquire)
    }

    /// Takes the directory out of use if the error is the device's.
    pub(crate) fn report(&self, error: &LogError) {
        self.state.report(error, FailedWork::Other);
    }

    /// True if the file with this path, as the kernel reports it, is in the directory. The kernel's
    /// name of the directory comes from the lock file: a configured path may contain symbolic
    /// links.
    pub(super) fn has_file(&self, path: &Path) -> bool {
        let link = format!("/proc/self/fd/{}", self.lock.as_raw_fd());
        let lock = rustix::fs::readlink(link, Vec::new()).unwrap_or_default();
        let lock = Path::new(OsStr::from_bytes(lock.as_bytes()));
        path.starts_with(&self.path) || lock.parent().is_some_and(|dir| path.starts_with(dir))
    }

    /// Receiver of the failures of the logs in the directory.
    pub(super) fn watch(&self) -> FailureWatch {
        let state = self.state.clone();
        let refuses = state.refuses.clone();
        FailureWatch::new(move |error, work| state.report(error, work), refuses)
    }

    /// Records that a log in the directory was not closed cleanly, or was never opened.
    pub(super) fn note_unclean(&self) {
        self.unclean.store(true, Ordering::Release);
    }

    /// The partitions that have a directory here.
    pub(super) fn partitions(&self) -> Result<Vec<TopicPartition>, DataDirError> {
        let named = self.subdirectories()?.into_iter().filter_map(|path| {
            let (topic, index) = partition_of(path.file_name()?.to_str()?)?;
            Some((topic.to_owned(), index))
        });
        Ok(named.collect())
    }

    fn subdirectories(&self) -> Result<Vec<PathBuf>, DataDirError> {
        let failed = |source| DataDirError::Unusable { path: self.path.clone(), source };
        let entries = self.disk.list(&self.path).map_err(failed)?.into_iter();
        Ok(entries.filter(|entry| entry.kind == Kind::Dir).map(|entry| entry.path).collect())
    }

    /// The id of the topic whose partition the directory holds.
    pub(super) fn topic_id(&self, (topic, index): &TopicPartition) -> Result<Option<Uuid>, LogError> {
        let found = PartitionMetadata::load(&*self.disk, &self.partition(topic, *index))?;
        Ok(found.map(|found| Uuid::from_bytes(found.topic_id)))
    }

    /// The way to the files.
    pub(crate) fn disk(&self) -> &Arc<dyn Disk> {
        &self.disk
    }

    /// The thread that prepares files before they are needed.
    pub(super) fn background(&self) -> &Background {
        &self.background
    }

    /// Directories of partitions whose names end with this suffix, after an id.
    pub(super) fn found(&self, suffix: &str) -> Result<Vec<Found>, DataDirError> {
        Ok(self.subdirectories()?.into_iter().filter_map(|path| Found::of(path, suffix)).collect())
    }

    /// A new name for the copy of a partition's log that is being moved here.
    pub(super) fn new_future(&self, (topic, index): &TopicPartition) -> Found {
        let path = self.path.join(aside(topic, *index, FUTURE));
        Found::of(path, FUTURE).expect("the name was formed here")
    }

    /// The new name of a partition's directory once its copy in another directory may replace it.
    pub(super) fn left_for(&self, future: &Found) -> PathBuf {
        let (topic, index) = &future.key;
        self.path.join(format!("{topic}-{index}.{}{DELETED}", future.unique))
    }

    /// Renames a directory in this one, on the device when it returns. A name may need space: if
    /// there is none, the reserve gives some.
    pub(super) fn rename(&self, from: &Path, to: &Path) -> Result<(), LogError> {
        let renamed = self.try_rename(from, to);
        match &renamed {
            Err(error) if error.source_io().is_some_and(is_short) => {
                self.lend_reserve();
                self.try_rename(from, to)
            }
            _ => renamed,
        }
    }

    fn try_rename(&self, from: &Path, to: &Path) -> Result<(), LogError> {
        let failed = |operation, path: &Path, source| LogError::Io {
            operation,
            path: path.to_owned(),
            source: Arc::new(source),
        };
        self.disk.rename(from, to).map_err(|source| failed("rename", from, source))?;
        self.disk.sync_dir(&self.path).map_err(|source| failed("sync", &self.path, source))
    }

    /// The directory of one partition.
    pub(super) fn partition(&self, topic: &str, index: i32) -> PathBuf {
        self.path.join(format!("{topic}-{index}"))
    }

    /// Removes a partition from the checkpoints. The caller sees to it that no other thread stores
    /// them.
    pub(super) fn forget_offsets(&self, key: &TopicPartition) -> Result<(), LogError> {
        let mut stored = self.stored.lock();
        for which in [
            OffsetCheckpoint::RecoveryPoint,
            OffsetCheckpoint::Replication,
            OffsetCheckpoint::LogStart,
            OffsetCheckpoint::Cleaner,
        ] {
            let mut offsets = checkpoint(&*self.disk, which, &self.path);
            if offsets.remove(key).is_some() {
                stored.remove(which.file_name());
                which.store(&*self.disk, &self.path, &offsets)?;
            }
        }
        Ok(())
    }

    /// Leaves the topic's id in a new partition's directory.
    pub(super) fn identify(&self, topic: &str, index: i32, topic_id: Uuid) -> Result<(), LogError> {
        let dir = self.partition(topic, index);
        if PartitionMetadata::load(&*self.disk, &dir)?.is_some() {
            return Ok(());
        }
        PartitionMetadata { topic_id: topic_id.to_bytes() }.store(&*self.disk, &dir)
    }

    /// True if the partition has a directory.
    pub(super) fn has_partition(&self, topic: &str, index: i32) -> bool {
        self.has_directory(&self.partition(topic, index))
    }

    /// True if a directory of this path exists.
    pub(super) fn has_directory(&self, path: &Path) -> bool {
        self.disk.len(path).is_ok()
    }

    /// True if the partition has no directory for certain.
    pub(super) fn lacks_partition(&self, topic: &str, index: i32) -> bool {
        let found = self.disk.len(&self.partition(topic, index));
        found.is_err_and(|error| error.kind() == io::ErrorKind::NotFound)
    }

    /// Records the creation of a partition's directory, which [`DataDir::sync_names`] must sync.
    pub(super) fn note_new_name(&self) {
        *self.has_new_names.lock() = true;
    }

    /// Waits until the names of all partitions' directories are on the device. Directories that
    /// existed before are not synced again: otherwise the recovery of many partitions would wait
    /// for the device once for each.
    pub(super) fn sync_names(&self) -> Result<(), LogError> {
        // Locked until the end: another thread's directory may be waiting for the same sync.
        let mut has_new_names = self.has_new_names.lock();
        if *has_new_names {
            self.disk.sync_dir(&self.path).map_err(|source| LogError::Io {
                operation: "sync",
                path: self.path.clone(),
                source: Arc::new(source),
            })?;
            *has_new_names = false;
        }
        Ok(())
    }

    /// Replaces a checkpoint, unless it has these offsets already, so that an idle broker does not
    /// write. Synced when this returns. False for a directory that has failed.
    pub(super) fn store(&self, checkpoint: OffsetCheckpoint, offsets: &Offsets) -> Result<bool, LogError> {
        if !self.is_in_use.load(Ordering::Acquire) || self.has_failed() {
            return Ok(false);
        }
        let mut hasher = DefaultHasher::new();
        offsets.hash(&mut hasher);
        let hash = hasher.finish();
        let mut stored = self.stored.lock();
        if stored.get(checkpoint.file_name()) == Some(&hash) {
            return Ok(true);
        }
        // After a failure the state on the device is unknown.
        stored.remove(checkpoint.file_name());
        checkpoint.store(&*self.disk, &self.path, offsets)?;
        stored.insert(checkpoint.file_name(), hash);
        Ok(true)
    }

    /// Writes the marker of a clean stop: every log was closed cleanly. A directory that was not
    /// used stays unchanged.
    pub(super) fn mark_clean(&self, broker_epoch: i64) -> Result<(), LogError> {
        if !self.is_in_use.load(Ordering::Acquire) || self.has_failed() {
            return Ok(());
        }
        if self.unclean.load(Ordering::Acquire) {
            tracing::warn!(directory = %self.path.display(), "the next start recovers the logs: not all were closed cleanly");
            return Ok(());
        }
        CleanShutdown { broker_epoch }.store(&*self.disk, &self.path)
    }
}

/// Reads a checkpoint. An unreadable one is ignored, as in Kafka: without a recovery point the
/// whole log is verified, without a start offset the log begins with its first segment.
fn checkpoint(disk: &dyn Disk, which: OffsetCheckpoint, dir: &Path) -> Offsets {
    which.load(disk, dir).unwrap_or_else(|error| {
        tracing::warn!(%error, "ignored a damaged checkpoint; logs are checked in full, or begin with their first segment");
        Offsets::new()
    })
}

/// Acquires the lock that excludes other processes from a directory; the lock is held for as long
/// as the file is open.
pub(crate) fn lock(dir: &Path) -> Result<File, DataDirError> {
    let path = dir.join(LOCK_FILE);
    let locked = disk::lock(&path).map_err(|source| DataDirError::Unusable { path, source })?;
    locked.ok_or_else(|| DataDirError::InUse { path: dir.to_owned() })
}
