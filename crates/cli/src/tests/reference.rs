//! The reference at the end of `docs/operating/command-line.md`, and the manual pages, are made
//! from the definitions of the command line.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use clap::{Arg, CommandFactory};

use super::*;

const MARKER: &str = "<!-- from here on: the definitions of the command line -->\n";

#[test]
fn the_documentation_lists_every_option() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/operating/command-line.md");
    let page = fs::read_to_string(&path).unwrap();
    let (tour, _) = page.split_once(MARKER).unwrap();
    let mut command = Cli::command();
    command.build();
    let mut expected = format!("{tour}{MARKER}");
    section(&command, false, &mut expected);
    if page != expected && std::env::var_os("LEVADA_BLESS").is_some() {
        fs::write(&path, expected).unwrap();
        return;
    }
    assert!(page == expected, "run LEVADA_BLESS=1 cargo test -p levada reference, and commit the page");
}

/// One command and its subcommands, depth first. Options that hold for subcommands too are listed
/// once, above them.
fn section(command: &clap::Command, is_below: bool, page: &mut String) {
    let name = command.get_bin_name().unwrap_or("levada");
    let about = command.get_long_about().or_else(|| command.get_about()).unwrap().to_string();
    let usage = command.clone().render_usage().to_string();
    let usage = usage.trim_start_matches("Usage: ");
    writeln!(page, "\n### {name}\n\n{}\n\n```\n{usage}\n```", paragraphs(&about)).unwrap();
    let arguments: Vec<&Arg> = command
        .get_arguments()
        .filter(|argument| !argument.is_hide_set())
        .filter(|argument| !["help", "version"].contains(&argument.get_id().as_str()))
        .filter(|argument| !(is_below && argument.is_global_set()))
        .collect();
    if !arguments.is_empty() {
        page.push_str("\n| Argument | Meaning |\n|---|---|\n");
    }
    for argument in arguments {
        writeln!(page, "| `{}` | {} |", form(argument), meaning(argument)).unwrap();
    }
    for subcommand in command.get_subcommands().filter(|subcommand| !subcommand.is_hide_set()) {
        section(subcommand, name != "levada", page);
    }
}

/// Description of a command: a line without a full stop, and paragraphs of sentences.
fn paragraphs(about: &str) -> String {
    let mut all: Vec<String> = about.split("\n\n").map(cell).collect();
    all.iter_mut().skip(1).filter(|paragraph| !paragraph.ends_with(':')).for_each(|one| one.push('.'));
    all.join("\n\n")
}

/// `-p, --partitions <COUNT>`, or the name of a positional argument.
fn form(argument: &Arg) -> String {
    let text = argument.to_string().replace('|', "\\|");
    match (argument.get_short(), argument.get_long()) {
        (Some(short), Some(_)) => format!("-{short}, {text}"),
        _ => text,
    }
}

fn meaning(argument: &Arg) -> String {
    let help = argument.get_long_help().or_else(|| argument.get_help()).unwrap();
    let mut text = cell(&help.to_string());
    let values: Vec<String> = argument
        .get_possible_values()
        .iter()
        .filter(|_| argument.get_action().takes_values())
        .filter(|value| !value.is_hide_set())
        .map(|value| match value.get_help() {
            Some(help) => format!("`{}` ({})", value.get_name(), cell(&help.to_string())),
            None => format!("`{}`", value.get_name()),
        })
        .collect();
    if !values.is_empty() {
        write!(text, ". One of {}", values.join(", ")).unwrap();
    }
    let defaults: Vec<_> =
        argument.get_default_values().iter().map(|value| format!("`{}`", value.to_string_lossy())).collect();
    if !defaults.is_empty() && argument.get_action().takes_values() {
        write!(text, ". Default: {}", defaults.join(", ")).unwrap();
    }
    if let Some(variable) = argument.get_env() {
        write!(text, ". Environment: `{}`", variable.to_string_lossy()).unwrap();
    }
    text
}

/// Text that may stand in a cell of a table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").trim_end_matches('.').to_owned()
}

#[test]
fn each_command_has_a_manual_page() {
    let dir = tempfile::tempdir().unwrap();
    let line = ["levada", "man", "--dir", dir.path().to_str().unwrap()];
    run(Cli::try_parse_from(line).unwrap(), &mut Vec::new()).unwrap();
    for name in ["levada", "levada-serve", "levada-topic", "levada-topic-create", "levada-man"] {
        let page = fs::read_to_string(dir.path().join(format!("{name}.1"))).unwrap();
        assert!(page.contains(".SH SYNOPSIS") && page.contains(".SH DESCRIPTION"), "{name}: {page}");
    }
    let page = fs::read_to_string(dir.path().join("levada-topic-create.1")).unwrap();
    assert!(page.contains("\\-\\-partitions") && page.contains("Examples:"), "{page}");
}

#[test]
fn failed_manual_page_directory_is_named() {
    let line = ["levada", "man", "--dir", "/dev/null/man"];
    let failure = run(Cli::try_parse_from(line).unwrap(), &mut Vec::new()).unwrap_err();
    assert!(format!("{failure:?}").contains("/dev/null/man"), "{failure:?}");
}
