//! `levada bench produce|consume|latency`: load on any broker that serves Kafka's protocol.

mod consume;
mod latency;
mod load;
mod meter;
mod pipeline;
mod produce;
mod reader;
mod report;

use std::io::Write;
use std::time::Duration;

use clap::Subcommand;
use serde_json::{Value, json};

use crate::cluster::ClusterCommand;
use crate::{interrupt, time};
use levada_terminal::failure::Failure;
use levada_terminal::output::FormatArgs;

/// Measure throughput and latency of a broker
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada bench produce clicks                        as fast as the broker takes them, for 10 s
  levada bench produce clicks --rate 50000 --record-size 1000
  levada bench consume clicks --records 1000000
  levada bench latency clicks --rate 1000            from a record's due time to its consumer")]
pub(crate) enum Verb {
    Produce(produce::Produce),
    Consume(consume::Consume),
    Latency(latency::Latency),
}

/// The extent of a measurement.
#[derive(Debug, clap::Args)]
struct Extent {
    /// End after this many measured records
    #[arg(short = 'n', long, value_name = "N", conflicts_with = "duration", value_parser = clap::value_parser!(u64).range(1..))]
    records: Option<u64>,
    /// End after this duration of measurement [default: 10s]
    #[arg(short, long, value_name = "DURATION", value_parser = time::duration)]
    duration: Option<i64>,
    /// Time at the start that does not count in the result
    #[arg(long, value_name = "DURATION", default_value = "2s", value_parser = time::duration)]
    warm_up: i64,
    #[command(flatten)]
    format: FormatArgs,
}

/// Duration of the measurement if neither a time nor a count is given.
const DEFAULT_DURATION: Duration = Duration::from_secs(10);

impl Extent {
    fn warm_up(&self) -> Duration {
        Duration::from_millis(self.warm_up.unsigned_abs())
    }

    fn duration(&self) -> Option<Duration> {
        match (self.duration, self.records) {
            (Some(given), _) => Some(Duration::from_millis(given.unsigned_abs())),
            (None, Some(_)) => None,
            (None, None) => Some(DEFAULT_DURATION),
        }
    }

    /// The extent among the parameters of a report.
    fn parameters(&self) -> [(&'static str, Value); 3] {
        [
            ("warm_up_s", json!(self.warm_up().as_secs_f64())),
            ("duration_s", json!(self.duration().map(|duration| duration.as_secs_f64()))),
            ("measured_records", json!(self.records)),
        ]
    }
}

pub(crate) fn run(args: ClusterCommand<Verb>, out: &mut dyn Write) -> Result<(), Failure> {
    let mut cluster = args.brokers.connect()?;
    interrupt::catch()?;
    match args.verb {
        Verb::Produce(produce) => produce.run(&mut cluster, out),
        Verb::Consume(consume) => consume.run(&mut cluster, out),
        Verb::Latency(latency) => latency.run(&mut cluster, out),
    }
}

#[cfg(test)]
mod tests;
