//! Rebuilds corrupt indexes while the log is in use: a start trusts the indexes of segments below
//! the recovery point and does not read them.

use std::sync::Arc;

use super::check::walk;
use crate::partition::Partition;
use crate::segment::{Built, Segment};
use crate::{LogConfig, LogError};

/// The entries of a sealed segment's indexes, collected from its batches.
#[derive(Debug)]
#[must_use = "the old indexes stay in use until these are in their place"]
pub struct Reindexed {
    pub(crate) old: Arc<Segment>,
    pub(crate) built: Built,
}

impl Partition {
    /// True if an index must be [rebuilt](Partition::reindex).
    pub fn has_misleading_index(&self) -> bool {
        !self.misleading().is_empty()
    }

    /// Collects the entries for sealed segments whose index has misled a reader since the last
    /// time. Blocks; reads those segments whole. A segment with damage in it keeps its index, which
    /// may lead beyond the damage.
    ///
    /// # Errors
    /// A failing disk.
    pub fn reindex(&self, config: &LogConfig) -> Result<Vec<Reindexed>, LogError> {
        let mut reindexed = Vec::new();
        for old in self.misleading() {
            let walked = walk(&*self.disk, &old, config, |_| ())?;
            if walked.position == old.size() {
                reindexed.push(Reindexed { old, built: walked.built });
                continue;
            }
            old.index_state.keep();
            let (path, position) = (old.path().display(), walked.position);
            tracing::error!(%path, position, "segment is damaged; its records cannot be read, and its index is not rebuilt");
        }
        Ok(reindexed)
    }

    /// Sealed segments whose index should be built again.
    fn misleading(&self) -> Vec<Arc<Segment>> {
        let segments = self.segments.load();
        let sealed = segments.iter().rev().skip(1);
        sealed.filter(|segment| segment.index_state.is_misleading()).cloned().collect()
    }
}
