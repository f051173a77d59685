//! The commands on the page for users of Kafka's tools.

use clap::Parser;

use super::Cli;

/// Commands of `levada` in the table: each cell may have several, in backticks.
fn commands() -> Vec<&'static str> {
    let page = include_str!("../../../../docs/operating/coming-from-kafka.md");
    let cells =
        page.lines().filter(|line| line.starts_with("| `kafka-")).filter_map(|line| line.split('|').nth(2));
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

#[test]
fn every_command_of_kafka_users_page_exists() {
    let commands = commands();
    assert!(commands.len() >= 33, "a row has no command: {commands:?}");
    for command in commands {
        let parsed = Cli::try_parse_from(command.split(' '));
        assert!(parsed.is_ok(), "{command}: {}", parsed.err().unwrap());
    }
}
