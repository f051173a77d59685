//! `splice` through a pipe of this process: from file to file inside the kernel.
//!
//! *Saves* the way through our memory where `copy_file_range` refuses: across file systems, or
//! under an old kernel. *Needs* a pipe. *Loses* to `copy_file_range`, which needs one call instead
//! of two for a step.

use std::fs::File;
use std::io;

use rustix::io::Errno;
use rustix::pipe::SpliceFlags;

use super::{CopyError, StepOutcome, StepRange};
use crate::counters::Counters;
use crate::path::Path;
use crate::pipe::Pipe;

/// Copies the start of a range from file to file through the pipe, which is empty before and after.
pub(super) fn between(
    (from, to): (&File, &File),
    span: StepRange,
    pipe: &mut Pipe,
    counters: &Counters,
) -> Result<StepOutcome, CopyError> {
    let want = usize::try_from(span.len.min(pipe.capacity())).unwrap_or(usize::MAX);
    let flags = SpliceFlags::MOVE;
    let mut source = span.offset;
    let filled = counters.call(Path::Splice, || {
        rustix::pipe::splice(from, Some(&mut source), pipe.writer(), None, want, flags)
    });
    match filled {
        Ok(count) => pipe.put(count as u64),
        Err(Errno::INTR) => return between((from, to), span, pipe, counters),
        Err(errno @ (Errno::INVAL | Errno::NOSYS | Errno::PERM | Errno::OPNOTSUPP)) => {
            return Ok(StepOutcome::Refused(errno));
        }
        Err(errno) => return Err(CopyError::Read { offset: span.offset, cause: errno.into() }),
    }
    let count = pipe.filled();
    while !pipe.is_empty() {
        let mut destination = span.offset + count - pipe.filled();
        let offset = destination;
        let left = usize::try_from(pipe.filled()).unwrap_or(usize::MAX);
        let drained = counters.call(Path::Splice, || {
            rustix::pipe::splice(pipe.reader(), None, to, Some(&mut destination), left, flags)
        });
        match drained {
            Ok(0) => return Err(CopyError::Write { offset, cause: io::ErrorKind::WriteZero.into() }),
            Ok(count) => pipe.drained(count as u64),
            Err(Errno::INTR) => {}
            // Nothing has been written yet, so another path can continue at the same byte.
            Err(errno @ (Errno::INVAL | Errno::OPNOTSUPP)) if pipe.filled() == count => {
                return Ok(StepOutcome::Refused(errno));
            }
            Err(errno) => return Err(CopyError::Write { offset, cause: errno.into() }),
        }
    }
    Ok(StepOutcome::Moved(count))
}
