//! The metadata log on disk, and the only place where the state of the cluster changes.
//!
//! [`Store::open`] formats a new directory, replays an old one, and begins a new leader epoch.
//! [`Store::update`] makes a change: decide on the current image, append one batch, wait for the
//! disk, apply, publish. A change is visible only after it is safe. All of this blocks; it belongs
//! on a thread that may. See `docs/format/cluster-metadata.md`.

mod change;
mod directories;
mod files;
mod format;
mod inspect;
mod replay;
mod shorten;
mod snapshot;
mod takeover;
#[cfg(test)]
mod tests;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arc_swap::ArcSwap;
use levada_log::LogError;
use levada_log::checkpoint::MetaProperties;
use levada_log::disk::Disk;
use levada_log::journal::Journal;
use levada_wire::primitives::Uuid;

use self::shorten::Since;
use self::snapshot::{control_batch, metadata_batch};
use super::controller::Decision;
use super::image::{ApplyError, Image, Position, Replay};
use super::records::control::{ControlRecord, LeaderChange, VoterEndpoint};
use super::records::{self, AbortTransactionRecord, Record, RecordError, UserScramCredentialRecord};

pub use levada_log::journal::TornTail;

pub use self::inspect::{Contents, inspect};
pub use self::shorten::{DueSnapshot, StoreLimits};
pub use self::snapshot::BOOTSTRAP;
pub use self::takeover::objections;

/// The metadata log's directory within the log directory.
pub const METADATA_DIR: &str = "__cluster_metadata-0";

/// Parameters of a store.
#[derive(Clone, Debug)]
pub struct StoreOptions {
    /// Access to files.
    pub disk: Arc<dyn Disk>,
    /// The log directory; created if it does not exist.
    pub dir: PathBuf,
    /// Id of this node.
    pub node_id: i32,
    /// The cluster's id; `None` takes the directory's, or a random one if it is new.
    pub cluster_id: Option<String>,
    /// Endpoint of a controller on this node: recorded as the quorum's only voter.
    pub controller: VoterEndpoint,
    /// `min.insync.replicas`, recorded when a cluster begins, as Kafka does.
    pub min_insync_replicas: i32,
    /// The cluster's first users; only [`Store::format`] records them.
    pub users: Vec<UserScramCredentialRecord>,
    /// Intervals of snapshots, and retention.
    pub limits: StoreLimits,
    /// Ids of the node's other log directories; `None` if some are not known.
    pub others: Option<Vec<Uuid>>,
    /// The node's other log directories.
    pub other_dirs: Vec<PathBuf>,
    /// True if the node reads and writes remote storage.
    pub serves_tiers: bool,
}

/// The contents of the metadata log, and the right to change them. One per process and directory.
#[derive(Debug)]
pub struct Store {
    disk: Arc<dyn Disk>,
    identity: MetaProperties,
    path: PathBuf,
    journal: Journal,
    epoch: i32,
    quorum: replay::Quorum,
    limits: StoreLimits,
    since: Since,
    replay: Replay,
    published: Images,
}

/// Result of opening a store.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenReport {
    /// True if the directory was new and has been formatted.
    pub formatted: bool,
    /// True if no broker has started on the directory before.
    pub unused: bool,
    /// Number of records replayed, control records included.
    pub records: u64,
    /// Part that was truncated from the end of the log.
    pub torn: Option<TornTail>,
    /// The reason why the latest snapshot was not read, but an older one and the log after that.
    pub passed_over: Option<String>,
    /// The metadata leader epoch that began.
    pub epoch: i32,
}

/// Reads the published image from any thread, without a lock.
#[derive(Clone, Debug)]
pub struct Images(Arc<ArcSwap<Image>>);

impl Images {
    /// A handle to one fixed image; for tests of code that reads images.
    pub fn fixed(image: Image) -> Self {
        Self(Arc::new(ArcSwap::from_pointee(image)))
    }

    /// The present image. It never changes; later changes are in later images.
    pub fn current(&self) -> Arc<Image> {
        self.0.load_full()
    }
}

