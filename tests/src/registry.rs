//! A schema registry: Apicurio Registry with its data in memory.

use std::net::SocketAddr;
use std::time::Duration;

use serde_json::Value;

use crate::node::free_port;
use crate::tool::Conversation;
use crate::{Tool, await_some, http};

/// The time in which the registry must be ready: a JVM that reads 500 classes on a busy machine.
const START_LIMIT: Duration = Duration::from_secs(180);
/// Path of the part that has the API of Confluent's registry.
const API: &str = "/apis/ccompat/v7";

/// A running registry. Dropping it kills the process.
pub struct SchemaRegistry {
    address: SocketAddr,
    _process: Conversation,
}

impl SchemaRegistry {
    /// Starts a registry without schemas.
    pub fn started() -> Self {
        let (address, management) = (free_port(), free_port());
        let mut tool = Tool::schema_registry();
        tool.variable("QUARKUS_HTTP_HOST", "127.0.0.1");
        tool.variable("QUARKUS_HTTP_PORT", &address.port().to_string());
        tool.variable("QUARKUS_MANAGEMENT_HOST", "127.0.0.1");
        tool.variable("QUARKUS_MANAGEMENT_PORT", &management.port().to_string());
        tool.variable("QUARKUS_LOG_LEVEL", "ERROR");
        let registry = Self { address, _process: tool.spawn() };
        await_some("the schema registry", START_LIMIT, || {
            let answer = http::call(address, "GET", &format!("{API}/subjects"), "").ok();
            answer.filter(|(status, _)| *status == 200)
        });
        registry
    }

    /// The URL of the API.
    pub fn url(&self) -> String {
        format!("http://{}{API}", self.address)
    }

    /// Response of the API to GET, as JSON.
    pub fn api(&self, path: &str) -> Value {
        let (status, body) = http::call(self.address, "GET", &format!("{API}{path}"), "").expect("an answer");
        assert_eq!(status, 200, "{path}: {body}");
        serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"))
    }
}
