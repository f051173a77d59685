//! Opening a partition's directory: finds its segments, and after a crash checks all batches beyond
//! the recovery point, truncates torn or damaged data, and rebuilds indexes, producers and epochs.

use std::cmp::Reverse;
use std::collections::BTreeSet;
use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::disk::{At, Disk, Kind, remove_if_there};
use crate::epochs::Epochs;
use crate::producers::{Producers, snapshot};
use crate::segment::{Segment, file_name};
use crate::{LogError, OFFSET_MAX, OpenOptions, ReadError, Tiering};

mod check;
mod claims;
mod leftovers;
mod reindex;
mod state;
#[cfg(test)]
mod tests;

pub use claims::{Evidence, Shortfall};
pub use reindex::Reindexed;

/// Highest end of a log that can be opened. A log that begins at a checkpoint's offset never
/// reaches it, and from here no append overflows.
const END_MAX: i64 = OFFSET_MAX / 2 * 3;

/// Result of opening a partition.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// Part that was truncated from the end of the log, if any.
    pub cut: Option<TruncatedTail>,
    /// Records that the directory claims and the log lacks, if any.
    pub shortfall: Option<Shortfall>,
    /// Base offsets of segments, other than the last one, that are missing or empty although their
    /// indexes have entries.
    pub gaps: Vec<i64>,
    /// Bytes of log that were read and checked.
    pub checked_bytes: u64,
    /// Number of segments whose indexes were built again.
    pub rebuilt_segments: usize,
}

/// Bytes that were no whole, intact batch, and all that followed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncatedTail {
    /// File of the segment.
    pub path: PathBuf,
    /// Position in the file at which the log ends now.
    pub position: u64,
    /// The log's end offset now.
    pub offset: i64,
    /// Number of removed bytes.
    pub bytes: u64,
}

impl OpenReport {
    /// True if nothing had to be repaired.
    pub fn is_clean(&self) -> bool {
        self.cut.is_none() && self.rebuilt_segments == 0
    }
}

/// A partition's parts, ready for use.
pub(crate) struct Opened {
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) epochs: Epochs,
    /// Epochs as their file has them.
    pub(crate) stored_epochs: Epochs,
    pub(crate) producers: Producers,
    pub(crate) report: OpenReport,
    pub(crate) log_start: i64,
    pub(crate) log_end: i64,
    pub(crate) snapshot_at: i64,
    pub(crate) created: bool,
}

/// The known file names in a partition's directory.
#[derive(Debug, Default)]
struct Listing {
    bases: BTreeSet<i64>,
    snapshots: BTreeSet<i64>,
    offset_indexes: BTreeSet<i64>,
    time_indexes: BTreeSet<i64>,
    txn_indexes: BTreeSet<i64>,
}

/// State of a recovery.
struct Recovery<'a> {
    options: &'a OpenOptions,
    now_ms: i64,
    listing: Listing,
    segments: Vec<Arc<Segment>>,
    epochs: Epochs,
    producers: Producers,
    /// The offset of the snapshot from which the producers were loaded, -1 for none.
    snapshot_at: i64,
    /// The largest end of the log for which there is evidence other than checkpoints.
    claimed: Option<(i64, Evidence)>,
    report: OpenReport,
}

/// Opens the log that `options` describe; see [`crate::Writer::open`].
pub(crate) fn open(options: &OpenOptions, now_ms: i64) -> Result<Opened, LogError> {
    let (disk, dir) = (&*options.disk, &*options.dir);
    if options.log_start > OFFSET_MAX {
        let detail = format!("its log start offset is {}, which no log reaches", options.log_start);
        return Err(LogError::corrupt(dir, detail));
    }
    if disk.list(dir).is_err_and(|error| error.kind() == io::ErrorKind::NotFound) {
        disk.create_dir(dir).at("create", dir)?;
    }
    leftovers::clear(disk, dir)?;
    let mut recovery = Recovery::new(options, Listing::read(disk, dir)?, now_ms);
    recovery.claim_by_names()?;
    recovery.remove_orphans()?;
    let created = recovery.listing.bases.is_empty();
    recovery.load_segments()?;
    recovery.end_at_hole()?;
    let stored_epochs = recovery.load_epochs()?;
    recovery.epochs = stored_epochs.clone();
    recovery.claim_by_contents()?;
    let mut log_end = recovery.recover()?;
    if options.log_start > log_end {
        // All that is left was deleted before the crash; its offsets are not given out again.
        recovery.start_over(options.log_start)?;
        log_end = options.log_start;
    }
    recovery.report.shortfall = recovery.shortfall(log_end);
    if let Some(next) = recovery.next_unused(log_end) {
        recovery.continue_at(log_end, next)?;
        log_end = next;
    }
    if log_end > END_MAX {
        let last = recovery.segments.last().map_or(dir, |segment| segment.path());
        return Err(LogError::corrupt(last, format!("it ends at offset {log_end}, which no log reaches")));
    }
    recovery.epochs.truncate_end(log_end);
    let first = match options.config.tiering {
        Tiering::Local => recovery.segments.first().map_or(0, |segment| segment.base()),
        Tiering::Copied | Tiering::ReadOnly => 0,
    };
    let log_start = options.log_start.clamp(first, log_end);
    recovery.epochs.truncate_start(log_start);
    recovery.producers.expire(now_ms, options.config.producer_id_expiration_ms);
    recovery.remove_snapshots(log_end)?;
    let Recovery { segments, epochs, producers, snapshot_at, report, .. } = recovery;
    Ok(Opened {
        segments,
        epochs,
        stored_epochs,
        producers,
        report,
        log_start,
        log_end,
        snapshot_at,
        created,
    })
}

