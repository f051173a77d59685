//! Arguments of `levada lab`. The program `levada` documents and completes them, and `levada-lab`
//! carries them out: a build of the broker does not wait for the laboratory.

use std::path::PathBuf;

use clap::builder::PossibleValuesParser;
use clap::{Subcommand, ValueEnum};

use crate::output::FormatArgs;

/// Experiments of `levada lab broker`.
pub const BROKER_EXPERIMENTS: [&str; 29] = [
    "start",
    "idle",
    "produce",
    "fetch",
    "tls-fetch",
    "append",
    "parallel",
    "latency",
    "many-producers",
    "java-producer",
    "connections",
    "memory",
    "growth",
    "fairness",
    "recovery",
    "interference",
    "reheat",
    "fan-out",
    "watched",
    "replicate",
    "control",
    "share-fetch",
    "share-acknowledge",
    "share-members",
    "telemetry",
    "streams-members",
    "remote-replay",
    "remote-interference",
    "remote-copy",
];

/// Experiments of `levada lab files`.
pub const FILES_EXPERIMENTS: [&str; 4] = ["requests", "volume", "idle", "fairness"];

/// Measure the cost of each way to move bytes on this machine
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada lab transfer --quick                   a first look at the paths from file to socket
  levada lab transfer --only cold               only cases with cold files
  levada lab broker --quick                     cost of a broker, compared with Kafka
  levada lab files --quick --nginx              cost of a file server, compared with nginx
  levada lab all --full --record full.jsonl     everything, thoroughly")]
pub struct Args {
    /// The command.
    #[command(subcommand)]
    pub command: Command,
}

/// Commands of the laboratory.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Run all experiments
    #[command(after_help = "Examples:
  levada lab all --quick                        half a minute
  levada lab all --quick --report all.html
  levada lab all --full --dir /var/lib/levada   on the file system of the data")]
    All(KafkaClassesArgs),
    /// Compare the paths from a file to a socket
    #[command(after_help = "Examples:
  levada lab transfer
  levada lab transfer --only splice             pipes of several sizes
  levada lab transfer --output json --record t.jsonl")]
    Transfer(RunArgs),
    /// Write the HTML report of a record
    #[command(after_help = "Examples:
  levada lab report full.jsonl                  writes full.html
  levada lab report full.jsonl --out wall.html")]
    Report(ReportArgs),
    /// Show the differences between two records
    #[command(after_help = "Examples:
  levada lab compare before.jsonl after.jsonl
  levada lab compare --output json before.jsonl after.jsonl")]
    Compare(CompareArgs),
    Broker(BrokerArgs),
    Files(FilesArgs),
    /// Compare ways to copy a file, call by call
    #[command(after_help = "Examples:
  levada lab copy
  levada lab copy --full                        a gigabyte, as in the article on sendfile")]
    Copy(RunArgs),
    /// Compare ways to read a large file
    #[command(after_help = "Examples:
  levada lab read --dir /var/lib/levada         on the disk of the data
  levada lab read --only cold --full")]
    Read(RunArgs),
    /// Compare ways to receive batches from a socket into a file
    #[command(after_help = "Examples:
  levada lab receive
  levada lab receive --only 256                 batches of 256 KiB")]
    Receive(RunArgs),
    /// Compare ways to find the batch of an offset
    #[command(after_help = "Examples:
  levada lab search
  levada lab search --only last --rounds 51     many rounds of the article's case
  levada lab search --kafka-libs kafka/libs     Kafka's own FileRecords beside it")]
    Search(KafkaClassesArgs),
    /// Compare ways to send memory, by size and route
    #[command(after_help = "Examples:
  levada lab send
  levada lab send --only ifb                    the device that takes references
  levada lab send --only pieces                 messages of many small pieces")]
    Send(RunArgs),
    /// Compare network loops of a server, by epoll and by a ring
    #[command(after_help = "Examples:
  levada lab loop
  levada lab loop --only idle                   5000 connections, of which ten are busy")]
    Loop(RunArgs),
    Calibrate(CalibrateArgs),
    /// Compare records with the claims of articles, for the documentation
    #[command(
        hide = true,
        after_help = "Examples:
  levada lab claims all.jsonl calibrate.jsonl   writes docs/lab/claims.md and its records"
    )]
    Claims(ClaimsArgs),
    /// Compare records with the goals for the broker's cost, for the documentation
    #[command(
        hide = true,
        after_help = "Examples:
  levada lab goals *.jsonl   writes docs/performance/figures.md and its records"
    )]
    Goals(GoalsArgs),
    /// Receive the data of an experiment, as commands on standard input require
    #[command(
        hide = true,
        after_help = "Examples:
  levada lab peer                               started by the other commands"
    )]
    Peer,
}

