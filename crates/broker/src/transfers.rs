//! State of the transfer engine that all shards share: the capabilities of this machine,
//! thresholds, counters, the threads that wait for the disk, and the policy for old records in the
//! page cache.

use std::sync::Arc;

use levada_io::probe::Support;
use levada_io::residency::{Warmer, WarmerLimits};
use levada_io::{Caps, Counters, Thresholds};

use crate::replay::Replays;

/// Resources for transfers that all shards share.
pub(crate) struct Transfers {
    caps: Caps,
    thresholds: Thresholds,
    counters: Arc<Counters>,
    warmer: Warmer,
    replays: Arc<Replays>,
}

impl Transfers {
    /// Detects the capabilities of the kernel.
    pub(crate) fn new(thresholds: Thresholds) -> Self {
        let counters = Arc::new(Counters::default());
        let caps = Caps::probe();
        if let (true, Support::Absent { why, .. }) = (caps.splice.works(), &caps.page_references) {
            tracing::warn!(
                why,
                "splice and sendfile copy on this machine: fetches of 256 KiB and more count as mmap_write, smaller ones as splice_copy"
            );
        }
        Self {
            caps,
            thresholds,
            warmer: Warmer::new(WarmerLimits::default(), counters.clone()),
            counters,
            replays: Arc::default(),
        }
    }

    /// Capabilities of this machine.
    pub(crate) fn caps(&self) -> &Caps {
        &self.caps
    }

    /// The thresholds by which transfers choose their paths.
    pub(crate) fn thresholds(&self) -> Thresholds {
        self.thresholds
    }

    /// Bytes and calls by path.
    pub(crate) fn counters(&self) -> &Arc<Counters> {
        &self.counters
    }

    /// The threads that wait for the disk on behalf of shards.
    pub(crate) fn warmer(&self) -> &Warmer {
        &self.warmer
    }

    /// The rule for old records that come from the disk.
    pub(crate) fn replays(&self) -> &Arc<Replays> {
        &self.replays
    }
}
