//! `levada storage info`: overview of a data directory.

use std::collections::BTreeMap;
use std::io::Write;

use levada_base::id_text;
use levada_broker::offline::{self, StorageError, StoredPartition};
use levada_log::checkpoint::MetaProperties;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs, NOTHING};
use serde_json::{Value, json};

use super::{DirectoryArgs, failed};

/// Show the contents of a data directory: identity, state, topics and their sizes
///
/// Works on a Kafka broker's directory too, and while a broker uses it. The command checks nothing;
/// `levada storage check` does.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada storage info /var/lib/levada
  levada storage info --partitions --output json /var/lib/kafka")]
pub(super) struct Info {
    #[command(flatten)]
    place: DirectoryArgs,
    /// Print one line for each partition instead of each topic
    #[arg(long)]
    partitions: bool,
    #[command(flatten)]
    format: FormatArgs,
}

impl Info {
    pub(super) fn run(&self, out: &mut dyn Write) -> Result<(), Failure> {
        let directories = self.place.find()?;
        let mut infos = Vec::new();
        for directory in &directories {
            let info = offline::info(directory, &directories).map_err(failed)?;
            let is_empty = info.partitions.iter().all(|partition| partition.segments == 0);
            if info.identity.is_none() && info.metadata.is_none() && is_empty {
                // No broker has written to the directory: other programs' names end in numbers too.
                return Err(failed(StorageError::Unformatted { path: info.path }));
            }
            infos.push(info);
        }
        match (self.format.format, &infos[..]) {
            (Format::Json, [info]) => output::json(out, &as_json(info)),
            (Format::Json, several) => {
                output::json(out, &json!({"directories": several.iter().map(as_json).collect::<Vec<_>>()}))
            }
            (Format::Table, several) => several.iter().enumerate().try_for_each(|(at, info)| {
                if at > 0 {
                    writeln!(out)?;
                }
                self.print(out, info)
            }),
        }
    }

    fn print(&self, out: &mut dyn Write, info: &offline::Info) -> Result<(), Failure> {
        writeln!(out, "Directory  {}", info.path.display())?;
        match &info.identity {
            None => writeln!(out, "Formatted  no")?,
            Some(identity) => {
                writeln!(out, "Cluster    {}", identity.cluster_id)?;
                writeln!(out, "Node       {}", identity.node_id)?;
                writeln!(
                    out,
                    "Id         {}",
                    directory_id(identity)
                        .as_deref()
                        .unwrap_or("none, from Kafka before 3.7; the next start writes one")
                )?;
            }
        }
        writeln!(out, "State      {}", state(info))?;
        if let Some(metadata) = &info.metadata {
            writeln!(out, "Metadata   {} records, up to offset {}", metadata.records, metadata.end_offset)?;
            for (name, level) in metadata.image.features() {
                writeln!(out, "Feature    {name} {level}")?;
            }
            if let Some(fault) = &metadata.fault {
                writeln!(out, "Damaged    {fault}")?;
            }
        }
        for objection in &info.objections {
            writeln!(out, "Refused    {objection}")?;
        }
        let bytes: u64 = info.partitions.iter().map(|held| held.log_bytes + held.other_bytes).sum();
        writeln!(out, "Size       {bytes} bytes in {} partitions", info.partitions.len())?;
        for other in &info.others {
            writeln!(out, "Other      {}", other.display())?;
        }
        if info.partitions.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        if self.partitions {
            let header = ["TOPIC", "PARTITION", "SEGMENTS", "LOG BYTES", "OTHER BYTES", "KNOWN"];
            output::table(out, &header, info.partitions.iter().map(row).collect())
        } else {
            let header = ["TOPIC", "PARTITIONS", "SEGMENTS", "LOG BYTES", "OTHER BYTES"];
            output::table(out, &header, topics(&info.partitions))
        }
    }
}

fn directory_id(identity: &MetaProperties) -> Option<String> {
    (identity.directory_id != MetaProperties::NO_ID).then(|| id_text(identity.directory_id))
}

fn state(info: &offline::Info) -> &'static str {
    match (info.in_use, info.clean) {
        (true, _) => "in use",
        (false, true) => "stopped in good order",
        (false, false) if info.identity.is_none() => "never used",
        (false, false) => "not stopped cleanly; the next start checks the logs after their recovery points",
    }
}

fn row(held: &StoredPartition) -> Vec<String> {
    vec![
        held.topic.clone(),
        held.index.to_string(),
        held.segments.to_string(),
        held.log_bytes.to_string(),
        held.other_bytes.to_string(),
        if held.known { "yes" } else { NOTHING }.to_owned(),
    ]
}

fn topics(partitions: &[StoredPartition]) -> Vec<Vec<String>> {
    let mut sums: BTreeMap<&str, [u64; 4]> = BTreeMap::new();
    for held in partitions {
        let sum = sums.entry(&held.topic).or_default();
        let more = [1, held.segments as u64, held.log_bytes, held.other_bytes];
        sum.iter_mut().zip(more).for_each(|(sum, more)| *sum += more);
    }
    let row = |(topic, sum): (&str, [u64; 4])| {
        std::iter::once(topic.to_owned()).chain(sum.iter().map(u64::to_string)).collect()
    };
    sums.into_iter().map(row).collect()
}

fn as_json(info: &offline::Info) -> Value {
    let partition = |held: &StoredPartition| {
        json!({
            "topic": held.topic,
            "partition": held.index,
            "known": held.known,
            "segments": held.segments,
            "log_bytes": held.log_bytes,
            "other_bytes": held.other_bytes,
        })
    };
    json!({
        "directory": info.path,
        "cluster_id": info.identity.as_ref().map(|identity| &identity.cluster_id),
        "node_id": info.identity.as_ref().map(|identity| identity.node_id),
        "directory_id": info.identity.as_ref().and_then(directory_id),
        "in_use": info.in_use,
        "clean": info.clean,
        "metadata": info.metadata.as_ref().map(|metadata| json!({
            "records": metadata.records,
            "end_offset": metadata.end_offset,
            "features": metadata.image.features(),
            "voters": metadata.voters,
            "fault": metadata.fault,
        })),
        "objections": info.objections,
        "partitions": info.partitions.iter().map(partition).collect::<Vec<_>>(),
        "others": info.others,
    })
}
