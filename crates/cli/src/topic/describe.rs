//! `levada topic describe`: partitions with their leaders and offsets, and the topic's settings.

use std::collections::BTreeMap;
use std::io::Write;

use levada_client::{Cluster, EARLIEST, EARLIEST_LOCAL, Isolation, LATEST, LATEST_TIERED, Topic};
use levada_config::durability_label;
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, FormatArgs};
use levada_wire::Uuid;
use levada_wire::messages::metadata_response::{MetadataResponsePartition, MetadataResponseTopic};
use serde_json::{Value, json};

use crate::ends::Ends;
use crate::settings::{self, Resource, Setting};
use crate::{kafka_error, selection};

/// Describe topics: partitions, leaders, offsets, settings
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada topic describe clicks
  levada topic describe clicks --all --output json | jq -r '.[0].settings[] | [.key, .value] | @tsv'")]
pub(crate) struct Describe {
    /// Names of the topics, or patterns
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    /// Include settings with their default value
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// Everything that is shown of a topic.
struct Description {
    topic: MetadataResponseTopic,
    starts: PartitionOffsets,
    ends: PartitionOffsets,
    /// The remote part of a tiered topic.
    tiers: Option<Tiers>,
    durability: String,
    settings: Vec<Setting>,
}

/// Offsets of a topic whose older records are in remote storage.
struct Tiers {
    /// First offset on the leader's disk.
    local_starts: PartitionOffsets,
    /// Last offset in remote storage; -1 if it has none.
    copied: PartitionOffsets,
}

impl Describe {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let topics = selection::topics(cluster, &self.topics)?;
        let names: Vec<&str> = topics.iter().map(String::as_str).collect();
        let response = cluster.metadata(Some(&names), false)?;
        let asked = response.topics.into_iter().map(|topic| self.ask(cluster, topic));
        let as_json = |out: &mut dyn Write, all: &[Description]| {
            output::json(out, &all.iter().map(Description::json).collect::<Vec<_>>())
        };
        output::descriptions(out, self.format.format, asked, as_json, Description::print)
    }

    fn ask(&self, cluster: &mut Cluster, mut topic: MetadataResponseTopic) -> Result<Description, Failure> {
        let name = name(&topic).to_owned();
        let checked = kafka_error::check(topic.error_code, &format!("topic {name}"), None);
        kafka_error::needing(checked, "describe", &format!("--topic {name}"))?;
        topic.partitions.sort_by_key(|partition| partition.partition_index);
        let led: BTreeMap<i32, i32> = topic
            .partitions
            .iter()
            .map(|one| (one.partition_index, one.leader_id))
            .filter(|one| one.1 >= 0)
            .collect();
        let known = Topic { name: name.clone(), id: topic.topic_id, leaders: led };
        let mut asked = Ends::default();
        let [starts, ends] = offsets(cluster, &known, [EARLIEST, LATEST], &mut asked)?;
        let mut settings = settings::describe(cluster, &Resource::topic(&name), &[])?;
        let is_true = |one: &Setting| one.value.as_deref() == Some("true");
        let is_tiered = settings.iter().any(|one| one.key == "remote.storage.enable" && is_true(one));
        let remote = [EARLIEST_LOCAL, LATEST_TIERED];
        let tiers = is_tiered.then(|| offsets(cluster, &known, remote, &mut asked)).transpose()?;
        asked.note();
        let tiers = tiers.map(|[local_starts, copied]| Tiers { local_starts, copied });
        let durability = durability(&settings);
        settings.retain(|setting| self.all || !setting.is_default());
        Ok(Description { topic, starts, ends, tiers, durability, settings })
    }
}

