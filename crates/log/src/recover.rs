//! Opening a partition's directory: finding its segments, and after a crash checking everything behind the recovery point, cutting
//! off what is torn or damaged, and building again the indexes of what was checked.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::LogError;
use crate::disk::At;
use crate::epochs::Epochs;
use crate::producers::Producers;
use crate::segment::{Segment, file_name};
use crate::writer::OpenOptions;

mod check;
mod tail;

/// What opening a partition found and did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OpenReport {
    /// What was cut off the log's end, if anything.
    pub cut: Option<Cut>,
    /// Bytes of log that were read and checked.
    pub checked_bytes: u64,
    /// Segments whose indexes were built again.
    pub rebuilt_segments: usize,
}

/// Bytes that were no whole, intact batch, and all that followed them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Cut {
    /// The segment's file.
    pub path: PathBuf,
    /// Where in the file the log ends now.
    pub position: u64,
    /// The log's end offset now.
    pub offset: i64,
    /// How many bytes went.
    pub bytes: u64,
}

impl OpenReport {
    /// Whether nothing had to be repaired.
    pub fn is_clean(&self) -> bool {
        self.cut.is_none() && self.rebuilt_segments == 0
    }
}

/// A partition's parts, ready for use.
pub(crate) struct Opened {
    pub(crate) segments: Vec<Arc<Segment>>,
    pub(crate) epochs: Epochs,
    pub(crate) producers: Producers,
    pub(crate) report: OpenReport,
    pub(crate) log_start: i64,
    pub(crate) log_end: i64,
    pub(crate) snapshot_at: i64,
    pub(crate) created: bool,
}

/// The names in a partition's directory that mean something.
struct Listing {
    bases: BTreeSet<i64>,
    snapshots: BTreeSet<i64>,
    indexes: BTreeSet<i64>,
}

/// Opens what `options` name; see [`crate::Writer::open`].
pub(crate) fn open(options: &OpenOptions, now_ms: i64) -> Result<Opened, LogError> {
    let (disk, dir) = (&*options.disk, &*options.dir);
    disk.create_dir(dir).at("create", dir)?;
    let listing = list(options)?;
    let mut report = OpenReport::default();
    let created = listing.bases.is_empty();
    let mut segments = load(options, &listing)?;
    let mut log_end = None;
    if !options.clean {
        log_end = Some(check::verify(options, &listing, &mut segments, &mut report)?);
    }
    check::rebuild_missing(options, &listing, &mut segments, &mut report)?;
    let active = segments.last().expect("an opened log has a segment");
    let log_end = match log_end {
        Some(end) => end,
        None => match tail::end_offset(options, active) {
            Ok(end) => end,
            // The shutdown was not as clean as its marker says.
            Err(_) => check::verify_last(options, &mut segments, &mut report)?,
        },
    };
    let mut epochs = tail::epochs(options, &segments)?;
    epochs.truncate_end(log_end);
    let first = segments.first().map_or(0, |segment| segment.base());
    let log_start = options.log_start.clamp(first, log_end);
    let (producers, snapshot_at) =
        tail::producers(options, &listing.snapshots, (&segments, log_end), now_ms)?;
    Ok(Opened { segments, epochs, producers, report, log_start, log_end, snapshot_at, created })
}

/// The producers of a log that has just been cut to end at `log_end`, and the offset of the snapshot they came from.
pub(crate) fn producers_at(
    options: &OpenOptions,
    segments: &[Arc<Segment>],
    log_end: i64,
    now_ms: i64,
) -> Result<(Producers, i64), LogError> {
    tail::producers(options, &list(options)?.snapshots, (segments, log_end), now_ms)
}

fn load(options: &OpenOptions, listing: &Listing) -> Result<Vec<Arc<Segment>>, LogError> {
    let (disk, dir) = (&*options.disk, &*options.dir);
    if listing.bases.is_empty() {
        return Ok(vec![Arc::new(Segment::create(disk, dir, options.log_start.max(0))?)]);
    }
    let load = |base: &i64| {
        let path = dir.join(file_name(*base, ".log"));
        let size = std::fs::metadata(&path).at("look at", &path)?.len();
        Ok(Arc::new(Segment::on_disk(dir, *base, size)))
    };
    listing.bases.iter().map(load).collect()
}

/// Reads the directory and removes what a crash left of files that were being written or deleted.
fn list(options: &OpenOptions) -> Result<Listing, LogError> {
    let dir = &*options.dir;
    let mut listing =
        Listing { bases: BTreeSet::new(), snapshots: BTreeSet::new(), indexes: BTreeSet::new() };
    let mut offset_indexes = BTreeSet::new();
    for entry in std::fs::read_dir(dir).at("list", dir)? {
        let path = entry.at("list", dir)?.path();
        let extension = path.extension().and_then(|extension| extension.to_str()).unwrap_or_default();
        match extension {
            "tmp" | "deleted" | "cleaned" => {
                crate::disk::remove_if_there(&*options.disk, &path)?;
            }
            "log" => listing.bases.extend(base_of(&path)),
            "snapshot" => listing.snapshots.extend(base_of(&path)),
            "index" => offset_indexes.extend(base_of(&path)),
            "timeindex" => listing.indexes.extend(base_of(&path)),
            _ => {}
        }
    }
    listing.indexes.retain(|base| offset_indexes.contains(base));
    Ok(listing)
}

/// The offset in a file's name; none for a name that is not 20 digits.
fn base_of(path: &Path) -> Option<i64> {
    let stem = path.file_stem()?.to_str()?;
    (stem.len() == 20 && stem.bytes().all(|byte| byte.is_ascii_digit())).then(|| stem.parse().ok())?
}
