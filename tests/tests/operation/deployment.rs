//! The files in `deploy` for clusters: manifests of Kubernetes against the schemas of its API,
//! units by systemd, and the configurations by the programs that read them. The workflows in
//! `.github`, by actionlint.
//!
//! Suite: long; 3 s; needs java, kubernetes, packages; uses go

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use levada_tests::{Tool, not_run, paths};
use serde_json::{Value, json};

/// Versions of Kubernetes: the first in which pods have their number as a label for certain, and
/// the newest with a schema.
const VERSIONS: [&str; 2] = ["1.32", "1.37"];
const CLUSTER_ID: &str = "bGV2YWRhLXRlc3RzLTAwMA";

fn manifest(name: &str) -> PathBuf {
    paths::deployment().join("kubernetes").join(name)
}

/// True if every resource of the file is valid; a field that is not in the API is an error.
fn is_valid(file: &Path) -> (bool, String) {
    let mut tool = Command::new(paths::kubernetes("kubernetes-validate"));
    tool.arg("--strict");
    for version in VERSIONS {
        tool.args(["-k", version]);
    }
    let output = tool.arg(file).output().expect("the checker runs");
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The resources of a file.
fn resources(name: &str) -> Vec<Value> {
    let script = "import json, sys, yaml; print(json.dumps(list(yaml.safe_load_all(open(sys.argv[1])))))";
    let mut python = Command::new(paths::kubernetes("python"));
    let output = python.args(["-c", script]).arg(manifest(name)).output().expect("Python runs");
    serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|error| panic!("{name}: {error}: {}", String::from_utf8_lossy(&output.stderr)))
}

fn find<'a>(resources: &'a [Value], kind: &str, name: &str) -> &'a Value {
    let found = resources.iter().find(|one| one["kind"] == kind && one["metadata"]["name"] == name);
    found.unwrap_or_else(|| panic!("no {kind} {name}"))
}

/// Writes a configuration with another directory, and returns its path.
fn written(text: &str, directory: &Path) -> PathBuf {
    let line = |line: &str| {
        if line.starts_with("log.dirs=") {
            format!("log.dirs={}", directory.join("data").display())
        } else {
            line.to_owned()
        }
    };
    let text: Vec<String> = text.lines().map(line).collect();
    assert!(text.iter().any(|line| line.starts_with("log.dirs=")), "no log.dirs: {text:#?}");
    let path = directory.join("server.properties");
    fs::write(&path, text.join("\n")).expect("a file");
    path
}

/// Has Kafka's own tool read a controller's configuration and format its directory.
fn format_controller(text: &str) {
    let directory = tempfile::tempdir().expect("a directory");
    let file = written(text, directory.path()).display().to_string();
    Tool::java("kafka.tools.StorageTool")
        .args(["format", "--cluster-id", CLUSTER_ID, "--config", &file])
        .run();
    assert!(directory.path().join("data/meta.properties").exists());
}

/// Runs the command that formats a broker's directory, and returns the values that `levada serve`
/// would have.
fn format_broker(text: &str, environment: &[(String, String)]) -> Value {
    let directory = tempfile::tempdir().expect("a directory");
    let file = written(text, directory.path()).display().to_string();
    let run = |words: &[&str]| {
        let mut command = Command::new(paths::binary());
        let output = command.args(words).envs(environment.iter().cloned()).output().expect("it runs");
        assert!(output.status.success(), "{words:?}: {}", String::from_utf8_lossy(&output.stderr));
        output.stdout
    };
    let format = ["storage", "format", "--ignore-formatted", "--cluster-id", CLUSTER_ID, "--config", &file];
    run(&format);
    run(&format);
    let identity = fs::read_to_string(directory.path().join("data/meta.properties")).expect("an identity");
    assert!(identity.contains(&format!("cluster.id={CLUSTER_ID}")), "{identity}");
    let shown = run(&["config", "show", "--changed", "--output", "json", "--config", &file]);
    serde_json::from_slice(&shown).expect("JSON")
}

