//! `levada produce`: lines of stdin become records, in batches as large as the input comes.

mod batches;
mod lines;
mod partitioner;

use std::{
    io::{self, IsTerminal},
    time::Instant,
};

use clap::ValueEnum;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use levada_log::compress::Compression;

use crate::{
    cluster::{BrokerArgs, Cluster},
    failure::Failure,
    produce::{batches::Batches, lines::Lines},
};

/// Produce records: each line of stdin is one
///
/// Lines with a key go to the partition that Kafka's own clients choose for that key; lines without one
/// fill a batch for one partition after the other.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada produce clicks < clicks.txt
  printf 'user-1:login\\n' | levada produce clicks --key-separator :
  levada produce clicks -p 0 -z zstd -H source=import < clicks.txt
  tail -F app.log | levada produce logs --acks 1")]
pub(crate) struct Args {
    /// Name of the topic
    topic: String,
    #[command(flatten)]
    brokers: BrokerArgs,
    /// Split each line into key and value at the first of these
    #[arg(short = 'k', long, value_name = "TEXT", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    key_separator: Option<String>,
    /// A header of every record; repeatable
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Compress batches
    #[arg(short = 'z', long, value_name = "CODEC", default_value = "none")]
    compression: Codec,
    /// Partition of every record [default: by key, else one after the other]
    #[arg(short, long, value_name = "N")]
    partition: Option<i32>,
    /// Whose acknowledgement to wait for: all replicas, the leader (1), nobody (0)
    #[arg(long, value_name = "WHO", default_value = "all")]
    acks: Acks,
    /// Largest batch before compression, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    batch_bytes: u32,
}

/// How batches are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// Whose acknowledgement a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Acks {
    #[value(name = "0")]
    Nobody,
    #[value(name = "1")]
    Leader,
    #[value(name = "all", alias = "-1")]
    All,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    let mut cluster = Cluster::connect(&args.brokers)?;
    let topic = cluster.topic(&args.topic, true)?;
    if let Some(partition) = args.partition {
        topic.leader(partition)?;
    }
    if io::stdin().is_terminal() {
        eprintln!("one record a line; Ctrl-D ends");
    }
    let started = Instant::now();
    let bar = progress();
    let mut batches = Batches::new(cluster, topic, &args);
    let ended = feed(&mut batches, &bar);
    bar.finish_and_clear();
    let (records, bytes) = (batches.acknowledged_records(), batches.acknowledged_bytes());
    let verb = if args.acks == Acks::Nobody { "sent" } else { "produced" };
    let rate = HumanBytes((bytes as f64 / started.elapsed().as_secs_f64().max(1e-3)) as u64);
    let noun = if records == 1 { "record" } else { "records" };
    eprintln!("{verb} {} {noun}, {} ({rate}/s) to {}", HumanCount(records), HumanBytes(bytes), args.topic);
    ended
}

fn feed(batches: &mut Batches<'_>, bar: &ProgressBar) -> Result<(), Failure> {
    let mut lines = Lines::stdin();
    loop {
        if lines.would_wait() {
            batches.flush()?;
        }
        let Some(line) = lines.next()? else { break };
        batches.push(line)?;
        bar.set_position(batches.acknowledged_bytes());
    }
    batches.flush()
}

/// A bar on stderr if people watch and records do not come from their keyboard.
fn progress() -> ProgressBar {
    if io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{spinner} {bytes} acknowledged, {bytes_per_sec}");
    ProgressBar::new_spinner().with_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()))
}

impl Codec {
    fn compression(self) -> Compression {
        match self {
            Self::None => Compression::None,
            Self::Gzip => Compression::Gzip,
            Self::Snappy => Compression::Snappy,
            Self::Lz4 => Compression::Lz4,
            Self::Zstd => Compression::Zstd,
        }
    }
}

impl Acks {
    fn wire(self) -> i16 {
        match self {
            Self::Nobody => 0,
            Self::Leader => 1,
            Self::All => -1,
        }
    }
}

fn header(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) => Ok((key.to_owned(), value.to_owned())),
        None => Err("expected KEY=VALUE, such as source=import".to_owned()),
    }
}

#[cfg(test)]
mod tests;
