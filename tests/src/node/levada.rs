//! The command that starts the release binary.

use std::path::Path;
use std::process::Command;

use super::Plan;
use crate::paths;

pub(super) fn command(plan: &Plan, data: &Path) -> Command {
    let mut command = Command::new(paths::binary());
    // The tests' own variables are no keys of the broker's.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LEVADA_") {
            command.env_remove(name);
        }
    }
    command.envs(plan.environment.iter().cloned()).arg("serve").args(&plan.arguments);
    let [listeners, protocols] = plan.listeners(None);
    let own = [
        ("listeners", listeners),
        ("listener.security.protocol.map", protocols),
        ("levada.http.listen", plan.http.to_string()),
        ("log.dirs", data.display().to_string()),
    ];
    for (key, value) in own {
        command.arg("-o").arg(format!("{key}={value}"));
    }
    for (key, value) in &plan.options {
        command.arg("-o").arg(format!("{key}={value}"));
    }
    command
}
