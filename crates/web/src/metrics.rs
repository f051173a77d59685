//! The text of `/metrics`, generated from the broker's atomics for each scrape.

use std::fmt;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, text};
use prometheus_client::registry::Registry;

mod catalogue;
mod cluster;
mod exposition;
mod groups;
mod remote;
mod requests;
mod telemetry;
mod topics;

use levada_broker::source::{
    ByteRates, CleanerStats, QuotaUse, RecoveryProgress, ReplayStats, Source, Stats, Work,
};
use levada_process::clock::steady_ms;
use levada_process::usage::Process;

use self::catalogue::Family;
use self::exposition::Families;
pub(super) use self::exposition::Form;

/// Maximum number of quotas with separate series: those of which most is used.
const QUOTAS_MAX: usize = 100;

/// Client ids and users with separate series: those that have produced most, and as many that have
/// fetched most.
const BUSIEST_MAX: usize = 20;

/// The text of one scrape; with `topics`, of single topics, partitions and groups as well.
pub(super) fn render(source: Arc<dyn Source>, form: Form, topics: bool) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { source, topics }));
    let mut text = String::with_capacity(64 * 1024);
    text::encode(&mut text, &registry)?;
    Ok(match form {
        Form::OpenMetrics => text,
        Form::Plain => exposition::to_plain(&text),
    })
}

struct Scrape {
    source: Arc<dyn Source>,
    topics: bool,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families { encoder };
        families.family(catalogue::BUILD)?.info(&[env!("CARGO_PKG_VERSION")])?;
        families.transfers(&self.source.transfers())?;
        families.replays(self.source.replays())?;
        families.requests(&self.source.stats().requests())?;
        families.clients(self.source.as_ref())?;
        families.busiest(self.source.stats())?;
        families.quotas(&self.source.quota_uses(QUOTAS_MAX))?;
        families.telemetry(&self.source.telemetry())?;
        families.upkeep(&self.source.upkeep())?;
        if let Some(state) = self.source.remote() {
            families.remote(&state, self.topics)?;
        }
        if self.topics {
            families.topics(&self.source.logs())?;
            families.groups(&self.source.groups())?;
        }
        families.shares(&self.source.shares(), self.topics)?;
        families.transactions(&self.source.transactions())?;
        families.cleaner(self.source.cleaner())?;
        families.recovery(self.source.recovery())?;
        if let Some(state) = self.source.membership() {
            families.cluster(&state)?;
            families.following(&self.source.following(), self.topics)?;
        }
        families.process(&Process::read(), self.source.stats().started())
    }
}

