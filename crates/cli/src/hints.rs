//! Kafka's option names, which are accepted with a note about ours.

/// Kafka's option, and ours.
const NAMES: [(&str, &str); 5] = [
    ("--bootstrap-server", "--brokers"),
    ("--replication-factor", "--replicas"),
    ("--from-beginning", "--offset earliest, which is the default"),
    ("--max-messages", "--count"),
    ("--isolation-level", "--isolation"),
];

/// Says which of these arguments have another name here.
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