fn value<'a>(shown: &'a Value, key: &str) -> &'a str {
    let found = shown.as_array().expect("keys").iter().find(|one| one["key"] == key);
    found.and_then(|one| one["value"].as_str()).unwrap_or_else(|| panic!("{key} is not set: {shown}"))
}

#[test]
fn the_manifests_are_valid_and_their_configurations_accepted() {
    for name in ["controllers.yaml", "brokers.yaml", "standalone.yaml"] {
        let (valid, said) = is_valid(&manifest(name));
        assert!(valid, "{name}: {said}");
        let text = fs::read_to_string(manifest(name)).expect("a manifest");
        let faulty = tempfile::NamedTempFile::new().expect("a file");
        fs::write(faulty.path(), text.replace("podManagementPolicy", "podManagmentPolicy")).expect("a file");
        assert!(!is_valid(faulty.path()).0, "a misspelt field of {name} is not found");
    }
    let controllers = resources("controllers.yaml");
    let text = &find(&controllers, "ConfigMap", "kafka-controller")["data"]["controller.properties"];
    format_controller(&format!("{}\nnode.id=2\n", text.as_str().expect("a text")));

    let brokers = resources("brokers.yaml");
    let text = find(&brokers, "ConfigMap", "levada")["data"]["server.properties"].as_str().expect("a text");
    let pod = &find(&brokers, "StatefulSet", "levada")["spec"]["template"]["spec"];
    let given = [("POD_NAME", "levada-2"), ("POD_NAMESPACE", "streams"), ("POD_INDEX", "2")];
    // As the kubelet replaces variables in values of others, with a token for that of a Secret.
    let of_secret = |one: &Value| {
        one["valueFrom"]["secretKeyRef"]["name"].is_string().then(|| "0123456789abcdef".repeat(3))
    };
    let environment = pod["containers"][0]["env"].as_array().expect("variables").iter().filter_map(|one| {
        let value = one["value"].as_str().map(str::to_owned).or_else(|| of_secret(one))?;
        let value =
            given.iter().fold(value, |text, (name, value)| text.replace(&format!("$({name})"), value));
        Some((one["name"].as_str()?.to_owned(), value))
    });
    let environment: Vec<_> = environment.collect();
    let shown = format_broker(text, &environment);
    assert_eq!(value(&shown, "node.id"), "102");
    let expected = "TLS://levada-2.levada-brokers.streams.svc:9092";
    assert_eq!(value(&shown, "advertised.listeners"), expected);
    assert_eq!(pod["initContainers"][0]["env"], pod["containers"][0]["env"]);
    let standalone = resources("standalone.yaml");
    let own = find(&standalone, "ConfigMap", "levada")["data"]["server.properties"].as_str();
    let shown = format_broker(own.expect("a text"), &[]);
    assert_eq!(value(&shown, "ssl.client.auth"), "required");
    // Both name the same controllers.
    let voters = |text: &str| {
        text.lines().find(|line| line.starts_with("controller.quorum.voters=")).map(str::to_owned)
    };
    let controllers =
        find(&controllers, "ConfigMap", "kafka-controller")["data"]["controller.properties"].as_str();
    assert_eq!(voters(text), voters(controllers.expect("a text")));
}

/// Names of the resources of this kind in a file.
fn names(file: &str, kind: &str) -> Vec<String> {
    let all = resources(file).into_iter().filter(|one| one["kind"] == kind);
    all.filter_map(|one| Some(one["metadata"]["name"].as_str()?.to_owned())).collect()
}

