//! The command that starts the release binary.

use std::path::Path;
use std::process::Command;

use super::Plan;
use crate::paths;

pub(super) fn command(plan: &Plan, home: &Path) -> Command {
    let mut command = Command::new(paths::binary());
    // The variables of the tests are not configuration keys of the broker.
    for (name, _) in std::env::vars_os() {
        if name.to_string_lossy().starts_with("LEVADA_") {
            command.env_remove(name);
        }
    }
    command.envs(plan.environment.iter().cloned()).arg("serve").args(&plan.arguments);
    let http = format!("levada.http.listen={}", plan.http);
    if plan.shares_file {
        command.arg("--config").arg(home.join("server.properties")).args(["-o", &http]);
        return command;
    }
    let [listeners, protocols] = plan.listeners(None);
    let own = [
        ("listeners", listeners),
        ("listener.security.protocol.map", protocols),
        ("log.dirs", home.join("data").display().to_string()),
    ];
    command.args(["-o", &http]);
    for (key, value) in own {
        command.arg("-o").arg(format!("{key}={value}"));
    }
    for (key, value) in &plan.options {
        command.arg("-o").arg(format!("{key}={value}"));
    }
    command
}
