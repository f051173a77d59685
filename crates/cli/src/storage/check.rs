//! `levada storage check`: verifies a stopped data directory, partition by partition.

use std::io::{self, IsTerminal, Write};
use std::sync::OnceLock;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use levada_broker::offline::{self, PartitionVerdict, Report};
use levada_log::check::{Finding, Severity};
use serde_json::{Value, json};

use super::{DirectoryArgs, failed};
use levada_terminal::colour::{self, Style};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs, counted};

/// Check every batch of a stopped data directory, and the files derived from the batches
///
/// Checks the checksums and offsets of batches, indexes, leader epochs, producer snapshots,
/// checkpoints and the metadata log. Changes nothing, and refuses a directory that is in use. Exit
/// code 1 if something is damaged; findings that the next start repairs do not count. Works on a
/// Kafka broker's directory too.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada storage check /var/lib/levada
  levada storage check --quiet /var/lib/levada && echo sound
  levada storage check --output json /var/lib/kafka | jq '.partitions[].verdict'")]
pub(super) struct Check {
    #[command(flatten)]
    place: DirectoryArgs,
    /// Omit partitions without findings
    #[arg(short, long)]
    quiet: bool,
    #[command(flatten)]
    format: FormatArgs,
}

impl Check {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let directories = self.place.find()?;
        let mut reports = Vec::new();
        for directory in &directories {
            let bar = OnceLock::new();
            reports.push(
                offline::check(directory, &directories, &|done, total| {
                    bar.get_or_init(|| progress(total)).set_position(done);
                })
                .map_err(failed)?,
            );
            if let Some(bar) = bar.get() {
                bar.finish_and_clear();
            }
        }
        let printed = match (self.format.format, &reports[..]) {
            (Format::Json, [report]) => output::json(out, &self.as_json(report)),
            (Format::Json, several) => {
                let all: Vec<Value> = several.iter().map(|report| self.as_json(report)).collect();
                output::json(out, &json!({ "directories": all }))
            }
            (Format::Table, several) => several.iter().try_for_each(|report| self.print(out, report)),
        };
        let is_damaged = |report: &Report| report.severity() == Some(Severity::Damage);
        // A closed pipe does not hide damage.
        if reports.iter().any(is_damaged) { Err(Failure::Told) } else { printed }
    }

    fn shown<'a>(&self, report: &'a Report) -> impl Iterator<Item = &'a PartitionVerdict> {
        let quiet = self.quiet;
        report.partitions.iter().filter(move |one| !quiet || !one.checked.findings.is_empty())
    }

    fn print(&self, out: &mut dyn Write, report: &Report) -> Result<(), Failure> {
        let rows: Vec<Vec<String>> = self.shown(report).map(row).collect();
        if !rows.is_empty() {
            let header =
                ["TOPIC", "PARTITION", "SEGMENTS", "BATCHES", "RECORDS", "BYTES", "START", "END", "VERDICT"];
            output::table(out, &header, rows)?;
            writeln!(out)?;
        }
        for finding in &report.findings {
            tell(out, finding)?;
        }
        for one in &report.partitions {
            for finding in &one.checked.findings {
                tell(out, finding)?;
            }
            if one.checked.unlisted > 0 {
                writeln!(
                    out,
                    "{}-{}: {} more",
                    one.topic,
                    one.index,
                    counted(one.checked.unlisted, "finding", "findings")
                )?;
            }
        }
        let bytes: u64 = report.partitions.iter().map(|one| one.checked.bytes).sum();
        let damaged =
            report.partitions.iter().filter(|one| one.checked.severity() == Some(Severity::Damage)).count();
        let what = match report.severity() {
            Some(Severity::Damage) => colour::out(Style::Red, "DAMAGED"),
            Some(Severity::Mended) => colour::out(Style::Green, "sound after the next start"),
            _ => colour::out(Style::Green, "sound"),
        };
        let partitions = counted(report.partitions.len() as u64, "partition", "partitions");
        writeln!(
            out,
            "{}: {what}: {partitions}, {damaged} of them damaged, {bytes} bytes of log",
            report.path.display()
        )?;
        Ok(())
    }

    fn as_json(&self, report: &Report) -> Value {
        let partition = |one: &PartitionVerdict| {
            let checked = &one.checked;
            json!({
                "topic": one.topic,
                "partition": one.index,
                "verdict": word(checked.severity()),
                "segments": checked.segments,
                "batches": checked.batches,
                "records": checked.records,
                "bytes": checked.bytes,
                "log_start_offset": checked.log_start,
                "log_end_offset": checked.log_end,
                "findings": checked.findings.iter().map(finding_json).collect::<Vec<_>>(),
                "unlisted_findings": checked.unlisted,
            })
        };
        json!({
            "directory": report.path,
            "cluster_id": report.identity.cluster_id,
            "node_id": report.identity.node_id,
            "clean": report.clean,
            "verdict": word(report.severity()),
            "findings": report.findings.iter().map(finding_json).collect::<Vec<_>>(),
            "partitions": self.shown(report).map(partition).collect::<Vec<_>>(),
        })
    }
}

fn row(one: &PartitionVerdict) -> Vec<String> {
    let checked = &one.checked;
    vec![
        one.topic.clone(),
        one.index.to_string(),
        checked.segments.to_string(),
        checked.batches.to_string(),
        checked.records.to_string(),
        checked.bytes.to_string(),
        checked.log_start.to_string(),
        checked.log_end.to_string(),
        word(checked.severity()).to_owned(),
    ]
}

/// The verdict in a word.
fn word(severity: Option<Severity>) -> &'static str {
    match severity {
        None | Some(Severity::Note) => "sound",
        Some(Severity::Mended) => "mended",
        Some(Severity::Damage) => "damaged",
    }
}

fn tell(out: &mut dyn Write, finding: &Finding) -> Result<(), Failure> {
    let head = match finding.severity {
        Severity::Damage => colour::out(Style::Red, "damaged:"),
        Severity::Mended => colour::out(Style::Bold, "mended by the next start:"),
        Severity::Note => colour::out(Style::Bold, "note:"),
    };
    write!(out, "{head} {}", finding.path.display())?;
    match (finding.position, finding.offset) {
        (Some(position), Some(offset)) => write!(out, " at byte {position}, offset {offset}")?,
        (Some(position), None) => write!(out, " at byte {position}")?,
        (None, Some(offset)) => write!(out, " at offset {offset}")?,
        (None, None) => {}
    }
    writeln!(out, ": {}\n  {}", finding.what, finding.next)?;
    Ok(())
}

fn finding_json(finding: &Finding) -> Value {
    let severity = match finding.severity {
        Severity::Note => "note",
        Severity::Mended => "mended",
        Severity::Damage => "damage",
    };
    json!({
        "severity": severity,
        "path": finding.path,
        "position": finding.position,
        "offset": finding.offset,
        "what": finding.what,
        "next": finding.next,
    })
}

/// A bar on a terminal.
fn progress(total: u64) -> ProgressBar {
    let shown = io::stderr().is_terminal();
    let target = if shown { ProgressDrawTarget::stderr() } else { ProgressDrawTarget::hidden() };
    let bar = ProgressBar::with_draw_target(Some(total), target);
    let template = "checking {wide_bar} {bytes}/{total_bytes} {bytes_per_sec}, {eta} left";
    bar.with_style(ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()))
}
