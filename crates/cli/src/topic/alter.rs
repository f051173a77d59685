//! `levada topic alter`: adds partitions and changes settings.

use std::io::Write;

use levada_client::Cluster;
use levada_wire::StrBytes;
use levada_wire::messages::CreatePartitionsRequest;
use levada_wire::messages::create_partitions_request::CreatePartitionsTopic;

use super::TIMEOUT_MS;
use crate::kafka_error;
use crate::outcomes::{Outcome, Outcomes};
use crate::settings::{self, Change, Resource};
use levada_terminal::failure::Failure;
use levada_terminal::output::FormatArgs;

/// Change topics: add partitions, change settings
///
/// Settings are changed first. Records stay in their partitions; new records with the same keys may
/// go to other partitions.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada topic alter clicks -p 12
  levada topic alter clicks -c retention.ms=3600000 -c cleanup.policy+=compact
  levada topic alter clicks --delete-config retention.ms     back to the broker's default")]
pub(crate) struct Alter {
    /// Names of the topics
    #[arg(required = true, value_name = "TOPIC")]
    topics: Vec<String>,
    /// New number of partitions; it cannot decrease
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Set a key, or KEY+=VALUE and KEY-=VALUE for entries of a list; repeatable
    #[arg(short, long = "config", value_name = "KEY=VALUE", value_parser = settings::change)]
    config: Vec<Change>,
    /// Reset a key to its default; repeatable
    #[arg(long, value_name = "KEY")]
    delete_config: Vec<String>,
    /// Validate the request without changing anything
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    format: FormatArgs,
}

impl Alter {
    pub(super) fn run(self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let deleted = self.delete_config.iter().map(|key| Change::Delete(key.clone()));
        let changes: Vec<Change> = self.config.iter().cloned().chain(deleted).collect();
        if changes.is_empty() && self.partitions.is_none() {
            return Err(Failure::Usage("nothing to change: -p, -c or --delete-config is needed".to_owned()));
        }
        let mut outcomes = Outcomes::new(self.format);
        for topic in &self.topics {
            let subject = ("topic", topic.as_str());
            let (done, said) = if self.dry_run {
                (Outcome::Possible, format!("topic {topic} can be changed"))
            } else {
                (Outcome::Done, format!("changed topic {topic}"))
            };
            match self.change(cluster, topic, &changes) {
                Ok(()) => outcomes.add(subject, done, &said),
                Err(failure) => outcomes.fail(subject, failure),
            }
        }
        outcomes.end(out)
    }

    /// Changes the settings, then the number of partitions. A failure says if the settings were
    /// changed.
    fn change(&self, cluster: &mut Cluster, topic: &str, changes: &[Change]) -> Result<(), Failure> {
        if !changes.is_empty() {
            let resource = Resource::topic(topic);
            settings::alter(cluster, &resource, changes, self.dry_run)?;
            settings::tell_idle(cluster, &resource, changes.iter().map(Change::key));
        }
        let Some(partitions) = self.partitions else { return Ok(()) };
        let grown = self.grow(cluster, topic, partitions);
        let is_half_done = !changes.is_empty() && !self.dry_run;
        grown.map_err(|failure| match failure {
            Failure::Failed { what, next, cause } if is_half_done => {
                Failure::Failed { what: format!("{what}; its settings are changed"), next, cause }
            }
            other => other,
        })
    }

    fn grow(&self, cluster: &mut Cluster, topic: &str, partitions: i32) -> Result<(), Failure> {
        let mut grown = CreatePartitionsTopic::default();
        grown.name = StrBytes::from(topic);
        grown.count = partitions;
        grown.assignments = None;
        let mut request = CreatePartitionsRequest::default();
        request.topics = vec![grown];
        request.timeout_ms = TIMEOUT_MS;
        request.validate_only = self.dry_run;
        let response = cluster.ask_controller(&request, |response| {
            response.results.first().map_or(0, |topic| topic.error_code)
        })?;
        let doing = format!("change partitions of topic {topic}");
        let mut results = response.results.iter();
        let checked = results
            .try_for_each(|one| kafka_error::check(one.error_code, &doing, one.error_message.as_deref()));
        kafka_error::needing(checked, "alter", &format!("--topic {topic}"))
    }
}
