//! The command that starts Levada with its defaults, except for addresses and directory.

use std::io;
use std::process::{Command, Stdio};

use super::{Plan, data};
use crate::error::LabError;
use crate::harness::program::bare;

pub(super) fn command(plan: &Plan) -> Command {
    let mut command = bare(&plan.systems.levada);
    command.arg("serve").env("LEVADA_LOG", "warn");
    configure(&mut command, plan);
    command
}

/// Formats the directory of a broker that joins a cluster.
pub(super) fn format(plan: &Plan, cluster_id: &str) -> Result<(), LabError> {
    let mut command = bare(&plan.systems.levada);
    command.args(["storage", "format", "--cluster-id", cluster_id]).stdin(Stdio::null());
    configure(&mut command, plan);
    let done = command.output().map_err(LabError::step("cannot run levada storage format"))?;
    if done.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    Err(LabError::step("cannot format Levada's directory")(io::Error::other(said)))
}

fn configure(command: &mut Command, plan: &Plan) {
    let own = [
        ("listeners", format!("PLAINTEXT://{}", plan.kafka)),
        ("levada.http.listen", plan.http.to_string()),
        ("log.dirs", data(plan.home.path()).display().to_string()),
    ];
    for (key, value) in own.into_iter().chain(plan.settings.iter().cloned()) {
        command.arg("-o").arg(format!("{key}={value}"));
    }
}