/// Options of every experiment.
#[derive(Debug, clap::Args)]
pub struct RunArgs {
    /// Few rounds and small files, in seconds
    #[arg(long)]
    pub quick: bool,
    /// More rounds and larger files, in minutes
    #[arg(long, conflicts_with = "quick")]
    pub full: bool,
    /// Everything once, to see that it works
    #[arg(long, hide = true, conflicts_with_all = ["quick", "full"])]
    pub tiny: bool,
    /// Number of timed rounds, without a time limit
    #[arg(long, value_name = "COUNT", value_parser = clap::value_parser!(u32).range(1..))]
    pub rounds: Option<u32>,
    /// Only cases whose group and name contain this text
    #[arg(long, value_name = "TEXT")]
    pub only: Option<String>,
    /// Directory for temporary files, on the file system to measure [default: the system's
    /// temporary directory]
    #[arg(long, value_name = "DIR")]
    pub dir: Option<PathBuf>,
    /// File for the raw results [default: a new one in ~/.local/state/levada/lab]
    #[arg(long, value_name = "FILE")]
    pub record: Option<PathBuf>,
    /// After the rounds, profile each case for one second, and draw flame graphs in the report
    #[arg(long)]
    pub flames: bool,
    /// File for the report, an HTML page
    #[arg(long, value_name = "FILE")]
    pub report: Option<PathBuf>,
    /// Seed of the random order of cases, to repeat a run
    #[arg(long, value_name = "NUMBER")]
    pub seed: Option<u64>,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Options of the experiments that can also run on Kafka's classes.
#[derive(Debug, clap::Args)]
pub struct KafkaClassesArgs {
    /// Directory with Kafka's jars, to measure Kafka's own search of offsets too; needs java
    #[arg(long, value_name = "DIR")]
    pub kafka_libs: Option<PathBuf>,
    #[command(flatten)]
    pub run: RunArgs,
}

/// Compare Levada with Apache Kafka, if --kafka-libs names Kafka's jars
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada lab broker --quick                     Levada alone, a first look at everything
  levada lab broker fetch produce --kafka-libs kafka/libs
  levada lab broker interference --full --kafka-libs kafka/libs --record i.jsonl")]
pub struct BrokerArgs {
    /// Experiments to run [default: all]
    #[arg(value_name = "EXPERIMENT", value_parser = PossibleValuesParser::new(BROKER_EXPERIMENTS))]
    pub experiments: Vec<String>,
    /// Directory with Kafka's jars; needs java
    #[arg(long, value_name = "DIR")]
    pub kafka_libs: Option<PathBuf>,
    /// Directory with the test jars of the same Kafka that have LocalTieredStorage, for
    /// remote-replay, remote-interference and remote-copy: kafka-storage and kafka-clients
    #[arg(long, value_name = "DIR", requires = "kafka_libs")]
    pub tiers_libs: Option<PathBuf>,
    #[command(flatten)]
    pub side: SideArgs,
}

/// Compare servers of static files: levada files and, on request, nginx
///
/// Each server has one worker on one processor; the client has another. nginx has the settings of
/// Debian's package, no access log and a cache of open files.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada lab files --quick                      Levada and a bare loop, a first look at everything
  levada lab files requests volume --nginx
  levada lab files --nginx=/usr/sbin/nginx --full --record f.jsonl")]
pub struct FilesArgs {
    /// Experiments to run [default: all]
    #[arg(value_name = "EXPERIMENT", value_parser = PossibleValuesParser::new(FILES_EXPERIMENTS))]
    pub experiments: Vec<String>,
    /// Measure nginx as well: PROGRAM, or nginx in PATH
    #[arg(long, value_name = "PROGRAM", num_args = 0..=1, require_equals = true, default_missing_value = "nginx")]
    pub nginx: Option<PathBuf>,
    #[command(flatten)]
    pub side: SideArgs,
}

/// Measure this machine's thresholds and write the file that the broker loads
///
/// Takes less than a minute. The broker looks for the file when it starts: levada.thresholds.file,
/// else ~/.config/levada/thresholds, else /etc/levada/thresholds; without a file the defaults
/// apply. `levada doctor` shows the values in force.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada lab calibrate                          for brokers that you start
  levada lab calibrate --file /etc/levada/thresholds
  levada lab calibrate --dry-run                show the thresholds, write no file")]
pub struct CalibrateArgs {
    /// File to write [default: ~/.config/levada/thresholds]
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Write no file
    #[arg(long, conflicts_with = "file")]
    pub dry_run: bool,
    #[command(flatten)]
    pub run: RunArgs,
}

/// Records, and the path of the result.
#[derive(Debug, clap::Args)]
pub struct ClaimsArgs {
    /// Record of `levada lab`
    #[arg(required = true)]
    pub records: Vec<PathBuf>,
    /// Directory of the documentation
    #[arg(long, value_name = "DIR", default_value = "docs")]
    pub docs: PathBuf,
}

/// Records.
#[derive(Debug, clap::Args)]
pub struct CompareArgs {
    /// The earlier record
    pub before: PathBuf,
    /// The later record
    pub after: PathBuf,
    #[command(flatten)]
    pub format: FormatArgs,
}

/// Records, and the path of the result.
#[derive(Debug, clap::Args)]
pub struct GoalsArgs {
    /// Record of `levada lab broker` or `levada lab files`
    #[arg(required = true)]
    pub records: Vec<PathBuf>,
    /// Directory of the documentation
    #[arg(long, value_name = "DIR", default_value = "docs")]
    pub docs: PathBuf,
}

/// A record, and the path of the page.
#[derive(Debug, clap::Args)]
pub struct ReportArgs {
    /// Record of `levada lab`
    pub record: PathBuf,
    /// File for the page [default: the record's name, ending in .html]
    #[arg(long, value_name = "FILE")]
    pub out: Option<PathBuf>,
}

/// Settings that all comparisons of programs have.
#[derive(Debug, clap::Args)]
pub struct SideArgs {
    /// Another build of Levada to measure
    #[arg(long, value_name = "FILE")]
    pub levada: Option<PathBuf>,
    /// Network namespace of the connections
    #[arg(long, value_name = "WHERE", default_value = "own", overrides_with = "network")]
    pub network: Network,
    #[command(flatten)]
    pub run: RunArgs,
}

/// Owner of the loopback device that servers and clients use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Network {
    /// A private loopback device with cubic for both ends; the machine's if that is not allowed
    Own,
    /// The machine's loopback device with its present settings
    Host,
}
