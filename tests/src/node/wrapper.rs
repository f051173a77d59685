//! The commands that start a broker in a separate environment: below a wrapper, in a namespace.

use std::process::Command;

use super::Plan;

/// The command below the wrapper, in the namespace. `ip` becomes the process that it starts.
pub(super) fn surround(plan: &Plan, command: Command) -> Command {
    let wrapped = below(&plan.wrapper, command);
    match &plan.namespace {
        None => wrapped,
        Some(name) => below(&["ip", "netns", "exec", name].map(str::to_owned), wrapped),
    }
}

/// The command as arguments of another one, if there is one.
fn below(outer: &[String], command: Command) -> Command {
    let [program, arguments @ ..] = outer else { return command };
    let mut outer = Command::new(program);
    outer.args(arguments).arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => outer.env(name, value),
            None => outer.env_remove(name),
        };
    }
    outer
}
