//! A new replica: a partition with one replica gets a second one. The new replica copies all
//! records from the leader's disk while producers continue.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use super::{Run, SHORT_LIVED, WARM_UP_MS, balanced, live};
use crate::error::LabError;
use crate::experiments::broker::harness::cluster::{Cluster, VARIANTS, Variant, spent_since};
use crate::experiments::broker::harness::frames::TopicPartition;
use crate::experiments::broker::harness::live::StopCondition;
use crate::experiments::broker::harness::topic::{self, Filled};
use crate::harness::bench::Bench;
use crate::harness::pace::joined;
use crate::harness::process;
use crate::method::experiment::{Metrics, Outcome, Pass};
use crate::record::{Metric, Verdict};

/// Live records per second of all producers together.
pub(super) const PER_SECOND: f64 = 1000.0;

const BATCH_LEN: usize = 64 << 10;
const SEGMENT_BYTES: u64 = 128 << 20;

/// Limit from the request until the replica is in sync.
const LIMIT: Duration = Duration::from_secs(1800);

/// Time from the start of the live producers to the request, longer than their warm-up.
const AFTER: Duration = Duration::from_millis(150);

/// The backlog of each variant. The first run of a variant writes it.
#[derive(Debug)]
pub(super) struct CatchUp {
    bytes: u64,
    backlogs: BTreeMap<&'static str, Filled>,
}

/// The metrics of [`CatchUp::run`] in addition to those of all cases.
pub(super) fn metrics() -> [Metric; 5] {
    [
        Metric::more("copied_mb_per_s", "copied", "MB/s"),
        Metric::neither("copied_mb", "bytes", "MB"),
        Metric::less("quiet_p99_ms", "p99 before", "ms"),
        Metric::less("p99_by_quiet", "p99 by before", ""),
        Metric::less("resident_mb", "memory of the new replica's broker", "MB"),
    ]
}

impl CatchUp {
    pub(super) fn new(bench: &Bench) -> Self {
        let bytes = bench.scale().choose(4 << 20, 128 << 20, 512 << 20, 4 << 30);
        Self { bytes, backlogs: BTreeMap::new() }
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn run(&mut self, run: Run<'_>) -> Result<Outcome, LabError> {
        let Run { bench, cluster, variant, topic, pass } = run;
        let backlog = self.backlog(bench, (cluster, variant))?;
        let [source, target, _] = variant.brokers;
        let nodes = cluster.nodes(variant);
        cluster.create(variant, (topic, &balanced(variant)), &SHORT_LIVED)?;
        topic::evict(nodes[0], &backlog.place)?;
        let live = live(topic, PER_SECOND);
        let once = |millis| live.run(bench, &nodes, StopCondition::Time(Duration::from_millis(millis)));
        once(WARM_UP_MS)?;
        let quiet = once(bench.scale().choose(300, 1_000, 2_000, 10_000))?;
        let (before, told_to_stop) = (cluster.spent(variant), AtomicBool::new(false));
        let (lived, copied) = std::thread::scope(|scope| {
            let copier = scope.spawn(|| {
                std::thread::sleep(AFTER);
                let start = Instant::now();
                let copied = cluster.reassign(variant, &backlog.place, &[source, target]).and_then(|()| {
                    cluster.await_replicas(variant, (&backlog.place, &[source, target]), LIMIT)
                });
                let took = start.elapsed();
                told_to_stop.store(true, Ordering::Relaxed);
                copied.map(|()| took)
            });
            let lived = live.run(bench, &nodes, StopCondition::Told(&told_to_stop));
            Ok::<_, LabError>((lived?, joined(copier.join())?))
        })?;
        let cpu = spent_since(&before);
        let resident = process::resident_bytes(nodes[1].pid());
        let is_equal = (pass == Pass::Integrity)
            .then(|| cluster.replicas_are_equal((&backlog.place, &[source, target]), backlog.bytes()))
            .transpose()?;
        cluster.reassign(variant, &backlog.place, &[source])?;
        cluster.await_replicas(variant, (&backlog.place, &[source]), LIMIT)?;
        topic::delete(nodes[0], topic)?;
        if let Some(sound) = is_equal {
            let what = format!("{} bytes of both replicas compared", backlog.bytes());
            return Ok(Outcome::Checked(Verdict { sound, what }));
        }
        let mb = backlog.bytes() as f64 / 1e6;
        let quiet_p99 = quiet.produce.quantile_ms(0.99);
        let mut metrics = Metrics::from([
            ("cpu_s_per_gb".to_owned(), cpu.as_secs_f64() * 1e3 / mb),
            ("copied_mb".to_owned(), mb),
            ("copied_mb_per_s".to_owned(), mb / copied.as_secs_f64()),
            ("quiet_p99_ms".to_owned(), quiet_p99),
            ("p99_by_quiet".to_owned(), lived.produce.quantile_ms(0.99) / quiet_p99),
            ("resident_mb".to_owned(), resident as f64 / 1e6),
        ]);
        lived.produce.put("produce", &mut metrics);
        Ok(Outcome::Measured(metrics))
    }

    fn backlog(
        &mut self,
        bench: &Bench,
        (cluster, variant): (&Cluster, &Variant),
    ) -> Result<Filled, LabError> {
        if let Some(backlog) = self.backlogs.get(variant.name) {
            return Ok(backlog.clone());
        }
        // Space for the remaining backlogs, for one replica of a backlog, and for deleted replicas.
        let missing = (VARIANTS.len() - self.backlogs.len()) as u64;
        bench.reserve(self.bytes * (missing + 2))?;
        let segment_bytes = SEGMENT_BYTES.min(self.bytes / 4).to_string();
        let name = format!("backlog-{}", variant.name);
        let config = [("segment.bytes", segment_bytes.as_str()), SHORT_LIVED[0]];
        cluster.create(variant, (&name, &[vec![variant.brokers[0]]]), &config)?;
        let place = TopicPartition { topic: name, partition: 0 };
        let filled = topic::fill(cluster.nodes(variant)[0], place, BATCH_LEN, self.bytes)?;
        self.backlogs.insert(variant.name, filled.clone());
        Ok(filled)
    }
}
