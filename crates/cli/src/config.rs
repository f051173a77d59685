//! `levada config show|get|set|delete`: the configuration a broker would start with, and the
//! settings that a running cluster has.

mod change;
mod get;
mod quota;
mod show;
mod target;

use std::io::Write;

use clap::Subcommand;

pub(crate) use self::show::SourceArgs;
use levada_terminal::failure::Failure;

/// Show and change configuration
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada config show --origin                                   the configuration of `levada serve`
  levada config get topic clicks                                settings other than the defaults
  levada config set topic clicks retention.ms=86400000
  levada config set broker default log.retention.ms=86400000    all brokers, while they run
  levada config set group readers consumer.session.timeout.ms=50000
  levada config set client-metrics slow metrics=org.apache.kafka. interval.ms=30000
  levada config set quota client-id=import producer_byte_rate=1048576
  levada config delete topic clicks retention.ms                back to the default")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Show(show::Show),
    Get(get::Get),
    Set(change::Set),
    Delete(change::Delete),
}

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Result<(), Failure> {
    match args.verb {
        Verb::Show(show) => show.run(out),
        Verb::Get(get) => get.run(&mut get.brokers.connect()?, out),
        Verb::Set(set) => set.run(&mut set.brokers.connect()?, out),
        Verb::Delete(delete) => delete.run(&mut delete.brokers.connect()?, out),
    }
}
