//! Contents of the container image: the programs, a configuration, the licence, and the paths at
//! which programs that know Kafka's images look for theirs.

use std::path::Path;

use super::contents::{ENTRY, Entry, LABORATORY, beside, read, with_directories};
use super::legal;
use super::oci::USER;
use super::tarball::{Owner, ROOT};

/// Paths that the entry serves by its name: shells, and the starts of `apache/kafka`,
/// `confluentinc/cp-kafka` and Quarkus' native image.
const NAMES: [&str; 6] = [
    "bin/bash",
    "bin/sh",
    "etc/confluent/docker/launch",
    "etc/kafka/docker/launch",
    "etc/kafka/docker/run",
    "work/kafka",
];

/// Tools of Kafka: `/opt/kafka/bin/NAME.sh` of one image, `/usr/bin/NAME` of the other.
pub(super) const TOOLS: [&str; 7] = [
    "kafka-broker-api-versions",
    "kafka-configs",
    "kafka-console-consumer",
    "kafka-console-producer",
    "kafka-consumer-groups",
    "kafka-storage",
    "kafka-topics",
];

/// Scripts of `confluentinc/cp-kafka` that programs change before the start.
const SCRIPTS: [&str; 4] = ["bash-config", "configure", "ensure", "run"];

/// Directories of the account, in addition to files that it may change.
const OWN: [&str; 5] =
    ["etc/confluent/docker", "etc/kafka/secrets", "var/lib/kafka", "var/lib/levada", "work"];

/// A root file system with only Levada's programs. The account is that of `nonroot` in other
/// images.
pub(crate) fn entries(root: &Path, binary: &Path) -> Result<Vec<Entry>, String> {
    let deploy = |name: &str| read(&root.join("deploy/oci").join(name));
    let entry = format!("/usr/bin/{ENTRY}");
    let account = format!("root:x:0:0::/:/bin/sh\nlevada:x:{USER}:{USER}::/var/lib/levada:/bin/sh\n");
    let mut entries = vec![
        Entry::file("usr/bin/levada", 0o755, read(binary)?),
        Entry::file("usr/bin/levada-lab", 0o755, read(&beside(binary, LABORATORY))?),
        Entry::file(&entry[1..], 0o755, read(&beside(binary, ENTRY))?),
        Entry::file("etc/levada/server.properties", 0o644, deploy("server.properties")?),
        legal::licence(root, legal::LICENCE)?,
        Entry::file("etc/passwd", 0o644, account),
        Entry::file("etc/group", 0o644, format!("root:x:0:\nlevada:x:{USER}:\n")),
        Entry::directory("etc/kafka/secrets", 0o755),
        Entry::directory("tmp", 0o1777),
        // Testcontainers for Go copies its script to this directory.
        Entry::directory("usr/sbin", 0o755),
        Entry::directory("var/lib/kafka/data", 0o750),
        Entry::directory("var/lib/levada", 0o750),
        Entry::directory("work", 0o755),
    ];
    entries.extend(NAMES.map(|path| Entry::link(path, &entry)));
    for tool in TOOLS {
        entries.push(Entry::link(format!("opt/kafka/bin/{tool}.sh"), &entry));
        entries.push(Entry::link(format!("usr/bin/{tool}"), &entry));
    }
    for script in SCRIPTS {
        let path = format!("etc/confluent/docker/{script}");
        entries.push(Entry::file(path, 0o755, deploy(&format!("confluent/{script}"))?));
    }
    Ok(with_directories(entries))
}

/// The owner of an entry: the account for entries that it may change.
pub(super) fn owner(entry: &Entry) -> Owner {
    let is_own = OWN.iter().any(|directory| Path::new(&entry.path).starts_with(directory));
    if is_own { Owner { id: USER, name: "levada" } } else { ROOT }
}
