//! A metadata log as `kafka-metadata-shell` reads it, compared with the responses of a broker.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::tool::Conversation;
use crate::{Node, Tool};

/// Limit for the shell to read a log.
const LIMIT: Duration = Duration::from_secs(30);

/// Lines before the first prompt.
const GREETING: [&str; 3] = ["Loading...", "Starting...", "[ Kafka Metadata Shell ]"];

/// A node of the shell's tree: its children by name. A value is a child without children.
#[derive(Default, Debug)]
struct Tree(BTreeMap<String, Self>);

/// Properties of the cluster by name, in the form in which the shell shows their values.
type Facts = BTreeMap<String, String>;

impl Tree {
    /// The image that the shell has read so far.
    fn image(shell: &mut Conversation) -> Self {
        shell.say("tree /image");
        shell.say("pwd");
        let mut lines = Vec::new();
        loop {
            let line = shell.line(LIMIT);
            match line.as_str() {
                ">> /" => break,
                other => lines.push(other.trim_start_matches(">> ").to_owned()),
            }
        }
        lines.retain(|line| !GREETING.contains(&line.as_str()));
        let mut root = Self::default();
        root.take(&lines, 0);
        root
    }

    /// Takes the lines from this depth on; returns their number.
    fn take(&mut self, lines: &[String], depth: usize) -> usize {
        let mut taken = 0;
        while let Some(line) = lines.get(taken) {
            let text = line.trim_start_matches(' ');
            if line.len() - text.len() < depth {
                break;
            }
            let child = self.0.entry(text.strip_suffix(':').unwrap_or(text).to_owned()).or_default();
            taken += 1;
            if text.ends_with(':') {
                taken += child.take(&lines[taken..], depth + 2);
            }
        }
        taken
    }

    fn at(&self, path: &[&str]) -> &Self {
        path.iter().fold(self, |tree, name| {
            tree.0.get(*name).unwrap_or_else(|| panic!("the shell shows no {name} of {path:?}"))
        })
    }

    fn value(&self) -> &str {
        self.0.keys().next().expect("a value")
    }

    /// Topics, partitions, brokers, access control entries, quotas, users and settings of topics.
    fn facts(&self) -> Facts {
        let mut facts = Facts::new();
        for (name, topic) in &self.at(&["topics", "byName"]).0 {
            facts.insert(format!("topic {name}"), topic.at(&["id"]).value().to_owned());
            for (index, partition) in topic.0.iter().filter(|(name, _)| name.parse::<i32>().is_ok()) {
                let seen =
                    ["leader", "leaderEpoch", "replicas", "isr"].map(|key| field(partition.value(), key));
                facts.insert(format!("partition {name}-{index}"), seen.join(" "));
            }
        }
        for (id, broker) in &self.at(&["cluster", "brokers"]).0 {
            let seen = ["host", "port", "fenced"].map(|key| field(broker.value(), key));
            facts.insert(format!("broker {id}"), seen.join(" "));
        }
        for entry in self.at(&["acls", "byId"]).0.values().map(Self::value) {
            let keys = [
                "resourceType",
                "patternType",
                "resourceName",
                "principal",
                "host",
                "operation",
                "permissionType",
            ];
            facts.insert(format!("entry {}", keys.map(|key| field(entry, key)).join(" ")), String::new());
        }
        for (client, limits) in &self.at(&["clientQuotas"]).0 {
            let client = client.replace("clientId", "client-id").replace('(', " ").replace(')', "");
            for (key, limit) in &limits.0 {
                let limit: f64 = limit.value().parse().expect("a number");
                facts.insert(format!("quota {client} {key}"), limit.to_string());
            }
        }
        for (mechanism, users) in &self.at(&["scram"]).0 {
            for (user, credential) in &users.0 {
                facts.insert(format!("user {user} {mechanism}"), field(credential.value(), "iterations"));
            }
        }
        for (resource, settings) in &self.at(&["configs"]).0 {
            let Some(topic) = resource.strip_prefix("TOPIC:") else { continue };
            for (key, value) in &settings.0 {
                facts.insert(format!("setting {topic} {key}"), value.value().to_owned());
            }
        }
        facts
    }
}

