//! `levada storage remote check|restore`: compares the objects of the remote store with the
//! metadata of segments, and restores data directories from the store.

mod restore;

use std::io::Write;

use clap::Subcommand;
use levada_broker::offline::{self, RemoteInventory};
use levada_remote::{Audit, RemoteError, RemoteErrorKind, Store, audit};
use levada_terminal::colour::{self, Style};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs, counted};
use serde_json::{Value, json};

use super::failed;
use crate::config::SourceArgs;

/// Check the remote store of tiered storage, and restore from it
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada storage remote check --config /etc/levada/server.properties
  levada storage remote restore --config /etc/levada/server.properties --dry-run")]
pub(super) struct Args {
    #[command(subcommand)]
    verb: Verb,
}

#[derive(Debug, Subcommand)]
enum Verb {
    Check(Check),
    Restore(restore::Restore),
}

/// Compare the objects of the remote store with the metadata of the segments
///
/// Reads the logs of __remote_log_metadata in the broker's data directories, lists the store that
/// the configuration names, and reports missing objects, objects of the wrong length, and objects
/// of segments that the metadata does not have. Changes nothing. The broker may run: then segments
/// that it copies or deletes meanwhile can appear in the report. Exit code 1 if records are
/// missing.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada storage remote check --config /etc/levada/server.properties
  levada storage remote check --output json | jq -r '.orphans[].key'")]
struct Check {
    #[command(flatten)]
    sources: SourceArgs,
    #[command(flatten)]
    format: FormatArgs,
}

impl Args {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        match &self.verb {
            Verb::Check(check) => check.run(out),
            Verb::Restore(restore) => restore.run(out),
        }
    }
}

impl Check {
    fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let config = self.sources.load()?;
        let options = config.remote_store.as_ref().ok_or_else(no_store)?;
        let dirs = offline::directories_of(&config);
        let found = offline::remote_inventory(&dirs, config.remote_log.topic_partitions).map_err(failed)?;
        let store = Store::open(options).map_err(unreachable_store)?;
        let audit = audit(&store, &found.inventory).map_err(unreachable_store)?;
        let name = options.location.to_string();
        let printed = match self.format.format {
            Format::Json => output::json(out, &as_json(&name, &found, &audit)),
            Format::Table => print(out, &name, &found, &audit),
        };
        // A closed pipe does not hide damage.
        if audit.is_damaged() || !found.findings.is_empty() { Err(Failure::Told) } else { printed }
    }
}

fn no_store() -> Failure {
    Failure::with_next(
        "the configuration has no remote store: remote.log.storage.system.enable is false",
        "name the broker's configuration file with --config",
    )
}

fn unreachable_store(error: RemoteError) -> Failure {
    let next = match error.kind {
        RemoteErrorKind::Unavailable => "check that the store is reachable from this machine",
        kind => kind.advice(),
    };
    Failure::with_next(format!("{}: {}", error.operation, error.cause), next)
}

fn print(out: &mut dyn Write, name: &str, found: &RemoteInventory, audit: &Audit) -> Result<(), Failure> {
    let damaged = colour::out(Style::Red, "damaged:");
    for (path, reason) in &found.findings {
        writeln!(out, "{damaged} {}: {reason}", path.display())?;
        writeln!(out, "  its records cannot be read; another replica of the partition may have them")?;
    }
    for key in &audit.missing {
        writeln!(out, "{damaged} {key} is missing")?;
        writeln!(out, "  reads of its segment fail; restore the object from a backup")?;
    }
    for (key, length, expected) in &audit.wrong_size {
        writeln!(out, "{damaged} {key} has {length} bytes and should have {expected}")?;
        writeln!(out, "  reads of its segment fail; restore the object from a backup")?;
    }
    let note = colour::out(Style::Bold, "note:");
    for entry in &audit.orphans {
        writeln!(out, "{note} {} ({} bytes) belongs to no segment", entry.key, entry.length)?;
    }
    if !audit.orphans.is_empty() {
        writeln!(
            out,
            "  a copy or a deletion was interrupted, its metadata is lost, or another cluster uses the store;"
        )?;
        writeln!(
            out,
            "  delete only objects that a check a day later names again, if no metadata was lost and"
        )?;
        writeln!(out, "  no other cluster has them")?;
    }
    if found.partitions == 0 {
        writeln!(out, "{note} the data directories have no partition of __remote_log_metadata")?;
    }
    let verdict = if audit.is_damaged() {
        colour::out(Style::Red, "DAMAGED")
    } else {
        colour::out(Style::Green, "sound")
    };
    writeln!(
        out,
        "{name}: {verdict}: {} with {} bytes, {} unfinished; {}, {} without a segment, {} not checked, {} of others",
        counted(audit.segments, "segment", "segments"),
        audit.bytes,
        audit.unfinished,
        counted(audit.objects, "object", "objects"),
        audit.orphans.len(),
        audit.unknown,
        audit.foreign,
    )?;
    Ok(())
}

fn as_json(name: &str, found: &RemoteInventory, audit: &Audit) -> Value {
    let wrong = |(key, length, expected): &(String, u64, u64)| json!({"key": key, "bytes": length, "expected_bytes": expected});
    json!({
        "store": name,
        "verdict": if audit.is_damaged() { "damaged" } else { "sound" },
        "metadata_partitions": found.partitions,
        "metadata_findings": found.findings.iter().map(|(path, reason)| json!({"path": path, "what": reason})).collect::<Vec<_>>(),
        "segments": audit.segments,
        "segment_bytes": audit.bytes,
        "unfinished_segments": audit.unfinished,
        "objects": audit.objects,
        "missing": audit.missing,
        "wrong_size": audit.wrong_size.iter().map(wrong).collect::<Vec<_>>(),
        "orphans": audit.orphans.iter().map(|entry| json!({"key": entry.key, "bytes": entry.length})).collect::<Vec<_>>(),
        "unchecked_objects": audit.unknown,
        "other_objects": audit.foreign,
    })
}
