//! `copy_file_range`: from file to file inside the kernel.
//!
//! *Saves* the way through our memory and, on file systems that can (NFS, CIFS, those with
//! reflinks), the way through this machine's memory at all. *Needs* regular files, and on most
//! kernels one file system. *Loses* nothing to reading and writing; on a file system without its
//! own support, the call uses `splice`.

use std::fs::File;

use rustix::io::Errno;

use super::{CopyError, StepOutcome, StepRange};
use crate::counters::Counters;
use crate::path::Path;

/// Copies the start of a range.
pub(super) fn between(
    from: &File,
    to: &File,
    span: StepRange,
    counters: &Counters,
) -> Result<StepOutcome, CopyError> {
    let (mut source, mut destination) = (span.offset, span.offset);
    let count = usize::try_from(span.len).unwrap_or(usize::MAX);
    loop {
        let copied = counters.call(Path::CopyFileRange, || {
            rustix::fs::copy_file_range(from, Some(&mut source), to, Some(&mut destination), count)
        });
        match copied {
            Ok(count) => return Ok(StepOutcome::Moved(count as u64)),
            Err(Errno::INTR) => {}
            Err(
                errno @ (Errno::XDEV
                | Errno::INVAL
                | Errno::NOSYS
                | Errno::PERM
                | Errno::OPNOTSUPP
                | Errno::BADF),
            ) => return Ok(StepOutcome::Refused(errno)),
            Err(errno) => return Err(CopyError::Write { offset: span.offset, cause: errno.into() }),
        }
    }
}
