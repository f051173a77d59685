//! `levada logdirs`: the directories of brokers, with space and the largest replicas in them.

use std::cmp::Reverse;
use std::io::Write;

use clap::ValueEnum;
use levada_client::{Cluster, TopicPartition};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};
use serde::Serialize;

use crate::cluster::BrokerArgs;
use crate::layout::{Directories, Directory, Layout, listed};
use crate::sizes;

/// Show the data directories of brokers: size, free space, state, and the largest replicas
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada logdirs
  levada logdirs 3 --sort free
  levada logdirs --largest 20                   and the largest 20 replicas
  levada logdirs --output json | jq '.directories[] | select(.error)'")]
pub(crate) struct Args {
    /// Ids of brokers [default: all that serve]
    #[arg(value_name = "BROKER")]
    ids: Vec<i32>,
    /// Order of the rows; sizes in descending order, free bytes in ascending order
    #[arg(long, value_name = "COLUMN", default_value = "broker")]
    sort: Order,
    /// Also list this many of the largest replicas
    #[arg(long, value_name = "N", default_value_t = 0)]
    largest: usize,
    #[command(flatten)]
    contact: BrokerArgs,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum Order {
    Broker,
    Size,
    Free,
    Partitions,
}

/// A directory in the JSON output.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Row {
    broker: i32,
    directory: String,
    /// Kafka's name of the error of the directory.
    error: Option<String>,
    cordoned: bool,
    partitions: usize,
    /// Number of copies of replicas that move to this directory.
    copies: usize,
    bytes: Option<u64>,
    free_bytes: Option<u64>,
    total_bytes: Option<u64>,
}

/// A replica in the JSON output.
#[derive(Debug, PartialEq, Eq, Serialize)]
struct Large {
    topic: String,
    partition: i32,
    broker: i32,
    directory: String,
    bytes: u64,
}

/// Directories and replicas in the JSON output.
#[derive(Debug, Serialize)]
struct Answer {
    directories: Vec<Row>,
    largest: Vec<Large>,
}

pub(crate) const HEADER: [&str; 6] = ["BROKER", "DIRECTORY", "STATE", "PARTITIONS", "SIZE", "FREE"];

pub(crate) fn run(args: &Args, out: &mut dyn Write) -> Result<(), Failure> {
    args.show(&mut args.contact.connect()?, out)
}

impl Args {
    fn show(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let layout = Layout::ask(cluster)?;
        self.ids.iter().try_for_each(|id| layout.member(*id).map(drop))?;
        let asked = if self.ids.is_empty() { layout.serving() } else { self.ids.iter().copied().collect() };
        let mut found = Directories::ask(cluster, asked, None);
        let failures = found.failures();
        if found.known.is_empty() && !failures.is_empty() {
            return Failure::all(failures);
        }
        if let Some(note) = fenced(&layout).filter(|_| self.ids.is_empty()) {
            tell!("note: {note}");
        }
        let mut directories: Vec<Row> = found.known.iter().map(Row::of).collect();
        self.sort.apply(&mut directories);
        let answer = Answer { directories, largest: largest(&found.known, self.largest) };
        let printed = match self.format.format {
            Format::Json => output::json(out, &answer),
            Format::Table => answer.print(out),
        };
        let printed = printed.and_then(|()| Ok(out.flush()?));
        // A closed pipe does not hide a failure.
        Failure::all(failures).and(printed)
    }
}

/// The brokers that the list leaves out because they are fenced.
fn fenced(layout: &Layout) -> Option<String> {
    let fenced = layout.brokers.iter().filter(|(_, one)| one.fenced == Some(true)).map(|(id, _)| *id);
    let ids: Vec<i32> = fenced.collect();
    let known = "levada broker list shows the state of all brokers";
    match ids.as_slice() {
        [] => None,
        [id] => Some(format!("broker {id} is fenced, so that its directories are not known; {known}")),
        _ => Some(format!(
            "brokers {} are fenced, so that their directories are not known; {known}",
            listed(ids)
        )),
    }
}

impl Order {
    fn apply(self, rows: &mut [Row]) {
        rows.sort_by(|one, other| (one.broker, &one.directory).cmp(&(other.broker, &other.directory)));
        match self {
            Self::Broker => {}
            Self::Size => rows.sort_by_key(|row| Reverse(row.bytes)),
            Self::Free => rows.sort_by_key(|row| row.free_bytes.unwrap_or(u64::MAX)),
            Self::Partitions => rows.sort_by_key(|row| Reverse(row.partitions)),
        }
    }
}

impl Answer {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        output::table(out, &HEADER, self.directories.iter().map(Row::cells).collect())?;
        if self.largest.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let cells = self.largest.iter().map(|one| {
            let size = sizes::shown(Some(one.bytes));
            vec![
                one.topic.clone(),
                one.partition.to_string(),
                one.broker.to_string(),
                size,
                one.directory.clone(),
            ]
        });
        output::table(out, &["TOPIC", "PARTITION", "BROKER", "SIZE", "DIRECTORY"], cells.collect())
    }
}

impl Row {
    pub(crate) fn of(directory: &Directory) -> Self {
        let copies = directory.replicas.iter().filter(|replica| replica.is_copy).count();
        Self {
            broker: directory.broker,
            directory: directory.path.clone(),
            error: directory.error.clone(),
            cordoned: directory.is_cordoned,
            partitions: directory.replicas.len() - copies,
            copies,
            bytes: directory.bytes(),
            free_bytes: directory.free_bytes,
            total_bytes: directory.total_bytes,
        }
    }

    pub(crate) fn cells(&self) -> Vec<String> {
        let state = match &self.error {
            Some(error) => error.clone(),
            None if self.cordoned => "cordoned".to_owned(),
            None => "ok".to_owned(),
        };
        vec![
            self.broker.to_string(),
            self.directory.clone(),
            state,
            self.partitions.to_string(),
            sizes::shown(self.bytes),
            sizes::shown(self.free_bytes),
        ]
    }
}

/// The largest replicas of all directories, at most `count`.
fn largest(directories: &[Directory], count: usize) -> Vec<Large> {
    let mut all: Vec<(u64, &TopicPartition, &Directory)> = directories
        .iter()
        .flat_map(|directory| directory.replicas.iter().map(move |one| (one.bytes, &one.place, directory)))
        .collect();
    all.sort_by_key(|(bytes, place, directory)| (Reverse(*bytes), *place, directory.broker));
    let row = |(bytes, place, directory): (u64, &TopicPartition, &Directory)| Large {
        topic: place.0.clone(),
        partition: place.1,
        broker: directory.broker,
        directory: directory.path.clone(),
        bytes,
    };
    all.into_iter().take(count).map(row).collect()
}

#[cfg(test)]
mod tests;
