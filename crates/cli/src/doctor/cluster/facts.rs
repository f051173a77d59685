//! Facts about a cluster, from the responses of its brokers.

use std::collections::BTreeMap;

use levada_client::Cluster;
use levada_wire::messages::ApiVersionsResponse;
use levada_wire::messages::describe_cluster_response::DescribeClusterBroker;
use levada_wire::messages::metadata_response::MetadataResponseTopic;

use crate::{kafka_error, layout, settings};
use levada_terminal::failure::Failure;

/// Keys of topics that matter.
const KEYS: [&str; 2] = ["min.insync.replicas", "remote.storage.enable"];

/// State of a cluster.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    pub(super) cluster_id: String,
    pub(super) brokers: Vec<DescribeClusterBroker>,
    pub(super) topics: Vec<MetadataResponseTopic>,
    /// Responses to ApiVersions, by broker.
    pub(super) versions: BTreeMap<i32, ApiVersionsResponse>,
    /// Settings of topics that may be described.
    pub(super) settings: BTreeMap<String, TopicSettings>,
    /// Name of the error for topics that may not be described.
    pub(super) settings_refused: Option<String>,
}

/// Settings of a topic that matter.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TopicSettings {
    pub(super) min_in_sync: usize,
    pub(super) is_tiered: bool,
}

impl Facts {
    pub(super) fn ask(cluster: &mut Cluster) -> Result<Self, Failure> {
        let described = layout::describe(cluster)?;
        let mut facts = Self {
            cluster_id: described.cluster_id.as_str().to_owned(),
            brokers: described.brokers,
            topics: cluster.metadata(None, false)?.topics,
            ..Self::default()
        };
        facts.brokers.sort_by_key(|broker| broker.broker_id);
        facts.versions = layout::versions(cluster)?;
        facts.ask_settings(cluster)?;
        Ok(facts)
    }

    fn ask_settings(&mut self, cluster: &mut Cluster) -> Result<(), Failure> {
        let names: Vec<&str> = self.topics.iter().filter_map(|topic| topic.name.as_deref()).collect();
        for result in settings::raw_of_topics(cluster, &names, &KEYS)? {
            if result.error_code != 0 {
                self.settings_refused = Some(kafka_error::name(result.error_code));
                continue;
            }
            let value = |key: &str| {
                let config = result.configs.iter().find(|config| config.name.as_str() == key);
                config.and_then(|config| config.value.as_deref())
            };
            let settings = TopicSettings {
                min_in_sync: value(KEYS[0]).and_then(|value| value.parse().ok()).unwrap_or(1),
                is_tiered: value(KEYS[1]) == Some("true"),
            };
            self.settings.insert(result.resource_name.as_str().to_owned(), settings);
        }
        Ok(())
    }
}
