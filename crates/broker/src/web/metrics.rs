//! The text of `/metrics`, made anew from the broker's atomics for each scrape.

use std::{
    fmt,
    sync::Arc,
    time::{SystemTime, UNIX_EPOCH},
};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeCounterValue, EncodeGaugeValue, NoLabelSet, text},
    metrics::MetricType,
    registry::Registry,
};

use super::{CleanerStats, RecoveryProgress, ReplayStats, Source, Work, process::Process};

/// The media type of the text.
pub(super) const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// The text of one scrape.
pub(super) fn render(source: Arc<dyn Source>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    registry.register_collector(Box::new(Scrape { source }));
    let mut text = String::with_capacity(8 * 1024);
    text::encode(&mut text, &registry)?;
    Ok(text)
}

struct Scrape {
    source: Arc<dyn Source>,
}

impl fmt::Debug for Scrape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scrape")
    }
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families { encoder };
        families.build()?;
        families.transfers(&self.source.transfers())?;
        families.replays(self.source.replays())?;
        families.clients(self.source.as_ref())?;
        families.durability(self.source.as_ref())?;
        families.cleaner(self.source.cleaner())?;
        families.recovery(self.source.recovery())?;
        families.process(&Process::read(), self.source.stats().started())
    }
}

struct Families<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Families<'_> {
    fn build(&mut self) -> fmt::Result {
        let (name, help) = ("levada_build", "The running program");
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Info)?;
        family.encode_info(&[("version", env!("CARGO_PKG_VERSION"))])
    }

    fn transfers(&mut self, snapshot: &levada_io::Snapshot) -> fmt::Result {
        const FAMILIES: [(&str, &str, &str); 8] = [
            ("bytes", "levada_transfer_bytes", "Bytes that sockets took, by the path that carried them"),
            ("calls", "levada_transfer_calls", "System calls made for a path, failed ones included"),
            ("stalls", "levada_transfer_stalls", "System calls for a path that took longer than 1 ms"),
            ("fallbacks", "levada_transfer_fallbacks", "Times a planned path was not taken, by cause"),
            (
                "copied_bytes",
                "levada_transfer_copied_bytes",
                "Bytes copied by the CPU between kernel and process",
            ),
            (
                "copied_by_kernel_bytes",
                "levada_transfer_copied_by_kernel_bytes",
                "Bytes handed over by reference that the kernel copied all the same",
            ),
            (
                "warmed_bytes",
                "levada_transfer_warmed_bytes",
                "Bytes of cold pages that a thread other than a shard waited for",
            ),
            (
                "dropped_behind_bytes",
                "levada_transfer_dropped_behind_bytes",
                "Bytes dropped from the page cache behind readers of old records",
            ),
        ];
        for (metric, name, help) in FAMILIES {
            let samples = snapshot.samples().filter(|sample| sample.metric == metric);
            self.counters(name, help, samples.map(|sample| (sample.label, sample.value)))?;
        }
        Ok(())
    }

    fn clients(&mut self, source: &dyn Source) -> fmt::Result {
        let stats = source.stats();
        let requests = stats.requests().map(|(api, count)| (Some(("api", api)), count));
        self.counters("levada_requests", "Requests received, by API", requests)?;
        let opened = stats.connections_opened();
        self.counter("levada_connections_opened", "Connections accepted", opened)?;
        self.gauge("levada_connections", "Connections open now", stats.connections_open())?;
        let http = stats.http_connections();
        self.gauge("levada_http_connections", "HTTP connections open now", http)?;
        let authentications =
            stats.authentications().map(|(result, count)| (Some(("result", result)), count));
        let help = "Clients that showed by SASL who they are, or could not, or did not do it again in time";
        self.counters("levada_authentications", help, authentications.into_iter())?;
        let failed = stats.handshakes_failed();
        self.counter("levada_tls_handshakes_failed", "TLS handshakes that did not succeed", failed)?;
        self.counter("levada_produced_bytes", "Record bytes appended", stats.produced_bytes())?;
        self.counter("levada_fetched_bytes", "Record bytes answered to fetches", stats.fetched_bytes())?;
        self.gauge("levada_partitions", "Partitions on this broker", source.partitions())?;
        let (name, help) = ("levada_request_bytes_held", "Memory of requests that come in or are answered");
        self.gauge(name, help, source.request_bytes_held())?;
        let (name, help) = ("levada_lane_longest_turn_seconds", "Longest time a partition's writer was held");
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for (work, label) in Work::ALL {
            let turn = source.longest_lane_turn(work).as_secs_f64();
            family.encode_family(&[("work", label)])?.encode_gauge(&turn)?;
        }
        Ok(())
    }

    fn durability(&mut self, source: &dyn Source) -> fmt::Result {
        let name = "levada_acks_durability_partitions";
        let help = "Partitions by topic and what an acknowledgement says: page-cache, or that the records are on the device";
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?;
        for ((topic, label), partitions) in source.durability() {
            let labels = [("topic", &*topic), ("durability", &*label)];
            family.encode_family(&labels)?.encode_gauge(&partitions)?;
        }
        Ok(())
    }

    fn replays(&mut self, stats: ReplayStats) -> fmt::Result {
        let help = "Bytes of old records read from the disk, by whether they could stay in the page cache";
        let outcomes = [("admitted", stats.admitted_bytes), ("refused", stats.refused_bytes)];
        let outcomes = outcomes.map(|(outcome, bytes)| (Some(("outcome", outcome)), bytes));
        self.counters("levada_replay_bytes", help, outcomes.into_iter())?;
        let (name, help) = ("levada_replay_around_bytes", "Bytes of old records read around the page cache");
        self.counter(name, help, stats.around_bytes)?;
        let help = "Bytes read before that are admitted to the page cache when they are read again";
        self.gauge("levada_replay_remembered_bytes", help, stats.remembered_bytes)?;
        let help = "How memory stood when old records were last read from the disk";
        let mut family =
            self.encoder.encode_descriptor("levada_replay_memory", help, None, MetricType::Gauge)?;
        for (state, holds) in stats.memory {
            family.encode_family(&[("state", state)])?.encode_gauge(&u64::from(holds))?;
        }
        Ok(())
    }

    fn recovery(&mut self, progress: RecoveryProgress) -> fmt::Result {
        let (name, help) = ("levada_recovery_partitions", "Partitions whose logs are still to be checked");
        self.gauge(name, help, progress.left as u64)?;
        let (name, help) = ("levada_recovery_checked_bytes", "Bytes of log checked since the start");
        self.counter(name, help, progress.checked_bytes)
    }

    fn cleaner(&mut self, stats: CleanerStats) -> fmt::Result {
        self.counter("levada_cleaner_runs", "Logs compacted", stats.runs)?;
        self.counter("levada_cleaner_read_bytes", "Bytes that compaction read", stats.read_bytes)?;
        self.counter("levada_cleaner_written_bytes", "Bytes that compaction wrote", stats.written_bytes)?;
        let (name, help) = ("levada_cleaner_dirtiest_percent", "Largest share of a log not compacted yet");
        self.gauge(name, help, stats.dirtiest_percent)?;
        let (name, help) = ("levada_cleaner_uncleanable_partitions", "Partitions that cannot be compacted");
        self.gauge(name, help, stats.uncleanable)
    }

    fn process(&mut self, process: &Process, started: SystemTime) -> fmt::Result {
        let since_epoch = started.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs_f64();
        self.gauge("process_start_time_seconds", "Start of the process since 1970", since_epoch)?;
        if let Some(bytes) = process.resident_bytes {
            self.gauge("process_resident_memory_bytes", "Memory in use", bytes)?;
        }
        if let Some(count) = process.open_fds {
            self.gauge("process_open_fds", "Open file descriptors", count)?;
        }
        match process.cpu_seconds {
            Some(seconds) => self.counter("process_cpu_seconds", "CPU time used", seconds),
            None => Ok(()),
        }
    }

    fn counter(&mut self, name: &str, help: &str, value: impl EncodeCounterValue) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        family.encode_counter::<NoLabelSet, _, u64>(&value, None)
    }

    fn gauge(&mut self, name: &str, help: &str, value: impl EncodeGaugeValue) -> fmt::Result {
        self.encoder.encode_descriptor(name, help, None, MetricType::Gauge)?.encode_gauge(&value)
    }

    fn counters<'l>(
        &mut self,
        name: &str,
        help: &str,
        values: impl Iterator<Item = (Option<(&'l str, &'l str)>, u64)>,
    ) -> fmt::Result {
        let mut family = self.encoder.encode_descriptor(name, help, None, MetricType::Counter)?;
        for (label, value) in values {
            match label {
                Some(label) => {
                    family.encode_family(&[label])?.encode_counter::<NoLabelSet, _, u64>(&value, None)?
                }
                None => family.encode_counter::<NoLabelSet, _, u64>(&value, None)?,
            }
        }
        Ok(())
    }
}