/// Waits until `kafka-metadata-shell` shows of this metadata log, which may be in use, the
/// responses of a broker: the shell takes commands before it has read the whole file.
pub fn assert_agrees(log: &Path, node: &Node) {
    // The shell refuses files in the directory of a process that runs.
    let directory = tempfile::tempdir().expect("a temporary directory");
    let copied = directory.path().join("00000000000000000000.log");
    std::fs::copy(log, &copied).unwrap_or_else(|error| panic!("{}: {error}", log.display()));
    let mut shell = Tool::java("org.apache.kafka.shell.MetadataShell");
    let mut shell = shell.args(["--snapshot", &copied.display().to_string()]).spawn();
    let answered = answers(node);
    let start = Instant::now();
    let shown = loop {
        let shown = Tree::image(&mut shell).facts();
        if shown == answered {
            break shown;
        }
        let names = shown.keys().chain(answered.keys());
        let differ = names.filter(|name| shown.get(*name) != answered.get(*name));
        let tell = |name: &String| format!("{name}: {:?}, broker {:?}", shown.get(name), answered.get(name));
        let differences: Vec<String> = differ.map(tell).collect();
        let limit = start.elapsed() < LIMIT;
        assert!(limit, "the shell and the broker differ:\n{}", differences.join("\n"));
    };
    for kind in ["topic ", "partition ", "broker ", "entry ", "quota ", "user ", "setting "] {
        assert!(shown.keys().any(|name| name.starts_with(kind)), "nothing to compare: {kind}");
    }
    shell.say("exit");
    shell.finish(LIMIT);
}

/// The value after `key=` in the text of a record, without quotes and the spaces of a list.
fn field(text: &str, key: &str) -> String {
    let starts = [format!("({key}="), format!("[{key}="), format!(" {key}=")];
    let rest = starts.iter().find_map(|start| text.split_once(start.as_str()));
    let (_, rest) = rest.unwrap_or_else(|| panic!("no {key} in {text}"));
    let end =
        if rest.starts_with('[') { rest.find(']').map(|at| at + 1) } else { rest.find([',', ')', ']']) };
    rest[..end.unwrap_or(rest.len())].replace(['\'', ' '], "")
}

/// The facts that a broker returns to its clients.
fn answers(node: &Node) -> Facts {
    let mut facts = Facts::new();
    let ask = |line: &str| node.levada_json(line).as_array().expect("a list").clone();
    let text = |value: &Value| value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let names: Vec<String> = ask("topic list --internal").iter().map(|topic| text(&topic["name"])).collect();
    for topic in ask(&format!("topic describe {}", names.join(" "))) {
        let name = text(&topic["name"]);
        facts.insert(format!("topic {name}"), text(&topic["id"]));
        for partition in topic["partitions"].as_array().expect("partitions") {
            let seen =
                ["leader", "leader_epoch", "replicas", "in_sync"].map(|key| partition[key].to_string());
            facts.insert(format!("partition {name}-{}", partition["partition"]), seen.join(" "));
        }
    }
    for broker in ask("cluster brokers") {
        let seen = ["host", "port", "fenced"].map(|key| text(&broker[key]));
        facts.insert(format!("broker {}", broker["id"]), seen.join(" "));
    }
    for entry in ask("acl list") {
        let [kind, pattern, operation, permission] = ["resource_type", "pattern", "operation", "permission"]
            .map(|key| text(&entry[key]).to_uppercase().replace('-', "_"));
        let [name, principal, host] = ["name", "principal", "host"].map(|key| text(&entry[key]));
        let seen = [kind, pattern, name, principal, host, operation, permission].join(" ");
        facts.insert(format!("entry {seen}"), String::new());
    }
    for client in ask("config get quota") {
        for limit in client["settings"].as_array().expect("settings") {
            let entity = text(&client["name"]).replace('=', " ");
            facts.insert(format!("quota {entity} {}", text(&limit["key"])), text(&limit["value"]));
        }
    }
    for user in ask("user list") {
        let mechanism = text(&user["mechanism"]).to_uppercase();
        facts.insert(format!("user {} {mechanism}", text(&user["user"])), user["iterations"].to_string());
    }
    for topic in ask("config get topic") {
        let settings = topic["settings"].as_array().expect("settings").iter();
        for setting in settings.filter(|setting| setting["source"] == "topic") {
            let key = format!("setting {} {}", text(&topic["name"]), text(&setting["key"]));
            facts.insert(key, text(&setting["value"]));
        }
    }
    facts
}