#[test]
fn kustomize_lists_files_whose_references_exist() {
    let list = &resources("kustomization.yaml")[0]["resources"];
    let listed: Vec<&str> = list.as_array().expect("a list").iter().filter_map(Value::as_str).collect();
    assert_eq!(listed, ["certificates.yaml", "controllers.yaml", "brokers.yaml", "monitoring.yaml"]);
    let certificates = resources("certificates.yaml");
    let secrets: Vec<&str> =
        certificates.iter().filter_map(|one| one["spec"]["secretName"].as_str()).collect();
    for (file, set) in
        [("controllers.yaml", "kafka-controller"), ("brokers.yaml", "levada"), ("standalone.yaml", "levada")]
    {
        let all = resources(file);
        let volumes = &find(&all, "StatefulSet", set)["spec"]["template"]["spec"]["volumes"];
        let named = volumes
            .as_array()
            .expect("volumes")
            .iter()
            .filter_map(|one| one["secret"]["secretName"].as_str());
        let missing: Vec<&str> = named.filter(|name| !secrets.contains(name)).collect();
        assert_eq!(missing, Vec::<&str>::new(), "{file}: no certificate writes these secrets");
        assert!(names(file, "NetworkPolicy").contains(&set.to_owned()), "{file}: no policy of {set}");
    }
    let monitor = resources("monitoring.yaml");
    let endpoint = &find(&monitor, "ServiceMonitor", "levada")["spec"]["endpoints"][0];
    for file in ["brokers.yaml", "standalone.yaml"] {
        let services = resources(file);
        let ports = services
            .iter()
            .filter(|one| one["kind"] == "Service")
            .flat_map(|one| one["spec"]["ports"].as_array());
        let scraped = ports.flatten().filter(|port| port["name"] == endpoint["port"]).count();
        assert_eq!(scraped, 1, "{file}: each pod is scraped once");
    }
}

#[test]
fn pods_have_probes_and_a_writable_tmp() {
    for file in ["brokers.yaml", "standalone.yaml"] {
        let all = resources(file);
        let pod = &find(&all, "StatefulSet", "levada")["spec"]["template"]["spec"];
        let broker = &pod["containers"][0];
        // A liveness probe by /healthz would end a broker that serves without one directory.
        for (probe, question) in [("livenessProbe", "--live"), ("readinessProbe", "--ready")] {
            let command =
                json!(["/usr/bin/levada", "cluster", "health", "--http", "127.0.0.1:9644", question]);
            assert_eq!(broker[probe]["exec"]["command"], command, "{file}: {probe}");
        }
        assert_eq!(broker["securityContext"]["readOnlyRootFilesystem"], true, "{file}");
        let mounts = broker["volumeMounts"].as_array().expect("mounts");
        assert!(mounts.contains(&json!({ "name": "tmp", "mountPath": "/tmp" })), "{file}: {mounts:?}");
        let volumes = pod["volumes"].as_array().expect("volumes");
        let is_empty = |one: &&Value| one["name"] == "tmp" && one["emptyDir"].is_object();
        assert_eq!(volumes.iter().filter(is_empty).count(), 1, "{file}: {volumes:?}");
    }
}

#[test]
fn cluster_systemd_units_and_configurations_are_valid() {
    let directory = paths::deployment().join("systemd/cluster");
    let read = |name: &str| fs::read_to_string(directory.join(name)).expect("a file");
    format_controller(&read("controller.properties"));
    let shown = format_broker(&read("server.properties"), &[]);
    assert_eq!(value(&shown, "node.id"), "11");

    // systemd looks for the programs in this system.
    let units = tempfile::tempdir().expect("a directory");
    let here = |text: &str| {
        let text = text.replace("/usr/bin/levada", &paths::binary().display().to_string());
        text.replace("/opt/kafka/bin/kafka-server-start.sh", "/bin/true")
    };
    let write = |path: &str, text: &str| fs::write(units.path().join(path), here(text)).expect("a file");
    let unit = fs::read_to_string(paths::deployment().join("systemd/levada.service")).expect("the unit");
    write("kafka-controller.service", &read("kafka-controller.service"));
    write("levada.service", &unit);
    fs::create_dir(units.path().join("levada.service.d")).expect("a directory");
    write("levada.service.d/cluster.conf", &read("levada.service.d.conf"));
    for name in ["kafka-controller.service", "levada.service"] {
        let mut verify = Command::new("systemd-analyze");
        let output = verify.args(["verify", "--man=no"]).arg(units.path().join(name)).output();
        let output = output.expect("systemd-analyze runs");
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let own: Vec<&str> =
            said.lines().filter(|line| line.contains("levada") || line.contains("kafka")).collect();
        assert!(output.status.success() && own.is_empty(), "{name}: {said}");
    }
}

