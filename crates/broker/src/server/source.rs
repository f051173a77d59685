//! The running broker as the HTTP address shows it.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::broker::Broker;
use crate::replay::ReplayStats;
use crate::replica::{CleanerStats, RecoveryProgress, Work};
use crate::stats::Stats;
use crate::web::Source;

impl Source for Broker {
    fn transfers(&self) -> levada_io::Snapshot {
        Broker::transfers(self).counters().snapshot()
    }

    fn stats(&self) -> &Stats {
        Broker::stats(self)
    }

    fn partitions(&self) -> u64 {
        self.replicas().partitions().count() as u64
    }

    fn request_bytes_held(&self) -> u64 {
        self.request_memory().held_bytes()
    }

    fn durability(&self) -> BTreeMap<(String, String), u64> {
        let mut counts = BTreeMap::new();
        for partition in self.replicas().partitions().all().iter() {
            let label = (partition.topic().to_owned(), partition.config().durability());
            *counts.entry(label).or_default() += 1;
        }
        counts
    }

    fn cleaner(&self) -> CleanerStats {
        self.replicas().cleaner().stats()
    }

    fn replays(&self) -> ReplayStats {
        Broker::transfers(self).replays().stats()
    }

    fn recovery(&self) -> RecoveryProgress {
        self.replicas().recovery().progress()
    }

    fn longest_lane_turn(&self, work: Work) -> Duration {
        let partitions = self.replicas().partitions().all();
        partitions.iter().map(|partition| partition.lane().longest_turn(work)).max().unwrap_or_default()
    }

    fn unhealthy(&self) -> Option<String> {
        let offline = self.replicas().offline();
        (offline > 0).then(|| {
            format!("{offline} partitions are offline after a failure of their storage; see the log")
        })
    }
}
