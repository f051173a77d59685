//! Targets of `levada config get|set|delete`: a topic, a broker or all brokers, a group, a
//! subscription of client metrics, a client quota.

use clap::ValueEnum;
use levada_client::Cluster;
use levada_wire::messages::ListConfigResourcesRequest;

use super::quota::Entity;
use crate::kafka_error;
use crate::settings::{self, Resource};
use levada_terminal::failure::Failure;

/// The kinds of things that have settings.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum Kind {
    /// A topic
    Topic,
    /// A broker by its number, or `default`: all brokers
    Broker,
    /// A consumer group or a share group
    Group,
    /// A subscription of client metrics: the metrics that matching clients push
    ClientMetrics,
    /// Quotas of clients: user=NAME, client-id=NAME or ip=ADDRESS, separated by commas; without
    /// =NAME, the default of clients without their own quota
    Quota,
}

/// A resource or a client-quota entity whose settings are changed.
pub(super) enum Target {
    Resource(Resource),
    Quota(Entity),
}

/// The name for all brokers together.
const ALL_BROKERS: &str = "default";

impl Kind {
    /// The word on the command line.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Topic => "topic",
            Self::Broker => "broker",
            Self::Group => "group",
            Self::ClientMetrics => "client-metrics",
            Self::Quota => "quota",
        }
    }

    /// The thing of this kind with this name.
    pub(super) fn named(self, name: &str) -> Result<Target, Failure> {
        let resource = |kind, name: &str| Target::Resource(Resource { kind, name: name.to_owned() });
        Ok(match self {
            Self::Topic => resource(settings::Kind::Topic, name),
            Self::Group => resource(settings::Kind::Group, name),
            Self::ClientMetrics => resource(settings::Kind::ClientMetrics, name),
            Self::Quota => Target::Quota(name.parse().map_err(Failure::Usage)?),
            Self::Broker if name == ALL_BROKERS => resource(settings::Kind::Broker, ""),
            Self::Broker if name.parse::<i32>().is_ok() => resource(settings::Kind::Broker, name),
            Self::Broker => {
                let what = format!("{name:?} is not a broker: expected a broker's number, or {ALL_BROKERS}");
                return Err(Failure::Usage(what));
            }
        })
    }

    /// Every thing of this kind except quotas, which have no list of names.
    pub(super) fn every(self, cluster: &mut Cluster) -> Result<Vec<Resource>, Failure> {
        let resource = |kind, name: String| Resource { kind, name };
        Ok(match self {
            Self::Topic => {
                let topics = cluster.topics(None)?;
                topics.into_keys().map(|name| resource(settings::Kind::Topic, name)).collect()
            }
            Self::Broker => {
                let brokers = cluster.brokers()?.into_iter().map(|node| node.to_string());
                let names = std::iter::once(String::new()).chain(brokers);
                names.map(|name| resource(settings::Kind::Broker, name)).collect()
            }
            Self::Group => named_with_settings(cluster, settings::Kind::Group, "groups")?,
            Self::ClientMetrics => {
                named_with_settings(cluster, settings::Kind::ClientMetrics, "client metrics subscriptions")?
            }
            Self::Quota => Vec::new(),
        })
    }
}

impl Resource {
    /// Name of the resource on the command line.
    pub(super) fn word(&self) -> &str {
        match self.kind {
            settings::Kind::Broker if self.name.is_empty() => ALL_BROKERS,
            _ => &self.name,
        }
    }
}

/// The resources of a kind whose names only their settings have.
fn named_with_settings(
    cluster: &mut Cluster,
    kind: settings::Kind,
    word: &str,
) -> Result<Vec<Resource>, Failure> {
    let mut request = ListConfigResourcesRequest::default();
    request.resource_types = vec![kind as i8];
    let response = cluster.ask(&request)?;
    let checked = kafka_error::check(response.error_code, &format!("list {word} with settings"), None);
    kafka_error::needing(checked, "describe-configs", "--cluster")?;
    let mut names: Vec<String> =
        response.config_resources.iter().map(|one| one.resource_name.as_str().to_owned()).collect();
    names.sort_unstable();
    Ok(names.into_iter().map(|name| Resource { kind, name }).collect())
}
