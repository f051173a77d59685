//! `levada topic create|list|describe|alter|trim|delete`.

mod alter;
mod describe;
mod sizes;
mod trim;

use std::cmp::Reverse;
use std::io::Write;

use clap::Subcommand;
use indicatif::HumanBytes;
use levada_client::Cluster;
use levada_wire::StrBytes;
use levada_wire::error_code::ErrorCode;
use levada_wire::messages::create_topics_request::{CreatableTopic, CreatableTopicConfig};
use levada_wire::messages::create_topics_response::CreatableTopicResult;
use levada_wire::messages::delete_topics_request::DeleteTopicState;
use levada_wire::messages::metadata_response::MetadataResponseTopic;
use levada_wire::messages::{CreateTopicsRequest, DeleteTopicsRequest};
use serde_json::json;

pub(crate) use self::sizes::TopicSizes;
use crate::cluster::ClusterCommand;
use crate::outcomes::{Outcome, Outcomes};
use crate::settings::{self, Resource};
use crate::{kafka_error, question, selection};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// Create, list, describe, change, trim and delete topics
#[derive(Debug, Subcommand)]
#[command(after_help = "Examples:
  levada topic create clicks -p 6 -c retention.ms=7d
  levada topic list
  levada topic describe clicks
  levada topic alter clicks -p 12 -c retention.ms=1h
  levada topic trim clicks --to @2026-11-21
  levada topic delete clicks")]
pub(crate) enum Verb {
    Create(Create),
    List(List),
    Describe(describe::Describe),
    Alter(alter::Alter),
    Trim(trim::Trim),
    Delete(Delete),
}

/// Create topics
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada topic create clicks --if-not-exists
  levada topic create clicks views -p 6 -c retention.ms=86400000 -c cleanup.policy=compact,delete
  levada topic create clicks -p 6 --dry-run")]
pub(crate) struct Create {
    /// Names of the topics
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    /// Number of partitions of each topic [default: num.partitions of the broker, in a cluster
    /// that of the controllers]
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Replicas of each partition [default: default.replication.factor of the broker, in a
    /// cluster that of the controllers]
    #[arg(short, long, alias = "replication-factor", value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replicas: Option<i16>,
    /// A setting of the topics; repeatable
    #[arg(short, long = "config", value_name = "KEY=VALUE", value_parser = settings::pair)]
    config: Vec<(String, String)>,
    /// A topic that exists is not an error
    #[arg(long)]
    if_not_exists: bool,
    /// Validate the request without creating anything
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
}

/// List topics
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada topic list
  levada topic list 'logs-*' --sort size
  levada topic list --output json | jq -r '.[].name'")]
pub(crate) struct List {
    /// Only topics with these names or patterns, such as logs-*
    #[arg(value_name = "TOPIC")]
    topics: Vec<String>,
    /// Include internal topics
    #[arg(short, long)]
    internal: bool,
    /// Order of the rows; numbers and sizes in descending order
    #[arg(long, value_name = "COLUMN", default_value = "name")]
    sort: Order,
    #[command(flatten)]
    format: FormatArgs,
}

#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum Order {
    Name,
    Partitions,
    Size,
}

/// Delete topics and all their records
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada topic delete clicks views
  levada topic delete 'test-*'                  names them before it asks")]
pub(crate) struct Delete {
    /// Names of the topics, or patterns
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    /// A topic that does not exist is not an error
    #[arg(long)]
    if_exists: bool,
    #[command(flatten)]
    question: question::Args,
    #[command(flatten)]
    format: FormatArgs,
}

/// Time that the broker may take to create or delete.
const TIMEOUT_MS: i32 = 30_000;

pub(crate) fn run(args: ClusterCommand<Verb>, out: &mut dyn Write) -> Result<(), Failure> {
    let mut cluster = args.brokers.connect()?;
    match args.verb {
        Verb::Create(create) => create.run(&mut cluster, out),
        Verb::List(list) => list.run(&mut cluster, out),
        Verb::Describe(describe) => describe.run(&mut cluster, out),
        Verb::Alter(alter) => alter.run(&mut cluster, out),
        Verb::Trim(trim) => trim.run(&mut cluster, out),
        Verb::Delete(delete) => delete.run(&mut cluster, out),
    }
}