/// The producers of a log that has just been truncated to `log_end`, and the offset of the snapshot
/// from which they were loaded.
pub(crate) fn producers_at(
    options: &OpenOptions,
    segments: &[Arc<Segment>],
    log_end: i64,
    now_ms: i64,
) -> Result<(Producers, i64), LogError> {
    let listing = Listing::read(&*options.disk, &options.dir)?;
    let mut recovery = Recovery::new(options, listing, now_ms);
    recovery.segments = segments.to_vec();
    recovery.load_producers(log_end)?;
    recovery.remove_snapshots(log_end)?;
    Ok((recovery.producers, recovery.snapshot_at))
}

/// The producers of a log at the beginning of a segment: those of its snapshot, or of an earlier
/// one and the batches since.
pub(crate) fn producers_before(
    options: &OpenOptions,
    segments: &[Arc<Segment>],
    base: i64,
    now_ms: i64,
) -> Result<Producers, LogError> {
    let listing = Listing::read(&*options.disk, &options.dir)?;
    let mut recovery = Recovery::new(options, listing, now_ms);
    recovery.segments = segments.to_vec();
    recovery.load_producers(base)?;
    Ok(recovery.producers)
}

/// Files of all segments and all snapshots in a directory. The last segment comes first: a crash
/// during their removal in this order leaves no hole in the log.
pub(crate) fn log_files(disk: &dyn Disk, dir: &Path) -> Result<Vec<PathBuf>, LogError> {
    let order = ["log", "index", "timeindex", "txnindex", "snapshot"];
    let place = |path: &Path| order.iter().position(|file| *file == extension(path));
    let mut found: Vec<(i64, usize, PathBuf)> =
        files(disk, dir)?.filter_map(|path| Some((base_of(&path)?, place(&path)?, path))).collect();
    found.sort_by_key(|(base, place, _)| (Reverse(*base), *place));
    Ok(found.into_iter().map(|(.., path)| path).collect())
}

/// The snapshots of producers at these offsets.
pub(crate) fn snapshots_in(
    disk: &dyn Disk,
    dir: &Path,
    offsets: Range<i64>,
) -> Result<Vec<PathBuf>, LogError> {
    let listing = Listing::read(disk, dir)?;
    Ok(listing.snapshots.range(offsets).map(|offset| snapshot::path(dir, *offset)).collect())
}

