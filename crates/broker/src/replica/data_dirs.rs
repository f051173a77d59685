//! The data directories: the directory of each partition, the directory for new partitions, and
//! failed directories.
//!
//! A new partition goes to the directory with the fewest, as in Kafka, and stays in the directory
//! in which it is found. A directory that cannot be opened, or that fails, is offline until the
//! next start; the others serve.

use std::collections::{BTreeSet, HashMap};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use levada_config::BrokerConfig;
use levada_log::checkpoint::{MetaProperties, OffsetCheckpoint};
use levada_log::disk::Disk;
use levada_log::{Background, LogError};
use levada_metadata::uuid::{LOST_DIRECTORY, is_reserved};
use levada_wire::Uuid;
use parking_lot::Mutex;
use tokio::sync::Notify;

use crate::replica::TopicPartition;
use crate::replica::data_dir::{DataDir, DataDirError, Found, Troubles};
use crate::replica::last_shutdown::{DirectoryAtShutdown, LastShutdown, Offsets};

mod moving;
mod removal;

use self::moving::Traces;
use self::removal::Unremoved;

/// All data directories of a broker.
pub(crate) struct DataDirs {
    /// Opened directories, in the order of the configuration.
    dirs: Vec<DataDir>,
    /// Directories that could not be opened.
    closed: Vec<PathBuf>,
    /// The directory with the metadata log; none in a cluster.
    metadata: Option<usize>,
    homes: Mutex<Homes>,
    /// Second directories of partitions, of another topic of the same name.
    rivals: Mutex<Vec<(TopicPartition, usize)>>,
    /// Copies of logs that were not finished when the previous process ended.
    futures: Mutex<Vec<(Found, usize)>>,
    /// Finished copies that replace their logs with this start.
    complete: Mutex<Vec<(Found, usize)>>,
    /// Partitions that entered service since the last call.
    placed: Mutex<Vec<TopicPartition>>,
    /// Failed directories that the broker has acted on.
    handled: Mutex<BTreeSet<usize>>,
    /// Directories that could not be removed.
    unremoved: Mutex<Vec<Unremoved>>,
    news: Arc<Notify>,
    refusals: Arc<Notify>,
}

/// The directory of each partition, if there are several.
#[derive(Default)]
struct Homes {
    of: HashMap<TopicPartition, usize>,
    counts: Vec<usize>,
    /// Directories that partitions are about to be in.
    arriving: HashMap<TopicPartition, usize>,
    /// Directories for partitions that this broker does not have yet.
    preferred: HashMap<TopicPartition, usize>,
}

impl Homes {
    fn insert(&mut self, key: TopicPartition, at: usize) {
        self.counts[at] += 1;
        if let Some(before) = self.of.insert(key, at) {
            self.counts[before] -= 1;
        }
    }

    fn remove(&mut self, key: &TopicPartition) {
        if let Some(before) = self.of.remove(key) {
            self.counts[before] -= 1;
        }
    }
}

impl DataDirs {
    /// Creates the missing directories of the configuration, and locks all of them; changes nothing
    /// else. Leaves out an unusable directory if there are others, unless it is to contain the
    /// metadata.
    ///
    /// # Errors
    /// A directory that another process has, or that cannot be used and is needed; a partition in
    /// two of them.
    pub(crate) fn open(
        (disk, background): (Arc<dyn Disk>, Background),
        config: &BrokerConfig,
    ) -> Result<Self, DataDirError> {
        let (paths, news) = (&config.log_dirs, Arc::<Notify>::default());
        let several = paths.len() > 1;
        // A broker that is its own controller, with one directory, serves the usable partitions: no
        // other broker could.
        let failures = (several || config.cluster.is_some()).then(|| news.clone());
        let has_other_brokers = config.cluster.is_some();
        let troubles = Troubles { failures, has_other_brokers, ..Troubles::default() };
        let refusals = troubles.refusals.clone();
        let (mut dirs, mut closed, mut metadata) = (Vec::new(), Vec::new(), None);
        let (mut all, mut traces) = (Vec::new(), Vec::new());
        for path in paths {
            let holds_metadata = config.cluster.is_none() && path == config.metadata_dir();
            let opened = DataDir::open((disk.clone(), background.clone()), path, troubles.clone());
            let listed = opened.and_then(|dir| {
                dir.identity()?;
                let found = if several { dir.partitions()? } else { Vec::new() };
                let moving = several.then(|| Traces::of(&dir)).transpose()?;
                Ok((dir, found, moving))
            });
            match listed {
                Ok((dir, found, moving)) => {
                    metadata = if holds_metadata { Some(dirs.len()) } else { metadata };
                    dirs.push(dir);
                    all.push(found);
                    traces.extend(moving);
                }
                Err(error) if holds_metadata || !several || !error.is_of_storage() => return Err(error),
                Err(error) => {
                    tracing::error!(directory = %path.display(), %error, "log directory offline: it cannot be used");
                    closed.push(std::path::absolute(path).unwrap_or_else(|_| path.clone()));
                }
            }
        }
        if dirs.is_empty() {
            return Err(DataDirError::NoneUsable { dirs: closed });
        }
        let homes = Mutex::new(Homes { counts: vec![0; dirs.len()], ..Homes::default() });
        let (rivals, placed, handled) = (Mutex::default(), Mutex::default(), Mutex::default());
        let (futures, complete, unremoved) = (Mutex::default(), Mutex::default(), Mutex::default());
        let opened = Self {
            dirs,
            closed,
            metadata,
            homes,
            rivals,
            futures,
            complete,
            placed,
            handled,
            unremoved,
            news,
            refusals,
        };
        opened.place_found(all)?;
        opened.note_copies(traces);
        Ok(opened)
    }