impl Store {
    /// Opens the metadata log of a directory, which it formats if it is new; begins a new epoch.
    pub fn open(options: &StoreOptions, now_ms: i64) -> Result<(Self, OpenReport), StoreError> {
        let (disk, dir, node_id) = (&options.disk, &options.dir, options.node_id);
        disk.create_dir(dir).map_err(|source| StoreError::io("create", dir, source))?;
        let mut report = OpenReport::default();
        let identity = match MetaProperties::load(&**disk, dir)? {
            Some(identity) => identity,
            // A directory with metadata but without an identity has an unknown owner: never format
            // it.
            None if format::is_used(&**disk, dir) => {
                return Err(StoreError::Unidentified { dir: dir.clone() });
            }
            None => {
                report.formatted = true;
                format::format(options, now_ms)?
            }
        };
        check_owner(dir, &identity, (node_id, options.cluster_id.as_deref()))?;
        let path = dir.join(METADATA_DIR);
        disk.create_dir(&path).map_err(|source| StoreError::io("create", &path, source))?;
        let loaded = replay::load(disk, &path, options.limits.segment())?;
        report.records = loaded.records;
        report.torn.clone_from(&loaded.torn);
        report.passed_over = loaded.passed_over.as_ref().map(ToString::to_string);
        loaded.quorum.check_alone(&path, identity.node_id)?;
        let (image, others) = (loaded.replay.image(), options.others.as_deref());
        takeover::check(dir, image, (&identity, others), options.serves_tiers)?;
        let known = takeover::with_id(&identity, || takeover::former_id(image, node_id, others));
        let identity = directories::keep_id(&**disk, dir, (&identity, known))?;
        let quorum_epoch = files::read_quorum_epoch(&**disk, &path)?;
        let last = quorum_epoch.max(loaded.epochs.last().map_or(0, |(epoch, _)| *epoch));
        let used_up = || StoreError::damaged(&path, format!("no leader epoch is left after {last}"));
        let epoch = last.checked_add(1).ok_or_else(used_up)?;
        report.epoch = epoch;
        let is_new = loaded.replay.image().features().is_empty();
        report.unused = is_new;
        if is_new {
            refuse_partitions(&path, options)?;
        }
        let mut store = Self {
            disk: disk.clone(),
            identity,
            path,
            journal: loaded.journal,
            epoch,
            quorum: loaded.quorum,
            limits: options.limits,
            since: Since { bytes: loaded.bytes, at_ms: now_ms },
            replay: loaded.replay,
            published: Images::fixed(Image::empty()),
        };
        store.begin_epoch(loaded.epochs, now_ms)?;
        if is_new {
            store.append(&format::first_change(options)?, now_ms)?;
        }
        if store.replay.in_transaction() {
            // A crash left half of a change: it never happened.
            let reason = Some("failover".to_owned());
            store.append(&[AbortTransactionRecord { reason }.into()], now_ms)?;
        }
        store.publish();
        Ok((store, report))
    }

    /// Gives a directory its identity and an empty metadata log.
    ///
    /// # Errors
    /// A directory that is formatted or contains unknown files; a failing disk.
    pub fn format(options: &StoreOptions, now_ms: i64) -> Result<MetaProperties, StoreError> {
        check_unformatted(&*options.disk, &options.dir)?;
        format::format(options, now_ms)
    }

    /// Gives a directory, without a metadata log, the identity of a broker in this cluster.
    ///
    /// # Errors
    /// Same as [`Store::format`].
    pub fn format_member(
        disk: &dyn Disk,
        dir: &Path,
        (cluster_id, node_id): (&str, i32),
    ) -> Result<MetaProperties, StoreError> {
        check_unformatted(disk, dir)?;
        format::format_member(disk, dir, (cluster_id, node_id))
    }

    /// Identity of the directory.
    pub fn identity(&self) -> &MetaProperties {
        &self.identity
    }

    /// A handle through which any thread reads the current image.
    pub fn images(&self) -> Images {
        self.published.clone()
    }

    /// The image as of the last change.
    pub fn image(&self) -> &Image {
        self.replay.image()
    }

    /// Makes one change: `decide` sees the current image and the offset that its first record will
    /// have. When this returns, the change is on the disk and published. If the disk is full, or
    /// descriptors or memory for a new file are lacking, the change was not made. After any other
    /// storage error the content of the disk is unknown, and the store refuses further changes.
    pub fn update<T>(
        &mut self,
        now_ms: i64,
        decide: impl FnOnce(&Image, i64) -> Decision<T>,
    ) -> Result<T, StoreError> {
        if self.journal.is_in_doubt() {
            return Err(StoreError::Broken { path: self.path.clone() });
        }
        let Decision { records, outcome } = decide(self.replay.image(), self.journal.end_offset());
        if !records.is_empty() {
            self.append(&records, now_ms)?;
            self.publish();
        }
        Ok(outcome)
    }

