//! `levada produce`: sends lines of stdin as records, in batches as large as the input permits.

mod json;
mod lines;
mod record;
mod schemas;

use std::io::{self, IsTerminal, Read};
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use clap::ValueEnum;
use indicatif::{HumanBytes, HumanCount, ProgressBar, ProgressStyle};
use levada_base::compress::Compression;
use levada_client::{Led, Producer, ProducerOptions};

use crate::cluster::BrokerArgs;
use crate::notices::Reporter;
use crate::produce::lines::{Input, Lines};
use crate::produce::record::Reader;
use crate::produce::schemas::Encoders;
use crate::schema::{Chosen, RegistryArgs};
use crate::{interrupt, kafka_error, time};
use levada_terminal::escapes;
use levada_terminal::failure::Failure;

/// Pause of the input after which the lines read so far are sent.
const LINGER: Duration = Duration::from_millis(5);
/// Age at which a record is sent even if the input does not pause.
const AGE_MAX: Duration = Duration::from_millis(100);
/// Shortest time of which a rate is printed.
const RATED: Duration = Duration::from_millis(100);
/// Interval between checks for a signal while no record waits.
const IDLE: Duration = Duration::from_millis(100);

/// Produce records, one from each line of stdin
///
/// Lines with a key go to the partition that Kafka's own clients choose for that key. Lines without
/// a key fill one batch per partition in turn. The command repeats requests that a restart of the
/// broker interrupts, and the broker stores their records once. Lines for a partition without a
/// leader wait, and those for other partitions go on. Ctrl-C sends the lines that have been read,
/// and ends the command.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada produce clicks < clicks.txt
  printf 'user-1:login\\n' | levada produce clicks --key-separator :
  levada produce clicks -k '\\t' < pairs.tsv
  levada produce clicks -p 0 -z zstd -H source=import < clicks.txt
  tail -F app.log | levada produce logs
  levada topic create copy -p 12        at least the partitions of clicks, for the next line
  levada consume clicks -e --output json | levada produce copy --input json
  echo '{\"id\": 1}' | levada produce orders --value-schema latest
  levada produce orders --value-schema 'orders-value:3#shop.Order' < orders.ndjson")]
pub(crate) struct Args {
    /// Name of the topic
    topic: String,
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    registry: RegistryArgs,
    /// Encode values, which are JSON, by this schema: an id, SUBJECT, SUBJECT:VERSION, or latest,
    /// which is that of TOPIC-value. #MESSAGE after it names a message of a Protobuf file
    #[arg(long, value_name = "SCHEMA")]
    value_schema: Option<Chosen>,
    /// Encode keys by this schema; latest is that of TOPIC-key
    #[arg(long, value_name = "SCHEMA")]
    key_schema: Option<Chosen>,
    /// Form of a line: text, or a JSON object as `levada consume --output json` prints it
    #[arg(long, value_name = "FORM", default_value = "text")]
    input: Form,
    /// Split each line into key and value at the first occurrence of this text; \t, \0 and \xNN are
    /// bytes
    #[arg(short = 'k', long, value_name = "TEXT", value_parser = separator)]
    key_separator: Option<Separator>,
    /// A header of every record; repeatable
    #[arg(short = 'H', long = "header", value_name = "KEY=VALUE", value_parser = header)]
    headers: Vec<(String, String)>,
    /// Compress batches
    #[arg(short = 'z', long, value_name = "CODEC", default_value = "none")]
    compression: Codec,
    /// Partition of every record [default: by key; without a key, each partition in turn]
    #[arg(short, long, value_name = "N")]
    partition: Option<i32>,
    /// Acknowledgement to wait for: of all replicas, of the leader (1), or none (0); the command
    /// repeats requests only with all
    #[arg(long, value_name = "WHO", default_value = "all")]
    acks: Acks,
    /// Time that a batch may wait for its acknowledgement, including restarts of the broker
    #[arg(long, value_name = "DURATION", default_value = "2m", value_parser = time::duration)]
    timeout: i64,
    /// Largest batch before compression, in bytes
    #[arg(long, value_name = "BYTES", default_value_t = 1_000_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000_000))]
    batch_bytes: u32,
}

/// The form of the lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
}

/// A separator: the text of the option, and its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Separator {
    text: String,
    bytes: Vec<u8>,
}

/// Compression of the producer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Codec {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// The replicas whose acknowledgement a request waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Acks {
    #[value(name = "0")]
    Nobody,
    #[value(name = "1")]
    Leader,
    #[value(name = "all", alias = "-1")]
    All,
}

