//! Kafka's option names: those that are accepted with a note about ours, and those that have
//! another form here.

use clap::error::{ContextKind, ContextValue, Error};

/// Kafka's option, and ours.
const NAMES: [(&str, &str); 5] = [
    ("--bootstrap-server", "--brokers"),
    ("--replication-factor", "--replicas"),
    ("--from-beginning", "--offset earliest, which is the default"),
    ("--max-messages", "--count"),
    ("--isolation-level", "--isolation"),
];

/// Options of Kafka's tools, with the equivalent here.
const ELSEWHERE: [(&[&str], &str); 8] = [
    (&["--topic"], "a topic is named without an option: levada consume clicks, levada topic describe clicks"),
    (&["--group"], "a group is named without an option: levada group describe readers"),
    (
        &["--list", "--describe", "--create", "--delete", "--alter"],
        "a verb has no dashes: levada topic list, levada topic create clicks",
    ),
    (&["--add-config", "--delete-config"], "levada config set topic clicks KEY=VALUE, levada config delete"),
    (&["--reset-offsets"], "levada group reset readers --topic clicks --to-earliest"),
    (
        &["--property", "--reader-property", "--formatter-property"],
        "--key-separator reads keys; --format or --output json prints them",
    ),
    (&["--timeout-ms"], "--exit ends at the last record, --until at an offset or a time"),
    (
        &[
            "--consumer.config",
            "--producer.config",
            "--consumer-property",
            "--producer-property",
            "--consumer-config",
            "--producer-config",
        ],
        "--command-config FILE takes Kafka's client properties",
    ),
];

/// The same error of the command line; for an option of Kafka's with the tip what to do instead.
pub(crate) fn translated(mut error: Error) -> Error {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return error };
    let name = argument.split(['=', ' ']).next().unwrap_or_default();
    let found = ELSEWHERE.iter().find(|(names, _)| names.contains(&name));
    if let Some((_, tip)) = found.filter(|_| error.kind() == clap::error::ErrorKind::UnknownArgument) {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![(*tip).into()]));
    }
    error
}

/// Prints which of these arguments have another name here.
pub(crate) fn tell(arguments: impl Iterator<Item = String>) {
    for argument in arguments.take_while(|argument| argument != "--") {
        if let Some((kafkas, ours)) = found(&argument) {
            eprintln!("note: {kafkas} is Kafka's name; here it is {ours}");
        }
    }
}

fn found(argument: &str) -> Option<(&'static str, &'static str)> {
    let name = argument.split_once('=').map_or(argument, |(name, _)| name);
    NAMES.into_iter().find(|(kafkas, _)| *kafkas == name)
}

#[cfg(test)]
mod tests {
    use super::found;

    #[test]
    fn kafkas_names_are_found_with_and_without_a_value() {
        assert_eq!(found("--bootstrap-server").map(|one| one.1), Some("--brokers"));
        assert_eq!(found("--max-messages=3").map(|one| one.1), Some("--count"));
        assert_eq!(found("--brokers"), None);
    }
}