impl Families<'_> {
    fn transfers(&mut self, snapshot: &levada_io::Snapshot) -> fmt::Result {
        for (metric, family) in [
            ("bytes", catalogue::TRANSFER_BYTES),
            ("calls", catalogue::TRANSFER_CALLS),
            ("stalls", catalogue::TRANSFER_STALLS),
            ("fallbacks", catalogue::TRANSFER_FALLBACKS),
            ("copied_bytes", catalogue::TRANSFER_COPIED_BYTES),
            ("warmed_bytes", catalogue::TRANSFER_WARMED_BYTES),
            ("dropped_behind_bytes", catalogue::TRANSFER_DROPPED_BEHIND_BYTES),
        ] {
            let mut series = self.family(family)?;
            for sample in snapshot.samples().filter(|sample| sample.metric == metric) {
                match sample.label {
                    Some((_, value)) => series.counter(&[value], sample.value)?,
                    None => series.counter(&[], sample.value)?,
                }
            }
        }
        Ok(())
    }

    fn clients(&mut self, source: &dyn Source) -> fmt::Result {
        let stats = source.stats();
        let listeners = stats.listeners();
        let mut series = self.family(catalogue::CONNECTIONS_OPENED)?;
        listeners.iter().try_for_each(|(listener, counts)| series.counter(&[listener], counts.opened))?;
        let mut series = self.family(catalogue::CONNECTIONS)?;
        listeners.iter().try_for_each(|(listener, counts)| series.gauge(&[listener], counts.open))?;
        let mut series = self.family(catalogue::CLIENT_CONNECTIONS)?;
        for ((software, version), count) in stats.softwares() {
            series.gauge(&[&software, &version], count)?;
        }
        self.gauge(catalogue::HTTP_CONNECTIONS, stats.http_connections())?;
        let mut series = self.family(catalogue::AUTHENTICATIONS)?;
        for ((listener, mechanism, result), count) in stats.authentications() {
            series.counter(&[&listener, mechanism, result], count)?;
        }
        self.counter(catalogue::TLS_HANDSHAKES_FAILED, stats.handshakes_failed())?;
        self.counter(catalogue::PRODUCED_BYTES, stats.produced_bytes())?;
        self.counter(catalogue::FETCHED_BYTES, stats.fetched_bytes())?;
        self.counter(catalogue::REPLICATED_BYTES, stats.replicated_bytes())?;
        self.gauge(catalogue::PARTITIONS, source.partitions())?;
        self.gauge(catalogue::OFFLINE, source.readiness().offline_partitions)?;
        let state = source.replication();
        self.gauge(catalogue::LED_PARTITIONS, state.led)?;
        self.gauge(catalogue::UNDER_REPLICATED, state.under_replicated)?;
        self.gauge(catalogue::UNDER_MIN_ISR, state.under_min_insync)?;
        self.gauge(catalogue::PREFERRED_NOT_LED, state.preferred_not_led)?;
        let mut series = self.family(catalogue::ISR_CHANGES)?;
        series.counter(&["expansion"], state.changes.expansions)?;
        series.counter(&["shrink"], state.changes.shrinks)?;
        series.counter(&["failed"], state.changes.failures)?;
        let mut series = self.family(catalogue::THROTTLED_BYTES)?;
        series.counter(&["leader"], state.throttled_bytes.0)?;
        series.counter(&["follower"], state.throttled_bytes.1)?;
        self.gauge(catalogue::REQUEST_BYTES_HELD, source.request_bytes_held())?;
        let mut series = self.family(catalogue::LANE_LONGEST_TURN)?;
        for ((_, label), longest) in Work::ALL.iter().zip(source.longest_lane_turns()) {
            series.gauge(&[label], longest.as_secs_f64())?;
        }
        Ok(())
    }

    fn busiest(&mut self, stats: &Stats) -> fmt::Result {
        let busiest = stats.busiest(BUSIEST_MAX, steady_ms());
        self.byte_rates(catalogue::CLIENT_ID_RATE, &busiest.client_ids)?;
        self.byte_rates(catalogue::USER_RATE, &busiest.users)
    }

    fn byte_rates(&mut self, family: &'static Family, rates: &[ByteRates]) -> fmt::Result {
        let mut series = self.family(family)?;
        rates.iter().try_for_each(|one| {
            series.gauge(&[&one.name, "produced"], one.produced)?;
            series.gauge(&[&one.name, "fetched"], one.fetched)
        })
    }

    fn quotas(&mut self, uses: &[QuotaUse]) -> fmt::Result {
        fn labels(one: &QuotaUse) -> [&str; 3] {
            [one.quota, &one.user, &one.client_id]
        }
        let mut series = self.family(catalogue::QUOTA_RATE)?;
        uses.iter().try_for_each(|one| series.gauge(&labels(one), one.rate))?;
        let mut series = self.family(catalogue::QUOTA_LIMIT)?;
        uses.iter().try_for_each(|one| series.gauge(&labels(one), one.limit))
    }

    fn replays(&mut self, stats: ReplayStats) -> fmt::Result {
        let mut series = self.family(catalogue::REPLAY_BYTES)?;
        series.counter(&["admitted"], stats.admitted_bytes)?;
        series.counter(&["refused"], stats.refused_bytes)?;
        self.counter(catalogue::REPLAY_AROUND_BYTES, stats.around_bytes)?;
        self.gauge(catalogue::REPLAY_REMEMBERED_BYTES, stats.remembered_bytes)?;
        let mut series = self.family(catalogue::REPLAY_MEMORY)?;
        if !stats.memory.iter().any(|(_, holds)| *holds) {
            return Ok(());
        }
        stats.memory.iter().try_for_each(|(state, holds)| series.gauge(&[state], u64::from(*holds)))
    }

    fn recovery(&mut self, progress: RecoveryProgress) -> fmt::Result {
        self.gauge(catalogue::RECOVERY_PARTITIONS, progress.left as u64)?;
        self.counter(catalogue::RECOVERY_CHECKED_BYTES, progress.checked_bytes)
    }

    fn cleaner(&mut self, stats: CleanerStats) -> fmt::Result {
        self.counter(catalogue::CLEANER_RUNS, stats.runs)?;
        self.counter(catalogue::CLEANER_READ_BYTES, stats.read_bytes)?;
        self.counter(catalogue::CLEANER_WRITTEN_BYTES, stats.written_bytes)?;
        self.gauge(catalogue::CLEANER_BACKLOG_BYTES, stats.backlog_bytes)?;
        self.gauge(catalogue::CLEANER_DIRTIEST_RATIO, stats.dirtiest_percent as f64 / 100.0)?;
        self.gauge(catalogue::CLEANER_UNCLEANABLE_PARTITIONS, stats.uncleanable)
    }

    fn process(&mut self, process: &Process, started: SystemTime) -> fmt::Result {
        let since_epoch = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        self.gauge(catalogue::PROCESS_START_TIME, since_epoch)?;
        if let Some(bytes) = process.resident_bytes {
            self.gauge(catalogue::PROCESS_RESIDENT_MEMORY_BYTES, bytes)?;
        }
        if let Some(count) = process.open_fds {
            self.gauge(catalogue::PROCESS_OPEN_FDS, count)?;
        }
        self.gauge(catalogue::PROCESS_MAX_FDS, process.max_fds)?;
        let mut series = self.family(catalogue::SHARD_BUSY)?;
        for (name, seconds) in &process.shards {
            series.counter_f64(&[name], *seconds)?;
        }
        match process.cpu_seconds {
            Some(seconds) => self.family(catalogue::PROCESS_CPU_SECONDS)?.counter_f64(&[], seconds),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests;