    fn place_found(&self, all: Vec<Vec<TopicPartition>>) -> Result<(), DataDirError> {
        let mut homes = self.homes.lock();
        for (at, found) in all.into_iter().enumerate() {
            for key in found {
                let Some(earlier) = homes.of.get(&key).copied() else {
                    homes.insert(key, at);
                    continue;
                };
                let ids = (self.dirs[earlier].topic_id(&key)?, self.dirs[at].topic_id(&key)?);
                // One of them may be left of a topic that was deleted.
                if let (Some(one), Some(other)) = ids
                    && one != other
                {
                    self.rivals.lock().push((key, at));
                    continue;
                }
                let [one, other] = [earlier, at].map(|at| self.dirs[at].partition(&key.0, key.1));
                return Err(DataDirError::Twice { partition: format!("{}-{}", key.0, key.1), one, other });
            }
        }
        Ok(())
    }

    /// Sets the ids of the directories; `identity` reads or creates the id of a path.
    ///
    /// # Errors
    /// An error of `identity`, or two directories with one id.
    pub(crate) fn identify<E: From<DataDirError>>(
        &self,
        identity: impl Fn(&Path) -> Result<MetaProperties, E>,
    ) -> Result<(), E> {
        for (at, dir) in self.dirs.iter().enumerate() {
            let id = Uuid::from_bytes(identity(dir.path())?.directory_id);
            if let Some(twin) = self.dirs[..at].iter().find(|other| other.id() == id) {
                let (one, other) = (twin.path().to_owned(), dir.path().to_owned());
                return Err(DataDirError::SameId { one, other }.into());
            }
            dir.identify_as(id);
        }
        Ok(())
    }

    /// Removes the clean-shutdown markers: from now on the directories count as in use.
    pub(crate) fn begin(&self) -> Result<LastShutdown, DataDirError> {
        self.finish_moves()?;
        self.left(DataDir::begin)
    }

    /// True if a directory has the log of a partition, or cannot be read.
    pub(crate) fn have_partitions(&self) -> bool {
        self.has_closed() || self.iter().any(|dir| !dir.partitions().is_ok_and(|found| found.is_empty()))
    }

    /// State of the directories at the last stop. The function does not change them.
    pub(crate) fn look(&self) -> Result<LastShutdown, DataDirError> {
        self.left(DataDir::look)
    }

    fn left(
        &self,
        read: fn(&DataDir) -> Result<DirectoryAtShutdown, DataDirError>,
    ) -> Result<LastShutdown, DataDirError> {
        let read = |(at, dir): (usize, &DataDir)| match read(dir) {
            Err(DataDirError::Log(error)) => {
                self.tolerate(at, error).map(|()| DirectoryAtShutdown::default())
            }
            other => other,
        };
        let left = self.dirs.iter().enumerate().map(read).collect::<Result<Vec<_>, _>>()?;
        let left = LastShutdown::new(left, self.homes.lock().of.clone());
        // The logs of a directory that did not open may not have been closed in good order.
        Ok(if self.has_closed() { left.without_broker_epoch() } else { left })
    }

    /// True if the broker can continue without the directory.
    fn is_dispensable(&self, at: usize) -> bool {
        self.is_several() && self.metadata != Some(at)
    }

    /// True if the configuration names several directories.
    pub(crate) fn is_several(&self) -> bool {
        self.dirs.len() + self.closed.len() > 1
    }