    /// Writes records, in as many batches as needed, and applies them as the next start would read
    /// them; an error leaves the image unchanged.
    fn append(&mut self, records: &[Record], now_ms: i64) -> Result<(), StoreError> {
        let mut offset = self.journal.end_offset();
        // First on a copy: a batch that contradicts the image must not reach the log.
        let mut replay = self.replay.clone();
        let mut batches = Vec::new();
        let level = change::level(Some(self.replay.image()), records);
        for values in change::split(records, level)? {
            batches.push(metadata_batch(&self.path, &values, offset, self.epoch, now_ms)?);
            for value in values {
                let position = Position { offset, epoch: self.epoch, timestamp_ms: now_ms };
                let (record, _) = records::decode(value).map_err(StoreError::Unencodable)?;
                replay
                    .push(record, position)
                    .map_err(|source| StoreError::Contradiction { offset, source })?;
                offset += 1;
            }
        }
        self.journal.append(&batches)?;
        assert_eq!(self.journal.end_offset(), offset, "every record of a change has its offset");
        self.since.bytes += batches.iter().map(|batch| batch.len() as u64).sum::<u64>();
        self.replay = replay;
        Ok(())
    }

    fn append_control(&mut self, records: &[ControlRecord], now_ms: i64) -> Result<(), StoreError> {
        let batch = control_batch(&self.path, records, self.journal.end_offset(), self.epoch, now_ms)?;
        self.journal.append(&[batch])?;
        let offset = self.journal.end_offset() - 1;
        self.replay.skip(Position { offset, epoch: self.epoch, timestamp_ms: now_ms });
        Ok(())
    }

    fn publish(&self) {
        self.published.0.store(Arc::new(self.replay.image().clone()));
    }

    /// Begins an epoch with a leader change; the first one of a new log also contains the quorum's
    /// voters.
    fn begin_epoch(&mut self, mut epochs: Vec<(i32, i64)>, now_ms: i64) -> Result<(), StoreError> {
        let quorum = self.quorum.clone();
        let node_id = self.identity.node_id;
        let start = self.journal.end_offset();
        let mut records = vec![ControlRecord::LeaderChange(LeaderChange {
            leader_id: node_id,
            voters: vec![node_id],
            granting_voters: vec![node_id],
        })];
        if start == 0 && quorum.kraft_version >= 1 {
            records.push(ControlRecord::KRaftVersion(quorum.kraft_version));
            records.push(ControlRecord::Voters(quorum.voters.clone()));
        }
        epochs.push((self.epoch, start));
        let leader = files::Leader { node_id, epoch: self.epoch, kraft_version: quorum.kraft_version };
        // Before the epoch's first batch: should a crash come between, the next epoch is another
        // one.
        files::write_leadership(&*self.disk, &self.path, leader, &epochs)?;
        self.append_control(&records, now_ms)
    }
}

/// Creates the directory if it is missing, and refuses a directory that is formatted or has logs.
fn check_unformatted(disk: &dyn Disk, dir: &Path) -> Result<(), StoreError> {
    disk.create_dir(dir).map_err(|source| StoreError::io("create", dir, source))?;
    if MetaProperties::load(disk, dir)?.is_some() {
        return Err(StoreError::Formatted { dir: dir.to_owned() });
    }
    if format::is_used(disk, dir) { Err(StoreError::Unidentified { dir: dir.to_owned() }) } else { Ok(()) }
}

/// Refuses directories with partitions of topics whose metadata is lost: a new cluster would not
/// have the topics.
fn refuse_partitions(log: &Path, options: &StoreOptions) -> Result<(), StoreError> {
    let mut dirs = std::iter::once(&options.dir).chain(&options.other_dirs);
    match dirs.find_map(|dir| format::partition_with_log(&*options.disk, dir)) {
        Some(partition) => Err(StoreError::Lost { log: log.to_owned(), partition }),
        None => Ok(()),
    }
}

fn check_owner(
    dir: &Path,
    identity: &MetaProperties,
    (node_id, cluster_id): (i32, Option<&str>),
) -> Result<(), StoreError> {
    let differs = |what: &'static str, found: &str, wanted: &str| {
        Err(StoreError::OtherOwner {
            dir: dir.to_owned(),
            what,
            found: found.to_owned(),
            wanted: wanted.to_owned(),
        })
    };
    if identity.node_id != node_id {
        return differs("node.id", &identity.node_id.to_string(), &node_id.to_string());
    }
    match cluster_id {
        Some(wanted) if wanted != identity.cluster_id => differs("cluster.id", &identity.cluster_id, wanted),
        _ => Ok(()),
    }
}

