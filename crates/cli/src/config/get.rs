//! `levada config get`: the settings of a running cluster, with the source of each value.

use std::io::Write;

use levada_client::Cluster;
use serde::Serialize;

use super::quota;
use super::target::{Kind, Target};
use crate::cluster::BrokerArgs;
use crate::hints;
use crate::settings::{self, Setting};
use levada_terminal::failure::Failure;
use levada_terminal::output::{self, Format, FormatArgs};

/// Print settings of topics, brokers, groups, subscriptions and quotas of a running cluster
///
/// Without keys, prints the settings that differ from their defaults. Without a name, prints the
/// settings of all resources of the kind.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada config get topic clicks
  levada config get topic clicks retention.ms cleanup.policy
  levada config get topic                       settings of all topics
  levada config get broker 1 --all
  levada config get broker default              dynamic settings of all brokers
  levada config get client-metrics              all subscriptions of client metrics
  levada config get quota
  levada config get quota user=alice,client-id=import

Sources: topic, group, client-metrics and quota are the thing's own; dynamic-broker and
dynamic-default were set while the broker ran, on it alone or on all; static-broker is its file,
environment or flags.")]
pub(super) struct Get {
    /// Kind of the resource
    kind: Kind,
    /// Name of the resource
    name: Option<String>,
    /// Only these keys, defaults included
    #[arg(value_name = "KEY")]
    keys: Vec<String>,
    /// Include settings with their default value
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    pub(super) brokers: BrokerArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// One thing with its settings.
#[derive(Debug, Serialize)]
struct Answer {
    kind: &'static str,
    name: String,
    settings: Vec<Setting>,
}

impl Get {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        let answers = self.ask(cluster, &self.keys)?;
        self.check_keys(cluster, &answers)?;
        if self.format.format == Format::Json {
            return output::json(out, &answers);
        }
        let rows = answers.iter().flat_map(|answer| {
            let row = |setting: &Setting| match &self.name {
                Some(_) => setting.row(),
                None => [vec![answer.name.clone()], setting.row()].concat(),
            };
            answer.settings.iter().map(row)
        });
        let rows: Vec<Vec<String>> = rows.collect();
        if rows.is_empty() {
            match self.kind {
                Kind::Quota => tell!("no limits are set"),
                _ => tell!("nothing differs from the default; --all shows every setting"),
            }
            return Ok(());
        }
        let name: &[&str] = if self.name.is_some() { &[] } else { &["NAME"] };
        output::table(out, &[name, &settings::HEADER].concat(), rows)
    }

    fn ask(&self, cluster: &mut Cluster, keys: &[String]) -> Result<Vec<Answer>, Failure> {
        let kind = self.kind.word();
        let target = self.name.as_deref().map(|name| self.kind.named(name)).transpose()?;
        let resources = match target {
            Some(Target::Resource(resource)) => vec![resource],
            None if self.kind != Kind::Quota => self.kind.every(cluster)?,
            Some(Target::Quota(entity)) => return self.quotas(cluster, Some(&entity)),
            None => return self.quotas(cluster, None),
        };
        let mut answers = Vec::new();
        for resource in resources {
            let mut settings = settings::describe(cluster, &resource, keys)?;
            settings.retain(|setting| self.all || !self.keys.is_empty() || !setting.is_default());
            if self.name.is_some() || !settings.is_empty() {
                answers.push(Answer { kind, name: resource.word().to_owned(), settings });
            }
        }
        Ok(answers)
    }

    fn quotas(&self, cluster: &mut Cluster, entity: Option<&quota::Entity>) -> Result<Vec<Answer>, Failure> {
        let limits = quota::describe(cluster, entity)?;
        let answers = limits.into_iter().map(|(entity, mut settings)| {
            settings.retain(|setting| self.keys.is_empty() || self.keys.contains(&setting.key));
            Answer { kind: self.kind.word(), name: entity.to_string(), settings }
        });
        Ok(answers.filter(|answer| !answer.settings.is_empty()).collect())
    }

    /// Fails for a key that no resource has: a mistake must not look like an empty result.
    fn check_keys(&self, cluster: &mut Cluster, answers: &[Answer]) -> Result<(), Failure> {
        let known = |key: &String| answers.iter().flat_map(|one| &one.settings).any(|one| one.key == *key);
        let Some(key) = self.keys.iter().find(|key| !known(key)) else { return Ok(()) };
        let what =
            format!("{} {} has no setting {key}", self.kind.word(), self.name.as_deref().unwrap_or_default());
        // The list is only for the advice: the failure is reported without it too.
        let all = self.ask(cluster, &[]).unwrap_or_default();
        let names = all.iter().flat_map(|one| &one.settings).map(|one| one.key.as_str());
        let next = match hints::nearest(key, names) {
            Some(nearest) => format!("{nearest}; --all lists every setting"),
            None => "use --all to list every setting".to_owned(),
        };
        Err(Failure::with_next(what, next))
    }
}
