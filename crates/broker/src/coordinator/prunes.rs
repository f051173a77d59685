//! Deletion of records of `__share_group_state` that no share coordinator needs.

use std::sync::Arc;

use levada_coordination::share_state::{Coordinator, Event, Work};
use levada_process::blocking::off_shard;
use levada_process::tasks::guarded;

use crate::coordinator::{Coordinators, Job};
use crate::replica::Replicas;

impl Coordinators {
    /// Deletes records for all share coordinators until the broker stops.
    pub(crate) async fn run_prunes(self: Arc<Self>, replicas: Arc<Replicas>) {
        let Some(mut jobs) = self.share_states.take_jobs() else { return };
        while let Some(job) = jobs.recv().await {
            let replicas = replicas.clone();
            // After a panic the coordinator gets no report, and the next one has work.
            let _ =
                off_shard(move || guarded("deletion of old share states", || prune(&replicas, &job))).await;
        }
    }
}

/// Deletes the records of one coordinator. A coordinator that gets no report has the work done
/// again later.
fn prune(replicas: &Replicas, job: &Job<Coordinator>) {
    let Work::Prune(offset) = *job.work();
    let Some(partition) = job.partition() else { return };
    match replicas.delete_records(&partition, offset) {
        Ok(log_start) => {
            if let Some(led) = partition.led() {
                led.release_deletions();
            }
            job.done(Event::Pruned(log_start));
        }
        Err(error) => {
            tracing::warn!(partition = partition.name(), offset, ?error, "cannot delete old share states");
        }
    }
}
