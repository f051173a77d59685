//! The command that starts Levada: its defaults, but for addresses and directory.

use std::process::Command;

use super::{Plan, data};
use crate::harness::program::bare;

pub(super) fn command(plan: &Plan) -> Command {
    let mut command = bare(&plan.systems.levada);
    let own = [
        ("listeners", format!("PLAINTEXT://{}", plan.kafka)),
        ("levada.http.listen", plan.http.to_string()),
        ("log.dirs", data(plan.home.path()).display().to_string()),
    ];
    command.arg("serve").env("LEVADA_LOG", "warn");
    for (key, value) in own.into_iter().chain(plan.settings.iter().cloned()) {
        command.arg("-o").arg(format!("{key}={value}"));
    }
    command
}
