//! `sh` and `bash` of the image: the part of the shell language that start scripts, health checks
//! and compose files use. A script with any other construct is refused before its first command
//! runs; the message names the line and the construct.

use std::fs;

use crate::failure::Failure;

mod builtins;
mod expand;
mod lexer;
mod parser;
mod run;
#[cfg(test)]
mod tests;

const USAGE: &str =
    "expected -c TEXT or the path of a script: this shell is for scripts, and is not interactive";

/// Runs the shell, and returns its exit code.
pub(crate) fn run(words: &[String]) -> Result<i32, Failure> {
    let mut words = words.iter();
    let mut ends_at_failure = false;
    loop {
        let word = words.next().ok_or_else(|| Failure::usage(USAGE))?;
        let (text, is_command) = match word.as_str() {
            "-c" => (words.next().ok_or_else(|| Failure::usage(USAGE))?.clone(), true),
            // Of a login shell.
            "-l" => continue,
            "-e" => {
                ends_at_failure = true;
                continue;
            }
            // As in -ec: the text follows.
            "-ec" | "-lc" => {
                ends_at_failure |= word == "-ec";
                (words.next().ok_or_else(|| Failure::usage(USAGE))?.clone(), true)
            }
            option if option.starts_with('-') => {
                return Err(Failure::usage(format!("{option} is not supported: {USAGE}")));
            }
            path => (read(path)?, false),
        };
        let script = parser::parse(&text)?;
        let mut shell = run::Shell::of_environment(ends_at_failure);
        // The first word after the text of -c is the name of the script.
        shell.set_arguments(words.skip(usize::from(is_command)).cloned().collect());
        return shell.run_last(&script);
    }
}

fn read(path: &str) -> Result<String, Failure> {
    fs::read_to_string(path).map_err(|error| Failure::not_started(path, &error))
}