/// Paths of the workflows.
fn workflows() -> Vec<PathBuf> {
    let directory = paths::repository().join(".github/workflows");
    let entries = fs::read_dir(&directory).expect("the directory of workflows");
    let mut files: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    files.sort();
    assert!(!files.is_empty(), "{} has no workflow", directory.display());
    files
}

/// Complaints of actionlint about a workflow. It calls no other programs: their complaints depend
/// on the machine.
fn complaints(actionlint: &Path, file: &Path) -> Option<String> {
    let mut tool = Command::new(actionlint);
    let output = tool.args(["-no-color", "-shellcheck=", "-pyflakes="]).arg(file).output();
    let output = output.expect("actionlint runs");
    let said = [output.stdout, output.stderr].concat();
    (!output.status.success()).then(|| String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn the_workflows_are_valid() {
    let actionlint = paths::go_program("actionlint");
    if !actionlint.exists() {
        return not_run("the workflows: there is no actionlint, which needs Go");
    }
    for file in workflows() {
        assert_eq!(complaints(&actionlint, &file), None);
        let text = fs::read_to_string(&file).expect("a workflow");
        let faulty = tempfile::NamedTempFile::new().expect("a file");
        fs::write(faulty.path(), text.replace("timeout-minutes:", "timeout-minuets:")).expect("a file");
        let found = complaints(&actionlint, faulty.path()).unwrap_or_default();
        assert!(found.contains("timeout-minuets"), "{}: a misspelt key is not found", file.display());
    }
}

/// True if a line of a workflow names an action of GitHub's by the digest of a commit, with its
/// version in a comment, or names no action. A tag can be moved to other code; a digest cannot.
fn is_pinned(line: &str) -> bool {
    let line = line.trim_start();
    let Some(action) = line.strip_prefix("- ").unwrap_or(line).trim_start().strip_prefix("uses:") else {
        return true;
    };
    let pinned = || {
        let (name, rest) = action.trim_start().strip_prefix("actions/")?.split_once('@')?;
        let (digest, version) = rest.split_once(" # v")?;
        let is_digest = digest.len() == 40 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let numbers: Vec<&str> = version.split('.').collect();
        let is_version = numbers.len() == 3 && numbers.iter().all(|number| number.parse::<u32>().is_ok());
        Some(!name.is_empty() && is_digest && is_version)
    };
    pinned().unwrap_or(false)
}

#[test]
fn the_workflows_have_few_rights_and_pinned_actions() {
    const DIGEST: &str = "0123456789abcdef0123456789abcdef01234567";
    assert!(is_pinned(&format!("  - uses: actions/checkout@{DIGEST} # v7.0.1")));
    assert!(is_pinned(&format!("    uses: actions/cache/restore@{DIGEST} # v5.0.5")));
    for faulty in [
        "- uses: actions/checkout@v7 # v7.0.1".to_owned(),
        format!("- uses: actions/checkout@{DIGEST}"),
        format!("- uses: actions/checkout@{DIGEST} # main"),
        format!("- uses: actions/checkout@{} # v7.0.1", &DIGEST[1..]),
        format!("- uses: another/checkout@{DIGEST} # v7.0.1"),
        format!("uses: ./actions/checkout@{DIGEST} # v7.0.1"),
    ] {
        assert!(!is_pinned(&faulty), "{faulty}");
    }
    for file in workflows() {
        let text = fs::read_to_string(&file).expect("a workflow");
        for (index, line) in text.lines().enumerate() {
            assert!(is_pinned(line), "{}:{}: {line}", file.display(), index + 1);
        }
        assert!(text.contains("\npermissions:\n  contents: read\n"), "{}: rights", file.display());
        let count = |word: &str| text.lines().filter(|line| line.starts_with(word)).count();
        let (jobs, limits) = (count("    runs-on: "), count("    timeout-minutes: "));
        assert!(jobs > 0 && jobs == limits, "{}: {jobs} jobs, {limits} limits", file.display());
    }
}
