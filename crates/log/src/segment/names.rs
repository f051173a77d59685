//! Names of a segment's files, and the suffixes of files that are not, or no longer, part of a log.

/// The files of a segment; the first contains its records. The last two are optional.
pub(crate) const FILES: [&str; 5] = [".log", ".index", ".timeindex", ".txnindex", ".snapshot"];
/// Suffix of the files that compaction writes; the opening after a crash removes them.
pub(crate) const CLEANED: &str = ".cleaned";
/// Suffix of a compacted segment's files once they are complete and will be swapped in.
pub(crate) const SWAP: &str = ".swap";
/// Ending of files that are out of the log.
pub(crate) const DELETED: &str = ".deleted";
