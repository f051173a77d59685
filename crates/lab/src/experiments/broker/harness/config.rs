//! Configuration of topics, groups and client metrics.

use levada_wire::StrBytes;
use levada_wire::messages::IncrementalAlterConfigsRequest;
use levada_wire::messages::incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig};

use crate::error::LabError;
use crate::experiments::broker::harness::frames;
use crate::experiments::broker::harness::node::Node;
use crate::experiments::broker::harness::topic;

/// Resource types of Kafka's protocol.
pub(crate) const TOPIC: i8 = 2;
pub(crate) const CLIENT_METRICS: i8 = 16;
pub(crate) const GROUP: i8 = 32;

/// Operations on a key in Kafka's protocol.
const SET: i8 = 0;
const DELETE: i8 = 1;

/// Sets keys of a resource, and deletes the keys without a value.
pub(crate) fn alter(
    node: &Node,
    (kind, name): (i8, &str),
    keys: &[(&str, Option<&str>)],
) -> Result<(), LabError> {
    let key = |(name, value): &(&str, Option<&str>)| {
        let mut key = AlterableConfig::default();
        key.name = StrBytes::from(*name);
        key.config_operation = if value.is_some() { SET } else { DELETE };
        key.value = value.map(StrBytes::from);
        key
    };
    let mut resource = AlterConfigsResource::default();
    (resource.resource_type, resource.resource_name) = (kind, StrBytes::from(name));
    resource.configs = keys.iter().map(key).collect();
    let mut request = IncrementalAlterConfigsRequest::default();
    request.resources = vec![resource];
    let mut client = topic::client(node.address())?;
    let response = client.request_at(1, &request).map_err(topic::failed("cannot change a configuration"))?;
    match response.responses.iter().find(|one| one.error_code != 0) {
        None => Ok(()),
        Some(refusal) => Err(frames::refused("IncrementalAlterConfigs", refusal.error_code)),
    }
}