impl Recovery<'_> {
    fn new(options: &OpenOptions, listing: Listing, now_ms: i64) -> Recovery<'_> {
        Recovery {
            options,
            now_ms,
            listing,
            segments: Vec::new(),
            epochs: Epochs::default(),
            producers: Producers::default(),
            snapshot_at: -1,
            claimed: None,
            report: OpenReport::default(),
        }
    }

    fn load_segments(&mut self) -> Result<(), LogError> {
        let (disk, dir) = (&*self.options.disk, &*self.options.dir);
        for base in &self.listing.bases {
            let path = dir.join(file_name(*base, ".log"));
            let size = disk.len(&path).at("look at", &path)?;
            self.segments.push(Arc::new(Segment::on_disk(dir, *base, size)));
        }
        if self.segments.is_empty() {
            let base = self.options.log_start.max(0);
            self.segments.push(Arc::new(Segment::create(disk, dir, base)?));
        }
        Ok(())
    }

    /// Finds the log's end by checking segments as needed, and loads the producers.
    fn recover(&mut self) -> Result<i64, LogError> {
        let mut trusted = self.trusted();
        if self.options.clean {
            match self.end_offset() {
                Ok(log_end) => {
                    self.index_again(self.segments.len())?;
                    self.restore_epochs(self.segments.len())?;
                    self.load_producers(log_end)?;
                    return Ok(log_end);
                }
                Err(ReadError::Storage(error)) => return Err(error),
                // The shutdown was not as clean as the mark claims.
                Err(_) => trusted = self.segments.len() - 1,
            }
        }
        self.index_again(trusted)?;
        self.restore_epochs(trusted)?;
        // From here on the epochs are those of the batches: the checkpoint may be an old one, with
        // an epoch that a truncation has removed since.
        self.epochs.truncate_end(self.segments[trusted].base());
        self.load_producers(self.segments[trusted].base())?;
        self.check_from(trusted)
    }

    /// Number of segments that are wholly below the recovery point. Never includes the last.
    fn trusted(&self) -> usize {
        let below = |pair: &&[Arc<Segment>]| pair[1].base() <= self.options.recovery_point;
        self.segments.windows(2).take_while(below).count()
    }

    /// Replaces all segments by an empty one at `base`.
    fn start_over(&mut self, base: i64) -> Result<(), LogError> {
        let (disk, dir) = (&*self.options.disk, &*self.options.dir);
        self.drop_segments(0)?;
        for offset in std::mem::take(&mut self.listing.snapshots) {
            remove_if_there(disk, &snapshot::path(dir, offset))?;
        }
        self.segments.push(Arc::new(Segment::create(disk, dir, base)?));
        (self.producers, self.snapshot_at) = (Producers::default(), -1);
        self.epochs = Epochs::default();
        self.report.rebuilt_segments += 1;
        Ok(())
    }

    /// Makes a log whose batches end at `found` continue at a later offset, with the producers that
    /// it had there, if they are known.
    fn continue_at(&mut self, found: i64, next: i64) -> Result<(), LogError> {
        let (disk, dir) = (&*self.options.disk, &*self.options.dir);
        self.epochs.truncate_end(found);
        let last = self.segments.len() - 1;
        if self.segments[last].size() == 0 {
            self.drop_segments(last)?;
        }
        self.segments.push(Arc::new(Segment::create(disk, dir, next)?));
        if let Ok(producers) = Producers::load(disk, dir, next, self.now_ms) {
            (self.producers, self.snapshot_at) = (producers, next);
        }
        self.report.rebuilt_segments += 1;
        Ok(())
    }

    /// Removes segments from `at` on, the last one first: a crash during this must not leave a hole
    /// in the log.
    fn drop_segments(&mut self, at: usize) -> Result<(), LogError> {
        let disk = &*self.options.disk;
        while self.segments.len() > at {
            let segment = self.segments.pop().expect("there are more than `at`");
            segment.remove(disk)?;
            self.listing.snapshots.remove(&segment.base());
        }
        disk.sync_dir(&self.options.dir).at("sync", &self.options.dir)
    }

    /// Removes indexes without a segment.
    fn remove_orphans(&self) -> Result<(), LogError> {
        let (disk, dir) = (&*self.options.disk, &*self.options.dir);
        let listing = &self.listing;
        let indexes = [
            (".index", &listing.offset_indexes),
            (".timeindex", &listing.time_indexes),
            (".txnindex", &listing.txn_indexes),
        ];
        for (suffix, bases) in indexes {
            for base in bases.difference(&listing.bases) {
                remove_if_there(disk, &dir.join(file_name(*base, suffix)))?;
            }
        }
        Ok(())
    }
}

impl Listing {
    fn read(disk: &dyn Disk, dir: &Path) -> Result<Self, LogError> {
        let mut listing = Self::default();
        for path in files(disk, dir)? {
            let names = match extension(&path) {
                "log" => &mut listing.bases,
                "snapshot" => &mut listing.snapshots,
                "index" => &mut listing.offset_indexes,
                "timeindex" => &mut listing.time_indexes,
                "txnindex" => &mut listing.txn_indexes,
                _ => continue,
            };
            names.extend(base_of(&path));
        }
        Ok(listing)
    }
}

/// The plain files in a directory.
fn files(disk: &dyn Disk, dir: &Path) -> Result<impl Iterator<Item = PathBuf> + use<>, LogError> {
    let entries = disk.list(dir).at("list", dir)?;
    Ok(entries.into_iter().filter(|entry| entry.kind == Kind::File).map(|entry| entry.path))
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|extension| extension.to_str()).unwrap_or_default()
}

/// The offset in a file's name; none for a name that is not 20 digits.
pub(crate) fn base_of(path: &Path) -> Option<i64> {
    let stem = path.file_stem()?.to_str()?;
    (stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit())).then(|| stem.parse().ok())?
}
