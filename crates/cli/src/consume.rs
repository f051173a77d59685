//! `levada consume`: records of topics on stdout.

mod alone;
mod format;
mod grouped;
mod keys;
mod limit;
mod schemas;
mod shared;
mod sink;
mod start;
mod topics;

use std::io::Write;

use clap::ValueEnum;
use levada_client::{Cluster, Isolation};
use levada_schema::Schemas;
use regex::bytes::Regex;

pub(crate) use self::start::Start;
use crate::cluster::BrokerArgs;
use crate::consume::format::Template;
use crate::consume::limit::{Limit, Until};
use crate::consume::shared::Ack;
use crate::consume::sink::Sink;
use crate::consume::topics::Wanted;
use crate::interrupt;
use crate::schema::RegistryArgs;
use levada_terminal::failure::Failure;

/// Consume records
///
/// Prints the records of all partitions as they arrive, until Ctrl-C. Continues after restarts of
/// the broker, without losing a record or printing one twice. Commits offsets only with --group.
///
/// With a schema registry, keys and values that begin with the id of a schema (Confluent's wire
/// format) are printed as JSON. A part that cannot be decoded is printed unchanged, and a message
/// on stderr has the cause.
///
/// With --share, the records are those that the share group delivers to this member, and the member
/// acknowledges each record after printing it.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada consume clicks                       from the start, then wait for more
  levada consume clicks -e > clicks.txt       the records that exist now, then exit
  levada consume clicks -o -10 -e             the last 10 records of each partition
  levada consume clicks -o latest -n 1        wait for one record
  levada consume clicks -o @2026-11-21T06:30:00Z --until @2026-11-21T07:00:00Z
  levada consume clicks views '^logs-.*' -f '%t %v\\n'
  levada consume logs -G readers              as a member of the group; commits printed records
  levada consume tasks --share workers        as a member of the share group, which is a queue
  levada consume tasks --share workers -n 1 --ack reject
  levada consume clicks -e --grep 'user-4[0-9]'
  levada consume clicks -o @1700000000000 -f '%T %p/%o %k=%v\\n'
  levada consume clicks -e --output json | jq .value
  levada consume orders -e --schema-registry http://127.0.0.1:8081    Avro, Protobuf as JSON

Format: %v value, %k key, %t topic, %p partition, %o offset, %T timestamp in ms, %h headers,
        %V and %K lengths of value and key in bytes, %d deliveries of a share group, %% percent,
        \\n \\t \\r \\0 \\\\ \\xNN bytes.")]
pub(crate) struct Args {
    /// Names of the topics; one that begins with ^ is a regular expression that matches whole names
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    #[command(flatten)]
    brokers: BrokerArgs,
    #[command(flatten)]
    registry: RegistryArgs,
    /// Start: earliest, latest, an offset, -N (the last N of each partition) or @TIME; in a group,
    /// only for partitions without a committed offset
    #[arg(short, long, value_name = "WHERE", default_value = "earliest", allow_hyphen_values = true)]
    offset: Start,
    /// The default
    #[arg(long, hide = true, conflicts_with = "offset")]
    from_beginning: bool,
    /// Only these partitions; repeatable
    #[arg(short, long, value_name = "N", conflicts_with = "group")]
    partition: Vec<i32>,
    /// Join this consumer group, which shares the partitions, and commit the offsets of printed
    /// records
    #[arg(short = 'G', long, value_name = "GROUP", value_parser = clap::builder::NonEmptyStringValueParser::new())]
    group: Option<String>,
    /// Join this share group, and acquire records that no other member has acquired
    #[arg(
        long,
        value_name = "GROUP",
        value_parser = clap::builder::NonEmptyStringValueParser::new(),
        conflicts_with_all = ["group", "partition", "offset", "from_beginning", "until", "isolation", "grep"]
    )]
    share: Option<String>,
    /// Acknowledgement of each record of --share [default: accept; on a terminal, the key a, r or x
    /// decides]
    #[arg(long, value_name = "HOW", requires = "share")]
    ack: Option<Ack>,
    /// Isolation level: records of committed transactions only, or all records
    #[arg(long, alias = "isolation-level", value_name = "LEVEL", default_value = "read_committed")]
    isolation: Level,
    /// Exit after this many records
    #[arg(short = 'n', long, alias = "max-messages", value_name = "N")]
    count: Option<u64>,
    /// Exit after the last record that existed at the start; of a share group, when no record is
    /// available
    #[arg(short, long)]
    exit: bool,
    /// Exit before this offset of each partition, or before the first record at @TIME or later
    #[arg(long, value_name = "OFFSET|@TIME")]
    until: Option<Until>,
    /// Only records whose key or value matches this regular expression
    #[arg(long, value_name = "REGEX", value_parser = Regex::new)]
    grep: Option<Regex>,
    /// Format of a printed record
    #[arg(short, long, value_name = "FORMAT", default_value = "%v\\n", conflicts_with = "output")]
    format: Template,
    /// Output format: text as --format says, or one JSON object per line
    #[arg(long, value_name = "FORM", default_value = "text")]
    output: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
}

/// `--isolation`, by Kafka's names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Level {
    #[value(name = "read_committed")]
    Committed,
    #[value(name = "read_uncommitted")]
    Uncommitted,
}

impl Level {
    fn isolation(self) -> Isolation {
        match self {
            Self::Committed => Isolation::Committed,
            Self::Uncommitted => Isolation::Uncommitted,
        }
    }
}

impl Args {
    fn start(&self) -> Start {
        if self.from_beginning { Start::Earliest } else { self.offset }
    }

    /// True if the command ends by itself.
    fn has_end(&self) -> bool {
        self.exit || self.count.is_some() || self.until.is_some()
    }
}

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Result<(), Failure> {
    let wanted = Wanted::new(&args.topics)?;
    let schemas = args.registry.registry(&args.brokers)?.map(Schemas::new);
    let cluster = args.brokers.connect()?;
    if args.group.is_some() || args.share.is_some() {
        interrupt::catch()?;
    }
    read(&args, &wanted, cluster, &mut Sink::new(&args, schemas, out))
}

fn read(args: &Args, wanted: &Wanted, cluster: Cluster, sink: &mut Sink<'_>) -> Result<(), Failure> {
    let limit = Limit::new(args.exit, args.until);
    if let Some(group) = &args.share {
        return shared::run(args, group, wanted, (cluster, sink));
    }
    match &args.group {
        None => alone::run(args, cluster, wanted, &limit, sink),
        Some(group) => {
            let task = grouped::Task { group, wanted, limit: &limit };
            grouped::run(args, task, cluster, sink)
        }
    }
}

#[cfg(test)]
mod tests;
