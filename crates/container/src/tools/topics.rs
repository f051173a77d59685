//! `kafka-topics`.

use super::options::{Options, Spec};
use super::{Action, flag, operation, value};
use crate::failure::Failure;

const SPECS: [Spec; 12] = [
    flag("--create"),
    flag("--list"),
    flag("--describe"),
    flag("--alter"),
    flag("--delete"),
    flag("--if-exists"),
    flag("--if-not-exists"),
    flag("--exclude-internal"),
    value("--topic"),
    value("--partitions"),
    value("--replication-factor"),
    value("--config"),
];

pub(super) fn action(words: &[String]) -> Result<Action, Failure> {
    let options = Options::parse(words, &SPECS, "levada topic")?;
    let operations = ["--create", "--list", "--describe", "--alter", "--delete"];
    let mut call = Vec::new();
    match operation(&options, &operations)? {
        "--list" => {
            call.extend(["topic", "list"]);
            call.extend((!options.has("--exclude-internal")).then_some("--internal"));
            call.extend(options.last("--topic"));
            return Ok(Action::Names(options.with_connection(&call), "name"));
        }
        "--describe" => call.extend(["topic", "describe", options.last("--topic").unwrap_or("*")]),
        "--create" => {
            call.extend(["topic", "create", options.required("--topic")?]);
            call.extend(options.has("--if-not-exists").then_some("--if-not-exists"));
            for (theirs, ours) in [("--partitions", "--partitions"), ("--replication-factor", "--replicas")] {
                call.extend(options.last(theirs).into_iter().flat_map(|value| [ours, value]));
            }
            call.extend(options.all("--config").flat_map(|value| ["--config", value]));
        }
        "--alter" => {
            let partitions = options.required("--partitions")?;
            call.extend(["topic", "alter", options.required("--topic")?, "--partitions", partitions]);
        }
        _ => {
            call.extend(["topic", "delete", "--yes", options.required("--topic")?]);
            call.extend(options.has("--if-exists").then_some("--if-exists"));
        }
    }
    Ok(Action::Levada(options.with_connection(&call)))
}
