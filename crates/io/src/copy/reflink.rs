//! Reflink (`FICLONE`): a copy that shares its blocks with the original until one of them is
//! changed.
//!
//! *Saves* everything: no byte is read or written, independent of the size. *Needs* both files on
//! one file system that can do it (Btrfs, XFS, bcachefs). *Loses* later, when one of the two is
//! overwritten in place: those blocks are copied then.

use std::fs::File;

use super::StepOutcome;
use crate::counters::Counters;
use crate::path::Path;

/// Makes `to` a clone of `from`, which has `len` bytes.
pub(super) fn clone(from: &File, to: &File, len: u64, counters: &Counters) -> StepOutcome {
    match counters.call(Path::Reflink, || rustix::fs::ioctl_ficlone(to, from)) {
        Ok(()) => {
            counters.moved(Path::Reflink, len);
            StepOutcome::Moved(len)
        }
        Err(errno) => StepOutcome::Refused(errno),
    }
}
