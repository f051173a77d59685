//! The HTTP address for operators: `/metrics` in the OpenMetrics format, generated for each scrape,
//! and `/healthz`.

use std::fmt;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use http::StatusCode;
use levada_io::{Counters, Snapshot};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeGaugeValue, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::registry::Registry;

use crate::answer::{self, Frame, Moment, Persistence, Reply, Sharing};
use crate::request::{Head, Method, Refusal};
use crate::shard::Shared;
use crate::stats::Stats;
use crate::target::{self, Target};

const MEDIA: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// Responds to a request at the address for operators.
///
/// # Errors
/// The target is malformed.
pub(crate) fn decide(
    head: &Head<'_, '_>,
    shared: &Arc<Shared>,
    moment: Moment<'_>,
) -> Result<Reply, Refusal> {
    let persistence = Persistence::of(head);
    let frame = Frame { moment, persistence, sharing: Sharing::None, head_only: head.method == Method::Head };
    if !matches!(head.method, Method::Get | Method::Head) {
        return Ok(answer::plain(StatusCode::METHOD_NOT_ALLOWED, &frame, b"Allow: GET, HEAD\r\n"));
    }
    let path = match target::split(head.target)? {
        Target::Path { path, .. } => path,
        Target::Server => b"",
    };
    Ok(match path {
        b"/metrics" => match render(shared) {
            Ok(text) => answer::page(StatusCode::OK, &frame, b"", (MEDIA, text.into())),
            Err(_) => answer::plain(StatusCode::INTERNAL_SERVER_ERROR, &frame, b""),
        },
        b"/healthz" => answer::text(StatusCode::OK, &frame, b"", "ok\n"),
        _ => answer::text(StatusCode::NOT_FOUND, &frame, b"", "there are /healthz and /metrics\n"),
    })
}

fn render(shared: &Arc<Shared>) -> Result<String, fmt::Error> {
    let mut registry = Registry::default();
    let since = shared.started.duration_since(UNIX_EPOCH).unwrap_or_default();
    registry.register_collector(Box::new(Scrape {
        stats: shared.stats.clone(),
        counters: shared.counters.clone(),
        started: since.as_secs_f64(),
    }));
    let mut text = String::with_capacity(8 * 1024);
    text::encode(&mut text, &registry)?;
    Ok(text)
}

#[derive(Debug)]
struct Scrape {
    stats: Arc<Stats>,
    counters: Arc<Counters>,
    started: f64,
}

impl Collector for Scrape {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let mut families = Families { encoder };
        families.transfers(&self.counters.snapshot())?;
        families.clients(&self.stats)?;
        families.gauge("process_start_time_seconds", "Start of the process since 1970", self.started)
    }
}

struct Families<'a> {
    encoder: DescriptorEncoder<'a>,
}

impl Families<'_> {
    fn transfers(&mut self, snapshot: &Snapshot) -> fmt::Result {
        const FAMILIES: [(&str, &str, &str); 5] = [
            ("bytes", "levada_transfer_bytes", "Bytes that sockets accepted, by the path that carried them"),
            ("calls", "levada_transfer_calls", "System calls of a path, including failed calls"),
            ("stalls", "levada_transfer_stalls", "System calls for a path that took longer than 1 ms"),
            ("fallbacks", "levada_transfer_fallbacks", "Times a planned path was not taken, by cause"),
            (
                "warmed_bytes",
                "levada_transfer_warmed_bytes",
                "Bytes of cold pages that a thread other than a shard waited for",
            ),
        ];
        for (metric, name, help) in FAMILIES {
            let samples = snapshot.samples().filter(|sample| sample.metric == metric);
            self.counters(name, help, samples.map(|sample| (sample.label, sample.value)))?;
        }
        Ok(())
    }

    fn clients(&mut self, stats: &Stats) -> fmt::Result {
        let answers = stats.answers().map(|(class, count)| (Some(("status", class)), count));
        self.counters("levada_files_responses", "Answers by class of status", answers.into_iter())?;
        let (opened, closed) = stats.connections();
        self.counter("levada_files_connections_opened", "Connections accepted", opened)?;
        let open = opened.saturating_sub(closed);
        self.gauge("levada_files_connections", "Connections open now", open)?;
        let help = "Connections closed immediately because their address had too many connections";
        self.counter("levada_files_connections_rejected", help, stats.connections_rejected())?;
        let help = "Bytes of responses that sockets accepted, before any encryption";
        self.counter("levada_files_sent_bytes", help, stats.sent_bytes())?;
        let help = "Answers cut off because their file changed or could not be read";
        self.counter("levada_files_responses_truncated", help, stats.responses_truncated())?;
        let help = "Lines of the access log lost because the disk was too slow or failed";
        self.counter("levada_files_access_log_lines_dropped", help, stats.log_lines_dropped_total())
    }

    fn counter(&mut self, name: &str, help: &str, value: u64) -> fmt::Result {
        self.counters(name, help, std::iter::once((None, value)))
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
                    family.encode_family(&[label])?.encode_counter::<NoLabelSet, _, u64>(&value, None)?;
                }
                None => family.encode_counter::<NoLabelSet, _, u64>(&value, None)?,
            }
        }
        Ok(())
    }
}