pub(crate) fn run(args: Args) -> Result<(), Failure> {
    if args.input == Form::Json && args.key_separator.is_some() {
        let what = "--key-separator is for lines of text: with --input json the key is a field of each line";
        return Err(Failure::Usage(what.to_owned()));
    }
    let encoders = Encoders::of(&args)?;
    let mut cluster = args.brokers.connect()?;
    let option = format!("--topic {}", args.topic);
    let led = Led::These(args.partition.as_slice());
    let topic = kafka_error::needing(cluster.topic(&args.topic, true, led), "write", &option)?;
    if let Some(partition) = args.partition {
        topic.leader(partition)?;
    }
    if io::stdin().is_terminal() {
        tell!("one record per line; Ctrl-D ends");
    }
    let started = Instant::now();
    let mut lines = Lines::stdin();
    let bar = progress(lines.size());
    let mut producer = Producer::new(cluster, topic, args.options(), &Reporter)?;
    interrupt::catch()?;
    let reader = Reader::new(&args, encoders);
    let ended = feed(reader, &mut producer, &mut lines, &bar, &interrupt::is_asked);
    bar.finish_and_clear();
    if ended.is_err() {
        producer.report_unsent();
    }
    let (records, bytes) = (producer.acknowledged_records(), producer.acknowledged_bytes());
    let verb = if args.acks == Acks::Nobody { "sent" } else { "produced" };
    let rate = rate(bytes, started.elapsed());
    let noun = if records == 1 { "record" } else { "records" };
    tell!("{verb} {} {noun}, {}{rate} to {}", HumanCount(records), HumanBytes(bytes), args.topic);
    ended
}

/// The rate in brackets after a space; empty for a time that is too short to measure one.
fn rate(bytes: u64, took: Duration) -> String {
    if took < RATED {
        return String::new();
    }
    format!(" ({}/s)", HumanBytes((bytes as f64 / took.as_secs_f64()) as u64))
}

/// Sends the lines until their end, or until `is_asked`.
fn feed<R: Read + AsFd>(
    mut reader: Reader<'_>,
    producer: &mut Producer<'_>,
    lines: &mut Lines<R>,
    bar: &ProgressBar,
    is_asked: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    let ended = feed_lines(&mut reader, producer, lines, bar, is_asked);
    reader.warn();
    ended.map_err(|failure| reader.explained(failure))
}

fn feed_lines<R: Read + AsFd>(
    reader: &mut Reader<'_>,
    producer: &mut Producer<'_>,
    lines: &mut Lines<R>,
    bar: &ProgressBar,
    is_asked: &dyn Fn() -> bool,
) -> Result<(), Failure> {
    // The next line of a regular file is already there: only full batches are sent.
    let has_size = bar.length().is_some();
    let age_max = if lines.are_complete() { Duration::MAX } else { AGE_MAX };
    loop {
        if is_asked() {
            lines.close();
        }
        producer.tend()?;
        if producer.age().is_some_and(|age| age >= age_max) {
            producer.flush()?;
        }
        let wait = if producer.age().is_some() { LINGER } else { IDLE };
        let number = lines.number() + 1;
        match lines.next(wait)? {
            Input::End => break,
            Input::Pause => producer.flush()?,
            Input::Line(line) => match reader.read(line, number) {
                Ok(record) => producer.push(&record, number)?,
                Err(failure) => {
                    // The lines before it are good.
                    producer.finish()?;
                    return Err(failure);
                }
            },
        }
        bar.set_position(if has_size { lines.taken_bytes() } else { producer.acknowledged_bytes() });
    }
    producer.finish()?;
    if lines.has_rest() {
        tell!("not sent: line {}, which is incomplete", lines.number() + 1);
    }
    if is_asked() { Err(Failure::Interrupted) } else { Ok(()) }
}

/// A progress bar on stderr if it is a terminal and records do not come from a keyboard. It shows
/// the processed part of an input of known size, otherwise the acknowledged bytes.
fn progress(size: Option<u64>) -> ProgressBar {
    if io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let (bar, template) = match size {
        Some(size) => (
            ProgressBar::new(size),
            "{wide_bar} {percent} %  {bytes} of {total_bytes}, {bytes_per_sec}, {eta} left",
        ),
        None => (ProgressBar::new_spinner(), "{spinner} {bytes} acknowledged, {bytes_per_sec}"),
    };
    bar.with_style(
        ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_spinner()),
    )
}

impl Args {
    fn options(&self) -> ProducerOptions {
        ProducerOptions {
            acks: self.acks.acks(),
            timeout: Duration::from_millis(self.timeout.unsigned_abs()),
            batch_bytes: self.batch_bytes as usize,
            compression: self.compression.compression(),
        }
    }
}

impl Codec {
    pub(crate) fn compression(self) -> Compression {
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
    /// Value of `--acks` on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Nobody => "0",
            Self::Leader => "1",
            Self::All => "all",
        }
    }

    /// The acknowledgement that the producer requests.
    pub(crate) fn acks(self) -> levada_client::Acks {
        match self {
            Self::Nobody => levada_client::Acks::Nobody,
            Self::Leader => levada_client::Acks::Leader,
            Self::All => levada_client::Acks::All,
        }
    }
}

fn separator(text: &str) -> Result<Separator, String> {
    match escapes::unescaped(text)? {
        bytes if bytes.is_empty() => Err("expected at least one character, such as : or \\t".to_owned()),
        bytes => Ok(Separator { text: text.to_owned(), bytes }),
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
