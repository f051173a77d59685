//! `kafka-configs` for topics, brokers and groups.

use super::options::{Options, Spec};
use super::{Action, flag, operation, value};
use crate::failure::Failure;

const SPECS: [Spec; 12] = [
    flag("--describe"),
    flag("--alter"),
    flag("--all"),
    flag("--entity-default"),
    value("--entity-type"),
    value("--entity-name"),
    value("--topic"),
    value("--broker"),
    value("--group"),
    flag("--broker-defaults"),
    value("--add-config"),
    value("--delete-config"),
];

pub(super) fn action(words: &[String]) -> Result<Action, Failure> {
    let options = Options::parse(words, &SPECS, "levada config")?;
    let (kind, name) = resource(&options)?;
    let is_describe = operation(&options, &["--describe", "--alter"])? == "--describe";
    if is_describe {
        let mut call = vec!["config", "get", kind];
        call.extend(name);
        call.extend(options.has("--all").then_some("--all"));
        return Ok(Action::Levada(options.with_connection(&call)));
    }
    let name = name.ok_or_else(|| Failure::usage("--entity-name is missing"))?;
    let (verb, given) = match (options.last("--add-config"), options.last("--delete-config")) {
        (Some(added), None) => ("set", added),
        (None, Some(deleted)) => ("delete", deleted),
        _ => return Err(Failure::usage("expected one of --add-config, --delete-config")),
    };
    let entries = entries(given)?;
    let mut call = vec!["config", verb, kind, name];
    call.extend(entries.iter().map(String::as_str));
    Ok(Action::Levada(options.with_connection(&call)))
}

/// Kind and name of the resource, in the words of `levada config`.
fn resource(options: &Options) -> Result<(&str, Option<&str>), Failure> {
    if options.has("--broker-defaults") {
        return Ok(("broker", Some("default")));
    }
    for (option, kind) in [("--topic", "topic"), ("--broker", "broker"), ("--group", "group")] {
        if let Some(name) = options.last(option) {
            return Ok((kind, Some(name)));
        }
    }
    let kind = match options.required("--entity-type")? {
        "topics" => "topic",
        "brokers" => "broker",
        "groups" => "group",
        other => {
            return Err(Failure::usage(format!(
                "--entity-type {other} is not supported in this image; use levada config, levada user"
            )));
        }
    };
    let default = options.has("--entity-default").then_some("default");
    Ok((kind, options.last("--entity-name").or(default)))
}

/// Entries of `KEY=VALUE,KEY=[VALUE,VALUE]`.
fn entries(text: &str) -> Result<Vec<String>, Failure> {
    let (mut entries, mut depth) = (vec![String::new()], 0_u32);
    for c in text.chars() {
        match c {
            '[' if depth == 0 => depth = 1,
            ']' if depth == 1 => depth = 0,
            ',' if depth == 0 => entries.push(String::new()),
            _ => entries.last_mut().into_iter().for_each(|entry| entry.push(c)),
        }
    }
    if depth > 0 || entries.iter().any(String::is_empty) {
        return Err(Failure::usage(format!("{text}: expected KEY=VALUE,KEY=[VALUE,VALUE]")));
    }
    Ok(entries)
}