    /// Each directory that was opened.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &DataDir> {
        self.dirs.iter()
    }

    /// Each directory that works.
    pub(crate) fn online(&self) -> impl Iterator<Item = &DataDir> {
        self.dirs.iter().filter(|dir| !dir.has_failed())
    }

    /// Paths of the directories that do not work.
    pub(crate) fn offline(&self) -> impl Iterator<Item = &Path> {
        let failed = self.dirs.iter().filter(|dir| dir.has_failed()).map(DataDir::path);
        self.closed.iter().map(PathBuf::as_path).chain(failed)
    }

    /// True if some directory could not be opened.
    pub(crate) fn has_closed(&self) -> bool {
        !self.closed.is_empty()
    }

    /// The directory with the metadata log, or the first.
    pub(crate) fn first(&self) -> &DataDir {
        &self.dirs[self.metadata.unwrap_or(0)]
    }

    /// The directory of a partition, if it has one.
    pub(super) fn of(&self, key: &TopicPartition) -> Option<&DataDir> {
        if self.is_several() {
            self.homes.lock().of.get(key).map(|at| &self.dirs[*at])
        } else {
            self.dirs.first()
        }
    }

    /// The directory that contains a log.
    pub(super) fn around(&self, log: &levada_log::Partition) -> &DataDir {
        let is_around = |dir: &&DataDir| log.dir().parent() == Some(dir.path());
        self.dirs.iter().find(is_around).unwrap_or(&self.dirs[0])
    }

    /// The directory of a partition: the directory where it was found; for a new partition that of
    /// the metadata, or the directory with the fewest partitions, if possible one that is not
    /// `cordoned`.
    ///
    /// # Errors
    /// The partition is in a directory that is offline.
    pub(super) fn home(
        &self,
        key: &TopicPartition,
        recorded: Uuid,
        cordoned: impl Fn(&Path) -> bool,
    ) -> Result<&DataDir, LogError> {
        if !self.is_several() {
            return Ok(&self.dirs[0]);
        }
        let mut homes = self.homes.lock();
        let offline = |dir: &Path| LogError::Offline { dir: dir.join(format!("{}-{}", key.0, key.1)) };
        let at = match homes.of.get(key) {
            Some(at) => *at,
            None => {
                let named = self.by_id(recorded);
                let was_here = recorded == LOST_DIRECTORY || !is_reserved(recorded);
                if let (None, true, Some(lost)) = (named, was_here, self.closed.first()) {
                    return Err(offline(lost));
                }
                let preferred = homes.preferred.remove(key);
                let at = named.or(preferred).unwrap_or_else(|| self.emptiest(&homes.counts, cordoned));
                homes.insert(key.clone(), at);
                at
            }
        };
        let dir = &self.dirs[at];
        if dir.has_failed() { Err(offline(dir.path())) } else { Ok(dir) }
    }

    fn emptiest(&self, counts: &[usize], cordoned: impl Fn(&Path) -> bool) -> usize {
        let rank = |at: &usize| {
            let dir = &self.dirs[*at];
            (dir.has_failed(), dir.refuses_records(), cordoned(dir.configured()), counts[*at])
        };
        (0..self.dirs.len()).min_by_key(rank).unwrap_or(0)
    }

    /// True if the partition is in a directory that has failed.
    pub(crate) fn is_in_failed(&self, key: &TopicPartition) -> bool {
        self.is_several() && self.of(key).is_some_and(DataDir::has_failed)
    }

    /// Removes the record of the partition's directory.
    pub(super) fn forget(&self, key: &TopicPartition) {
        self.homes.lock().remove(key);
    }

    /// Removes a partition that has left the broker while its directory was offline.
    pub(crate) fn forget_if_failed(&self, key: &TopicPartition) {
        if self.is_in_failed(key) {
            self.forget(key);
        }
    }

    /// Records the directories of served partitions. With a single directory and no cluster, the
    /// metadata always has it.
    pub(super) fn note_placed(&self, keys: &[TopicPartition]) {
        if self.is_several() || self.metadata.is_none() {
            self.placed.lock().extend_from_slice(keys);
        }
    }

    /// Partitions that entered service since the last call, with the ids of their directories.
    pub(crate) fn take_placed(&self) -> Vec<(TopicPartition, Uuid)> {
        let placed = std::mem::take(&mut *self.placed.lock());
        let identified = |key: TopicPartition| self.announced(&key).map(DataDir::id).map(|id| (key, id));
        placed.into_iter().filter_map(identified).collect()
    }

    /// Wakes when a directory has failed.
    pub(crate) fn news(&self) -> &Arc<Notify> {
        &self.news
    }

    /// Wakes when a directory begins to refuse records.
    pub(crate) fn refusals(&self) -> &Arc<Notify> {
        &self.refusals
    }

    /// The directories that refuse records.
    pub(crate) fn refusing(&self) -> impl Iterator<Item = &DataDir> {
        self.online().filter(|dir| dir.refuses_records())
    }

    /// Removes the reserves of disk space: a start and a stop may need the space.
    pub(crate) fn release_reserves(&self) {
        self.dirs.iter().for_each(DataDir::release_reserve);
    }

    /// Directories that failed since the last call.
    pub(super) fn take_failed(&self) -> Vec<&DataDir> {
        let mut handled = self.handled.lock();
        let failed = self.dirs.iter().enumerate().filter(|(_, dir)| dir.has_failed());
        failed.filter_map(|(at, dir)| handled.insert(at).then_some(dir)).collect()
    }

    /// Takes the directory of an unreadable file offline, if the error is one of the device. `path`
    /// is the kernel's name of the file.
    pub(crate) fn report_read(&self, path: &Path, error: &io::Error) {
        let source = error.raw_os_error().map_or_else(|| error.kind().into(), io::Error::from_raw_os_error);
        let error = LogError::Io { operation: "read", path: path.to_owned(), source: Arc::new(source) };
        self.dirs.iter().filter(|dir| dir.has_file(path)).for_each(|dir| dir.report(&error));
    }

    /// True if the broker cannot continue: the directory with the metadata has failed, or all have.
    pub(crate) fn is_hopeless(&self) -> bool {
        self.metadata.is_some_and(|at| self.dirs[at].has_failed()) || self.online().next().is_none()
    }

    /// Finishes interrupted deletions, and moves directories of partitions out of the way that no
    /// `known` topic has, or only one of another id.
    pub(crate) fn quarantine_strays(
        &self,
        known: impl Fn(&str, i32) -> Option<Uuid>,
    ) -> Result<(), DataDirError> {
        for (key, at) in std::mem::take(&mut *self.rivals.lock()) {
            let mut homes = self.homes.lock();
            let Some(earlier) = homes.of.get(&key).copied() else { continue };
            let is_earlier = self.dirs[earlier].topic_id(&key)? == known(&key.0, key.1);
            let stale = &self.dirs[if is_earlier { at } else { earlier }];
            stale.set_stray_aside(&stale.partition(&key.0, key.1), &key.0, key.1)?;
            if !is_earlier {
                homes.insert(key, at);
            }
        }
        for dir in self.online() {
            let is_known = |topic: &str, index| known(topic, index).is_some();
            dir.quarantine_strays(is_known, |key| self.may_be_needed(key))?;
        }
        if self.is_several() {
            let mut homes = self.homes.lock();
            let gone: Vec<_> =
                homes.of.keys().filter(|(topic, index)| known(topic, *index).is_none()).cloned().collect();
            gone.iter().for_each(|key| homes.remove(key));
        }
        Ok(())
    }

    /// Replaces a checkpoint in each directory with the offsets of the partitions that it holds.
    /// False if a directory is out of use.
    ///
    /// # Errors
    /// The first failure. Each is in the log.
    pub(super) fn store(&self, checkpoint: OffsetCheckpoint, offsets: Offsets) -> Result<bool, LogError> {
        let mut shares: Vec<Offsets> = self.dirs.iter().map(|_| Offsets::new()).collect();
        if self.is_several() {
            let homes = self.homes.lock();
            for (key, offset) in offsets {
                for at in [homes.of.get(&key), homes.arriving.get(&key)].into_iter().flatten() {
                    shares[*at].insert(key.clone(), offset);
                }
            }
        } else {
            shares[0] = offsets;
        }
        let (mut is_stored, mut failure) = (true, None);
        for (dir, share) in self.dirs.iter().zip(&shares) {
            match dir.store(checkpoint, share) {
                Ok(is_in_use) => is_stored &= is_in_use,
                Err(error) => {
                    tracing::error!(%error, "cannot write the checkpoint");
                    dir.report(&error);
                    failure.get_or_insert(error);
                }
            }
        }
        failure.map_or(Ok(is_stored), Err)
    }

    /// Leaves the mark of a clean stop in each directory whose logs were closed cleanly.
    pub(super) fn mark_clean(&self, broker_epoch: i64) {
        for dir in &self.dirs {
            if let Err(error) = dir.mark_clean(broker_epoch) {
                tracing::error!(%error, "cannot write the clean-shutdown marker");
            }
        }
    }
}

#[cfg(test)]
mod tests;
