//! Segments that a store has, according to the names of its objects and without the metadata topic,
//! for a restoration.

use std::collections::BTreeMap;

use levada_tiered::{RemoteSegment, RemoteSegmentId, SegmentState, StoreLayout};

use crate::error::{RemoteError, RemoteErrorKind};
use crate::layout::aiven::AivenObject;
use crate::layout::local;
use crate::store::Store;

/// Segments that a store has, by the names of its objects.
#[derive(Debug, Default)]
pub struct FoundSegments {
    /// Segments whose last object was written, ordered by partition and start offset.
    pub segments: Vec<FoundSegment>,
    /// Segments whose last object is missing: a copy or a deletion was interrupted.
    pub unfinished: Vec<RemoteSegmentId>,
    /// Objects whose names are not those of segment objects.
    pub foreign: u64,
}

/// A segment as the names of its objects describe it.
#[derive(Clone, Debug)]
pub struct FoundSegment {
    /// Identity of the segment.
    pub id: RemoteSegmentId,
    /// Offset of the first record.
    pub start_offset: i64,
    /// Length of the object with the records in bytes, 0 if it is missing.
    pub log_bytes: u64,
}

impl Store {
    /// Lists the segments of the store.
    ///
    /// # Errors
    /// The store cannot be listed.
    pub fn found_segments(&self) -> Result<FoundSegments, RemoteError> {
        let last = match self.layout {
            StoreLayout::Aiven => AivenObject::Manifest.suffix(),
            StoreLayout::Local => local::LOG,
        };
        let mut found = FoundSegments::default();
        let mut by_id = BTreeMap::new();
        self.list(&mut |entry| {
            let Some(name) = self.object_name(&entry.key) else {
                found.foreign += 1;
                return;
            };
            let (segment, is_finished) = by_id
                .entry((name.id.partition.clone(), name.start_offset, name.id.id))
                .or_insert_with(|| {
                    let (id, start_offset) = (name.id, name.start_offset);
                    (FoundSegment { id, start_offset, log_bytes: 0 }, false)
                });
            *is_finished |= name.suffix == last;
            if name.suffix == local::LOG {
                segment.log_bytes = entry.length;
            }
        })?;
        for (segment, is_finished) in by_id.into_values() {
            if is_finished {
                found.segments.push(segment);
            } else {
                found.unfinished.push(segment.id);
            }
        }
        Ok(found)
    }

    /// The segment with its size, an end that is not before the true one if the objects declare it,
    /// and otherwise without facts: its other objects can be read with it.
    ///
    /// # Errors
    /// Objects that are missing, damaged or encrypted; a failing store.
    pub fn undescribed(&self, found: &FoundSegment) -> Result<RemoteSegment, RemoteError> {
        let mut segment = RemoteSegment {
            id: found.id.clone(),
            start_offset: found.start_offset,
            end_offset: found.start_offset,
            max_timestamp_ms: -1,
            broker_id: -1,
            event_timestamp_ms: 0,
            size: 0,
            epochs: Vec::new(),
            custom_metadata: None,
            state: SegmentState::CopyStarted,
            txn_index_empty: true,
        };
        let size = match self.layout {
            StoreLayout::Local => found.log_bytes,
            StoreLayout::Aiven => {
                let (manifest, _) = self.read_manifest(&segment)?;
                let declared = manifest.end_offset().filter(|end| *end > segment.start_offset);
                segment.end_offset = declared.unwrap_or(segment.start_offset);
                u64::from(manifest.size())
            }
        };
        segment.size = i32::try_from(size).map_err(|_| {
            let operation = format!("cannot use segment {}", segment.id);
            let cause = format!("it has {size} bytes of records, more than 2147483647");
            RemoteError::new(RemoteErrorKind::Damaged, operation, cause)
        })?;
        Ok(segment)
    }
}

#[cfg(test)]
mod tests;
