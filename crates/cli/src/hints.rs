//! Syntax of other programs: Kafka's option names, some of which are accepted with a note about
//! Levada's and others have another form here, and `help` as a command.

use std::ffi::OsString;

use clap::error::{ContextKind, ContextValue, Error};

/// Options of Kafka's tools, each with the option of `levada`.
const NAMES: [(&str, &str); 5] = [
    ("--bootstrap-server", "--brokers"),
    ("--replication-factor", "--replicas"),
    ("--from-beginning", "--offset earliest, which is the default"),
    ("--max-messages", "--count"),
    ("--isolation-level", "--isolation"),
];

/// Options of Kafka's tools, with the equivalent here.
const ELSEWHERE: [(&[&str], &str); 15] = [
    // Kcat, rpk and Kafka's tools; some commands have the short option for something else.
    (&["-t"], "a topic is named without an option: levada consume clicks, levada produce clicks"),
    (&["-g"], "--group NAME (-G NAME) of levada consume; elsewhere a group is named without an option"),
    (
        &["-b", "--brokers", "--bootstrap-server"],
        "the address follows the verb: levada topic list -b HOST:PORT",
    ),
    (&["--format"], "--output json prints JSON; --output table is the default"),
    (&["-o"], "--output json prints JSON; -o KEY=VALUE is an option of levada serve"),
    (&["--port"], "-o listeners=PLAINTEXT://127.0.0.1:PORT, or listeners in the file of --config"),
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
    (&["--seconds", "--time"], "--duration 30s ends a measurement, or --records"),
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

/// Kinds of Kafka's `--entity-type` whose settings are quotas here.
const QUOTA_KINDS: [&str; 6] = ["client", "clients", "ip", "ips", "user", "users"];

/// Translates `levada help COMMAND` into `levada COMMAND --help`.
pub(crate) fn as_options(mut arguments: Vec<OsString>) -> Vec<OsString> {
    let option = match arguments.get(1).and_then(|word| word.to_str()) {
        Some("help") => "--help",
        _ => return arguments,
    };
    arguments.remove(1);
    arguments.push(option.into());
    arguments
}

/// Name that the user probably meant: at most a third of its letters differ.
pub(crate) fn nearest<'a>(unknown: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    let distances = known.map(|name| (strsim::damerau_levenshtein(unknown, name), name));
    distances.min().filter(|(distance, name)| distance * 3 <= name.len()).map(|(_, name)| name)
}

/// Translates an error of the command line; for an option of Kafka's tools it adds the equivalent
/// here.
pub(crate) fn translated(mut error: Error) -> Error {
    let Some(ContextValue::String(argument)) = error.get(ContextKind::InvalidArg) else { return error };
    let name = argument.split(['=', ' ']).next().unwrap_or_default();
    if name == "--add-scram" {
        // The value has a password in it.
        error.insert(ContextKind::InvalidValue, ContextValue::String("…".to_owned()));
        return error;
    }
    let is_value = |words: &[&str]| matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if words.contains(&value.as_str()));
    if name == "<KIND>" && is_value(&QUOTA_KINDS) {
        let tip = "limits of a client: levada config set quota client-id=NAME producer_byte_rate=1048576";
        error.remove(ContextKind::SuggestedValue);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
        return error;
    }
    let found = ELSEWHERE.iter().find(|(names, _)| names.contains(&name));
    let is_of_serve =
        error.get(ContextKind::Usage).is_some_and(|usage| usage.to_string().contains("levada serve"));
    let tip = match found {
        Some((_, tip)) => (*tip).to_owned(),
        // Kafka's programs take the file without an option.
        None if name.ends_with(".properties") => {
            "pass a properties file with an option: `levada serve --config FILE`, or `--command-config FILE` for client commands"
                .to_owned()
        }
        None if is_of_serve && !name.starts_with('-') => {
            "pass the configuration file with an option: `levada serve --config FILE`".to_owned()
        }
        None => return error,
    };
    if error.kind() == clap::error::ErrorKind::UnknownArgument {
        error.remove(ContextKind::SuggestedArg);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

/// Prints which of these arguments have another name here.
pub(crate) fn tell(arguments: impl Iterator<Item = String>) {
    for argument in arguments.take_while(|argument| argument != "--") {
        if let Some((kafkas, ours)) = found(&argument) {
            tell!("note: {kafkas} is Kafka's name; here it is {ours}");
        }
    }
}

fn found(argument: &str) -> Option<(&'static str, &'static str)> {
    let name = argument.split_once('=').map_or(argument, |(name, _)| name);
    NAMES.into_iter().find(|(kafkas, _)| *kafkas == name)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::{as_options, found, translated};
    use crate::Cli;

    #[test]
    fn kafka_options_are_found_with_optional_value() {
        assert_eq!(found("--bootstrap-server").map(|one| one.1), Some("--brokers"));
        assert_eq!(found("--max-messages=3").map(|one| one.1), Some("--count"));
        assert_eq!(found("--brokers"), None);
    }

    #[test]
    fn properties_file_without_option_gets_hint() {
        let error = Cli::try_parse_from(["levada", "serve", "server.properties"]).unwrap_err();
        let said = translated(error).to_string();
        assert!(
            said.contains("'server.properties'")
                && said.contains("tip: pass a properties file with an option"),
            "{said}"
        );
    }

    #[test]
    fn unknown_word_after_serve_hints_at_config() {
        for word in ["./foo", "levada.conf", "/etc/levada"] {
            let error = Cli::try_parse_from(["levada", "serve", word]).unwrap_err();
            let said = translated(error).to_string();
            assert!(said.contains("`levada serve --config FILE`"), "{word}: {said}");
        }
        let error = Cli::try_parse_from(["levada", "serve", "--confg", "foo"]).unwrap_err();
        let said = translated(error).to_string();
        assert!(said.contains("'--config'") && !said.contains("FILE`"), "{said}");
    }

    #[test]
    fn command_line_errors_hide_passwords() {
        let credential = "SCRAM-SHA-512=[name=admin,password=geheim,iterations=1]";
        let line = ["levada", "storage", "format", "--add-scram", credential];
        let error = Cli::try_parse_from(line).unwrap_err();
        assert!(error.to_string().contains("geheim"), "clap shows values: {error}");
        let said = translated(error).to_string();
        assert!(said.contains("iterations must be") && !said.contains("geheim"), "{said}");
    }

    #[test]
    fn foreign_short_options_hint_at_levada_options() {
        for (line, expected) in [
            ("levada consume -t pay", "levada consume clicks"),
            ("levada consume pay -g x", "-G NAME"),
            ("levada produce -t pay", "levada produce clicks"),
            ("levada -b b:9092 topic list", "levada topic list -b HOST:PORT"),
            ("levada topic list -o json", "--output json prints JSON"),
            ("levada topic list --format json", "--output json prints JSON"),
            ("levada serve --port 9093", "-o listeners="),
            ("levada bench produce t --seconds 3", "--duration 30s"),
            ("levada config set client app producer_byte_rate=1", "levada config set quota client-id="),
        ] {
            let error = Cli::try_parse_from(line.split(' ')).unwrap_err();
            let said = translated(error).to_string();
            assert!(said.contains(expected), "{line}: {said}");
        }
    }

    #[test]
    fn help_works_as_a_command() {
        let check = |given: &str, expected: &str| {
            let words = |line: &str| line.split(' ').map(Into::into).collect::<Vec<_>>();
            assert_eq!(as_options(words(given)), words(expected));
        };
        check("levada help", "levada --help");
        check("levada help topic create", "levada topic create --help");
        check("levada topic create help version", "levada topic create help version");
    }
}