impl Description {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "Topic       {}", name(&self.topic))?;
        writeln!(out, "Id          {}", id_text(&self.topic.topic_id))?;
        writeln!(out, "Internal    {}", if self.topic.is_internal { "yes" } else { "no" })?;
        writeln!(out, "Partitions  {}", self.topic.partitions.len())?;
        writeln!(out, "Durability  {}\n", self.durability)?;
        let mut header = vec!["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END"];
        if self.tiers.is_some() {
            header.extend(["LOCAL START", "COPIED", "NOT COPIED"]);
        }
        output::table(out, &header, self.topic.partitions.iter().map(|one| self.row(one)).collect())?;
        if self.settings.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        output::table(out, &settings::HEADER, self.settings.iter().map(Setting::row).collect())
    }

    fn row(&self, partition: &MetadataResponsePartition) -> Vec<String> {
        let offset =
            |offsets: &BTreeMap<i32, i64>| output::number(offsets.get(&partition.partition_index).copied());
        let mut row = vec![
            partition.partition_index.to_string(),
            output::number(Some(partition.leader_id.into()).filter(|leader| *leader >= 0)),
            partition.leader_epoch.to_string(),
            comma_separated(&partition.replica_nodes),
            comma_separated(&partition.isr_nodes),
            offset(&self.starts),
            offset(&self.ends),
        ];
        if let Some(tiers) = &self.tiers {
            let copied = tiers.copied.get(&partition.partition_index).copied().filter(|copied| *copied >= 0);
            row.extend([offset(&tiers.local_starts), output::number(copied)]);
            row.push(output::number(self.not_copied(partition)));
        }
        row
    }

    /// Number of offsets that only brokers have; none if it is not known.
    fn not_copied(&self, partition: &MetadataResponsePartition) -> Option<i64> {
        let index = &partition.partition_index;
        let (start, end) = (self.starts.get(index)?, self.ends.get(index)?);
        let copied = self.tiers.as_ref()?.copied.get(index)?;
        Some((end - start.max(&(copied + 1))).max(0))
    }

    fn json(&self) -> Value {
        let partition = |one: &MetadataResponsePartition| {
            let mut partition = json!({
                "partition": one.partition_index,
                "leader": one.leader_id,
                "leader_epoch": one.leader_epoch,
                "replicas": one.replica_nodes,
                "in_sync": one.isr_nodes,
                "start_offset": self.starts.get(&one.partition_index),
                "end_offset": self.ends.get(&one.partition_index),
            });
            if let Some(tiers) = &self.tiers {
                let copied = tiers.copied.get(&one.partition_index).filter(|copied| **copied >= 0);
                partition["local_start_offset"] = json!(tiers.local_starts.get(&one.partition_index));
                partition["copied_offset"] = json!(copied);
                partition["not_copied"] = json!(self.not_copied(one));
            }
            partition
        };
        json!({
            "name": name(&self.topic),
            "id": id_text(&self.topic.topic_id),
            "internal": self.topic.is_internal,
            "durability": self.durability,
            "partitions": self.topic.partitions.iter().map(partition).collect::<Vec<_>>(),
            "settings": self.settings,
        })
    }
}

/// An offset of each partition.
type PartitionOffsets = BTreeMap<i32, i64>;

/// Offsets of partitions at two times. Those of a leader that does not respond, or does not know
/// them, are missing.
fn offsets(
    cluster: &mut Cluster,
    topic: &Topic,
    times: [i64; 2],
    ends: &mut Ends,
) -> Result<[PartitionOffsets; 2], Failure> {
    let mut at = |timestamp| -> Result<PartitionOffsets, Failure> {
        let found = ends.ask(cluster, [topic], timestamp, Isolation::Uncommitted)?;
        Ok(found.into_iter().map(|((_, partition), one)| (partition, one.offset)).collect())
    };
    Ok([at(times[0])?, at(times[1])?])
}

/// The promise of an acknowledgement about the device.
fn durability(settings: &[Setting]) -> String {
    let value = |key: &str| settings.iter().find(|one| one.key == key).and_then(|one| one.value.as_deref());
    let every_ack = value("levada.ack.durability") == Some("fdatasync");
    let flush_messages = value("flush.messages").and_then(|value| value.parse().ok()).unwrap_or(i64::MAX);
    durability_label(every_ack, flush_messages).into_owned()
}

/// A topic's name; the metadata of a topic that is requested by name or listed has one.
pub(super) fn name(topic: &MetadataResponseTopic) -> &str {
    topic.name.as_deref().unwrap_or_default()
}

fn comma_separated(nodes: &[i32]) -> String {
    nodes.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

/// An id as Kafka's tools print it: URL-safe base64 without padding.
fn id_text(id: &Uuid) -> String {
    levada_base::id_text(id.to_bytes())
}
