//! Tests of the command line itself: it parses, helps, and completes.

use std::collections::BTreeSet;

use clap::CommandFactory;

use super::*;

mod coming_from_kafka;
mod reference;

#[test]
fn command_line_definition_is_consistent() {
    Cli::command().debug_assert();
}

#[test]
fn wrong_command_lines_are_refused() {
    fn check(line: &str, expected: &str) {
        let error = Cli::try_parse_from(line.split(' ')).unwrap_err();
        assert_eq!(error.exit_code(), 2, "{line}");
        assert!(error.to_string().contains(expected), "{line}: {error}");
    }
    check("levada topc list", "a similar subcommand exists: 'topic'");
    check("levada topic create", "<TOPIC>");
    check("levada topic create t -p 0", "0 is not in 1..");
    check("levada topic create t -c x", "expected KEY=VALUE");
    check("levada produce t -z lzma", "[possible values: none, gzip, snappy, lz4, zstd]");
    check("levada produce t -H x", "expected KEY=VALUE");
    check("levada consume t -o soon", "expected earliest, latest");
    check("levada consume t -f %q", "no field %q");
    check("levada consume t -f %v --output json", "cannot be used with");
    check("levada log dump", "<FILE>");
    check("levada group reset g --topic t", "--to-earliest");
    check("levada group reset g --to-latest", "--topic");
    check("levada group reset g --all-topics --topic t --to-latest", "cannot be used with");
    check("levada group reset g --topic t --to-latest --to-earliest", "cannot be used with");
    check("levada group reset g --topic t: --to-latest", "TOPIC:0,2");
    check("levada group reset g --topic t --to-offset -1", "-1 is not in 0..");
    check("levada config set topic t retention.ms", "expected KEY=VALUE");
    check("levada config get planet", "[possible values: topic, broker, group, client-metrics, quota]");
    check("levada offsets --at soon", "expected a time such as");
    check("levada offsets --at 2026-11-21 --ago 1h", "cannot be used with");
    check("levada transaction abort", "<ID>");
    check("levada transaction abort id --topic t -p 0", "cannot be used with");
    check("levada transaction abort --topic t -p 0 --producer-id 1", "--producer-epoch");
}

#[test]
fn every_command_has_help_text() {
    fn check(command: &clap::Command) {
        assert!(command.get_about().is_some(), "{}", command.get_name());
        for argument in command
            .get_arguments()
            .filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()))
        {
            assert!(argument.get_help().is_some(), "{} {}", command.get_name(), argument.get_id());
        }
        let examples = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(examples.contains("Examples:"), "{} shows no example", command.get_name());
        // As wide as clap lets help be: a longer line would be broken.
        let long = examples.lines().find(|line| line.chars().count() > 100);
        assert_eq!(long, None, "{}", command.get_name());
        let mut abouts = BTreeSet::new();
        for subcommand in command.get_subcommands() {
            check(subcommand);
            let about = subcommand.get_about().map(ToString::to_string);
            assert!(abouts.insert(about), "{} says the same as another", subcommand.get_name());
        }
    }
    check(&Cli::command());
}

#[test]
fn completions_name_the_commands() {
    let cli = Cli::try_parse_from(["levada", "completions", "bash"]).unwrap();
    let mut script = Vec::new();
    run(cli, &mut script).unwrap();
    let script = String::from_utf8(script).unwrap();
    for command in [
        "topic",
        "produce",
        "consume",
        "offsets",
        "group",
        "transaction",
        "config",
        "doctor",
        "cp",
        "lab",
        "log",
        "completions",
    ] {
        assert!(
            script.contains(&format!("levada__subcmd__{command}"))
                || script.contains(&format!("levada__{command}")),
            "{command}"
        );
    }
}
