//! Five brokers behind proxies, for the functional tests of sarama: they expect the brokers 1 to 5
//! at the ports 29091 to 29095 of toxiproxy, which they make refuse and reset connections.
//!
//! The tests stop and start brokers and read their logs with `docker compose`. A script of this
//! name passes these commands to this module as files in a directory.

use std::fs;
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use serde_json::json;
use tempfile::TempDir;

use crate::cluster::LIMIT;
use crate::{Cluster, await_some, paths};

/// Port at which toxiproxy is told what to do.
const CONTROL: u16 = 8474;
/// The port of broker N is this one plus N.
const PORTS: u16 = 29_090;

/// Replacement of the program `docker`.
const DOCKER: &str = r#"#!/bin/sh
cd "${0%/*}" || exit 1
printf '%s\n' "$*" > order.new && mv order.new order
while ! [ -e answer ]; do sleep 0.05; done
cat answer
rm answer
"#;

/// The cluster, the proxy, and the directory of the script.
pub(super) struct Proxied {
    cluster: Cluster,
    proxy: Child,
    home: TempDir,
}

impl Proxied {
    /// Starts the brokers and the proxies.
    pub(super) fn start(mut cluster: Cluster) -> Self {
        let home = TempDir::new().expect("a directory");
        let listeners = cluster.listen("PROXIED", "PLAINTEXT");
        let mut proxies = Vec::new();
        for (id, address) in listeners {
            let number = u16::try_from(id % 10).expect("a number of one digit");
            let front = format!("127.0.0.1:{}", PORTS + number);
            let advertised = format!("PLAINTEXT://{},PROXIED://{front}", cluster.node(id).address());
            cluster = cluster.member_option(id, "advertised.listeners", &advertised).member_option(
                id,
                "inter.broker.listener.name",
                "PLAINTEXT",
            );
            let name = format!("kafka{number}");
            proxies.push(json!({
                "name": name, "listen": front, "upstream": address.to_string(), "enabled": true,
            }));
        }
        let list = home.path().join("proxies.json");
        fs::write(&list, json!(proxies).to_string()).expect("room for a file");
        let docker = home.path().join("docker");
        fs::write(&docker, DOCKER).expect("room for a file");
        fs::set_permissions(&docker, fs::Permissions::from_mode(0o755)).expect("a file of this process");
        cluster.start();
        let mut proxy = Command::new(toxiproxy());
        proxy.args(["-host", "127.0.0.1", "-port", &CONTROL.to_string(), "-config"]).arg(&list);
        proxy.stdout(Stdio::null()).stderr(Stdio::null());
        let proxy = proxy.spawn().expect("toxiproxy starts");
        await_some("toxiproxy", LIMIT, || TcpStream::connect(("127.0.0.1", CONTROL)).ok());
        Self { cluster, proxy, home }
    }

    /// Addresses for clients.
    pub(super) fn bootstrap(&self) -> String {
        let ports = (1..=self.cluster.brokers().len()).map(|number| PORTS + number as u16);
        ports.map(|port| format!("127.0.0.1:{port}")).collect::<Vec<_>>().join(",")
    }

    /// Sets the variables by which the tests find the proxy and `docker`.
    pub(super) fn introduce(&self, command: &mut Command) {
        let path = std::env::var("PATH").expect("a path");
        command.env("PATH", format!("{}:{path}", self.home.path().display()));
        command.env("TOXIPROXY_ADDR", format!("http://127.0.0.1:{CONTROL}")).env("KAFKA_VERSION", "4.3.1");
    }

    /// Executes the commands of the tests until they end.
    pub(super) fn attend(&mut self, suite: &mut Child) {
        let [order, draft, answer] =
            ["order", "answer.new", "answer"].map(|name| self.home.path().join(name));
        await_some("the end of the suite", LIMIT * 20, || {
            if let Ok(text) = fs::read_to_string(&order) {
                fs::remove_file(&order).expect("a file of the script");
                fs::write(&draft, self.carry_out(text.trim())).expect("room for a file");
                fs::rename(&draft, &answer).expect("a file of this process");
            }
            suite.try_wait().expect("the suite is a child of this process")
        });
    }

    /// The brokers.
    pub(super) fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Output of `docker compose stop|start|logs [...] kafka-N`.
    fn carry_out(&mut self, order: &str) -> String {
        let words: Vec<&str> = order.split_whitespace().collect();
        let number = words.last().and_then(|name| name.strip_prefix("kafka-")?.parse::<i32>().ok());
        let number = number.unwrap_or_else(|| panic!("no broker in `docker {order}`"));
        let id = self.cluster.brokers()[0] + number - 1;
        match words.get(1) {
            Some(&"stop") => drop(self.cluster.node_mut(id).stop()),
            // Tests start a broker again in any case when they end.
            Some(&"start") if self.cluster.node(id).is_running() => {}
            Some(&"start") => self.cluster.node_mut(id).start(),
            Some(&"logs") => return self.cluster.node(id).history(),
            _ => panic!("unknown: `docker {order}`"),
        }
        String::new()
    }
}

impl Drop for Proxied {
    fn drop(&mut self) {
        // The proxy may have ended.
        let _ = self.proxy.kill();
        let _ = self.proxy.wait();
    }
}

/// Builds the proxy.
fn toxiproxy() -> PathBuf {
    let program = paths::suite_results().join("toxiproxy");
    let mut build = Command::new("go");
    build.current_dir(paths::suites().join("go")).args(["build", "-o"]).arg(&program);
    let built = build.arg("github.com/Shopify/toxiproxy/v2/cmd/server").status().expect("go runs");
    assert!(built.success(), "toxiproxy: {built}");
    program
}
