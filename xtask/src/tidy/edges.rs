//! Rules of dependencies: crates that a crate may use, and kinds of libraries that it may not.

use toml::{Table, Value};

use super::{Complaint, Source};

/// A crate may use these crates of the workspace and no others.
const EDGES: [(&str, &[&str]); 28] = [
    (
        "levada",
        &[
            "levada-base",
            "levada-broker",
            "levada-client",
            "levada-config",
            "levada-coordination",
            "levada-files",
            "levada-io",
            "levada-log",
            "levada-metadata",
            "levada-process",
            "levada-remote",
            "levada-schema",
            "levada-security",
            "levada-terminal",
            "levada-testing",
            "levada-tiered",
            "levada-web",
            "levada-wire",
        ],
    ),
    ("levada-base", &["levada-testing"]),
    (
        "levada-broker",
        &[
            "levada-base",
            "levada-chunks",
            "levada-client",
            "levada-cluster",
            "levada-config",
            "levada-coordination",
            "levada-io",
            "levada-log",
            "levada-metadata",
            "levada-process",
            "levada-remote",
            "levada-security",
            "levada-telemetry",
            "levada-testing",
            "levada-tiered",
            "levada-tls",
            "levada-wire",
        ],
    ),
    // Files of its own, beside the data: nothing in them is needed.
    ("levada-chunks", &["levada-base", "levada-testing"]),
    ("levada-client", &["levada-base", "levada-security", "levada-wire"]),
    ("levada-cluster", &["levada-base", "levada-log", "levada-testing", "levada-wire"]),
    (
        "levada-config",
        &["levada-cluster", "levada-io", "levada-metadata", "levada-security", "levada-tiered"],
    ),
    // A small program beside the broker's: it starts that as a process.
    ("levada-container", &[]),
    // Neither a log nor a process: its state machines do no I/O.
    ("levada-coordination", &["levada-base", "levada-testing", "levada-wire"]),
    ("levada-files", &["levada-io", "levada-process", "levada-tls"]),
    (
        "levada-fuzz",
        &[
            "levada-base",
            "levada-broker",
            "levada-config",
            "levada-coordination",
            "levada-files",
            "levada-io",
            "levada-log",
            "levada-metadata",
            "levada-security",
            "levada-telemetry",
            "levada-tiered",
            "levada-tls",
            "levada-wire",
        ],
    ),
    ("levada-io", &["levada-testing"]),
    ("levada-lab", &["levada-base", "levada-client", "levada-io", "levada-terminal", "levada-wire"]),
    ("levada-log", &["levada-base", "levada-io", "levada-testing"]),
    ("levada-metadata", &["levada-base", "levada-log", "levada-security", "levada-wire"]),
    ("levada-process", &["levada-base", "levada-testing"]),
    // A store knows segments, and neither logs nor brokers.
    ("levada-remote", &["levada-base", "levada-testing", "levada-tiered", "levada-wire"]),
    // A client of a registry, and no part of a broker.
    ("levada-schema", &["levada-security"]),
    ("levada-security", &["levada-base", "levada-testing", "levada-wire"]),
    // Neither a log nor a process: times, texts and bytes go in.
    ("levada-telemetry", &["levada-base", "levada-testing", "levada-wire"]),
    ("levada-terminal", &["levada-base", "levada-client", "levada-wire"]),
    ("levada-testing", &[]),
    (
        "levada-tests",
        &[
            "levada-client",
            "levada-cluster",
            "levada-coordination",
            "levada-remote",
            "levada-testing",
            "levada-tiered",
            "levada-wire",
        ],
    ),
    // Records, states and decisions of tiered storage: no file, socket, thread or clock.
    ("levada-tiered", &["levada-base", "levada-testing", "levada-wire"]),
    ("levada-tls", &["levada-io"]),
    (
        "levada-web",
        &[
            "levada-base",
            "levada-broker",
            "levada-client",
            "levada-config",
            "levada-coordination",
            "levada-io",
            "levada-process",
            "levada-schema",
            "levada-security",
            "levada-telemetry",
            "levada-wire",
        ],
    ),
    ("levada-wire", &["levada-base"]),
    ("xtask", &[]),
];

/// Libraries that only these crates may use.
const OWNED: [(&str, &[&str]); 6] = [
    (
        "tokio",
        &[
            "levada",
            "levada-broker",
            "levada-files",
            "levada-lab",
            "levada-process",
            "levada-remote",
            "levada-web",
        ],
    ),
    ("object_store", &["levada-remote"]),
    ("axum", &["levada-web"]),
    ("kafka-wire", &["levada-wire"]),
    ("kafka-wire-core", &["levada-wire"]),
    ("kafka-protocol", &["levada-wire"]),
];

/// Packages that are not of the workspace.
const OUTSIDE: [&str; 2] = ["levada-fuzz-targets", "quick-start"];

const TABLES: [&str; 3] = ["dependencies", "dev-dependencies", "build-dependencies"];

pub(super) fn check(source: &Source) -> Vec<Complaint> {
    let manifest: Table = match source.text.parse() {
        Ok(manifest) => manifest,
        Err(error) => return vec![source.complaint(1, format!("no manifest: {error}"))],
    };
    let Some(name) = manifest.get("package").and_then(|package| package.get("name")).and_then(Value::as_str)
    else {
        return Vec::new();
    };
    if OUTSIDE.contains(&name) {
        return Vec::new();
    }
    let Some((_, allowed)) = EDGES.iter().find(|(user, _)| *user == name) else {
        return vec![source.complaint(1, format!("crate {name} has no place in the table of edges"))];
    };
    let complain = |dependency: &String| {
        let line = source.text.lines().position(|line| line.starts_with(dependency.as_str()));
        let what = if dependency.starts_with("levada") {
            let inner = dependency == "levada" || !allowed.contains(&dependency.as_str());
            inner.then(|| format!("{name} must not depend on {dependency}"))
        } else {
            let owner = OWNED.iter().find(|(library, users)| library == dependency && !users.contains(&name));
            owner.map(|(library, users)| format!("{library} is only for {}", users.join(", ")))
        };
        what.map(|what| source.complaint(line.unwrap_or(0) + 1, what))
    };
    dependencies(&manifest).iter().filter_map(complain).collect()
}

/// The names of all dependencies, before any renaming, including those of a single platform.
fn dependencies(manifest: &Table) -> Vec<String> {
    let targets = manifest.get("target").and_then(Value::as_table).into_iter().flat_map(Table::values);
    let tables = targets.filter_map(Value::as_table).chain([manifest]);
    let lists = tables.flat_map(|table| TABLES.iter().filter_map(|list| table.get(*list)?.as_table()));
    let real = |(key, value): (&String, &Value)| {
        value.get("package").and_then(Value::as_str).unwrap_or(key).to_string()
    };
    lists.flatten().map(real).collect()
}
