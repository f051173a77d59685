//! `kafka-consumer-groups`.

use super::options::{Options, Spec};
use super::{Action, flag, operation, value};
use crate::failure::Failure;

const SPECS: [Spec; 16] = [
    flag("--list"),
    flag("--describe"),
    flag("--delete"),
    flag("--reset-offsets"),
    flag("--all-groups"),
    flag("--all-topics"),
    flag("--execute"),
    flag("--dry-run"),
    flag("--to-earliest"),
    flag("--to-latest"),
    value("--to-offset"),
    value("--to-datetime"),
    value("--shift-by"),
    value("--group"),
    value("--topic"),
    value("--timeout"),
];

pub(super) fn action(words: &[String]) -> Result<Action, Failure> {
    let options = Options::parse(words, &SPECS, "levada group")?;
    let mut call = Vec::new();
    match operation(&options, &["--list", "--describe", "--delete", "--reset-offsets"])? {
        "--list" => return Ok(Action::Names(options.with_connection(&["group", "list"]), "group")),
        "--describe" if options.has("--all-groups") => call.extend(["group", "describe", "--all"]),
        "--describe" => {
            call.extend(["group", "describe"]);
            options.required("--group")?;
            call.extend(options.all("--group"));
        }
        "--delete" => {
            options.required("--group")?;
            call.extend(["group", "delete", "--yes"]);
            call.extend(options.all("--group"));
        }
        _ => {
            call.extend(["group", "reset", options.required("--group")?]);
            call.extend(options.all("--topic").flat_map(|topic| ["--topic", topic]));
            for name in ["--all-topics", "--to-earliest", "--to-latest", "--execute"] {
                call.extend(options.has(name).then_some(name));
            }
            for name in ["--to-offset", "--to-datetime", "--shift-by"] {
                call.extend(options.last(name).into_iter().flat_map(|value| [name, value]));
            }
        }
    }
    Ok(Action::Levada(options.with_connection(&call)))
}
