//! Names of a segment's files, and the suffixes of files that are not, or no longer, part of a log.

/// The files of a segment; the first contains its records. The last two are optional.
pub(crate) const FILES: [&str; 5] = [".log", ".index", ".timeindex", ".txnindex", ".snapshot"];
/// Ending of the files that compaction writes: a crash takes them away.
pub(crate) const CLEANED: &str = ".cleaned";
/// Ending of a compacted segment's files once it is certain that they will be put in place.
pub(crate) const SWAP: &str = ".swap";
/// Ending of files that are out of the log.
pub(crate) const DELETED: &str = ".deleted";
