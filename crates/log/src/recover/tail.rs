//! What the end of a log says: its end offset, its epochs, its producers.

use std::collections::BTreeSet;
use std::sync::Arc;

use crate::epochs::Epochs;
use crate::producers::Producers;
use crate::segment::{SWEEP, Segment};
use crate::writer::OpenOptions;
use crate::{LogError, ReadError};

/// The offset behind the last batch of `active`: the index leads close to it, headers lead there.
pub(super) fn end_offset(options: &OpenOptions, active: &Segment) -> Result<i64, ReadError> {
    let disk = &*options.disk;
    let size = active.size();
    if size == 0 {
        return Ok(active.base());
    }
    let start = active.offsets.lookup(disk, u32::MAX)?.position;
    let window = options.config.index_interval_bytes as usize;
    let mut scan = active.scan(disk, start..size, window)?;
    let mut last = None;
    while let Some(head) = scan.next()? {
        last = Some(head);
    }
    match last {
        Some(head) => Ok(scan.last_offset(&head)? + 1),
        None => Err(scan.corrupt(start)),
    }
}

/// The checkpoint of epochs; a damaged one is made up for from the batches.
pub(super) fn epochs(options: &OpenOptions, segments: &[Arc<Segment>]) -> Result<Epochs, LogError> {
    match Epochs::load(&*options.disk, &options.dir) {
        Err(LogError::Corrupt { path, detail }) => {
            tracing::warn!(path = %path.display(), detail, "built again from the log");
            let mut epochs = Epochs::default();
            for segment in segments {
                let mut scan = segment.scan(&*options.disk, 0..segment.size(), SWEEP)?;
                while let Some(head) = scan.next().map_err(storage)? {
                    let epoch = scan.header(&head).map_err(storage)?.leader_epoch();
                    epochs.assign(epoch, head.base_offset);
                }
            }
            Ok(epochs)
        }
        other => other,
    }
}

/// The producers as of the log's end: the latest intact snapshot, and the batches since. Later snapshots are removed. Also returns
/// the offset of that snapshot, -1 for none.
pub(super) fn producers(
    options: &OpenOptions,
    snapshots: &BTreeSet<i64>,
    (segments, log_end): (&[Arc<Segment>], i64),
    now_ms: i64,
) -> Result<(Producers, i64), LogError> {
    let disk = &*options.disk;
    let mut found = (Producers::default(), -1);
    for offset in snapshots.iter().rev() {
        let path = crate::producers::snapshot::path(&options.dir, *offset);
        if *offset > log_end {
            crate::disk::remove_if_there(disk, &path)?;
            continue;
        }
        match Producers::load(disk, &options.dir, *offset, now_ms) {
            Ok(producers) => {
                found = (producers, *offset);
                break;
            }
            Err(LogError::Corrupt { path, detail }) => {
                tracing::warn!(path = %path.display(), detail, "passed over for an older snapshot");
                crate::disk::remove_if_there(disk, &path)?;
            }
            Err(other) => return Err(other),
        }
    }
    let (mut producers, snapshot_at) = found;
    let from = snapshot_at.max(0);
    for (at, segment) in segments.iter().enumerate() {
        if segments.get(at + 1).is_some_and(|next| next.base() <= from) || from >= log_end {
            continue;
        }
        replay(options, segment, from, (&mut producers, now_ms))?;
    }
    producers.expire(now_ms, options.config.producer_id_expiration_ms);
    Ok((producers, snapshot_at))
}

fn replay(
    options: &OpenOptions,
    segment: &Segment,
    from: i64,
    (producers, now_ms): (&mut Producers, i64),
) -> Result<(), LogError> {
    let start = segment.offsets.lookup(&*options.disk, segment.delta(from))?.position;
    let mut scan = segment.scan(&*options.disk, start..segment.size(), SWEEP)?;
    while let Some(head) = scan.next().map_err(storage)? {
        let is_control = {
            let header = scan.header(&head).map_err(storage)?;
            if header.last_offset() < from || header.producer_id() < 0 {
                continue;
            }
            if !header.is_control() {
                producers.note(&header, now_ms);
            }
            header.is_control()
        };
        if is_control {
            let batch = crate::batch::BatchView::parse(scan.batch(&head).map_err(storage)?);
            if let Ok(batch) = batch {
                producers.note(&batch, now_ms);
            }
        }
        producers.commit();
    }
    Ok(())
}

fn storage(error: ReadError) -> LogError {
    match error {
        ReadError::Storage(error) => error,
        ReadError::Corrupt { ref path, .. } => LogError::corrupt(&path.clone(), error.to_string()),
        ReadError::OutOfRange { offset, log_start, log_end } => {
            LogError::OutOfRange { offset, log_start, log_end }
        }
    }
}