/// Error of the store, by origin: the disk, its contents, or the change.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// A file cannot be read or written, or is invalid.
    #[error(transparent)]
    File(#[from] LogError),
    /// The log contradicts itself, or the change contradicts the log.
    #[error("metadata record at offset {offset}: {source}")]
    Contradiction {
        /// Offset of the record.
        offset: i64,
        /// Reason why the record cannot be applied.
        source: ApplyError,
    },
    /// A change has more records than the log takes; nothing was changed.
    #[error(
        "the change takes {bytes} bytes, more than the metadata log's limit of {limit}; split the request"
    )]
    TooLarge {
        /// The size of the change, or of its largest record.
        bytes: usize,
        /// Maximum, bytes.
        limit: usize,
    },
    /// A record cannot be written.
    #[error(transparent)]
    Unencodable(RecordError),
    /// The directory belongs to another node.
    #[error("{} has {what} {found}, but {wanted} is configured", dir.display())]
    OtherOwner {
        /// Directory that belongs to the other node.
        dir: PathBuf,
        /// The id that differs.
        what: &'static str,
        /// Id that the directory has.
        found: String,
        /// Id that is configured.
        wanted: String,
    },
    /// The directory of the metadata is new, and another one is not.
    #[error(
        "data directory {} is to hold the metadata log but is not formatted, while {} is; name the directory with __cluster_metadata-0 \
         first in log.dirs, or in metadata.log.dir",
        dir.display(),
        other.display()
    )]
    MetadataElsewhere {
        /// The directory that is to hold the metadata.
        dir: PathBuf,
        /// The directory that is formatted.
        other: PathBuf,
    },
    /// A second directory has a metadata log.
    #[error(
        "{} has a metadata log, but {} is to hold it; name the right one in metadata.log.dir, and move \
         __cluster_metadata-0 out of the other",
        other.display(),
        dir.display()
    )]
    SecondMetadata {
        /// The directory that is to hold the metadata.
        dir: PathBuf,
        /// Directory that also has a metadata log.
        other: PathBuf,
    },
    /// There are partitions, but no metadata of any topic.
    #[error(
        "the metadata log {} is empty, but partition {} has records: the metadata of the topics is lost; restore the metadata log from a copy, \
         or move the directories of all partitions away to begin a new cluster",
        log.display(),
        partition.display()
    )]
    Lost {
        /// The directory of the metadata log.
        log: PathBuf,
        /// A directory of a partition.
        partition: PathBuf,
    },
    /// The directory has logs but no `meta.properties`.
    #[error(
        "{} has logs but no meta.properties; restore the file, or move the directory away to start with an empty one",
        dir.display()
    )]
    Unidentified {
        /// Directory without the file.
        dir: PathBuf,
    },
    /// The directory of a broker in a cluster has no identity.
    #[error(
        "data directory {} is not formatted; format it with the id of the cluster (cluster.id in meta.properties of the controllers): \
         levada storage format --cluster-id ID, with the configuration of this broker",
        dir.display()
    )]
    Unformatted {
        /// Directory without an identity.
        dir: PathBuf,
    },
    /// The directory of a broker without a cluster is used for a cluster.
    #[error(
        "{} is the directory of a broker that is its own controller; to join a cluster, name an empty directory in \
         log.dirs, or set process.roles=broker,controller to run without the cluster",
        dir.display()
    )]
    Alone {
        /// Directory of the broker without a cluster.
        dir: PathBuf,
    },
    /// The directory is already formatted.
    #[error("{} is already formatted", dir.display())]
    Formatted {
        /// Directory that is formatted already.
        dir: PathBuf,
    },
    /// Another program or version left contents that this version cannot serve; nothing was
    /// changed.
    #[error("cannot take over {}: {objections}", dir.display())]
    Foreign {
        /// Directory with the contents.
        dir: PathBuf,
        /// Reasons for the refusal, joined.
        objections: String,
    },
    /// The metadata log belongs to a quorum that this node cannot lead alone.
    #[error("{} belongs to a quorum with the voters {voters:?}; this node cannot lead it alone", path.display())]
    Quorum {
        /// Path of the metadata log.
        path: PathBuf,
        /// The quorum's voters.
        voters: Vec<i32>,
    },
    /// An earlier storage error left the log in an unknown state.
    #[error("an earlier write to {} failed; restart the broker before the next change", path.display())]
    Broken {
        /// Path of the metadata log.
        path: PathBuf,
    },
}

impl StoreError {
    fn io(operation: &'static str, path: &Path, source: io::Error) -> Self {
        LogError::io(operation, path, source).into()
    }

    fn damaged(path: &Path, detail: impl Into<String>) -> Self {
        LogError::corrupt(path, detail).into()
    }
}
