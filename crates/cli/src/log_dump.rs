//! `levada log dump`: prints the contents of a file of a data directory and verifies it. Reads only
//! the file and its neighbour segment; needs no broker.

mod batches;
mod checkpoint;
mod index;
mod report;
mod snapshot;

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use clap::Subcommand;

use crate::log_dump::report::{Report, Verdict};
use levada_terminal::failure::Failure;
use levada_terminal::output::{Format, FormatArgs};

/// Read files of a data directory
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada log dump levada-data/clicks-0/00000000000000000000.log")]
pub(crate) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Dump(Dump),
}

/// Print and check files of a data directory
///
/// Reads segments (.log), indexes (.index, .timeindex, .txnindex), producer snapshots (.snapshot),
/// checkpoints, partition.metadata, meta.properties and quorum-state. With --records, records of
/// internal topics are decoded. Exit code 1 if a file is damaged or cannot be read. Works on the
/// files of a Kafka broker too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada log dump levada-data/clicks-0/00000000000000000000.log
  levada log dump --records levada-data/clicks-0/*.log
  levada log dump --quiet levada-data/*-*/*.log && echo all sound
  levada log dump --output json levada-data/recovery-point-offset-checkpoint")]
struct Dump {
    /// Files to read
    #[arg(required = true, value_name = "FILE")]
    files: Vec<PathBuf>,
    /// Also print the records of segments
    #[arg(short, long)]
    records: bool,
    /// Print only the verdicts
    #[arg(short, long, conflicts_with = "records")]
    quiet: bool,
    #[command(flatten)]
    format: FormatArgs,
}

pub(crate) fn run(args: Args, out: &mut dyn Write) -> Result<(), Failure> {
    let Verb::Dump(dump) = args.verb;
    let mut unreadable = Vec::new();
    let ended = dump.run(out, &mut unreadable);
    let told = Failure::all(unreadable);
    match ended {
        Err(usage @ Failure::Usage(_)) => Err(usage),
        // A closed pipe does not hide a failure.
        ended => {
            told?;
            if ended? { Err(Failure::Told) } else { Ok(()) }
        }
    }
}

impl Dump {
    /// Dumps the files up to one that cannot be dumped, and adds the others that cannot be read to
    /// `unreadable`; true if one is damaged.
    fn run(&self, out: &mut dyn Write, unreadable: &mut Vec<Failure>) -> Result<bool, Failure> {
        let mut damaged = false;
        for file in &self.files {
            let mut report = Report::new(out, self.format.format == Format::Json, self.quiet);
            let verdict = match dump_file(file, self.records, &mut report) {
                Ok(verdict) => verdict,
                Err(failure @ Failure::Failed { .. }) => {
                    unreadable.push(failure);
                    continue;
                }
                Err(other) => return Err(other),
            };
            damaged |= matches!(verdict, Verdict::Damaged { .. });
            report.verdict(file, &verdict)?;
        }
        out.flush()?;
        Ok(damaged)
    }
}

/// The kinds of files, distinguished by name as in Kafka.
fn dump_file(path: &Path, records: bool, report: &mut Report<'_>) -> Result<Verdict, Failure> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    // A file that is to be deleted has a suffix after its kind.
    let name = name.strip_suffix(".deleted").unwrap_or(&name);
    match name.rsplit_once('.').map_or("", |(_, extension)| extension) {
        "log" | "checkpoint" => batches::dump(path, records, report),
        "index" => index::dump_offsets(path, report),
        "timeindex" => index::dump_times(path, report),
        "txnindex" => index::dump_transactions(path, report),
        "snapshot" => snapshot::dump(path, report),
        _ if name.ends_with("-offset-checkpoint") => checkpoint::dump_offsets(&text(path)?, report),
        _ if name == "leader-epoch-checkpoint" => checkpoint::dump_epochs(&text(path)?, report),
        _ if name == "partition.metadata" => checkpoint::dump_pairs(&text(path)?, ':', "topic_id", report),
        _ if [".kafka_cleanshutdown", "quorum-state"].contains(&name) => {
            checkpoint::dump_object(&text(path)?, report)
        }
        _ if name == "meta.properties" => checkpoint::dump_pairs(&text(path)?, '=', "cluster.id", report),
        _ if !path.is_file() => Err(Failure::Usage(format!("{}: no such file", path.display()))),
        _ => Err(Failure::Usage(format!(
            "{}: this kind of file cannot be dumped; `levada log dump --help` lists the kinds",
            path.display()
        ))),
    }
}

fn bytes(path: &Path) -> Result<Vec<u8>, Failure> {
    fs::read(path).map_err(|error| unreadable(path, &error))
}

fn text(path: &Path) -> Result<String, Failure> {
    Ok(String::from_utf8_lossy(&bytes(path)?).into_owned())
}

fn unreadable(path: &Path, error: &std::io::Error) -> Failure {
    Failure::new(format!("cannot read {}: {error}", path.display()))
}

/// The base offset in the name of a segment or an index. A snapshot of the metadata,
/// `END-EPOCH.checkpoint`, has its end in its name, and its batches begin at 0.
fn base_offset(path: &Path) -> Option<i64> {
    let name = path.file_name()?.to_str()?;
    name.split('.').next()?.parse().ok()
}

#[cfg(test)]
mod tests;
