//! `levada topic describe`: partitions with their leaders and offsets, and the topic's settings.

use std::{collections::BTreeMap, io::Write};

use levada_wire::{
    StrBytes, Uuid,
    messages::{
        DescribeConfigsRequest,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::DescribeConfigsResourceResult,
        metadata_response::{MetadataResponsePartition, MetadataResponseTopic},
    },
};
use serde_json::{Value, json};

use crate::{
    cluster::{Cluster, EARLIEST, LATEST, Topic},
    failure::Failure,
    kafka_error,
    output::{self, Format, FormatArgs},
};

/// Describe a topic: partitions, leaders, offsets, settings
#[derive(Debug, clap::Args)]
pub(super) struct Describe {
    /// Name of the topic
    topic: String,
    /// Also settings that have their default
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// Everything that is shown of a topic.
struct Description {
    topic: MetadataResponseTopic,
    starts: BTreeMap<i32, i64>,
    ends: BTreeMap<i32, i64>,
    settings: Vec<DescribeConfigsResourceResult>,
}

/// DescribeConfigs' number for topics.
const TOPIC_RESOURCE: i8 = 2;
/// DescribeConfigs' number for values that only the software's default gives.
const DEFAULT_SOURCE: i8 = 5;

impl Describe {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let description = self.ask(cluster)?;
        match self.format.format {
            Format::Json => output::json(out, &description.json()),
            Format::Table => description.print(out),
        }
    }

    fn ask(&self, cluster: &mut Cluster) -> Result<Description, Failure> {
        let response = cluster.metadata(Some(&[&self.topic]), false)?;
        let missing = || Failure::new(format!("no metadata for topic {}", self.topic));
        let mut topic = response.topics.into_iter().next().ok_or_else(missing)?;
        kafka_error::check(topic.error_code, &format!("topic {}", self.topic), None)?;
        topic.partitions.sort_by_key(|partition| partition.partition_index);
        let led: BTreeMap<i32, i32> = topic
            .partitions
            .iter()
            .map(|one| (one.partition_index, one.leader_id))
            .filter(|one| one.1 >= 0)
            .collect();
        let at = |timestamp| led.keys().map(|partition| (*partition, timestamp)).collect();
        let known = Topic { name: self.topic.clone(), id: topic.topic_id, leaders: led.clone() };
        let starts = cluster.offsets(&known, &at(EARLIEST))?;
        let ends = cluster.offsets(&known, &at(LATEST))?;
        let settings = self.settings(cluster)?;
        Ok(Description { topic, starts, ends, settings })
    }

    fn settings(&self, cluster: &mut Cluster) -> Result<Vec<DescribeConfigsResourceResult>, Failure> {
        let mut resource = DescribeConfigsResource::default();
        resource.resource_type = TOPIC_RESOURCE;
        resource.resource_name = StrBytes::from(self.topic.as_str());
        resource.configuration_keys = None;
        let mut request = DescribeConfigsRequest::default();
        request.resources = vec![resource];
        let response = cluster.ask(&request)?;
        let Some(result) = response.results.into_iter().next() else { return Ok(Vec::new()) };
        kafka_error::check(result.error_code, "describe settings", result.error_message.as_deref())?;
        let mut settings = result.configs;
        settings.retain(|setting| self.all || setting.config_source != DEFAULT_SOURCE);
        settings.sort_by(|a, b| a.name.as_str().cmp(b.name.as_str()));
        Ok(settings)
    }
}

impl Description {
    fn print(&self, out: &mut dyn Write) -> Result<(), Failure> {
        writeln!(out, "Topic       {}", name(&self.topic))?;
        writeln!(out, "Id          {}", id_text(&self.topic.topic_id))?;
        writeln!(out, "Internal    {}", if self.topic.is_internal { "yes" } else { "no" })?;
        writeln!(out, "Partitions  {}\n", self.topic.partitions.len())?;
        let header = ["PARTITION", "LEADER", "EPOCH", "REPLICAS", "IN SYNC", "START", "END"];
        output::table(out, &header, self.topic.partitions.iter().map(|one| self.row(one)).collect())?;
        if self.settings.is_empty() {
            return Ok(());
        }
        writeln!(out)?;
        let row = |setting: &DescribeConfigsResourceResult| {
            let value = setting.value.as_deref().unwrap_or_default().to_owned();
            vec![setting.name.as_str().to_owned(), value, source(setting.config_source)]
        };
        output::table(out, &["SETTING", "VALUE", "SOURCE"], self.settings.iter().map(row).collect())
    }

    fn row(&self, partition: &MetadataResponsePartition) -> Vec<String> {
        let offset = |offsets: &BTreeMap<i32, i64>| {
            offsets.get(&partition.partition_index).map_or_else(|| "-".to_owned(), i64::to_string)
        };
        vec![
            partition.partition_index.to_string(),
            if partition.leader_id < 0 { "-".to_owned() } else { partition.leader_id.to_string() },
            partition.leader_epoch.to_string(),
            comma_separated(&partition.replica_nodes),
            comma_separated(&partition.isr_nodes),
            offset(&self.starts),
            offset(&self.ends),
        ]
    }

    fn json(&self) -> Value {
        let partition = |one: &MetadataResponsePartition| {
            json!({
                "partition": one.partition_index,
                "leader": one.leader_id,
                "leader_epoch": one.leader_epoch,
                "replicas": one.replica_nodes,
                "in_sync": one.isr_nodes,
                "start_offset": self.starts.get(&one.partition_index),
                "end_offset": self.ends.get(&one.partition_index),
            })
        };
        let setting = |one: &DescribeConfigsResourceResult| json!({ "key": one.name.as_str(), "value": one.value.as_deref(), "source": source(one.config_source) });
        json!({
            "name": name(&self.topic),
            "id": id_text(&self.topic.topic_id),
            "internal": self.topic.is_internal,
            "partitions": self.topic.partitions.iter().map(partition).collect::<Vec<_>>(),
            "settings": self.settings.iter().map(setting).collect::<Vec<_>>(),
        })
    }
}

/// A topic's name; the metadata of a topic that is asked for by name or listed has one.
pub(super) fn name(topic: &MetadataResponseTopic) -> &str {
    topic.name.as_deref().unwrap_or_default()
}

fn comma_separated(nodes: &[i32]) -> String {
    nodes.iter().map(i32::to_string).collect::<Vec<_>>().join(",")
}

/// An id as Kafka's tools print it: URL-safe base64 without padding.
fn id_text(id: &Uuid) -> String {
    use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
    URL_SAFE_NO_PAD.encode(id.as_bytes())
}

fn source(number: i8) -> String {
    match number {
        1 => "topic".to_owned(),
        2 => "broker, dynamic".to_owned(),
        3 => "cluster, dynamic".to_owned(),
        4 => "broker".to_owned(),
        DEFAULT_SOURCE => "default".to_owned(),
        other => format!("source {other}"),
    }
}
