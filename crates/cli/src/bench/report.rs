//! The result of a measurement, with everything that it depends on.

use std::io::Write;

use hdrhistogram::Histogram;
use indicatif::{HumanBytes, HumanCount};
use levada_client::Topic;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::meter::Measured;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format};

/// Above this part of one processor, the client may be the limit.
const BUSY: f64 = 0.8;

/// A finished measurement and its parameters.
pub(super) struct Report<'a> {
    bench: &'static str,
    measured: &'a Measured,
    pub(super) parameters: Vec<(&'static str, Value)>,
    latencies: Vec<(&'static str, Option<Percentiles>)>,
}

/// Percentiles in microseconds.
#[derive(Clone, Copy, Debug, Serialize)]
struct Percentiles {
    count: u64,
    mean: f64,
    p50: u64,
    p90: u64,
    p99: u64,
    #[serde(rename = "p99.9")]
    p999: u64,
    #[serde(rename = "p99.99")]
    p9999: u64,
    max: u64,
}

impl Percentiles {
    /// `None` if nothing was recorded.
    fn of(histogram: &Histogram<u64>) -> Option<Self> {
        let at = |quantile| histogram.value_at_quantile(quantile);
        (!histogram.is_empty()).then(|| Self {
            count: histogram.len(),
            mean: histogram.mean(),
            p50: at(0.5),
            p90: at(0.9),
            p99: at(0.99),
            p999: at(0.999),
            p9999: at(0.9999),
            max: histogram.max(),
        })
    }

    fn row(&self, name: &str) -> Vec<String> {
        let values = [self.p50, self.p90, self.p99, self.p999, self.p9999, self.max];
        let in_ms = values.map(|us| format!("{:.3}", us as f64 / 1e3));
        [name.replace('_', " ")].into_iter().chain(in_ms).collect()
    }
}

impl<'a> Report<'a> {
    pub(super) fn new(bench: &'static str, topic: &Topic, measured: &'a Measured) -> Self {
        let parameters = vec![
            ("topic", json!(topic.name)),
            ("partitions", json!(topic.leaders.len())),
            ("leaders", json!(super::produce::by_leader(topic).len())),
        ];
        Self { bench, measured, parameters, latencies: Vec::new() }
    }

    /// Adds a latency.
    pub(super) fn latency(&mut self, name: &'static str, histogram: &Histogram<u64>) {
        self.latencies.push((name, Percentiles::of(histogram)));
    }

    pub(super) fn print(&self, format: Format, out: &mut dyn Write) -> Result<(), Failure> {
        if self.measured.tally.records == 0 {
            return Err(Failure::with_next(
                "nothing was measured: the command ended during the warm-up",
                "a shorter --warm-up or a longer --duration",
            ));
        }
        match format {
            Format::Json => output::json(out, &self.json())?,
            Format::Table => self.print_text(out)?,
        }
        out.flush()?;
        let busy = self.cpu_share();
        if busy > BUSY {
            tell!(
                "note: this command used {:.0} % of one processor; it may be the limit, not the broker",
                busy * 100.0
            );
        }
        Ok(())
    }

    fn json(&self) -> Value {
        let (tally, seconds) = (&self.measured.tally, self.seconds());
        let parameters: Map<String, Value> =
            self.parameters.iter().map(|(key, value)| ((*key).to_owned(), value.clone())).collect();
        let latencies: Map<String, Value> =
            self.latencies.iter().map(|(name, found)| ((*name).to_owned(), json!(found))).collect();
        json!({
            "bench": self.bench,
            "parameters": parameters,
            "seconds": seconds,
            "records": tally.records,
            "bytes": tally.bytes,
            "records_per_s": tally.records as f64 / seconds,
            "bytes_per_s": tally.bytes as f64 / seconds,
            "client_cpu_s": self.measured.cpu.as_secs_f64(),
            "latency_us": latencies,
        })
    }

    fn print_text(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let given: Vec<String> = self
            .parameters
            .iter()
            .filter(|(_, value)| !value.is_null())
            .map(|(key, value)| match value {
                Value::String(text) => format!("{key}={text}"),
                value => format!("{key}={value}"),
            })
            .collect();
        writeln!(out, "{}", folded(&format!("bench {}:", self.bench), &given))?;
        let (tally, seconds) = (&self.measured.tally, self.seconds());
        let rate = HumanCount((tally.records as f64 / seconds) as u64);
        let bytes = HumanBytes((tally.bytes as f64 / seconds) as u64);
        let cpu = self.measured.cpu.as_secs_f64();
        writeln!(out, "\nRecords     {} in {seconds:.1} s", HumanCount(tally.records))?;
        writeln!(out, "Rate        {rate} records/s, {bytes}/s")?;
        writeln!(
            out,
            "Client CPU  {cpu:.2} s, {:.0} % of one processor, {:.2} µs a record\n",
            self.cpu_share() * 100.0,
            cpu * 1e6 / tally.records as f64
        )?;
        let rows = self.latencies.iter().filter_map(|(name, found)| found.map(|found| found.row(name)));
        let header = ["LATENCY (MS)", "P50", "P90", "P99", "P99.9", "P99.99", "MAX"];
        output::table(out, &header, rows.collect())
    }

    fn seconds(&self) -> f64 {
        self.measured.elapsed.as_secs_f64().max(1e-6)
    }

    fn cpu_share(&self) -> f64 {
        self.measured.cpu.as_secs_f64() / self.seconds()
    }
}

/// Words after a head, in lines of at most 80 characters where a word is not longer.
fn folded(head: &str, words: &[String]) -> String {
    const WIDTH: usize = 80;
    let (mut text, mut column) = (head.to_owned(), head.chars().count());
    for word in words {
        let length = word.chars().count() + 1;
        if column + length > WIDTH {
            text.push_str("\n ");
            column = 1;
        }
        text.push(' ');
        text.push_str(word);
        column += length;
    }
    text
}
