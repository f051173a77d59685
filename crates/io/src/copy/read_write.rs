//! Reading and writing: from file to file through a buffer of this process.
//!
//! *Saves* nothing. *Needs* nothing, which makes it the last resort of every copy, and the only
//! path for files that do not know their length. *Loses* to the others wherever they work: every
//! byte is copied twice.

use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::FileExt;

use rustix::io::Errno;

use super::{CopyError, StepOutcome, StepRange};
use crate::counters::Counters;
use crate::path::Path;

/// Copies the start of a range from file to file through a buffer.
pub(super) fn between(
    from: &File,
    to: &File,
    span: StepRange,
    counters: &Counters,
) -> Result<StepOutcome, CopyError> {
    /// Buffer size: large enough that the calls cost little compared to the copying, small enough
    /// for the processor's cache.
    const BUFFER_BYTES: u64 = 256 << 10;
    let mut buffer = vec![0; usize::try_from(span.len.min(BUFFER_BYTES)).unwrap_or(0)];
    let mut moved = 0;
    while moved < span.len {
        let offset = span.offset + moved;
        let left = usize::try_from(span.len - moved).unwrap_or(usize::MAX).min(buffer.len());
        let got = counters.call(Path::ReadWrite, || from.read_at(&mut buffer[..left], offset));
        let got = match got {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            // Pipes and devices without positions.
            Err(error) if error.raw_os_error() == Some(Errno::SPIPE.raw_os_error()) => {
                counters.call(Path::ReadWrite, || (&*from).read(&mut buffer[..left]))
            }
            other => other,
        };
        match got.map_err(|cause| CopyError::Read { offset, cause })? {
            0 => break,
            count => {
                let written = counters.call(Path::ReadWrite, || to.write_all_at(&buffer[..count], offset));
                written.map_err(|cause| CopyError::Write { offset, cause })?;
                counters.copied(2 * count as u64);
                moved += count as u64;
            }
        }
    }
    Ok(StepOutcome::Moved(moved))
}