impl Create {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut request = CreateTopicsRequest::default();
        request.topics = self.topics.iter().map(|name| self.asked(name)).collect();
        request.timeout_ms = TIMEOUT_MS;
        request.validate_only = self.dry_run;
        let response = cluster.ask_controller(&request, |response| {
            response.topics.first().map_or(0, |topic| topic.error_code)
        })?;
        let created = response.topics.iter().find(|topic| topic.error_code == 0 && !self.dry_run);
        if let Some(created) = created {
            let resource = Resource::topic(&created.name);
            settings::tell_idle(cluster, &resource, self.config.iter().map(|(key, _)| key.as_str()));
        }
        let mut outcomes = Outcomes::new(self.format);
        for topic in &response.topics {
            let subject = ("topic", topic.name.as_str());
            let doing = format!("create topic {}", subject.1);
            let checked = kafka_error::check(topic.error_code, &doing, topic.error_message.as_deref());
            let option = format!("--topic {}", subject.1);
            match kafka_error::needing(checked, "create", &option) {
                Ok(()) if self.dry_run => {
                    outcomes.add(subject, Outcome::Possible, &format!("topic {} can be created", subject.1));
                }
                Ok(()) => {
                    outcomes.add(subject, Outcome::Done, &format!("created topic {}", subject.1));
                    let brokers = cluster.brokers().map_or(1, |brokers| brokers.len());
                    if let Some(note) = self.single_copy(topic, brokers) {
                        tell!("note: {note}");
                    }
                }
                Err(failure)
                    if self.if_not_exists
                        && failure.cause().code() == Some(ErrorCode::TopicAlreadyExists) =>
                {
                    outcomes.add(subject, Outcome::Unchanged, &format!("topic {} exists", subject.1));
                }
                Err(failure) => outcomes.fail(subject, failure),
            }
        }
        outcomes.end(out)
    }

    /// A sentence about a topic with one replica by default, although there are several brokers.
    fn single_copy(&self, topic: &CreatableTopicResult, brokers: usize) -> Option<String> {
        (self.replicas.is_none() && topic.replication_factor == 1 && brokers > 1).then(|| {
            format!(
                "topic {} has one replica, by the controllers' default.replication.factor; --replicas names \
                 another number",
                topic.name.as_str()
            )
        })
    }

    fn asked(&self, name: &str) -> CreatableTopic {
        let mut topic = CreatableTopic::default();
        topic.name = StrBytes::from(name);
        topic.num_partitions = self.partitions.unwrap_or(-1);
        topic.replication_factor = self.replicas.unwrap_or(-1);
        let settings = self.config.iter().map(|(key, value)| {
            let mut setting = CreatableTopicConfig::default();
            setting.name = StrBytes::from(key.as_str());
            setting.value = Some(StrBytes::from(value.as_str()));
            setting
        });
        topic.configs = settings.collect();
        topic
    }
}

impl List {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let mut topics = cluster.metadata(None, false)?.topics;
        topics.retain(|topic| self.wants(topic));
        topics.sort_by(|a, b| a.name.as_deref().cmp(&b.name.as_deref()));
        let replicas = |topic: &MetadataResponseTopic| {
            topic.partitions.first().map_or(0, |partition| partition.replica_nodes.len())
        };
        let sizes = TopicSizes::ask(cluster, &topics)?;
        match self.sort {
            Order::Name => {}
            Order::Partitions => topics.sort_by_key(|topic| Reverse(topic.partitions.len())),
            Order::Size => topics.sort_by_key(|topic| Reverse(sizes.of(topic))),
        }
        if self.format.format == Format::Json {
            let object = |topic: &MetadataResponseTopic| {
                let name = describe::name(topic);
                json!({
                    "name": name,
                    "partitions": topic.partitions.len(),
                    "replicas": replicas(topic),
                    "internal": topic.is_internal,
                    "bytes": sizes.of(topic),
                })
            };
            return output::json(out, &topics.iter().map(object).collect::<Vec<_>>());
        }
        let row = |topic: &MetadataResponseTopic| {
            let counts = [topic.partitions.len(), replicas(topic)].map(|count| count.to_string());
            let name = describe::name(topic).to_owned();
            let size = sizes
                .of(topic)
                .map_or_else(|| output::NOTHING.to_owned(), |bytes| HumanBytes(bytes).to_string());
            [name].into_iter().chain(counts).chain([size]).collect()
        };
        output::table(out, &["NAME", "PARTITIONS", "REPLICAS", "SIZE"], topics.iter().map(row).collect())
    }
}

impl List {
    fn wants(&self, topic: &MetadataResponseTopic) -> bool {
        let name = describe::name(topic);
        let is_named = self.topics.iter().any(|word| selection::matches(word, name));
        is_named || (self.topics.is_empty() && (self.internal || !topic.is_internal))
    }
}

impl Delete {
    fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let topics = selection::topics(cluster, &self.topics)?;
        self.question
            .ask(&format!("delete {} with all records", topics.join(", ")), question::NOTHING_DELETED)?;
        let mut request = DeleteTopicsRequest::default();
        // Version 6 has a separate list for names, next to ids.
        if cluster.version::<DeleteTopicsRequest>()? >= 6 {
            let state = |name: &String| {
                let mut state = DeleteTopicState::default();
                state.name = Some(StrBytes::from(name.as_str()));
                state
            };
            request.topics = topics.iter().map(state).collect();
        } else {
            request.topic_names = topics.iter().map(|name| StrBytes::from(name.as_str())).collect();
        }
        request.timeout_ms = TIMEOUT_MS;
        let response = cluster.ask_controller(&request, |response| {
            response.responses.first().map_or(0, |topic| topic.error_code)
        })?;
        let mut outcomes = Outcomes::new(self.format);
        for topic in &response.responses {
            let name = topic.name.as_deref().unwrap_or_default();
            let doing = format!("delete topic {name}");
            let checked = kafka_error::check(topic.error_code, &doing, topic.error_message.as_deref());
            match kafka_error::needing(checked, "delete", &format!("--topic {name}")) {
                Ok(()) => outcomes.add(("topic", name), Outcome::Done, &format!("deleted topic {name}")),
                Err(failure)
                    if self.if_exists
                        && failure.cause().code() == Some(ErrorCode::UnknownTopicOrPartition) =>
                {
                    let said = format!("there is no topic {name}");
                    outcomes.add(("topic", name), Outcome::Unchanged, &said);
                }
                Err(failure) => outcomes.fail(("topic", name), failure),
            }
        }
        outcomes.end(out)
    }
}

#[cfg(test)]
mod tests;
