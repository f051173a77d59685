//! Start of the broker: the conventions of Kafka's images that are not keys.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::failure::{Failure, replace};

/// Path of the broker's program.
pub(crate) const LEVADA: &str = "/usr/bin/levada";

/// Directory at which users of Kafka's images mount the volume of the data.
const KAFKAS_DATA: &str = "/var/lib/kafka/data";
/// File that users of `apache/kafka` mount.
const KAFKAS_CONFIG: &str = "/mnt/shared/config/server.properties";
/// Variables that name the data directories.
const LOG_DIRS: [&str; 4] = ["LEVADA_LOG_DIRS", "LEVADA_LOG_DIR", "KAFKA_LOG_DIRS", "KAFKA_LOG_DIR"];

/// A variable that the start adds.
pub(crate) type Variable = (&'static str, &'static str);

/// Variables for mounts that users of Kafka's images expect to work: a data directory, unless
/// another setting names one, and a configuration.
pub(crate) fn variables(mounts: &str, has_config: bool, is_set: impl Fn(&str) -> bool) -> Vec<Variable> {
    let mut variables = Vec::new();
    let is_mounted = mounts.lines().any(|line| line.split(' ').nth(4) == Some(KAFKAS_DATA));
    if is_mounted && !LOG_DIRS.into_iter().any(is_set) {
        variables.push(("LEVADA_LOG_DIRS", KAFKAS_DATA));
    }
    if has_config {
        variables.push(("LEVADA_CONFIG", KAFKAS_CONFIG));
    }
    variables
}

/// Variables that this container adds.
pub(crate) fn own_variables() -> Vec<Variable> {
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    variables(&mounts, Path::new(KAFKAS_CONFIG).exists(), |name| std::env::var_os(name).is_some())
}

/// Formats the data directories for the cluster of `CLUSTER_ID`, if it is set and they are new, and
/// becomes the broker.
pub(crate) fn serve(words: &[String]) -> Result<i32, Failure> {
    let variables = own_variables();
    if let Some(id) = std::env::var("CLUSTER_ID").ok().filter(|id| !id.is_empty()) {
        let mut format = Command::new(LEVADA);
        format.args(["storage", "format", "--ignore-formatted", "--cluster-id", &id]).args(words);
        format.envs(variables.iter().copied()).stdin(Stdio::null());
        // Its notes about keys are those of the start, which follows.
        let output = format.output().map_err(|error| Failure::not_started(LEVADA, &error))?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr);
            return Err(Failure::new(format!("cannot format for CLUSTER_ID={id}: {}", text.trim_end())));
        }
    }
    let mut serve = Command::new(LEVADA);
    serve.arg("serve").args(words).envs(variables);
    let error = std::os::unix::process::CommandExt::exec(&mut serve);
    Err(Failure::not_started(LEVADA, &error))
}

/// Becomes `levada` with these arguments.
pub(crate) fn levada(words: &[String]) -> Failure {
    replace(LEVADA, words)
}
