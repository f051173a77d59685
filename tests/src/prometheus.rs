//! A Prometheus server for a broker, with the files that the project delivers in
//! `deploy/monitoring`.

use std::fs;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use serde_json::Value;
use tempfile::TempDir;

use crate::node::free_port;
use crate::tool::Conversation;
use crate::{Node, Tool, await_some, http, paths};

/// The time in which the server must be ready.
const START_LIMIT: Duration = Duration::from_secs(60);

/// The interval at which it scrapes and evaluates here, seconds.
const INTERVAL: &str = "1s";

/// A running server. Dropping it kills the process and removes its data.
pub struct Prometheus {
    address: SocketAddr,
    _process: Conversation,
    _home: TempDir,
}

impl Prometheus {
    /// A server that scrapes this broker. Its files are those of the project, but for the address
    /// of the broker, shorter intervals, and rules that fire after a second instead of minutes.
    pub fn beside(node: &Node) -> Self {
        let rules = delivered("alerts.yml");
        let sooner: Vec<&str> = rules
            .lines()
            .map(|line| if line.starts_with("        for: ") { "        for: 1s" } else { line })
            .collect();
        assert_ne!(sooner.join("\n"), rules.trim_end(), "no rule waits");
        Self::with_rules(node, &sooner.join("\n"))
    }

    /// Like [`Prometheus::beside`], with these rules in place of the alerts.
    pub fn with_rules(node: &Node, rules: &str) -> Self {
        let home = tempfile::Builder::new().prefix("levada-prometheus-").tempdir().expect("a directory");
        let config = delivered("prometheus.yml");
        let config = replaced(&config, "127.0.0.1:9644", &node.http_address().to_string());
        let config = replaced(&config, "scrape_interval: 15s", &format!("scrape_interval: {INTERVAL}"));
        let config =
            replaced(&config, "evaluation_interval: 15s", &format!("evaluation_interval: {INTERVAL}"));
        let path = home.path().join("prometheus.yml");
        fs::write(&path, config).expect("a configuration");
        fs::write(home.path().join("alerts.yml"), rules).expect("rules");
        let address = free_port();
        let mut tool = Tool::prometheus();
        tool.arg(format!("--config.file={}", path.display()));
        tool.arg(format!("--storage.tsdb.path={}", home.path().join("data").display()));
        tool.arg(format!("--web.listen-address={address}")).arg("--log.level=warn");
        let server = Self { address, _process: tool.spawn(), _home: home };
        await_some("Prometheus", START_LIMIT, || {
            http::call(address, "GET", "/-/ready", "").ok().filter(|(status, _)| *status == 200)
        });
        server
    }

    /// The `data` of a response of its API.
    pub fn api(&self, path: &str) -> Value {
        let (status, body) =
            http::call(self.address, "GET", &format!("/api/v1/{path}"), "").expect("an answer");
        assert_eq!(status, 200, "{path}: {body}");
        let answer: Value =
            serde_json::from_str(&body).unwrap_or_else(|error| panic!("{path}: {error}: {body}"));
        answer["data"].clone()
    }

    /// The series that a query has now: labels and value. A value that is not a number is left out,
    /// as a panel leaves it out.
    pub fn query(&self, query: &str) -> Vec<(Value, f64)> {
        let encoded: String = query.bytes().map(|byte| format!("%{byte:02X}")).collect();
        let data = self.api(&format!("query?query={encoded}"));
        let series = data["result"].as_array().cloned().unwrap_or_default();
        let value = |one: &Value| one["value"][1].as_str().and_then(|text| text.parse::<f64>().ok());
        let series = series.iter().filter_map(|one| Some((one["metric"].clone(), value(one)?)));
        series.filter(|(_, value)| !value.is_nan()).collect()
    }

    /// Alert rules of the server.
    pub fn rules(&self) -> Vec<Value> {
        let groups = self.api("rules?type=alert")["groups"].as_array().cloned().unwrap_or_default();
        groups.iter().flat_map(|group| group["rules"].as_array().cloned().unwrap_or_default()).collect()
    }

    /// The labels of firing alerts.
    pub fn firing(&self) -> Vec<Value> {
        let alerts = self.api("alerts")["alerts"].as_array().cloned().unwrap_or_default();
        alerts.into_iter().filter(|one| one["state"] == "firing").map(|one| one["labels"].clone()).collect()
    }
}

/// The text of a file in `deploy/monitoring`.
pub fn delivered(name: &str) -> String {
    let path: PathBuf = paths::monitoring().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The text with each `old`, of which there is at least one, as `new`.
fn replaced(text: &str, old: &str, new: &str) -> String {
    assert!(text.contains(old), "{old} is not in {text}");
    text.replace(old, new)
}
