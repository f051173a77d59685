//! `levada config set` and `levada config delete`: settings of a running cluster.

use std::io::Write;

use levada_client::Cluster;
use levada_terminal::failure::Failure;
use levada_terminal::output::FormatArgs;

use super::quota::{self, Limit};
use super::target::{Kind, Target};
use crate::cluster::BrokerArgs;
use crate::outcomes::{Outcome, Outcomes};
use crate::settings::{self, Change};

/// Set keys of a topic, broker, group, subscription or quota: all of them or none
///
/// The changes take effect immediately and persist.
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada config set topic clicks retention.ms=86400000 cleanup.policy+=compact
  levada config set broker 1 log.cleaner.min.cleanable.ratio=0.2
  levada config set broker default message.max.bytes=2000000
  levada config set group readers consumer.heartbeat.interval.ms=6000
  levada config set client-metrics slow metrics=org.apache.kafka. interval.ms=30000
  levada config set quota user=alice,client-id=import producer_byte_rate=1048576
  levada config set quota client-id consumer_byte_rate=1048576      clients without their own quota")]
pub(super) struct Set {
    /// Kind of the resource
    kind: Kind,
    /// Name of the resource
    name: String,
    /// Keys with their values; KEY+=VALUE and KEY-=VALUE add and remove entries of a list
    #[arg(required = true, value_name = "KEY=VALUE", value_parser = settings::change)]
    changes: Vec<Change>,
    /// Validate the request without changing anything
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(super) brokers: BrokerArgs,
    #[command(flatten)]
    format: FormatArgs,
}

/// Reset keys of a topic, broker, group, subscription or quota to their defaults
#[derive(Debug, clap::Args)]
#[command(after_help = "Examples:
  levada config delete topic clicks retention.ms
  levada config delete broker default message.max.bytes
  levada config delete quota user=alice producer_byte_rate")]
pub(super) struct Delete {
    /// Kind of the resource
    kind: Kind,
    /// Name of the resource
    name: String,
    /// Keys
    #[arg(required = true, value_name = "KEY")]
    keys: Vec<String>,
    /// Validate the request without changing anything
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    pub(super) brokers: BrokerArgs,
    #[command(flatten)]
    format: FormatArgs,
}

impl Set {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        match self.kind.named(&self.name)? {
            Target::Resource(resource) => {
                settings::alter(cluster, &resource, &self.changes, self.dry_run)?;
                settings::tell_idle(cluster, &resource, self.changes.iter().map(Change::key));
            }
            Target::Quota(entity) => {
                let limits = self.changes.iter().map(Limit::from_change).collect::<Result<Vec<_>, _>>();
                quota::alter(cluster, &entity, &limits.map_err(Failure::Usage)?, self.dry_run)?;
            }
        }
        tell((self.kind, &self.name), self.dry_run, self.format, out)
    }
}

impl Delete {
    pub(super) fn run(&self, cluster: &mut Cluster, out: &mut dyn Write) -> Result<(), Failure> {
        match self.kind.named(&self.name)? {
            Target::Resource(resource) => {
                let changes: Vec<Change> = self.keys.iter().cloned().map(Change::Delete).collect();
                settings::alter(cluster, &resource, &changes, self.dry_run)?;
            }
            Target::Quota(entity) => {
                let limits: Vec<Limit> = self.keys.iter().map(|key| Limit::removed(key)).collect();
                quota::alter(cluster, &entity, &limits, self.dry_run)?;
            }
        }
        tell((self.kind, &self.name), self.dry_run, self.format, out)
    }
}

fn tell(
    (kind, name): (Kind, &str),
    dry_run: bool,
    format: FormatArgs,
    out: &mut dyn Write,
) -> Result<(), Failure> {
    let (outcome, done) =
        if dry_run { (Outcome::Possible, "can be changed") } else { (Outcome::Done, "changed") };
    let mut outcomes = Outcomes::new(format);
    outcomes.add((kind.word(), name), outcome, &format!("{} {name}: {done}", kind.word()));
    outcomes.end(out)
}
