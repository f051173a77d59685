//! The running broker as the HTTP address shows it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::broker::{Broker, RecoveryProgress};
use crate::cleaner::CleanerStats;
use crate::lane::Work;
use crate::replay::ReplayStats;
use crate::stats::Stats;
use crate::web::Source;

impl Source for Broker {
    fn transfers(&self) -> levada_io::Snapshot {
        self.counters().snapshot()
    }

    fn stats(&self) -> &Stats {
        Broker::stats(self)
    }

    fn partitions(&self) -> u64 {
        Broker::partitions(self).count() as u64
    }

    fn request_bytes_held(&self) -> u64 {
        self.request_memory().held_bytes()
    }

    fn durability(&self) -> BTreeMap<(String, String), u64> {
        let mut counts = BTreeMap::new();
        for partition in Broker::partitions(self).all().iter() {
            let label = (partition.topic().to_owned(), partition.config().durability());
            *counts.entry(label).or_default() += 1;
        }
        counts
    }

    fn cleaner(&self) -> CleanerStats {
        Broker::cleaner(self).stats()
    }

    fn replays(&self) -> ReplayStats {
        Broker::replays(self).stats()
    }

    fn recovery(&self) -> RecoveryProgress {
        Broker::recovery(self).progress()
    }

    fn longest_lane_turn(&self, work: Work) -> Duration {
        let partitions = Broker::partitions(self).all();
        partitions.iter().map(|partition| partition.lane().longest_turn(work)).max().unwrap_or_default()
    }

    fn unhealthy(&self) -> Option<String> {
        let offline = self.offline_partitions();
        (offline > 0).then(|| {
            format!("{offline} partitions are offline after a failure of their storage; see the log")
        })
    }
}
