//! `levada consume`: records of a topic on stdout.

mod fetcher;
mod format;
mod start;

use std::{collections::BTreeMap, io::Write};

use clap::ValueEnum;

use crate::{
    cluster::{BrokerArgs, Cluster, LATEST, Topic},
    consume::{fetcher::Fetcher, format::Template, start::Start},
    failure::Failure,
    output,
};

/// Consume records
///
/// Prints records of all partitions as they come; Ctrl-C ends. Joins no group and commits nothing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada consume clicks                       from the start, then wait for more
  levada consume clicks -e > clicks.txt       what is there now, then exit
  levada consume clicks -o -10 -e             the last 10 records of each partition
  levada consume clicks -o latest -n 1        wait for one record
  levada consume clicks -o @2026-11-21T06:30:00Z -e
  levada consume clicks -o @1700000000000 -f '%T %p/%o %k=%v\\n'
  levada consume clicks -e --output json | jq .value

Format: %v value, %k key, %t topic, %p partition, %o offset, %T timestamp in ms, %h headers,
        %V and %K lengths of value and key in bytes, %% percent, \\n \\t \\r \\0 \\\\ \\xNN bytes.")]
pub(crate) struct Args {
    /// Name of the topic
    topic: String,
    #[command(flatten)]
    brokers: BrokerArgs,
    /// Where to start: earliest, latest, an offset, -N (the last N of each partition) or @TIME
    #[arg(short, long, value_name = "WHERE", default_value = "earliest", allow_hyphen_values = true)]
    offset: Start,
    /// Only these partitions; repeatable
    #[arg(short, long, value_name = "N")]
    partition: Vec<i32>,
    /// Exit after this many records
    #[arg(short = 'n', long, value_name = "N")]
    count: Option<u64>,
    /// Exit at the end: once everything that was there at the start is printed
    #[arg(short, long)]
    exit: bool,
    /// How a record is printed
    #[arg(short, long, value_name = "FORMAT", default_value = "%v\\n", conflicts_with = "output")]
    format: Template,
    /// Form of the result: text as in --format, or a JSON object a line
    #[arg(long, value_name = "FORM", default_value = "text")]
    output: Form,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Form {
    Text,
    Json,
}

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Result<(), Failure> {
    let mut cluster = Cluster::connect(&args.brokers)?;
    let topic = chosen(cluster.topic(&args.topic, false)?, &args.partition)?;
    let positions = args.offset.positions(&mut cluster, &topic)?;
    let ends = match args.exit {
        true => Some(cluster.offsets(&topic, &topic.leaders.keys().map(|one| (*one, LATEST)).collect())?),
        false => None,
    };
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut fetcher = Fetcher::new(cluster, topic, positions);
    while left > 0 && !ends.as_ref().is_some_and(|ends| fetcher.has_reached(ends)) {
        let mut print = |record: &format::Shown<'_>| match args.output {
            Form::Text => args.format.print(out, record),
            Form::Json => output::json_line(out, &record.json()),
        };
        left -= fetcher.fetch(left, ends.as_ref(), &mut print)?;
        out.flush()?;
    }
    Ok(())
}

/// The topic with the partitions asked for alone.
fn chosen(mut topic: Topic, partitions: &[i32]) -> Result<Topic, Failure> {
    if partitions.is_empty() {
        return Ok(topic);
    }
    let leaders = partitions.iter().map(|partition| Ok((*partition, topic.leader(*partition)?)));
    topic.leaders = leaders.collect::<Result<BTreeMap<_, _>, Failure>>()?;
    Ok(topic)
}

#[cfg(test)]
mod tests;
